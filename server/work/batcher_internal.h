/* batcher_internal.h - what batcher.c (who waits together), batch_group.c (their lists) and batch.c
 * (the job that computes for them) share. One mutex guards the groups and their lists. It may be
 * held around scheduler_submit() and scheduler_claim(), which call nothing of ours; the scheduler
 * calls us with no lock held. */
#ifndef ATTND_BATCHER_INTERNAL_H
#define ATTND_BATCHER_INTERNAL_H

#include "work/batcher.h"

#include <pthread.h>

/* Members that wait for the same product. It has at most one batch at a time that others may still
 * join or that computes: its end submits the next. */
struct batch_group {
    struct batcher *batcher;
    struct batch_group *next;
    struct attn_layer layer; /* only to be compared */
    enum attn_layer_product product;
    LIST_OF(struct batch_member) members;
    int64_t rows;
    int64_t last_rows; /* of the batch before; 0: there was none */
    struct job *batch; /* in the scheduler, or NULL */
    int64_t due_ns;    /* when a batch is to be submitted; INT64_MAX: at no time of its own */
};

struct batcher {
    struct scheduler *scheduler;
    int64_t rows_max, delay_ns;
    pthread_mutex_t mutex;
    pthread_cond_t due; /* a group is due earlier than any other, or stopping; monotonic clock */
    struct batch_group *groups;
    bool stopping;
    bool thread_started;
    pthread_t thread;
};

/* All of these are called with the mutex held, and return with it held. */

/* ----------------------------------------------------------- batch_group.c -- */

/* The group that waits for the member's product, or NULL. */
struct batch_group *batch_group_find(struct batcher *batcher, const struct batch_member *member);

/* An empty one; NULL where memory is lacking. */
struct batch_group *batch_group_create(struct batcher *batcher, const struct batch_member *member);

void batch_group_append(struct batch_group *group, struct batch_member *member);

/* The member waits no longer. */
void batch_group_take_out(struct batch_member *member);

/* Frees the group where nothing keeps it. */
void batch_group_settle(struct batch_group *group);

/* ----------------------------------------------------------------- batch.c -- */

/* Gives the group a batch. False where there is no memory, or the scheduler takes no job. */
bool batch_submit(struct batch_group *group);

/* What waits in a group that has no batch gets one, or is sent away to run its tasks itself. The
 * mutex may be released meanwhile, and the group may be gone. */
void batch_submit_or_send_away(struct batch_group *group);

#endif
