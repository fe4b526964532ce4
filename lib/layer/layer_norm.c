/* layer_norm.c - clamps and norms of projected rows, before their rotary embedding; norms apply to
 * each head or to the whole row.
 *
 * Source of the clamp: clip_qkv of MPT and OLMo. rows/norm.c has the arithmetic of the norms. */
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

void attn_norm_rows(const struct attn_norm *norm, float *rows, int64_t row_count, int64_t heads,
                    int64_t head_dim)
{
    const struct attn_norm_groups groups = attn_norm_groups(norm, heads, head_dim);

    const int64_t columns = groups.columns;

    if (groups.weight_step == 0) {
        attn_rows_norm(norm, rows, columns, rows, columns, row_count * groups.count, columns);
        return;
    }
    for (int64_t group = 0; group < groups.count; group++) {
        const int64_t at = group * groups.weight_step;
        struct attn_norm own = *norm;
        own.weight += at;
        own.bias = norm->bias != NULL ? norm->bias + at : NULL;
        attn_rows_norm(&own, rows + group * columns, heads * columns, rows + group * columns,
                       heads * columns, row_count, columns);
    }
}

void attn_clamp(float *numbers, int64_t count, double projected_max)
{
    const float most = (float)projected_max;
    for (int64_t i = 0; projected_max > 0 && i < count; i++)
        numbers[i] = numbers[i] > most ? most : numbers[i] < -most ? -most : numbers[i];
}
