/* session_trace.c - see session_trace.h. */
#include "wire/session_trace.h"

#include "session/session_path.h"
#include "wire/session_text.h"
#include "wire/trace_safetensors.h"
#include "wire/trace_wire_v1.h"
#include "wire/v1_trace.h"

#include <inttypes.h>
#include <stdio.h>

static bool begin(struct trace_call *call, const struct exchange *exchange, struct fault *fault)
{
    if (!trace_wire_v1_single.begin(call, exchange, fault))
        return false;
    struct session *session =
        session_path_find_to_call(exchange, call->base.service->sessions, fault);
    return session && trace_session_begin(call, session, fault);
}

static bool read(struct trace_call *call, struct fault *fault)
{
    return trace_wire_v1_single.read(call, fault) && trace_session_take(call, fault);
}

static bool write(struct trace_call *call, struct fault *fault)
{
    const struct session *session = trace_session_of(call);
    struct text *text = &call->base.text;
    if (call->answer == &format_safetensors) {
        char kv_len[24];
        snprintf(kv_len, sizeof kv_len, "%" PRId64, session_kv_len_then(session));
        const struct safetensors_pair more[] = { { .key = "session", .value = session->id },
                                                 { .key = "kv_len", .value = kv_len } };
        return trace_safetensors_write(call, more, 2, fault);
    }
    text_raw(text, "{");
    session_text_write_length(session, text);
    text_raw(text, ",");
    v1_trace_write_members(&call->request.items[0], text);
    text_raw(text, "}\n");
    return true;
}

const struct trace_wire session_trace_wire = {
    .begin = begin, .read = read, .write = write, .drop = trace_session_drop
};
