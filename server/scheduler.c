/* scheduler.c - see scheduler.h.
 *
 * One mutex guards the lists and every job's counters. Jobs stand in one list
 * while they have a task that nobody has begun; a worker takes the first job's
 * next task and moves the job to the end. All calls into a job are made with the
 * mutex released; a task counts as running until its stage's end has been dealt
 * with, so a job can never be ended twice. A thread of its own ends the jobs whose
 * time has passed while no worker is free to look at them. */
#include "scheduler.h"

#include "clock.h"
#include "metrics.h"

#include <assert.h>
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
    pthread_cond_t timer; /* a deadline before timer_ns is there, or stopping; monotonic clock */
    struct job *first, *last;
    struct job *first_open, *last_open;
    struct scheduler_load load;
    int queue_max;
    bool cancelled; /* every job is to end early, and none is taken */
    bool stopping;
    int64_t timer_ns; /* when the deadlines are looked at next */
    pthread_t timer_thread;
    bool timer_started;
    int worker_count;
    struct scheduler_thread workers[];
};

/* ----------------------------------------------------------------- lists -- */

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

static void open_append(struct scheduler *scheduler, struct job *job)
{
    job->next_open = NULL;
    job->previous_open = scheduler->last_open;
    *(scheduler->last_open ? &scheduler->last_open->next_open : &scheduler->first_open) = job;
    scheduler->last_open = job;
    scheduler->load.job_count++;
    metrics_gauge_add(METRICS_QUEUE_JOBS, 1);
}

static void open_remove(struct scheduler *scheduler, struct job *job)
{
    *(job->previous_open ? &job->previous_open->next_open : &scheduler->first_open) =
        job->next_open;
    *(job->next_open ? &job->next_open->previous_open : &scheduler->last_open) = job->previous_open;
    scheduler->load.cost_ns -= job->remaining_ns;
    if (--scheduler->load.job_count == 0)
        pthread_cond_broadcast(&scheduler->empty);
    metrics_gauge_add(METRICS_QUEUE_JOBS, -1);
}

/* -------------------------------------------------------- ends of a job -- */

/* Nobody finds the job any more. Counted out before done is called: a client that has its answer
 * may send the next request at once. */
static void close_job(struct scheduler *scheduler, struct job *job)
{
    list_remove(scheduler, job);
    open_remove(scheduler, job);
    job->over = true;
}

/* Called with the mutex held and no task of the job running; returns with it held. */
static void end_job(struct scheduler *scheduler, struct job *job)
{
    const enum job_outcome outcome = job->outcome;
    close_job(scheduler, job);
    pthread_mutex_unlock(&scheduler->mutex);
    job->kind->done(job, outcome); /* job may be freed from here on */
    pthread_mutex_lock(&scheduler->mutex);
}

static void stop_job(struct scheduler *scheduler, struct job *job, enum job_outcome outcome)
{
    list_remove(scheduler, job);
    if (job->outcome == JOB_FINISHED)
        job->outcome = outcome;
    job->next_task = job->task_count;
}

/* Stops every job whose time has passed by now_ns, all of them where that is INT64_MAX, and ends
 * those that nobody works upon. Returns the next deadline. Called with the mutex held; returns with
 * it held, but it was released meanwhile where a job has been ended. */
static int64_t stop_late_jobs(struct scheduler *scheduler, int64_t now_ns, enum job_outcome outcome)
{
    struct job *ended = NULL;
    int64_t next_ns = INT64_MAX;
    for (struct job *job = scheduler->first_open, *next; job; job = next) {
        next = job->next_open;
        if (now_ns <= job->ends_ns && now_ns < INT64_MAX) {
            next_ns = job->ends_ns < next_ns ? job->ends_ns : next_ns;
            continue;
        }
        stop_job(scheduler, job, outcome);
        if (job->tasks_running > 0)
            continue;
        close_job(scheduler, job);
        job->next = ended;
        ended = job;
    }
    if (!ended)
        return next_ns;
    pthread_mutex_unlock(&scheduler->mutex);
    while (ended) {
        struct job *job = ended;
        ended = job->next;
        job->kind->done(job, job->outcome);
    }
    pthread_mutex_lock(&scheduler->mutex);
    return next_ns;
}

/* ------------------------------------------------------------- deadlines -- */

static void *watch_deadlines(void *argument)
{
    struct scheduler *scheduler = argument;
    pthread_mutex_lock(&scheduler->mutex);
    while (!scheduler->stopping) {
        scheduler->timer_ns = INT64_MAX; /* what comes in while done is called sets it */
        const int64_t next_ns = stop_late_jobs(scheduler, clock_now_ns(), JOB_DEADLINE);
        if (next_ns < scheduler->timer_ns)
            scheduler->timer_ns = next_ns;
        const struct timespec until = { .tv_sec = scheduler->timer_ns / 1000000000,
                                        .tv_nsec = scheduler->timer_ns % 1000000000 };
        if (scheduler->stopping)
            break;
        if (scheduler->timer_ns == INT64_MAX)
            pthread_cond_wait(&scheduler->timer, &scheduler->mutex);
        else
            pthread_cond_timedwait(&scheduler->timer, &scheduler->mutex, &until);
    }
    pthread_mutex_unlock(&scheduler->mutex);
    return NULL;
}

/* ---------------------------------------------------------------- stages -- */

/* Takes over what the owner says of the job, at its beginning and after a stage. */
static void read_owner(struct scheduler *scheduler, struct job *job)
{
    job->ends_ns = job->deadline_ns ? job->deadline_ns : INT64_MAX;
    if (job->ends_ns < scheduler->timer_ns) {
        scheduler->timer_ns = job->ends_ns;
        pthread_cond_signal(&scheduler->timer);
    }
    if (job->cost_ns != job->cost_read_ns) {
        scheduler->load.cost_ns += job->cost_ns - job->remaining_ns;
        job->cost_read_ns = job->remaining_ns = job->cost_ns;
    }
}

static void count_time(struct scheduler *scheduler, struct job *job, int64_t spent_ns)
{
    const int64_t counted_ns = spent_ns < job->remaining_ns ? spent_ns : job->remaining_ns;
    job->remaining_ns -= counted_ns;
    scheduler->load.cost_ns -= counted_ns;
}

static void begin_stage(struct scheduler *scheduler, struct job *job, int64_t task_count)
{
    job->stage++;
    job->task_count = task_count;
    job->next_task = 0;
    list_append(scheduler, job);
    if (task_count > 1)
        pthread_cond_broadcast(&scheduler->work);
    else
        pthread_cond_signal(&scheduler->work);
}

/* The last task of a stage has been run: begin the next stage, wait for it, or end the job.
 * The caller's task still counts as running, which keeps everyone else away. */
static void end_stage(struct scheduler *scheduler, struct job *job)
{
    int64_t task_count = 0;
    if (job->outcome == JOB_FINISHED) {
        const int stage = job->stage + 1;
        pthread_mutex_unlock(&scheduler->mutex);
        task_count = job->kind->stage_tasks(job, stage);
        pthread_mutex_lock(&scheduler->mutex);
        read_owner(scheduler, job);
    }
    job->tasks_running--;
    if (task_count == JOB_WAITS && job->continued >= 0) {
        task_count = job->continued; /* another was quicker than this thread */
        job->continued = -1;
    } else if (task_count == JOB_WAITS) {
        job->waits = true;
    }
    if (job->outcome == JOB_FINISHED && task_count > 0)
        begin_stage(scheduler, job, task_count);
    else if (job->tasks_running == 0 && !(job->outcome == JOB_FINISHED && job->waits))
        end_job(scheduler, job);
}

static void run_task(struct scheduler *scheduler, struct job *job, const struct worker *worker)
{
    const int64_t task = job->next_task++;
    job->tasks_running++;
    list_remove(scheduler, job);
    if (job->next_task < job->task_count)
        list_append(scheduler, job);

    pthread_mutex_unlock(&scheduler->mutex);
    const int64_t begun_ns = clock_now_ns();
    job->kind->run(job, job->stage, task, worker);
    const int64_t spent_ns = clock_now_ns() - begun_ns;
    pthread_mutex_lock(&scheduler->mutex);

    count_time(scheduler, job, spent_ns);
    if (job->tasks_running == 1 && job->next_task == job->task_count)
        end_stage(scheduler, job);
    else
        job->tasks_running--;
}

/* --------------------------------------------------------------- workers -- */

static void *work(void *argument)
{
    struct scheduler_thread *self = argument;
    struct scheduler *scheduler = self->scheduler;
    pthread_mutex_lock(&scheduler->mutex);
    for (;;) {
        struct job *job = scheduler->first;
        if (job && job->ends_ns < INT64_MAX && clock_now_ns() > job->ends_ns) {
            stop_job(scheduler, job, JOB_DEADLINE);
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
    pthread_cond_broadcast(&scheduler->timer);
    pthread_mutex_unlock(&scheduler->mutex);
    for (int i = 0; i < worker_count; i++)
        pthread_join(scheduler->workers[i].thread, NULL);
    if (scheduler->timer_started)
        pthread_join(scheduler->timer_thread, NULL);
    for (int i = 0; i < scheduler->worker_count; i++)
        free(scheduler->workers[i].worker.workspace);
    pthread_cond_destroy(&scheduler->timer);
    pthread_cond_destroy(&scheduler->empty);
    pthread_cond_destroy(&scheduler->work);
    pthread_mutex_destroy(&scheduler->mutex);
    free(scheduler);
}

static void init_locks(struct scheduler *scheduler)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&scheduler->mutex, NULL);
    pthread_cond_init(&scheduler->work, NULL);
    pthread_cond_init(&scheduler->empty, NULL);
    pthread_cond_init(&scheduler->timer, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

struct scheduler *scheduler_create(int worker_count, int queue_max, size_t workspace_bytes)
{
    struct scheduler *scheduler =
        calloc(1, sizeof *scheduler + (size_t)worker_count * sizeof scheduler->workers[0]);
    if (!scheduler)
        return NULL;
    init_locks(scheduler);
    scheduler->timer_ns = INT64_MAX;
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
    scheduler->timer_started =
        pthread_create(&scheduler->timer_thread, NULL, watch_deadlines, scheduler) == 0;
    if (!scheduler->timer_started) {
        destroy(scheduler, worker_count);
        return NULL;
    }
    return scheduler;
}

/* ------------------------------------------------------------- from outside -- */

bool scheduler_submit(struct scheduler *scheduler, struct job *job)
{
    pthread_mutex_lock(&scheduler->mutex);
    const bool taken = scheduler->load.job_count < scheduler->queue_max && !scheduler->cancelled;
    if (taken) {
        job->over = job->waits = job->listed = false;
        job->outcome = JOB_FINISHED;
        job->stage = 0;
        job->task_count = 1;
        job->next_task = 0;
        job->tasks_running = 0;
        job->continued = -1;
        job->cost_read_ns = job->remaining_ns = 0;
        open_append(scheduler, job);
        read_owner(scheduler, job);
        list_append(scheduler, job);
        pthread_cond_signal(&scheduler->work);
    }
    pthread_mutex_unlock(&scheduler->mutex);
    return taken;
}

bool scheduler_claim(struct scheduler *scheduler, struct job *job)
{
    pthread_mutex_lock(&scheduler->mutex);
    const bool claimed = !job->over && job->outcome == JOB_FINISHED && !scheduler->cancelled;
    if (claimed)
        job->tasks_running++;
    pthread_mutex_unlock(&scheduler->mutex);
    return claimed;
}

void scheduler_continue(struct scheduler *scheduler, struct job *job, int64_t task_count)
{
    pthread_mutex_lock(&scheduler->mutex);
    assert(task_count >= 0 && job->tasks_running > 0);
    job->tasks_running--;
    if (!job->waits) {
        job->continued = task_count; /* its stage_tasks() has not returned yet */
    } else {
        job->waits = false;
        read_owner(scheduler, job);
        if (job->outcome == JOB_FINISHED && task_count > 0)
            begin_stage(scheduler, job, task_count);
        else
            end_job(scheduler, job);
    }
    pthread_mutex_unlock(&scheduler->mutex);
}

void scheduler_stop_job(struct scheduler *scheduler, struct job *job, enum job_outcome outcome)
{
    pthread_mutex_lock(&scheduler->mutex);
    if (!job->over) {
        stop_job(scheduler, job, outcome);
        if (job->tasks_running == 0)
            end_job(scheduler, job);
    }
    pthread_mutex_unlock(&scheduler->mutex);
}

void scheduler_cancel_all(struct scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->mutex);
    scheduler->cancelled = true;
    stop_late_jobs(scheduler, INT64_MAX, JOB_CANCELLED);
    pthread_mutex_unlock(&scheduler->mutex);
}

struct scheduler_load scheduler_load(struct scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->mutex);
    const struct scheduler_load load = scheduler->load;
    pthread_mutex_unlock(&scheduler->mutex);
    return load;
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
    while (scheduler->load.job_count > 0)
        pthread_cond_wait(&scheduler->empty, &scheduler->mutex);
    pthread_mutex_unlock(&scheduler->mutex);
    destroy(scheduler, scheduler->worker_count);
}
