/* SPDX-License-Identifier: Apache-2.0 */
/* scheduler_threads.c - the threads that run tasks: workers, whose number may change, a spare one
 * for short jobs, and a clock that ends jobs at their deadlines. Here a scheduler begins and ends,
 * because it begins and ends with its threads.
 *
 * The spare thread keeps short jobs short while workers run tasks of long jobs that cannot be cut:
 * a body of many megabytes that is read, a large answer that is packed. It runs only while every
 * worker is held by such a job, so only then is there one thread more than CPUs. */
#include "scheduler/scheduler_internal.h"

#include "base/clock.h"
#include "telemetry/log.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { WORKER_NICE = 5 };

/* ------------------------------------------------------------------- CPUs -- */

/* The kernel places a woken thread on the CPU of its waker where it finds no idle one at once, and
 * it does not search all of them while they were busy lately (SIS_UTIL of Linux,
 * kernel/sched/fair.c). So two workers may share one CPU beside an idle one for several ms, until
 * the kernel balances its queues. */
void worker_cpu_pin(const cpu_set_t *allowed, int index)
{
    cpu_set_t one;
    int cpu = -1;
    if (CPU_COUNT(allowed) == 0)
        return;
    for (int left = index % CPU_COUNT(allowed); left >= 0; left -= CPU_ISSET(cpu, allowed) != 0)
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        log_line(LOG_WARNING, "worker not pinned", LOG_NUMBER("worker", index),
                 LOG_STRING("reason", strerror(errno)));
}

void worker_cpu_leave(const cpu_set_t *busy)
{
    cpu_set_t all, shared, others;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    CPU_AND(&shared, &all, busy);
    CPU_XOR(&others, &all, &shared);
    if (CPU_COUNT(&others) == 0 || CPU_COUNT(&shared) == 0)
        return;
    if (sched_setaffinity(0, sizeof others, &others) == 0) /* the kernel moves the thread here */
        sched_setaffinity(0, sizeof all, &all);
}

/* --------------------------------------------------------------- threads -- */

static void run_next(struct scheduler_thread *self, struct job *job, int64_t now_ns)
{
    struct scheduler *scheduler = self->scheduler;
    if (now_ns > job->ends_ns) {
        scheduler_stop_late_jobs(scheduler, now_ns, JOB_DEADLINE);
        return;
    }
    self->begun_ns = now_ns;
    self->cpu = sched_getcpu();
    self->held = job_order_rest_ns(job) > SCHEDULER_SHORT_NS;
    scheduler_run_tasks(scheduler, job, self, INT64_MAX, now_ns);
    self->begun_ns = 0;
}

/* Workers yield the CPU to the daemon's other threads: to a connection thread that has been woken,
 * and to the spare thread with its short job. On Linux the nice value is the thread's own. */
static void give_way(void)
{
    const int now = getpriority(PRIO_PROCESS, 0);
    setpriority(PRIO_PROCESS, 0, now + WORKER_NICE);
}

/* Whether another worker runs on this worker's CPU; busy: the CPUs of all others that run. */
static bool shares_cpu(const struct scheduler_thread *self, cpu_set_t *busy)
{
    const struct scheduler *scheduler = self->scheduler;
    const int cpu = sched_getcpu();
    CPU_ZERO(busy);
    for (int i = 0; i < scheduler->worker_count; i++)
        if (i != self->index && scheduler->threads[i].begun_ns && scheduler->threads[i].cpu >= 0)
            CPU_SET(scheduler->threads[i].cpu, busy);
    return cpu >= 0 && CPU_ISSET(cpu, busy);
}

/* A worker that was woken onto the CPU of another one leaves it. Only a long job is worth the move.
 * Returns true where it has released the mutex meanwhile. */
static bool leave_shared_cpu(struct scheduler_thread *self, const struct job *job)
{
    cpu_set_t busy;
    if (job_order_rest_ns(job) <= SCHEDULER_SPREAD_NS || !shares_cpu(self, &busy))
        return false;
    pthread_mutex_unlock(&self->scheduler->mutex);
    worker_cpu_leave(&busy);
    pthread_mutex_lock(&self->scheduler->mutex);
    return true;
}

/* A worker pins itself: the sandbox lets no thread pin another. */
static void pin(struct scheduler_thread *self)
{
    if (self->pin_count == self->scheduler->pin_count)
        return;
    self->pin_count = self->scheduler->pin_count;
    worker_cpu_pin(&self->scheduler->cpus, self->index);
}

static bool has_busy_worker(const struct scheduler *scheduler)
{
    for (int i = 0; i < scheduler->worker_count; i++)
        if (scheduler->threads[i].begun_ns)
            return true;
    return false;
}

static void pause_cpu(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Between two stages of a job a worker has nothing to do for some microseconds. To sleep and to be
 * woken takes both threads as long, so it waits for a task awake first: beside a worker that runs,
 * and where each worker may have a CPU. */
enum { AWAKE_NS = 50000 };

static void wait_awake(struct scheduler *scheduler)
{
    if (scheduler->worker_count > scheduler->cpu_count || !has_busy_worker(scheduler))
        return;
    pthread_mutex_unlock(&scheduler->mutex);
    const int64_t until_ns = clock_now_ns() + AWAKE_NS;
    while (!atomic_load_explicit(&scheduler->has_task, memory_order_relaxed)
           && clock_now_ns() < until_ns)
        pause_cpu();
    pthread_mutex_lock(&scheduler->mutex);
}

static void sleep_until_woken(struct scheduler *scheduler)
{
    scheduler->idle_count++;
    pthread_cond_wait(&scheduler->work, &scheduler->mutex);
    scheduler->idle_count--;
}

static void *work(void *argument)
{
    struct scheduler_thread *self = argument;
    struct scheduler *scheduler = self->scheduler;
    bool was_woken = false, is_awake = false; /* it has waited awake, and found nothing */
    give_way();
    pthread_mutex_lock(&scheduler->mutex);
    while (self->index < scheduler->worker_count && !scheduler->stopping) {
        pin(self);
        const int64_t now_ns = clock_now_ns();
        struct job *job = job_order_next(&scheduler->order, now_ns);
        if (job) {
            const bool has_moved = was_woken && leave_shared_cpu(self, job);
            was_woken = is_awake = false;
            if (!has_moved)
                run_next(self, job, now_ns);
        } else if (!is_awake) {
            wait_awake(scheduler);
            is_awake = true;
        } else {
            sleep_until_woken(scheduler);
            was_woken = true;
            is_awake = false;
        }
    }
    self->gone = true;
    scheduler_wake(scheduler, scheduler->order.count,
                   clock_now_ns()); /* this thread may have been woken for a task */
    pthread_mutex_unlock(&scheduler->mutex);
    return NULL;
}

static void *stand_by(void *argument)
{
    struct scheduler_thread *self = argument;
    struct scheduler *scheduler = self->scheduler;
    pthread_mutex_lock(&scheduler->mutex);
    while (!scheduler->stopping) {
        const int64_t now_ns = clock_now_ns();
        struct job *job = scheduler_spare_job(scheduler, now_ns);
        if (job) {
            run_next(self, job, now_ns);
            continue;
        }
        /* When this thread ended a stage, it left itself a task of the next one; a worker takes it.
         */
        scheduler_wake(scheduler, scheduler->order.count, now_ns);
        scheduler->spare_idle = true;
        pthread_cond_wait(&scheduler->spare, &scheduler->mutex);
        scheduler->spare_idle = false;
    }
    pthread_mutex_unlock(&scheduler->mutex);
    return NULL;
}

static void *watch_deadlines(void *argument)
{
    struct scheduler *scheduler = argument;
    pthread_mutex_lock(&scheduler->mutex);
    while (!scheduler->stopping) {
        scheduler->timer_ns = INT64_MAX; /* a job that arrives while done is called sets it */
        const int64_t next_ns = scheduler_stop_late_jobs(scheduler, clock_now_ns(), JOB_DEADLINE);
        if (next_ns < scheduler->timer_ns)
            scheduler->timer_ns = next_ns;
        const struct timespec until = clock_timespec(scheduler->timer_ns);
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

/* -------------------------------------------------------- how many workers -- */

static bool start_thread(struct scheduler *scheduler, int index, void *(*body)(void *))
{
    struct scheduler_thread *thread = &scheduler->threads[index];
    thread->scheduler = scheduler;
    thread->index = index;
    thread->gone = false;
    thread->begun_ns = 0;
    thread->pin_count = 0;
    thread->worker.workspace_bytes = scheduler->workspace_bytes;
    if (!thread->worker.workspace)
        thread->worker.workspace = aligned_alloc(64, scheduler->workspace_bytes);
    thread->started =
        thread->worker.workspace && pthread_create(&thread->thread, NULL, body, thread) == 0;
    return thread->started;
}

/* Starts worker index anew. A worker that has not yet seen that it was one too many simply stays.
 * Called with the mutex held. */
static bool revive(struct scheduler *scheduler, int index)
{
    struct scheduler_thread *thread = &scheduler->threads[index];
    if (thread->started && !thread->gone)
        return true;
    if (thread->started)
        pthread_join(thread->thread, NULL); /* it does not need the mutex any more */
    return start_thread(scheduler, index, work);
}

int scheduler_set_worker_count(struct scheduler *scheduler, int worker_count)
{
    const int wanted = worker_count < 1                       ? 1
                       : worker_count < SCHEDULER_WORKERS_MAX ? worker_count
                                                              : SCHEDULER_WORKERS_MAX;
    pthread_mutex_lock(&scheduler->mutex);
    while (scheduler->worker_count < wanted && revive(scheduler, scheduler->worker_count))
        scheduler->worker_count++;
    if (scheduler->worker_count > wanted) {
        scheduler->worker_count = wanted;
        pthread_cond_broadcast(&scheduler->work);
    }
    const int count = scheduler->worker_count;
    pthread_mutex_unlock(&scheduler->mutex);
    return count;
}

void scheduler_pin_workers(struct scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->mutex);
    if (sched_getaffinity(0, sizeof scheduler->cpus, &scheduler->cpus) == 0)
        scheduler->pin_count++;
    pthread_cond_broadcast(&scheduler->work);
    pthread_mutex_unlock(&scheduler->mutex);
}

/* ------------------------------------------------- life of the scheduler -- */

static void init_locks(struct scheduler *scheduler)
{
    pthread_mutex_init(&scheduler->mutex, NULL);
    pthread_cond_init(&scheduler->work, NULL);
    pthread_cond_init(&scheduler->spare, NULL);
    pthread_cond_init(&scheduler->empty, NULL);
    clock_init_condition(&scheduler->timer);
}

/* Starts the thread that ends jobs at their deadlines and the spare one. False: not started. */
static bool start_helpers(struct scheduler *scheduler)
{
    scheduler->timer_started =
        pthread_create(&scheduler->timer_thread, NULL, watch_deadlines, scheduler) == 0;
    return scheduler->timer_started && start_thread(scheduler, SCHEDULER_WORKERS_MAX, stand_by);
}

/* Ends every thread that was started, and frees the workspaces. */
static void join_threads(struct scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->mutex);
    scheduler->stopping = true;
    pthread_cond_broadcast(&scheduler->work);
    pthread_cond_broadcast(&scheduler->spare);
    pthread_cond_broadcast(&scheduler->timer);
    pthread_mutex_unlock(&scheduler->mutex);
    for (int i = 0; i <= SCHEDULER_WORKERS_MAX; i++) {
        if (scheduler->threads[i].started)
            pthread_join(scheduler->threads[i].thread, NULL);
        free(scheduler->threads[i].worker.workspace);
    }
    for (int i = 0; i < SCHEDULER_INLINE_MAX; i++)
        free(scheduler->seats[i].worker.workspace);
    if (scheduler->timer_started)
        pthread_join(scheduler->timer_thread, NULL);
}

static void destroy(struct scheduler *scheduler)
{
    join_threads(scheduler);
    job_order_free(&scheduler->order);
    pthread_cond_destroy(&scheduler->timer);
    pthread_cond_destroy(&scheduler->empty);
    pthread_cond_destroy(&scheduler->spare);
    pthread_cond_destroy(&scheduler->work);
    pthread_mutex_destroy(&scheduler->mutex);
    free(scheduler);
}

struct scheduler *scheduler_create(int worker_count, int queue_max, size_t workspace_bytes)
{
    struct scheduler *scheduler = calloc(1, sizeof *scheduler);
    if (!scheduler)
        return NULL;
    init_locks(scheduler);
    cpu_set_t cpus;
    scheduler->cpu_count = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 0;
    scheduler->timer_ns = INT64_MAX;
    scheduler->queue_max = queue_max;
    scheduler->workspace_bytes = (workspace_bytes + 64) / 64 * 64; /* 0 bytes get an address too */
    if (scheduler_set_worker_count(scheduler, worker_count) == worker_count
        && start_helpers(scheduler))
        return scheduler;
    destroy(scheduler);
    return NULL;
}

void scheduler_set_number(struct scheduler *scheduler, int number)
{
    if (scheduler)
        scheduler->order.scheduler = number;
}

void scheduler_free(struct scheduler *scheduler)
{
    if (!scheduler)
        return;
    pthread_mutex_lock(&scheduler->mutex);
    while (scheduler->order.open_count > 0)
        pthread_cond_wait(&scheduler->empty, &scheduler->mutex);
    pthread_mutex_unlock(&scheduler->mutex);
    destroy(scheduler);
}
