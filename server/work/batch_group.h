/* batch_group.h - members that wait for the same product, in groups: found, joined and left.
 *
 * The batcher's mutex guards the groups and their lists: it is held around every call here. */
#ifndef ATTND_BATCH_GROUP_H
#define ATTND_BATCH_GROUP_H

#include "work/batcher.h"

/* Members that wait for the same product. A group has at most one batch at a time that others may
 * still join or that computes; the end of that batch submits the next one. */
struct batch_group {
    struct batcher *batcher;
    struct batch_group *next;
    struct attn_layer layer; /* only compared */
    enum attn_precision precision;
    enum attn_layer_product product;
    LIST_OF(struct batch_member) members;
    int64_t rows;
    int64_t last_rows; /* of the batch before; 0: there was none */
    struct job *batch; /* in the scheduler, or NULL */
    int64_t due_ns;    /* when a batch is submitted after a delay; INT64_MAX: no delay runs */
};

/* The group that waits for the member's product, or NULL. */
struct batch_group *batch_group_find(struct batch_group *groups, const struct batch_member *member);

/* An empty group at the head of the list; NULL without memory. */
struct batch_group *batch_group_create(struct batch_group **groups, struct batcher *batcher,
                                       const struct batch_member *member);

void batch_group_append(struct batch_group *group, struct batch_member *member);

/* The member waits no longer. */
void batch_group_take_out(struct batch_member *member);

/* Takes the group out of the list and frees it if it has neither members nor a batch. */
void batch_group_settle(struct batch_group **groups, struct batch_group *group);

#endif
