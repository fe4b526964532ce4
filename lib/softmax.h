/* softmax.h - softmax and log-softmax along one axis of an array.
 *
 *     softmax(x)_i     = exp(x_i - max(x)) / sum over j of exp(x_j - max(x))
 *     log_softmax(x)_i = x_i - max(x) - log(sum over j of exp(x_j - max(x)))
 *
 * The meaning is that of ONNX Softmax and LogSoftmax, opset 13, with what attention adds: numbers
 * may be hidden, and a row of which nothing is visible becomes 0 (its logarithms -INFINITY), never
 * NaN. All is computed in double, so an answer that is not F64 is off by one rounding, however long
 * the row is. */
#ifndef ATTN_SOFTMAX_H
#define ATTN_SOFTMAX_H

#include "attn.h"

/* A dense array [outer, length, inner]; the axis is the middle one. There are outer * inner rows of
 * length numbers each, of which one begins at o * length * inner + i; row o * inner + i is that
 * one. Sizes may be 0. */
struct attn_softmax {
    const void *input;
    void *output; /* input itself, or memory that does not overlap it */
    int64_t outer, length, inner;

    /* NULL, or how many numbers of a row are visible, counted from its first: row r has
     * visible[r / rows_per_visible], 0 or more, rows_per_visible being 1 or more. What is hidden is
     * not read. A number of -INFINITY is as good as hidden; beside NaN or +INFINITY every visible
     * number of the row becomes NaN. */
    const int64_t *visible;
    int64_t rows_per_visible;

    bool is_log;

    enum attn_dtype dtype; /* of input and output: F32, F64, F16 or BF16 */
};

/* Computes rows [first, first + count). Different rows may be computed at the same time. */
void attn_softmax_run(const struct attn_softmax *softmax, int64_t first, int64_t count);

#endif
