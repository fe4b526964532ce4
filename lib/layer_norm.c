/* layer_norm.c - root mean square layer normalisation (Zhang and Sennrich 2019) of each head,
 * between a projection and its rotary embedding.
 *
 * The mean is summed in double, so that a long head loses nothing; each number is then scaled and
 * weighted in float. */
#include "layer_internal.h"

#include "internal.h"

#include <math.h>

enum attn_status attn_norm_check(const struct attn_norm *norm, const char *name, const char **where)
{
    const bool is_good = norm->eps >= 0 && isfinite(norm->eps);

    RETURN_IF(norm->weight != NULL && !is_good, ATTN_ERR_OPTION, name);
    return ATTN_OK;
}

void attn_norm_rows(const struct attn_norm *norm, float *rows, int64_t row_count, int64_t heads,
                    int64_t head_dim)
{
    for (int64_t i = 0; i < row_count * heads; i++) {
        float *head = rows + i * head_dim;
        double sum = 0;
        for (int64_t c = 0; c < head_dim; c++)
            sum += (double)head[c] * (double)head[c];
        const float factor = (float)(1 / sqrt(sum / (double)head_dim + norm->eps));
        for (int64_t c = 0; c < head_dim; c++)
            head[c] = head[c] * factor * norm->weight[c];
    }
}
