/* SPDX-License-Identifier: Apache-2.0 */
/* http.c - one request, from its headers to its answer (http.h).
 *
 * libmicrohttpd closes a connection that is answered in the first call of its access handler,
 * http_on_request(). So an answer waits for a later call, unless it must come before the body. */
#include "http/http_internal.h"

#include "base/clock.h"
#include "formats/coding.h"
#include "http/http_origin.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "json/text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { PROMPT_NS = 2000000 }; /* of a turn of the thread; a request read within it has just come */
enum { TLS_RECORD_BYTES = 16384 };

/* --------------------------------------------------------------- answers -- */

void http_end_body(struct exchange *exchange)
{
    http_answer_directly(exchange);
    http_connection_end(http_connection_of(exchange->connection));
}

/* Over TLS, one system call sends the head and the body of an answer that is one short piece. */
static void expect_body(struct exchange *exchange)
{
    const struct exchange_answer *answer = &exchange->answer;
    if (!exchange->thread->http->has_tls)
        return;
    struct http_connection *connection = http_connection_of(exchange->connection);
    if (connection->tls && !answer->parts && answer->size > 0 && answer->size <= TLS_RECORD_BYTES
        && strcmp(exchange->method, "HEAD") != 0)
        http_tls_expect_body(connection);
}

static enum MHD_Result queue_answer(struct exchange *exchange)
{
    struct MHD_Response *response = http_make_response(exchange);
    exchange->queued = true;
    http_waiting_add(exchange);
    if (!response) {
        exchange->answer.status = 503;
        return MHD_queue_response(exchange->connection, 503, exchange->thread->http->no_memory);
    }
    const enum MHD_Result result =
        MHD_queue_response(exchange->connection, (unsigned)exchange->answer.status, response);
    MHD_destroy_response(response);
    expect_body(exchange);
    return result;
}

/* -------------------------------------------------------------- requests -- */

/* Where the body begins in its buffer: so that the bytes behind the JSON header of the Open
 * Inference Protocol are aligned, whatever the length of that header. */
static size_t body_offset(const struct exchange *exchange)
{
    const char *header = exchange_header(exchange, HTTP_HEADER_INFERENCE_LENGTH);
    return header ? -(size_t)strtoull(header, NULL, 10) % _Alignof(max_align_t) : 0;
}

/* When a request came: the time that it waited for this thread counts. The kernel is asked only
 * where the request may have waited long. */
static int64_t arrived_ns(const struct http_thread *thread, struct http_connection *connection,
                          int64_t now_ns)
{
    const bool is_new = !connection->served;
    connection->served = true;
    return is_new || now_ns - thread->ran_ns > PROMPT_NS ? now_ns - http_came_ago_ns(connection)
                                                         : now_ns;
}

/* With a listener of the operators' own, the others do not have what is theirs. */
static unsigned hidden_scopes(const struct listener *listener, const struct http *http)
{
    return http->options.has_operators && !listener->is_operators ? ACCESS_OF_OPERATORS : 0;
}

static struct exchange *exchange_create(struct http_thread *thread,
                                        struct MHD_Connection *connection, const char *method,
                                        const char *path)
{
    struct http *http = thread->http;
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return NULL;
    exchange->thread = thread;
    exchange->connection = connection;
    exchange->context = http->options.context;
    exchange->record.route = http->options.unknown_route_metrics_index;
    const int64_t now_ns = clock_now_ns();
    exchange->started_ns = arrived_ns(thread, http_connection_of(connection), now_ns);
    /* Counted from now: the body may stand behind another request on its connection, and nothing
     * could read it before that request was answered. */
    exchange->body_deadline_ns = now_ns + http->options.body_timeout_ns;
    exchange->reading = true;
    const struct http_connection *record = http_connection_of(connection);
    exchange->query = record->query[0] ? strdup(record->query) : NULL;
    exchange->query_is_long = record->query_is_long;
    exchange->query_is_lost = record->query[0] && !exchange->query;
    text_copy(exchange->method, sizeof exchange->method, method);
    text_copy(exchange->path, sizeof exchange->path, path);
    exchange->client = http_connection_of(connection)->client;
    exchange->memory.peer = http_connection_of(connection)->peer;
    exchange->pack_bytes_min = http->options.pack_bytes_min;
    exchange_find_route(exchange, http->options.routes, http->options.route_count,
                        hidden_scopes(http_connection_of(connection)->listener, http), method,
                        path);
    if (exchange_is_change(exchange))
        exchange->audit_levels = log_levels();
    atomic_fetch_add(&http->active_count, 1);
    metrics_gauge_add(METRICS_REQUESTS_ACTIVE, 1);
    return exchange;
}

/* Reads from the headers what every answer needs, even an answer to wrong headers. */
static void take_headers(struct exchange *exchange, const char *version)
{
    const char *traceparent = exchange_header(exchange, HTTP_HEADER_TRACEPARENT);
    text_copy(exchange->traceparent, sizeof exchange->traceparent, traceparent ? traceparent : "");
    exchange_note_span(exchange, version);
    exchange_set_request_id(exchange, exchange_header(exchange, HTTP_HEADER_REQUEST_ID));
    exchange->body_offset = body_offset(exchange);
    exchange->answer_coding = coding_of_answer(
        exchange_header(exchange, HTTP_HEADER_ACCEPT_ENCODING), &exchange->identity_refused);
    exchange->allowed =
        http_origin_allowed(&exchange->thread->http->options.pages, &exchange->headers);
    exchange->answer.varies_by_page = http_origin_varies(&exchange->thread->http->options.pages);
}

static void ask_route(struct exchange *exchange)
{
    http_body_queue_look(exchange);
    if (exchange->route->takes_body)
        exchange->route->takes_body(exchange, &exchange->outlook, &exchange->fault);
}

/* Whether the request comes neither from a page of another origin nor by a name that leads here by
 * accident; otherwise the exchange has a fault. A page that came by such a name has no key. */
static bool check_origin(struct exchange *exchange)
{
    const struct http_options *options = &exchange->thread->http->options;
    const struct route *route = exchange->route;
    const struct http_asked asked = { .method = exchange->method,
                                      .framed = route && route->framed,
                                      .at_any_host =
                                          options->keys || (route && route->scope == ACCESS_OPEN) };
    if (http_origin_check(&options->pages, &asked, &exchange->headers, &exchange->fault))
        return true;
    exchange->answer.allow[0] = '\0';
    return false;
}

static void answer_preflight(struct exchange *exchange)
{
    exchange_reply(exchange, 204, NULL, NULL, 0);
}

/* Whether the request is the preflight of a page that may ask, to a path that there is; it then
 * gets a route in place of the fault that the path takes no OPTIONS. */
static bool take_preflight(struct exchange *exchange)
{
    static const struct route PREFLIGHT = {
        .method = "OPTIONS",
        .pattern = "*",
        .handle = answer_preflight,
    };
    exchange->is_preflight = exchange->allowed && exchange->fault.code == FAULT_METHOD
                             && http_cors_is_preflight(exchange->method, &exchange->headers);
    if (!exchange->is_preflight)
        return false;
    exchange->route = &PREFLIGHT;
    exchange->fault = (struct fault){ .code = FAULT_NONE };
    return true;
}

/* Sets the fault that can be told before the body is read, if there is one. A preflight needs no
 * key, and is answered even by a daemon that stops: the page then sees why its request fails. */
static void check_headers(struct exchange *exchange)
{
    struct http *http = exchange->thread->http;
    const char *coding = exchange_header(exchange, HTTP_HEADER_CONTENT_ENCODING);
    if (!check_origin(exchange) || take_preflight(exchange)
        || (http->options.keys && !http_check_key(exchange)))
        return;
    if (atomic_load(&http->refusing) && !(exchange->route && exchange->route->health)) {
        fault_set(&exchange->fault, FAULT_DRAINING, "the daemon is stopping");
        metrics_refused("draining");
    } else if (exchange->body_announced > http->options.body_bytes_max) {
        fault_set(&exchange->fault, FAULT_TOO_LARGE, "the body is %zu bytes; at most %zu are taken",
                  exchange->body_announced, http->options.body_bytes_max);
    } else if (exchange->fault.code == FAULT_NONE
               && coding_of_body(coding, &exchange->body_coding, &exchange->fault)) {
        ask_route(exchange);
    }
}

static enum MHD_Result answer_before_body(struct exchange *exchange)
{
    http_body_queue_leave(exchange);
    if (!exchange->has_room) {
        http_answer_directly(exchange);
        return MHD_NO;
    }
    exchange->reading = false;
    exchange_fail(exchange, &exchange->fault);
    return queue_answer(exchange);
}

/* Begins to read a body, which has a place in the body queue, or needs none. */
static enum MHD_Result begin_body(struct exchange *exchange)
{
    const size_t bytes =
        exchange->body_announced ? exchange->body_offset + exchange->body_announced : 0;
    if (exchange->fault.code == FAULT_NONE && !memory_has_room_for_body(&exchange->memory, bytes)) {
        fault_set(&exchange->fault, FAULT_MEMORY,
                  "the requests in flight leave no room for a body of %zu bytes; try again later",
                  exchange->body_announced);
        if (!exchange->memory.owner_refused)
            metrics_refused("memory");
        if (http_is_before_body(exchange))
            return answer_before_body(exchange);
    }
    if (exchange->fault.code == FAULT_NONE)
        http_body_queue_open_window(exchange);
    if (exchange->body_announced > 0 || exchange->is_chunked)
        http_waiting_add(exchange);
    return MHD_YES;
}

/* Continues an exchange that has waited in the body queue. */
static enum MHD_Result go_on(struct exchange *exchange)
{
    exchange->called = false;
    if (http_connection_of(exchange->connection)->left)
        return MHD_NO;
    if (exchange->fault.code == FAULT_NONE)
        ask_route(exchange);
    if (http_is_refused(exchange)) {
        http_body_queue_leave(exchange);
        if (http_refusals_hold(exchange))
            return MHD_YES;
    }
    return http_is_before_body(exchange) ? answer_before_body(exchange) : begin_body(exchange);
}

/* Where the queue is full, the request may take the place of one that has waited for long. */
static void displace_oldest(struct exchange *exchange)
{
    struct exchange *oldest = http_body_queue_displace(exchange);
    if (!oldest)
        return;
    http_refusals_take(oldest);
    ask_route(exchange);
}

static enum MHD_Result first_call(struct http_thread *thread, struct MHD_Connection *connection,
                                  const char *method, const char *path, const char *version,
                                  void **state)
{
    struct http_connection *record = http_connection_of(connection);
    if (record && record->closing)
        return MHD_NO; /* no answer can be sent any more */
    struct exchange *exchange = record ? exchange_create(thread, connection, method, path) : NULL;
    if (!exchange)
        return MHD_queue_response(connection, 503, thread->http->no_memory);
    *state = exchange;
    record->exchange = exchange;
    record->dropped_max = 2 * (uint64_t)thread->http->options.body_bytes_max;
    http_idle_end(thread, record);
    exchange->is_framed = http_check_framing(exchange, method, path, version);
    take_headers(exchange, version);
    if (exchange->is_framed)
        check_headers(exchange);
    if (thread->http->options.keys)
        http_forget_key(connection);
    displace_oldest(exchange);
    if (http_is_refused(exchange) && http_refusals_hold(exchange))
        return MHD_YES;
    if (http_is_before_body(exchange))
        return answer_before_body(exchange);
    if (http_is_refused(exchange) || http_body_queue_enter(exchange))
        return begin_body(exchange);
    http_waiting_add(exchange);
    return MHD_YES;
}

/* Sends the answer that an exchange has, or has it wait. */
static enum MHD_Result send_answer(struct exchange *exchange)
{
    return http_refusals_hold(exchange) ? MHD_YES : queue_answer(exchange);
}

/* Lets the handler answer or park, once the whole body is there. */
static enum MHD_Result dispatch(struct exchange *exchange)
{
    exchange->reading = false;
    http_connection_of(exchange->connection)->dropped_max = 0;
    http_body_queue_leave(exchange);
    http_waiting_remove(exchange);
    exchange->is_framed = http_check_trailers(exchange);
    memory_body_is_whole(&exchange->memory);
    if (exchange->fault.code != FAULT_NONE)
        exchange_fail(exchange, &exchange->fault);
    else
        http_handle(exchange);
    if (exchange->answered)
        return send_answer(exchange);
    assert(exchange->parked);
    http_waiting_add(exchange);
    MHD_suspend_connection(exchange->connection);
    return MHD_YES;
}

enum MHD_Result http_on_request(void *context, struct MHD_Connection *connection, const char *path,
                                const char *method, const char *version, const char *upload,
                                size_t *upload_size, void **state)
{
    struct http_thread *thread = context;
    struct exchange *exchange = *state;
    thread->call_count++;
    if (!exchange)
        return first_call(thread, connection, method, path, version, state);
    if (*upload_size > 0) {
        const size_t bytes_max = thread->http->options.body_bytes_max;
        thread->read_in = thread->run_count;
        http_body_queue_flow(exchange);
        const bool taken = exchange_receive(exchange, upload, *upload_size, bytes_max);
        *upload_size = 0;
        if (!taken)
            http_answer_directly(exchange);
        return taken ? MHD_YES : MHD_NO;
    }
    if (exchange->called)
        return go_on(exchange);
    if (exchange->queued)
        return MHD_YES;
    if (exchange->answered && http_connection_of(connection)->left)
        return MHD_NO;
    if (exchange->answered)
        return send_answer(exchange);
    if (exchange->parked) /* resumed without an answer: there is nothing to do yet */
        return MHD_YES;
    return dispatch(exchange);
}

/* Whether a request ended before its client had its answer, and why. A client that was told that
 * its body took too long, or that did not read a refusal to its end, counts as answered. */
static bool was_cancelled(const struct exchange *exchange, enum MHD_RequestTerminationCode reason,
                          enum request_end *why)
{
    const int status = exchange->answer.status;
    if (exchange->queued && (status >= 400 || reason == MHD_REQUEST_TERMINATED_COMPLETED_OK))
        return false;
    if (exchange->reading && status != 0)
        return false;
    if (reason == MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN)
        *why = REQUEST_STOPPED;
    else if (exchange->stalled)
        *why = REQUEST_SLOW_READER;
    else if (exchange->reading)
        *why = REQUEST_LEFT_READING;
    else
        *why = exchange->queued ? REQUEST_LEFT_SENDING : REQUEST_LEFT_WAITING;
    return true;
}

/* Logs, counts and frees every exchange, answered or not. A request whose client left before it had
 * its answer is logged as such. */
void http_on_completed(void *context, struct MHD_Connection *connection, void **state,
                       enum MHD_RequestTerminationCode reason)
{
    struct http_thread *thread = context;
    struct exchange *exchange = *state;
    thread->call_count++;
    if (!exchange && thread->http->options.keys)
        http_forget_key(connection);
    if (!exchange)
        return;
    struct http_connection *record = http_connection_of(connection);
    record->exchange = NULL;
    record->was_refused = http_is_refused(exchange);
    http_idle_begin(thread, record);
    if (record->left)
        http_connection_shut(record, SHUT_RDWR);
    enum request_end why;
    const bool cancelled = was_cancelled(exchange, reason, &why);
    const int status = cancelled ? fault_http_status(FAULT_LEFT) : exchange->answer.status;
    const int64_t duration_ns = clock_now_ns() - exchange->started_ns;
    if (exchange->audit_levels)
        exchange_audit(exchange);
    exchange_settle(exchange, !cancelled);
    if (cancelled) {
        connection_metrics_cancelled(why);
        exchange->record.fault = FAULT_LEFT;
    }
    if (cancelled && !exchange->queued)
        exchange->answer.size = 0; /* the answer may be complete, but nothing of it was sent */
    metrics_request(exchange->record.route, status, duration_ns, exchange->received,
                    exchange->answer.size);
    exchange_send_span(exchange, status, duration_ns);
    exchange_log(exchange, status, duration_ns);
    http_body_queue_leave(exchange);
    http_waiting_remove(exchange);
    exchange_free(exchange);
    *state = NULL;
    metrics_gauge_add(METRICS_REQUESTS_ACTIVE, -1);
    atomic_fetch_sub(&thread->http->active_count, 1);
}
