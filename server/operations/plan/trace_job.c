/* SPDX-License-Identifier: Apache-2.0 */
/* trace_job.c - the kind of call that a trace is: its operation reads, the stages of computing are
 * the turns of its passes, one pass after the other, and its operation says the answer. Short
 * sequences of one model share a pass.
 *
 * A pass is made when it is next and freed when it is over, so a batch takes the memory of its
 * largest pass. It is made a first time when the request is planned, to know its cost and its
 * memory, both of which are asked for before anything is computed. */
#include "operations/plan/trace_job.h"

#include "call/admission.h"
#include "call/infer_job.h"
#include "call/infer_statistics.h"
#include "call/progress.h"
#include "operations/plan/trace_plan.h"

struct trace_job {
    struct trace_request request; /* first: trace_request_of() */
    struct call *call;
    struct trace_groups groups;
    struct pass *pass; /* that runs, of this group; NULL: none */
    int64_t group;
    int64_t layers;     /* of attention, of the passes that are over */
    struct arena arena; /* of that pass */
    bool pending;       /* planned, and no task of computing has begun */
    bool makes_levels;  /* all passes are over (trace_keep.c) */
    char *workspaces;   /* for that, where the workers' own are too small; NULL: they are not */
    size_t workspace_bytes;
};

static struct trace_job *trace_of(const struct call *call)
{
    return call->work;
}

/* ----------------------------------------------------------------- reading -- */

static void trace_init(struct call *call)
{
    struct trace_job *job = trace_of(call);
    job->request.arena = &call->arena;
    job->request.attention.model = call->model; /* whose statistics count the request */
    call->model = NULL;
    job->call = call;
}

static void price_trace(struct trace_job *job)
{
    struct call *call = job->call;
    const struct trace_request *request = &job->request;
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
    struct trace_request *request = &job->request;
    request->stop = (struct tokenizer_stop){ is_stopped, call };
    request->kept = call->service->kept;
    request->key = call->limits.key;
    const bool is_planned = trace_plan(request, &job->groups, &call->limits, fault);
    price_reading(call, request, is_planned);
    if (!is_planned) {
        if (call->operation->explain)
            call->operation->explain(call, fault);
        return false;
    }
    if (!trace_keep_plan(request, call->service->repeats ? NULL : call->service->kept,
                         call->limits.key, &job->groups.work, fault))
        return false;
    if (!memory_reserve(call->memory, job->groups.pass_bytes))
        return fault_no_memory(fault);
    price_trace(job);
    progress_set(call->progress, 0, job->groups.layers);
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
    arena_init(&job->arena, job->call->limits.scratch_bytes_max);
    return pass_create(&job->pass, &job->arena, &job->groups.groups[job->group], &job->call->limits,
                       &work, fault);
}

/* When all passes are over, the levels of what is kept are made, once; then it gets its id, which
 * the answer has. */
static int64_t keep_tasks(struct trace_job *job, struct fault *fault)
{
    struct call *call = job->call;
    struct trace_request *request = &job->request;
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
        arena_alloc(request->arena, job->workspace_bytes * (size_t)job->call->limits.worker_count);
    if (job->workspaces)
        return count;
    fault_no_memory(fault);
    return 0;
}

/* Somebody may ask how far the call is. */
static void note_layers(const struct trace_job *job)
{
    if (job->call->progress)
        progress_set(job->call->progress, job->layers + pass_layers_over(job->pass),
                     job->groups.layers);
}

static int64_t trace_tasks(struct call *call, int stage)
{
    struct trace_job *job = trace_of(call);
    struct fault *fault = &call->fault;
    if (stage == 0)
        infer_statistics_pending(&job->request.attention, &job->pending, true);
    while (job->group < job->groups.count) {
        if (!job->pass && !begin_pass(job, fault))
            return 0;
        const int64_t count = pass_tasks(job->pass, fault);
        note_layers(job);
        if (count > 0 || fault->code != FAULT_NONE)
            return count;
        job->layers += pass_layer_count(job->pass);
        end_pass(job);
        job->group++;
    }
    return keep_tasks(job, fault);
}

static void trace_run(struct call *call, int stage, int64_t task, const struct worker *worker)
{
    struct trace_job *job = trace_of(call);
    if (stage == 0 && task == 0)
        infer_statistics_pending(&job->request.attention, &job->pending, false);
    if (!job->makes_levels)
        pass_run(job->pass, task, worker);
    else
        trace_keep_run(&job->request, task,
                       job->workspaces
                           ? job->workspaces + job->workspace_bytes * (size_t)worker->slot
                           : worker->workspace);
}

/* ----------------------------------------------------------------- the end -- */

static void trace_end(struct call *call, struct fault *fault)
{
    struct trace_job *job = trace_of(call);
    end_pass(job);
    infer_statistics_pending(&job->request.attention, &job->pending, false);
    infer_job_check_models(&job->request.attention, fault);
}

/* The request's items of attention stand for the items of the trace. */
static void trace_record(struct call *call, struct request_record *record)
{
    struct trace_request *request = trace_request_of(call);
    for (int64_t i = 0; i < request->attention.item_count; i++)
        request->attention.items[i].fault = request->items[i].fault;
    infer_statistics_record(record, &request->attention, &call->cost);
    if (call->fault.code == FAULT_NONE)
        trace_keep_watch(request, call->service->kept, call);
}

static void trace_drop(struct call *call)
{
    struct trace_request *request = trace_request_of(call);
    operation_drop(call);
    trace_keep_drop(request, call->service->kept, call->fault.code != FAULT_NONE);
    trace_request_free(request);
}

const struct call_kind trace_kind = {
    .work_bytes = sizeof(struct trace_job),
    .init = trace_init,
    .read = operation_read,
    .plan = trace_plan_call,
    .tasks = trace_tasks,
    .run = trace_run,
    .end = trace_end,
    .write = operation_write,
    .record = trace_record,
    .drop = trace_drop,
};
