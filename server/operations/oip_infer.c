/* SPDX-License-Identifier: Apache-2.0 */
/* oip_infer.c - an inference of the Open Inference Protocol until it is known what it asks for. */
#include "base/dtype.h"
#include "call/call_formats.h"
#include "call/model_access.h"
#include "operations/oip.h"

#include <string.h>

/* A short body may name tensors in shared memory that are long. Where there are regions of more
 * bytes than these, no connection thread reads a request itself. */
enum { COPIED_INLINE_MAX = 1 << 20 };

bool oip_infer_begin(struct call *call, const char *model, const char *version,
                     const struct oip_headers *headers, struct fault *fault)
{
    struct arena *arena = &call->arena;
    struct oip_call *oip = arena_calloc(arena, 1, sizeof *oip);
    if (!oip)
        return fault_no_memory(fault);
    call->state = oip;
    call->answer = &format_oip;
    call->form.format = &format_oip;
    call->form.oip = &oip->request;
    oip->model_name = arena_strdup(arena, model);
    oip->version = arena_strdup(arena, version);
    if (!oip->model_name || !oip->version)
        return fault_no_memory(fault);
    return oip_begin(&oip->request, headers, fault);
}

static bool begin(struct call *call, const struct exchange *exchange, struct fault *fault)
{
    const struct oip_headers headers = {
        .header_length = exchange_header(exchange, HTTP_HEADER_INFERENCE_LENGTH),
        .content_type = exchange_body_type(exchange),
        .accept = exchange_header(exchange, HTTP_HEADER_ACCEPT),
    };
    const struct regions *regions = call->service->regions;
    call->is_for_worker = regions && regions_bytes(regions) > COPIED_INLINE_MAX;
    return oip_infer_begin(call, exchange_param(exchange, 0), exchange_param(exchange, 1), &headers,
                           fault);
}

/* -------------------------------------------------------------- the model -- */

/* The inputs and outputs are those of the request's model. */
static bool take_model(struct call *call, struct oip_call *oip, struct fault *fault)
{
    oip->model = call->model;
    oip->request.signature = &oip->signature;
    return oip_attention_signature(&oip->signature, oip->model, &call->arena)
           || fault_no_memory(fault);
}

/* Whether the names of the inputs ask for a whole pass. */
static bool asks_for_pass(const struct message *root)
{
    const struct value *inputs = message_find(root, "inputs");
    const bool is_list = inputs && (inputs->kind == VALUE_LIST || inputs->kind == VALUE_OBJECT);
    for (int64_t i = 0; is_list && i < inputs->inner.count; i++) {
        const struct value *input = &inputs->inner.values[i];
        const struct value *name =
            input->kind == VALUE_OBJECT ? message_find(&input->inner, "name") : NULL;
        if (name && name->kind == VALUE_STRING && oip_trace_is_input(name->string))
            return true;
    }
    return false;
}

/* Takes the inputs and outputs of a whole pass; a fault where the model has none. */
static bool take_pass(struct call *call, struct oip_call *oip, struct fault *fault)
{
    const struct model *model = oip->model;
    struct oip_trace_tensors *tensors = arena_calloc(&call->arena, 1, sizeof *tensors);
    if (!model->forward)
        return fault_set_at(
            fault, "/inputs", FAULT_OPTION, "model '%s' cannot be traced: %s", model->name,
            model->forward_reason ? model->forward_reason : "it has attention layers alone");
    if (!tensors || !oip_trace_tensors_list(tensors, model, &call->arena))
        return fault_no_memory(fault);
    oip->trace = tensors;
    oip->request.signature = &tensors->signature;
    return true;
}

/* A sequence that goes on keeps the model that it began with. */
static bool read_sequence(struct call *call, struct oip_call *oip, struct fault *fault)
{
    if (!oip_sequence_read(call, fault))
        return false;
    const struct session *session = oip->sequence.session;
    if (!session || session->model == oip->model)
        return true;
    model_release(call->model);
    call->model = model_retain(session->model);
    return take_model(call, oip, fault);
}

/* -------------------------------------------------------------- the inputs -- */

/* Integers of eight bytes are viewed where they are aligned. */
static bool take_integers(const struct tensor *tensor, struct oip_input *input, struct arena *arena)
{
    struct dtype_integer integer;
    dtype_integer_find(tensor->dtype, &integer);
    if (input->count > 0 && integer.size == sizeof(int64_t) && !integer.is_unsigned
        && (uintptr_t)tensor->bytes % sizeof(int64_t) == 0) {
        input->integers = tensor->bytes;
        return true;
    }
    int64_t *integers = arena_calloc(arena, (size_t)input->count + 1, sizeof *integers);
    for (int64_t i = 0; integers && i < input->count; i++)
        integers[i] =
            dtype_integer_read((const char *)tensor->bytes + (size_t)i * integer.size, integer);
    input->integers = integers;
    return integers != NULL;
}

static bool take_inputs(struct oip_call *oip, struct arena *arena)
{
    for (int slot = 0; slot < oip->request.signature->input_count; slot++) {
        const struct value *value = oip->request.inputs[slot];
        struct oip_input *input = &oip->inputs[slot];
        if (!value)
            continue;
        const struct tensor *tensor = value->tensor;
        *input = (struct oip_input){ .given = true, .count = 1 };
        input->array.rank = (int)tensor->rank;
        for (int i = 0; i < input->array.rank; i++) {
            input->array.shape[i] = (int64_t)tensor->shape[i];
            input->count *= input->array.shape[i];
        }
        if (dtype_find_plain(tensor->dtype, &input->array.dtype))
            input->array.data = tensor->bytes;
        else if (!take_integers(tensor, input, arena))
            return false;
    }
    return true;
}

static bool open_body(struct call *call, struct oip_call *oip, struct fault *fault)
{
    call->form.arena = &call->arena;
    call->form.bytes = call->body;
    call->form.memory = call->memory;
    oip->request.regions = call->service ? call->service->regions : NULL;
    oip->request.held = &call->regions;
    oip->request.key = call->limits.key;
    oip->request.bytes_max = call->limits.scratch_bytes_max;
    return oip_open(&call->form, fault);
}

static bool read_body(struct call *call, struct oip_call *oip, struct fault *fault)
{
    struct message inputs;
    if (!open_body(call, oip, fault)
        || (asks_for_pass(&oip->request.root) && !take_pass(call, oip, fault))
        || !read_sequence(call, oip, fault)
        || !call_formats_read(call, &call->form, NULL, &inputs, fault))
        return false;
    if (!oip->request.has_header_length)
        call_drop_body(call); /* nothing points into it */
    return take_inputs(oip, &call->arena) || fault_no_memory(fault);
}

static bool read(struct call *call, struct fault *fault)
{
    struct oip_call *oip = oip_call_of(call);
    if (!model_access_resolve(call->limits.store, call->limits.key, oip->model_name, oip->version,
                              &call->model, fault)
        || !take_model(call, oip, fault) || !read_body(call, oip, fault))
        return false;
    call->operation = oip->trace                  ? &oip_trace
                      : oip->model->parameterless ? &oip_sdpa
                                                  : &oip_attention;
    return true;
}

const struct operation oip_infer = { .begin = begin, .read = read, .drop = oip_sequence_drop };
