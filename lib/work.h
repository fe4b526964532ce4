/* SPDX-License-Identifier: Apache-2.0 */
/* work.h - the amount of work of a plan, counted before it runs, to predict how long it takes.
 *
 * The counts are of what the kernels do, not of what the formulas say: rows padded to lanes; hidden
 * pairs only where a map shows them; keys once for each task that reads them. Steps beside the two
 * products count as the number of softmax steps that they resemble. Amounts are doubles: exact up
 * to 2^53, and they do not overflow for any shape. Of the tensors' numbers, only row_kv_len is
 * read. */
#ifndef ATTN_WORK_H
#define ATTN_WORK_H

#include "layer_gradient.h"

/* A flop is one multiplication or one addition. */
struct attn_work {
    double tasks;
    double projection_flops;
    double parameter_bytes; /* of projections, once for each chunk of rows that reads them */
    double moved_numbers; /* transposed by a tile, scaled by a norm, rotated by a position, added to
                             other rows */
    double tile_flops;    /* of scores and context */
    double pairs;         /* scores on their way through the softmax */
    double decode_flops;  /* decode (fewer query rows than lanes): flops of scores and context */
    double decode_pairs;  /* decode: scores through the softmax */
    double stream_bytes;  /* decode: keys and values, each of which is read for few rows only */
    double map_bytes;     /* of maps that are written */
    double tanhs;         /* of additive scores, and activations */
    double double_flops;  /* everything in a plan that computes in double */
    double gradient_flops; /* of gradients of attention */
    double gradient_tanhs;
};

/* Row i sees the keys j of 0 to kv_len - 1 with low + i <= j < high + i. */
struct attn_band {
    double low, high; /* -INFINITY and INFINITY: no bound */
};

/* The number of pairs that q_len rows see together. */
double attn_band_pairs(const struct attn_band *band, double q_len, double kv_len);

/* Each of these adds its counts to *work. past_len is that of the call: tokens before row 0. */
void attn_plan_work(const struct attn_plan *plan, int64_t past_len, struct attn_work *work);
void attn_gradient_plan_work(const struct attn_gradient_plan *plan, int64_t past_len,
                             struct attn_work *work);
void attn_layer_work(const struct attn_layer_plan *plan, struct attn_work *work);

/* The part of attn_layer_work() that is one product: its flops and its parameter bytes. */
void attn_layer_product_work(const struct attn_layer_plan *plan, enum attn_layer_product product,
                             struct attn_work *work);

/* A product of linear.h, with its activation; and one pass over rows: a norm, a sum, a gathering of
 * rows of a table. */
void attn_product_work(const struct attn_product *product, struct attn_work *work);
void attn_rows_work(int64_t row_count, int64_t columns, struct attn_work *work);

void attn_layer_gradient_work(const struct attn_layer_gradient_plan *plan, struct attn_work *work);

#endif
