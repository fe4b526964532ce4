/* collector.h - one connection to an OpenTelemetry collector, over which batches are posted.
 *
 * HTTP/1.1 over TCP, one request at a time. Every call ends by its deadline, whatever the other
 * side does; only a name that the resolver looks up may take longer. For one thread. */
#ifndef ATTND_COLLECTOR_H
#define ATTND_COLLECTOR_H

#include "spans/collector_answer.h"
#include "spans/span_options.h"

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
