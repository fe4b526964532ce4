/* http_answer.c - the headers of an answer.
 *
 * Most answers are libmicrohttpd's to send. It takes no answer while a body is arriving, so a
 * refusal goes to the socket directly then. */
#include "http/http_internal.h"

#include "base/clock.h"
#include "format/coding.h"
#include "text/text.h"
#include "watch/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

void http_answer_directly(struct exchange *exchange)
{
    char head[512], body[EXCHANGE_FAULT_BYTES_MAX];
    char timing[REQUEST_TIMING_MAX];
    struct text text = text_in(body, sizeof body);
    const int status = fault_http_status(exchange->fault.code);
    exchange_write_fault(exchange, &exchange->fault, &text);
    request_record_timing(&exchange->record, clock_now_ns() - exchange->started_ns, timing);
    const int size =
        snprintf(head, sizeof head,
                 "HTTP/1.1 %d %s\r\nConnection: close\r\n"
                 "Content-Type: application/json\r\nContent-Length: %zu\r\nX-Request-Id: %s\r\n"
                 "Server-Timing: %s\r\n\r\n",
                 status, MHD_get_reason_phrase_for((unsigned)status), text.used,
                 exchange->request_id, timing);
    struct iovec parts[] = { { head, (size_t)size }, { body, text.used } };
    const struct msghdr answer = { .msg_iov = parts, .msg_iovlen = 2 };
    exchange->answer.status = status;
    exchange->record.fault = exchange->fault.code;
    http_waiting_remove(exchange);
    if (sendmsg(http_connection_of(exchange->connection)->socket, &answer,
                MSG_DONTWAIT | MSG_NOSIGNAL)
        < 0)
        log_line(LOG_DEBUG, "answer not sent", LOG_STRING("reason", strerror(errno)));
}

static bool add_header(struct MHD_Response *response, const char *name, const char *value)
{
    return !value[0] || MHD_add_response_header(response, name, value) == MHD_YES;
}

struct MHD_Response *http_make_response(struct exchange *exchange)
{
    struct exchange_answer *answer = &exchange->answer;
    struct MHD_Response *response = http_take_bytes(exchange->thread, answer);
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
        && add_header(response, "Server-Timing", timing)
        && add_header(response, "Allow", answer->allow)
        && add_header(response, "Retry-After", retry_after)
        && add_header(response, "Content-Encoding", coding_name(answer->coding))
        && add_header(response, "Vary", answer->varies ? "Accept-Encoding" : "")
        && add_header(response, "Accept-Encoding",
                      answer->encodings ? "gzip, deflate, identity" : "")
        && add_header(response, "Connection", close ? "close" : ""))
        return response;
    MHD_destroy_response(response);
    return NULL;
}
