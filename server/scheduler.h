/* scheduler.h - a bounded queue of jobs, and the threads that run their tasks.
 *
 * A job runs in stages. Stage 0 is one task; after the last task of a stage the
 * job says how many tasks the next one has, 0 when it is over. Workers take one
 * task at a time from the jobs in turn, so a long job does not hold a short one,
 * and one job alone uses every worker.
 *
 * A job is owned by whoever created it; the scheduler borrows it from
 * scheduler_submit() until done has been called, exactly once, with no lock held. */
#ifndef ATTND_SCHEDULER_H
#define ATTND_SCHEDULER_H

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

/* What a worker brings to a task. */
struct worker {
    int index;       /* 0 .. worker_count - 1 */
    void *workspace; /* 64-byte aligned */
    size_t workspace_bytes;
};

struct job_kind {
    /* After stage - 1 has ended: the number of tasks of stage, 0 where the job is over. */
    int64_t (*stage_tasks)(struct job *job, int stage);
    void (*run)(struct job *job, int stage, int64_t task, const struct worker *worker);
    void (*done)(struct job *job, enum job_outcome outcome);
};

struct job {
    const struct job_kind *kind;
    int64_t deadline_ns; /* monotonic clock; past it no further task is begun. 0: none */

    /* The scheduler's own, under its lock. */
    struct job *next, *previous; /* in the list of jobs that have a task to give */
    bool listed, over;
    enum job_outcome outcome;
    int stage;
    int64_t task_count, next_task, tasks_running;
};

struct scheduler;

/* NULL where threads or memory are lacking. */
struct scheduler *scheduler_create(int worker_count, int queue_max, size_t workspace_bytes);

/* False, and the job was not taken: queue_max jobs are not done yet. */
bool scheduler_submit(struct scheduler *scheduler, struct job *job);

/* Ends a job early, from any thread: no further task is begun, and done is called
 * with outcome, by this call or by the worker that ends its last running task.
 * A job that is over already is left alone. */
void scheduler_stop_job(struct scheduler *scheduler, struct job *job, enum job_outcome outcome);

/* Every job there is ends early, and no other is taken. */
void scheduler_cancel_all(struct scheduler *scheduler);

int scheduler_worker_count(const struct scheduler *scheduler);

/* Waits for every job to be done and ends the threads. No other thread may use
 * the scheduler by then. NULL is fine. */
void scheduler_free(struct scheduler *scheduler);

#endif
