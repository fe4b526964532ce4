/* select_internal.h - what the files of a selection share (select.h): the groups of keys that a row
 * sees, their bounds, and which of them are read. */
#ifndef ATTN_SELECT_INTERNAL_H
#define ATTN_SELECT_INTERNAL_H

#include "base/internal.h"
#include "select.h"

/* Up to ATTN_SELECT_KEYS keys from first on. */
struct select_group {
    int64_t first, count;
    const float *row; /* of its bounds, for the task's head */
    bool is_read;
    bool is_chosen; /* by the run that is next */
};

/* Calls of the same arguments walk over the groups of all keys, in order. Begins with all 0. */
struct select_walk {
    int64_t key, bounds, group; /* the next key; the bounds at or behind it; the group in those */
    int64_t missing;            /* groups so far whose bounds shared has */
};

/* The next group before key `end`, whose last keys may be cut off; false: there is none. */
bool select_walk_next(struct select_walk *walk, const struct attn_selection *selection,
                      const struct attn_plan_full *plan, int64_t kv_head, int64_t end, void *shared,
                      struct select_group *group);

/* Groups whose bounds are missing, and all groups. */
void select_count(const struct attn_selection *selection, const struct attn_plan_full *plan,
                  int64_t *missing, int64_t *all);

/* What shared has for a head: [missing][columns], and [head_dim] of the largest numbers. */
float *select_missing(const struct attn_plan_full *plan, int64_t missing, int64_t kv_head,
                      void *shared);
float *select_largest(const struct attn_plan_full *plan, int64_t missing, int64_t kv_head,
                      void *shared);

/* One row and one key/value head. */
struct select_task {
    const struct attn_selection *selection;
    const struct attn_plan_full *plan;
    int64_t row, kv_head, q_head, heads; /* query heads [q_head, q_head + heads) */
    int64_t seen;                        /* keys */
    struct select_group *groups;         /* [group_count], in order */
    int64_t group_count;
    float *bounds; /* [heads][bounds_stride]: at least the scores, of each group */
    int64_t bounds_stride;
    float *query;         /* [heads][columns]: numbers above 0, numbers below 0, as bounds lie */
    float *widened;       /* [heads][head_dim] */
    double *margin;       /* [heads]: at least the rounding error of a score */
    double *lse;          /* [heads]: at most that of what is read so far, sink included */
    double *left;         /* [heads] */
    float *rank, *ranked; /* [group_count] */
    int64_t *order;       /* [order_count]: groups that are not read, the best first */
    int64_t order_count;
    float *found;            /* [heads]: lse of one run */
    struct attn_page *pages; /* [2][page_max] of a run */
    int64_t page_max;
    void *inner; /* workspace of a run */
};

size_t select_cut(struct select_task *task, const struct attn_selection *selection,
                  const struct attn_plan_full *plan, void *memory);

/* Sets bounds and margin of the task's groups. False: some score may not be finite. */
bool select_bound_groups(struct select_task *task, const float *largest);

/* Adds keys that were read, with lse found, to the lse so far. */
void select_add(struct select_task *task, int64_t head, double found);

/* The most that the groups which are not read may weigh for the head, relative to exp(lse). */
double select_left(const struct select_task *task, int64_t head);

/* Lists the groups that are not read, those that can matter most first. */
void select_order(struct select_task *task);

/* How many of those, from the first on, have to be read until the others have the share epsilon at
 * most. */
int64_t select_needed(const struct select_task *task);

/* The share that is left of what is read and what is left at most: float, and no less than it is.
 */
float select_share(double left);

/* Attention of one row over chosen groups of keys. */
/* The workspace of one run of a task of the plan. */
size_t select_run_bytes(const struct attn_plan_full *plan);

/* Attends to the groups that are chosen. lse goes to task->found; the last run of a task also
 * counts sinks and writes the problem's context. */
void select_run_chosen(struct select_task *task, bool is_last);

#endif
