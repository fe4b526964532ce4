/* SPDX-License-Identifier: Apache-2.0 */
/* compensated.c - compensated sums in two floats; compensated.h says why. */
#include "base/compensated.h"

#include "kernels/kernels.h"

#include <string.h>

bool attn_compensated_is_needed(const struct attn_plan_full *plan)
{
    return plan->problem.key.shape[2] > ATTN_COMPENSATED_TILES * plan->kv_tile;
}

static size_t total_bytes(const struct attn_plan_full *plan)
{
    return (size_t)(plan->problem.value.shape[3] * plan->width) * sizeof(float);
}

static void forget_rescale(const struct attn_plan_full *plan, const struct attn_workspace *work)
{
    for (int64_t r = 0; r < plan->width; r++)
        work->compensated_rescale[r] = 1.0f;
}

void attn_compensated_begin(const struct attn_plan_full *plan, const struct attn_workspace *work)
{
    if (!attn_compensated_is_needed(plan))
        return;
    memset(work->context_total_t, 0, total_bytes(plan));
    memset(work->context_lost_t, 0, total_bytes(plan));
    memset(work->sum_total, 0, (size_t)plan->width * sizeof(float));
    memset(work->sum_lost, 0, (size_t)plan->width * sizeof(float));
    forget_rescale(plan, work);
}

void attn_compensated_rescale(const struct attn_plan_full *plan, const struct attn_workspace *work)
{
    if (!attn_compensated_is_needed(plan))
        return;
    for (int64_t r = 0; r < plan->width; r++)
        work->compensated_rescale[r] *= work->rescale[r];
}

static void combine(const struct attn_plan_full *plan, const struct attn_workspace *work,
                    bool has_context, bool is_last)
{
    plan->kernels->compensated_tile(work->sum_total, work->sum_lost, work->sum,
                                    work->compensated_rescale, 1, plan->width, is_last);
    if (has_context)
        plan->kernels->compensated_tile(work->context_total_t, work->context_lost_t,
                                        work->context_t, work->compensated_rescale,
                                        plan->problem.value.shape[3], plan->width, is_last);
    forget_rescale(plan, work);
}

void attn_compensated_tile(const struct attn_plan_full *plan, const struct attn_workspace *work,
                           int64_t key, bool has_context)
{
    if (attn_compensated_is_needed(plan) && (key / plan->kv_tile + 1) % ATTN_COMPENSATED_TILES == 0)
        combine(plan, work, has_context, false);
}

void attn_compensated_end(const struct attn_plan_full *plan, const struct attn_workspace *work,
                          bool has_context)
{
    if (attn_compensated_is_needed(plan))
        combine(plan, work, has_context, true);
}
