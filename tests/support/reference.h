/* SPDX-License-Identifier: Apache-2.0 */
/* reference.h - attention in double, in the form of the textbook.
 *
 * It follows the formulas of attn.h and layer.h alone and knows nothing of how lib/ computes: no
 * tiles, no online softmax, one loop per sum. It is slow on purpose. Tests compare the answers
 * of lib/ with it. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include "layer.h"

/* Everything attention can answer, dense, in double. */
struct reference {
    int64_t batch, q_heads, q_len, kv_len, v_head_dim;
    union { /* [batch, q_heads, q_len, columns], by name or by enum attn_output */
        double *out[ATTN_OUTPUT_COUNT];
        struct {
#define X(NAME, name, columns, step) double *name;
            ATTN_OUTPUT_MAP(X)
#undef X
        };
    };
    double *projected; /* [q_len, d_out]: the layer's context; NULL where there is no layer */
};

/* Does not read the problem's outputs. reference_free() releases the result. */
void reference_attention(const struct attn_problem *problem, struct reference *reference);

/* The same through projections and rotary embedding. */
void reference_layer(const struct attn_layer_problem *problem, struct reference *reference);

void reference_free(struct reference *reference);

/* y[rows][linear->out] = x . weight^T + bias in double; x has x_columns columns. */
void reference_linear(const struct attn_linear *linear, const double *x, int64_t rows,
                      int64_t x_columns, double *y);

/* Turns row[rope->dim] to its position in place, in a call of sequence_length positions. */
void reference_rope(const struct attn_rope *rope, int64_t position, double sequence_length,
                    double *row);

#endif
