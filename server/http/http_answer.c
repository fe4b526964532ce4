/* SPDX-License-Identifier: Apache-2.0 */
/* http_answer.c - the headers of an answer.
 *
 * Most answers are libmicrohttpd's to send. It takes no answer while a body is arriving, so a
 * refusal goes to the socket directly then. */
#include "http/http_internal.h"

#include "base/clock.h"
#include "formats/coding.h"
#include "http/http_origin.h"
#include "telemetry/log.h"
#include "json/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { HEAD_BYTES_MAX = 1536 }; /* of an answer that goes to the socket directly */

/* The headers for the page that asked; their number. */
static int page_fields(const struct exchange *exchange,
                       struct http_field fields[HTTP_CORS_FIELDS_MAX])
{
    if (!exchange->allowed)
        return 0;
    if (exchange->is_preflight)
        return http_cors_preflight_fields(fields, exchange->allowed, exchange->answer.allow,
                                          &exchange->headers);
    return http_cors_fields(fields, exchange->allowed);
}

static const char *vary(const struct exchange_answer *answer)
{
    if (answer->varies)
        return answer->varies_by_page ? "Accept-Encoding, Origin" : "Accept-Encoding";
    return answer->varies_by_page ? "Origin" : "";
}

/* The head of an answer that goes to the socket directly. */
static void write_head(const struct exchange *exchange, size_t body_bytes, struct text *text)
{
    const int status = fault_http_status(exchange->fault.code);
    char timing[REQUEST_TIMING_MAX];
    struct http_field fields[HTTP_CORS_FIELDS_MAX];
    const int field_count = page_fields(exchange, fields);
    request_record_timing(&exchange->record, clock_now_ns() - exchange->started_ns, timing);
    text_format(text,
                "HTTP/1.1 %d %s\r\nConnection: close\r\n"
                "Content-Type: application/json\r\nContent-Length: %zu\r\nX-Request-Id: %s\r\n"
                "Attnd-Replica: %s\r\nServer-Timing: %s\r\n",
                status, MHD_get_reason_phrase_for((unsigned)status), body_bytes,
                exchange->request_id, exchange->thread->http->options.replica, timing);
    const char *challenge = http_challenge(exchange);
    if (challenge[0])
        text_format(text, "WWW-Authenticate: %s\r\n", challenge);
    const int retry_after_s = fault_retry_after_s(status, exchange->fault.retry_after_s);
    if (retry_after_s > 0)
        text_format(text, "Retry-After: %d\r\n", retry_after_s);
    if (exchange->answer.varies_by_page)
        text_raw(text, "Vary: Origin\r\n");
    for (int i = 0; i < field_count; i++)
        text_format(text, "%s: %s\r\n", fields[i].name, fields[i].value);
    text_raw(text, "\r\n");
}

void http_answer_directly(struct exchange *exchange)
{
    char answer[HEAD_BYTES_MAX + EXCHANGE_FAULT_BYTES_MAX], body_bytes[EXCHANGE_FAULT_BYTES_MAX];
    struct text head = text_in(answer, HEAD_BYTES_MAX);
    struct text body = text_in(body_bytes, sizeof body_bytes);
    access_quota_explain(exchange_quota(exchange), &exchange->memory, &exchange->fault);
    exchange->record.fault = exchange->fault.code;
    exchange_write_fault(exchange, &exchange->fault, &body);
    write_head(exchange, body.used, &head);
    memcpy(answer + head.used, body_bytes, body.used);
    exchange->answer.status = fault_http_status(exchange->fault.code);
    http_waiting_remove(exchange);
    if (!http_connection_send(http_connection_of(exchange->connection), answer,
                              head.used + body.used))
        log_line(LOG_DEBUG, "answer not sent", LOG_STRING("reason", strerror(errno)));
}

static bool add_header(struct MHD_Response *response, const char *name, const char *value)
{
    return !value[0] || MHD_add_response_header(response, name, value) == MHD_YES;
}

static bool add_page_fields(struct MHD_Response *response, const struct exchange *exchange)
{
    struct http_field fields[HTTP_CORS_FIELDS_MAX];
    const int count = page_fields(exchange, fields);
    for (int i = 0; i < count; i++)
        if (!add_header(response, fields[i].name, fields[i].value))
            return false;
    return true;
}

static bool add_own_fields(struct MHD_Response *response, const struct exchange_answer *answer)
{
    for (int i = 0; i < answer->field_count; i++)
        if (!add_header(response, answer->fields[i].name, answer->fields[i].value))
            return false;
    return true;
}

struct MHD_Response *http_make_response(struct exchange *exchange)
{
    struct exchange_answer *answer = &exchange->answer;
    struct MHD_Response *response = http_take_bytes(exchange);
    const bool close =
        answer->close || !exchange->is_framed || atomic_load(&exchange->thread->http->ending);
    char header_length[24] = "", retry_after[12] = "";
    char timing[REQUEST_TIMING_MAX];
    if (!response)
        return NULL;
    if (answer->header_length > 0)
        snprintf(header_length, sizeof header_length, "%zu", answer->header_length);
    if (answer->retry_after_s > 0)
        snprintf(retry_after, sizeof retry_after, "%d", answer->retry_after_s);
    request_record_timing(&exchange->record, clock_now_ns() - exchange->started_ns, timing);
    if (add_header(response, "Content-Type", answer->content_type ? answer->content_type : "")
        && add_header(response, "Inference-Header-Content-Length", header_length)
        && add_header(response, "X-Request-Id", exchange->request_id)
        && add_header(response, "Attnd-Replica", exchange->thread->http->options.replica)
        && add_header(response, "Server-Timing", timing)
        && add_header(response, "Allow", answer->allow)
        && add_header(response, "WWW-Authenticate", http_challenge(exchange))
        && add_header(response, "Retry-After", retry_after)
        && add_header(response, "Location", answer->location ? answer->location : "")
        && add_header(response, "Content-Encoding", coding_name(answer->coding))
        && add_header(response, "Vary", vary(answer)) && add_page_fields(response, exchange)
        && add_own_fields(response, answer)
        && add_header(response, "Accept-Encoding",
                      answer->encodings ? "gzip, deflate, identity" : "")
        && add_header(response, "Connection", close ? "close" : ""))
        return response;
    MHD_destroy_response(response);
    return NULL;
}
