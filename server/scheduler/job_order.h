/* SPDX-License-Identifier: Apache-2.0 */
/* job_order.h - which job gives the next task.
 *
 * Jobs belong to shares, and the shares take turns by the time that they got (job_share.h). What
 * follows is the order inside one share; without shares all jobs are of one, the common share.
 *
 * The highest priority level goes first. Within a level a job's key is the time at which it would
 * be over if it got a sixteenth of the time: its arrival plus sixteen times its remaining cost,
 * or the middle between its arrival and its deadline, whichever is sooner. The smallest key goes
 * first. So short jobs go before long ones, and equal jobs in the order of their arrival; and once
 * a job has waited sixteen times its own cost, or half of its time, no later job passes it.
 *
 * That alone would let a low level, or a long job, starve under a stream of jobs that go before it.
 * So the job that has waited longest of all, whatever its level and cost, gets a sixteenth of one
 * worker besides, out of the time of its share.
 *
 * This file knows no threads, locks or clocks: callers hold their lock and pass the time. */
#ifndef ATTND_JOB_ORDER_H
#define ATTND_JOB_ORDER_H

#include "scheduler/job_share.h"
#include "scheduler/scheduler.h"

enum {
    JOB_LEVELS = 3, /* 1 is the highest */
    JOB_LEVEL_DEFAULT = 2,
    JOB_PASSES = 16,            /* times its cost that later jobs may pass a job */
    JOB_OLDEST_SHARE = 16,      /* the oldest job gets a sixteenth */
    JOB_PATIENCE_NS = 100000000 /* and only after it has waited so long */
};

struct job_order {
    struct job_flow common; /* of jobs without a share */
    struct job_share_queue shares;
    int64_t count;      /* jobs with a task, of all shares */
    int64_t open_count; /* jobs that came and are not over */
    int64_t came;       /* jobs so far */
    int scheduler;      /* which flow of a share is that of this order: JOB_SHARE_SCHEDULERS */
};

/* The share in this order; NULL: the common share. */
struct job_flow *job_order_flow(struct job_order *order, struct job_share *share);

/* Room for one more job of the share. False: no memory, and nothing has changed. */
bool job_order_reserve(struct job_order *order, struct job_share *share);

/* Notes that a job came at now_ns. It has no task to give yet. The caller has reserved room. */
void job_order_admit(struct job_order *order, struct job *job, int64_t now_ns);

/* Notes that a job is over. None of its tasks runs. */
void job_order_end(struct job_order *order, struct job *job);

/* The level of a number that a request asks for; the default level for a number that is none. */
int job_order_level(int priority);

/* Puts a job that has a task at its place. Moves a job that is in the order already, when its cost
 * has changed. */
void job_order_put(struct job_order *order, struct job *job);

/* Has no effect on a job that is not in the order. */
void job_order_remove(struct job_order *order, struct job *job);

/* The job that gives the next task; it stays in the order. NULL: none has a task. */
struct job *job_order_next(struct job_order *order, int64_t now_ns);

/* The first job of the share whose turn it is; NULL: none has a task. */
struct job *job_order_first(const struct job_order *order);

/* A short job that no worker has begun: the first of its share, which may pass (job_share.h). It
 * goes before all others. NULL: there is none. */
struct job *job_order_first_short(const struct job_order *order);

/* A task of the job is about to begin; the job's numbers of tasks do not count it as running yet.
 * Returns the time for which its share is charged until the task ends. */
int64_t job_order_begin(struct job_order *order, struct job *job);

/* A task ends that job_order_begin() charged for charged_ns, and took spent_ns. The caller then
 * puts the job at its place or removes it. */
void job_order_finish(struct job_order *order, struct job *job, int64_t charged_ns,
                      int64_t spent_ns);

/* From now on the job is one of another share, which pays for its running tasks and those to come;
 * without memory it becomes one of the common share. */
void job_order_move(struct job_order *order, struct job *job, struct job_share *share);

/* The expected remaining cost: the rest of the prediction, or, where that is used up or there was
 * none, as much as the job has cost so far. */
int64_t job_order_rest_ns(const struct job *job);

/* Within its level, the key of a job that arrives at arrived_ns with the cost and the deadline that
 * its owner has set: the job of the least key goes first. */
int64_t job_order_key_ns(const struct job *job, int64_t arrived_ns);

/* Whether job goes before other, if other arrives at arrived_ns with the priority, cost and
 * deadline that its owner has set. */
bool job_order_goes_before(const struct job *job, const struct job *other, int64_t arrived_ns);

void job_order_free(struct job_order *order);

#endif
