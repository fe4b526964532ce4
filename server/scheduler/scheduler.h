/* SPDX-License-Identifier: Apache-2.0 */
/* scheduler.h - A bounded queue of jobs, and the threads that run their tasks.
 *
 * A job runs in stages. Stage 0 is one task; after the last task of a stage the job says how many
 * tasks the next stage has, 0 when the job is over. A worker takes one task at a time, or a run of
 * the shortest ones, from the job that is first by priority and by its remaining cost
 * (job_order.h). So a job that is alone uses every worker, and a short job waits for one task or
 * one run of a long job at the most. Where long jobs hold every worker, a short job does not wait
 * at all: a spare thread runs its tasks beside them, and the kernel shares the CPUs.
 *
 * Between two stages a job may wait for something outside the scheduler (JOB_WAITS). It holds no
 * worker then, and goes on with scheduler_continue().
 *
 * Jobs may be of shares, for example one for each key: shares divide the time of the workers by
 * their weights (job_share.h).
 *
 * A job belongs to its creator; the scheduler borrows it from scheduler_submit() until it calls
 * done, exactly once, with no lock held. */
#ifndef ATTND_SCHEDULER_H
#define ATTND_SCHEDULER_H

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum job_outcome {
    JOB_FINISHED,
    JOB_DEADLINE,  /* its deadline passed */
    JOB_LEFT,      /* its client left */
    JOB_CANCELLED, /* the daemon stops */
};

struct job;
struct job_flow;
struct job_share;

/* What a thread brings to a task. */
struct worker {
    void *workspace; /* 64-byte aligned */
    size_t workspace_bytes;
    int slot; /* differs between tasks of a job that run at once. Below the job's tasks_at_once and
                 below SCHEDULER_AT_ONCE_MAX */
};

enum {
    SCHEDULER_WORKERS_MAX = 64,
    SCHEDULER_AT_ONCE_MAX = 64,   /* tasks of one job */
    SCHEDULER_SHORT_NS = 4000000, /* a job of at most this cost is a short one */
    SCHEDULER_OFFER_NS =
        1000000, /* CPU time of a long job between two offers of the CPU to others */
    SCHEDULER_SPREAD_NS = 1000000, /* workers of a longer job leave a CPU that they share */
};

enum { JOB_WAITS = -1 };

/* All of them are called with no lock held. */
struct job_kind {
    /* Called when stage - 1 has ended. Returns the number of tasks of stage, 0 where the job is
     * over, or JOB_WAITS where scheduler_continue() will give the number. */
    int64_t (*stage_tasks)(struct job *job, int stage);
    void (*run)(struct job *job, int stage, int64_t task, const struct worker *worker);
    void (*done)(struct job *job, enum job_outcome outcome);
};

struct job {
    /* The owner's. Set before scheduler_submit(); changed only in stage_tasks(), in the only task
     * of a stage, or between scheduler_claim() and scheduler_continue(). The scheduler reads them
     * when it takes the job, after each stage and in scheduler_continue(). */
    const struct job_kind *kind;
    int64_t deadline_ns; /* monotonic clock; no task or run begins after it. 0: none */
    int priority;        /* 1 is the highest level; 0: the default */
    int64_t cost_ns;     /* predicted time of one worker for the rest of the job; 0: not known */
    struct job_share *share; /* read when the scheduler takes the job; NULL: the common share */
    int64_t stands_ns; /* the job's place in the order is that of a job of this remaining cost; 0:
                          that of its own remaining cost */
    int tasks_at_once; /* of this job, at most; 0: any number. For owners with memory for each */
    bool for_others;   /* does a part of other jobs: not counted as a job, and always taken */

    /* The scheduler's own, under its lock. */
    LIST_LINK(struct job) in_open; /* the list of jobs that are not over, oldest first */
    bool over, waits;
    enum job_outcome outcome;
    int stage;
    int64_t task_count, next_task;
    int64_t tasks_running; /* a run, a claim and the end of a stage count as one each */
    uint64_t slots;        /* a bit for the slot of each running task */
    int64_t run_tasks;     /* of the last run of this stage that has ended; 0: none has */
    int64_t run_task_ns;   /* what a task of it took */
    int64_t continued;     /* task_count of a scheduler_continue() that came early; -1: none */
    int64_t ends_ns;       /* the deadline as last read; INT64_MAX: none */
    int64_t cost_read_ns;  /* the cost as last read */
    int64_t remaining_ns;  /* of that cost */
    int64_t admitted_ns;   /* the cost when it came */

    /* job_order.h's own. */
    struct job_flow *flow;          /* of its share in this scheduler */
    LIST_LINK(struct job) in_share; /* the list of the share's jobs that are not over */
    int64_t charged_ns;             /* its share is charged this for the tasks that run */
    int64_t place;                  /* in the heap of its share; -1: the job has no task to give */
    int64_t number, arrived_ns, key_ns;
    int64_t spent_ns; /* by all tasks of the job */
    int64_t task_ns;  /* by the last one */
    int level;
};

struct scheduler;

/* Jobs that are not over, begun or not. */
struct scheduler_load {
    int64_t job_count; /* without jobs that are for_others */
    int64_t cost_ns;   /* predicted time of one worker for the rest of all jobs */
    int64_t more_ns;   /* each job takes a worker so much longer than predicted, lately while others
                          waited: other threads have used the CPUs */
};

/* The same of one share. */
struct scheduler_share_load {
    int64_t job_count, cost_ns;
    double part; /* of the workers, by the weights, if all shares with open jobs ask for more */
};

/* NULL where threads or memory are lacking. */
struct scheduler *scheduler_create(int worker_count, int queue_max, size_t workspace_bytes);

/* A share may have jobs in JOB_SHARE_SCHEDULERS schedulers. This one is the number-th of them, 0 if
 * not set. Before the first job; NULL is fine. */
void scheduler_set_number(struct scheduler *scheduler, int number);

/* False, and the job is not taken, where queue_max jobs are not over yet. */
bool scheduler_submit(struct scheduler *scheduler, struct job *job);

/* How far a caller of scheduler_run() helps with a job that costs more than it runs alone. */
struct scheduler_help {
    int64_t job_most_ns;            /* predicted cost of the job, at most */
    int64_t task_most_ns;           /* predicted time of a task that the caller takes, at most */
    bool (*goes_on)(void *context); /* asked before each task, with no lock held; false: no more */
    void *context;
};

/* The same, but the caller may run the job itself: where its cost_ns is known and at most
 * inline_ns, and either no task waits and a worker is idle, or long jobs hold all workers and only
 * long jobs wait. Then done has been called on return, unless the job proved to cost more, or
 * waits; such a job goes on with the workers.
 *
 * help: where no task waits and a worker is idle, the caller runs the first stage of a larger job
 * too, and then tasks beside the workers until it has to go. done may have been called on return.
 * NULL: it does not help. */
bool scheduler_run(struct scheduler *scheduler, struct job *job, int64_t inline_ns,
                   const struct scheduler_help *help);

/* The caller runs the job that goes first, if its predicted rest is known and at most most_ns: a
 * thread that only refuses new jobs while others wait would take the CPU from the workers. Returns
 * the predicted cost of what it ran; 0: nothing. */
int64_t scheduler_relieve(struct scheduler *scheduler, int64_t most_ns);

/* Claims a job that waits (JOB_WAITS), so that the caller may read and write the job's memory:
 * until scheduler_continue() the job does not end, even if its client leaves, its deadline passes
 * or the daemon stops. May be called as soon as stage_tasks() has been entered. False where the job
 * has been stopped: done has been called or is about to be, and the caller must not touch the job.
 *
 * The caller has to know that the job exists: it holds a lock around this call, under which the
 * job's done removes the job from where the caller found it. */
bool scheduler_claim(struct scheduler *scheduler, struct job *job);

/* A claimed job goes on with task_count tasks of the stage that it waits for; 0: the job is over.
 * May call done, so the caller must not hold a lock that done takes. */
void scheduler_continue(struct scheduler *scheduler, struct job *job, int64_t task_count);

/* Raises the job to this priority where that is higher. From any thread; the job has to exist. */
void scheduler_raise(struct scheduler *scheduler, struct job *job, int priority);

/* For a job that does a part of other jobs. All of them have to exist, and not be over, until the
 * call returns. */

/* From now on the job is of the share: its running tasks and those to come are charged to it. */
void scheduler_move(struct scheduler *scheduler, struct job *job, struct job_share *share);

/* Moves the job to the share of other if that one's turn comes sooner. */
void scheduler_join(struct scheduler *scheduler, struct job *job, const struct job *other);

/* Charges spent_ns to other's share instead of the job's, for work that the job did for other. */
void scheduler_pay(struct scheduler *scheduler, struct job *job, const struct job *other,
                   int64_t spent_ns);

/* Ends a job early, from any thread: no further task or run begins, and done is called with
 * outcome, by this call or at the end of the job's last running task or claim. Has no effect on a
 * job that is over. The scheduler watches the deadlines itself. */
void scheduler_stop_job(struct scheduler *scheduler, struct job *job, enum job_outcome outcome);

/* Whether the job was to end early, or at its deadline. For a task that takes long: it may end too
 * once it knows. Called in a task of the job. */
bool scheduler_is_stopped(struct scheduler *scheduler, const struct job *job);

/* Ends all jobs early, and takes none from now on. */
void scheduler_cancel_all(struct scheduler *scheduler);

/* Predicted time of one worker, and more_ns for each job, for what would run before job: one that
 * comes now, or one that the scheduler has, with the share, priority, cost and deadline that its
 * owner has set. */
int64_t scheduler_before_ns(struct scheduler *scheduler, const struct job *job);

struct scheduler_load scheduler_load(struct scheduler *scheduler);

/* NULL: of the common share. */
struct scheduler_share_load scheduler_share_load(struct scheduler *scheduler,
                                                 struct job_share *share);

int scheduler_worker_count(struct scheduler *scheduler);

/* How many threads may run tasks at once, with so many workers: these, callers that run jobs
 * themselves, and the spare thread. */
int scheduler_threads_max(int worker_count);

/* Sets the number of workers, 1 to SCHEDULER_WORKERS_MAX, also while jobs run. A worker that is one
 * too many ends when its task is done. Returns the new number: fewer than asked for where threads
 * or memory are lacking. By one thread at a time. */
int scheduler_set_worker_count(struct scheduler *scheduler, int worker_count);

/* From its next task on worker i runs on one CPU only, the i-th of those that the caller may use.
 * By the thread that sets the number of workers. */
void scheduler_pin_workers(struct scheduler *scheduler);

/* Waits until all jobs are over, then ends the threads. No other thread may use the scheduler any
 * more. NULL is fine. */
void scheduler_free(struct scheduler *scheduler);

#endif
