/* checkpoint_families.h - how each family of published checkpoints names, fuses and lays out its
 * attention, and where its config.json says the rest: one row of a table for each stack of layers.
 *
 * The source of every row is the family's modeling and configuration file in Hugging Face
 * transformers, src/transformers/models/<family>; the tests name them. A field of config.json is
 * written with the names it has had and what it is where it is left out,
 *
 *     "n_head|num_attention_heads=12"
 *
 * of which the first that is there counts, one that is null only where none follows;
 * without "=" it then is 0 or false, without a name it is always what follows, and NULL is "". A
 * field that is null is 0 or false too. */
#ifndef ATTND_CHECKPOINT_FAMILIES_H
#define ATTND_CHECKPOINT_FAMILIES_H

#include "json.h"
#include "model_names.h"

struct checkpoint_layer;

enum checkpoint_fusion {
    CHECKPOINT_SEPARATE,
    CHECKPOINT_ROWS,  /* one tensor of all queries, then all keys, then all values */
    CHECKPOINT_GROUPS /* one tensor; of each key/value head its queries, its key, its value */
};

/* Layers that are named and built alike. */
struct checkpoint_stack {
    const char *model_type; /* names of the family in config.json, "bert|electra" */
    const char *kind;       /* of the layers, for clients: "self", "cross", "encoder", ... */
    const char *section;    /* the object of config.json that has the fields; NULL: the whole */
    const char *prefixes;   /* that names of tensors may begin with, "bert.|" */
    const char *layer;      /* then goes this, % being the number: "encoder.layer.%.attention." */
    const char *projections[MODEL_PROJECTION_COUNT]; /* and this, before .weight and .bias; of a
                                                        fused tensor K and V are NULL */
    enum checkpoint_fusion fusion;
    bool in_out;          /* matrices are [in, out] */
    unsigned biases;      /* projections that have one, 1 << projection each, */
    unsigned more_biases; /* and those that have one too where this flag is set */
    const char *more_biases_if;

    const char *layers, *width, *q_heads;
    const char *kv_heads; /* 0: q_heads */
    const char *head_dim; /* 0: width / q_heads */
    const char *causal;

    const char *norms[2]; /* of the heads of query and key, after layer and before .weight; NULL */
    const char *norm_eps;
    bool norm_adds_one; /* to its weight */

    const char *theta;           /* of the rotary embedding; NULL: there is none */
    const char *local_theta;     /* that of layers with a window, if it is another one */
    const char *rotary_fraction; /* of head_dim; 0: all of it */
    const char *rotary_dim;      /* the same in columns; 0: as rotary_fraction says */
    bool interleaved;

    bool unscaled;          /* scale 1, */
    const char *scale_from; /* or 1/sqrt of this; 0: of head_dim */
    const char *softcap;
    const char *window;                                       /* keys that a row sees; 0: all, */
    bool (*has_window)(const cJSON *section, int64_t number); /* or on all layers but some; NULL */
    const char *alibi;      /* slopes of the ALiBi paper in place of a rotary embedding, */
    bool alibi_is_scaled;   /* times 1/sqrt(head_dim) */
    const char *bias_table; /* of relative positions, after the layer numbered 0; NULL: none */
    const char *buckets, *max_distance;
    const char *refused; /* fields that must be null, 0 or false: "clip_qkv|qk_layernorm" */

    int64_t (*number)(const cJSON *section, int64_t index); /* in names; NULL: its index */
    bool (*adjust)(struct checkpoint_layer *layer, struct fault *fault); /* what no field says */
};

/* The rows of a model_type, one after the other; *count is 0 where there are none. */
const struct checkpoint_stack *checkpoint_families_find(const char *model_type, int *count);

/* The table, in two parts; each ends with a row whose model_type is NULL. */
extern const struct checkpoint_stack checkpoint_encoders[];
extern const struct checkpoint_stack checkpoint_decoders[];

#endif
