/* infer.c - the whole story of an inference: bytes -> request -> job -> tasks ->
 * context -> bytes.
 *
 * The connection thread only takes the body and submits the job. Stage 0 of the
 * job reads and plans, the following stages are those of the layers' plans, all
 * items side by side, and the job's end writes the answer; all of it on workers. */
#include "infer_handlers.h"

#include "clock.h"
#include "infer_statistics.h"
#include "infer_tasks.h"
#include "json.h"
#include "metrics.h"
#include "wire_gradient.h"
#include "wire_merge.h"
#include "wire_v1.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How one endpoint's body becomes a request, and a request its answer. */
struct infer_wire {
    bool (*read)(struct infer_request *request, const struct json_document *document,
                 struct fault *fault);
    void (*write)(const struct infer_request *request, struct text *text);
};

struct infer {
    struct job job; /* first: a job is its infer */
    struct service *service;
    struct exchange *exchange;
    struct byte_slice body;
    const struct infer_wire *wire;

    struct json_document document;
    struct infer_request request;
    struct fault fault;
    int64_t *first_task; /* [item_count + 1] of the stage that runs */

    int64_t submitted_ns, begun_ns, parsed_ns, computed_ns;
};

/* --------------------------------------------------- bytes to request -- */

static void read_and_plan(struct infer *infer)
{
    const struct config *config = infer->service->config;
    const struct json_options options = { .nonfinite_allowed = config->json_nonfinite_allowed };
    struct infer_request *request = &infer->request;
    const struct infer_limits limits = {
        .store = infer->service->store,
        .kernels = infer->service->kernels,
        .worker_count = scheduler_worker_count(infer->service->scheduler),
        .workspace_bytes = SERVICE_WORKSPACE_BYTES,
        .answer_bytes_max = config->answer_bytes_max,
        .scratch_bytes_max = service_request_bytes_max(config),
    };
    arena_init(&request->arena, limits.scratch_bytes_max);
    request->nonfinite_allowed = config->json_nonfinite_allowed;
    const bool read = json_read(&infer->document, infer->body.data ? infer->body.data : "",
                                infer->body.size, &options, &infer->fault);
    free((void *)infer->body.data);
    infer->body.data = NULL;
    if (!read || !infer->wire->read(request, &infer->document, &infer->fault)
        || !infer_plan(request, &limits, &infer->fault))
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

/* Numbers the tasks of a stage through all items. */
static int64_t stage_tasks(struct job *job, int stage)
{
    struct infer *infer = infer_of(job);
    const struct infer_request *request = &infer->request;
    if (infer->fault.code != FAULT_NONE)
        return 0;
    if (stage == 1)
        infer->parsed_ns = clock_now_ns();
    int64_t count = 0;
    for (int64_t i = 0; i < request->item_count; i++) {
        infer->first_task[i] = count;
        count += infer_tasks_count(&request->items[i], stage - 1);
    }
    infer->first_task[request->item_count] = count;
    return count;
}

static int64_t item_of_task(const struct infer *infer, int64_t task)
{
    int64_t low = 0, high = infer->request.item_count;
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
    if (stage == 0) {
        infer->begun_ns = clock_now_ns();
        read_and_plan(infer);
        return;
    }
    const int64_t i = item_of_task(infer, task);
    const struct infer_item *item = &infer->request.items[i];
    void *workspace =
        item->workspaces
            ? (char *)item->workspaces + (size_t)worker->index * infer_tasks_workspace_bytes(item)
            : worker->workspace;
    infer_tasks_run(item, stage - 1, task - infer->first_task[i], workspace);
}

/* ---------------------------------------------------- context to bytes -- */

/* What may have gone wrong while the tasks ran. */
static void check_outcome(struct infer *infer, enum job_outcome outcome)
{
    service_check_outcome(outcome, &infer->fault);
    for (int64_t i = 0; i < infer->request.item_count; i++) {
        const struct model *model = infer->request.items[i].model;
        if (model && infer->fault.code == FAULT_NONE && model_damaged(model))
            fault_set(&infer->fault, FAULT_LOADING,
                      "the file of model '%s' was cut short while it was served", model->name);
    }
}

/* The stages so far; those that did not come to be took no time. */
static struct metrics_inference timing_of(const struct infer *infer)
{
    const int64_t now_ns = clock_now_ns();
    const int64_t begun_ns = infer->begun_ns ? infer->begun_ns : infer->computed_ns;
    const int64_t parsed_ns = infer->parsed_ns ? infer->parsed_ns : infer->computed_ns;
    return (struct metrics_inference){
        .parse_ns = parsed_ns - begun_ns,
        .queue_ns = begun_ns - infer->submitted_ns,
        .compute_ns = infer->computed_ns - parsed_ns,
        .write_ns = now_ns - infer->computed_ns,
        .item_count = infer->request.item_count,
    };
}

static void set_timing(struct infer *infer, const struct metrics_inference *timing)
{
    char value[128];
    metrics_inference(timing);
    snprintf(value, sizeof value,
             "parse;dur=%.3f, queue;dur=%.3f, compute;dur=%.3f, write;dur=%.3f",
             (double)timing->parse_ns / 1e6, (double)timing->queue_ns / 1e6,
             (double)timing->compute_ns / 1e6, (double)timing->write_ns / 1e6);
    exchange_set_server_timing(infer->exchange, value);
}

static void done(struct job *job, enum job_outcome outcome)
{
    struct infer *infer = infer_of(job);
    struct exchange *exchange = infer->exchange;
    const struct config *config = infer->service->config;
    struct text text;
    infer->computed_ns = clock_now_ns();
    check_outcome(infer, outcome);
    text_init(&text, 2 * config->answer_bytes_max + 65536);
    if (infer->fault.code == FAULT_NONE) {
        infer->wire->write(&infer->request, &text);
        text_finish(&text, &infer->fault);
    }
    const struct metrics_inference timing = timing_of(infer);
    infer_statistics(&infer->request, infer->fault.code != FAULT_NONE, &timing);
    free((void *)infer->body.data);
    infer->body.data = NULL;
    infer_request_free(&infer->request);
    json_free(&infer->document);
    if (infer->fault.code != FAULT_NONE) {
        text_free(&text);
        exchange_fail(exchange, &infer->fault);
        return;
    }
    set_timing(infer, &timing);
    exchange_reply_text(exchange, 200, "application/json", &text);
}

/* ------------------------------------------------------------- handlers -- */

static const struct job_kind infer_job = { stage_tasks, run, done };

static void end(void *owner, enum exchange_end why)
{
    struct infer *infer = owner;
    scheduler_stop_job(infer->service->scheduler, &infer->job,
                       why == EXCHANGE_LEFT ? JOB_LEFT : JOB_DEADLINE);
}

static bool read_single(struct infer_request *request, const struct json_document *document,
                        struct fault *fault)
{
    return wire_v1_read(request, false, document, fault);
}

static bool read_batch(struct infer_request *request, const struct json_document *document,
                       struct fault *fault)
{
    return wire_v1_read(request, true, document, fault);
}

static const struct infer_wire single_wire = { read_single, wire_v1_write };
static const struct infer_wire batch_wire = { read_batch, wire_v1_write };
static const struct infer_wire merge_wire = { wire_merge_read, wire_merge_write };
static const struct infer_wire gradient_wire = { wire_gradient_read, wire_gradient_write };

static void handle(struct exchange *exchange, const struct infer_wire *wire)
{
    struct service *service = exchange_context(exchange);
    struct fault fault = { .code = FAULT_NONE };
    int64_t deadline_ns = 0;
    if (!service_accepts(service, &fault) || !service_takes_json(exchange, &fault)
        || !service_read_deadline(service, exchange, &deadline_ns, &fault)) {
        exchange_fail(exchange, &fault);
        return;
    }
    struct infer *infer = calloc(1, sizeof *infer);
    if (!infer) {
        fault_no_memory(&fault);
        exchange_fail(exchange, &fault);
        return;
    }
    infer->job.kind = &infer_job;
    infer->job.deadline_ns = deadline_ns;
    infer->service = service;
    infer->exchange = exchange;
    infer->wire = wire;
    infer->submitted_ns = clock_now_ns();
    infer->body = exchange_take_body(exchange);
    exchange_park(exchange, deadline_ns, end, free, infer);
    if (scheduler_submit(service->scheduler, &infer->job))
        return;
    service_refuse_overloaded(service, &fault);
    free((void *)infer->body.data);
    exchange_fail(exchange, &fault);
}

void infer_handle_attention(struct exchange *exchange)
{
    handle(exchange, &single_wire);
}

void infer_handle_batch(struct exchange *exchange)
{
    handle(exchange, &batch_wire);
}

void infer_handle_merge(struct exchange *exchange)
{
    handle(exchange, &merge_wire);
}

void infer_handle_gradients(struct exchange *exchange)
{
    handle(exchange, &gradient_wire);
}

bool infer_warm_up(struct service *service, struct fault *fault)
{
    static const char body[] = "{\"model\":\"demo\",\"query\":[[1,0,0],[0,1,0],[1,1,0],[0,0,1]]}";
    struct infer infer = { .service = service, .wire = &single_wire };
    char *copy = strdup(body);
    if (!copy)
        return fault_no_memory(fault);
    infer.body = (struct byte_slice){ copy, sizeof body - 1 };
    void *workspace = aligned_alloc(64, SERVICE_WORKSPACE_BYTES);
    const struct worker worker = { 0, workspace, SERVICE_WORKSPACE_BYTES };
    struct text text;
    text_init(&text, 65536);
    if (!workspace)
        fault_no_memory(&infer.fault);
    else
        run(&infer.job, 0, 0, &worker);
    for (int stage = 1; infer.fault.code == FAULT_NONE; stage++) {
        const int64_t count = stage_tasks(&infer.job, stage);
        for (int64_t task = 0; task < count; task++)
            run(&infer.job, stage, task, &worker);
        if (count == 0)
            break;
    }
    if (infer.fault.code == FAULT_NONE)
        infer.wire->write(&infer.request, &text);
    if (infer.fault.code == FAULT_NONE)
        text_finish(&text, &infer.fault);
    text_free(&text);
    free((void *)infer.body.data);
    free(workspace);
    infer_request_free(&infer.request);
    json_free(&infer.document);
    *fault = infer.fault;
    return fault->code == FAULT_NONE;
}
