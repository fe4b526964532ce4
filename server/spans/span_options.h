/* span_options.h - where spans are sent, and which. */
#ifndef ATTND_SPAN_OPTIONS_H
#define ATTND_SPAN_OPTIONS_H

#include "spans/trace_context.h"

enum { SPAN_HOST_MAX = 255, SPAN_TARGET_MAX = 1024, SPAN_RESOURCE_MAX = 8192 };

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
