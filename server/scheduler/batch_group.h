/* SPDX-License-Identifier: Apache-2.0 */
/* batch_group.h - members that wait for the same product, in groups: found, joined and left.
 *
 * The batcher's mutex guards the groups and their lists: it is held around every call here. */
#ifndef ATTND_BATCH_GROUP_H
#define ATTND_BATCH_GROUP_H

#include "scheduler/batcher.h"

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

/* Which share a batch is of, and which shares pay for it.
 *
 * Where members of a batch are of several shares (job_share.h), each share pays for its own rows:
 * when the product is done, its time is divided among the members by their rows. Until then the
 * batch is of one of these shares, which pays for all. That is the share whose turn comes first, so
 * a light share never waits for the turn of a heavy one that joined it, and the heavy one pays for
 * the rows that it got computed at the light one's turn. When the time is divided, the batch
 * becomes one of the common share, which so pays for the little that sending on costs.
 *
 * The share is one of members that wait, before the batch takes any; then it is one of those that
 * it has taken, which stay until the batch sends them on. So the share is there as long as the
 * batch is of it. Only the batcher changes the share of a batch: with its mutex held, until the
 * batch has taken its members, and later in the batch's own stages. */

/* The batch becomes one of the member's share if that one's turn comes first. */
void batch_share_join(struct scheduler *scheduler, struct job *batch, const struct job *member);

/* The group's batch becomes one of a share of the members that wait; of the common share if none
 * waits. */
void batch_share_of_waiting(struct scheduler *scheduler, const struct batch_group *group);

/* The batch becomes one of a share of the count members that it has taken, 1 or more. */
void batch_share_of_taken(struct scheduler *scheduler, struct job *batch,
                          struct batch_member *const *members, int count);

/* The product took cpu_ns. */
void batch_share_divide(struct scheduler *scheduler, struct job *batch,
                        struct batch_member *const *members, int count, int64_t cpu_ns);

#endif
