/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_text.h - the numbers of a tensor as nested JSON arrays, whole or in parts.
 *
 * Rank 2 and shape {2, 3} give [[a,b,c],[d,e,f]]. A part is the text of consecutive numbers with
 * the brackets around them. The parts of a tensor, one after the other, are the same bytes as the
 * whole, so several threads can write one tensor into several buffers. */
#ifndef ATTND_TENSOR_TEXT_H
#define ATTND_TENSOR_TEXT_H

#include "attn.h"

#include <stddef.h>
#include <stdint.h>

enum { TENSOR_TEXT_RANK_MAX = 8, TENSOR_TEXT_NUMBER_BYTES_MAX = 48 };

struct tensor_text {
    const void *values; /* dense, row-major; must stay until the last part is written */
    enum attn_dtype dtype;
    bool is_integers; /* values are int64_t; dtype means nothing */
    int rank;         /* 1 or more */
    int64_t shape[TENSOR_TEXT_RANK_MAX];
    int64_t count; /* of all numbers: the product of shape */
};

/* A tensor with its count; shape is copied. */
struct tensor_text tensor_text_make(const void *values, enum attn_dtype dtype, int rank,
                                    const int64_t *shape);

/* The most bytes that a number takes with its comma and brackets, including bytes behind it that
 * may be touched; at most TENSOR_TEXT_NUMBER_BYTES_MAX. */
size_t tensor_text_number_bytes(const struct tensor_text *tensor);

/* The most bytes that a part of count numbers takes, including bytes behind it that may be touched.
 */
size_t tensor_text_bytes(const struct tensor_text *tensor, int64_t count);

/* Writes the part of count numbers, 1 or more, from number `first` on, with the brackets before,
 * between and behind them. out has room for tensor_text_bytes() bytes, or for
 * count * tensor_text_number_bytes(). Returns how many bytes the part takes. */
size_t tensor_text_write(const struct tensor_text *tensor, int64_t first, int64_t count, char *out);

#endif
