/* SPDX-License-Identifier: Apache-2.0 */
/* span_record.c - the stages of a record; its JSON, without printf(), which would take most of the
 * time. */
#include "telemetry/span_record.h"

#include "base/unique_id.h"
#include "base/version.h"

#include <string.h>

/* ----------------------------------------------------------------- record -- */

static int64_t least(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

void span_record_stages(struct span_record *record, const struct request_record *request)
{
    const int64_t in_job_ns =
        request->queue_ns + request->parse_ns + request->compute_ns + request->write_ns;
    const int64_t stages_ns[SPAN_STAGE_COUNT] = {
        [SPAN_RECEIVE] = request->total_ns - in_job_ns,
        [SPAN_QUEUE] = request->queue_ns,
        [SPAN_PARSE] = request->parse_ns,
        [SPAN_COMPUTE] = request->compute_ns,
        [SPAN_WRITE] = request->write_ns,
        /* cppcheck-suppress ctuuninitvar ; the caller has set both */
        [SPAN_SEND] = record->ended_ns - record->began_ns - request->total_ns,
    };
    int64_t left_ns = record->ended_ns - record->began_ns;
    for (int i = 0; i < SPAN_STAGE_COUNT; i++) {
        const bool took_time = request->was_job && stages_ns[i] > 0;
        record->stage_ns[i] = took_time ? least(stages_ns[i], left_ns) : 0;
        left_ns -= record->stage_ns[i];
    }
}

int span_record_count(const struct span_record *record)
{
    int count = 1;
    for (int i = 0; i < SPAN_STAGE_COUNT; i++)
        count += record->stage_ns[i] > 0;
    return count;
}

/* ------------------------------------------------------------------- JSON -- */

/* Of opentelemetry/proto/trace/v1/trace.proto. */
enum { KIND_INTERNAL = 1, KIND_SERVER = 2, STATUS_ERROR = 2 };
enum { HAS_IS_REMOTE = 0x100, IS_REMOTE = 0x200 };

/* ------------------------------------------------------------- attributes -- */

static void write_key(struct text *text, const char *name)
{
    text_raw(text, "{\"key\":");
    text_string(text, name);
    text_raw(text, ",\"value\":{\"");
}

void span_json_string(struct text *text, const char *name, const char *value)
{
    write_key(text, name);
    text_raw(text, "stringValue\":");
    text_string(text, value);
    text_raw(text, "}}");
}

static void span_json_integer(struct text *text, const char *name, int64_t value)
{
    write_key(text, name);
    text_raw(text, "intValue\":\"");
    text_integer(text, value);
    text_raw(text, "\"}}");
}

static void add_string(struct text *text, const char *name, const char *value)
{
    text_bytes(text, ",", 1);
    span_json_string(text, name, value);
}

static void add_integer(struct text *text, const char *name, int64_t value)
{
    text_bytes(text, ",", 1);
    span_json_integer(text, name, value);
}

/* The conventions want any other method written as _OTHER, because clients make them up. */
static bool is_known_method(const char *method)
{
    static const char *const KNOWN[] = { "GET",  "POST",    "PUT",   "DELETE", "PATCH",
                                         "HEAD", "OPTIONS", "TRACE", "CONNECT" };
    for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++)
        if (strcmp(method, KNOWN[i]) == 0)
            return true;
    return false;
}

static void add_answer(struct text *text, const struct span_record *record)
{
    if (record->fault != FAULT_LEFT)
        add_integer(text, "http.response.status_code", record->status);
    if (record->fault != FAULT_NONE)
        add_string(text, "attnd.fault", fault_code_name(record->fault));
    if (record->status >= 500)
        add_string(text, "error.type",
                   record->fault != FAULT_NONE ? fault_code_name(record->fault) : "_OTHER");
    add_integer(text, "http.request.body.size", record->bytes_in);
    add_integer(text, "http.response.body.size", record->bytes_out);
}

static void add_inference(struct text *text, const struct span_record *record)
{
    if (record->model[0]) {
        add_string(text, "attnd.model", record->model);
        add_integer(text, "attnd.version", record->version);
        add_integer(text, "attnd.layer", record->layer);
    }
    if (record->item_count > 0) {
        add_integer(text, "attnd.items", record->item_count);
        add_integer(text, "attnd.q_len", record->q_len);
        add_integer(text, "attnd.kv_len", record->kv_len);
    }
}

static void write_attributes(struct text *text, const struct span_record *record)
{
    const bool known = is_known_method(record->method);
    text_raw(text, ",\"attributes\":[");
    span_json_string(text, "http.request.method", known ? record->method : "_OTHER");
    if (!known)
        add_string(text, "http.request.method_original", record->method);
    if (record->route)
        add_string(text, "http.route", record->route);
    add_string(text, "url.path", record->path);
    add_string(text, "url.scheme", record->is_tls ? "https" : "http");
    add_string(text, "network.protocol.version", record->is_http_1_0 ? "1.0" : "1.1");
    add_answer(text, record);
    add_string(text, "attnd.request_id", record->request_id);
    add_inference(text, record);
    text_bytes(text, "]", 1);
}

/* ------------------------------------------------------------------ spans -- */

static void write_id(struct text *text, const char *name, const uint8_t *id, size_t size)
{
    char hex[2 * TRACE_ID_BYTES];
    text_raw(text, name);
    text_bytes(text, hex, (size_t)(trace_hex(hex, id, size) - hex));
}

static void write_ids(struct text *text, const struct trace_context *context,
                      const uint8_t *span_id, const uint8_t *parent_id)
{
    write_id(text, "{\"traceId\":\"", context->trace_id, TRACE_ID_BYTES);
    write_id(text, "\",\"spanId\":\"", span_id, SPAN_ID_BYTES);
    if (parent_id)
        write_id(text, "\",\"parentSpanId\":\"", parent_id, SPAN_ID_BYTES);
}

static void write_times(struct text *text, int kind, int64_t start_ns, int64_t end_ns, int flags)
{
    text_raw(text, "\",\"kind\":");
    text_integer(text, kind);
    text_raw(text, ",\"startTimeUnixNano\":\"");
    text_integer(text, start_ns);
    text_raw(text, "\",\"endTimeUnixNano\":\"");
    text_integer(text, end_ns);
    text_raw(text, "\",\"flags\":");
    text_integer(text, flags);
}

/* The name is "POST /v1/attention": a route's pattern, never a client's text. */
static void write_request(struct text *text, const struct span_record *record, int64_t unix_ns)
{
    const struct trace_context *context = &record->context;
    const bool is_remote = context->has_parent;
    write_ids(text, context, context->span_id, is_remote ? context->parent_id : NULL);
    if (record->state[0]) {
        text_raw(text, "\",\"traceState\":");
        text_string(text, record->state);
        text_raw(text, ",\"name\":\"");
    } else {
        text_raw(text, "\",\"name\":\"");
    }
    text_raw(text, is_known_method(record->method) ? record->method : "HTTP");
    if (record->route) {
        text_bytes(text, " ", 1);
        text_raw(text, record->route);
    }
    write_times(text, KIND_SERVER, record->began_ns + unix_ns, record->ended_ns + unix_ns,
                context->flags | HAS_IS_REMOTE | (is_remote ? IS_REMOTE : 0));
    write_attributes(text, record);
    if (record->status >= 500) {
        text_raw(text, ",\"status\":{\"code\":");
        text_integer(text, STATUS_ERROR);
        text_bytes(text, "}", 1);
    }
    text_bytes(text, "}", 1);
}

static void write_stage(struct text *text, const struct span_record *record, const char *name,
                        int64_t start_ns, int64_t end_ns)
{
    uint8_t id[SPAN_ID_BYTES];
    const uint64_t word = unique_id_next() | 1; /* an id is not zero */
    memcpy(id, &word, sizeof id);
    text_bytes(text, ",", 1);
    write_ids(text, &record->context, id, record->context.span_id);
    text_raw(text, "\",\"name\":\"");
    text_raw(text, name);
    write_times(text, KIND_INTERNAL, start_ns, end_ns, record->context.flags | HAS_IS_REMOTE);
    text_bytes(text, "}", 1);
}

void span_json_write(struct text *text, const struct span_record *record, int64_t unix_ns)
{
    static const char *const STAGES[] = {
#define X(name, stage) stage,
        SPAN_STAGE_MAP(X)
#undef X
    };
    int64_t start_ns = record->began_ns + unix_ns;
    write_request(text, record, unix_ns);
    for (int i = 0; i < SPAN_STAGE_COUNT; i++) {
        const int64_t end_ns = start_ns + record->stage_ns[i];
        if (end_ns > start_ns)
            write_stage(text, record, STAGES[i], start_ns, end_ns);
        start_ns = end_ns;
    }
}

/* --------------------------------------------------------------- envelope -- */

void span_json_begin(struct text *text, const char *resource)
{
    text_raw(text, "{\"resourceSpans\":[{\"resource\":{\"attributes\":");
    text_raw(text, resource);
    text_raw(text, "},\"scopeSpans\":[{\"scope\":{\"name\":\"attnd\",\"version\":\"" ATTND_VERSION
                   "\"},\"spans\":[");
}

void span_json_end(struct text *text)
{
    text_raw(text, "]}]}]}");
}
