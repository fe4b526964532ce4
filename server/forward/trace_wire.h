/* trace_wire.h - how an endpoint's bytes become a trace's request, and its results bytes again; as
 * infer_wire.h for attention. */
#ifndef ATTND_TRACE_WIRE_H
#define ATTND_TRACE_WIRE_H

#include "formats/format.h"
#include "forward/trace.h"
#include "infer/call.h"

struct trace_wire;

/* A trace on its way through a wire. */
struct trace_call {
    struct call base; /* first: the call of a trace is its trace_call */
    const struct trace_wire *wire;
    void *state;                 /* the wire's own, in the request's arena; begin makes it */
    struct format_body form;     /* what the message of the body refers to */
    const struct format *answer; /* the format of the answer; NULL: the wire's own */
    struct trace_request request;
    struct infer_limits limits;
};

struct trace_wire {
    bool (*begin)(struct trace_call *call, const struct exchange *exchange,
                  struct fault *fault); /* NULL: the body has to be JSON */
    bool (*read)(struct trace_call *call, struct fault *fault);
    void (*explain)(const struct trace_call *call,
                    struct fault *fault); /* NULL: a plan's faults are in the wire's words */
    bool (*write)(struct trace_call *call, struct fault *fault);
    void (*drop)(
        struct trace_call *call); /* with the request, perhaps twice; NULL: nothing to do */
};

#endif
