/* collector.h - one connection to an OpenTelemetry collector, over which batches are posted, and
 * its answers. */
#ifndef ATTND_COLLECTOR_H
#define ATTND_COLLECTOR_H

#include "telemetry/trace_context.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the answer of an OpenTelemetry collector, whatever comes.
 *
 * The answer is HTTP/1.1 (RFC 9112). Its status says what becomes of the spans; of the body only
 * the part is read that says how many of them were refused (ExportTracePartialSuccess). */

/* A longer head is no answer; a longer body is not read, and ends the connection. */
enum { COLLECTOR_ANSWER_BYTES_MAX = 16384, COLLECTOR_MESSAGE_MAX = 160 };
enum { COLLECTOR_RETRY_AFTER_MAX_S = 300 };

struct collector_answer {
    int status;        /* 200 to 599 */
    int retry_after_s; /* at most COLLECTOR_RETRY_AFTER_MAX_S; 0: it does not say */
    bool closes;       /* the connection cannot be used again */
    size_t body_at, body_size;
};

enum collector_reading {
    COLLECTOR_MORE, /* further bytes are needed */
    COLLECTOR_DONE,
    COLLECTOR_BAD, /* this is no answer */
};

/* Reads the first size bytes of an answer, at most COLLECTOR_ANSWER_BYTES_MAX. *answer is set where
 * the result is COLLECTOR_DONE. */
enum collector_reading collector_answer_read(struct collector_answer *answer, const char *bytes,
                                             size_t size);

/* How many spans a body says that were refused; 0 where it does not say, or is not JSON. message is
 * what it says of the reason, "" where it says nothing. */
uint64_t collector_answer_rejected(const char *body, size_t size,
                                   char message[COLLECTOR_MESSAGE_MAX]);

/* Whether the spans may be sent again later (https://opentelemetry.io/docs/specs/otlp/#failures-1),
 * and whether they were taken. */
bool collector_answer_is_again(int status);
bool collector_answer_is_taken(int status);

/* One connection to an OpenTelemetry collector, over which batches are posted.
 *
 * HTTP/1.1 over TCP, one request at a time. Every call ends by its deadline, whatever the other
 * side does; only a name that the resolver looks up may take longer. For one thread. */

struct collector {
    const struct span_options *options;
    int socket; /* -1: there is no connection */
    int wake;   /* a descriptor that becomes readable when *ends_ns is set; -1: not watched */
    const _Atomic int64_t *ends_ns; /* no call goes on beyond it; 0: no such time */
    char *bytes;                    /* COLLECTOR_ANSWER_BYTES_MAX of an answer */
    size_t used;
};

enum { COLLECTOR_REASON_MAX = 120 };

/* Posts size bytes of JSON and reads the answer. False, with the reason, where there is no answer;
 * the connection is closed then. The body of the answer lies in collector->bytes until the next
 * call. */
bool collector_post(struct collector *collector, const char *body, size_t size,
                    struct collector_answer *answer, char reason[COLLECTOR_REASON_MAX]);

/* Waits until the time on the monotonic clock, or until collector->ends_ns is set. */
void collector_wait(struct collector *collector, int64_t until_ns);

/* Closes the connection, if there is one. */
void collector_close(struct collector *collector);

#endif
