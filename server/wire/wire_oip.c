/* wire_oip.c - see wire_oip.h. */
#include "wire/wire_oip.h"

#include "formats/accept.h"
#include "forward/trace_job.h"
#include "regions/regions.h"
#include "service/model_access.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A short body may name tensors in shared memory that are long. Where there are regions of more
 * bytes than these, no connection thread reads a request itself. */
enum { COPIED_INLINE_MAX = 1 << 20 };

/* ----------------------------------------------------------- the headers -- */

static bool read_header_length(struct oip *oip, const char *header, struct fault *fault)
{
    char *end = NULL;
    errno = 0;
    oip->has_header_length = true;
    if (header[0] >= '0' && header[0] <= '9')
        oip->header_length = strtoull(header, &end, 10);
    if (!end || end[strspn(end, " \t")] || errno == ERANGE)
        return fault_set(fault, FAULT_BINARY,
                         "Inference-Header-Content-Length is '%.40s'; expected a number of bytes",
                         header);
    return true;
}

/* Checks the Content-Type. application/octet-stream may be JSON alone: clients on aiohttp, such as
 * tritonclient.http.aio, send it so. */
static bool check_content_type(struct oip *oip, const char *type, struct fault *fault)
{
    oip->is_bytes = strcasecmp(type, "application/octet-stream") == 0;
    if (oip->is_bytes || !type[0] || strcasecmp(type, "application/json") == 0
        || strcasecmp(type, "application/x-www-form-urlencoded") == 0)
        return true;
    return fault_set(fault, FAULT_CONTENT_TYPE,
                     "Content-Type is '%.60s'; expected application/json or "
                     "application/octet-stream",
                     type);
}

bool wire_oip_begin(struct infer_call *call, const struct oip_headers *headers, struct fault *fault)
{
    struct arena *arena = &call->request.arena;
    struct oip *oip = arena_calloc(arena, 1, sizeof *oip);
    static const char *const TYPES[] = { "application/octet-stream", "application/json" };
    if (!oip)
        return fault_no_memory(fault);
    call->base.state = oip;
    oip->model_name = arena_strdup(arena, headers->model);
    oip->version = arena_strdup(arena, headers->version);
    if (!oip->model_name || !oip->version)
        return fault_no_memory(fault);
    oip->is_json_wanted = accept_choose(headers->accept, TYPES, 2, 0) == 1;
    return (!headers->header_length || read_header_length(oip, headers->header_length, fault))
           && check_content_type(oip, headers->content_type, fault);
}

static bool begin(struct call *call, const struct exchange *exchange, struct fault *fault)
{
    const struct oip_headers headers = {
        .model = exchange_param(exchange, 0),
        .version = exchange_param(exchange, 1),
        .header_length = exchange_header(exchange, HTTP_HEADER_INFERENCE_LENGTH),
        .content_type = exchange_body_type(exchange),
        .accept = exchange_header(exchange, HTTP_HEADER_ACCEPT),
    };
    const struct regions *regions = call->service->regions;
    call->is_for_worker = regions && regions_bytes(regions) > COPIED_INLINE_MAX;
    return wire_oip_begin((struct infer_call *)call, &headers, fault);
}

/* -------------------------------------------------------------- the body -- */

/* The inputs and outputs are those of the request's model. */
static bool take_model(struct infer_call *call, struct oip *oip, struct fault *fault)
{
    oip->model = call->request.model;
    struct oip_tensor *outputs =
        arena_calloc(&call->request.arena, OIP_TENSORS_MAX, sizeof *outputs);
    if (!outputs)
        return fault_no_memory(fault);
    oip->input_count = oip_inputs(oip->model, oip->inputs_known);
    oip->output_count = oip_outputs(oip->model, outputs);
    oip->outputs_known = outputs;
    oip->default_count = oip->model->parameterless ? 1 : 2; /* Y; context and weights */
    return true;
}

static bool resolve(struct infer_call *call, struct oip *oip, struct fault *fault)
{
    return model_access_resolve(call->limits.store, call->limits.key, oip->model_name, oip->version,
                                &call->request.model, fault)
           && take_model(call, oip, fault);
}

/* A sequence that goes on keeps the model that it began with. */
static bool read_sequence(struct infer_call *call, struct oip *oip, struct fault *fault)
{
    if (!oip_sequence_read(call, oip, fault))
        return false;
    const struct session *session = oip->sequence.session;
    if (!session || session->model == oip->model)
        return true;
    model_release(call->request.model);
    call->request.model = model_retain(session->model);
    return take_model(call, oip, fault);
}

static bool read_json(struct infer_call *call, const struct oip *oip, struct fault *fault)
{
    if (call_read_json(&call->base, call->base.body.data, oip->header_length,
                       call->request.nonfinite_allowed, fault))
        return true;
    if (!oip->is_bytes || oip->has_header_length || fault->code != FAULT_JSON)
        return false;
    return fault_set(fault, FAULT_BINARY,
                     "a body of application/octet-stream that is not JSON alone needs the header "
                     "Inference-Header-Content-Length");
}

static bool read_body(struct infer_call *call, struct oip *oip, struct fault *fault)
{
    if (oip->has_header_length && oip->header_length == 0)
        return oip_read_raw(call, oip, fault);
    if (oip->header_length > call->base.body.size)
        return fault_set(fault, FAULT_BINARY,
                         "inference header size should be in range (0, %zu), got: %zu",
                         call->base.body.size, oip->header_length);
    if (!oip->has_header_length)
        oip->header_length = call->base.body.size;
    if (!read_json(call, oip, fault)
        || (oip_trace_is_asked(&call->base.document) && !oip_trace_begin(call, oip, fault))
        || !read_sequence(call, oip, fault) || !oip_read_envelope(call, oip, fault))
        return false;
    if (!oip->has_header_length)
        call_drop_body(&call->base); /* nothing points into it */
    return true;
}

static bool make_items(struct infer_call *call, struct oip *oip, struct fault *fault)
{
    struct infer_item shared = { .layer_index = 0 };
    if (!read_body(call, oip, fault) || !oip_read_parameters(call, oip, &shared, fault))
        return false;
    if (oip->trace) {
        trace_job_take(call, &oip_trace);
        return true;
    }
    call->request.joined = true;
    call->request.number_bytes = oip_is_all_binary(oip) ? sizeof(double) : 0;
    return (oip->model->parameterless ? oip_sdpa_items(call, oip, &shared, fault)
                                      : oip_attention_items(call, oip, &shared, fault))
           && oip_sequence_take(call, oip, fault);
}

static bool read(struct call *base, struct fault *fault)
{
    struct infer_call *call = (struct infer_call *)base;
    struct oip *oip = base->state;
    return resolve(call, oip, fault) && make_items(call, oip, fault);
}

/* -------------------------------------------------------------- pointers -- */

/* Faults of a plan point to fields of the native API. Here "/query" is an input and "/scale" a
 * parameter, so the pointer is changed to theirs. */
static void explain(const struct call *call, struct fault *fault)
{
    static const char *const ROWS[] = { "query", "key", "value" }; /* in the slots' order */
    const struct oip *oip = call->state;
    char pointer[FAULT_POINTER_MAX] = "";
    const char *field = fault->pointer[0] ? fault->pointer + 1 : "";
    const char *parameter = oip_parameter_of(oip, field);
    for (int i = 0; i < oip->input_count; i++)
        if (oip->inputs[i].given
            && (strcmp(oip->inputs_known[i].name, field) == 0
                || (i < 3 && strcmp(ROWS[i], field) == 0)))
            snprintf(pointer, sizeof pointer, "/inputs/%d", oip->inputs[i].index);
    if (parameter)
        snprintf(pointer, sizeof pointer, "/parameters/%s", parameter);
    memcpy(fault->pointer, pointer, sizeof pointer);
}

const struct operation wire_oip = {
    .begin = begin,
    .read = read,
    .explain = explain,
    .finish = oip_write,
    .drop = oip_sequence_drop,
};
