/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_span.c - the spans of a request (telemetry/span_exporter.h). Without an exporter nothing
 * here does anything. */
#include "http/http_internal.h"
#include "telemetry/span_exporter.h"
#include "json/text.h"

#include <string.h>

void exchange_note_span(struct exchange *exchange, const char *version)
{
    if (!exchange->thread->http->options.spans)
        return;
    exchange->is_http_1_0 = strcmp(version, "HTTP/1.0") == 0;
    trace_state_copy(exchange->trace_state, exchange_header(exchange, HTTP_HEADER_TRACESTATE));
}

/* Two traceparents are none: which of them counts nobody can tell. */
static const char *traceparent_of(const struct exchange *exchange)
{
    return exchange->headers.is_twice[HTTP_HEADER_TRACEPARENT] ? NULL : exchange->traceparent;
}

static void fill(struct span_record *record, const struct exchange *exchange, int status)
{
    const struct request_record *request = &exchange->record;
    const struct route *route = exchange->route;
    record->context = exchange->trace;
    record->route = route && !exchange->is_preflight ? route->pattern : NULL;
    record->fault = request->fault;
    record->status = status;
    record->is_tls = http_connection_of(exchange->connection)->tls != NULL;
    record->is_http_1_0 = exchange->is_http_1_0;
    record->bytes_in = (int64_t)exchange->received;
    record->bytes_out = (int64_t)exchange->answer.size;
    record->version = request->version;
    record->layer = request->layer;
    record->item_count = request->item_count;
    record->q_len = request->q_len;
    record->kv_len = request->kv_len;
    text_copy(record->method, sizeof record->method, exchange->method);
    text_copy(record->request_id, sizeof record->request_id, exchange->request_id);
    text_copy(record->model, sizeof record->model, request->model);
    text_copy(record->path, sizeof record->path, exchange->path);
    text_copy(record->state, sizeof record->state,
              exchange->trace.has_parent ? exchange->trace_state : "");
}

void exchange_send_span(struct exchange *exchange, int status, int64_t duration_ns)
{
    struct span_exporter *exporter = exchange->thread->http->options.spans;
    if (!exporter || (exchange->route && exchange->route->health))
        return;
    trace_context_begin(&exchange->trace, traceparent_of(exchange),
                        span_exporter_sampler(exporter));
    if (!(exchange->trace.flags & TRACE_FLAG_SAMPLED))
        return;
    struct span_record record;
    record.began_ns = exchange->started_ns;
    record.ended_ns = exchange->started_ns + duration_ns;
    span_record_stages(&record, &exchange->record);
    if (!span_exporter_has_room(exporter, &record))
        return;
    fill(&record, exchange, status);
    exchange->has_span = span_exporter_put(exporter, &record);
}
