/* SPDX-License-Identifier: Apache-2.0 */
/* mask.h - which keys a query row may attend to. */
#ifndef ATTN_MASK_H
#define ATTN_MASK_H

#include "attn.h"
#include "work.h"

#include "kernels/kernels.h"

#include <math.h>

/* The keys [low, high) that one query row may see according to causal, window, kv_len, row_kv_len,
 * past_len, kv_offset and the length of a short mask. Between 0 and kv_len; { 0, 0 } if it sees
 * none. */
struct key_range {
    int64_t low, high;
};

struct key_range attn_mask_row(const struct attn_problem *problem, int64_t batch, int64_t row);

/* Causal and window of all rows as one band, to count pairs. An end that does not move by one key
 * from row to row is where it is on average. */
struct attn_band attn_mask_band(const struct attn_problem *problem, int64_t past_len);

/* The keys [low, high) that first_keys and last_keys hide from a row; low >= high if none. That of
 * a later row ends later. */
struct key_range attn_mask_gap(const struct attn_problem *problem, int64_t batch, int64_t row);

/* May keys within a row's range be hidden from it? */
static inline bool attn_mask_tests_pairs(const struct attn_problem *problem)
{
    return problem->mask.data != NULL || problem->last_keys > 0;
}

/* The ranges of row_count query rows from row on, [row_count]; the keys that at least one of them
 * may see, { 0, 0 } if there are none; and the keys that every one of them may see. */
void attn_mask_rows(const struct attn_problem *problem, int64_t batch, int64_t row,
                    int64_t row_count, struct key_range *ranges, struct key_range *any,
                    struct key_range *every);

/* The head's sink; -INFINITY if it has none. */
static inline float attn_mask_sink(const struct attn_problem *problem, int64_t q_head)
{
    return problem->sinks != NULL ? problem->sinks[q_head] : -INFINITY;
}

/* Does the range lack a key of [first, end)? */
static inline bool attn_range_cuts(const struct key_range *range, int64_t first, int64_t end)
{
    return range->low > first || range->high < end;
}

/* distance[r] = p - k for width query rows from row on and the key at index key. */
void attn_mask_distances(const struct attn_problem *problem, int64_t batch, int64_t row,
                         int64_t key, int64_t width, float *distance);

/* The same in double, for one row. */
double attn_mask_distance(const struct attn_problem *problem, int64_t batch, int64_t row,
                          int64_t key);

/* What follows is the caller's mask and the gaps of the rows. */

/* The biases of one query row and n keys from key on. Past the end of a mask that
 * is shorter than the keys, the bias is 0. */
void attn_mask_biases(const struct attn_problem *problem, const struct attn_kernels *kernels,
                      int64_t batch, int64_t head, int64_t row, int64_t key, int64_t n,
                      double *biases);

/* The same in float, for a mask that is not F64. */
void attn_mask_floats(const struct attn_problem *problem, const struct attn_kernels *kernels,
                      int64_t batch, int64_t head, int64_t row, int64_t key, int64_t n,
                      float *biases);

/* Which of n keys from key on they let row_count query rows from row on see.
 * kernels.h defines bits and biases; bits, [n], is written only for ATTN_SEES_BITS. Keys past the
 * end of a short mask count as seen here, since attn_mask_row() hides them. */
enum attn_sees attn_mask_scan(const struct attn_problem *problem,
                              const struct attn_kernels *kernels, int64_t batch, int64_t head,
                              int64_t row, int64_t row_count, int64_t key, int64_t n,
                              uint64_t *bits);

/* Those of row_count query rows from row on and n keys from key on, as a transposed tile of biases
 * [n][width]: 0 and -INFINITY for BOOL; 0 in lanes past row_count. Keys past the end of a short
 * mask get 0 here, since attn_mask_row() hides them. */
void attn_mask_gather(const struct attn_problem *problem, const struct attn_kernels *kernels,
                      int64_t batch, int64_t head, int64_t row, int64_t row_count, int64_t key,
                      int64_t n, int64_t width, float *bias_t);

#endif
