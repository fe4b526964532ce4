/* infer_job.c - the kind of call that an inference is: its operation reads, the stages of computing
 * are those of the items' plans, all items side by side, and its operation says the answer.
 *
 * A stage that is a product of one item may be computed together with those of other requests
 * (batcher.h): the job waits then, and a batch runs the stage for it. */
#include "infer/infer_job.h"

#include "infer/infer_grouped.h"
#include "infer/infer_results.h"
#include "infer/infer_statistics.h"
#include "service/admission.h"

#include <stdlib.h>

struct infer_job {
    struct infer_call call; /* first: a call of this kind is its infer_job */
    struct infer_grouped grouped;
    bool pending; /* planned, and no task of computing has begun */

    struct batch_member member; /* of the next product, where it can be shared */
    int member_stage;           /* of the plan, that member is a product of */
    bool was_member;
    int shared_stages; /* stages of the plan that batches have run for the job */
};

static struct infer_job *infer_of(struct call *call)
{
    return (struct infer_job *)call;
}

/* ----------------------------------------------------------------- reading -- */

struct infer_limits infer_job_limits(const struct service *service, const struct exchange *exchange)
{
    const struct config *config = service->config;
    return (struct infer_limits){
        .store = service->store,
        .key = exchange ? exchange_key(exchange) : NULL,
        .kernels = service->kernels,
        .precision = config->precision,
        .worker_count = scheduler_worker_count(service->scheduler),
        .workspace_bytes = SERVICE_WORKSPACE_BYTES,
        .answer_bytes_max = config->answer_bytes_max,
        .scratch_bytes_max = service_request_bytes_max(config),
    };
}

static bool begin(struct call *call, const struct exchange *exchange, struct fault *fault)
{
    struct infer_call *infer = &infer_of(call)->call;
    infer->limits = infer_job_limits(call->service, exchange);
    call->job.tasks_at_once = infer->limits.worker_count;
    infer->request.nonfinite_allowed = call->service->config->json_nonfinite_allowed;
    arena_init(&infer->request.arena, infer->limits.scratch_bytes_max);
    infer->request.arena.memory = call->memory;
    return operation_begin(call, &infer->request.arena, exchange, fault);
}

static int64_t most_stages(const struct infer_request *request)
{
    int64_t most = 0;
    for (int64_t i = 0; i < request->item_count; i++)
        if (request->items[i].fault.code == FAULT_NONE && request->items[i].plan.stage_count > most)
            most = request->items[i].plan.stage_count;
    return most;
}

/* Predicts what the request costs, alone and with what it may share. */
static void price(struct infer_job *job)
{
    struct call *call = &job->call.base;
    const struct infer_request *request = &job->call.request;
    infer_cost_plan(&call->cost, request, call->answer_coding);
    job->member.alone_ns = infer_cost_ns(&call->cost);
    call_share_stages(call, most_stages(request));
    infer_batch_expect(&call->cost, request, call->service->batcher);
    cost_guess_learn(call->guess_key, infer_cost_ns(&call->cost));
}

static bool plan(struct call *call, struct fault *fault)
{
    struct infer_job *job = infer_of(call);
    struct infer_call *infer = &job->call;
    struct infer_request *request = &infer->request;
    if (!infer_plan(request, &infer->limits, fault)) {
        if (call->operation->explain)
            call->operation->explain(call, fault);
        return false;
    }
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
    infer_statistics_pending(&infer->call.request, &infer->pending, false);
    job->cost_ns = infer_cost_was_shared(&call->cost, infer->member.product, infer->member.paid_ns);
    infer->shared_stages++;
    return call_continue(call, infer_grouped_begin(&infer->grouped, infer->member_stage + 1));
}

static int64_t tasks(struct call *call, int stage)
{
    struct infer_job *job = infer_of(call);
    if (stage == 0)
        infer_statistics_pending(&job->call.request, &job->pending, true);
    job->member_stage = stage + job->shared_stages;
    const int64_t count = infer_grouped_begin(&job->grouped, job->member_stage);
    if (!infer_batch_member(&job->member, &job->call.request, job->member_stage))
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

static void run(struct call *call, int stage, int64_t task, const struct worker *worker)
{
    struct infer_job *job = infer_of(call);
    if (stage == 0 && task == 0)
        infer_statistics_pending(&job->call.request, &job->pending, false);
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
    infer_statistics_pending(&job->call.request, &job->pending, false);
    call->cost.is_less = job->grouped.is_shared || selects(&job->call.request);
    infer_job_check_models(&job->call.request, fault);
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

static const struct call_kind infer_kind = {
    .begin = begin,
    .read = operation_read,
    .plan = plan,
    .tasks = tasks,
    .run = run,
    .end = end,
    .write = operation_write,
    .record = record,
    .drop = drop,
};

static struct call *create(const struct operation *operation, size_t bytes)
{
    struct infer_job *job = calloc(1, bytes > sizeof *job ? bytes : sizeof *job);
    if (!job)
        return NULL;
    job->call.base.kind = &infer_kind;
    job->call.base.operation = operation;
    job->member.job = &job->call.base.job;
    job->member.go_on = go_on;
    return &job->call.base;
}

void infer_job_handle(struct exchange *exchange, const struct operation *operation)
{
    infer_job_handle_in(exchange, operation, 0);
}

void infer_job_handle_in(struct exchange *exchange, const struct operation *operation, size_t bytes)
{
    call_handle(exchange, create(operation, bytes));
}

bool infer_job_try(struct service *service, const struct operation *operation,
                   struct byte_slice body, struct fault *fault)
{
    return call_try(service, create(operation, 0), body, fault);
}
