/* infer_job.c - the whole story of an inference: bytes -> request -> job -> tasks ->
 * context -> bytes.
 *
 * The connection thread only takes the body and submits the job. Stage 0 of the
 * job reads and plans, the following stages are those of the layers' plans, all
 * items side by side, and the job's end writes the answer, or further stages where it
 * is long; all of it on workers. */
#include "infer/infer_job.h"

#include "base/clock.h"
#include "format/coding.h"
#include "infer/infer_answer.h"
#include "infer/infer_cost.h"
#include "infer/infer_results.h"
#include "infer/infer_statistics.h"
#include "service/admission.h"
#include "service/cost_guess.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* What a request is predicted to cost where the connection thread computes it itself, if a worker
 * is idle. Less than the first is less than to hand it over and back would cost that thread. Up to
 * the second it is answered sooner so, but those behind it wait: only for one that nothing has come
 * with. */
enum { INLINE_ALWAYS_NS = 20000, INLINE_FIRST_NS = 100000 };

struct infer {
    struct job job; /* first: a job is its infer */
    struct service *service;
    struct exchange *exchange;
    struct infer_call call;
    enum coding body_coding, answer_coding;
    struct fault fault;
    int64_t *first_task; /* [item_count + 1] of the stage that runs */
    bool pending;        /* read, and no task of it begun */
    int holders;         /* the exchange, and an answer whose parts lie in the call */

    struct request_clock clock;
    struct infer_cost cost;
    struct infer_answer answer;

    struct batch_member member; /* of the product that is next, where it can be shared */
    int member_stage;           /* of the plan */
    bool was_member;
    int shared_stages; /* of the plan, that batches have run in the place of the job */
    uint64_t guess_key;
    int64_t more_items; /* admission.h */
};

/* ------------------------------------------------------------- the call -- */

/* From here on call_free() may come at any time. */
static void call_init(struct infer_call *call, const struct service *service,
                      const struct infer_wire *wire, struct memory_share *memory)
{
    const struct config *config = service->config;
    call->wire = wire;
    call->content_type = "application/json";
    call->limits = (struct infer_limits){
        .store = service->store,
        .kernels = service->kernels,
        .worker_count = scheduler_worker_count(service->scheduler),
        .workspace_bytes = SERVICE_WORKSPACE_BYTES,
        .answer_bytes_max = config->answer_bytes_max,
        .scratch_bytes_max = service_request_bytes_max(config),
    };
    call->request.nonfinite_allowed = config->json_nonfinite_allowed;
    arena_init(&call->request.arena, call->limits.scratch_bytes_max);
    text_init(&call->text, 2 * config->answer_bytes_max + 65536);
    call->memory = call->request.arena.memory = call->text.memory = memory;
}

static void call_free(struct infer_call *call)
{
    free(call->body_memory);
    call->body_memory = NULL;
    text_free(&call->text);
    answer_pieces_free(&call->pieces);
    coding_blocks_free(&call->packed);
    infer_request_free(&call->request);
    json_free(&call->document);
}

/* What the body says of the job, which may be set anew in stage 0. */
static void tell_scheduler(struct infer *infer)
{
    const int64_t timeout_ns = infer->call.timeout_ns;
    infer->job.priority = infer->call.priority;
    if (timeout_ns > 0) {
        const int64_t deadline_ns = infer->clock.started_ns + timeout_ns;
        if (deadline_ns < infer->job.deadline_ns)
            infer->job.deadline_ns = deadline_ns;
    }
}

/* What the request costs is known now, and may be too much. */
static bool admit_planned(struct infer *infer)
{
    const struct infer_request *request = &infer->call.request;
    tell_scheduler(infer);
    infer_cost_plan(&infer->cost, request, infer->answer_coding);
    infer->member.alone_ns = infer_cost_ns(&infer->cost);
    infer_batch_expect(&infer->cost, request, infer->service->batcher);
    cost_guess_learn(infer->guess_key, infer_cost_ns(&infer->cost));
    const struct admission_cost left = infer_cost_left_to_admit(&infer->cost, infer->service);
    return admission_takes_planned(infer->service, &infer->job, request->item_count, left,
                                   &infer->more_items, &infer->fault);
}

static void read_and_plan(struct infer *infer)
{
    struct infer_call *call = &infer->call;
    struct infer_request *request = &call->request;
    if (!coding_unpack(infer->body_coding, &call->body, &call->body_memory,
                       infer->service->config->body_bytes_max, call->memory, &infer->fault)
        || !call->wire->read(call, &infer->fault))
        return;
    if (!infer_plan(request, &call->limits, &infer->fault)) {
        if (call->wire->explain)
            call->wire->explain(call, &infer->fault);
        return;
    }
    if (!admit_planned(infer))
        return;
    infer->first_task =
        arena_calloc(&request->arena, (size_t)request->item_count + 1, sizeof(int64_t));
    if (!infer->first_task)
        fault_no_memory(&infer->fault);
}

/* ------------------------------------------------------ request to tasks -- */

static struct infer *infer_of(struct job *job)
{
    return (struct infer *)job;
}

/* By one thread at a time: the stage before, the first task of the first stage, the end. */
static void set_pending(struct infer *infer, bool pending)
{
    if (infer->pending != pending)
        infer_statistics_pending(&infer->call.request, pending ? 1 : -1);
    infer->pending = pending;
}

/* The stage of the plans that a stage of the job is. */
static int plan_stage(const struct infer *infer, int stage)
{
    return stage - 1 + infer->shared_stages;
}

/* Numbers the tasks of a stage of the plans through all items. */
static int64_t number_tasks(struct infer *infer, int stage)
{
    const struct infer_request *request = &infer->call.request;
    int64_t count = 0;
    for (int64_t i = 0; i < request->item_count; i++) {
        infer->first_task[i] = count;
        count += infer_tasks_count(&request->items[i], stage);
    }
    infer->first_task[request->item_count] = count;
    return count;
}

/* Those of the plan's stage, or behind the last one of the answer's next. */
static int64_t next_tasks(struct infer *infer, int stage)
{
    const int64_t count = number_tasks(infer, stage);
    if (count > 0)
        return count;
    if (infer->answer.stages == 0)
        infer->clock.computed_ns = clock_now_ns();
    return infer_answer_tasks(&infer->answer, &infer->call, infer->exchange, &infer->fault);
}

/* A batch has run the stage that the job waits for: its time is not this job's. */
static int64_t go_on(struct job *job)
{
    struct infer *infer = infer_of(job);
    set_pending(infer, false);
    job->cost_ns = infer_cost_was_shared(&infer->cost, infer->member.product);
    infer->shared_stages++;
    return next_tasks(infer, infer->member_stage + 1);
}

static int64_t stage_tasks(struct job *job, int stage)
{
    struct infer *infer = infer_of(job);
    if (infer->fault.code != FAULT_NONE)
        return 0;
    if (stage == 1) {
        infer->clock.parsed_ns = clock_now_ns();
        set_pending(infer, true);
    }
    const int64_t count = next_tasks(infer, plan_stage(infer, stage));
    infer->member_stage = plan_stage(infer, stage);
    if (!infer_batch_member(&infer->member, &infer->call.request, infer->member_stage))
        return count;
    infer->was_member = true;
    const int64_t cost_ns = job->cost_ns;
    infer->member.cost = infer->cost.products[infer->member.product];
    job->cost_ns = infer_cost_joined_ns(&infer->cost, infer->member.product);
    if (batcher_join(infer->service->batcher, &infer->member))
        return JOB_WAITS;
    job->cost_ns = cost_ns;
    return count;
}

static int64_t item_of_task(const struct infer *infer, int64_t task)
{
    int64_t low = 0, high = infer->call.request.item_count;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (infer->first_task[middle] <= task)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void run(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    struct infer *infer = infer_of(job);
    struct infer_stopwatch watch;
    if (stage == 0) {
        infer->clock.begun_ns = clock_now_ns();
        infer_cost_start(&infer->cost, INFER_READ, &watch);
        read_and_plan(infer);
        infer_cost_stop(&infer->cost, INFER_READ, &watch);
        return;
    }
    if (stage == 1 && task == 0)
        set_pending(infer, false);
    if (infer->answer.stages > 0) {
        infer_answer_run(&infer->answer, &infer->call, &infer->cost, task, &infer->fault);
        return;
    }
    const int64_t i = item_of_task(infer, task);
    const struct infer_item *item = &infer->call.request.items[i];
    void *workspace =
        item->workspaces
            ? (char *)item->workspaces + (size_t)worker->slot * infer_tasks_workspace_bytes(item)
            : worker->workspace;
    infer_cost_start(&infer->cost, INFER_COMPUTE, &watch);
    infer_tasks_run(item, plan_stage(infer, stage), task - infer->first_task[i], workspace);
    infer_cost_stop(&infer->cost, INFER_COMPUTE, &watch);
}

/* ---------------------------------------------------- context to bytes -- */

/* What may have gone wrong while the tasks ran. */
static void check_outcome(struct infer *infer, enum job_outcome outcome)
{
    service_check_outcome(outcome, &infer->fault);
    for (int64_t i = 0; i < infer->call.request.item_count; i++) {
        const struct model *model = infer->call.request.items[i].model;
        const char *damage = model && infer->fault.code == FAULT_NONE ? model_damage(model) : NULL;
        if (damage)
            fault_set(&infer->fault, FAULT_LOADING, "model '%s' is not available: %s", model->name,
                      damage);
    }
}

/* On the connection thread, when the exchange or the answer needs the infer no more. */
static void release(void *owner)
{
    struct infer *infer = owner;
    if (--infer->holders > 0)
        return;
    call_free(&infer->call);
    free(infer);
}

static void reply(struct infer *infer)
{
    struct infer_call *call = &infer->call;
    if (call->part_count == 0) {
        struct text text = call->text;
        call->text.data = NULL;
        call_free(call);
        exchange_reply_text(infer->exchange, 200, call->content_type, &text);
        return;
    }
    infer_answer_drop_rest(call); /* while this is a worker, and before it is sent */
    infer->holders = 2;
    exchange_set_header_length(infer->exchange, call->has_header_length ? call->text_bytes : 0);
    exchange_reply_parts(infer->exchange, 200, call->content_type, call->parts, call->part_count,
                         release, infer);
}

static void done(struct job *job, enum job_outcome outcome)
{
    struct infer *infer = infer_of(job);
    struct infer_call *call = &infer->call;
    struct infer_stopwatch watch;
    if (infer->was_member)
        batcher_leave(infer->service->batcher, &infer->member);
    if (infer->answer.stages == 0)
        infer->clock.computed_ns = clock_now_ns();
    admission_ends(infer->service, infer->more_items);
    set_pending(infer, false);
    infer_cost_start(&infer->cost, INFER_WRITE, &watch);
    check_outcome(infer, outcome);
    if (infer->fault.code == FAULT_NONE)
        infer_answer_finish(&infer->answer, call, infer->exchange, &infer->cost, &infer->fault);
    infer_cost_stop(&infer->cost, INFER_WRITE, &watch);
    struct request_record *record = exchange_record(infer->exchange);
    infer_record(record, &call->request);
    record->cost_ns = infer_cost_ns(&infer->cost);
    record->flops = infer->cost.flops;
    record->fault = infer->fault.code;
    request_record_durations(record, &infer->clock, clock_now_ns());
    infer_statistics(&call->request, record);
    if (infer->fault.code != FAULT_NONE) {
        call_free(call);
        exchange_fail(infer->exchange, &infer->fault);
        return;
    }
    infer_cost_learn(&infer->cost);
    reply(infer);
}

/* ------------------------------------------------------------- handlers -- */

static const struct job_kind infer_job = { stage_tasks, run, done };

static void end(void *owner, enum exchange_end why)
{
    struct infer *infer = owner;
    scheduler_stop_job(infer->service->scheduler, &infer->job,
                       why == EXCHANGE_LEFT ? JOB_LEFT : JOB_DEADLINE);
}

static struct infer *infer_create(struct service *service, const struct infer_wire *wire,
                                  struct memory_share *memory)
{
    struct infer *infer = calloc(1, sizeof *infer);
    if (!infer)
        return NULL;
    infer->job.kind = &infer_job;
    infer->member.job = &infer->job;
    infer->member.go_on = go_on;
    infer->service = service;
    infer->holders = 1;
    infer->clock.submitted_ns = clock_now_ns();
    call_init(&infer->call, service, wire, memory);
    infer->job.tasks_at_once = infer->call.limits.worker_count;
    return infer;
}

/* By its size, and by what others of its kind came to. */
static bool admit_body(struct infer *infer, struct fault *fault)
{
    const size_t size = infer->call.body.size;
    infer_cost_read(&infer->cost, infer->exchange, size);
    const struct admission_cost certain = infer_cost_to_admit(&infer->cost, infer->service);
    infer->guess_key =
        cost_guess_key(exchange_path(infer->exchange), exchange_body_type(infer->exchange), size);
    const int64_t guess_ns = cost_guess_ns(infer->guess_key);
    infer->job.cost_ns = guess_ns > certain.ns ? guess_ns : certain.ns;
    return admission_takes(infer->service, &infer->job, certain,
                           exchange_was_judged(infer->exchange), fault);
}

void infer_job_handle(struct exchange *exchange, const struct infer_wire *wire)
{
    struct service *service = exchange_context(exchange);
    struct fault fault = { .code = FAULT_NONE };
    struct infer *infer = NULL;
    int64_t deadline_ns = 0;
    bool done_well = service_accepts(service, &fault)
                     && service_read_deadline(service, exchange, &deadline_ns, &fault);
    if (done_well && !(infer = infer_create(service, wire, exchange_memory(exchange))))
        done_well = fault_no_memory(&fault);
    if (!done_well
        || !(wire->begin ? wire->begin(&infer->call, exchange, &fault)
                         : service_takes_json(exchange, &fault))) {
        if (infer)
            release(infer);
        exchange_fail(exchange, &fault);
        return;
    }
    infer->job.deadline_ns = deadline_ns;
    infer->exchange = exchange;
    infer->clock.started_ns = exchange_started_ns(exchange);
    infer->body_coding = exchange_body_coding(exchange);
    infer->answer_coding = exchange_answer_coding(exchange);
    infer->call.body = exchange_take_body_in_place(exchange, &infer->call.body_memory);
    if (!admit_body(infer, &fault)) {
        release(infer);
        exchange_fail(exchange, &fault);
        return;
    }
    const int64_t inline_ns = exchange_is_first(exchange) ? INLINE_FIRST_NS : INLINE_ALWAYS_NS;
    exchange_park(exchange, deadline_ns, end, release, infer);
    if (scheduler_run(service->scheduler, &infer->job, inline_ns))
        return;
    service_refuse_overloaded(service, &fault);
    exchange_fail(exchange, &fault);
}

bool infer_job_takes_body(const struct exchange *exchange, struct body_outlook *outlook,
                          struct fault *fault)
{
    struct service *service = exchange_context(exchange);
    struct infer_cost cost = { .flops = 0 };
    if (outlook->bytes > 0 && outlook->bytes < ADMISSION_EARLY_BYTES)
        return true;
    infer_cost_read(&cost, exchange, outlook->bytes);
    const struct admission_cost certain = infer_cost_to_admit(&cost, service);
    const int64_t guess_ns = cost_guess_ns(
        cost_guess_key(exchange_path(exchange), exchange_body_type(exchange), outlook->bytes));
    outlook->cost_ns = guess_ns > certain.ns ? guess_ns : certain.ns;
    return admission_takes_body(service, exchange, outlook, certain, fault);
}

bool infer_job_try(struct service *service, const struct infer_wire *wire, struct byte_slice body,
                   struct fault *fault)
{
    struct infer *infer = infer_create(service, wire, NULL);
    if (!infer)
        return fault_no_memory(fault);
    infer->call.body = body;
    void *workspace = aligned_alloc(64, SERVICE_WORKSPACE_BYTES);
    const struct worker worker = { workspace, SERVICE_WORKSPACE_BYTES, 0 };
    if (!workspace)
        fault_no_memory(&infer->fault);
    else
        run(&infer->job, 0, 0, &worker);
    for (int stage = 1; infer->fault.code == FAULT_NONE; stage++) {
        const int64_t count = stage_tasks(&infer->job, stage);
        for (int64_t task = 0; task < count; task++)
            run(&infer->job, stage, task, &worker);
        if (count == 0)
            break;
    }
    if (infer->fault.code == FAULT_NONE)
        infer_answer_finish(&infer->answer, &infer->call, NULL, &infer->cost, &infer->fault);
    free(workspace);
    *fault = infer->fault;
    release(infer);
    return fault->code == FAULT_NONE;
}
