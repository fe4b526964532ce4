/* batcher.c - see batcher.h.
 *
 * Members that wait for the same product are a group, which has at most one batch in the scheduler
 * at a time: while that computes others gather, and its end submits the next. One mutex guards
 * the groups and their lists. It may be held around scheduler_submit() and scheduler_claim(),
 * which call nothing of ours; the scheduler calls us with no lock held.
 *
 * With a delay a group's first batch is submitted later: by the member that fills it, or by a
 * thread that looks at the groups when the first of them is due. */
#include "batcher.h"

#include "batch_metrics.h"
#include "clock.h"

#include <pthread.h>
#include <stdlib.h>

/* A product of fewer parameters is done before it could be shared. */
static const int64_t PARAMETERS_MIN = 65536;

/* With as many rows of its own a product no longer waits for memory. */
enum { MEMBER_ROWS_MAX = 32 };

struct batch_group {
    struct batcher *batcher;
    struct batch_group *next;
    struct attn_layer layer; /* only to be compared */
    enum attn_layer_product product;
    struct batch_member *first, *last;
    int64_t rows;
    bool has_batch; /* in the scheduler */
    int64_t due_ns; /* when a batch is to be submitted; INT64_MAX: at no time of its own */
};

/* The job that computes for its members. */
struct batch {
    struct job job; /* first: a job is its batch */
    struct batch_group *group;
    int64_t rows;
    int count;
    struct batch_member *members; /* chained by next */
    struct attn_layer_call calls[];
};

struct batcher {
    struct scheduler *scheduler;
    int64_t rows_max, delay_ns;
    pthread_mutex_t mutex;
    pthread_cond_t due; /* a group is due earlier than any other, or stopping; monotonic clock */
    struct batch_group *groups;
    bool stopping;
    bool thread_started;
    pthread_t thread;
};

/* ---------------------------------------------------------------- groups -- */

static struct batch_group *find_group(struct batcher *batcher, const struct batch_member *member)
{
    struct batch_group *group = batcher->groups;
    while (group
           && !(group->product == member->product
                && attn_layer_same_product(&group->layer, member->call.plan->problem.layer,
                                           member->product)))
        group = group->next;
    return group;
}

static struct batch_group *group_create(struct batcher *batcher, const struct batch_member *member)
{
    struct batch_group *group = calloc(1, sizeof *group);
    if (!group)
        return NULL;
    group->batcher = batcher;
    group->layer = *member->call.plan->problem.layer;
    group->product = member->product;
    group->due_ns = INT64_MAX;
    group->next = batcher->groups;
    batcher->groups = group;
    return group;
}

/* Frees the group where nothing keeps it. */
static void settle(struct batch_group *group)
{
    if (group->first || group->has_batch)
        return;
    struct batch_group **link = &group->batcher->groups; /* there are few */
    while (*link != group)
        link = &(*link)->next;
    *link = group->next;
    free(group);
}

static void append(struct batch_group *group, struct batch_member *member)
{
    member->next = NULL;
    member->previous = group->last;
    *(group->last ? &group->last->next : &group->first) = member;
    group->last = member;
    group->rows += member->rows;
    member->group = group;
}

static void take_out(struct batch_member *member)
{
    struct batch_group *group = member->group;
    *(member->previous ? &member->previous->next : &group->first) = member->next;
    *(member->next ? &member->next->previous : &group->last) = member->previous;
    group->rows -= member->rows;
    member->group = NULL;
}

/* --------------------------------------------------------------- batches -- */

static const struct job_kind batch_job;

/* Called with the mutex held. False where there is no memory, or the scheduler takes no job. */
static bool submit_batch(struct batch_group *group)
{
    struct batcher *batcher = group->batcher;
    struct batch *batch =
        calloc(1, sizeof *batch + (size_t)batcher->rows_max * sizeof batch->calls[0]);
    if (!batch)
        return false;
    batch->job.kind = &batch_job;
    batch->group = group;
    for (const struct batch_member *member = group->first; member; member = member->next)
        if (batch->job.priority == 0
            || (member->job->priority > 0 && member->job->priority < batch->job.priority))
            batch->job.priority = member->job->priority;
    group->due_ns = INT64_MAX;
    group->has_batch = scheduler_submit(batcher->scheduler, &batch->job);
    if (!group->has_batch)
        free(batch);
    return group->has_batch;
}

/* Called with the mutex held, where no batch will come: takes all members that are still there.
 * They are chained by next. */
static struct batch_member *claim_all(struct batch_group *group)
{
    struct batch_member *claimed = NULL;
    for (struct batch_member *member = group->first, *next; member; member = next) {
        next = member->next;
        if (!scheduler_claim(group->batcher->scheduler, member->job))
            continue;
        take_out(member);
        member->next = claimed;
        claimed = member;
    }
    return claimed;
}

/* Takes as many members as a batch may have. Who has been stopped stays: it is about to leave. */
static void collect(struct batch *batch)
{
    struct batch_group *group = batch->group;
    struct batcher *batcher = group->batcher;
    struct batch_member *last = NULL;
    for (struct batch_member *member = group->first, *next; member; member = next) {
        next = member->next;
        if (batch->rows + member->rows > batcher->rows_max)
            break;
        if (!scheduler_claim(batcher->scheduler, member->job))
            continue;
        take_out(member);
        member->next = NULL;
        *(last ? &last->next : &batch->members) = member;
        last = member;
        batch->calls[batch->count++] = member->call;
        batch->rows += member->rows;
    }
}

/* Continues members without a product made for them: they run their tasks themselves. */
static void send_away(struct batcher *batcher, struct batch_member *members)
{
    while (members) {
        struct batch_member *member = members;
        members = member->next;
        const int64_t tasks = attn_layer_product_tasks(&member->call, 1, member->product);
        scheduler_continue(batcher->scheduler, member->job, tasks);
    }
}

/* What waits in a group that has no batch gets one, or is sent away. Called with the mutex held;
 * returns with it held, and the group may be gone. */
static void submit_or_send_away(struct batch_group *group)
{
    struct batcher *batcher = group->batcher;
    struct batch_member *claimed = NULL;
    if (group->first && !submit_batch(group))
        claimed = claim_all(group);
    settle(group);
    if (!claimed)
        return;
    pthread_mutex_unlock(&batcher->mutex);
    send_away(batcher, claimed);
    pthread_mutex_lock(&batcher->mutex);
}

static struct batch *batch_of(struct job *job)
{
    return (struct batch *)job;
}

/* The first stage is to take who is there, the second the product. */
static int64_t stage_tasks(struct job *job, int stage)
{
    const struct batch *batch = batch_of(job);
    if (stage > 1 || batch->count == 0)
        return 0;
    return attn_layer_product_tasks(batch->calls, batch->count, batch->group->product);
}

static void run(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    struct batch *batch = batch_of(job);
    struct batcher *batcher = batch->group->batcher;
    if (stage > 0) {
        attn_layer_product_run(batch->calls, batch->count, batch->group->product, task,
                               worker->workspace);
        return;
    }
    pthread_mutex_lock(&batcher->mutex);
    collect(batch);
    pthread_mutex_unlock(&batcher->mutex);
    if (batch->count > 0)
        batch_metrics_observe(batch->count, batch->rows);
}

/* Where the daemon stops all jobs its members are stopped too, and to go on is to end. */
static void done(struct job *job, enum job_outcome outcome)
{
    struct batch *batch = batch_of(job);
    struct batch_group *group = batch->group;
    struct batcher *batcher = group->batcher;
    (void)outcome;
    pthread_mutex_lock(&batcher->mutex);
    group->has_batch = false;
    submit_or_send_away(group);
    pthread_mutex_unlock(&batcher->mutex);
    for (struct batch_member *member = batch->members, *next; member; member = next) {
        next = member->next;
        const int64_t tasks = member->go_on(member->job);
        scheduler_continue(batcher->scheduler, member->job, tasks); /* member may be freed */
    }
    free(batch);
}

static const struct job_kind batch_job = { stage_tasks, run, done };

/* ----------------------------------------------------------------- delay -- */

/* The group that is due first, or NULL. */
static struct batch_group *next_due(const struct batcher *batcher)
{
    struct batch_group *due = NULL;
    for (struct batch_group *group = batcher->groups; group; group = group->next)
        if (group->due_ns < (due ? due->due_ns : INT64_MAX))
            due = group;
    return due;
}

static void *watch_delays(void *argument)
{
    struct batcher *batcher = argument;
    pthread_mutex_lock(&batcher->mutex);
    while (!batcher->stopping) {
        struct batch_group *group = next_due(batcher);
        if (!group) {
            pthread_cond_wait(&batcher->due, &batcher->mutex);
        } else if (group->due_ns <= clock_now_ns()) {
            group->due_ns = INT64_MAX;
            submit_or_send_away(group);
        } else {
            const struct timespec until = clock_timespec(group->due_ns);
            pthread_cond_timedwait(&batcher->due, &batcher->mutex, &until);
        }
    }
    pthread_mutex_unlock(&batcher->mutex);
    return NULL;
}

/* Called with the mutex held, after a member was added. False where the group has no batch, and
 * gets none. */
static bool see_to_batch(struct batch_group *group)
{
    struct batcher *batcher = group->batcher;
    if (group->has_batch)
        return true;
    if (batcher->delay_ns == 0 || group->rows >= batcher->rows_max)
        return submit_batch(group);
    if (group->due_ns == INT64_MAX) {
        group->due_ns = clock_now_ns() + batcher->delay_ns;
        pthread_cond_signal(&batcher->due);
    }
    return true;
}

/* ---------------------------------------------------------- from outside -- */

static bool is_worth_it(const struct batcher *batcher, const struct batch_member *member)
{
    if (member->rows > MEMBER_ROWS_MAX || 2 * member->rows > batcher->rows_max
        || attn_layer_product_parameters(member->call.plan->problem.layer, member->product)
               < PARAMETERS_MIN)
        return false;
    return batcher->delay_ns > 0 || scheduler_load(batcher->scheduler).job_count > 1;
}

bool batcher_join(struct batcher *batcher, struct batch_member *member)
{
    if (!is_worth_it(batcher, member))
        return false;
    pthread_mutex_lock(&batcher->mutex);
    struct batch_group *group = find_group(batcher, member);
    if (!group)
        group = group_create(batcher, member);
    bool joined = group != NULL;
    if (joined) {
        append(group, member);
        joined = see_to_batch(group);
        if (!joined)
            take_out(member);
        settle(group);
    }
    pthread_mutex_unlock(&batcher->mutex);
    return joined;
}

void batcher_leave(struct batcher *batcher, struct batch_member *member)
{
    pthread_mutex_lock(&batcher->mutex);
    struct batch_group *group = member->group;
    if (group) {
        take_out(member);
        settle(group);
    }
    pthread_mutex_unlock(&batcher->mutex);
}

static void init_locks(struct batcher *batcher)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&batcher->mutex, NULL);
    pthread_cond_init(&batcher->due, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

struct batcher *batcher_create(struct scheduler *scheduler, int64_t rows_max, int64_t delay_ns)
{
    struct batcher *batcher = calloc(1, sizeof *batcher);
    if (!batcher)
        return NULL;
    batcher->scheduler = scheduler;
    batcher->rows_max = rows_max;
    batcher->delay_ns = delay_ns;
    init_locks(batcher);
    if (delay_ns > 0 && rows_max > 1) {
        batcher->thread_started =
            pthread_create(&batcher->thread, NULL, watch_delays, batcher) == 0;
        if (!batcher->thread_started) {
            batcher_free(batcher);
            return NULL;
        }
    }
    return batcher;
}

void batcher_free(struct batcher *batcher)
{
    if (!batcher)
        return;
    if (batcher->thread_started) {
        pthread_mutex_lock(&batcher->mutex);
        batcher->stopping = true;
        pthread_cond_signal(&batcher->due);
        pthread_mutex_unlock(&batcher->mutex);
        pthread_join(batcher->thread, NULL);
    }
    pthread_cond_destroy(&batcher->due);
    pthread_mutex_destroy(&batcher->mutex);
    free(batcher);
}
