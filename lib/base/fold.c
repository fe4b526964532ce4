/* fold.c - long sums, carried in two floats: fold.h says why. */
#include "base/fold.h"

#include "kernels/kernels.h"

#include <string.h>

bool attn_fold_is_needed(const struct attn_plan *plan)
{
    return plan->problem.key.shape[2] > ATTN_FOLD_TILES * plan->kv_tile;
}

static size_t total_bytes(const struct attn_plan *plan)
{
    return (size_t)(plan->problem.value.shape[3] * plan->width) * sizeof(float);
}

static void forget_rescale(const struct attn_plan *plan, const struct attn_workspace *work)
{
    for (int64_t r = 0; r < plan->width; r++)
        work->fold_rescale[r] = 1.0f;
}

void attn_fold_begin(const struct attn_plan *plan, const struct attn_workspace *work)
{
    if (!attn_fold_is_needed(plan))
        return;
    memset(work->context_total_t, 0, total_bytes(plan));
    memset(work->context_lost_t, 0, total_bytes(plan));
    memset(work->sum_total, 0, (size_t)plan->width * sizeof(float));
    memset(work->sum_lost, 0, (size_t)plan->width * sizeof(float));
    forget_rescale(plan, work);
}

void attn_fold_rescale(const struct attn_plan *plan, const struct attn_workspace *work)
{
    if (!attn_fold_is_needed(plan))
        return;
    for (int64_t r = 0; r < plan->width; r++)
        work->fold_rescale[r] *= work->rescale[r];
}

static void fold(const struct attn_plan *plan, const struct attn_workspace *work, bool has_context,
                 bool is_last)
{
    plan->kernels->fold_tile(work->sum_total, work->sum_lost, work->sum, work->fold_rescale, 1,
                             plan->width, is_last);
    if (has_context)
        plan->kernels->fold_tile(work->context_total_t, work->context_lost_t, work->context_t,
                                 work->fold_rescale, plan->problem.value.shape[3], plan->width,
                                 is_last);
    forget_rescale(plan, work);
}

void attn_fold_tile(const struct attn_plan *plan, const struct attn_workspace *work, int64_t key,
                    bool has_context)
{
    if (attn_fold_is_needed(plan) && (key / plan->kv_tile + 1) % ATTN_FOLD_TILES == 0)
        fold(plan, work, has_context, false);
}

void attn_fold_end(const struct attn_plan *plan, const struct attn_workspace *work,
                   bool has_context)
{
    if (attn_fold_is_needed(plan))
        fold(plan, work, has_context, true);
}
