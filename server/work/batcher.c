/* batcher.c - see batcher.h: the groups of those who wait for the same product.
 *
 * While a group's batch (batch.c) computes, others gather. With a delay a group's first batch is
 * submitted later: by the member that fills it, or by a thread that looks at the groups when the
 * first of them is due. */
#include "work/batcher_internal.h"

#include "base/clock.h"

#include <stdlib.h>

/* A product of fewer parameters is done before it could be shared. */
static const int64_t PARAMETERS_MIN = 65536;

/* With as many rows of its own a product no longer waits for memory. */
enum { MEMBER_ROWS_MAX = 32 };

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
            batch_submit_or_send_away(group);
        } else {
            const struct timespec until = clock_timespec(group->due_ns);
            pthread_cond_timedwait(&batcher->due, &batcher->mutex, &until);
        }
    }
    pthread_mutex_unlock(&batcher->mutex);
    return NULL;
}

/* Called with the mutex held, after a member was added. False where the group has no batch, and
 * gets none. Who comes while a batch computes waits for its end too. */
static bool see_to_batch(struct batch_group *group, const struct batch_member *member)
{
    struct batcher *batcher = group->batcher;
    if (group->batch) {
        scheduler_raise(batcher->scheduler, group->batch, member->job->priority);
        return true;
    }
    if (batcher->delay_ns == 0 || group->rows >= batcher->rows_max)
        return batch_submit(group);
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
    const struct batch_group *group = batch_group_find(batcher, member);
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
    struct batch_group *group = batch_group_find(batcher, member);
    if (!group)
        group = batch_group_create(batcher, member);
    bool joined = group != NULL;
    if (joined) {
        batch_group_append(group, member);
        joined = see_to_batch(group, member);
        if (!joined)
            batch_group_take_out(member);
        batch_group_settle(group);
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
        batch_group_settle(group);
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
