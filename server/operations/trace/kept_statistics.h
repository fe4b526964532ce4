/* SPDX-License-Identifier: Apache-2.0 */
/* kept_statistics.h - what each head of a kept trace does, as means over its rows (Clark et al.
 * 2019, "What Does BERT Look At?"):
 *
 *     entropy      of the row's weights, in nats
 *     distance     sum of weight * |row's position - key's position|
 *     first        the weight of key 0
 *     previous     the weight of the key before the row's own; 0 for row 0
 *     self         the weight of the row's own key
 *     delimiters   the weights of special tokens together
 *     duplicate    over the rows whose token stood before: the weights of the same token before
 *                  the row together
 *     induction    the same of the keys behind those (Olsson et al. 2022, "In-context Learning and
 *                  Induction Heads")
 *
 * Rows and keys of cross attention are of two texts, so distance, previous, self, duplicate and
 * induction are NAN there. delimiters is NAN where the keys are no tokens, and so are duplicate and
 * induction, which are NAN where no token stood before, too. */
#ifndef ATTND_KEPT_STATISTICS_H
#define ATTND_KEPT_STATISTICS_H

#include "operations/trace/kept_repeats.h"
#include "operations/trace/kept_trace.h"

/* The statistics of a kept trace on their way: tasks of one stage, each for some rows of a head. */
struct kept_statistics {
    struct kept_trace *kept;
    int64_t *first_task;   /* [layer_count + 1] */
    struct kept_sum *sums; /* [task] */
    struct kept_repeats repeats[MODEL_STREAMS_MAX];
};

/* Makes room in the arena. False: no memory. */
bool kept_statistics_plan(struct kept_statistics *statistics, struct kept_trace *kept,
                          struct arena *arena);

int64_t kept_statistics_tasks(const struct kept_statistics *statistics);
size_t kept_statistics_workspace_bytes(const struct kept_statistics *statistics);
void kept_statistics_run(const struct kept_statistics *statistics, int64_t task, void *workspace);

/* After the tasks: the heads of all layers, one layer after the other, malloc'd; NULL: no memory.
 */
struct kept_head *kept_statistics_finish(const struct kept_statistics *statistics);

/* How many heads all layers have. */
int64_t kept_statistics_heads(const struct kept_trace *kept);

#endif
