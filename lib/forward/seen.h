/* seen.h - tiles of keys that some rows see only in part: the diagonal of a causal mask, the ends
 * of windows and of lengths.
 *
 * Each vector of rows is multiplied only with the keys that at least one of its rows sees; on a
 * diagonal that is little more than half of the tile. The bits are those of the whole tile: pairs
 * that are left out have weight 0. */
#ifndef ATTN_SEEN_H
#define ATTN_SEEN_H

#include "base/internal.h"

#include "kernels/kernels.h"

struct attn_seen {
    const struct attn_kernels *kernels;
    const struct attn_workspace *work; /* its ranges hold what each row sees */
    int64_t row_count, width;
    int64_t key, n; /* the keys [key, key + n) */
};

/* scores_t[n][width] as score_tile() computes it, except that pairs that the ranges hide are
 * undefined until bound_tile(). */
void attn_seen_scores(const struct attn_seen *seen, float *scores_t, const float *key,
                      int64_t key_stride, int64_t head_dim, struct attn_prefetch *prefetch);

/* context_tile() for weights that are 0 where the ranges hide, and for finite values. */
void attn_seen_context(const struct attn_seen *seen, const float *weights_t, const float *value,
                       int64_t value_stride, int64_t v_head_dim, struct attn_prefetch *prefetch);

#endif
