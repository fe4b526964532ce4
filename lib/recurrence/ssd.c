/* SPDX-License-Identifier: Apache-2.0 */
/* ssd.c - the recurrence of Mamba-2, row by row. A task has one head: its state stays in the first
 * cache while all rows go through it. */
#include "recurrence.h"

#include "base/internal.h"

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

enum attn_status attn_ssd_check(const struct attn_ssd *ssd, const char **where)
{
    int64_t numbers;

    RETURN_IF(ssd->heads < 1, ATTN_ERR_SHAPE, "heads");
    RETURN_IF(ssd->head_dim < 1, ATTN_ERR_SHAPE, "head_dim");
    RETURN_IF(ssd->groups < 1 || ssd->heads % ssd->groups != 0, ATTN_ERR_SHAPE, "groups");
    RETURN_IF(ssd->state_dim < 1 || __builtin_mul_overflow(ssd->heads, ssd->head_dim, &numbers)
                  || __builtin_mul_overflow(numbers, ssd->state_dim, &numbers),
              ATTN_ERR_SHAPE, "state_dim");
    RETURN_IF(ssd->a == NULL, ATTN_ERR_NO_DATA, "a");
    RETURN_IF(ssd->dt_bias == NULL, ATTN_ERR_NO_DATA, "dt_bias");
    RETURN_IF(!(ssd->dt_min >= 0) || !isfinite(ssd->dt_min), ATTN_ERR_OPTION, "dt_min");
    RETURN_IF(!(ssd->dt_max >= ssd->dt_min), ATTN_ERR_OPTION, "dt_max");
    return ATTN_OK;
}

int64_t attn_ssd_state(const struct attn_ssd *ssd)
{
    return ssd->heads * ssd->state_dim * ssd->head_dim;
}

int64_t attn_ssd_tasks(const struct attn_ssd_problem *problem)
{
    return problem->row_count == 0 ? 0 : problem->ssd->heads;
}

/* log(1 + e^x), which is x where e^x is large beside 1. */
static double softplus(double x)
{
    return x > 40 ? x : log1p(exp(x));
}

static double step_of(const struct attn_ssd *ssd, double dt, int64_t head)
{
    const double step = softplus(dt + (double)ssd->dt_bias[head]);

    return step < ssd->dt_min ? ssd->dt_min : step > ssd->dt_max ? ssd->dt_max : step;
}

static void run_row(const struct attn_ssd_problem *problem, int64_t head, int64_t row, float *state)
{
    const struct attn_ssd *ssd = problem->ssd;
    const int64_t group = head / (ssd->heads / ssd->groups);
    const int64_t at = row * problem->b_stride + group * ssd->state_dim;
    const float *x = problem->x + row * problem->x_stride + head * ssd->head_dim;
    float *y = problem->y + row * problem->y_stride + head * ssd->head_dim;
    const double step = step_of(ssd, (double)problem->dt[row * problem->dt_stride + head], head);
    const struct attn_scan_factors factors = { .decay = (float)exp(step * (double)ssd->a[head]),
                                               .step = (float)step,
                                               .skip = ssd->d != NULL ? ssd->d[head] : 0.0f };

    problem->kernels->scan_row(state, y, x, problem->b + at, problem->c + at, factors,
                               ssd->state_dim, ssd->head_dim);
}

void attn_ssd_run(const struct attn_ssd_problem *problem, int64_t task)
{
    const struct attn_ssd *ssd = problem->ssd;
    const int64_t numbers = ssd->state_dim * ssd->head_dim;
    const size_t bytes = (size_t)numbers * sizeof(float);
    float *state = problem->after + task * numbers;

    if (problem->before == NULL)
        memset(state, 0, bytes);
    else if (problem->before != problem->after)
        memcpy(state, problem->before + task * numbers, bytes);
    for (int64_t row = 0; row < problem->row_count; row++)
        run_row(problem, task, row, state);
}

void attn_ssd_work(const struct attn_ssd_problem *problem, struct attn_work *work)
{
    const double state = (double)attn_ssd_state(problem->ssd);
    const double heads = (double)problem->ssd->heads, rows = (double)problem->row_count;

    work->tasks += (double)attn_ssd_tasks(problem);
    work->decode_flops += 5 * rows * state;
    work->double_flops += 100 * rows * heads;
    work->stream_bytes += 8 * state;
}
