/* SPDX-License-Identifier: Apache-2.0 */
/* oip_repository.c - the model repository extension: lists, loads and unloads models.
 *
 * There is one repository, the directory of --models together with the built-in models, and it has
 * no name. Source: Triton Inference Server, docs/protocol/extension_model_repository.md. */
#include "api/oip_handlers.h"

#include "api/oip_body.h"
#include "call/disk_job.h"
#include "call/model_access.h"

#include <string.h>

/* ------------------------------------------------------------------ index -- */

struct index {
    struct text text;
    bool ready_only;
    bool some;
};

static void write_listing(void *context, const struct model_listing *listing)
{
    struct index *index = context;
    if (index->ready_only && !listing->model)
        return;
    text_raw(&index->text, index->some ? ",{\"name\":" : "{\"name\":");
    text_string(&index->text, listing->name);
    text_raw(&index->text, ",\"version\":\"");
    text_integer(&index->text, listing->version);
    text_raw(&index->text, "\",\"state\":");
    text_string(&index->text, listing->state);
    text_raw(&index->text, ",\"reason\":");
    const char *reason = listing->reason ? listing->reason : listing->refused;
    text_string(&index->text, reason ? reason : "");
    text_raw(&index->text, "}");
    index->some = true;
}

void oip_repository_index(struct exchange *exchange)
{
    struct service *service = exchange_context(exchange);
    struct json_document document;
    struct fault fault;
    struct index index = { .ready_only = false };
    const bool good = oip_body_take(&document, exchange, &fault)
                      && oip_body_bool(document.root, "ready", &index.ready_only, &fault)
                      && service_accepts(service, &fault);
    json_free(&document);
    if (!good) {
        exchange_fail(exchange, &fault);
        return;
    }
    text_init(&index.text, service->config->answer_bytes_max);
    text_raw(&index.text, "[");
    const struct model_view view = model_access_view(exchange_key(exchange));
    model_store_each(service->store, &view, write_listing, &index);
    text_raw(&index.text, "]\n");
    exchange_reply_text(exchange, 200, "application/json", &index.text);
}

/* ------------------------------------------------------ loading, unloading -- */

static bool unknown_parameter(const cJSON *parameter, const char *known, struct fault *fault)
{
    static const char FILE_PREFIX[] = "file:";
    if (strncmp(parameter->string, FILE_PREFIX, sizeof FILE_PREFIX - 1) == 0)
        return fault_set_at(fault, "/parameters", FAULT_OPTION,
                            "parameters has '%.60s'; files are not taken here, but by "
                            "PUT /v1/models/{model}",
                            parameter->string);
    return fault_set_at(fault, "/parameters", FAULT_FIELD,
                        "parameters has '%.60s'; the only one here is %s", parameter->string,
                        known);
}

/* Finds the member called known, the only one that "parameters" may have: NULL where it is
 * absent. */
static bool read_parameter(const cJSON *root, const char *known, const cJSON **found,
                           struct fault *fault)
{
    const cJSON *parameters = cJSON_GetObjectItemCaseSensitive(root, "parameters");
    const cJSON *parameter;
    *found = NULL;
    if (parameters && !cJSON_IsObject(parameters))
        return oip_body_wrong(parameters, "an object", fault);
    cJSON_ArrayForEach(parameter, parameters) {
        if (strcmp(parameter->string, known) != 0)
            return unknown_parameter(parameter, known, fault);
        *found = parameter;
    }
    return true;
}

static void write_done(struct disk_job *disk_job, const char *what)
{
    text_raw(&disk_job->answer, "{\"name\":");
    text_string(&disk_job->answer, disk_job->name);
    text_raw(&disk_job->answer, ",");
    text_key(&disk_job->answer, what);
    text_raw(&disk_job->answer, "true}\n");
}

/* The message begins as Triton's does, because clients look for those words. */
static bool not_loaded(const char *name, struct fault *fault)
{
    const struct fault why = *fault;
    return fault_set_at(fault, why.pointer, why.code, "failed to load '%.60s': %s", name,
                        why.message);
}

static bool load(struct disk_job *disk_job)
{
    struct json_document document;
    struct fault *fault = &disk_job->fault;
    const cJSON *config;
    bool good = oip_body_read(&document, disk_job->body, fault)
                && read_parameter(document.root, "config", &config, fault);
    if (good && config && !cJSON_IsString(config))
        good = fault_set_at(fault, "/parameters/config", FAULT_TYPE,
                            "config is not a string; expected a config as JSON text");
    good = good
           && (model_store_load(disk_job->service->store, disk_job->name,
                                config ? config->valuestring : NULL, fault)
               || not_loaded(disk_job->name, fault));
    json_free(&document);
    if (good)
        write_done(disk_job, "load");
    return good;
}

/* No model is a part of another, so a model has no dependents to unload. */
static bool unload(struct disk_job *disk_job)
{
    struct json_document document;
    struct fault *fault = &disk_job->fault;
    const cJSON *dependents;
    bool good = oip_body_read(&document, disk_job->body, fault)
                && read_parameter(document.root, "unload_dependents", &dependents, fault);
    if (good && dependents && !cJSON_IsBool(dependents))
        good = fault_set_at(fault, "/parameters/unload_dependents", FAULT_TYPE,
                            "unload_dependents is not a boolean");
    good = good && model_store_unload(disk_job->service->store, disk_job->name, fault);
    json_free(&document);
    if (good)
        write_done(disk_job, "unload");
    return good;
}

static void change(struct exchange *exchange, disk_job_run *run)
{
    struct fault fault;
    if (service_may_change_models(exchange_context(exchange), &fault)
        && oip_body_may_be_json(exchange, &fault))
        disk_job_start(exchange, exchange_param(exchange, 0), run);
    else
        exchange_fail(exchange, &fault);
}

void oip_repository_load(struct exchange *exchange)
{
    change(exchange, load);
}

void oip_repository_unload(struct exchange *exchange)
{
    change(exchange, unload);
}

void oip_repository_named(struct exchange *exchange)
{
    struct fault fault;
    fault_set(&fault, FAULT_NOT_FOUND,
              "there is no repository '%.60s'; there is one, which has no name",
              exchange_param(exchange, 0));
    exchange_fail(exchange, &fault);
}
