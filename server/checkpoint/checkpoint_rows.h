/* checkpoint_rows.h - short names to write the rows of the tables with: sets of projections, and
 * initialisers that many rows share. Only for checkpoint_encoders.c, checkpoint_decoders.c and
 * checkpoint_llamas.c. What the rows of one table share is a macro in its file. */
#ifndef ATTND_CHECKPOINT_ROWS_H
#define ATTND_CHECKPOINT_ROWS_H

#include "checkpoint/checkpoint_families.h"

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

#endif
