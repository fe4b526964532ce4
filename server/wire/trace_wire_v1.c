/* trace_wire_v1.c - see trace_wire_v1.h: JSON in and out and, except for batches, safetensors. */
#include "wire/trace_wire_v1.h"

#include "wire/trace_safetensors.h"
#include "wire/v1_trace.h"

static bool begin(struct trace_call *call, const struct exchange *exchange, struct fault *fault)
{
    struct safetensors_forms *forms = arena_calloc(&call->request.arena, 1, sizeof *forms);
    if (!forms)
        return fault_no_memory(fault);
    call->state = forms;
    return safetensors_forms_read(forms, exchange, SAFETENSORS_OR_JSON, fault);
}

/* Reads a text as the call's document, with U+0000 in its strings. */
static bool read_json(struct trace_call *call, const char *text, size_t size, struct fault *fault)
{
    const struct json_options options = { .nonfinite_allowed = call->request.nonfinite_allowed,
                                          .nul_is_kept = true,
                                          .values_max = JSON_REQUEST_VALUES_MAX,
                                          .memory = call->base.memory };
    return json_read(&call->base.document, text ? text : "", size, &options, fault);
}

/* The body is not needed afterwards. */
static bool read_document(struct trace_call *call, bool batch, struct fault *fault)
{
    const bool good = read_json(call, call->base.body.data, call->base.body.size, fault);
    call_drop_body(&call->base);
    return good && v1_trace_read(&call->request, batch, &call->base.document, fault);
}

static bool read_file(struct trace_call *call, struct fault *fault)
{
    const struct byte_slice body = call->base.body;
    struct safetensors file;
    struct text json;
    if (!safetensors_read(&file, body.data ? body.data : "", body.size, fault))
        return false;
    text_init(&json, SIZE_MAX);
    const bool good = trace_safetensors_fields(call, &file, &json, fault)
                      && read_json(call, json.data, json.used, fault)
                      && v1_trace_read(&call->request, false, &call->base.document, fault)
                      && trace_safetensors_tensors(call, &file, fault);
    text_free(&json);
    safetensors_free(&file);
    return good;
}

static bool read_single(struct trace_call *call, struct fault *fault)
{
    const struct safetensors_forms *forms = call->state;
    if (forms->is_answer)
        call->request.number_bytes = TRACE_SAFETENSORS_NUMBER_BYTES;
    return forms->is_body ? read_file(call, fault) : read_document(call, false, fault);
}

static bool read_batch(struct trace_call *call, struct fault *fault)
{
    return read_document(call, true, fault);
}

static bool write_single(struct trace_call *call, struct fault *fault)
{
    const struct safetensors_forms *forms = call->state;
    if (forms->is_answer)
        return trace_safetensors_write(call, NULL, 0, fault);
    v1_trace_write(&call->request, &call->base.text);
    return true;
}

static bool write_batch(struct trace_call *call, struct fault *fault)
{
    (void)fault;
    v1_trace_write(&call->request, &call->base.text);
    return true;
}

const struct trace_wire trace_wire_v1_single = { .begin = begin,
                                                 .read = read_single,
                                                 .write = write_single };
const struct trace_wire trace_wire_v1_batch = { .read = read_batch, .write = write_batch };
