/* SPDX-License-Identifier: Apache-2.0 */
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

#endif
