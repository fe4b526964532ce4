/* SPDX-License-Identifier: Apache-2.0 */
/* trace_context.h - which trace a request belongs to, and whether its span is sent.
 *
 * A client says it by the headers traceparent and tracestate
 * (https://www.w3.org/TR/trace-context/). */
#ifndef ATTND_TRACE_CONTEXT_H
#define ATTND_TRACE_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRACE_ID_BYTES = 16, SPAN_ID_BYTES = 8, TRACE_STATE_MAX = 512 };
enum { TRACE_FLAG_SAMPLED = 1 };

struct trace_context {
    uint8_t trace_id[TRACE_ID_BYTES];
    uint8_t span_id[SPAN_ID_BYTES];   /* of the request's own span */
    uint8_t parent_id[SPAN_ID_BYTES]; /* of the client's span, where there is one */
    uint8_t flags;                    /* TRACE_FLAG_SAMPLED and what else the client sent */
    bool has_parent;
};

/* Which spans are sent, as OTEL_TRACES_SAMPLER says it
 * (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/). */
struct trace_sampler {
    bool by_parent; /* where the client has decided, its decision counts */
    uint64_t bound; /* of the last 63 bits of a trace id, which are sampled below it; 2^63: all */
};

enum { TRACE_RATIO_BITS = 63 };

/* Reads a traceparent. False, with *context as it was, for what is none, or NULL. Else trace_id,
 * parent_id, flags and has_parent are set. */
bool trace_context_read(struct trace_context *context, const char *traceparent);

/* Begins the span of a request: in the trace of its client where traceparent is good, else in a
 * trace of its own. *context is set whole; TRACE_FLAG_SAMPLED in it says whether the span is
 * sent. */
void trace_context_begin(struct trace_context *context, const char *traceparent,
                         const struct trace_sampler *sampler);

/* Writes size bytes as 2 * size hexadecimal digits, in lower case. Returns the end of what it
 * wrote; there is no NUL. */
char *trace_hex(char *out, const uint8_t *bytes, size_t size);

/* Copies a tracestate for a span. One with other bytes than visible ASCII and blanks is left out
 * whole; a list of more than TRACE_STATE_MAX bytes loses its last members, as the specification
 * wants it. NULL is "". Returns the length. */
size_t trace_state_copy(char out[TRACE_STATE_MAX + 1], const char *tracestate);

/* Where spans are sent, and which. */

enum { SPAN_HOST_MAX = 253, SPAN_TARGET_MAX = 1024, SPAN_RESOURCE_MAX = 8192 };

struct span_options {
    bool is_on;                   /* false: no spans, and nothing below counts */
    char host[SPAN_HOST_MAX + 1]; /* a name or an address; one of IPv6 without brackets */
    bool host_is_name;            /* the resolver looks it up, for each connection */
    int port;
    char target[SPAN_TARGET_MAX]; /* of the request: "/v1/traces" */
    struct trace_sampler sampler;
    int queue_max;      /* requests that wait to be sent */
    int64_t delay_ns;   /* between two looks at the queue */
    int64_t timeout_ns; /* of one post */

    char resource[SPAN_RESOURCE_MAX]; /* the JSON array of attributes that describe this daemon */
};

#endif
