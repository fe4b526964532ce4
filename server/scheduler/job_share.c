/* SPDX-License-Identifier: Apache-2.0 */
/* job_share.c - see job_share.h.
 *
 * Two heaps by the tags: one of all shares that have a task, and one of those whose first job is
 * short. The spare thread runs only short jobs.
 *
 * Of equal tags the share with the shorter task goes first: many shares that return at the same
 * virtual time would else let a short task wait for a long one of each. */
#include "scheduler/job_share.h"

enum { ROOM_FIRST = 16 };

static bool goes_before(const void *left, const void *right)
{
    const struct job_flow *a = left, *b = right;
    if (a->tag != b->tag)
        return a->tag < b->tag;
    if (a->next != b->next)
        return a->next < b->next;
    return a->number < b->number;
}

static int64_t *place_in_all(void *flow)
{
    return &((struct job_flow *)flow)->place[JOB_SHARE_ALL];
}

static int64_t *place_in_short(void *flow)
{
    return &((struct job_flow *)flow)->place[JOB_SHARE_SHORT];
}

static const struct heap_order orders[JOB_SHARE_HEAPS] = {
    [JOB_SHARE_ALL] = { goes_before, place_in_all },
    [JOB_SHARE_SHORT] = { goes_before, place_in_short },
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static bool has_task(const struct job_flow *flow)
{
    return flow->place[JOB_SHARE_ALL] >= 0;
}

double job_share_weight(const struct job_flow *flow)
{
    return flow->share ? flow->share->weight : 1;
}

/* ------------------------------------------------------------- taking part -- */

bool job_share_reserve(struct job_share_queue *queue)
{
    for (int i = 0; i < JOB_SHARE_HEAPS; i++)
        if (!heap_reserve(&queue->heaps[i], queue->open_count + 1, ROOM_FIRST))
            return false;
    return true;
}

void job_share_open(struct job_share_queue *queue, struct job_flow *flow)
{
    for (int i = 0; i < JOB_SHARE_HEAPS; i++)
        flow->place[i] = -1;
    LIST_APPEND(&queue->open, flow, in_open);
    queue->open_count++;
}

void job_share_close(struct job_share_queue *queue, struct job_flow *flow)
{
    LIST_TAKE_OUT(&queue->open, flow, in_open);
    queue->open_count--;
}

static void put(struct job_share_queue *queue, struct job_flow *flow, int heap, bool is_in)
{
    if (is_in)
        heap_put(&queue->heaps[heap], orders[heap], flow);
    else
        heap_remove(&queue->heaps[heap], orders[heap], flow);
}

void job_share_settle(struct job_share_queue *queue, struct job_flow *flow, int64_t next_ns,
                      bool is_short)
{
    if (next_ns >= 0) {
        flow->next = (double)next_ns / job_share_weight(flow);
        if (!has_task(flow)) {
            flow->tag = larger(flow->tag, queue->now);
            flow->number = queue->returns++;
        }
    }
    put(queue, flow, JOB_SHARE_ALL, next_ns >= 0);
    put(queue, flow, JOB_SHARE_SHORT, next_ns >= 0 && is_short);
}

/* ------------------------------------------------------------------ whose turn -- */

struct job_flow *job_share_first(const struct job_share_queue *queue)
{
    return heap_first(&queue->heaps[JOB_SHARE_ALL]);
}

double job_share_start(const struct job_share_queue *queue, const struct job_flow *flow)
{
    return flow->open_count > 0 && has_task(flow) ? flow->tag : larger(flow->tag, queue->now);
}

bool job_share_may_pass(const struct job_share_queue *queue, const struct job_flow *flow)
{
    const struct job_flow *first = job_share_first(queue);
    return !first || job_share_start(queue, flow) <= first->tag + first->next;
}

struct job_flow *job_share_first_short(const struct job_share_queue *queue)
{
    struct job_flow *flow = heap_first(&queue->heaps[JOB_SHARE_SHORT]);
    return flow && job_share_may_pass(queue, flow) ? flow : NULL;
}

/* --------------------------------------------------------------------- charges -- */

static void charge(struct job_share_queue *queue, struct job_flow *flow, int64_t ns)
{
    flow->tag += (double)ns / job_share_weight(flow);
    for (int i = 0; i < JOB_SHARE_HEAPS; i++)
        if (flow->place[i] >= 0)
            heap_sift(&queue->heaps[i], orders[i], flow);
}

void job_share_begin(struct job_share_queue *queue, struct job_flow *flow, int64_t predicted_ns)
{
    const struct job_flow *first = job_share_first(queue);
    if (!has_task(flow)) /* its owner's thread runs the job, which never was in the order */
        flow->tag = larger(flow->tag, queue->now);
    queue->now = larger(queue->now, first && first->tag < flow->tag ? first->tag : flow->tag);
    queue->running++;
    flow->running_ns += predicted_ns;
    charge(queue, flow, predicted_ns);
}

void job_share_end(struct job_share_queue *queue, struct job_flow *flow, int64_t predicted_ns,
                   int64_t spent_ns)
{
    queue->running--;
    flow->running_ns -= predicted_ns;
    charge(queue, flow, spent_ns - predicted_ns);
    queue->furthest = larger(queue->furthest, flow->tag);
    if (queue->heaps[JOB_SHARE_ALL].count > 0)
        return;
    const double computed = flow->tag - (double)flow->running_ns / job_share_weight(flow);
    queue->now = larger(queue->now, queue->running > 0 ? computed : queue->furthest);
}

void job_share_pay(struct job_share_queue *queue, struct job_flow *from, struct job_flow *to,
                   int64_t spent_ns, int64_t running_ns)
{
    from->running_ns -= running_ns;
    to->running_ns += running_ns;
    charge(queue, from, -(spent_ns + running_ns));
    if (!has_task(to))
        to->tag = larger(to->tag, queue->now);
    charge(queue, to, spent_ns + running_ns);
}

void job_share_free(struct job_share_queue *queue)
{
    for (int i = 0; i < JOB_SHARE_HEAPS; i++)
        heap_free(&queue->heaps[i]);
}
