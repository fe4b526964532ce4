/* SPDX-License-Identifier: Apache-2.0 */
/* remote.c - a request and its answer over one connection, which is kept. */
#include "remote/remote.h"

#include "base/clock.h"
#include "base/version.h"
#include "remote/remote_link.h"
#include "remote/remote_reader.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECEIVED_BYTES = 16384, HEAD_BYTES_MAX = 4096 };

struct remote {
    const struct remote_address *address;
    const struct remote_trust *trust;
    const char *key;
    struct remote_link link;
    struct remote_reader reader;
    char received[RECEIVED_BYTES];
};

struct remote *remote_create(const struct remote_address *address, const struct remote_trust *trust,
                             const char *key, struct remote_stop *stop)
{
    struct remote *remote = calloc(1, sizeof *remote);
    if (!remote)
        return NULL;
    remote->address = address;
    remote->trust = trust;
    remote->key = key;
    remote->link = (struct remote_link){ .socket = -1, .stop = stop };
    return remote;
}

void remote_close(struct remote *remote)
{
    remote_link_close(&remote->link);
}

void remote_free(struct remote *remote)
{
    if (!remote)
        return;
    remote_close(remote);
    remote_reader_free(&remote->reader);
    free(remote);
}

/* ----------------------------------------------------------------- request -- */

/* Returns the length; 0 where it does not fit. */
static size_t write_head(const struct remote *remote, const struct remote_request *request,
                         char head[HEAD_BYTES_MAX])
{
    const struct remote_address *address = remote->address;
    const bool is_v6 = strchr(address->host, ':') != NULL;
    size_t size = 0;
    for (int i = 0; i < request->part_count; i++)
        size += request->parts[i].size;
    const int length =
        snprintf(head, HEAD_BYTES_MAX,
                 "%s %s%s HTTP/1.1\r\nHost: %s%s%s:%d\r\nUser-Agent: attnd/" ATTND_VERSION
                 "\r\n%s%s%s%sContent-Length: %zu\r\n\r\n",
                 request->method, address->base, request->target, is_v6 ? "[" : "", address->host,
                 is_v6 ? "]" : "", address->port, remote->key ? "Authorization: Bearer " : "",
                 remote->key ? remote->key : "", remote->key ? "\r\n" : "",
                 request->headers ? request->headers : "", size);
    return length > 0 && length < HEAD_BYTES_MAX ? (size_t)length : 0;
}

/* *answered: all was not sent, but there may be an answer. */
static bool send_request(struct remote *remote, const struct remote_request *request,
                         bool *answered, char reason[REMOTE_REASON_MAX])
{
    char head[HEAD_BYTES_MAX];
    const size_t length = write_head(remote, request, head);
    *answered = false;
    if (length == 0) {
        snprintf(reason, REMOTE_REASON_MAX, "send: the head of the request is too long");
        return false;
    }
    bool sent = remote_link_send(&remote->link, head, length, request->part_count > 0,
                                 request->deadline_ns, answered, reason);
    for (int i = 0; i < request->part_count && sent; i++)
        sent =
            remote_link_send(&remote->link, request->parts[i].data, request->parts[i].size,
                             i + 1 < request->part_count, request->deadline_ns, answered, reason);
    return sent;
}

/* ------------------------------------------------------------------ answer -- */

static bool read_answer(struct remote *remote, int64_t deadline_ns, char reason[REMOTE_REASON_MAX])
{
    static const char *const WORDS[] = {
        [REMOTE_MORE] = "the other side closed the connection",
        [REMOTE_BAD] = "it is no HTTP/1.1, or not whole",
        [REMOTE_TOO_LONG] = "it is longer than it may be",
        [REMOTE_NO_MEMORY] = "no memory",
    };
    enum remote_reading reading = REMOTE_MORE;
    while (reading == REMOTE_MORE) {
        const ssize_t came = remote_link_receive(&remote->link, remote->received, RECEIVED_BYTES,
                                                 deadline_ns, reason);
        if (came < 0)
            return false;
        if (came == 0 && !remote->reader.began)
            break;
        reading = came > 0 ? remote_reader_take(&remote->reader, remote->received, (size_t)came)
                           : remote_reader_end(&remote->reader);
    }
    if (reading == REMOTE_DONE)
        return true;
    snprintf(reason, REMOTE_REASON_MAX, "answer: %s", WORDS[reading]);
    return false;
}

/* The other side may answer before it has read all, and close: its answer counts even where sending
 * has failed. */
static enum remote_end exchange(struct remote *remote, const struct remote_request *request,
                                char reason[REMOTE_REASON_MAX])
{
    char unused[REMOTE_REASON_MAX];
    bool answered;
    remote_reader_begin(&remote->reader, request->answer_bytes_max);
    if (send_request(remote, request, &answered, reason))
        return read_answer(remote, request->deadline_ns, reason) ? REMOTE_ANSWERED : REMOTE_UNKNOWN;
    const bool has_answer = answered && read_answer(remote, request->deadline_ns, unused);
    remote->reader.closes = true;
    return has_answer ? REMOTE_ANSWERED : REMOTE_NOT_SENT;
}

static enum remote_end exchange_anew(struct remote *remote, const struct remote_request *request,
                                     char reason[REMOTE_REASON_MAX])
{
    remote_close(remote);
    remote_reader_begin(&remote->reader, request->answer_bytes_max);
    if (!remote_link_open(&remote->link, remote->address, remote->trust, request->deadline_ns,
                          reason))
        return REMOTE_NOT_SENT;
    return exchange(remote, request, reason);
}

static void take_answer(const struct remote_reader *reader, struct remote_answer *answer)
{
    *answer = (struct remote_answer){ .status = reader->status,
                                      .retry_after_s = reader->retry_after_s,
                                      .body = reader->body,
                                      .size = reader->size };
    memcpy(answer->replica, reader->replica, sizeof answer->replica);
}

enum remote_end remote_ask(struct remote *remote, const struct remote_request *request,
                           struct remote_answer *answer, char reason[REMOTE_REASON_MAX])
{
    const bool is_kept = remote_link_is_quiet(&remote->link);
    enum remote_end end =
        is_kept ? exchange(remote, request, reason) : exchange_anew(remote, request, reason);
    const bool is_again = is_kept && end != REMOTE_ANSWERED && !remote->reader.began
                          && (end == REMOTE_NOT_SENT || request->may_repeat)
                          && clock_now_ns() < request->deadline_ns;
    if (is_again)
        end = exchange_anew(remote, request, reason);
    if (end == REMOTE_ANSWERED)
        take_answer(&remote->reader, answer);
    if (end != REMOTE_ANSWERED || remote->reader.closes)
        remote_close(remote);
    return end;
}
