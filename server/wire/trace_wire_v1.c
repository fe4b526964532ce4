/* trace_wire_v1.c - see trace_wire_v1.h: JSON in and out. */
#include "wire/trace_wire_v1.h"

#include "wire/v1_trace.h"

/* Reads the body as the call's document, with U+0000 in its texts; the body is not needed
 * afterwards. */
static bool read(struct trace_call *call, bool batch, struct fault *fault)
{
    const struct json_options options = { .nonfinite_allowed = call->request.nonfinite_allowed,
                                          .nul_is_kept = true,
                                          .values_max = JSON_REQUEST_VALUES_MAX,
                                          .memory = call->base.memory };
    const struct byte_slice body = call->base.body;
    const bool good =
        json_read(&call->base.document, body.data ? body.data : "", body.size, &options, fault);
    call_drop_body(&call->base);
    return good && v1_trace_read(&call->request, batch, &call->base.document, fault);
}

static bool read_single(struct trace_call *call, struct fault *fault)
{
    return read(call, false, fault);
}

static bool read_batch(struct trace_call *call, struct fault *fault)
{
    return read(call, true, fault);
}

static bool write(struct trace_call *call, struct fault *fault)
{
    (void)fault;
    v1_trace_write(&call->request, &call->base.text);
    return true;
}

const struct trace_wire trace_wire_v1_single = { NULL, read_single, NULL, write };
const struct trace_wire trace_wire_v1_batch = { NULL, read_batch, NULL, write };
