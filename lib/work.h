/* work.h - what the tasks of a plan have to do, counted before they run.
 *
 * For whoever has to say how long something will take. What is counted is what the kernels do, not
 * what the formulas say: rows padded to lanes, hidden pairs skipped but where a map shows them,
 * keys once for each task that reads them. Steps beside the two products count as so many steps of
 * the softmax as they are like. Amounts are doubles: exact up to 2^53, and they do not overflow,
 * however large a shape is. No number of a tensor is read but row_kv_len's. */
#ifndef ATTN_WORK_H
#define ATTN_WORK_H

#include "layer_gradient.h"

/* Flops are multiplications and additions, each one. */
struct attn_work {
    double tasks;
    double projection_flops;
    double parameter_bytes; /* of projections, once for each chunk of rows that reads them */
    double moved_numbers;   /* that a tile transposes, a norm scales or a position turns */
    double tile_flops;      /* of scores and context */
    double pairs;           /* scores on their way through the softmax */
    double decode_flops;    /* the same two where query rows are fewer than lanes: flops, */
    double decode_pairs;    /* pairs, */
    double stream_bytes;    /* and keys and values, each of which is read for few rows only */
    double map_bytes;       /* of maps that are written */
    double tanhs;           /* of additive scores */
    double double_flops;    /* all of a plan that computes in double */
    double gradient_flops;  /* of gradients of attention */
    double gradient_tanhs;
};

/* What row i sees of keys 0 to kv_len - 1: those j with low + i <= j < high + i. */
struct attn_band {
    double low, high; /* -INFINITY and INFINITY: no bound */
};

/* The pairs that q_len rows see together. */
double attn_band_pairs(const struct attn_band *band, double q_len, double kv_len);

/* What each of these does is added to *work. past_len is that of the call: tokens before row 0. */
void attn_plan_work(const struct attn_plan *plan, int64_t past_len, struct attn_work *work);
void attn_gradient_plan_work(const struct attn_gradient_plan *plan, int64_t past_len,
                             struct attn_work *work);
void attn_layer_work(const struct attn_layer_plan *plan, struct attn_work *work);

/* The part of attn_layer_work() that is one product: its flops and its parameters. */
void attn_layer_product_work(const struct attn_layer_plan *plan, enum attn_layer_product product,
                             struct attn_work *work);

void attn_layer_gradient_work(const struct attn_layer_gradient_plan *plan, struct attn_work *work);

#endif
