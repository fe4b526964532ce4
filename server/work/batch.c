/* batch.c - the job that computes one product for those who wait for it.
 *
 * Its stages: others that want the CPU get it once; those who wait are taken; the product; and the
 * members go on, each as a task of its own, so that what they do next, answers to be written say,
 * is done by all workers, and before the next batch is begun with the first of those that follow.
 *
 * Before it has taken its members it stands in the order behind jobs like theirs that have come
 * meanwhile, because these would join; a worker that finds nothing else to do begins it all the
 * same. Afterwards it stands where the dearest of them would alone. Its level is the highest of
 * those who wait for it. */
#include "work/batcher_internal.h"

#include "base/clock.h"
#include "watch/batch_metrics.h"
#include "work/job_order.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum stage { STAGE_YIELD, STAGE_TAKE, STAGE_PRODUCT, STAGE_SEND_ON };

struct batch {
    struct job job; /* first: a job is its batch */
    struct batcher *batcher;
    struct batch_group *group; /* NULL: it has been given up */
    enum attn_layer_product product;
    int64_t rows;
    int count;
    struct cost cost;   /* of the product */
    int64_t dearest_ns; /* alone_ns of the dearest member */
    _Atomic int64_t cpu_ns, clock_ns;
    struct batch_member **members; /* [count]; NULL: it has gone on */
    struct attn_layer_call calls[];
};

static struct batch *batch_of(struct job *job)
{
    return (struct batch *)job;
}

/* ------------------------------------------------------------- who is there -- */

static int64_t dearer(int64_t ns, const struct batch_member *member)
{
    return ns > member->alone_ns ? ns : member->alone_ns;
}

/* Takes as many members as a batch may have. Who has been stopped stays: it is about to leave. */
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
    pthread_mutex_unlock(&batcher->mutex);
    if (batch->count > 0)
        batch_metrics_observe(batch->count, batch->rows);
}

static void send_on(struct batch *batch, int64_t i)
{
    struct batch_member *member = batch->members[i];
    batch->members[i] = NULL;
    const int64_t tasks = member->go_on(member->job);
    scheduler_continue(batch->batcher->scheduler, member->job, tasks); /* member may be freed */
}

/* Whoever waits gets another batch; this one is nobody's any more. */
static void give_up_group(struct batch *batch)
{
    struct batch_group *group = batch->group;
    struct batcher *batcher = batch->batcher;
    if (!group)
        return;
    batch->group = NULL;
    pthread_mutex_lock(&batcher->mutex);
    group->batch = NULL;
    batch_submit_or_send_away(group);
    pthread_mutex_unlock(&batcher->mutex);
}

/* ------------------------------------------------------------------ the job -- */

static void run_product(struct batch *batch, int64_t task, const struct worker *worker)
{
    const int64_t begun_ns = clock_now_ns(), begun_cpu_ns = clock_thread_ns();
    attn_layer_product_run(batch->calls, batch->count, batch->product, task, worker->workspace);
    atomic_fetch_add(&batch->cpu_ns, clock_thread_ns() - begun_cpu_ns);
    atomic_fetch_add(&batch->clock_ns, clock_now_ns() - begun_ns);
}

static void learn(const struct batch *batch)
{
    const int64_t cpu_ns = atomic_load(&batch->cpu_ns);
    cost_observe(&batch->cost, cpu_ns);
    cost_observe_clock(cpu_ns, atomic_load(&batch->clock_ns));
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
        learn(batch);
        give_up_group(batch);
        return batch->count;
    }
    return 0;
}

static void run(struct job *job, int stage, int64_t task, const struct worker *worker)
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

/* Where the daemon stops all jobs its members are stopped too, and to go on is to end. */
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

static const struct job_kind batch_job = { stage_tasks, run, done };

/* --------------------------------------------------------------- submitting -- */

static struct batch *batch_create(struct batch_group *group)
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

/* The parameters are what it costs itself: each member has the cost of its own rows. */
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

bool batch_submit(struct batch_group *group)
{
    struct batch *batch = batch_create(group);
    if (!batch)
        return false;
    set_place(&batch->job, group);
    group->due_ns = INT64_MAX;
    if (!scheduler_submit(group->batcher->scheduler, &batch->job)) {
        free(batch);
        return false;
    }
    group->batch = &batch->job;
    return true;
}

/* Takes all members that are still there, where no batch will come. They are chained by their
 * links. */
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

static void send_away(struct batcher *batcher, struct batch_member *members)
{
    while (members) {
        struct batch_member *member = members;
        members = member->in_group.next;
        const int64_t tasks = attn_layer_product_tasks(&member->call, 1, member->product);
        scheduler_continue(batcher->scheduler, member->job, tasks);
    }
}

void batch_submit_or_send_away(struct batch_group *group)
{
    struct batcher *batcher = group->batcher;
    struct batch_member *claimed = NULL;
    if (group->members.first && !batch_submit(group))
        claimed = claim_all(group);
    batch_group_settle(group);
    if (!claimed)
        return;
    pthread_mutex_unlock(&batcher->mutex);
    send_away(batcher, claimed);
    pthread_mutex_lock(&batcher->mutex);
}
