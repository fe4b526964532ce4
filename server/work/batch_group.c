/* batch_group.c - those who wait for the same product: found, joined and left under the batcher's
 * mutex. */
#include "work/batcher_internal.h"

#include <stdlib.h>

struct batch_group *batch_group_find(struct batcher *batcher, const struct batch_member *member)
{
    struct batch_group *group = batcher->groups;
    while (group
           && !(group->product == member->product
                && attn_layer_same_product(&group->layer, member->call.plan->problem.layer,
                                           member->product)))
        group = group->next;
    return group;
}

struct batch_group *batch_group_create(struct batcher *batcher, const struct batch_member *member)
{
    struct batch_group *group = calloc(1, sizeof *group);
    if (!group)
        return NULL;
    group->batcher = batcher;
    group->layer = *member->call.plan->problem.layer;
    group->product = member->product;
    group->due_ns = INT64_MAX;
    group->next = batcher->groups;
    batcher->groups = group;
    return group;
}

void batch_group_settle(struct batch_group *group)
{
    if (group->members.first || group->batch)
        return;
    struct batch_group **link = &group->batcher->groups; /* there are few */
    while (*link != group)
        link = &(*link)->next;
    *link = group->next;
    free(group);
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
