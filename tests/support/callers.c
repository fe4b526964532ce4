/* SPDX-License-Identifier: Apache-2.0 */
/* callers.c - see callers.h. */
#include "callers.h"
#include "test.h"

#include "fill.h"

#include <unistd.h>

struct scheduler *scheduler;
struct batcher *batcher;
static struct attn_layer layer;
static float parameters[4][D_MODEL * D_MODEL];
static void *workspace;

struct caller callers[MEMBERS];

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

struct holder long_holder, short_holder;

int64_t holder_stage_tasks(struct job *job, int stage)
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

void holder_done(struct job *job, enum job_outcome outcome)
{
    (void)job;
    (void)outcome;
}

static const struct job_kind holding_job = { holder_stage_tasks, hold, holder_done };

void holder_init(struct holder *holder, int priority, int64_t cost_ns)
{
    holder->job = (struct job){ .kind = &holding_job, .priority = priority, .cost_ns = cost_ns };
    atomic_store(&holder->held, true);
    atomic_store(&holder->runs, false);
}

void holder_submit(struct holder *holder, int priority, int64_t cost_ns)
{
    holder_init(holder, priority, cost_ns);
    assert_true(scheduler_submit(scheduler, &holder->job));
}

void holder_wait(const struct holder *holder)
{
    while (!atomic_load(&holder->runs))
        usleep(100);
}

static void hold_thread(struct holder *holder, int64_t cost_ns)
{
    holder_submit(holder, 1, cost_ns);
    holder_wait(holder);
}

void callers_create(int64_t rows_max, int64_t delay_ns)
{
    scheduler = scheduler_create(1, QUEUE, WORKSPACE);
    assert_non_null(scheduler);
    batcher = batcher_create(scheduler, rows_max, delay_ns);
    assert_non_null(batcher);
}

void callers_hold_threads(void)
{
    hold_thread(&long_holder, 1000 * MS);
    hold_thread(&short_holder, MS);
}

void callers_begin(int64_t rows_max)
{
    callers_create(rows_max, 0);
    callers_hold_threads();
}

void callers_stop(void)
{
    atomic_store(&long_holder.held, false);
    atomic_store(&short_holder.held, false);
    scheduler_free(scheduler);
    batcher_free(batcher);
}

void callers_finish_first(int count)
{
    atomic_store(&long_holder.held, false);
    for (int i = 0; i < count; i++)
        while (atomic_load(&callers[i].done_count) == 0)
            usleep(100);
    callers_stop();
}

void callers_finish(void)
{
    callers_finish_first(MEMBERS);
}

void callers_submit_all(void)
{
    for (int i = 0; i < MEMBERS; i++)
        assert_true(scheduler_submit(scheduler, &callers[i].job));
}

void callers_submit_and_wait(int first, int end)
{
    for (int i = first; i < end; i++) {
        assert_true(scheduler_submit(scheduler, &callers[i].job));
        while (!atomic_load(&callers[i].joined))
            usleep(100);
    }
}

void callers_expect_answered(int i)
{
    assert_int_equal(callers[i].done_count, 1);
    assert_int_equal(callers[i].outcome, JOB_FINISHED);
    assert_memory_equal(callers[i].context, callers[i].expected, sizeof callers[i].expected);
}

/* ------------------------------------------------------------------------ the group -- */

int callers_set_up(void **state)
{
    for (int i = 0; i < MEMBERS; i++)
        caller_init(&callers[i], (uint64_t)i);
    return 0;
}

int callers_tear_down(void **state)
{
    for (int i = 0; i < MEMBERS; i++)
        free(callers[i].scratch);
    return 0;
}

int callers_set_up_group(void **state)
{
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

int callers_tear_down_group(void **state)
{
    free(workspace);
    return 0;
}
