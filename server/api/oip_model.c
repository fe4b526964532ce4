/* SPDX-License-Identifier: Apache-2.0 */
/* oip_model.c - one model under /v2: whether it is ready, its metadata, its configuration.
 *
 * The configuration has the field names of Triton's model_config.proto, because load generators
 * read them. A call may bring a batch of any size, as a dimension of its tensors, so max_batch_size
 * is 0: the shapes leave no dimension out. */
#include "api/oip_model.h"

#include "api/oip_handlers.h"
#include "call/model_access.h"
#include "call/service.h"
#include "operations/oip_tensors.h"

#include <string.h>

enum { PLATFORM_BYTES = 64, ARENA_BYTES_MAX = 1 << 26 };

bool oip_model_find(struct exchange *exchange, const struct model_view *view, struct model **model,
                    struct fault *fault)
{
    struct service *service = exchange_context(exchange);
    return service_accepts(service, fault)
           && model_store_resolve_version(service->store, view, exchange_param(exchange, 0),
                                          exchange_param(exchange, 1), model, fault);
}

/* ------------------------------------------------------------------ ready -- */

/* A model that is not ready gets an answer that says so, not a fault. */
void oip_model_ready(struct exchange *exchange)
{
    struct service *service = exchange_context(exchange);
    const struct model_view view = model_access_view(exchange_key(exchange));
    struct model *model;
    struct fault fault = { .code = FAULT_NONE };
    struct text text;
    if (atomic_load(&service->state) == SERVICE_DRAINING)
        fault_set(&fault, FAULT_DRAINING, "draining");
    else if (oip_model_find(exchange, &view, &model, &fault))
        model_release(model);
    else if (fault.code != FAULT_LOADING) {
        exchange_fail(exchange, &fault);
        return;
    }
    text_init(&text, 4096);
    text_raw(&text, "{\"name\":");
    text_string(&text, exchange_param(exchange, 0));
    if (fault.code == FAULT_NONE) {
        text_raw(&text, ",\"ready\":true}\n");
    } else {
        text_raw(&text, ",\"ready\":false,\"reason\":");
        text_string(&text, fault.message);
        text_raw(&text, "}\n");
    }
    exchange_reply_text(exchange, fault.code == FAULT_NONE ? 200 : 503, "application/json", &text);
}

/* --------------------------------------------------------------- metadata -- */

typedef void write_tensor(struct text *text, const struct oip_tensor *tensor);

static void write_tensors(struct text *text, bool is_first, const struct oip_tensor *tensors,
                          int count, write_tensor *write)
{
    for (int i = 0; i < count; i++) {
        text_raw(text, is_first && i == 0 ? "{\"name\":" : ",{\"name\":");
        text_string(text, tensors[i].name);
        write(text, &tensors[i]);
        text_raw(text, "}");
    }
}

/* A list of the tensors of attention, and behind them those of a whole pass. */
static void write_list(struct text *text, const char *key, const struct oip_tensor *tensors,
                       int count, const struct oip_tensor *of_trace, int of_trace_count,
                       write_tensor *write)
{
    text_raw(text, ",");
    text_key(text, key);
    text_raw(text, "[");
    write_tensors(text, true, tensors, count, write);
    write_tensors(text, count == 0, of_trace, of_trace_count, write);
    text_raw(text, "]");
}

static void write_shape(struct text *text, const char *key, const struct oip_tensor *tensor)
{
    text_raw(text, ",");
    text_key(text, key);
    for (int i = 0; i < tensor->rank; i++) {
        text_raw(text, i > 0 ? "," : "[");
        text_integer(text, tensor->shape[i]);
    }
    text_raw(text, "]");
}

static void write_metadata_tensor(struct text *text, const struct oip_tensor *tensor)
{
    text_raw(text, ",\"datatype\":");
    text_string(text, tensor->datatype);
    write_shape(text, "shape", tensor);
}

static void write_head(struct text *text, const struct model *model)
{
    char platform[PLATFORM_BYTES];
    oip_platform(model, platform, sizeof platform);
    text_raw(text, "{\"name\":");
    text_string(text, model->name);
    text_raw(text, ",\"platform\":");
    text_string(text, platform);
}

static void write_inputs_and_outputs(struct text *text, const struct model *model,
                                     const char *inputs_key, const char *outputs_key,
                                     write_tensor *write_input, write_tensor *write_output)
{
    struct oip_signature own;
    struct oip_trace_tensors of_trace = { .outputs = NULL };
    const struct oip_signature *pass = &of_trace.signature;
    struct arena arena;
    arena_init(&arena, ARENA_BYTES_MAX);
    if (!oip_attention_signature(&own, model, &arena)
        || (model->forward && !oip_trace_tensors_list(&of_trace, model, &arena)))
        text->failed = FAULT_MEMORY;
    write_list(text, inputs_key, own.inputs, own.input_count, pass->inputs, pass->input_count,
               write_input);
    write_list(text, outputs_key, own.outputs, own.output_count, pass->outputs, pass->output_count,
               write_output);
    arena_free(&arena);
}

static void write_metadata(struct text *text, const struct model *model, struct service *service)
{
    write_head(text, model);
    text_raw(text, ",\"versions\":");
    model_store_versions(service->store, model->name, text);
    write_inputs_and_outputs(text, model, "inputs", "outputs", write_metadata_tensor,
                             write_metadata_tensor);
}

/* ---------------------------------------------------------- configuration -- */

static void write_config_tensor(struct text *text, const struct oip_tensor *tensor)
{
    text_raw(text, ",\"data_type\":\"TYPE_");
    text_raw(text, tensor->datatype);
    text_raw(text, "\"");
    write_shape(text, "dims", tensor);
}

static void write_config_input(struct text *text, const struct oip_tensor *tensor)
{
    write_config_tensor(text, tensor);
    text_raw(text, tensor->optional ? ",\"optional\":true" : ",\"optional\":false");
}

static void write_config(struct text *text, const struct model *model, struct service *service)
{
    (void)service;
    write_head(text, model);
    text_raw(text, ",\"backend\":\"attnd\",\"max_batch_size\":0,"
                   "\"version_policy\":{\"all\":{}}");
    write_inputs_and_outputs(text, model, "input", "output", write_config_input,
                             write_config_tensor);
    text_raw(text, ",\"instance_group\":[{\"kind\":\"KIND_CPU\",\"count\":1}],"
                   "\"parameters\":{\"attention\":{\"string_value\":");
    text_string(text, model->attention);
    text_raw(text, "},\"source\":{\"string_value\":");
    text_string(text, model->source);
    text_raw(text, "}}");
}

static void reply(struct exchange *exchange,
                  void (*write)(struct text *text, const struct model *model,
                                struct service *service))
{
    const struct model_view view = model_access_view(exchange_key(exchange));
    struct model *model;
    struct fault fault;
    struct text text;
    if (!oip_model_find(exchange, &view, &model, &fault)) {
        exchange_fail(exchange, &fault);
        return;
    }
    text_init(&text, 1 << 20);
    write(&text, model, exchange_context(exchange));
    text_raw(&text, "}\n");
    model_release(model);
    exchange_reply_text(exchange, 200, "application/json", &text);
}

void oip_model_metadata(struct exchange *exchange)
{
    reply(exchange, write_metadata);
}

void oip_model_config(struct exchange *exchange)
{
    reply(exchange, write_config);
}
