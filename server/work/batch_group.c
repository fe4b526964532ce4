/* batch_group.c - see batch_group.h. */
#include "work/batch_group.h"

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
