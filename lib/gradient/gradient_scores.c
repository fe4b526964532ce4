/* gradient_scores.c - gradients through scores and weights, the same whether the lanes are query
 * rows or keys.
 *
 * Softmax and sparsemax differ only in their slopes: diag(s) - s s^T / sum(s), where s is the
 * weights for softmax, and 1 for each weight that is not 0 for sparsemax. So the softmax kernels
 * serve both. Additive scores are a sum over features of the lane plus the other, so they too do
 * not depend on which of the two is the key. */
#include "gradient/gradient_internal.h"

#include "kernels/kernels.h"

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
