/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_tile.c - what both kinds of tile share: their memory, and the steps through scores and
 * weights.
 *
 * Softmax and sparsemax differ only in their slopes: diag(s) - s s^T / sum(s), where s is the
 * weights for softmax, and 1 for each weight that is not 0 for sparsemax. So the softmax kernels
 * serve both. Additive scores are a sum over features of the lane plus the other, so they too do
 * not depend on which of the two is the key. */
#include "base/internal.h"
#include "forward/sparsemax.h"
#include "gradient/gradient_internal.h"

#include "kernels/kernels.h"

int64_t attn_gradient_padded(const struct attn_gradient_plan_full *plan, int64_t columns)
{
    return attn_divide_up(columns, plan->kernels->lanes) * plan->kernels->lanes;
}

size_t attn_gradient_rows_cut(struct attn_gradient_rows *rows,
                              const struct attn_gradient_plan_full *plan, void *memory)
{
    const int64_t *query = plan->problem.attention.query.shape;
    const int64_t count = query[0] * query[1] * query[2];
    size_t bytes = 0;

    rows->max = attn_cut(memory, &bytes, count, sizeof(float));
    rows->factor = attn_cut(memory, &bytes, count, sizeof(float));
    rows->delta = attn_cut(memory, &bytes, count, sizeof(float));
    rows->delta_low = attn_cut(memory, &bytes, count, sizeof(float));
    rows->ranges = attn_cut(memory, &bytes, count, sizeof *rows->ranges);
    rows->thresholds = attn_cut(
        memory, &bytes, plan->problem.attention.options.normalizer == ATTN_SPARSEMAX ? count : 0,
        sizeof *rows->thresholds);
    rows->slopes = attn_cut(memory, &bytes, plan->problem.alibi_slopes_gradient != NULL ? count : 0,
                            sizeof(double));
    rows->weight_sums = attn_cut(
        memory, &bytes,
        plan->problem.additive_weight_gradient != NULL ? plan->task_count[0] * query[3] : 0,
        sizeof(double));
    return bytes;
}

size_t attn_gradient_workspace_cut(struct attn_gradient_workspace *work,
                                   const struct attn_gradient_plan_full *plan, void *memory)
{
    const struct attn_problem *attention = &plan->problem.attention;
    const int64_t width = attn_max(plan->row_width, plan->key_width);
    const int64_t head_dim = attention->query.shape[3];
    const int64_t v_head_dim = attention->value.shape[3];
    const int64_t padded = attn_gradient_padded(plan, head_dim);
    const int64_t tile = plan->other_tile * width;
    const bool has_products = attn_gradient_keys_make_query(&plan->problem);
    size_t bytes = 0;

    work->first_t = attn_cut(memory, &bytes, head_dim * width, sizeof(float));
    work->second_t = attn_cut(memory, &bytes, v_head_dim * width, sizeof(float));
    work->first_sum_t = attn_cut(memory, &bytes, head_dim * width, sizeof(float));
    work->second_sum_t = attn_cut(memory, &bytes, v_head_dim * width, sizeof(float));
    work->query_rows = attn_cut(memory, &bytes, plan->other_tile * head_dim, sizeof(float));
    work->key_rows =
        attn_cut(memory, &bytes, has_products ? plan->key_width * padded : 0, sizeof(float));
    work->products =
        attn_cut(memory, &bytes, has_products ? plan->other_tile * padded : 0, sizeof(float));
    work->weight_sum_t = attn_cut(
        memory, &bytes, plan->problem.additive_weight_gradient != NULL ? head_dim * width : 0,
        sizeof(float));
    work->weights_t = attn_cut(memory, &bytes, tile, sizeof(float));
    work->gradient_t = attn_cut(memory, &bytes, tile, sizeof(float));
    work->support_t = attn_cut(
        memory, &bytes, attention->options.normalizer == ATTN_SPARSEMAX ? tile : 0, sizeof(float));
    work->capped_t =
        attn_cut(memory, &bytes, attention->options.softcap > 0.0 ? tile : 0, sizeof(float));
    work->bias_t = attn_cut(memory, &bytes, attention->mask.data != NULL ? tile : 0, sizeof(float));
    work->max = attn_cut(memory, &bytes, width, sizeof(float));
    work->sum = attn_cut(memory, &bytes, width, sizeof(float));
    work->delta = attn_cut(memory, &bytes, width, sizeof(float));
    work->delta_low = attn_cut(memory, &bytes, width, sizeof(float));
    work->dividend = attn_cut(memory, &bytes, width, sizeof(double));
    work->divisor = attn_cut(memory, &bytes, width, sizeof(double));
    work->rescale = attn_cut(memory, &bytes, width, sizeof(float));
    work->ones = attn_cut(memory, &bytes, width, sizeof(float));
    work->distance =
        attn_cut(memory, &bytes, attention->alibi_slopes != NULL ? width : 0, sizeof(float));
    work->ranges = attn_cut(memory, &bytes, width, sizeof(struct key_range));
    work->low = attn_cut(memory, &bytes, width, sizeof(int32_t));
    work->high = attn_cut(memory, &bytes, width, sizeof(int32_t));
    return bytes;
}

/* ------------------------------------------------------------------------------------- steps -- */

float attn_gradient_query_factor(const struct attn_problem *attention)
{
    return attention->additive_weight != NULL ? 1.0f : (float)attention->options.scale;
}

void attn_gradient_score(const struct attn_gradient_plan_full *plan,
                         const struct attn_gradient_workspace *work, const float *rows,
                         int64_t row_stride, int64_t n, int64_t width)
{
    const struct attn_problem *attention = &plan->problem.attention;
    const int64_t head_dim = attention->query.shape[3];

    if (attention->additive_weight != NULL)
        plan->kernels->additive_tile(work->weights_t, work->first_t, rows, row_stride,
                                     attention->additive_weight, (float)attention->options.scale, n,
                                     head_dim, width);
    else
        plan->kernels->score_tile(work->weights_t, work->first_t, rows, row_stride, n, head_dim,
                                  width, NULL);
}

void attn_gradient_support(const struct attn_gradient_workspace *work, int64_t n, int64_t width)
{
    for (int64_t i = 0; i < n * width; i++)
        work->support_t[i] = work->weights_t[i] != 0.0f ? 1.0f : 0.0f;
}

void attn_gradient_normalize(const struct attn_gradient_plan_full *plan,
                             const struct attn_gradient_workspace *work, const float *delta,
                             const float *delta_low, int64_t step, int64_t n, int64_t width)
{
    const bool is_sparse = plan->problem.attention.options.normalizer == ATTN_SPARSEMAX;

    if (is_sparse)
        attn_gradient_support(work, n, width);
    plan->kernels->softmax_gradient_tile(work->gradient_t,
                                         is_sparse ? work->support_t : work->weights_t, delta,
                                         delta_low, step, n, width);
}

void attn_gradient_uncap(const struct attn_gradient_plan_full *plan,
                         const struct attn_gradient_workspace *work, int64_t n, int64_t width)
{
    const float softcap = (float)plan->problem.attention.options.softcap;

    if (softcap > 0.0f)
        plan->kernels->softcap_gradient_tile(work->gradient_t, work->capped_t, softcap, n, width);
}

void attn_gradient_add(const struct attn_gradient_plan_full *plan,
                       const struct attn_gradient_workspace *work, const float *rows,
                       int64_t row_stride, int64_t n, int64_t width, bool hides, bool sums_weight)
{
    const struct attn_problem *attention = &plan->problem.attention;
    const struct attn_kernels *kernels = plan->kernels;
    const int64_t head_dim = attention->query.shape[3];

    if (attention->additive_weight != NULL)
        kernels->additive_gradient_tile(work->first_sum_t, sums_weight ? work->weight_sum_t : NULL,
                                        work->first_t, rows, row_stride, work->gradient_t,
                                        attention->additive_weight, (float)attention->options.scale,
                                        n, head_dim, width);
    else if (hides && !kernels->all_finite(rows, row_stride, n, head_dim))
        kernels->context_tile_guarded(work->first_sum_t, work->ones, work->gradient_t, rows,
                                      row_stride, n, head_dim, width, NULL);
    else
        kernels->context_tile(work->first_sum_t, work->ones, work->gradient_t, rows, row_stride, n,
                              head_dim, width, NULL);
}
