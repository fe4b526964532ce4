/* SPDX-License-Identifier: Apache-2.0 */
/* visible_ranges.c - tiles of keys that some rows see only in part: the diagonal of a causal mask,
 * the ends of windows and of lengths.
 *
 * Each vector of rows is multiplied only with the keys that at least one of its rows sees; on a
 * diagonal that is little more than half of the tile. The bits are those of the whole tile: pairs
 * that are left out have weight 0. */
#include "forward/forward_tile.h"

#include "forward/mask.h"

/* The narrowest vector has four lanes. */
enum { ATTN_VECTORS_MAX = ATTN_WIDTH_MAX / 4 };

/* The keys of the tile that the rows of one vector, from lane on, see, counted from the tile's
 * first key. */
static struct key_range seen_by(const struct attn_seen *seen, int64_t lane)
{
    const int64_t end = attn_min(lane + seen->kernels->lanes, seen->row_count);
    struct key_range range = { seen->n, 0 };

    for (int64_t r = lane; r < end; r++) {
        range.low = attn_min(range.low, seen->work->ranges[r].low - seen->key);
        range.high = attn_max(range.high, seen->work->ranges[r].high - seen->key);
    }
    range.low = attn_max(range.low, 0);
    range.high = attn_min(range.high, seen->n);
    return range.low < range.high ? range : (struct key_range){ 0, 0 };
}

/* The first key after from at which some vector begins to see or stops seeing. */
static int64_t next_change(const struct key_range ranges[], int64_t vectors, int64_t from,
                           int64_t end)
{
    int64_t next = end;

    for (int64_t v = 0; v < vectors; v++) {
        if (ranges[v].low > from)
            next = attn_min(next, ranges[v].low);
        if (ranges[v].high > from)
            next = attn_min(next, ranges[v].high);
    }
    return next;
}

static bool sees_key(const struct key_range *range, int64_t key)
{
    return range->low <= key && key < range->high;
}

/* Between two such changes the same vectors see all keys. Neighbouring vectors are one product: a
 * single vector would wait for the numbers of the keys. */
void attn_seen_scores(const struct attn_seen *seen, float *scores_t, const float *key,
                      int64_t key_stride, int64_t head_dim, struct attn_prefetch *prefetch)
{
    const int64_t lanes = seen->kernels->lanes;
    const int64_t vectors = seen->width / lanes;
    struct key_range ranges[ATTN_VECTORS_MAX];

    for (int64_t v = 0; v < vectors; v++)
        ranges[v] = seen_by(seen, v * lanes);
    for (int64_t from = 0, to; from < seen->n; from = to) {
        to = next_change(ranges, vectors, from, seen->n);
        for (int64_t v = 0, end; v < vectors; v = end + 1) {
            for (end = v; end < vectors && sees_key(&ranges[end], from);)
                end++;
            if (end == v)
                continue;
            seen->kernels->score_lanes(scores_t + from * seen->width + v * lanes,
                                       seen->work->query_t + v * lanes, key + from * key_stride,
                                       key_stride, to - from, head_dim, seen->width,
                                       (end - v) * lanes, prefetch);
        }
    }
}

void attn_seen_context(const struct attn_seen *seen, const float *weights_t, const float *value,
                       int64_t value_stride, int64_t v_head_dim, struct attn_prefetch *prefetch)
{
    for (int64_t c = 0; c < seen->width; c += seen->kernels->lanes) {
        const struct key_range range = seen_by(seen, c);
        seen->kernels->context_lanes(seen->work->context_t + c, seen->work->rescale + c,
                                     weights_t + range.low * seen->width + c,
                                     value + range.low * value_stride, value_stride,
                                     range.high - range.low, v_head_dim, seen->width, prefetch);
    }
}
