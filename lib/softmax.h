/* SPDX-License-Identifier: Apache-2.0 */
/* softmax.h - softmax and log-softmax along one axis of an array.
 *
 *     softmax(x)_i     = exp(x_i - max(x)) / sum over j of exp(x_j - max(x))
 *     log_softmax(x)_i = x_i - max(x) - log(sum over j of exp(x_j - max(x)))
 *
 * The meaning is that of ONNX Softmax and LogSoftmax, opset 13. As in attention, numbers may be
 * hidden, and a row without visible numbers becomes 0 (its logarithms -INFINITY), never NaN. All
 * arithmetic is in double, so an output that is not F64 is off by one rounding, for any row
 * length. */
#ifndef ATTN_SOFTMAX_H
#define ATTN_SOFTMAX_H

#include "attn.h"

/* A dense array [outer, length, inner]; the softmax runs along the middle axis. There are outer *
 * inner rows of length numbers. Row o * inner + i begins at element o * length * inner + i, and its
 * numbers are inner elements apart. Sizes may be 0. */
struct attn_softmax {
    const void *input;
    void *output; /* input itself, or memory that does not overlap it */
    int64_t outer, length, inner;

    /* NULL, or how many numbers of a row are visible, counted from its first: row r has visible[r /
     * rows_per_visible], which is 0 or more; rows_per_visible is 1 or more. Hidden numbers are not
     * read. A number of -INFINITY counts as hidden, except that NaN or +INFINITY in a row makes
     * every visible number of that row NaN. */
    const int64_t *visible;
    int64_t rows_per_visible;

    bool is_log;

    enum attn_dtype dtype; /* of input and output: F32, F64, F16 or BF16 */
};

/* Compute rows [first, first + count). Different rows may be computed at the same time. */
void attn_softmax_run(const struct attn_softmax *softmax, int64_t first, int64_t count);

#endif
