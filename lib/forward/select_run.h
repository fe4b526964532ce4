/* select_run.h - attention of one row over chosen groups of keys. */
#ifndef ATTN_SELECT_RUN_H
#define ATTN_SELECT_RUN_H

#include "forward/select_internal.h"

/* The workspace of one run of a task of the plan. */
size_t select_run_bytes(const struct attn_plan_full *plan);

/* Attends to the groups that are chosen. lse goes to task->found; the last run of a task also
 * counts sinks and writes the problem's context. */
void select_run_chosen(struct select_task *task, bool is_last);

#endif
