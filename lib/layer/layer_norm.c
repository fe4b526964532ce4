/* layer_norm.c - clamps and norms of projected rows, before their rotary embedding; norms apply to
 * each head or to the whole row.
 *
 * Sources: Zhang and Sennrich 2019 (root mean square), Ba et al. 2016 (LayerNorm); clip_qkv of MPT
 * and OLMo. Means are summed in double, so long rows lose no precision; each number is then scaled
 * and weighted in float. */
#include "layer/layer_internal.h"

#include "base/internal.h"

#include <math.h>

enum attn_status attn_norm_check(const struct attn_norm *norm, const struct attn_norm_names *names,
                                 const char **where)
{
    if (norm->weight == NULL)
        return ATTN_OK;
    RETURN_IF(!(norm->eps >= 0 && isfinite(norm->eps)), ATTN_ERR_OPTION, names->eps);
    RETURN_IF((int)norm->scope < ATTN_NORM_HEAD || norm->scope > ATTN_NORM_ROW, ATTN_ERR_OPTION,
              names->scope);
    return ATTN_OK;
}

struct attn_norm_groups attn_norm_groups(const struct attn_norm *norm, int64_t heads,
                                         int64_t head_dim)
{
    if (norm->scope == ATTN_NORM_ROW)
        return (struct attn_norm_groups){ 1, heads * head_dim, 0 };
    return (struct attn_norm_groups){ heads, head_dim,
                                      norm->scope == ATTN_NORM_HEADS ? head_dim : 0 };
}

struct attn_norm_moments attn_norm_moments(const struct attn_norm *norm, const float *x,
                                           int64_t columns)
{
    double mean = 0, sum = 0;
    for (int64_t c = 0; norm->is_centred && c < columns; c++)
        mean += (double)x[c];
    mean /= (double)columns;
    for (int64_t c = 0; c < columns; c++)
        sum += ((double)x[c] - mean) * ((double)x[c] - mean);
    return (struct attn_norm_moments){ mean, 1 / sqrt(sum / (double)columns + norm->eps) };
}

static void norm_group(const struct attn_norm *norm, float *x, const float *weight,
                       const float *bias, int64_t columns)
{
    const struct attn_norm_moments moments = attn_norm_moments(norm, x, columns);
    const float mean = (float)moments.mean, factor = (float)moments.factor;
    for (int64_t c = 0; c < columns; c++)
        x[c] = (x[c] - mean) * factor * weight[c] + (bias != NULL ? bias[c] : 0.0f);
}

void attn_norm_rows(const struct attn_norm *norm, float *rows, int64_t row_count, int64_t heads,
                    int64_t head_dim)
{
    const struct attn_norm_groups groups = attn_norm_groups(norm, heads, head_dim);
    for (int64_t i = 0; i < row_count * groups.count; i++) {
        const int64_t at = i % groups.count * groups.weight_step;
        norm_group(norm, rows + i * groups.columns, norm->weight + at,
                   norm->bias != NULL ? norm->bias + at : NULL, groups.columns);
    }
}

void attn_clamp(float *numbers, int64_t count, double projected_max)
{
    const float most = (float)projected_max;
    for (int64_t i = 0; projected_max > 0 && i < count; i++)
        numbers[i] = numbers[i] > most ? most : numbers[i] < -most ? -most : numbers[i];
}
