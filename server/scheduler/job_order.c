/* SPDX-License-Identifier: Apache-2.0 */
/* job_order.c - see job_order.h. A heap of jobs in each share, and the queue of shares above them.
 */
#include "scheduler/job_order.h"

#include <stdlib.h>

enum { ROOM_FIRST = 64, SHARE_ROOM_FIRST = 8, TASK_LEAST_NS = 1000000 };

int64_t job_order_rest_ns(const struct job *job)
{
    return job->remaining_ns > 0 ? job->remaining_ns : job->spent_ns;
}

static bool goes_before(const void *left, const void *right)
{
    const struct job *a = left, *b = right;
    if (a->level != b->level)
        return a->level < b->level;
    if (a->key_ns != b->key_ns)
        return a->key_ns < b->key_ns;
    return a->number < b->number;
}

static int64_t *place(void *job)
{
    return &((struct job *)job)->place;
}

static const struct heap_order by_key = { goes_before, place };

/* ---------------------------------------------------------------- open jobs -- */

struct job_flow *job_order_flow(struct job_order *order, struct job_share *share)
{
    if (!share)
        return &order->common;
    struct job_flow *flow = &share->flows[order->scheduler];
    flow->share = share;
    return flow;
}

/* The common share always has room for all jobs, so that job_order_move() cannot fail. */
bool job_order_reserve(struct job_order *order, struct job_share *share)
{
    struct job_flow *flow = job_order_flow(order, share);
    return heap_reserve(&order->common.jobs, order->open_count + 1, ROOM_FIRST)
           && (!share || heap_reserve(&flow->jobs, flow->open_count + 1, SHARE_ROOM_FIRST))
           && job_share_reserve(&order->shares);
}

/* One more job of the share is open. */
static void hold(struct job_order *order, struct job_flow *flow, struct job *job)
{
    job->flow = flow;
    LIST_APPEND(&flow->open, job, in_share);
    if (flow->open_count++ == 0)
        job_share_open(&order->shares, flow);
}

/* One job fewer. A share without jobs keeps no memory of ours, for its owner may free it. */
static void let_go(struct job_order *order, struct job_flow *flow)
{
    if (--flow->open_count > 0)
        return;
    job_share_close(&order->shares, flow);
    if (flow != &order->common)
        heap_free(&flow->jobs);
}

void job_order_admit(struct job_order *order, struct job *job, int64_t now_ns)
{
    job->place = -1;
    job->arrived_ns = now_ns;
    job->number = order->came++;
    job->spent_ns = job->task_ns = job->charged_ns = 0;
    order->open_count++;
    hold(order, job_order_flow(order, job->share), job);
}

void job_order_end(struct job_order *order, struct job *job)
{
    job_order_remove(order, job);
    order->open_count--;
    LIST_TAKE_OUT(&job->flow->open, job, in_share);
    let_go(order, job->flow);
}

/* ------------------------------------------------------------ inside a share -- */

int job_order_level(int priority)
{
    return priority >= 1 && priority <= JOB_LEVELS ? priority : JOB_LEVEL_DEFAULT;
}

/* The key of a job by its arrival, its remaining cost and its deadline; deadline_ns 0: none. */
static int64_t key_of(int64_t arrived_ns, int64_t rest_ns, int64_t deadline_ns)
{
    const int64_t most_ns = (INT64_MAX - arrived_ns) / JOB_PASSES;
    const int64_t passed_ns = JOB_PASSES * (rest_ns < most_ns ? rest_ns : most_ns);
    const int64_t half_ns = deadline_ns > arrived_ns ? (deadline_ns - arrived_ns) / 2 : INT64_MAX;
    return arrived_ns + (passed_ns < half_ns ? passed_ns : half_ns);
}

static int64_t stands_ns(const struct job *job)
{
    return job->stands_ns > 0 ? job->stands_ns : job_order_rest_ns(job);
}

int64_t job_order_key_ns(const struct job *job, int64_t arrived_ns)
{
    return key_of(arrived_ns, job->cost_ns, job->deadline_ns);
}

bool job_order_goes_before(const struct job *job, const struct job *other, int64_t arrived_ns)
{
    const int level = job_order_level(other->priority);
    return job->level != level ? job->level < level
                               : key_of(job->arrived_ns, stands_ns(job), job->ends_ns)
                                     < job_order_key_ns(other, arrived_ns);
}

/* What the job's next task is charged for: an equal part of the rest of the job. But the first task
 * is alone in its stage, and only reads what the later ones compute; so no task is expected to take
 * longer than the longest of the last ones of its share, or than a short job. */
static int64_t part_ns(const struct job *job)
{
    const int64_t rest_ns = job_order_rest_ns(job);
    const int64_t left = job->task_count - job->next_task + job->tasks_running;
    const int64_t part_ns = rest_ns > 0 && left > 0 ? rest_ns / left : TASK_LEAST_NS;
    const int64_t longest_ns = job->flow->task_ns;
    const int64_t most_ns = longest_ns > SCHEDULER_SHORT_NS ? longest_ns : SCHEDULER_SHORT_NS;
    return part_ns < most_ns ? part_ns : most_ns;
}

/* Called when the share's first job, or what is known of it, may have changed. */
static void settle(struct job_order *order, struct job_flow *flow)
{
    const struct job *first = heap_first(&flow->jobs);
    const bool is_short =
        first && first->tasks_running == 0 && job_order_rest_ns(first) <= SCHEDULER_SHORT_NS;
    job_share_settle(&order->shares, flow, first ? part_ns(first) : -1, is_short);
}

void job_order_put(struct job_order *order, struct job *job)
{
    job->key_ns = key_of(job->arrived_ns, stands_ns(job), job->ends_ns);
    order->count += job->place < 0;
    heap_put(&job->flow->jobs, by_key, job);
    settle(order, job->flow);
}

void job_order_remove(struct job_order *order, struct job *job)
{
    if (job->place < 0)
        return;
    order->count--;
    heap_remove(&job->flow->jobs, by_key, job);
    settle(order, job->flow);
}

/* A guess of how long the job's next task takes. */
static int64_t task_guess_ns(const struct job *job)
{
    const int64_t guess_ns = job->task_count == 1 ? job_order_rest_ns(job) : job->task_ns;
    return guess_ns > TASK_LEAST_NS ? guess_ns : TASK_LEAST_NS;
}

static struct job *next_in(struct job_flow *flow, int64_t now_ns)
{
    struct job *first = heap_first(&flow->jobs);
    if (now_ns < flow->oldest_due_ns || now_ns - flow->open.first->arrived_ns < JOB_PATIENCE_NS)
        return first;
    struct job *oldest = flow->open.first;
    while (oldest->place < 0)
        oldest = oldest->in_share.next;
    if (oldest == first || now_ns - oldest->arrived_ns < JOB_PATIENCE_NS)
        return first;
    flow->oldest_due_ns = now_ns + JOB_OLDEST_SHARE * task_guess_ns(oldest);
    return oldest;
}

/* ------------------------------------------------------------ all shares -- */

struct job *job_order_next(struct job_order *order, int64_t now_ns)
{
    struct job_flow *first = job_share_first(&order->shares);
    struct job_flow *passing = job_share_first_short(&order->shares);
    if (passing && passing != first)
        return heap_first(&passing->jobs); /* only its short job may pass, not its oldest */
    return first ? next_in(first, now_ns) : NULL;
}

struct job *job_order_first(const struct job_order *order)
{
    const struct job_flow *flow = job_share_first(&order->shares);
    return flow ? heap_first(&flow->jobs) : NULL;
}

struct job *job_order_first_short(const struct job_order *order)
{
    const struct job_flow *flow = job_share_first_short(&order->shares);
    return flow ? heap_first(&flow->jobs) : NULL;
}

int64_t job_order_begin(struct job_order *order, struct job *job)
{
    const int64_t charged_ns = part_ns(job);
    job->charged_ns += charged_ns;
    job_share_begin(&order->shares, job->flow, charged_ns);
    return charged_ns;
}

/* The longest of the last tasks: a longer one counts at once, and is forgotten task by task. */
void job_order_finish(struct job_order *order, struct job *job, int64_t charged_ns,
                      int64_t spent_ns)
{
    struct job_flow *flow = job->flow;
    const int64_t faded_ns = flow->task_ns - flow->task_ns / JOB_OLDEST_SHARE;
    flow->task_ns = spent_ns > faded_ns ? spent_ns : faded_ns;
    job->charged_ns -= charged_ns;
    job_share_end(&order->shares, flow, charged_ns, spent_ns);
}

void job_order_move(struct job_order *order, struct job *job, struct job_share *share)
{
    struct job_flow *from = job->flow;
    const bool has_task = job->place >= 0;
    job->share = share && job_order_reserve(order, share) ? share : NULL;
    struct job_flow *to = job_order_flow(order, job->share);
    if (to == from)
        return;
    job_order_remove(order, job);
    LIST_TAKE_OUT(&from->open, job, in_share);
    hold(order, to, job);
    job_share_pay(&order->shares, from, to, 0, job->charged_ns);
    let_go(order, from);
    if (has_task)
        job_order_put(order, job);
}

void job_order_free(struct job_order *order)
{
    heap_free(&order->common.jobs);
    job_share_free(&order->shares);
    *order = (struct job_order){ 0 };
}
