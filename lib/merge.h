/* merge.h - attention over keys that live in several places, put together again.
 *
 * Each place answers for the same query rows with the context and lse of its own keys (attn.h;
 * kv_offset tells it where its keys stand). With L = log(sum over parts of exp(lse)) the whole is
 *
 *     context = sum over parts of exp(lse - L) * context        lse = L
 *
 * (FlashAttention-2, Dao 2023, section 3.1; Flash-Decoding.) A part that saw nothing, context 0
 * and lse -INFINITY, changes nothing; where no part saw anything, so is the whole. Any order of
 * the parts gives the same bits; merging what was merged before gives the same to rounding. */
#ifndef ATTN_MERGE_H
#define ATTN_MERGE_H

#include <stdint.h>

/* What one place answered, natural logarithms. Borrowed memory, dense. */
struct attn_part {
    const float *context; /* [rows, columns] */
    const float *lse;     /* [rows] */
};

/* Rows [first, first + row_count) of the whole, columns wide: row i goes to
 * context[i * context_stride] and lse[i], i counted from 0 for row first. lse may be NULL. weights
 * is room for part_count numbers. A row of which a part's lse is NaN or +INFINITY has context NaN.
 * What a part of weight 0 holds does not count. Cannot fail; part_count may be 0. */
void attn_merge(const struct attn_part *parts, int64_t part_count, int64_t first, int64_t row_count,
                int64_t columns, float *context, int64_t context_stride, float *lse,
                double *weights);

#endif
