/* SPDX-License-Identifier: Apache-2.0 */
/* callers.h - jobs that join a batcher as the daemon's jobs do, for the tests of shared products.
 *
 * There is one worker, which a long job holds while the callers come, and a spare thread, which
 * a short job holds until all are done. So the tests know which callers are there when a batch
 * begins. */
#ifndef CALLERS_H
#define CALLERS_H

#include "scheduler/batcher.h"

#include <stdatomic.h>

enum { D_MODEL = 256, HEADS = 4, ROWS_MAX = 3, MEMBERS = 8, QUEUE = 16, WORKSPACE = 1 << 20 };
#define MS INT64_C(1000000)

/* A layer's call as the daemon runs it: read, then the stages of its plan. */
struct caller {
    struct job job; /* first: a job is its caller */
    struct batch_member member;
    struct attn_layer_plan plan;
    void *scratch;
    float query[ROWS_MAX * D_MODEL], context[ROWS_MAX * D_MODEL], expected[ROWS_MAX * D_MODEL];
    int64_t rows;
    int shared;         /* products */
    int member_stage;   /* of the plan */
    atomic_int joined;  /* times */
    struct caller *end; /* for go_on(): the caller to stop; itself: its deadline passes */
    bool ends_all;      /* for go_on(): ends all callers */
    atomic_int done_count;
    enum job_outcome outcome;
};

/* A job of one task, which runs as long as it is held. */
struct holder {
    struct job job; /* first: a job is its holder */
    atomic_bool held, runs;
};

extern struct scheduler *scheduler;
extern struct batcher *batcher;
extern struct caller callers[MEMBERS]; /* of 1, 2, 3, 1, 2, 3, 1 and 2 rows */
extern struct holder long_holder, short_holder;

/* A cmocka test with callers, and one of a group that shares them. */
int callers_set_up(void **state);
int callers_tear_down(void **state);
int callers_set_up_group(void **state);
int callers_tear_down_group(void **state);

/* Makes a scheduler and a batcher without delay, and holds both threads; the others do one of
 * these steps each. */
void callers_begin(int64_t rows_max);
void callers_create(int64_t rows_max, int64_t delay_ns);
void callers_hold_threads(void);

/* The second function submits the callers from first to before end, one after another. It waits
 * until each has joined. */
void callers_submit_all(void);
void callers_submit_and_wait(int first, int end);

/* The worker does all that is left, for all callers or for the first of them. Then everything is
 * freed. */
void callers_finish(void);
void callers_finish_first(int count);
void callers_stop(void);

/* Fails the test unless the caller has the same result as when it runs alone. */
void callers_expect_answered(int i);

void holder_init(struct holder *holder, int priority, int64_t cost_ns);
void holder_submit(struct holder *holder, int priority, int64_t cost_ns);
void holder_wait(const struct holder *holder); /* until it runs */

/* For other jobs of one task: done does nothing. */
int64_t holder_stage_tasks(struct job *job, int stage);
void holder_done(struct job *job, enum job_outcome outcome);

#endif
