/* infer_tasks.h - the tasks of an item, whichever plan it has: attention or its gradients. */
#ifndef ATTND_INFER_TASKS_H
#define ATTND_INFER_TASKS_H

#include "infer/infer.h"

/* Tasks of a stage; 0 from the first stage on that there is not. */
int64_t infer_tasks_count(const struct infer_item *item, int stage);

void infer_tasks_run(const struct infer_item *item, int stage, int64_t task, void *workspace);

size_t infer_tasks_scratch_bytes(const struct infer_item *item);
size_t infer_tasks_workspace_bytes(const struct infer_item *item);

#endif
