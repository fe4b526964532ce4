/* SPDX-License-Identifier: Apache-2.0 */
/* batcher.c - see batcher.h.
 *
 * Members that wait for the same product form a group (batch_group.h). A group has at most one
 * batch: the job that computes the product for its members. Its stages:
 *
 *     yield    other threads that want the CPU get it once
 *     take     the batch takes the members that wait now; later ones wait for the next batch
 *     product  one product of all their rows
 *     send on  each member continues in its task, so all workers do what comes next, writing
 *              the answers for example, before the next batch begins with the first of the members
 *              that follow
 *
 * Before it takes its members, a batch stands in the order behind jobs like theirs that have come
 * since, because these jobs would join; a worker with nothing else to do begins it all the same.
 * After that it stands where the dearest of its members would stand alone. Its level is the highest
 * of the members that wait.
 *
 * With a delay, the first batch of a group is submitted later: by the member that fills it, or by a
 * thread that sleeps until the next group is due.
 *
 * One mutex guards the groups and their lists. It may be held around scheduler_submit() and
 * scheduler_claim(), which call nothing of ours; the scheduler calls us with no lock held. */
#include "scheduler/batcher.h"

#include "base/clock.h"
#include "scheduler/batch_group.h"
#include "scheduler/job_order.h"
#include "telemetry/metrics.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A product of fewer parameters is done sooner than it could be shared. */
static const int64_t PARAMETERS_MIN = 65536;

/* A product with more rows does not wait for memory. */
enum { MEMBER_ROWS_MAX = 32 };

struct batcher {
    struct scheduler *scheduler;
    int64_t rows_max, delay_ns;
    pthread_mutex_t mutex;
    pthread_cond_t due; /* a group is due before all others, or stopping; monotonic clock */
    struct batch_group *groups;
    bool stopping;
    bool thread_started;
    pthread_t thread;
};

enum stage { STAGE_YIELD, STAGE_TAKE, STAGE_PRODUCT, STAGE_SEND_ON };

struct batch {
    struct job job; /* first: a job is its batch */
    struct batcher *batcher;
    struct batch_group *group; /* NULL: given up */
    enum attn_layer_product product;
    int64_t rows;
    int count;
    struct cost cost;   /* of the product */
    int64_t dearest_ns; /* alone_ns of the dearest member */
    _Atomic int64_t cpu_ns, clock_ns;
    struct batch_member **members; /* [count]; NULL: this one has gone on */
    struct attn_layer_call calls[];
};

static struct batch *batch_of(struct job *job)
{
    return (struct batch *)job;
}

/* ---------------------------------------------------------------- members -- */

static int64_t dearer(int64_t ns, const struct batch_member *member)
{
    return ns > member->alone_ns ? ns : member->alone_ns;
}

/* Takes as many members as a batch may have. A member whose job has been stopped stays in the
 * group: it is about to leave. */
static void take_members(struct batch *batch)
{
    struct batch_group *group = batch->group;
    struct batcher *batcher = batch->batcher;
    pthread_mutex_lock(&batcher->mutex);
    for (struct batch_member *member = group->members.first, *next; member; member = next) {
        next = member->in_group.next;
        if (batch->rows + member->rows > batcher->rows_max)
            break;
        if (!scheduler_claim(batcher->scheduler, member->job))
            continue;
        batch_group_take_out(member);
        cost_share(&batch->cost, &member->cost);
        batch->dearest_ns = dearer(batch->dearest_ns, member);
        batch->members[batch->count] = member;
        batch->calls[batch->count++] = member->call;
        batch->rows += member->rows;
    }
    group->last_rows = batch->rows;
    if (batch->count > 0)
        batch_share_of_taken(batcher->scheduler, &batch->job, batch->members, batch->count);
    pthread_mutex_unlock(&batcher->mutex);
    if (batch->count > 0)
        batch_metrics_observe(batch->count, batch->rows);
}

/* The CPU time of the batch so far for the rows of a member. */
static int64_t part_of(const struct batch *batch, const struct batch_member *member)
{
    return batch->rows > 0 ? atomic_load(&batch->cpu_ns) / batch->rows * member->rows : 0;
}

static void send_on(struct batch *batch, int64_t i)
{
    struct batch_member *member = batch->members[i];
    batch->members[i] = NULL;
    member->paid_ns = part_of(batch, member);
    const int64_t tasks = member->go_on(member->job);
    scheduler_continue(batch->batcher->scheduler, member->job, tasks); /* member may be freed */
}

static void submit_or_send_away(struct batch_group *group);

/* From here on no member can join this batch; members that wait get another one. */
static void give_up_group(struct batch *batch)
{
    struct batch_group *group = batch->group;
    struct batcher *batcher = batch->batcher;
    if (!group)
        return;
    batch->group = NULL;
    pthread_mutex_lock(&batcher->mutex);
    group->batch = NULL;
    submit_or_send_away(group);
    pthread_mutex_unlock(&batcher->mutex);
}

/* ------------------------------------------------------------------ the job -- */

static void run_product(struct batch *batch, int64_t task, const struct worker *worker)
{
    const struct clock_task clock_task = clock_task_begin();
    attn_layer_product_run(batch->calls, batch->count, batch->product, task, worker->workspace);
    atomic_fetch_add(&batch->cpu_ns, clock_task_end(&clock_task));
    atomic_fetch_add(&batch->clock_ns, clock_now_ns() - clock_task.begun_ns);
}

/* Returns the CPU time of the product. */
static int64_t learn(const struct batch *batch)
{
    const int64_t cpu_ns = atomic_load(&batch->cpu_ns);
    cost_observe(&batch->cost, cpu_ns);
    cost_observe_clock(cpu_ns, atomic_load(&batch->clock_ns));
    return cpu_ns;
}

static int64_t stage_tasks(struct job *job, int stage)
{
    struct batch *batch = batch_of(job);
    switch ((enum stage)stage) {
    case STAGE_YIELD:
    case STAGE_TAKE:
        return 1;
    case STAGE_PRODUCT:
        if (batch->count == 0)
            return 0;
        job->stands_ns = batch->dearest_ns;
        return attn_layer_product_tasks(batch->calls, batch->count, batch->product);
    case STAGE_SEND_ON:
        batch_share_divide(batch->batcher->scheduler, job, batch->members, batch->count,
                           learn(batch));
        give_up_group(batch);
        return batch->count;
    }
    return 0;
}

static void batch_run(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    struct batch *batch = batch_of(job);
    switch ((enum stage)stage) {
    case STAGE_YIELD:
        sched_yield();
        return;
    case STAGE_TAKE:
        take_members(batch);
        return;
    case STAGE_PRODUCT:
        run_product(batch, task, worker);
        return;
    case STAGE_SEND_ON:
        send_on(batch, task);
        return;
    }
}

/* The daemon may stop all jobs. Its members are stopped then too, so they end when they go on. */
static void done(struct job *job, enum job_outcome outcome)
{
    struct batch *batch = batch_of(job);
    (void)outcome;
    give_up_group(batch);
    for (int i = 0; i < batch->count; i++)
        if (batch->members[i])
            send_on(batch, i);
    free(batch);
}

static const struct job_kind batch_job = { stage_tasks, batch_run, done };

/* --------------------------------------------------------------- submitting -- */

static struct batch *create_batch(struct batch_group *group)
{
    const size_t rows_max = (size_t)group->batcher->rows_max;
    struct batch *batch =
        calloc(1, sizeof *batch + rows_max * (sizeof batch->calls[0] + sizeof(void *)));
    if (!batch)
        return NULL;
    batch->job.kind = &batch_job;
    batch->job.for_others = true;
    batch->batcher = group->batcher;
    batch->group = group;
    batch->product = group->product;
    batch->members = (struct batch_member **)(batch->calls + rows_max);
    return batch;
}

/* Charge the batch only for reading the parameters: each member is charged for its own rows. Called
 * with the mutex held. */
static void set_place(struct job *job, const struct batch_group *group)
{
    int64_t dearest_ns = 0;
    job->priority = JOB_LEVELS;
    for (const struct batch_member *member = group->members.first; member;
         member = member->in_group.next) {
        const int level = job_order_level(member->job->priority);
        job->priority = level < job->priority ? level : job->priority;
        dearest_ns = dearer(dearest_ns, member);
    }
    job->cost_ns = cost_parameters_ns(&group->members.first->cost);
    job->stands_ns = job->cost_ns + dearest_ns;
}

/* Gives the group a batch. False without memory, or where the scheduler takes no job. Called with
 * the mutex held. */
static bool submit_batch(struct batch_group *group)
{
    struct batch *batch = create_batch(group);
    if (!batch)
        return false;
    set_place(&batch->job, group);
    batch->job.share = group->members.first->job->share;
    group->due_ns = INT64_MAX;
    if (!scheduler_submit(group->batcher->scheduler, &batch->job)) {
        free(batch);
        return false;
    }
    group->batch = &batch->job;
    batch_share_of_waiting(group->batcher->scheduler, group);
    return true;
}

/* Takes all members that still wait, because no batch will come. Returns a list of them by
 * in_group.next. */
static struct batch_member *claim_all(struct batch_group *group)
{
    struct batch_member *claimed = NULL;
    for (struct batch_member *member = group->members.first, *next; member; member = next) {
        next = member->in_group.next;
        if (!scheduler_claim(group->batcher->scheduler, member->job))
            continue;
        batch_group_take_out(member);
        member->in_group.next = claimed;
        claimed = member;
    }
    return claimed;
}

/* Each member runs the tasks of its product itself. */
static void send_away(struct batcher *batcher, struct batch_member *members)
{
    while (members) {
        struct batch_member *member = members;
        members = member->in_group.next;
        const int64_t tasks = attn_layer_product_tasks(&member->call, 1, member->product);
        scheduler_continue(batcher->scheduler, member->job, tasks);
    }
}

/* Members of a group without a batch get one, or are sent away. Called with the mutex held, which
 * may be released meanwhile; the group may be freed. */
static void submit_or_send_away(struct batch_group *group)
{
    struct batcher *batcher = group->batcher;
    struct batch_member *claimed = NULL;
    if (group->members.first && !submit_batch(group))
        claimed = claim_all(group);
    batch_group_settle(&batcher->groups, group);
    if (!claimed)
        return;
    pthread_mutex_unlock(&batcher->mutex);
    send_away(batcher, claimed);
    pthread_mutex_lock(&batcher->mutex);
}

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

/* Called with the mutex held, after the member was appended. Members that arrive while a batch
 * computes wait for the next one. False where the group has no batch and gets none. */
static bool expect_batch(struct batch_group *group, const struct batch_member *member)
{
    struct batcher *batcher = group->batcher;
    if (group->batch) {
        scheduler_raise(batcher->scheduler, group->batch, member->job->priority);
        if (batch_of(group->batch)->count == 0)
            batch_share_join(batcher->scheduler, group->batch, member->job);
        return true;
    }
    if (batcher->delay_ns == 0 || group->rows >= batcher->rows_max)
        return submit_batch(group);
    if (group->due_ns == INT64_MAX) {
        group->due_ns = clock_now_ns() + batcher->delay_ns;
        pthread_cond_signal(&batcher->due);
    }
    return true;
}

/* ---------------------------------------------------------- from outside -- */

static bool may_be_shared(const struct batcher *batcher, const struct batch_member *member)
{
    return member->rows <= MEMBER_ROWS_MAX && 2 * member->rows <= batcher->rows_max
           && attn_layer_product_parameters(member->call.plan->problem.layer, member->product)
                  >= PARAMETERS_MIN;
}

static bool is_worth_it(const struct batcher *batcher, const struct batch_member *member)
{
    return may_be_shared(batcher, member)
           && (batcher->delay_ns > 0 || scheduler_load(batcher->scheduler).job_count > 1);
}

double batcher_expected_part(struct batcher *batcher, const struct batch_member *member)
{
    int64_t rows = member->rows;
    if (rows == 0 || !may_be_shared(batcher, member))
        return 1;
    pthread_mutex_lock(&batcher->mutex);
    const struct batch_group *group = batch_group_find(batcher->groups, member);
    if (group) {
        rows += group->rows;
        rows = rows > group->last_rows ? rows : group->last_rows;
        rows = rows < batcher->rows_max ? rows : batcher->rows_max;
    }
    pthread_mutex_unlock(&batcher->mutex);
    return (double)member->rows / (double)rows;
}

bool batcher_join(struct batcher *batcher, struct batch_member *member)
{
    if (!is_worth_it(batcher, member))
        return false;
    pthread_mutex_lock(&batcher->mutex);
    struct batch_group *group = batch_group_find(batcher->groups, member);
    if (!group)
        group = batch_group_create(&batcher->groups, batcher, member);
    bool joined = group != NULL;
    if (joined) {
        batch_group_append(group, member);
        joined = expect_batch(group, member);
        if (!joined)
            batch_group_take_out(member);
        batch_group_settle(&batcher->groups, group);
    }
    pthread_mutex_unlock(&batcher->mutex);
    return joined;
}

void batcher_leave(struct batcher *batcher, struct batch_member *member)
{
    pthread_mutex_lock(&batcher->mutex);
    struct batch_group *group = member->group;
    if (group) {
        batch_group_take_out(member);
        if (group->batch && batch_of(group->batch)->count == 0
            && group->batch->share == member->job->share)
            batch_share_of_waiting(batcher->scheduler, group);
        batch_group_settle(&batcher->groups, group);
    }
    pthread_mutex_unlock(&batcher->mutex);
}

struct batcher *batcher_create(struct scheduler *scheduler, int64_t rows_max, int64_t delay_ns)
{
    struct batcher *batcher = calloc(1, sizeof *batcher);
    if (!batcher)
        return NULL;
    batcher->scheduler = scheduler;
    batcher->rows_max = rows_max;
    batcher->delay_ns = delay_ns;
    pthread_mutex_init(&batcher->mutex, NULL);
    clock_init_condition(&batcher->due);
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
