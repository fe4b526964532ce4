/* SPDX-License-Identifier: Apache-2.0 */
/* infer_job.c - the kind of call that an inference is: its operation reads, the stages of computing
 * are those of the items' plans, all items side by side, and its operation says the answer.
 *
 * A stage that is a product of one item may be computed together with those of other requests
 * (batcher.h): the job waits then, and a batch runs the stage for it. */
#include "call/infer_job.h"

#include "call/infer_grouped.h"
#include "call/infer_masking.h"
#include "call/infer_results.h"
#include "call/infer_statistics.h"

struct infer_job {
    struct infer_request request; /* first: infer_request_of() */
    struct call *call;
    struct infer_grouped grouped;
    bool pending;   /* planned, and no task of computing has begun */
    int own_stages; /* before those of the plans: 1 where biases are filled */

    struct batch_member member; /* of the next product, where it can be shared */
    int member_stage;           /* of the plan, that member is a product of */
    bool was_member;
    int shared_stages; /* stages of the plan that batches have run for the job */
};

static struct infer_job *infer_of(const struct call *call)
{
    return call->work;
}

static int64_t go_on(struct job *job);

static void init(struct call *call)
{
    struct infer_job *job = infer_of(call);
    job->request.arena = &call->arena;
    job->request.model = call->model;
    call->model = NULL;
    job->call = call;
    job->member.job = &call->job;
    job->member.go_on = go_on;
}

/* ---------------------------------------------------------------- planning -- */

static int64_t most_stages(const struct infer_request *request)
{
    int64_t most = 0;
    for (int64_t i = 0; i < request->item_count; i++)
        if (request->items[i].fault.code == FAULT_NONE && request->items[i].plan.stage_count > most)
            most = request->items[i].plan.stage_count;
    return most;
}

static int64_t bias_tasks(const struct infer_request *request)
{
    int64_t count = 0;
    for (int64_t i = 0; i < request->item_count; i++)
        count += infer_bias_tasks(&request->items[i]);
    return count;
}

/* Predicts what the request costs, alone and with what it may share. */
static void price(struct infer_job *job)
{
    struct call *call = job->call;
    const struct infer_request *request = &job->request;
    infer_cost_plan(&call->cost, request, call->answer_coding);
    job->member.alone_ns = infer_cost_ns(&call->cost);
    call_share_stages(call, job->own_stages + most_stages(request));
    infer_batch_expect(&call->cost, request, call->service->batcher);
    cost_guess_learn(call->guess_key, infer_cost_ns(&call->cost));
}

static bool is_over(void *call)
{
    return call_is_stopped(call);
}

static bool plan(struct call *call, struct fault *fault)
{
    struct infer_job *job = infer_of(call);
    struct infer_request *request = &job->request;
    struct infer_limits limits = call->limits;
    limits.is_over = is_over;
    limits.owner = call;
    if (!infer_plan(request, &limits, fault)) {
        if (call->operation->explain)
            call->operation->explain(call, fault);
        return false;
    }
    job->own_stages = bias_tasks(request) > 0;
    price(job);
    call->item_count = request->item_count;
    for (int64_t i = 0; i < request->item_count; i++)
        if (request->items[i].fault.code == FAULT_NONE)
            call->answer_bytes += request->items[i].answer_bytes;
    return infer_grouped_init(&job->grouped, request) || fault_no_memory(fault);
}

/* --------------------------------------------------------------- computing -- */

/* A batch has run the stage that the job waits for. Of its time the job is charged the part for its
 * own rows, and only in the account of its key: the batch was a job itself. */
static int64_t go_on(struct job *job)
{
    struct call *call = (struct call *)job;
    struct infer_job *infer = infer_of(call);
    infer_statistics_pending(&infer->request, &infer->pending, false);
    job->cost_ns = infer_cost_was_shared(&call->cost, infer->member.product, infer->member.paid_ns);
    infer->shared_stages++;
    return call_continue(call, infer_grouped_begin(&infer->grouped, infer->member_stage + 1));
}

static int64_t tasks(struct call *call, int stage)
{
    struct infer_job *job = infer_of(call);
    if (stage == 0)
        infer_statistics_pending(&job->request, &job->pending, true);
    if (stage < job->own_stages)
        return bias_tasks(&job->request);
    job->member_stage = stage - job->own_stages + job->shared_stages;
    const int64_t count = infer_grouped_begin(&job->grouped, job->member_stage);
    if (!infer_batch_member(&job->member, &job->request, job->member_stage))
        return count;
    job->was_member = true;
    const int64_t cost_ns = call->job.cost_ns;
    job->member.cost = call->cost.products[job->member.product];
    call->job.cost_ns = infer_cost_joined_ns(&call->cost, job->member.product);
    if (batcher_join(call->service->batcher, &job->member))
        return JOB_WAITS;
    call->job.cost_ns = cost_ns;
    return count;
}

static void run_bias(const struct infer_request *request, int64_t task)
{
    const struct infer_item *item = request->items;
    for (int64_t count; task >= (count = infer_bias_tasks(item)); item++)
        task -= count;
    infer_bias_run(item, task);
}

static void run(struct call *call, int stage, int64_t task, const struct worker *worker)
{
    struct infer_job *job = infer_of(call);
    if (stage == 0 && task == 0)
        infer_statistics_pending(&job->request, &job->pending, false);
    if (stage < job->own_stages)
        run_bias(&job->request, task);
    else
        infer_grouped_run(&job->grouped, task, worker);
}

/* ----------------------------------------------------------------- the end -- */

void infer_job_check_models(const struct infer_request *request, struct fault *fault)
{
    for (int64_t i = 0; i < request->item_count; i++) {
        const struct model *model = request->items[i].model;
        const char *damage = model && fault->code == FAULT_NONE ? model_damage(model) : NULL;
        if (damage)
            fault_set(fault, FAULT_LOADING, "model '%s' is not available: %s", model->name, damage);
    }
}

static bool selects(const struct infer_request *request)
{
    bool found = false;
    for (int64_t i = 0; i < request->item_count; i++)
        found = found || request->items[i].has_selection;
    return found;
}

static void end(struct call *call, struct fault *fault)
{
    struct infer_job *job = infer_of(call);
    if (job->was_member)
        batcher_leave(call->service->batcher, &job->member);
    infer_statistics_pending(&job->request, &job->pending, false);
    call->cost.is_less = job->grouped.is_shared || selects(&job->request);
    infer_job_check_models(&job->request, fault);
}

static void record(struct call *call, struct request_record *record)
{
    infer_statistics_record(record, infer_request_of(call), &call->cost);
}

static void drop(struct call *call)
{
    operation_drop(call);
    infer_request_free(infer_request_of(call));
}

const struct call_kind infer_kind = {
    .work_bytes = sizeof(struct infer_job),
    .init = init,
    .read = operation_read,
    .plan = plan,
    .tasks = tasks,
    .run = run,
    .end = end,
    .write = operation_write,
    .record = record,
    .drop = drop,
};
