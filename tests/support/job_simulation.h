/* SPDX-License-Identifier: Apache-2.0 */
/* job_simulation.h - jobs in an order (scheduler/job_order.h) by a simulated clock: workers take
 * tasks of jobs as the daemon's workers do, but no time passes. */
#ifndef JOB_SIMULATION_H
#define JOB_SIMULATION_H

#include "scheduler/job_order.h"

#define MS INT64_C(1000000)

enum { WORKERS_MAX = 4, JOBS_MAX = 40000 };

struct simulated_job {
    struct job job; /* first: a job is its simulated_job */
    int64_t arrives_ns, task_ns;
    int64_t begun_ns, over_ns; /* -1: not yet */
    int64_t *used_ns;          /* grows by the time of its tasks when they end; or NULL */
};

struct simulation {
    struct job_order order;
    struct simulated_job jobs[JOBS_MAX];
    int job_count; /* by their arrival */
    int arrived;
    int worker_count;
    int64_t now_ns;
    struct simulated_job *running[WORKERS_MAX];
    int64_t free_ns[WORKERS_MAX], charged_ns[WORKERS_MAX];
    void (*watch)(struct simulation *simulation, struct job *job); /* job gives a task; or NULL */
};

struct simulation *simulation_create(int worker_count);

/* Jobs are added in the order of their arrival. The caller may then set the job's share, and what
 * is predicted: job.remaining_ns, or 0. */
struct simulated_job *simulation_add(struct simulation *simulation, int64_t arrives_ns,
                                     int priority, int64_t task_count, int64_t task_ns);

/* Lets jobs arrive, and tasks begin and end, until end_ns or until all jobs are done. May be called
 * again, with a later end. */
void simulation_run(struct simulation *simulation, int64_t end_ns);

void simulation_free(struct simulation *simulation);

/* Reserves room for the job in an order, and admits it. */
void simulation_admit(struct job_order *order, struct job *job, int64_t now_ns);

#endif
