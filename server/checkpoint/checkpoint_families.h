/* checkpoint_families.h - how each family of published checkpoints names, fuses and lays out its
 * attention, and where its config.json says the rest: one row of a table for each stack of layers.
 *
 * The source of every row is the family's modeling and configuration file in Hugging Face
 * transformers, src/transformers/models/<family>; the tests name them. A field of config.json is
 * written with the names it has had and what it is where it is left out,
 *
 *     "n_head|num_attention_heads=12"
 *
 * of which the first that is there counts, one that is null only where none follows; "a.b" is b of
 * the object a;
 * without "=" it then is 0 or false, without a name it is always what follows, and NULL is "". A
 * field that is null is 0 or false too. */
#ifndef ATTND_CHECKPOINT_FAMILIES_H
#define ATTND_CHECKPOINT_FAMILIES_H

#include "layer.h"
#include "model/model_names.h"
#include "text/json.h"

struct checkpoint_layer;

enum checkpoint_fusion {
    CHECKPOINT_SEPARATE,
    CHECKPOINT_ROWS,   /* one tensor of all queries, then all keys, then all values */
    CHECKPOINT_GROUPS, /* one tensor; of each key/value head its queries, its key, its value */
    CHECKPOINT_KEYS    /* queries by themselves; one tensor of all keys, then all values */
};

/* Layers that are named and built alike. */
struct checkpoint_stack {
    const char *model_type; /* names of the family in config.json, "bert|electra" */
    const char *kind;       /* of the layers, for clients: "self", "cross", "encoder", ... */
    const char *section;    /* the object of config.json that has the fields, "a|b" the first that
                               there is; NULL: the whole */
    bool section_is_needed; /* where it is missing there are no such layers */
    const char *prefixes;   /* that names of tensors may begin with, "bert.|" */
    const char *layer;      /* then goes this, % being the number: "encoder.layer.%.attention.", and
                               a second % that of the layer within it */
    const char *projections[MODEL_PROJECTION_COUNT]; /* and this, before .weight and .bias; what
                                                        a fused tensor holds besides is NULL */
    enum checkpoint_fusion fusion;
    bool in_out;          /* matrices are [in, out] */
    unsigned biases;      /* projections that have one, 1 << projection each, */
    unsigned more_biases; /* and those that have one too where this flag is set */
    const char *more_biases_if;

    const char *layers, *width, *q_heads;
    const char *kv_heads; /* 0: q_heads */
    const char *head_dim; /* 0: width / q_heads */
    const char *causal;
    const char *both_ways; /* a causal family's flag that it looks both ways */

    const char *clip; /* of projected queries, keys and values */

    const char *norms[2]; /* of query and key, after layer and before .weight, % being the head
                             where each has a tensor of its own; NULL: none */
    const char *norms_if; /* this flag is set; NULL: always */
    const char *norm_eps;
    enum attn_norm_scope norm_scope;
    bool norm_is_centred, norm_has_bias;
    bool norm_adds_one; /* to its weight */

    const char *theta;           /* of the rotary embedding; NULL: there is none */
    bool rope_needs_window;      /* only layers with a window have it */
    const char *llama3_if;       /* scaled as Llama 3.1 where this flag is set */
    const char *local_theta;     /* that of layers with a window, if it is another one */
    const char *rotary_fraction; /* of head_dim; 0: all of it */
    const char *rotary_dim;      /* the same in columns; 0: as rotary_fraction says */
    bool interleaved;
    const char *rope_if;            /* there is one only where this flag is set */
    const char *scaling;            /* the object that scales it; NULL: rope_scaling */
    const char *scaling_type;       /* its rope_type where it says none */
    const char *positions;          /* that the model is for, */
    const char *original_positions; /* and was trained for before it was scaled, NULL:
                                       original_max_position_embeddings */

    bool unscaled;          /* scale 1, */
    const char *scale;      /* or this, */
    const char *scale_from; /* or 1/sqrt of this; 0: of head_dim */
    const char *softcap;
    const char *window;                                       /* keys that a row sees; 0: all, */
    bool (*has_window)(const cJSON *section, int64_t number); /* or on all layers but some; NULL */
    const char *alibi;      /* slopes of the ALiBi paper in place of a rotary embedding, */
    const char *alibi_max;  /* 8 in the paper; NULL: that */
    bool alibi_is_scaled;   /* times 1/sqrt(head_dim) */
    const char *bias_table; /* of relative positions, after the layer numbered 0; NULL: none */
    const char *buckets, *max_distance;
    const char *image_bias, *image_bias_if;   /* of patches, after layer, where this flag is set */
    const char *shared_bias, *shared_bias_if; /* and of all layers, after the prefix */
    const char *refused;  /* fields that must be null, 0 or false: "qk_ln|prefix_lm"; "a.b|c=3" */
    const char *expected; /* and those that must be what follows, */
    const char *reads;    /* those that functions of the row read, */
    const char *ignored;  /* and those that change no attention, as shell patterns: see
                             checkpoint_known.h */

    int64_t (*number)(const cJSON *section, int64_t index); /* in names; NULL: its index */
    const char *inner; /* layers of attention that each of layers is; NULL: it is one */
    bool (*adjust)(struct checkpoint_layer *layer, struct fault *fault); /* what no field says */
};

/* The rows of a model_type, one after the other; *count is 0 where there are none. */
const struct checkpoint_stack *checkpoint_families_find(const char *model_type, int *count);

/* The table, in parts; each ends with a row whose model_type is NULL. */
extern const struct checkpoint_stack checkpoint_encoders[];
extern const struct checkpoint_stack checkpoint_decoders[];
extern const struct checkpoint_stack checkpoint_llamas[];

#endif
