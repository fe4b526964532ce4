/* batch_share.h - which share a batch is of, and which shares pay for it.
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
#ifndef ATTND_BATCH_SHARE_H
#define ATTND_BATCH_SHARE_H

#include "work/batch_group.h"

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
