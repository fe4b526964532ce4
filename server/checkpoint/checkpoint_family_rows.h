/* checkpoint_family_rows.h - short names to write the rows of the tables of families with: sets of
 * projections, and initialisers that rows of several tables share. */
#ifndef ATTND_CHECKPOINT_FAMILY_ROWS_H
#define ATTND_CHECKPOINT_FAMILY_ROWS_H

#include "checkpoint/checkpoint_family.h"

/* Sets of projections, as a row's biases. */
enum {
    Q = 1u << MODEL_Q,
    K = 1u << MODEL_K,
    V = 1u << MODEL_V,
    O = 1u << MODEL_O,
};

/* The names of the four tensors. */
#define PROJECTIONS(q, k, v, o)                                                                    \
    {                                                                                              \
        q, k, v, o                                                                                 \
    }

/* The names of two tensors, the first of which holds query, key and value. */
#define FUSED(qkv, o)                                                                              \
    {                                                                                              \
        qkv, NULL, NULL, o                                                                         \
    }

#define OUT_PROJ PROJECTIONS("q_proj", "k_proj", "v_proj", "out_proj")

#define POSITIONS(count) .positions = "max_position_embeddings=" #count

#define ENCODER_FIELDS                                                                             \
    .layers = "num_hidden_layers=12", .width = "hidden_size=768",                                  \
    .q_heads = "num_attention_heads=12"

#define PASS_NORMS(eps) .norm_is_centred = true, .norm_bias = "=true", .norm_eps = (eps)

#endif
