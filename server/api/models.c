/* SPDX-License-Identifier: Apache-2.0 */
/* models.c - the models over HTTP.
 *
 * Descriptions are written on the thread that the request arrived on. Saving and deleting wait for
 * the disk, so they are disk jobs. */
#include "api/models.h"

#include "call/disk_job.h"
#include "call/model_access.h"
#include "models/model/model_describe.h"
#include "models/store/model_file.h"
#include "json/json.h"

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
    const struct model_view view = model_access_view(exchange_key(exchange));
    model_store_describe_all(service->store, &view, &text);
    text_raw(&text, "\n");
    exchange_reply_text(exchange, 200, "application/json", &text);
}

void models_get(struct exchange *exchange)
{
    struct service *service = exchange_context(exchange);
    struct fault fault;
    struct text text;
    const struct model_view view = model_access_view(exchange_key(exchange));
    text_init(&text, service->config->answer_bytes_max);
    if (!service_accepts(service, &fault)
        || !model_store_describe(service->store, &view, exchange_param(exchange, 0), &text,
                                 &fault)) {
        text_free(&text);
        exchange_fail(exchange, &fault);
        return;
    }
    text_raw(&text, "\n");
    exchange_reply_text(exchange, 200, "application/json", &text);
}

/* -------------------------------------------------------------- changing -- */

/* Whether what was put before leaves room. A client that puts a model again and again, and makes a
 * session of each, would else fill the disk with files that have no name. */
static bool check_retired(const struct service *service, struct fault *fault)
{
    const size_t bytes = model_retired_bytes(), most = service->config->session_bytes_max;
    return bytes <= most
           || fault_set(fault, FAULT_MEMORY,
                        "sessions, traces and requests hold %zu bytes of models that were replaced "
                        "or removed, more than %zu (--session-memory-max); end some of them, or "
                        "wait until they end",
                        bytes, most);
}

static bool put_file(struct disk_job *disk_job, const void *file, size_t size)
{
    struct model *model;
    bool created;
    if (!check_retired(disk_job->service, &disk_job->fault)
        || !model_store_put(disk_job->service->store, disk_job->name, file, size, &created, &model,
                            &disk_job->fault))
        return false;
    disk_job->status = created ? 201 : 200;
    model_describe(model, &disk_job->answer);
    text_raw(&disk_job->answer, "\n");
    model_release(model);
    return true;
}

static bool put_model_file(struct disk_job *disk_job)
{
    return put_file(disk_job, disk_job->body.data, disk_job->body.size);
}

static bool put_json(struct disk_job *disk_job)
{
    struct json_document document = { .root = NULL };
    const struct json_options options = { .nonfinite_allowed = false };
    void *file = NULL;
    size_t size = 0;
    const bool typed = json_read(&document, disk_job->body.data ? disk_job->body.data : "",
                                 disk_job->body.size, &options, &disk_job->fault)
                       && model_file_from_json(&file, &size, &document, &disk_job->fault);
    json_free(&document);
    const bool good = typed && put_file(disk_job, file, size);
    free(file);
    return good;
}

static bool remove_model(struct disk_job *disk_job)
{
    disk_job->status = 204;
    return model_store_delete(disk_job->service->store, disk_job->name, &disk_job->fault);
}

/* A GGUF file begins with its name. A safetensors file begins with the length of its header as 8
 * bytes, little-endian; JSON text read in this way gives a length beyond any file. */
static bool is_model_file(struct byte_slice body)
{
    uint64_t length = 0;
    if (!body.data || body.size < 8)
        return false;
    if (memcmp(body.data, "GGUF", 4) == 0)
        return true;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | ((const unsigned char *)body.data)[i];
    return length <= body.size - 8;
}

/* The Content-Type does not say what the body is; its first bytes do. */
static bool put_either(struct disk_job *disk_job)
{
    return is_model_file(disk_job->body) ? put_model_file(disk_job) : put_json(disk_job);
}

void models_put(struct exchange *exchange)
{
    struct fault fault;
    const char *type = exchange_body_type(exchange);
    disk_job_run *run = NULL;
    if (service_may_change_models(exchange_context(exchange), &fault)) {
        if (strcasecmp(type, "application/x-safetensors") == 0
            || strcasecmp(type, "application/octet-stream") == 0)
            run = put_model_file;
        else if (service_takes_json(exchange, "application/json or application/x-safetensors",
                                    &fault))
            run = strcasecmp(type, "application/json") == 0 ? put_json : put_either;
    }
    if (run)
        disk_job_start(exchange, exchange_param(exchange, 0), run);
    else
        exchange_fail(exchange, &fault);
}

void models_delete(struct exchange *exchange)
{
    struct fault fault;
    if (service_may_change_models(exchange_context(exchange), &fault))
        disk_job_start(exchange, exchange_param(exchange, 0), remove_model);
    else
        exchange_fail(exchange, &fault);
}
