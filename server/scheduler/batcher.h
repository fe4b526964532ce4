/* SPDX-License-Identifier: Apache-2.0 */
/* batcher.h - rows of several requests for one layer in one product.
 *
 * A product with few rows waits for memory to bring the parameters, and with more rows it waits no
 * longer. So a job whose next stage is such a product may join others. It then waits in the
 * scheduler (JOB_WAITS), while one job of the batcher, a batch, is queued for all members that
 * joined the same product. When a worker begins the batch, the batch takes the members that wait,
 * up to a bound, computes the product and lets the members go on. No member waits for others to
 * arrive, unless the operator gave a delay.
 *
 * A member's result is bit for bit that of the same job alone (layer.h). A member whose client
 * leaves or whose deadline passes ends at once if its batch has not begun, else together with the
 * batch. */
#ifndef ATTND_BATCHER_H
#define ATTND_BATCHER_H

#include "base/list.h"
#include "layer.h"
#include "scheduler/cost.h"
#include "scheduler/scheduler.h"

struct batcher;
struct batch_group;

/* One product of one job. A zeroed member has not joined. */
struct batch_member {
    /* The owner's. Set before the member joins. */
    struct job *job;
    struct attn_layer_call call;
    enum attn_layer_product product;
    int64_t rows;     /* of the product */
    struct cost cost; /* of the product alone */
    int64_t alone_ns; /* predicted cost of the whole job if it shares nothing */
    int64_t paid_ns;  /* set before go_on: the CPU time of the batch for the member's rows */
    /* The product is computed. Returns the number of tasks that the job goes on with, 0 where it is
     * over. Called by a worker, with no lock held. */
    int64_t (*go_on)(struct job *job);

    /* The batcher's own, under its lock. */
    struct batch_group *group; /* NULL: it does not wait */
    LIST_LINK(struct batch_member) in_group;
};

/* A batch has at most rows_max rows; 1: there are no batches. The first member of a batch waits at
 * most delay_ns for others. NULL where memory or threads are lacking. */
struct batcher *batcher_create(struct scheduler *scheduler, int64_t rows_max, int64_t delay_ns);

/* After the scheduler has been freed; NULL is fine. */
void batcher_free(struct batcher *batcher);

/* Called in stage_tasks(). True: stage_tasks() returns JOB_WAITS and must not touch the job any
 * more. False: the job runs its tasks itself, because there is no other job or nothing to gain. */
bool batcher_join(struct batcher *batcher, struct batch_member *member);

/* The member's part of the cost of reading the parameters, above 0 and at most 1, if its product
 * came next: assumes the rows that wait now, or those of the last batch if they were more. The
 * member needs no job. */
double batcher_expected_part(struct batcher *batcher, const struct batch_member *member);

/* Called in the job's done(), before any of its memory is freed, if it ever joined. */
void batcher_leave(struct batcher *batcher, struct batch_member *member);

#endif
