/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - what the fuzz targets of the wires share: a planned request, run without a scheduler.
 */
#ifndef FUZZ_REQUEST_H
#define FUZZ_REQUEST_H

#include "call/infer.h"

#include <stdlib.h>

enum { WORKSPACE_BYTES = 1 << 18, WORK_MAX = 1 << 22 };

static inline void require(bool condition)
{
    if (!condition)
        abort();
}

static inline void request_run(const struct infer_item *item, void *workspace)
{
    const struct attn_layer_plan *plan = &item->plan;
    void *own = item->workspaces ? item->workspaces : workspace;
    for (int stage = 0; stage < plan->stage_count; stage++)
        for (int64_t task = 0; task < plan->task_count[stage]; task++)
            attn_layer_run(plan, stage, task, item->scratch, own);
}

/* Whether running it takes no longer than a fuzzer should wait. */
static inline bool request_is_small(const struct infer_request *request)
{
    int64_t work = 0;
    for (int64_t i = 0; i < request->item_count; i++) {
        const struct infer_item *item = &request->items[i];
        if (item->fault.code == FAULT_NONE)
            work += item->q_len * (item->kv_len_max + item->part_count) * (item->d_out + 1);
    }
    return work < WORK_MAX;
}

#endif
