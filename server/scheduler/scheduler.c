/* SPDX-License-Identifier: Apache-2.0 */
/* scheduler.c - jobs, their stages and ends, what is open, and whom a new task wakes. */
#include "scheduler/scheduler.h"

#include "base/clock.h"
#include "scheduler/cost.h"
#include "scheduler/scheduler_internal.h"
#include "telemetry/metrics.h"

#include <assert.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>

/* A job is in the order (job_order.h) while it has a task that may begin. All calls into a job are
 * made with the mutex released. The last task of a stage counts as running until the end of the
 * stage has been handled, so a job never ends twice. */

/* A day; so that a sum of them fits. */
#define COST_MOST_NS (INT64_C(86400) * 1000000000)

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ------------------------------------------------------------------ open jobs -- */

/* The predicted cost of the job's rest is larger by ns. */
static void add_cost(struct scheduler *scheduler, struct job *job, int64_t ns)
{
    job->remaining_ns += ns;
    job->flow->cost_ns += ns;
    scheduler->load.cost_ns += ns;
}

static void open_append(struct scheduler *scheduler, struct job *job)
{
    LIST_APPEND(&scheduler->open, job, in_open);
    if (job->for_others)
        return;
    scheduler->load.job_count++;
    job->flow->job_count++;
    metrics_gauge_add(METRICS_QUEUE_JOBS, 1);
}

static void open_remove(struct scheduler *scheduler, struct job *job)
{
    LIST_TAKE_OUT(&scheduler->open, job, in_open);
    add_cost(scheduler, job, -job->remaining_ns);
    if (!job->for_others) {
        scheduler->load.job_count--;
        job->flow->job_count--;
        metrics_gauge_add(METRICS_QUEUE_JOBS, -1);
    }
    job_order_end(&scheduler->order, job);
    if (scheduler->order.open_count == 0)
        pthread_cond_broadcast(&scheduler->empty);
}

/* -------------------------------------------------------- ends of a job -- */

/* Learns from a job that ends while others wait how much longer than predicted the workers take for
 * each. Other threads take a part of their CPUs: those that receive the bodies of requests, and
 * refuse others. That is about as much for a small request as for a large one. */
static void note_pace(struct scheduler *scheduler, const struct job *job)
{
    static const double MEMORY_NS = 1e8, MORE_MOST_NS = 1e6;
    struct scheduler_pace *pace = &scheduler->pace;
    const bool waited = pace->waits;
    pace->waits = scheduler->order.count > 0;
    if (job->for_others || !(waited || pace->waits))
        return;
    const int64_t now_ns = clock_now_ns();
    const double passed_ns = (double)(now_ns - pace->at_ns), kept = exp(-passed_ns / MEMORY_NS);
    const double predicted_ns = job->outcome == JOB_FINISHED ? (double)job->admitted_ns : 0;
    pace->at_ns = now_ns;
    if (!waited)
        return;
    pace->jobs = kept * pace->jobs + 1;
    pace->more_ns =
        kept * pace->more_ns + passed_ns * scheduler->worker_count / cost_slowdown() - predicted_ns;
    scheduler->load.more_ns = (int64_t)fmin(fmax(pace->more_ns / pace->jobs, 0), MORE_MOST_NS);
}

/* Removes the job from all lists. It is counted out before done is called, because a client that
 * has its answer may send the next request at once. */
static void close_job(struct scheduler *scheduler, struct job *job)
{
    open_remove(scheduler, job);
    note_pace(scheduler, job);
    job->over = true;
}

/* Called with the mutex held, when no task of the job runs; returns with it held. */
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
    job_order_remove(&scheduler->order, job);
    if (job->outcome == JOB_FINISHED)
        job->outcome = outcome;
    job->next_task = job->task_count;
}

int64_t scheduler_stop_late_jobs(struct scheduler *scheduler, int64_t now_ns,
                                 enum job_outcome outcome)
{
    struct job *ended = NULL;
    int64_t next_ns = INT64_MAX;
    for (struct job *job = scheduler->open.first, *next; job; job = next) {
        next = job->in_open.next;
        if (now_ns <= job->ends_ns && now_ns < INT64_MAX) {
            next_ns = job->ends_ns < next_ns ? job->ends_ns : next_ns;
            continue;
        }
        stop_job(scheduler, job, outcome);
        if (job->tasks_running > 0)
            continue;
        close_job(scheduler, job);
        job->in_open.next = ended;
        ended = job;
    }
    if (!ended)
        return next_ns;
    pthread_mutex_unlock(&scheduler->mutex);
    while (ended) {
        struct job *job = ended;
        ended = job->in_open.next;
        job->kind->done(job, job->outcome);
    }
    pthread_mutex_lock(&scheduler->mutex);
    return next_ns;
}

/* --------------------------------------------------------------- waking -- */

bool scheduler_workers_held(const struct scheduler *scheduler, int64_t now_ns)
{
    for (int i = 0; i < scheduler->worker_count; i++) {
        const struct scheduler_thread *thread = &scheduler->threads[i];
        if (!thread->begun_ns || !(thread->held || now_ns - thread->begun_ns > SCHEDULER_SHORT_NS))
            return false;
    }
    return true;
}

struct job *scheduler_spare_job(const struct scheduler *scheduler, int64_t now_ns)
{
    struct job *job = job_order_first_short(&scheduler->order);
    return job && scheduler_workers_held(scheduler, now_ns) ? job : NULL;
}

void scheduler_wake(struct scheduler *scheduler, int64_t task_count, int64_t now_ns)
{
    if (scheduler->spare_idle && scheduler->idle_count == 0
        && scheduler_spare_job(scheduler, now_ns))
        pthread_cond_signal(&scheduler->spare);
    for (int64_t i = 0; i < task_count && i < scheduler->idle_count; i++)
        pthread_cond_signal(&scheduler->work);
}

/* ---------------------------------------------------------------- stages -- */

/* Reads the owner's fields: deadline, priority and cost. */
static void read_owner(struct scheduler *scheduler, struct job *job)
{
    job->level = job_order_level(job->priority);
    job->ends_ns = job->deadline_ns ? job->deadline_ns : INT64_MAX;
    if (job->ends_ns < scheduler->timer_ns) {
        scheduler->timer_ns = job->ends_ns;
        pthread_cond_signal(&scheduler->timer);
    }
    if (job->cost_ns != job->cost_read_ns) {
        const int64_t cost_ns = job->cost_ns < COST_MOST_NS ? job->cost_ns : COST_MOST_NS;
        add_cost(scheduler, job, cost_ns - job->remaining_ns);
        job->cost_read_ns = job->cost_ns;
    }
}

static void count_time(struct scheduler *scheduler, struct job *job, int64_t charged_ns,
                       int64_t spent_ns)
{
    add_cost(scheduler, job, -(spent_ns < job->remaining_ns ? spent_ns : job->remaining_ns));
    job->spent_ns += spent_ns;
    job->task_ns = spent_ns;
    job_order_finish(&scheduler->order, job, charged_ns, spent_ns);
}

int scheduler_tasks_at_once(const struct job *job)
{
    return job->tasks_at_once > 0 && job->tasks_at_once < SCHEDULER_AT_ONCE_MAX
               ? job->tasks_at_once
               : SCHEDULER_AT_ONCE_MAX;
}

/* Puts the job at its place in the order, or takes it out, after a change of its tasks. */
static void settle(struct scheduler *scheduler, struct job *job)
{
    if (job->next_task < job->task_count && job->tasks_running < scheduler_tasks_at_once(job))
        job_order_put(&scheduler->order, job);
    else
        job_order_remove(&scheduler->order, job);
    atomic_store_explicit(&scheduler->has_task, scheduler->order.count > 0, memory_order_relaxed);
}

static void begin_stage(struct scheduler *scheduler, struct job *job, int64_t task_count)
{
    job->stage++;
    job->task_count = task_count;
    job->next_task = 0;
    job->run_tasks = job->run_task_ns = 0;
    settle(scheduler, job);
}

void scheduler_go_on(struct scheduler *scheduler, struct job *job, int64_t task_count,
                     int64_t wake_count)
{
    read_owner(scheduler, job);
    job->tasks_running--;
    if (task_count == JOB_WAITS && job->continued >= 0) {
        task_count = wake_count = job->continued; /* scheduler_continue() came first */
        job->continued = -1;
    } else if (task_count == JOB_WAITS) {
        job->waits = true;
    }
    if (job->outcome == JOB_FINISHED && task_count > 0) {
        begin_stage(scheduler, job, task_count);
        scheduler_wake(scheduler, wake_count, clock_now_ns());
    } else if (job->tasks_running == 0 && !(job->outcome == JOB_FINISHED && job->waits)) {
        end_job(scheduler, job);
    }
}

/* The caller's task still counts as running, so no other thread ends the stage or the job. */
static void end_stage(struct scheduler *scheduler, struct job *job)
{
    int64_t task_count = 0;
    if (job->outcome == JOB_FINISHED) {
        const int stage = job->stage + 1;
        pthread_mutex_unlock(&scheduler->mutex);
        task_count = job->kind->stage_tasks(job, stage);
        pthread_mutex_lock(&scheduler->mutex);
    }
    const int64_t most = scheduler_tasks_at_once(job);
    scheduler_go_on(scheduler, job, task_count,
                    (task_count < most ? task_count : most) - 1); /* the caller takes one */
}

/* Between two tasks of a long job the worker offers its CPU to threads that wait for one: a
 * connection thread, the spare thread. A kernel that preempts lazily (PREEMPT_LAZY) would let them
 * wait for its next tick, for example 4 ms, unless the running thread makes a system call. But
 * another process that computes takes the CPU for a slice of 3 ms or more each time, so a worker
 * does not offer it after every task of a job that has thousands of short tasks. */
static void offer_cpu(struct scheduler_thread *thread, int64_t spent_ns)
{
    thread->unoffered_ns += spent_ns;
    if (!thread->held || thread->unoffered_ns < SCHEDULER_OFFER_NS)
        return;
    thread->unoffered_ns = 0;
    sched_yield();
}

/* Whether a worker that was woken for the stage has not come, though a task of it has ended since:
 * it may wait for the CPU of this thread beside an idle one (scheduler_threads.c). */
static bool is_awaiting_worker(const struct scheduler *scheduler, const struct job *job)
{
    return scheduler->idle_count > 0 && job->next_task > job->tasks_running
           && job->next_task + 1 < job->task_count && job_order_rest_ns(job) > SCHEDULER_SPREAD_NS;
}

/* To take a task and to end it costs some microseconds of all workers, for they wait for each
 * other. So a worker takes a run of tasks, where those of the stage are short: of RUN_NS, of twice
 * as many as the last one, in case that the tasks grow, and of no more than half of its part of
 * those left, so that all workers end together. */
enum { RUN_NS = 50000 };

static int64_t run_length(const struct scheduler *scheduler, const struct job *job)
{
    const int64_t part =
        (job->task_count - job->next_task) / (2 * (int64_t)scheduler->worker_count);
    const int64_t length =
        job->run_tasks > 0 ? least(RUN_NS / job->run_task_ns, 2 * job->run_tasks) : 1;
    return length > 1 && part > 1 ? least(length, part) : 1;
}

void scheduler_run_tasks(struct scheduler *scheduler, struct job *job,
                         struct scheduler_thread *thread, int64_t most, int64_t now_ns)
{
    const bool is_awaiting = is_awaiting_worker(scheduler, job);
    const int64_t charged_ns = job_order_begin(&scheduler->order, job);
    const int64_t first = job->next_task, count = least(run_length(scheduler, job), most);
    job->next_task += count;
    const int slot = __builtin_ctzll(~job->slots);
    job->tasks_running++;
    job->slots |= UINT64_C(1) << slot;
    thread->worker.slot = slot;
    settle(scheduler, job);
    if (scheduler->order.count > 0) /* this thread may have been the last free worker */
        scheduler_wake(scheduler, 0, now_ns);

    /* By the clock, a task that waits for a CPU behind the tasks of long jobs would look long
     * itself, and the spare thread would not run it. */
    const struct clock_task clock_task = clock_task_begin();

    pthread_mutex_unlock(&scheduler->mutex);
    if (is_awaiting)
        sched_yield(); /* it comes, and leaves for another CPU */
    for (int64_t task = first; task < first + count; task++)
        job->kind->run(job, job->stage, task, &thread->worker);
    const int64_t spent_ns = clock_task_end(&clock_task);
    offer_cpu(thread, spent_ns);
    pthread_mutex_lock(&scheduler->mutex);

    job->slots &= ~(UINT64_C(1) << slot);
    job->run_tasks = count;
    job->run_task_ns = spent_ns / count + 1;
    count_time(scheduler, job, charged_ns, spent_ns);
    if (job->tasks_running == 1 && job->next_task == job->task_count) {
        end_stage(scheduler, job);
    } else {
        job->tasks_running--;
        settle(scheduler, job);
    }
}

/* ------------------------------------------------------------- from outside -- */

/* Sets the scheduler's own fields of the job: stage 0, of one task. */
static void admit(struct scheduler *scheduler, struct job *job, int64_t now_ns)
{
    job->over = job->waits = false;
    job->outcome = JOB_FINISHED;
    job->stage = 0;
    job->task_count = 1;
    job->next_task = job->tasks_running = 0;
    job->slots = 0;
    job->run_tasks = job->run_task_ns = 0;
    job->continued = -1;
    job->cost_read_ns = job->remaining_ns = 0;
    job->admitted_ns = least(job->cost_ns, COST_MOST_NS);
    job_order_admit(&scheduler->order, job, now_ns);
    open_append(scheduler, job);
    read_owner(scheduler, job);
}

bool scheduler_take(struct scheduler *scheduler, struct job *job, int64_t now_ns, bool is_callers)
{
    if (scheduler->cancelled
        || (!job->for_others && scheduler->load.job_count >= scheduler->queue_max)
        || !job_order_reserve(&scheduler->order, job->share))
        return false;
    admit(scheduler, job, now_ns);
    if (is_callers) {
        job->next_task = job->tasks_running = 1;
        return true;
    }
    settle(scheduler, job);
    scheduler_wake(scheduler, 1, now_ns);
    return true;
}

bool scheduler_submit(struct scheduler *scheduler, struct job *job)
{
    const int64_t now_ns = clock_now_ns();
    pthread_mutex_lock(&scheduler->mutex);
    const bool taken = scheduler_take(scheduler, job, now_ns, false);
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
        if (job->outcome == JOB_FINISHED && task_count > 0) {
            begin_stage(scheduler, job, task_count);
            scheduler_wake(scheduler, task_count, clock_now_ns());
        } else {
            end_job(scheduler, job);
        }
    }
    pthread_mutex_unlock(&scheduler->mutex);
}

void scheduler_raise(struct scheduler *scheduler, struct job *job, int priority)
{
    const int level = job_order_level(priority);
    pthread_mutex_lock(&scheduler->mutex);
    if (!job->over && level < job->level) {
        job->priority = job->level = level;
        settle(scheduler, job);
    }
    pthread_mutex_unlock(&scheduler->mutex);
}

/* Called with the mutex held. */
static void move(struct scheduler *scheduler, struct job *job, struct job_share *share)
{
    const int64_t rest_ns = job->remaining_ns;
    assert(job->for_others);
    if (job->over)
        return;
    add_cost(scheduler, job, -rest_ns);
    job_order_move(&scheduler->order, job, share);
    add_cost(scheduler, job, rest_ns);
}

void scheduler_move(struct scheduler *scheduler, struct job *job, struct job_share *share)
{
    pthread_mutex_lock(&scheduler->mutex);
    move(scheduler, job, share);
    pthread_mutex_unlock(&scheduler->mutex);
}

void scheduler_join(struct scheduler *scheduler, struct job *job, const struct job *other)
{
    const struct job_order *order = &scheduler->order;
    pthread_mutex_lock(&scheduler->mutex);
    if (!job->over
        && job_share_start(&order->shares, other->flow)
               < job_share_start(&order->shares, job->flow))
        move(scheduler, job, other->share);
    pthread_mutex_unlock(&scheduler->mutex);
}

void scheduler_pay(struct scheduler *scheduler, struct job *job, const struct job *other,
                   int64_t spent_ns)
{
    pthread_mutex_lock(&scheduler->mutex);
    job_share_pay(&scheduler->order.shares, job->flow, other->flow, spent_ns, 0);
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

bool scheduler_is_stopped(struct scheduler *scheduler, const struct job *job)
{
    pthread_mutex_lock(&scheduler->mutex);
    const bool is_stopped = job->outcome != JOB_FINISHED;
    pthread_mutex_unlock(&scheduler->mutex);
    return is_stopped;
}

void scheduler_cancel_all(struct scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->mutex);
    scheduler->cancelled = true;
    scheduler_stop_late_jobs(scheduler, INT64_MAX, JOB_CANCELLED);
    pthread_mutex_unlock(&scheduler->mutex);
}

/* ------------------------------------------------------------------- load -- */

/* In its own share: what the order puts before the job, with more_ns for each. */
static int64_t before_in_share_ns(const struct job_flow *flow, const struct job *job,
                                  int64_t arrived_ns, int64_t more_ns)
{
    int64_t sum_ns = 0;
    for (const struct job *other = flow->open.first; other; other = other->in_share.next)
        if (other != job && job_order_goes_before(other, job, arrived_ns))
            sum_ns += other->remaining_ns + more_ns;
    return sum_ns;
}

/* Where many jobs wait, a sum over them takes longer than much else of a refusal. So a sum serves
 * later jobs of the same level, whose keys are as far behind their arrivals, for SUM_KEPT_NS. What
 * comes or ends meanwhile counts as going before them. Each power of two of that distance has a
 * place in a small table. */
enum { SUM_KEPT_NS = 1000000, SUM_ALWAYS_JOBS = 64 };

static struct scheduler_sum *place_of_sum(struct scheduler *scheduler, int64_t behind_ns)
{
    return &scheduler->sums[__builtin_clzll((uint64_t)behind_ns | 1) % SCHEDULER_SUMS];
}

static bool is_kept(const struct scheduler_sum *kept, const struct scheduler_sum *wanted)
{
    const int64_t behind_ns = kept->behind_ns, off_ns = behind_ns / 8;
    return kept->flow == wanted->flow && kept->level == wanted->level
           && wanted->at_ns - kept->at_ns < SUM_KEPT_NS && wanted->behind_ns >= behind_ns - off_ns
           && wanted->behind_ns - off_ns <= behind_ns;
}

/* The same of a job that comes now. */
static int64_t before_new_ns(struct scheduler *scheduler, const struct job_flow *flow,
                             const struct job *job, int64_t now_ns)
{
    struct scheduler_sum wanted = { flow, job_order_level(job->priority), now_ns,
                                    job_order_key_ns(job, now_ns) - now_ns, 0 };
    struct scheduler_sum *kept = place_of_sum(scheduler, wanted.behind_ns);
    const int64_t more_ns = scheduler->load.more_ns;
    if (flow->open_count <= SUM_ALWAYS_JOBS)
        return before_in_share_ns(flow, job, now_ns, more_ns);
    if (!is_kept(kept, &wanted)) {
        wanted.others_ns = flow->cost_ns - before_in_share_ns(flow, job, now_ns, more_ns);
        *kept = wanted;
    }
    return flow->cost_ns > kept->others_ns ? flow->cost_ns - kept->others_ns : 0;
}

/* Until its share has come so far, another share gets as much for its weight, and one task more;
 * and not more than it has asked for. */
static int64_t before_of_others_ns(const struct job_share_queue *shares, const struct job_flow *own,
                                   double own_ns)
{
    const double lead = job_share_start(shares, own) - shares->now;
    const double far = (lead > 0 ? lead : 0) + own_ns / job_share_weight(own);
    double sum_ns = 0;
    for (const struct job_flow *flow = shares->open.first; flow; flow = flow->in_open.next) {
        const double turn_ns = far * job_share_weight(flow) + (double)flow->task_ns;
        if (flow != own)
            sum_ns += turn_ns < (double)flow->cost_ns ? turn_ns : (double)flow->cost_ns;
    }
    return (int64_t)sum_ns;
}

int64_t scheduler_before_ns(struct scheduler *scheduler, const struct job *job)
{
    const int64_t now_ns = clock_now_ns();
    pthread_mutex_lock(&scheduler->mutex);
    const bool is_there = LIST_HAS(&scheduler->open, job, in_open);
    const struct job_flow *flow = job_order_flow(&scheduler->order, job->share);
    const int64_t own_ns =
        is_there ? before_in_share_ns(flow, job, job->arrived_ns, scheduler->load.more_ns)
                 : before_new_ns(scheduler, flow, job, now_ns);
    const int64_t others_ns =
        before_of_others_ns(&scheduler->order.shares, flow, (double)own_ns + (double)job->cost_ns);
    pthread_mutex_unlock(&scheduler->mutex);
    return own_ns + others_ns;
}

struct scheduler_load scheduler_load(struct scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->mutex);
    const struct scheduler_load load = scheduler->load;
    pthread_mutex_unlock(&scheduler->mutex);
    return load;
}

struct scheduler_share_load scheduler_share_load(struct scheduler *scheduler,
                                                 struct job_share *share)
{
    double others = 0;
    pthread_mutex_lock(&scheduler->mutex);
    const struct job_flow *own = job_order_flow(&scheduler->order, share);
    const double weight = job_share_weight(own);
    for (const struct job_flow *flow = scheduler->order.shares.open.first; flow;
         flow = flow->in_open.next)
        others += flow == own ? 0 : job_share_weight(flow);
    const struct scheduler_share_load load = { own->job_count, own->cost_ns,
                                               weight / (weight + others) };
    pthread_mutex_unlock(&scheduler->mutex);
    return load;
}

int scheduler_worker_count(struct scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->mutex);
    const int worker_count = scheduler->worker_count;
    pthread_mutex_unlock(&scheduler->mutex);
    return worker_count;
}
