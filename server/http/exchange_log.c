/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_log.c - the lines of a request in the log. */
#include "http/exchange.h"

#include "telemetry/log.h"

#include <stdio.h>
#include <string.h>

enum { FIELDS_MAX = 32 };

struct line {
    struct log_field fields[FIELDS_MAX];
    size_t count;
};

static void add(struct line *line, struct log_field field)
{
    line->fields[line->count++] = field;
}

static void add_shapes(struct line *line, const struct request_record *record)
{
    if (record->model[0]) {
        add(line, LOG_STRING("model", record->model));
        add(line, LOG_NUMBER("version", record->version));
        add(line, LOG_NUMBER("layer", record->layer));
    }
    if (record->item_count == 0)
        return;
    add(line, LOG_NUMBER("items", record->item_count));
    add(line, LOG_NUMBER("q_len", record->q_len));
    add(line, LOG_NUMBER("kv_len", record->kv_len));
    add(line, LOG_NUMBER("q_heads", record->q_heads));
    add(line, LOG_NUMBER("kv_heads", record->kv_heads));
    add(line, LOG_NUMBER("head_dim", record->head_dim));
    add(line, LOG_NUMBER("v_head_dim", record->v_head_dim));
    add(line, LOG_MS("cost_ms", record->cost_ns));
    add(line, LOG_NUMBER("flops", record->flops));
}

/* The ids of the request's span, as text that stays until the line is logged. */
struct span_ids {
    char trace[2 * TRACE_ID_BYTES + 1], span[2 * SPAN_ID_BYTES + 1];
};

static void add_span(struct line *line, const struct exchange *exchange, struct span_ids *ids)
{
    if (!exchange->has_span)
        return;
    *trace_hex(ids->trace, exchange->trace.trace_id, TRACE_ID_BYTES) = '\0';
    *trace_hex(ids->span, exchange->trace.span_id, SPAN_ID_BYTES) = '\0';
    add(line, LOG_STRING("trace_id", ids->trace));
    add(line, LOG_STRING("span_id", ids->span));
}

static void add_durations(struct line *line, const struct request_record *record)
{
    if (!record->was_job)
        return;
    add(line, LOG_MS("parse_ms", record->parse_ns));
    add(line, LOG_MS("queue_ms", record->queue_ns));
    add(line, LOG_MS("compute_ms", record->compute_ns));
    add(line, LOG_MS("write_ms", record->write_ns));
}

void exchange_log(const struct exchange *exchange, int status, int64_t duration_ns)
{
    const enum log_level level =
        exchange->route && exchange->route->health && status == 200 ? LOG_DEBUG : LOG_INFO;
    const enum fault_code code = exchange->record.fault;
    struct line line = { .count = 0 };
    struct span_ids ids;
    if (!log_enabled(level))
        return;
    add(&line, LOG_STRING("method", exchange->method));
    add(&line, LOG_STRING("path", exchange->path));
    if (exchange->route)
        add(&line, LOG_STRING("route", exchange->route->pattern));
    add(&line, LOG_NUMBER("status", status));
    if (code != FAULT_NONE)
        add(&line, LOG_STRING("code", fault_code_name(code)));
    add(&line, LOG_MS("ms", duration_ns));
    add_durations(&line, &exchange->record);
    add_shapes(&line, &exchange->record);
    add(&line, LOG_NUMBER("bytes_in", exchange->received));
    add(&line, LOG_NUMBER("bytes_out", exchange->answer.size));
    add(&line, LOG_STRING("client", exchange->client));
    if (exchange->key)
        add(&line, LOG_STRING("key", exchange->key->name));
    add(&line, LOG_STRING("request_id", exchange->request_id));
    if (exchange->traceparent[0])
        add(&line, LOG_STRING("traceparent", exchange->traceparent));
    add_span(&line, exchange, &ids);
    log_event(level, "request", line.fields, line.count);
}

/* ------------------------------------------------------------------ changes -- */

bool exchange_is_change(const struct exchange *exchange)
{
    const struct route *route = exchange->route;
    return route
           && (route->audited
               || ((route->scope == ACCESS_MODELS || route->scope == ACCESS_ADMIN)
                   && strcmp(route->method, "GET") != 0));
}

void exchange_audit(const struct exchange *exchange)
{
    enum { WHAT_BYTES = 128 };
    const bool has_answer = exchange->answer.status != 0;
    const enum fault_code code = has_answer ? exchange->record.fault : FAULT_LEFT;
    const int status = has_answer ? exchange->answer.status : fault_http_status(code);
    const char *model = exchange_model(exchange);
    char what[WHAT_BYTES];
    struct line line = { .count = 0 };
    snprintf(what, sizeof what, "%s %s", exchange->method, exchange->route->pattern);
    add(&line, LOG_STRING("who", exchange->key ? exchange->key->name : "-"));
    add(&line, LOG_STRING("what", what));
    if (model)
        add(&line, LOG_STRING("model", model));
    if (exchange->record.session[0])
        add(&line, LOG_STRING("session", exchange->record.session));
    add(&line, LOG_STRING("outcome", code == FAULT_NONE ? "done" : fault_code_name(code)));
    add(&line, LOG_NUMBER("status", status));
    add(&line, LOG_STRING("request_id", exchange->request_id));
    add(&line, LOG_STRING("client", exchange->client));
    log_event_by(exchange->audit_levels, LOG_INFO, "audit", line.fields, line.count);
}
