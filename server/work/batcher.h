/* batcher.h - rows of several requests for one layer in one product.
 *
 * A product with few rows waits for memory to bring the parameters, and with more rows it waits no
 * longer. So a job whose next stage is such a product may join: it then waits in the scheduler
 * (JOB_WAITS) while a job of the batcher's own, a batch, stands in the scheduler's queue for all
 * that join the same product. When a worker begins the batch it takes those that are there, up to
 * a bound, computes, and lets them go on. Nobody waits for others to come, unless the operator
 * gave a delay.
 *
 * What a member gets is the same to the bit as alone (layer.h). A member whose client leaves or
 * whose time passes is gone at once before its batch is begun; after that it ends with the batch.
 */
#ifndef ATTND_BATCHER_H
#define ATTND_BATCHER_H

#include "base/list.h"
#include "layer.h"
#include "work/cost.h"
#include "work/scheduler.h"

struct batcher;
struct batch_group;

/* One product of one job. Zeroed is one that has not joined. */
struct batch_member {
    /* The owner's, set before it joins. */
    struct job *job;
    struct attn_layer_call call;
    enum attn_layer_product product;
    int64_t rows;     /* that go through it */
    struct cost cost; /* of it, alone */
    int64_t alone_ns; /* what all of the job was predicted to cost, shared with nobody */
    /* The product has been made: the number of tasks that the job goes on with, 0 where it is
     * over. Called by a worker, with no lock held. */
    int64_t (*go_on)(struct job *job);

    /* The batcher's own, under its lock. */
    struct batch_group *group; /* that it waits in, or NULL */
    LIST_LINK(struct batch_member) in_group;
};

/* rows_max rows in a batch at the most, 1: none is ever made; delay_ns is how long the first member
 * waits for others at the most. NULL where memory or threads are lacking. */
struct batcher *batcher_create(struct scheduler *scheduler, int64_t rows_max, int64_t delay_ns);

/* After the scheduler has been freed; NULL is fine. */
void batcher_free(struct batcher *batcher);

/* To be called in stage_tasks(), which returns JOB_WAITS where this is true and then must not touch
 * the job any more. False: the job is to run its tasks itself, because there is nobody to share
 * with or nothing to gain. */
bool batcher_join(struct batcher *batcher, struct batch_member *member);

/* The part of reading the parameters, above 0 and at most 1, that would be the member's if the
 * product came next: what is there now, or was there of late, is taken to be so then. The member
 * need not have a job. */
double batcher_expected_part(struct batcher *batcher, const struct batch_member *member);

/* In the job's done(), before anything of it is freed, where it joined at any time. */
void batcher_leave(struct batcher *batcher, struct batch_member *member);

#endif
