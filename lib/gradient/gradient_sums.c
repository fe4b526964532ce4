/* gradient_sums.c - the gradients of what all rows of a head, or all heads, share: the slopes of
 * ALiBi, the sinks and the weight of additive scores.
 *
 * Each is a sum over query rows of results of stage 0. One task adds them in double and in the
 * order of the rows, so the sums do not depend on which thread computed the parts. */
#include "forward/sparsemax.h"
#include "gradient/gradient_internal.h"

#include <math.h>

/* The gradient of the sink in row number row: its slope times 0 - delta, since a sink has no
 * value. */
static double sink_gradient(const struct attn_gradient_rows *rows, int64_t row, float sink)
{
    if (sink == -INFINITY)
        return 0.0;
    if (rows->thresholds != NULL)
        return rows->thresholds[row].sink > rows->thresholds[row].threshold
                   ? -(double)rows->delta[row]
                   : 0.0;
    return -exp((double)sink - (double)rows->max[row]) * (double)rows->factor[row]
           * (double)rows->delta[row];
}

static void sum_head(const struct attn_gradient_plan_full *plan,
                     const struct attn_gradient_rows *rows, int64_t q_head)
{
    const struct attn_gradient_problem *problem = &plan->problem;
    const int64_t *query = problem->attention.query.shape;
    double slopes = 0.0, sinks = 0.0;

    for (int64_t b = 0; b < query[0]; b++)
        for (int64_t i = 0; i < query[2]; i++) {
            const int64_t row = (b * query[1] + q_head) * query[2] + i;
            if (problem->alibi_slopes_gradient != NULL)
                slopes += rows->slopes[row];
            if (problem->sinks_gradient != NULL)
                sinks += sink_gradient(rows, row, problem->attention.sinks[q_head]);
        }
    if (problem->alibi_slopes_gradient != NULL)
        problem->alibi_slopes_gradient[q_head] = (float)slopes;
    if (problem->sinks_gradient != NULL)
        problem->sinks_gradient[q_head] = (float)sinks;
}

void attn_gradient_run_sums(const struct attn_gradient_plan_full *plan,
                            const struct attn_gradient_rows *rows)
{
    const struct attn_gradient_problem *problem = &plan->problem;
    const int64_t head_dim = problem->attention.query.shape[3];

    for (int64_t h = 0; h < problem->attention.query.shape[1]; h++)
        sum_head(plan, rows, h);
    for (int64_t d = 0; problem->additive_weight_gradient != NULL && d < head_dim; d++) {
        double sum = 0.0;
        for (int64_t task = 0; task < plan->task_count[0]; task++)
            sum += rows->weight_sums[task * head_dim + d];
        problem->additive_weight_gradient[d] = (float)sum;
    }
}
