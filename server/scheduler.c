/* scheduler.c - see scheduler.h.
 *
 * One mutex guards the list and every job's counters. Jobs stand in the list
 * while they have a task that nobody has begun; a worker takes the first job's
 * next task and moves the job to the end. All calls into a job are made with the
 * mutex released; a task counts as running until its stage's end has been dealt
 * with, so a job can never be ended twice. */
#include "scheduler.h"

#include "clock.h"
#include "metrics.h"

#include <pthread.h>
#include <stdlib.h>

struct scheduler_thread {
    struct scheduler *scheduler;
    struct worker worker;
    pthread_t thread;
};

struct scheduler {
    pthread_mutex_t mutex;
    pthread_cond_t work;  /* a task is there, or stopping */
    pthread_cond_t empty; /* job_count fell to 0 */
    struct job *first, *last;
    int job_count; /* submitted and not done */
    int queue_max;
    bool cancelled; /* every job is to end early, and none is taken */
    bool stopping;
    int worker_count;
    struct scheduler_thread workers[];
};

static void list_append(struct scheduler *scheduler, struct job *job)
{
    job->next = NULL;
    job->previous = scheduler->last;
    if (scheduler->last)
        scheduler->last->next = job;
    else
        scheduler->first = job;
    scheduler->last = job;
    job->listed = true;
}

static void list_remove(struct scheduler *scheduler, struct job *job)
{
    if (!job->listed)
        return;
    *(job->previous ? &job->previous->next : &scheduler->first) = job->next;
    *(job->next ? &job->next->previous : &scheduler->last) = job->previous;
    job->listed = false;
}

/* Called with the mutex held and no task of the job running; returns with it held. */
static void end_job(struct scheduler *scheduler, struct job *job)
{
    const enum job_outcome outcome = job->outcome;
    list_remove(scheduler, job);
    job->over = true;
    /* Counted out first: a client that has its answer may send the next request at once. */
    if (--scheduler->job_count == 0)
        pthread_cond_broadcast(&scheduler->empty);
    metrics_gauge_add(METRICS_QUEUE_JOBS, -1);
    pthread_mutex_unlock(&scheduler->mutex);
    job->kind->done(job, outcome); /* job may be freed from here on */
    pthread_mutex_lock(&scheduler->mutex);
}

static void stop_job(struct job *job, enum job_outcome outcome)
{
    if (job->outcome == JOB_FINISHED)
        job->outcome = outcome;
    job->next_task = job->task_count;
}

/* The last task of a stage has been run: begin the next stage or end the job.
 * The caller's task still counts as running, which keeps everyone else away. */
static void end_stage(struct scheduler *scheduler, struct job *job)
{
    int64_t task_count = 0;
    if (scheduler->cancelled)
        stop_job(job, JOB_CANCELLED);
    if (job->outcome == JOB_FINISHED) {
        const int stage = job->stage + 1;
        pthread_mutex_unlock(&scheduler->mutex);
        task_count = job->kind->stage_tasks(job, stage);
        pthread_mutex_lock(&scheduler->mutex);
    }
    job->tasks_running--;
    if (task_count == 0 || job->outcome != JOB_FINISHED) {
        end_job(scheduler, job);
        return;
    }
    job->stage++;
    job->task_count = task_count;
    job->next_task = 0;
    list_append(scheduler, job);
    if (task_count > 1)
        pthread_cond_broadcast(&scheduler->work);
    else
        pthread_cond_signal(&scheduler->work);
}

static void run_task(struct scheduler *scheduler, struct job *job, const struct worker *worker)
{
    const int64_t task = job->next_task++;
    job->tasks_running++;
    list_remove(scheduler, job);
    if (job->next_task < job->task_count)
        list_append(scheduler, job);

    pthread_mutex_unlock(&scheduler->mutex);
    job->kind->run(job, job->stage, task, worker);
    pthread_mutex_lock(&scheduler->mutex);

    if (job->tasks_running == 1 && job->next_task == job->task_count)
        end_stage(scheduler, job);
    else
        job->tasks_running--;
}

static void *work(void *argument)
{
    struct scheduler_thread *self = argument;
    struct scheduler *scheduler = self->scheduler;
    pthread_mutex_lock(&scheduler->mutex);
    for (;;) {
        struct job *job = scheduler->first;
        if (job && job->deadline_ns && clock_now_ns() > job->deadline_ns) {
            list_remove(scheduler, job);
            stop_job(job, JOB_DEADLINE);
            if (job->tasks_running == 0)
                end_job(scheduler, job);
        } else if (job) {
            run_task(scheduler, job, &self->worker);
        } else if (scheduler->stopping) {
            break;
        } else {
            pthread_cond_wait(&scheduler->work, &scheduler->mutex);
        }
    }
    pthread_mutex_unlock(&scheduler->mutex);
    return NULL;
}

/* Ends the first worker_count threads and frees everything. */
static void destroy(struct scheduler *scheduler, int worker_count)
{
    pthread_mutex_lock(&scheduler->mutex);
    scheduler->stopping = true;
    pthread_cond_broadcast(&scheduler->work);
    pthread_mutex_unlock(&scheduler->mutex);
    for (int i = 0; i < worker_count; i++)
        pthread_join(scheduler->workers[i].thread, NULL);
    for (int i = 0; i < scheduler->worker_count; i++)
        free(scheduler->workers[i].worker.workspace);
    pthread_cond_destroy(&scheduler->empty);
    pthread_cond_destroy(&scheduler->work);
    pthread_mutex_destroy(&scheduler->mutex);
    free(scheduler);
}

struct scheduler *scheduler_create(int worker_count, int queue_max, size_t workspace_bytes)
{
    struct scheduler *scheduler =
        calloc(1, sizeof *scheduler + (size_t)worker_count * sizeof scheduler->workers[0]);
    if (!scheduler)
        return NULL;
    pthread_mutex_init(&scheduler->mutex, NULL);
    pthread_cond_init(&scheduler->work, NULL);
    pthread_cond_init(&scheduler->empty, NULL);
    scheduler->queue_max = queue_max;
    scheduler->worker_count = worker_count;
    for (int i = 0; i < worker_count; i++) {
        struct scheduler_thread *thread = &scheduler->workers[i];
        thread->scheduler = scheduler;
        thread->worker.index = i;
        thread->worker.workspace_bytes = (workspace_bytes + 63) / 64 * 64;
        thread->worker.workspace = aligned_alloc(64, thread->worker.workspace_bytes);
        if (!thread->worker.workspace || pthread_create(&thread->thread, NULL, work, thread) != 0) {
            destroy(scheduler, i);
            return NULL;
        }
    }
    return scheduler;
}

bool scheduler_submit(struct scheduler *scheduler, struct job *job)
{
    pthread_mutex_lock(&scheduler->mutex);
    const bool taken = scheduler->job_count < scheduler->queue_max && !scheduler->cancelled;
    if (taken) {
        scheduler->job_count++;
        job->over = false;
        job->outcome = JOB_FINISHED;
        job->stage = 0;
        job->task_count = 1;
        job->next_task = 0;
        job->tasks_running = 0;
        list_append(scheduler, job);
        metrics_gauge_add(METRICS_QUEUE_JOBS, 1);
        pthread_cond_signal(&scheduler->work);
    }
    pthread_mutex_unlock(&scheduler->mutex);
    return taken;
}

void scheduler_stop_job(struct scheduler *scheduler, struct job *job, enum job_outcome outcome)
{
    pthread_mutex_lock(&scheduler->mutex);
    if (!job->over) {
        list_remove(scheduler, job);
        stop_job(job, outcome);
        if (job->tasks_running == 0)
            end_job(scheduler, job);
    }
    pthread_mutex_unlock(&scheduler->mutex);
}

void scheduler_cancel_all(struct scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->mutex);
    scheduler->cancelled = true;
    while (scheduler->first) {
        struct job *job = scheduler->first;
        list_remove(scheduler, job);
        stop_job(job, JOB_CANCELLED);
        if (job->tasks_running == 0)
            end_job(scheduler, job);
    }
    pthread_mutex_unlock(&scheduler->mutex);
}

int scheduler_worker_count(const struct scheduler *scheduler)
{
    return scheduler->worker_count;
}

void scheduler_free(struct scheduler *scheduler)
{
    if (!scheduler)
        return;
    pthread_mutex_lock(&scheduler->mutex);
    while (scheduler->job_count > 0)
        pthread_cond_wait(&scheduler->empty, &scheduler->mutex);
    pthread_mutex_unlock(&scheduler->mutex);
    destroy(scheduler, scheduler->worker_count);
}
