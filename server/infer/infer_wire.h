/* infer_wire.h - how an endpoint's bytes become a request, and a request's results bytes again.
 *
 * A wire reads and writes on a worker. What it needs of the exchange beside the body, it takes on
 * the connection thread, in begin. */
#ifndef ATTND_INFER_WIRE_H
#define ATTND_INFER_WIRE_H

#include "formats/format.h"
#include "infer/call.h"
#include "infer/infer.h"

struct infer_wire;

struct infer_call;

/* An inference on its way through a wire. */
struct infer_call {
    struct call base; /* first: the call of an inference is its infer_call */
    const struct infer_wire *wire;
    void *state;                 /* the wire's own, in the request's arena; begin makes it */
    struct format_body form;     /* what the message of the body refers to */
    const struct format *answer; /* the format of the answer; NULL: the wire's own */
    struct infer_request request;
    struct infer_limits limits;
};

struct infer_wire {
    bool (*begin)(struct infer_call *call, const struct exchange *exchange,
                  struct fault *fault); /* NULL: the body has to be JSON */
    bool (*read)(struct infer_call *call, struct fault *fault);
    void (*explain)(const struct infer_call *call,
                    struct fault *fault); /* NULL: a plan's faults are in the wire's words */
    bool (*write)(struct infer_call *call, struct fault *fault);
    void (*drop)(
        struct infer_call *call); /* with the request, perhaps twice; NULL: nothing to do */
};

/* Reads size bytes of the body as JSON into call->base.document. */
static inline bool infer_wire_read_json(struct infer_call *call, const void *bytes, size_t size,
                                        struct fault *fault)
{
    return call_read_json(&call->base, bytes, size, call->request.nonfinite_allowed, fault);
}

#endif
