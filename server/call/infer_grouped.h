/* SPDX-License-Identifier: Apache-2.0 */
/* infer_grouped.h - the tasks of a planned request: a stage of all items side by side, and of
 * items that read the same keys or the same parameters together (layer.h). */
#ifndef ATTND_INFER_GROUPED_H
#define ATTND_INFER_GROUPED_H

#include "call/infer.h"
#include "scheduler/scheduler.h"

struct infer_grouped {
    int64_t item_count;
    struct infer_item **items;     /* those that may run together are neighbours */
    struct attn_layer_call *calls; /* of these items */

    /* Of the stage that runs: group i has items [first_item[i], first_item[i + 1]) and tasks
     * [first_task[i], first_task[i + 1]). */
    int stage;
    int64_t group_count;
    int64_t *first_item, *first_task;
    bool is_shared; /* some group, of this stage or one before, has several items */
};

/* In the request's arena; false without memory. */
bool infer_grouped_init(struct infer_grouped *grouped, struct infer_request *request);

/* Begins a stage of the plans and returns the number of its tasks; 0: all is computed. */
int64_t infer_grouped_begin(struct infer_grouped *grouped, int stage);

void infer_grouped_run(const struct infer_grouped *grouped, int64_t task,
                       const struct worker *worker);

#endif
