/* SPDX-License-Identifier: Apache-2.0 */
/* array.h - a dense array of numbers that someone else owns: the one description of an
 * n-dimensional array between a body and the kernels.
 *
 * Whoever makes one checks what all others rely on: the rank, the dimensions, the alignment, and
 * that the bytes are there. */
#ifndef ATTND_ARRAY_H
#define ATTND_ARRAY_H

#include "attn.h"

enum { ARRAY_RANK_MAX = 8 };

struct array {
    const void *data; /* row-major, aligned to its dtype; NULL: absent */
    enum attn_dtype dtype;
    int rank;
    int64_t shape[ARRAY_RANK_MAX]; /* each at most INT32_MAX */
};

/* Integers of one dimension: lengths, tokens, numbers of rows. */
struct integers {
    int64_t *values; /* [count]; NULL: absent, or an empty list */
    int64_t count;
    bool is_list; /* a list came, and not one number */
};

/* An empty array fits wherever no rows are asked for: JSON's [] has no widths. */
static inline bool array_is_empty(const struct array *array)
{
    return array->rank == 1 && array->shape[0] == 0;
}

#endif
