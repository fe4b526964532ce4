/* models.c - the models over HTTP.
 *
 * Reading descriptions is done where the request arrived; saving and deleting
 * wait for the disk, so they are jobs of the workers. */
#include "models.h"

#include "clock.h"
#include "json.h"
#include "service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --------------------------------------------------------------- reading -- */

void models_list(struct exchange *exchange)
{
    struct service *service = exchange_context(exchange);
    struct fault fault;
    struct text text;
    if (!service_accepts(service, &fault)) {
        exchange_fail(exchange, &fault);
        return;
    }
    text_init(&text, service->config->answer_bytes_max);
    model_store_describe_all(service->store, &text);
    text_raw(&text, "\n");
    exchange_reply_text(exchange, 200, "application/json", &text);
}

void models_get(struct exchange *exchange)
{
    struct service *service = exchange_context(exchange);
    struct fault fault;
    struct text text;
    text_init(&text, service->config->answer_bytes_max);
    if (!service_accepts(service, &fault)
        || !model_store_describe(service->store, exchange_param(exchange, 0), &text, &fault)) {
        text_free(&text);
        exchange_fail(exchange, &fault);
        return;
    }
    text_raw(&text, "\n");
    exchange_reply_text(exchange, 200, "application/json", &text);
}

/* -------------------------------------------------------------- changing -- */

struct model_job {
    struct job job; /* first: a job is its model_job */
    struct service *service;
    struct exchange *exchange;
    struct byte_slice body;
    bool delete;
    bool body_is_json;
    char name[MODEL_NAME_MAX + 2]; /* a name that is too long stays too long */

    bool ran;
    bool created;
    struct model *model;
    struct fault fault;
};

static void put(struct model_job *put)
{
    struct json_document document = { .root = NULL };
    const struct json_options options = { .nonfinite_allowed = false };
    void *file = NULL;
    size_t size = put->body.size;
    const bool typed =
        put->body_is_json
        && json_read(&document, put->body.data ? put->body.data : "", size, &options, &put->fault)
        && model_file_from_json(&file, &size, &document, &put->fault);
    json_free(&document);
    if (typed || !put->body_is_json)
        model_store_put(put->service->store, put->name, file ? file : put->body.data, size,
                        &put->created, &put->model, &put->fault);
    free(file);
}

static void run(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    struct model_job *model_job = (struct model_job *)job;
    (void)stage;
    (void)task;
    (void)worker;
    model_job->ran = true;
    if (model_job->delete)
        model_store_delete(model_job->service->store, model_job->name, &model_job->fault);
    else
        put(model_job);
}

static int64_t stage_tasks(struct job *job, int stage)
{
    (void)job;
    (void)stage;
    return 0;
}

static void done(struct job *job, enum job_outcome outcome)
{
    struct model_job *model_job = (struct model_job *)job;
    struct exchange *exchange = model_job->exchange;
    free((void *)model_job->body.data);
    if (!model_job->ran)
        fault_set(&model_job->fault, outcome == JOB_DEADLINE ? FAULT_DEADLINE : FAULT_DRAINING,
                  outcome == JOB_DEADLINE ? "the time that the request may take has passed"
                                          : "the daemon is stopping");
    if (model_job->fault.code != FAULT_NONE) {
        exchange_fail(exchange, &model_job->fault);
    } else if (model_job->delete) {
        exchange_reply(exchange, 204, NULL, NULL, 0);
    } else {
        struct text text;
        text_init(&text, model_job->service->config->answer_bytes_max);
        model_describe(model_job->model, &text);
        text_raw(&text, "\n");
        model_release(model_job->model);
        exchange_reply_text(exchange, model_job->created ? 201 : 200, "application/json", &text);
    }
}

static const struct job_kind model_job_kind = { stage_tasks, run, done };

static void end(void *owner, enum exchange_end why)
{
    struct model_job *model_job = owner;
    scheduler_stop_job(model_job->service->scheduler, &model_job->job,
                       why == EXCHANGE_LEFT ? JOB_LEFT : JOB_DEADLINE);
}

/* A safetensors file begins with the length of its header as 8 bytes, little-endian; JSON
 * text, read so, is a length beyond any file. */
static bool looks_like_safetensors(struct byte_slice body)
{
    uint64_t length = 0;
    if (!body.data || body.size < 8)
        return false;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | ((const unsigned char *)body.data)[i];
    return length <= body.size - 8;
}

static bool body_is_json(struct exchange *exchange, struct byte_slice body, bool *is_json,
                         struct fault *fault)
{
    const char *type = exchange_body_type(exchange);
    if (strcasecmp(type, "application/x-safetensors") == 0
        || strcasecmp(type, "application/octet-stream") == 0) {
        *is_json = false;
        return true;
    }
    *is_json = strcasecmp(type, "application/json") == 0 || !looks_like_safetensors(body);
    return service_takes_json(exchange, fault);
}

static bool may_change(struct service *service, struct fault *fault)
{
    if (!service_accepts(service, fault))
        return false;
    if (service->config->model_control != MODEL_CONTROL_EXPLICIT)
        return fault_set(fault, FAULT_FORBIDDEN,
                         "models are not changed over HTTP without --model-control=explicit");
    return true;
}

static void submit(struct exchange *exchange, bool delete)
{
    struct service *service = exchange_context(exchange);
    struct fault fault = { .code = FAULT_NONE };
    struct model_job *model_job = NULL;
    const struct byte_slice body = exchange_take_body(exchange);
    bool is_json = false;
    if (may_change(service, &fault) && (delete || body_is_json(exchange, body, &is_json, &fault))) {
        model_job = calloc(1, sizeof *model_job);
        if (!model_job)
            fault_no_memory(&fault);
    }
    if (!model_job) {
        free((void *)body.data);
        exchange_fail(exchange, &fault);
        return;
    }
    model_job->job.kind = &model_job_kind;
    model_job->job.deadline_ns = exchange_started_ns(exchange) + service->config->timeout_ns;
    model_job->service = service;
    model_job->exchange = exchange;
    model_job->body = body;
    model_job->delete = delete;
    model_job->body_is_json = is_json;
    snprintf(model_job->name, sizeof model_job->name, "%s", exchange_param(exchange, 0));
    exchange_park(exchange, model_job->job.deadline_ns, end, free, model_job);
    if (scheduler_submit(service->scheduler, &model_job->job))
        return;
    service_refuse_overloaded(service, &fault);
    free((void *)body.data);
    exchange_fail(exchange, &fault);
}

void models_put(struct exchange *exchange)
{
    submit(exchange, false);
}

void models_delete(struct exchange *exchange)
{
    submit(exchange, true);
}
