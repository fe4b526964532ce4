/* seen.c - see seen.h. */
#include "seen.h"

#include "mask.h"

/* What the rows of one vector, from lane on, see of the tile, counted from its first key. */
static struct key_range seen_by(const struct attn_seen *seen, int64_t lane)
{
    const int64_t end = attn_min(lane + seen->kernels->lanes, seen->row_count);
    struct key_range range = { seen->n, 0 };

    for (int64_t r = lane; r < end; r++) {
        range.low = attn_min(range.low, seen->work->low[r] - seen->key);
        range.high = attn_max(range.high, seen->work->high[r] - seen->key);
    }
    range.low = attn_max(range.low, 0);
    range.high = attn_min(range.high, seen->n);
    return range.low < range.high ? range : (struct key_range){ 0, 0 };
}

void attn_seen_scores(const struct attn_seen *seen, float *scores_t, const float *key,
                      int64_t key_stride, int64_t head_dim, const struct attn_upcoming *upcoming)
{
    for (int64_t c = 0; c < seen->width; c += seen->kernels->lanes) {
        const struct key_range range = seen_by(seen, c);
        seen->kernels->score_lanes(scores_t + range.low * seen->width + c, seen->work->query_t + c,
                                   key + range.low * key_stride, key_stride, range.high - range.low,
                                   head_dim, seen->width, c == 0 ? upcoming : NULL);
    }
}

void attn_seen_context(const struct attn_seen *seen, const float *weights_t, const float *value,
                       int64_t value_stride, int64_t v_head_dim,
                       const struct attn_upcoming *upcoming)
{
    for (int64_t c = 0; c < seen->width; c += seen->kernels->lanes) {
        const struct key_range range = seen_by(seen, c);
        seen->kernels->context_lanes(
            seen->work->context_t + c, seen->work->rescale + c,
            weights_t + range.low * seen->width + c, value + range.low * value_stride, value_stride,
            range.high - range.low, v_head_dim, seen->width, c == 0 ? upcoming : NULL);
    }
}
