/* checkpoint_families.h - the tables of families of published checkpoints: how each family names,
 * fuses and lays out its attention, and where its config.json says the rest. A row of a table is
 * one stack of layers.
 *
 * The source of a row is the family's modeling and configuration file in Hugging Face transformers,
 * src/transformers/models/<family>; the tests name the commit. To add a family:
 *
 * 1. Choose the table: checkpoint_llamas.c for tensors that have the names of Llama or Meta,
 *    checkpoint_encoders.c for encoders with or without a decoder, else checkpoint_decoders.c.
 * 2. Write a row for each kind of its layers, one after the other: self, cross, ... Leave out
 *    what it does not have. What no member can say goes to has_window, number or adjust.
 * 3. List in ignored the fields of config.json that change no attention: others are refused.
 * 4. Write out its forward() in tests/unit/test_checkpoint_*.c and compare. Put the config.json
 *    of a published model into tests/unit/published_configs.json.
 * 5. Name it in API_MODELS.md, "Published checkpoints".
 *
 * Members of a row write a field of config.json with all the names that it has had and its default:
 *
 *     "n_head|num_attention_heads=12"
 *
 * The first of these names that config.json has counts; a name whose value is null counts only if
 * it is the last. "a.b" is the field b of the object a. Without "=" the default is 0 or false;
 * without a name the value is always the one after "="; NULL is the same as "". A value of null is
 * 0 or false. */
#ifndef ATTND_CHECKPOINT_FAMILIES_H
#define ATTND_CHECKPOINT_FAMILIES_H

#include "layer.h"
#include "model/model_names.h"
#include "text/json.h"

struct checkpoint_layer;

enum checkpoint_fusion {
    CHECKPOINT_SEPARATE, /* a tensor for each projection */
    CHECKPOINT_ROWS,     /* one tensor of all queries, then all keys, then all values */
    CHECKPOINT_GROUPS,   /* one tensor; for each key/value head its queries, its key, its value */
    CHECKPOINT_KEYS      /* a tensor of queries; another one of all keys, then all values */
};

/* A row: layers that are named and built alike. */
struct checkpoint_stack {
    const char *model_type; /* names of the family in config.json, "bert|electra" */
    const char *kind;       /* of the layers, for clients: "self", "cross", "encoder", ... */
    const char *section;    /* the object of config.json that has the fields, "a|b": the first that
                               there is; NULL: config.json itself */
    bool section_is_needed; /* without the section there are no such layers */
    const char *prefixes;   /* that names of tensors may begin with; "bert.|" is "bert." or none */
    const char *layer;      /* follows the prefix, "encoder.layer.%.attention."; % is the number of
                               the layer, a second % the number of the inner layer within it */
    const char *projections[MODEL_PROJECTION_COUNT]; /* follow layer, before .weight and .bias;
                                                        NULL: in the fused tensor before it */
    enum checkpoint_fusion fusion;
    bool in_out;          /* matrices are [in, out] */
    unsigned biases;      /* the projections that have one, 1 << projection each */
    unsigned more_biases; /* those that have one only where the next flag is set */
    const char *more_biases_if;

    const char *layers, *width, *q_heads;
    const char *kv_heads; /* 0: q_heads */
    const char *head_dim; /* 0: width / q_heads */
    const char *causal;
    const char *both_ways; /* the flag by which a causal family looks both ways */

    const char *clip; /* the largest magnitude of projected numbers; 0: any */

    const char *norms[2]; /* tensors of the norms of query and key, after layer and before .weight;
                             a % is the head, where each head has its own tensor; NULL: no norms */
    const char *norms_if; /* there are norms only where this flag is set; NULL: always */
    const char *norm_eps;
    enum attn_norm_scope norm_scope;
    bool norm_is_centred, norm_has_bias;
    bool norm_adds_one; /* to the weight in the file */

    const char *theta;           /* of the rotary embedding; NULL: the family has none */
    bool rope_needs_window;      /* only layers with a window have the embedding */
    const char *llama3_if;       /* where this flag is set it is scaled as in Llama 3.1 */
    const char *local_theta;     /* theta of layers with a window; NULL: the same theta */
    const char *rotary_fraction; /* the part of head_dim that is rotated; 0: all of it */
    const char *rotary_dim;      /* the same in columns; 0: as rotary_fraction says */
    bool interleaved;            /* a pair is two neighbouring columns */
    const char *rope_if;      /* there is an embedding only where this flag is set; NULL: always */
    const char *scaling;      /* the object that scales it; NULL: rope_scaling */
    const char *scaling_type; /* the scaling's rope_type where it has none */
    const char *positions;    /* the length that the model is made for */
    const char *original_positions; /* the length that it was trained for before it was scaled;
                                       NULL: original_max_position_embeddings */

    bool unscaled;          /* the scale is 1 */
    const char *scale;      /* else it is this; 0: see scale_from */
    const char *scale_from; /* else 1/sqrt of this; 0: of head_dim */
    const char *softcap;
    const char *window; /* the number of keys that a row sees; 0: all */
    bool (*has_window)(const cJSON *section, int64_t index); /* of a layer; NULL: all do */
    const char *alibi;      /* a flag: slopes of the ALiBi paper in place of a rotary embedding */
    const char *alibi_max;  /* 8 in the paper, and where this is NULL */
    bool alibi_is_scaled;   /* slopes are multiplied by the scale of the scores */
    const char *bias_table; /* T5's relative position bias, after layer of layer 0; NULL: none */
    const char *buckets, *max_distance;
    const char *distances; /* BERT's rows for relative positions, after layer, where
                              position_embedding_type asks for them; NULL: none */
    const char *image_bias, *image_bias_if;   /* BEiT's, after layer, where the flag is set */
    const char *shared_bias, *shared_bias_if; /* BEiT's of all layers, after the prefix */
    const char *refused;  /* fields that must be null, 0 or false, "qk_ln|prefix_lm" */
    const char *expected; /* fields that must have the value after "=", "a.b=true|c=3" */
    const char *reads;    /* fields that the row's functions read */
    const char *ignored;  /* fields that change no attention, as shell patterns: see
                             checkpoint_known.h */

    int64_t (*number)(const cJSON *section, int64_t index); /* in tensors' names; NULL: the index */
    const char *inner; /* how many attention layers each of layers is; NULL: one */
    bool (*adjust)(struct checkpoint_layer *layer, struct fault *fault); /* what no field says */
};

/* The first row of a model_type; *count is how many rows it has, one after the other, or 0. */
const struct checkpoint_stack *checkpoint_families_find(const char *model_type, int *count);

/* Whether names, "roberta|camembert", has model_type. */
bool checkpoint_families_has(const char *names, const char *model_type);

/* The tables. Each ends with a row whose model_type is NULL. */
extern const struct checkpoint_stack checkpoint_encoders[];
extern const struct checkpoint_stack checkpoint_decoders[];
extern const struct checkpoint_stack checkpoint_llamas[];

#endif
