/* SPDX-License-Identifier: Apache-2.0 */
/* job_share.h - which share gives the next task: start-time fair queuing.
 *
 * Goyal, Vin, Cheng, "Start-time fair queuing" (SIGCOMM 1996). A share is the jobs of one owner,
 * for example of one key. Shares divide the time of the workers by their weights, whatever each
 * asks for. Inside a share job_order.h gives the order.
 *
 * Each share has a tag: the virtual time at which its next task starts. The share with the smallest
 * tag gives the next task, and its tag grows by the predicted time of that task over its weight.
 * When the task ends, the tag is corrected by the time that the task really took, so a wrong
 * prediction costs nobody else more than that task. The virtual time of the scheduler is the
 * smallest tag among the shares that have a task, and never goes back. A share that had no task
 * comes back with its own tag or the virtual time, whichever is later. So a share saves nothing up
 * while it asks for nothing. When a task ends and no other task waits, the virtual time catches up
 * with the share that computed: its time was taken from nobody, so later it waits for nobody
 * because of it.
 *
 * Between two shares with tasks, the times that they got, over their weights, differ by at most a
 * task of each (Theorem 1 of the paper) for each worker. A share that asks for little finds its tag
 * behind those of all others, so its task is the next one. The one addition to the paper: a share
 * with a short job goes before one with a long task if it would be its turn right after that task.
 * So a few short jobs in a row need not wait for a long task each, and the bound grows by one task.
 *
 * A share takes part while it has a task, and costs memory and time only then: there may be
 * thousands. This file knows no jobs, threads, locks or clocks: the scheduler calls it under its
 * lock. */
#ifndef ATTND_JOB_SHARE_H
#define ATTND_JOB_SHARE_H

#include "base/heap.h"
#include "base/list.h"

enum {
    JOB_SHARE_SCHEDULERS = 2
}; /* that may have jobs of one share: of the workers, of the disk */
enum { JOB_SHARE_ALL, JOB_SHARE_SHORT, JOB_SHARE_HEAPS };

struct job;
struct job_share;

/* A share in one scheduler, under the scheduler's lock. A zeroed one has no job. */
struct job_flow {
    const struct job_share *share; /* NULL: the scheduler's own common share */

    /* job_share.c's own. */
    double tag;         /* where the next task starts, in virtual time */
    double next;        /* the tag will grow by this for the next task */
    int64_t running_ns; /* predicted for the tasks that run now */
    int64_t number;     /* of its last return: of equal shares the first goes first */
    int64_t place[JOB_SHARE_HEAPS];
    LIST_LINK(struct job_flow) in_open;

    /* job_order.c's own. */
    struct heap jobs;         /* that have a task */
    LIST_OF(struct job) open; /* jobs that are not over, oldest first */
    int64_t open_count;
    int64_t oldest_due_ns; /* the oldest job gets no task of its share before */
    int64_t task_ns;       /* the longest of the last tasks */

    /* scheduler.c's own: of the open jobs. */
    int64_t job_count, cost_ns;
};

/* An owner's share of the schedulers. It belongs to the owner, who may free it when no job of it is
 * left in any scheduler, and must not move it before. Zeroed but for its weight at first. */
struct job_share {
    _Atomic double weight;      /* above 0; may change at any time */
    _Atomic int64_t more_items; /* open batches' items but the first of each (call/admission.h) */
    _Atomic int64_t coming_count, coming_cost_ns; /* of requests whose bodies are on their way */
    struct job_flow flows[JOB_SHARE_SCHEDULERS];
};

/* The shares of one scheduler. A zeroed one is empty. */
struct job_share_queue {
    struct heap heaps[JOB_SHARE_HEAPS]; /* shares with a task; those whose first job is short */
    double now;                         /* virtual time */
    double furthest;                    /* the largest tag of a share at the end of a task */
    int64_t running;                    /* tasks */
    int64_t returns;                    /* so far */
    LIST_OF(struct job_flow) open;      /* shares with jobs that are not over */
    int64_t open_count;
};

/* 1 for the common share. */
double job_share_weight(const struct job_flow *flow);

/* Room for one share more. False: no memory, and nothing has changed. */
bool job_share_reserve(struct job_share_queue *queue);

/* The share gets its first job, or its last one is over. The caller has reserved room. */
void job_share_open(struct job_share_queue *queue, struct job_flow *flow);
void job_share_close(struct job_share_queue *queue, struct job_flow *flow);

/* The share has a task, which will take next_ns, of a job that is_short; or it has none: next_ns is
 * -1. Called when that has changed. */
void job_share_settle(struct job_share_queue *queue, struct job_flow *flow, int64_t next_ns,
                      bool is_short);

/* The share with the smallest tag; NULL: none has a task. */
struct job_flow *job_share_first(const struct job_share_queue *queue);

/* Whether the share may give a task of a short job now, though it is not first: it would be its
 * turn at the latest after the next task of the share that is first. */
bool job_share_may_pass(const struct job_share_queue *queue, const struct job_flow *flow);

/* The first share whose first job is short and not begun, if it may pass; else NULL. */
struct job_flow *job_share_first_short(const struct job_share_queue *queue);

/* Where the next task of the share starts in virtual time, if it has one now. */
double job_share_start(const struct job_share_queue *queue, const struct job_flow *flow);

/* A task of the share begins, which will take about predicted_ns, and ends after spent_ns. */
void job_share_begin(struct job_share_queue *queue, struct job_flow *flow, int64_t predicted_ns);
void job_share_end(struct job_share_queue *queue, struct job_flow *flow, int64_t predicted_ns,
                   int64_t spent_ns);

/* Time that was charged to one share is charged to another: that of tasks that have ended, and
 * predicted time of tasks that run. Both are open. */
void job_share_pay(struct job_share_queue *queue, struct job_flow *from, struct job_flow *to,
                   int64_t spent_ns, int64_t running_ns);

void job_share_free(struct job_share_queue *queue);

#endif
