/* SPDX-License-Identifier: Apache-2.0 */
/* batch_group.c - lists of members that wait, and the share that their batch is of. */
#include "scheduler/batch_group.h"

#include <stdlib.h>

struct batch_group *batch_group_find(struct batch_group *groups, const struct batch_member *member)
{
    struct batch_group *group = groups;
    while (group
           && !(group->product == member->product
                && group->precision == member->call.plan->problem.options.precision
                && attn_layer_same_product(&group->layer, member->call.plan->problem.layer,
                                           member->product)))
        group = group->next;
    return group;
}

struct batch_group *batch_group_create(struct batch_group **groups, struct batcher *batcher,
                                       const struct batch_member *member)
{
    struct batch_group *group = calloc(1, sizeof *group);
    if (!group)
        return NULL;
    group->batcher = batcher;
    group->layer = *member->call.plan->problem.layer;
    group->precision = member->call.plan->problem.options.precision;
    group->product = member->product;
    group->due_ns = INT64_MAX;
    group->next = *groups;
    *groups = group;
    return group;
}

void batch_group_append(struct batch_group *group, struct batch_member *member)
{
    LIST_APPEND(&group->members, member, in_group);
    group->rows += member->rows;
    member->group = group;
}

void batch_group_take_out(struct batch_member *member)
{
    struct batch_group *group = member->group;
    LIST_TAKE_OUT(&group->members, member, in_group);
    group->rows -= member->rows;
    member->group = NULL;
}

void batch_group_settle(struct batch_group **groups, struct batch_group *group)
{
    struct batch_group **link = groups; /* there are few */
    if (group->members.first || group->batch)
        return;
    while (*link != group)
        link = &(*link)->next;
    *link = group->next;
    free(group);
}

/* ----------------------------------------------------------------- shares -- */

static void set_share(struct scheduler *scheduler, struct job *batch, struct job_share *share)
{
    if (share != batch->share)
        scheduler_move(scheduler, batch, share);
}

void batch_share_join(struct scheduler *scheduler, struct job *batch, const struct job *member)
{
    if (member->share != batch->share)
        scheduler_join(scheduler, batch, member);
}

void batch_share_of_waiting(struct scheduler *scheduler, const struct batch_group *group)
{
    const struct batch_member *first = group->members.first;
    set_share(scheduler, group->batch, first ? first->job->share : NULL);
    for (const struct batch_member *member = first; member; member = member->in_group.next)
        batch_share_join(scheduler, group->batch, member->job);
}

void batch_share_of_taken(struct scheduler *scheduler, struct job *batch,
                          struct batch_member *const *members, int count)
{
    set_share(scheduler, batch, members[0]->job->share);
    for (int i = 0; i < count; i++)
        batch_share_join(scheduler, batch, members[i]->job);
}

void batch_share_divide(struct scheduler *scheduler, struct job *batch,
                        struct batch_member *const *members, int count, int64_t cpu_ns)
{
    int64_t rows = 0;
    for (int i = 0; i < count; i++)
        rows += members[i]->rows;
    for (int i = 0; i < count; i++)
        if (members[i]->job->share != batch->share)
            scheduler_pay(scheduler, batch, members[i]->job, cpu_ns / rows * members[i]->rows);
    set_share(scheduler, batch, NULL);
}
