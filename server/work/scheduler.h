/* scheduler.h - a bounded queue of jobs, and the threads that run their tasks.
 *
 * A job runs in stages. Stage 0 is one task; after the last task of a stage the
 * job says how many tasks the next one has, 0 when it is over. A worker takes one
 * task at a time, of the job that is first by priority and by what it costs still
 * (job_order.h), so one job alone uses every worker, and a short one waits for a
 * task of a long one at the most. Not even that where every worker is held by a long
 * one: a spare thread runs the short ones' tasks meanwhile, beside them, and the
 * kernel shares the CPUs.
 *
 * Between two stages a job may wait for somebody else (JOB_WAITS): it holds no worker
 * then, and goes on when that other says so.
 *
 * A job is owned by whoever created it; the scheduler borrows it from
 * scheduler_submit() until done has been called, exactly once, with no lock held. */
#ifndef ATTND_SCHEDULER_H
#define ATTND_SCHEDULER_H

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum job_outcome {
    JOB_FINISHED,
    JOB_DEADLINE,  /* its time passed */
    JOB_LEFT,      /* nobody waits for it any more */
    JOB_CANCELLED, /* the daemon stops */
};

struct job;

/* What a thread brings to a task. */
struct worker {
    void *workspace; /* 64-byte aligned */
    size_t workspace_bytes;
    int slot; /* of the task's job: no two tasks that run at once have the same. Below its
                 tasks_at_once, and below SCHEDULER_AT_ONCE_MAX */
};

enum {
    SCHEDULER_WORKERS_MAX = 64,
    SCHEDULER_AT_ONCE_MAX = 64,   /* tasks of one job */
    SCHEDULER_SHORT_NS = 4000000, /* a job that costs no more is a short one */
    SCHEDULER_OFFER_NS = 1000000, /* of a long job, after which a worker offers its CPU to others */
};

enum { JOB_WAITS = -1 };

/* All of them are called with no lock held. */
struct job_kind {
    /* After stage - 1 has ended: the number of tasks of stage, 0 where the job is over, or
     * JOB_WAITS: scheduler_continue() will say. */
    int64_t (*stage_tasks)(struct job *job, int stage);
    void (*run)(struct job *job, int stage, int64_t task, const struct worker *worker);
    void (*done)(struct job *job, enum job_outcome outcome);
};

struct job {
    /* The owner's: set before scheduler_submit(), and anew only in stage_tasks(), in a task that is
     * alone in its stage, or by who has claimed the job while it waits. The scheduler reads them
     * when it takes the job, after each stage and in scheduler_continue(). */
    const struct job_kind *kind;
    int64_t deadline_ns; /* monotonic clock; past it no further task is begun. 0: none */
    int priority;        /* 1 is the highest level; 0: the default */
    int64_t cost_ns;   /* what it has still to do, in predicted time on one worker; 0: not known */
    int64_t stands_ns; /* where it stands in the order, as if this were what it costs still; 0: by
                          what it does cost */
    int tasks_at_once; /* of this job; 0: any number. For those who keep memory for each */
    bool for_others;   /* a part of other jobs: it is in no number of jobs and always taken */

    /* The scheduler's own, under its lock. */
    LIST_LINK(struct job) in_open; /* the list of all that are not over, oldest first */
    bool over, waits;
    enum job_outcome outcome;
    int stage;
    int64_t task_count, next_task;
    int64_t tasks_running; /* claims and the end of a stage count as one each */
    uint64_t slots;        /* that running tasks have, a bit each */
    int64_t continued;     /* tasks given by a scheduler_continue() that came early; -1: none */
    int64_t ends_ns;       /* the deadline as it was read */
    int64_t cost_read_ns;  /* the cost as it was read */
    int64_t remaining_ns;  /* what is left of it */

    /* job_order.h's own. */
    int64_t place; /* in its heap; -1: it has no task to give */
    int64_t number, came_ns, key_ns;
    int64_t spent_ns; /* by all its tasks */
    int64_t task_ns;  /* by the last */
    int level;
};

struct scheduler;

/* Jobs that are not done, those not begun included. */
struct scheduler_load {
    int64_t job_count; /* without those for others */
    int64_t cost_ns;   /* predicted time on one worker of what they have still to do */
};

/* NULL where threads or memory are lacking. */
struct scheduler *scheduler_create(int worker_count, int queue_max, size_t workspace_bytes);

/* False, and the job was not taken: queue_max jobs are not done yet. */
bool scheduler_submit(struct scheduler *scheduler, struct job *job);

/* The same, but where no task waits and a worker is idle, or long jobs hold all of them and none
 * but long ones wait, and the job's cost_ns is known and at most inline_ns, the caller runs it:
 * done has been called when this returns, or the job has proved to cost more and goes on with the
 * workers. */
bool scheduler_run(struct scheduler *scheduler, struct job *job, int64_t inline_ns);

/* A job that waits is about to be worked upon by another, who reads or writes what is the job's:
 * until scheduler_continue() it does not end, whatever becomes of its client, its deadline or the
 * daemon. May be called as soon as stage_tasks() has been entered. False where the job has been
 * stopped: done has been called or is about to be, and nothing of the job may be touched. The
 * caller sees to it that the job exists: done takes it from where others find it, under the
 * lock that is held around this call. */
bool scheduler_claim(struct scheduler *scheduler, struct job *job);

/* A claimed job goes on, with task_count tasks of the stage that it waits for; 0: it is over.
 * May call done, so no lock may be held that done takes. */
void scheduler_continue(struct scheduler *scheduler, struct job *job, int64_t task_count);

/* A job, which exists, goes on at this priority where that is a higher one; from any thread. */
void scheduler_raise(struct scheduler *scheduler, struct job *job, int priority);

/* Ends a job early, from any thread: no further task is begun, and done is called
 * with outcome, by this call or by whoever ends its last running task or its claim.
 * A job that is over already is left alone. Deadlines are the scheduler's own to watch. */
void scheduler_stop_job(struct scheduler *scheduler, struct job *job, enum job_outcome outcome);

/* Every job there is ends early, and no other is taken. */
void scheduler_cancel_all(struct scheduler *scheduler);

/* Predicted time on one worker of what would be run before job, if that came now or, being there
 * since it came, had this priority, cost and deadline. */
int64_t scheduler_before_ns(struct scheduler *scheduler, const struct job *job);

struct scheduler_load scheduler_load(struct scheduler *scheduler);

int scheduler_worker_count(struct scheduler *scheduler);

/* More or fewer workers, 1 to SCHEDULER_WORKERS_MAX, while jobs run. One that is too many goes
 * when its task is done. Returns how many there are: fewer than asked for where threads or memory
 * are lacking. By one thread at a time. */
int scheduler_set_worker_count(struct scheduler *scheduler, int worker_count);

/* From now on worker i has a CPU of its own, the i-th of those that the caller may use. By the
 * thread that sets the number of workers. */
void scheduler_pin_workers(struct scheduler *scheduler);

/* Waits for every job to be done and ends the threads. No other thread may use
 * the scheduler by then. NULL is fine. */
void scheduler_free(struct scheduler *scheduler);

#endif
