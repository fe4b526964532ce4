/* infer_tasks.c - see infer_tasks.h. */
#include "infer/infer_tasks.h"

#include "infer/infer_gradient.h"

int64_t infer_tasks_count(const struct infer_item *item, int stage)
{
    if (item->gradient)
        return stage < item->gradient->plan.stage_count ? item->gradient->plan.task_count[stage]
                                                        : 0;
    return stage < item->plan.stage_count ? item->plan.task_count[stage] : 0;
}

void infer_tasks_run(const struct infer_item *item, int stage, int64_t task, void *workspace)
{
    if (item->gradient)
        attn_layer_gradient_run(&item->gradient->plan, stage, task, item->scratch, workspace);
    else
        attn_layer_run(&item->plan, stage, task, item->scratch, workspace);
}

size_t infer_tasks_scratch_bytes(const struct infer_item *item)
{
    return item->gradient ? item->gradient->plan.scratch_bytes : item->plan.scratch_bytes;
}

size_t infer_tasks_workspace_bytes(const struct infer_item *item)
{
    return item->gradient ? item->gradient->plan.workspace_bytes : item->plan.workspace_bytes;
}
