/* job_order.c - see job_order.h. A binary heap; each job knows its place in it. */
#include "work/job_order.h"

#include <stdlib.h>

enum { ROOM_FIRST = 64, TASK_LEAST_NS = 1000000 };

int64_t job_order_rest_ns(const struct job *job)
{
    return job->remaining_ns > 0 ? job->remaining_ns : job->spent_ns;
}

static bool goes_before(const struct job *a, const struct job *b)
{
    if (a->level != b->level)
        return a->level < b->level;
    if (a->key_ns != b->key_ns)
        return a->key_ns < b->key_ns;
    return a->number < b->number;
}

static void place(struct job_order *order, int64_t at, struct job *job)
{
    order->heap[at] = job;
    job->place = at;
}

/* Moves the job from job->place up or down to its right place. */
static void sift(struct job_order *order, struct job *job)
{
    int64_t at = job->place;
    while (at > 0 && goes_before(job, order->heap[(at - 1) / 2])) {
        place(order, at, order->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child + 1 < order->count && goes_before(order->heap[child + 1], order->heap[child]))
            child++;
        if (child >= order->count || !goes_before(order->heap[child], job))
            break;
        place(order, at, order->heap[child]);
        at = child;
    }
    place(order, at, job);
}

bool job_order_reserve(struct job_order *order, int64_t count)
{
    if (count <= order->capacity)
        return true;
    const int64_t capacity = count < ROOM_FIRST ? ROOM_FIRST : 2 * count;
    struct job **heap = reallocarray(order->heap, (size_t)capacity, sizeof(void *));
    if (!heap)
        return false;
    order->heap = heap;
    order->capacity = capacity;
    return true;
}

void job_order_admit(struct job_order *order, struct job *job, int64_t now_ns)
{
    job->place = -1;
    job->came_ns = now_ns;
    job->number = order->came++;
    job->spent_ns = job->task_ns = 0;
}

int job_order_level(int priority)
{
    return priority >= 1 && priority <= JOB_LEVELS ? priority : JOB_LEVEL_DEFAULT;
}

/* The key of a job by its arrival, its remaining cost and its deadline; deadline_ns 0: none. */
static int64_t key_of(int64_t came_ns, int64_t rest_ns, int64_t deadline_ns)
{
    const int64_t most_ns = (INT64_MAX - came_ns) / JOB_PASSES;
    const int64_t passed_ns = JOB_PASSES * (rest_ns < most_ns ? rest_ns : most_ns);
    const int64_t half_ns = deadline_ns > came_ns ? (deadline_ns - came_ns) / 2 : INT64_MAX;
    return came_ns + (passed_ns < half_ns ? passed_ns : half_ns);
}

static int64_t stands_ns(const struct job *job)
{
    return job->stands_ns > 0 ? job->stands_ns : job_order_rest_ns(job);
}

bool job_order_goes_before(const struct job *job, const struct job *other, int64_t came_ns)
{
    const int level = job_order_level(other->priority);
    return job->level != level ? job->level < level
                               : key_of(job->came_ns, stands_ns(job), job->ends_ns)
                                     < key_of(came_ns, other->cost_ns, other->deadline_ns);
}

void job_order_put(struct job_order *order, struct job *job)
{
    job->key_ns = key_of(job->came_ns, stands_ns(job), job->ends_ns);
    if (job->place < 0)
        place(order, order->count++, job);
    sift(order, job);
}

void job_order_remove(struct job_order *order, struct job *job)
{
    const int64_t at = job->place;
    if (at < 0)
        return;
    job->place = -1;
    struct job *last = order->heap[--order->count];
    if (last != job) {
        place(order, at, last);
        sift(order, last);
    }
}

/* A guess of how long the job's next task takes. */
static int64_t task_guess_ns(const struct job *job)
{
    const int64_t guess_ns = job->task_count == 1 ? job_order_rest_ns(job) : job->task_ns;
    return guess_ns > TASK_LEAST_NS ? guess_ns : TASK_LEAST_NS;
}

struct job *job_order_next(struct job_order *order, struct job *open, int64_t now_ns)
{
    if (order->count == 0)
        return NULL;
    struct job *first = order->heap[0];
    if (now_ns < order->oldest_due_ns || now_ns - open->came_ns < JOB_PATIENCE_NS)
        return first;
    struct job *oldest = open;
    while (oldest->place < 0)
        oldest = oldest->in_open.next;
    if (oldest == first || now_ns - oldest->came_ns < JOB_PATIENCE_NS)
        return first;
    order->oldest_due_ns = now_ns + JOB_OLDEST_SHARE * task_guess_ns(oldest);
    return oldest;
}

void job_order_free(struct job_order *order)
{
    free(order->heap);
    *order = (struct job_order){ 0 };
}
