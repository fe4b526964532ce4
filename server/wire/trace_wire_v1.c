/* trace_wire_v1.c - traces of the native API: JSON and, except for batches, safetensors. */
#include "wire/trace_wire_v1.h"

#include "infer/call_formats.h"
#include "operations/trace_fields.h"
#include "wire/trace_safetensors.h"
#include "wire/v1_trace.h"

static bool begin(struct trace_call *call, const struct exchange *exchange, struct fault *fault)
{
    static const struct format *const FORMATS[] = { &format_json, &format_safetensors, NULL };
    return call_formats_choose(exchange, FORMATS, &trace_fields, &call->request.arena, &call->form,
                               &call->answer, fault);
}

static bool read_single(struct trace_call *call, struct fault *fault)
{
    if (call->answer == &format_safetensors)
        call->request.number_bytes = TRACE_SAFETENSORS_NUMBER_BYTES;
    return trace_fields_read(call, false, fault);
}

static bool read_batch(struct trace_call *call, struct fault *fault)
{
    return trace_fields_read(call, true, fault);
}

static bool write_single(struct trace_call *call, struct fault *fault)
{
    if (call->answer == &format_safetensors)
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
