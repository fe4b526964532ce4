/* trace_job.c - the kind of call that a trace is: its operation reads, the stages of computing are
 * the turns of its passes, one pass after the other, and its operation says the answer. Short
 * sequences of one model share a pass.
 *
 * A pass is made when it is next and freed when it is over, so a batch takes the memory of its
 * largest pass. It is made a first time when the request is planned, to know its cost and its
 * memory, both of which are asked for before anything is computed. */
#include "forward/trace_job.h"

#include "forward/trace_plan.h"
#include "infer/infer_job.h"
#include "infer/infer_statistics.h"
#include "service/admission.h"

#include <stdlib.h>
#include <string.h>

struct trace_job {
    struct trace_call call; /* first: a call of this kind is its trace_job */
    struct trace_groups groups;
    struct pass *pass; /* that runs, of this group; NULL: none */
    int64_t group;
    struct arena arena; /* of that pass */
    bool pending;       /* planned, and no task of computing has begun */
    bool makes_levels;  /* all passes are over (trace_keep.c) */
    char *workspaces;   /* for that, where the workers' own are too small; NULL: they are not */
    size_t workspace_bytes;
};

static struct trace_job *trace_of(struct call *call)
{
    return (struct trace_job *)call;
}

/* ----------------------------------------------------------------- reading -- */

static bool trace_begin(struct call *call, const struct exchange *exchange, struct fault *fault)
{
    struct trace_call *trace = &trace_of(call)->call;
    trace->limits = infer_job_limits(call->service, exchange);
    call->job.tasks_at_once = trace->limits.worker_count;
    trace->request.nonfinite_allowed = call->service->config->json_nonfinite_allowed;
    arena_init(&trace->request.arena, trace->limits.scratch_bytes_max);
    trace->request.arena.memory = call->memory;
    return operation_begin(call, &trace->request.arena, exchange, fault);
}

static void price_trace(struct trace_job *job)
{
    struct call *call = &job->call.base;
    const struct trace_request *request = &job->call.request;
    call->item_count = request->item_count;
    for (int64_t i = 0; i < request->item_count; i++)
        if (request->items[i].fault.code == FAULT_NONE)
            call->answer_bytes += request->items[i].answer_bytes;
    infer_cost_plan_work(&call->cost, &job->groups.work, request->item_count + job->groups.planned,
                         call->answer_bytes, request->number_bytes, call->answer_coding);
    cost_guess_learn(call->guess_key, infer_cost_ns(&call->cost));
    call_share_stages(call, job->groups.steps);
}

/* Prices what reading cost. A refused request that cost more than expected is known the next time.
 */
static void price_reading(struct call *call, const struct trace_request *request, bool is_planned)
{
    infer_cost_was_tokenized(&call->cost, request->tokenized_bytes);
    const int64_t ns = infer_cost_ns(&call->cost);
    if (!is_planned && ns > cost_guess_ns(call->guess_key))
        cost_guess_learn(call->guess_key, ns);
}

static bool is_stopped(void *call)
{
    return call_is_stopped(call);
}

static bool trace_plan_call(struct call *call, struct fault *fault)
{
    struct trace_job *job = trace_of(call);
    struct trace_call *trace = &job->call;
    trace->request.stop = (struct tokenizer_stop){ is_stopped, call };
    const bool is_planned = trace_plan(&trace->request, &job->groups, &trace->limits, fault);
    price_reading(call, &trace->request, is_planned);
    if (!is_planned) {
        if (call->operation->explain)
            call->operation->explain(call, fault);
        return false;
    }
    if (!trace_keep_plan(&trace->request, call->service->kept, trace->limits.key, &job->groups.work,
                         fault))
        return false;
    if (!memory_reserve(call->memory, job->groups.pass_bytes))
        return fault_no_memory(fault);
    price_trace(job);
    return true;
}

/* --------------------------------------------------------------- computing -- */

static void end_pass(struct trace_job *job)
{
    pass_end(job->pass);
    job->pass = NULL;
    arena_free(&job->arena);
}

static bool begin_pass(struct trace_job *job, struct fault *fault)
{
    struct attn_work work = { 0 };
    arena_init(&job->arena, job->call.limits.scratch_bytes_max);
    return pass_create(&job->pass, &job->arena, &job->groups.groups[job->group], &job->call.limits,
                       &work, fault);
}

/* When all passes are over, the levels of what is kept are made, once; then it gets its id, which
 * the answer has. */
static int64_t keep_tasks(struct trace_job *job, struct fault *fault)
{
    struct call *call = &job->call.base;
    struct trace_request *request = &job->call.request;
    const int64_t count = job->makes_levels ? 0 : trace_keep_tasks(request);
    const size_t bytes = trace_keep_workspace_bytes(request);
    job->makes_levels = true;
    if (count == 0) {
        infer_job_check_models(&request->attention, fault);
        if (fault->code == FAULT_NONE)
            trace_keep_publish(request, call->service->kept, fault);
        return 0;
    }
    if (bytes <= SERVICE_WORKSPACE_BYTES)
        return count;
    job->workspace_bytes = (bytes + 63) / 64 * 64;
    job->workspaces =
        arena_alloc(&request->arena, job->workspace_bytes * (size_t)job->call.limits.worker_count);
    if (job->workspaces)
        return count;
    fault_no_memory(fault);
    return 0;
}

static int64_t trace_tasks(struct call *call, int stage)
{
    struct trace_job *job = trace_of(call);
    struct fault *fault = &call->fault;
    if (stage == 0)
        infer_statistics_pending(&job->call.request.attention, &job->pending, true);
    while (job->group < job->groups.count) {
        if (!job->pass && !begin_pass(job, fault))
            return 0;
        const int64_t count = pass_tasks(job->pass, fault);
        if (count > 0 || fault->code != FAULT_NONE)
            return count;
        end_pass(job);
        job->group++;
    }
    return keep_tasks(job, fault);
}

static void trace_run(struct call *call, int stage, int64_t task, const struct worker *worker)
{
    struct trace_job *job = trace_of(call);
    if (stage == 0 && task == 0)
        infer_statistics_pending(&job->call.request.attention, &job->pending, false);
    if (!job->makes_levels)
        pass_run(job->pass, task, worker);
    else
        trace_keep_run(&job->call.request, task,
                       job->workspaces
                           ? job->workspaces + job->workspace_bytes * (size_t)worker->slot
                           : worker->workspace);
}

/* ----------------------------------------------------------------- the end -- */

static void trace_end(struct call *call, struct fault *fault)
{
    struct trace_job *job = trace_of(call);
    end_pass(job);
    infer_statistics_pending(&job->call.request.attention, &job->pending, false);
    infer_job_check_models(&job->call.request.attention, fault);
}

/* The request's items of attention stand for the items of the trace. */
static void trace_record(struct call *call, struct request_record *record)
{
    struct trace_request *request = trace_request_of(call);
    for (int64_t i = 0; i < request->attention.item_count; i++)
        request->attention.items[i].fault = request->items[i].fault;
    infer_statistics_record(record, &request->attention, &call->cost);
}

static void trace_drop(struct call *call)
{
    struct trace_request *request = trace_request_of(call);
    operation_drop(call);
    trace_keep_drop(request, call->service->kept, call->fault.code != FAULT_NONE);
    trace_request_free(request);
}

static const struct call_kind trace_kind = {
    .begin = trace_begin,
    .read = operation_read,
    .plan = trace_plan_call,
    .tasks = trace_tasks,
    .run = trace_run,
    .end = trace_end,
    .write = operation_write,
    .record = trace_record,
    .drop = trace_drop,
};

void trace_job_handle(struct exchange *exchange, const struct operation *operation)
{
    struct trace_job *job = calloc(1, sizeof *job);
    if (job) {
        job->call.base.kind = &trace_kind;
        job->call.base.operation = operation;
    }
    call_handle(exchange, job ? &job->call.base : NULL);
}

size_t trace_job_bytes(void)
{
    return sizeof(struct trace_job);
}

/* The call itself stays, and with it the body, its document, priority and deadline. */
void trace_job_take(struct infer_call *call, const struct operation *operation)
{
    const struct infer_limits limits = call->limits;
    const struct infer_request request = call->request;
    struct trace_job *job = (struct trace_job *)call;
    memset((char *)job + sizeof job->call.base, 0, sizeof *job - sizeof job->call.base);
    job->call.base.kind = &trace_kind;
    job->call.base.operation = operation;
    job->call.limits = limits;
    job->call.request.arena = request.arena;
    job->call.base.form.arena = &job->call.request.arena;
    job->call.request.nonfinite_allowed = request.nonfinite_allowed;
    job->call.request.attention.model = request.model; /* whose statistics count the request */
}
