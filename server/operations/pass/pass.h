/* SPDX-License-Identifier: Apache-2.0 */
/* pass.h - one pass through a model, of one or several sequences side by side.
 *
 * A pass is a list of steps (pass.c), each of which takes one or more turns, and a turn is a
 * number of tasks that may run at once:
 *
 *     embedding; for each block norm, attention, sum, norm, feed-forward, sum; final norm; head
 *
 * The rows of all sequences lie one behind the other and go together through everything that works
 * on single rows; only attention is of each sequence alone. It is an infer_item, planned when its
 * turn comes by infer_plan_layer() and run in the stages of its plan. One layer's activations are
 * held at a time, and the feed-forward works on panels of rows, so memory does not grow with the
 * number of layers or the width of a feed-forward. */
#ifndef ATTND_PASS_H
#define ATTND_PASS_H

#include "operations/trace/trace.h"
#include "scheduler/scheduler.h"
#include "work.h"

/* What a pass is of: items of one model, planned up to their results. */
struct pass_group {
    struct trace_item *const *items;
    struct infer_item *const *attention; /* one for each item */
    int64_t count;
};

/* Makes a pass and counts its work. Its memory lies in the arena, except what the items have. */
bool pass_create(struct pass **pass, struct arena *arena, const struct pass_group *group,
                 const struct infer_limits *limits, struct attn_work *work, struct fault *fault);

/* How many steps it has, which is what making it costs. */
int64_t pass_step_count(const struct pass *pass);

/* How many layers of attention or a recurrence it computes, and how many are computed. */
int64_t pass_layer_count(const struct pass *pass);
int64_t pass_layers_over(const struct pass *pass);

/* The tasks of the next turn; 0: the pass is over, or failed. Called by one thread at a time, when
 * no task runs. */
int64_t pass_tasks(struct pass *pass, struct fault *fault);

void pass_run(const struct pass *pass, int64_t task, const struct worker *worker);

/* Gives back the parameters that the pass holds. The pass may be over or not; NULL is fine. */
void pass_end(struct pass *pass);

#endif
