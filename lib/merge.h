/* SPDX-License-Identifier: Apache-2.0 */
/* merge.h - merge the partial results of attention over keys that live in several places.
 *
 * Each place computes the context and lse of the same query rows over its own keys (attn.h;
 * kv_offset is the position of its first key). With L = log(sum over parts of exp(lse)) the result
 * over all keys is
 *
 *     context = sum over parts of exp(lse - L) * context        lse = L
 *
 * (FlashAttention-2, Dao 2023, section 3.1; Flash-Decoding.) A part that sees nothing has context 0
 * and lse -INFINITY and changes nothing. If no part sees anything, the result is context 0 and lse
 * -INFINITY. Any order of the parts gives the same bits; merging results of earlier merges gives
 * the same numbers up to rounding. */
#ifndef ATTN_MERGE_H
#define ATTN_MERGE_H

#include <stdint.h>

/* The result of one place; lse in natural logarithms. Borrowed memory, dense. */
struct attn_part {
    const float *context; /* [rows, columns] */
    const float *lse;     /* [rows] */
};

/* Merge rows [first, first + row_count), columns wide. Row first + i goes to context[i *
 * context_stride] and lse[i]; lse may be NULL. weights is room for part_count numbers. If a part's
 * lse of a row is NaN or +INFINITY, the context of that row is NaN. The contents of a part of
 * weight 0 do not count. Cannot fail; part_count may be 0. The result may take the place of a part,
 * at its rows: context = parts[i].context + first * columns with context_stride columns, and lse =
 * parts[i].lse + first. */
void attn_merge(const struct attn_part *parts, int64_t part_count, int64_t first, int64_t row_count,
                int64_t columns, float *context, int64_t context_stride, float *lse,
                double *weights);

#endif
