/* SPDX-License-Identifier: Apache-2.0 */
/* scheduler_internal.h - what scheduler.c (jobs and their stages), scheduler_threads.c (the threads
 * that run their tasks) and scheduler_callers.c (callers that do) share.
 *
 * The threads are above: they call scheduler.c. A job that gets a task wakes a thread by a
 * condition, so scheduler.c calls no thread.
 *
 * One mutex guards everything but the workspaces. */
#ifndef ATTND_SCHEDULER_INTERNAL_H
#define ATTND_SCHEDULER_INTERNAL_H

#include "scheduler/job_order.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SCHEDULER_INLINE_MAX = 16, SCHEDULER_SUMS = 8 };

/* A worker, the spare thread, or the seat of a caller that runs a job itself. */
struct scheduler_thread {
    struct scheduler *scheduler;
    struct worker worker;
    int index; /* 0 .. SCHEDULER_WORKERS_MAX - 1; the spare thread's is that */
    pthread_t thread;
    bool started;         /* and not joined */
    bool gone;            /* it has seen that it is one too many, and can be joined */
    bool held;            /* runs a task, or its stage's end, of a job that is not short */
    int64_t begun_ns;     /* since when it runs something; 0: it runs nothing */
    int cpu;              /* on which it began that; -1: unknown */
    int64_t unoffered_ns; /* CPU time since it last offered its CPU to others */
    int pin_count;        /* the scheduler's, when it pinned itself last */
};

/* Of the open jobs of a share, those that do not go before a job of this level that came at at_ns
 * with a key so far behind that: the sum of their costs. */
struct scheduler_sum {
    const struct job_flow *flow; /* only to be compared */
    int level;
    int64_t at_ns, behind_ns, others_ns;
};

/* Of jobs that ended while others waited; sums, in which the past counts less and less. */
struct scheduler_pace {
    double jobs, more_ns; /* their number, and the workers' time beyond what was predicted */
    int64_t at_ns;        /* when the last one ended */
    bool waits;           /* and whether another waited then */
};

struct scheduler {
    pthread_mutex_t mutex;
    pthread_cond_t work;  /* a task is there, or stopping, or fewer workers */
    pthread_cond_t spare; /* a task for the spare thread is there, or stopping */
    pthread_cond_t empty; /* no job is open any more */
    pthread_cond_t timer; /* a deadline before timer_ns is there, or stopping; monotonic clock */
    struct job_order order;
    LIST_OF(struct job) open; /* jobs that are not over, oldest first */
    struct scheduler_load load;
    struct scheduler_sum sums[SCHEDULER_SUMS];
    struct scheduler_pace pace;
    int queue_max;
    bool cancelled; /* every job ends early, and none is taken */
    bool stopping;
    int64_t timer_ns; /* when the deadlines are checked next */
    pthread_t timer_thread;
    bool timer_started;
    size_t workspace_bytes;
    int pin_count;  /* how often the workers were told to pin themselves; 0: never */
    cpu_set_t cpus; /* to which */
    bool spare_idle;
    int idle_count;       /* workers that sleep, including those that are being woken */
    atomic_bool has_task; /* nearly: whether the order has a job. For workers without the mutex */
    int cpu_count;        /* on which its threads may run */
    int worker_count;
    struct scheduler_thread threads[SCHEDULER_WORKERS_MAX + 1];
    int inline_count; /* callers that run a job themselves, in these seats */
    struct scheduler_thread seats[SCHEDULER_INLINE_MAX];
};

/* All of these are called with the mutex held, and return with it held. */

/* Takes a job over; false: the queue is full. is_callers: the caller runs its first task. */
bool scheduler_take(struct scheduler *scheduler, struct job *job, int64_t now_ns, bool is_callers);

/* The caller has run the last task of a stage, and stage_tasks() has returned task_count for the
 * next one: begins that stage, waits for it, or ends the job. Wakes threads for up to wake_count
 * tasks. */
void scheduler_go_on(struct scheduler *scheduler, struct job *job, int64_t task_count,
                     int64_t wake_count);

/* How many tasks of the job may run at once. */
int scheduler_tasks_at_once(const struct job *job);

/* Takes the next task of job, which is in the order, or a run of up to `most` short ones, and runs
 * them to their end. */
void scheduler_run_tasks(struct scheduler *scheduler, struct job *job,
                         struct scheduler_thread *thread, int64_t most, int64_t now_ns);

/* Stops every job whose deadline is before now_ns, or all jobs where now_ns is INT64_MAX, and ends
 * those without a running task. Returns the next deadline. Releases the mutex to call done. */
int64_t scheduler_stop_late_jobs(struct scheduler *scheduler, int64_t now_ns,
                                 enum job_outcome outcome);

/* Whether every worker runs a task, or the end of a stage, of a job that is not short. */
bool scheduler_workers_held(const struct scheduler *scheduler, int64_t now_ns);

/* Up to task_count more tasks can be taken: wakes as many workers, or the spare thread. */
void scheduler_wake(struct scheduler *scheduler, int64_t task_count, int64_t now_ns);

/* The job that the spare thread would run: a short one that no worker has begun and that may run
 * now, where every worker is held by a long job. NULL: there is none. */
struct job *scheduler_spare_job(const struct scheduler *scheduler, int64_t now_ns);

/* With or without the mutex: pins the calling thread to the index-th of the allowed CPUs, counting
 * round where there are fewer. Where the kernel refuses, the thread stays unpinned. */
void worker_cpu_pin(const cpu_set_t *allowed, int index);

/* Moves the calling thread to a CPU that is not in busy. Its affinity mask stays as it is, so the
 * kernel may move it on. Where the mask has no other CPU, the thread stays. */
void worker_cpu_leave(const cpu_set_t *busy);

#endif
