/* Jobs that share a product: who shares one, that each gets the bits that it gets alone, that who
 * leaves or runs out of time in the middle of a batch harms nobody, and what all that is said to
 * cost. One worker, held while jobs come, so that who is there is known. */
#include "batcher.h"

#include "batch_metrics.h"
#include "fill.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { D_MODEL = 256, HEADS = 4, ROWS_MAX = 3, MEMBERS = 8, QUEUE = 16, WORKSPACE = 1 << 20 };
#define MS INT64_C(1000000)

static struct scheduler *scheduler;
static struct batcher *batcher;
static struct attn_layer layer;
static float parameters[4][D_MODEL * D_MODEL];
static void *workspace;

/* A layer's call as the daemon runs it: read, then the stages of its plan. */
struct caller {
    struct job job; /* first: a job is its caller */
    struct batch_member member;
    struct attn_layer_plan plan;
    void *scratch;
    float query[ROWS_MAX * D_MODEL], context[ROWS_MAX * D_MODEL], expected[ROWS_MAX * D_MODEL];
    int64_t rows;
    int shared;         /* products */
    int member_stage;   /* of the plan */
    atomic_int joined;  /* times */
    struct caller *end; /* in go_on(): to be stopped, or itself: its time passes */
    bool ends_all;      /* in go_on() */
    atomic_int done_count;
    enum job_outcome outcome;
};

static struct caller callers[MEMBERS];

/* ------------------------------------------------------------------------- callers -- */

static struct caller *caller_of(struct job *job)
{
    return (struct caller *)job;
}

static int64_t plan_tasks(const struct caller *caller, int stage)
{
    return stage < caller->plan.stage_count ? caller->plan.task_count[stage] : 0;
}

static int64_t go_on(struct job *job)
{
    struct caller *caller = caller_of(job);
    struct caller *end = caller->end;
    if (end == caller)
        job->deadline_ns = 1;
    else if (end)
        scheduler_stop_job(scheduler, &end->job, JOB_LEFT);
    if (caller->ends_all)
        scheduler_cancel_all(scheduler);
    caller->shared++;
    return plan_tasks(caller, caller->member_stage + 1);
}

static int64_t stage_tasks(struct job *job, int stage)
{
    struct caller *caller = caller_of(job);
    struct batch_member *member = &caller->member;
    const int plan_stage = stage - 1 + caller->shared;
    const int64_t count = plan_tasks(caller, plan_stage);
    member->product = attn_layer_product(&caller->plan, plan_stage);
    if (member->product == ATTN_PRODUCT_NONE)
        return count;
    member->rows = attn_layer_product_rows(&member->call, member->product);
    caller->member_stage = plan_stage;
    const bool joined = batcher_join(batcher, member);
    atomic_fetch_add(&caller->joined, joined);
    return joined ? JOB_WAITS : count;
}

static void run(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    const struct caller *caller = caller_of(job);
    if (stage > 0)
        attn_layer_run(&caller->plan, stage - 1 + caller->shared, task, caller->scratch,
                       worker->workspace);
}

static void done(struct job *job, enum job_outcome outcome)
{
    struct caller *caller = caller_of(job);
    batcher_leave(batcher, &caller->member);
    caller->outcome = outcome;
    atomic_fetch_add(&caller->done_count, 1);
}

static const struct job_kind caller_job = { stage_tasks, run, done };

static void compute_alone(struct caller *caller)
{
    for (int stage = 0; stage < caller->plan.stage_count; stage++)
        for (int64_t task = 0; task < caller->plan.task_count[stage]; task++)
            attn_layer_run(&caller->plan, stage, task, caller->scratch, workspace);
    memcpy(caller->expected, caller->context, sizeof caller->expected);
    memset(caller->context, 0, sizeof caller->context);
}

static void caller_init(struct caller *caller, uint64_t seed)
{
    const char *where;
    memset(caller, 0, sizeof *caller);
    caller->rows = 1 + (int64_t)seed % ROWS_MAX;
    struct fill fill = { seed };
    fill_floats(&fill, caller->query, (int64_t)ROWS_MAX * D_MODEL, -1, 1);
    const struct attn_tensor rows =
        attn_tensor_dense(caller->query, ATTN_F32, 1, 1, caller->rows, D_MODEL);
    const struct attn_layer_problem problem = { .layer = &layer,
                                                .options = attn_options_default(D_MODEL / HEADS),
                                                .query = rows,
                                                .key = rows,
                                                .value = rows,
                                                .context = caller->context };
    assert_int_equal(attn_layer_plan_init(&caller->plan, &problem, &where), ATTN_OK);
    assert_true(caller->plan.workspace_bytes <= WORKSPACE);
    caller->scratch = aligned_alloc(64, (caller->plan.scratch_bytes + 64) / 64 * 64);
    assert_non_null(caller->scratch);
    compute_alone(caller);
    caller->job.kind = &caller_job;
    caller->job.cost_ns = MS;
    caller->member.job = &caller->job;
    caller->member.go_on = go_on;
    caller->member.call = (struct attn_layer_call){ &caller->plan, caller->scratch };
    caller->member.cost.amount[COST_PROJECT] = 1;
    caller->member.cost.amount[COST_PARAMETER] = 1e6;
    caller->member.alone_ns = 10 * MS;
}

/* ----------------------------------------------------------------- the held threads -- */

/* The worker is held by a long job until all have come, the spare thread by a short one until all
 * are done. */
struct holder {
    struct job job; /* first: a job is its holder */
    atomic_bool held, runs;
};

static struct holder long_holder, short_holder;

static int64_t no_more(struct job *job, int stage)
{
    (void)job;
    (void)stage;
    return 0;
}

static void hold(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    struct holder *holder = (struct holder *)job;
    (void)stage;
    (void)task;
    (void)worker;
    atomic_store(&holder->runs, true);
    while (atomic_load(&holder->held))
        usleep(100);
}

static void held_done(struct job *job, enum job_outcome outcome)
{
    (void)job;
    (void)outcome;
}

static const struct job_kind holding_job = { no_more, hold, held_done };

static void holder_submit(struct holder *holder, int priority, int64_t cost_ns)
{
    holder->job = (struct job){ .kind = &holding_job, .priority = priority, .cost_ns = cost_ns };
    atomic_store(&holder->held, true);
    atomic_store(&holder->runs, false);
    assert_true(scheduler_submit(scheduler, &holder->job));
}

static void wait_until_held(const struct holder *holder)
{
    while (!atomic_load(&holder->runs))
        usleep(100);
}

static void hold_thread(struct holder *holder, int64_t cost_ns)
{
    holder_submit(holder, 1, cost_ns);
    wait_until_held(holder);
}

static void create(int64_t rows_max, int64_t delay_ns)
{
    scheduler = scheduler_create(1, QUEUE, WORKSPACE);
    assert_non_null(scheduler);
    batcher = batcher_create(scheduler, rows_max, delay_ns);
    assert_non_null(batcher);
}

static void hold_threads(void)
{
    hold_thread(&long_holder, 1000 * MS);
    hold_thread(&short_holder, MS);
}

static void begin(int64_t rows_max)
{
    create(rows_max, 0);
    hold_threads();
}

static void stop(void)
{
    atomic_store(&long_holder.held, false);
    atomic_store(&short_holder.held, false);
    scheduler_free(scheduler);
    batcher_free(batcher);
}

/* The worker does all there is to do, for the first callers. */
static void finish_first(int count)
{
    atomic_store(&long_holder.held, false);
    for (int i = 0; i < count; i++)
        while (atomic_load(&callers[i].done_count) == 0)
            usleep(100);
    stop();
}

static void finish(void)
{
    finish_first(MEMBERS);
}

static void submit_all(void)
{
    for (int i = 0; i < MEMBERS; i++)
        assert_true(scheduler_submit(scheduler, &callers[i].job));
}

/* Those from first to before end, one after another, each of which joins. */
static void submit_and_wait(int first, int end)
{
    for (int i = first; i < end; i++) {
        assert_true(scheduler_submit(scheduler, &callers[i].job));
        while (!atomic_load(&callers[i].joined))
            usleep(100);
    }
}

static int metric(const char *name)
{
    struct text text;
    text_init(&text, 65536);
    batch_metrics_write(&text);
    cost_write_metrics(&text);
    const char *found = strstr(text.data, name);
    assert_non_null(found);
    const int value = (int)strtol(found + strlen(name) + 1, NULL, 10);
    text_free(&text);
    return value;
}

static void expect_answered(int i)
{
    assert_int_equal(callers[i].done_count, 1);
    assert_int_equal(callers[i].outcome, JOB_FINISHED);
    assert_memory_equal(callers[i].context, callers[i].expected, sizeof callers[i].expected);
}

/* ---------------------------------------------------------------------------- tests -- */

/* What came before the worker was free is all there when the batch begins, though it was submitted
 * with the first of them. */
static void test_all_that_is_there_shares(void **state)
{
    (void)state;
    const int small = metric("requests_bucket{le=\"4\"}"), large = metric("requests_count");
    const int requests = metric("requests_sum"), rows = metric("rows_sum");
    const int observations = metric("\nattnd_cost_observations_total");
    begin(64);
    submit_all();
    finish();
    for (int i = 0; i < MEMBERS; i++) {
        expect_answered(i);
        assert_int_equal(callers[i].shared, 2);
    }
    assert_int_equal(metric("requests_bucket{le=\"4\"}"), small);
    assert_int_equal(metric("requests_count"), large + 2);
    assert_int_equal(metric("\nattnd_cost_observations_total"), observations + 2);
    assert_int_equal(metric("requests_sum"), requests + 2 * MEMBERS);
    assert_int_equal(metric("rows_sum"), rows + 2 * (1 + 2 + 3 + 1 + 2 + 3 + 1 + 2));
}

/* What comes after them all goes before their batch where it costs less than one of them alone. */
struct passing_job {
    struct job job; /* first: a job is its passing_job */
    int shared;     /* products so far, when it ran */
};

static void note_products(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    (void)stage;
    (void)task;
    (void)worker;
    for (int i = 0; i < MEMBERS; i++)
        ((struct passing_job *)job)->shared += callers[i].shared;
}

static const struct job_kind passing_kind = { no_more, note_products, held_done };

static void test_where_a_batch_stands(void **state)
{
    (void)state;
    struct passing_job cheap = { .job = { .kind = &passing_kind, .cost_ns = 2 * MS } };
    struct passing_job dear = { .job = { .kind = &passing_kind, .cost_ns = 100 * MS } };
    begin(64);
    submit_all();
    assert_true(scheduler_submit(scheduler, &dear.job));
    assert_true(scheduler_submit(scheduler, &cheap.job));
    finish();
    assert_int_equal(cheap.shared, 0);
    assert_int_equal(dear.shared, 2 * MEMBERS);
    for (int i = 0; i < MEMBERS; i++)
        expect_answered(i);
}

/* What goes before a batch of the lowest level holds the worker again until one of the highest has
 * come that joins it; the batch then goes before what it would have stood behind. */
static void test_a_batch_rises_with_who_joins(void **state)
{
    (void)state;
    struct passing_job other = { .job = { .kind = &passing_kind, .cost_ns = 2 * MS } };
    struct holder again;
    callers[0].job.priority = 3;
    callers[1].job.priority = 1;
    begin(64);
    assert_true(scheduler_submit(scheduler, &callers[0].job));
    holder_submit(&again, 3, 2 * MS);
    atomic_store(&long_holder.held, false);
    wait_until_held(&again);
    assert_int_equal(callers[0].joined, 1);
    assert_int_equal(callers[0].shared, 0);
    assert_true(scheduler_submit(scheduler, &other.job));
    assert_true(scheduler_submit(scheduler, &callers[1].job));
    atomic_store(&again.held, false);
    finish_first(2);
    assert_true(other.shared >= 2);
    expect_answered(0);
    expect_answered(1);
}

/* The default level is the middle one: a batch of it does not wait behind the lowest because one of
 * that is in it. With a delay it begins when all are there. */
static void test_a_batch_of_several_levels(void **state)
{
    (void)state;
    struct passing_job low = { .job = { .kind = &passing_kind, .priority = 3, .cost_ns = MS } };
    callers[1].job.priority = 3;
    create(6, 60000 * MS);
    submit_and_wait(0, 2);
    hold_threads();
    assert_true(scheduler_submit(scheduler, &low.job));
    assert_true(scheduler_submit(scheduler, &callers[2].job));
    finish_first(3);
    assert_true(low.shared >= 3);
    for (int i = 0; i < 3; i++)
        expect_answered(i);
}

static void test_a_full_batch_leaves_the_others_another(void **state)
{
    (void)state;
    for (int64_t rows_max = 6; rows_max <= 9; rows_max++) {
        begin(rows_max);
        submit_all();
        finish();
        for (int i = 0; i < MEMBERS; i++) {
            expect_answered(i);
            assert_int_equal(callers[i].shared, 2);
        }
        for (int i = 0; i < MEMBERS; i++) {
            free(callers[i].scratch);
            caller_init(&callers[i], (uint64_t)i);
        }
    }
}

/* By the one before it, when both have their rows. */
static void test_leaving_in_a_batch(void **state)
{
    (void)state;
    begin(64);
    callers[2].end = &callers[3];
    callers[MEMBERS - 1].end = &callers[0];
    submit_all();
    finish();
    assert_int_equal(callers[3].done_count, 1);
    assert_int_equal(callers[3].outcome, JOB_LEFT);
    assert_int_equal(callers[3].shared, 1);
    assert_int_equal(callers[0].done_count, 1);
    for (int i = 1; i < MEMBERS; i++)
        if (i != 3)
            expect_answered(i);
}

static void test_time_passes_in_a_batch(void **state)
{
    (void)state;
    begin(64);
    callers[5].end = &callers[5];
    submit_all();
    finish();
    assert_int_equal(callers[5].done_count, 1);
    assert_int_equal(callers[5].outcome, JOB_DEADLINE);
    assert_int_equal(callers[5].shared, 1);
    for (int i = 0; i < MEMBERS; i++)
        if (i != 5)
            expect_answered(i);
}

static void test_all_are_cancelled(void **state)
{
    (void)state;
    begin(64);
    callers[2].ends_all = true;
    submit_all();
    finish();
    for (int i = 0; i < MEMBERS; i++) {
        assert_int_equal(callers[i].shared, 1);
        assert_int_equal(callers[i].done_count, 1);
        assert_int_equal(callers[i].outcome, JOB_CANCELLED);
    }
}

/* Batches are no jobs of anybody, and take nobody's place. */
static void test_batches_are_not_counted(void **state)
{
    (void)state;
    scheduler = scheduler_create(1, MEMBERS, WORKSPACE);
    batcher = batcher_create(scheduler, 64, 60000 * MS);
    submit_all();
    for (int i = 0; i < MEMBERS; i++)
        while (!atomic_load(&callers[i].joined))
            usleep(100);
    assert_int_equal(scheduler_load(scheduler).job_count, MEMBERS);
    struct holder batch = { .job = { .kind = &holding_job, .cost_ns = 5 * MS } };
    atomic_store(&batch.held, true);
    assert_false(scheduler_submit(scheduler, &batch.job));
    batch.job.for_others = true;
    assert_true(scheduler_submit(scheduler, &batch.job));
    assert_int_equal(scheduler_load(scheduler).job_count, MEMBERS);
    assert_true(scheduler_load(scheduler).cost_ns >= 5 * MS);
    atomic_store(&batch.held, false);
    for (int i = 0; i < MEMBERS; i++)
        scheduler_stop_job(scheduler, &callers[i].job, JOB_LEFT);
    stop();
}

/* Members 2 to 7 have 3, 1, 2, 3, 1 and 2 rows. */
static void test_the_part_that_is_expected(void **state)
{
    (void)state;
    struct batch_member *member = &callers[1].member;
    member->product = ATTN_PRODUCT_INPUTS;
    member->rows = 2;
    create(16, 60000 * MS);
    assert_true(batcher_expected_part(batcher, member) == 1);
    submit_and_wait(2, MEMBERS);
    assert_true(batcher_expected_part(batcher, member) == 2.0 / (2 + 12));
    member->product = ATTN_PRODUCT_OUTPUT;
    assert_true(batcher_expected_part(batcher, member) == 1);
    member->product = ATTN_PRODUCT_INPUTS;
    member->rows = 9; /* more than half of a batch never shares */
    assert_true(batcher_expected_part(batcher, member) == 1);
    member->rows = 5;
    assert_true(batcher_expected_part(batcher, member) == 5.0 / 16);
    for (int i = 2; i < MEMBERS; i++)
        scheduler_stop_job(scheduler, &callers[i].job, JOB_LEFT);
    stop();
}

/* ------------------------------------------------------------------------ the group -- */

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < MEMBERS; i++)
        caller_init(&callers[i], (uint64_t)i);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < MEMBERS; i++)
        free(callers[i].scratch);
    return 0;
}

static int set_up_group(void **state)
{
    (void)state;
    struct attn_linear linears[4];
    struct fill fill = { MEMBERS };
    for (int p = 0; p < 4; p++) {
        fill_floats(&fill, parameters[p], (int64_t)D_MODEL * D_MODEL, -1.0f / 16, 1.0f / 16);
        linears[p] = (struct attn_linear){ .weight = parameters[p], .out = D_MODEL, .in = D_MODEL };
    }
    layer = (struct attn_layer){ .q_heads = HEADS,
                                 .kv_heads = HEADS,
                                 .head_dim = D_MODEL / HEADS,
                                 .v_head_dim = D_MODEL / HEADS,
                                 .q_proj = linears[0],
                                 .k_proj = linears[1],
                                 .v_proj = linears[2],
                                 .o_proj = linears[3] };
    workspace = aligned_alloc(64, WORKSPACE);
    return workspace ? 0 : 1;
}

static int tear_down_group(void **state)
{
    (void)state;
    free(workspace);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_that_is_there_shares, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_where_a_batch_stands, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_batch_rises_with_who_joins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_batch_of_several_levels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_full_batch_leaves_the_others_another, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_leaving_in_a_batch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_time_passes_in_a_batch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_all_are_cancelled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_batches_are_not_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_part_that_is_expected, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, set_up_group, tear_down_group);
}
