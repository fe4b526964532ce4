/* trace_wire.h - how an endpoint's bytes become a trace's request, and its results bytes again; as
 * infer_wire.h for attention. */
#ifndef ATTND_TRACE_WIRE_H
#define ATTND_TRACE_WIRE_H

#include "formats/format.h"
#include "forward/trace.h"
#include "infer/call.h"
#include "session/session.h"

struct infer_call;
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

/* In a handler: takes the body, and answers when all is computed. */
void trace_job_handle(struct exchange *exchange, const struct trace_wire *wire);

/* The memory that an inference needs to become a trace (infer_job_handle_in()). */
size_t trace_job_bytes(void);

/* Turns an inference, whose wire has read that it asks for a trace, into one; wire->begin is not
 * called. Limits, arena and the wire's state are those of the inference, whose request has no items
 * yet. */
void trace_job_take(struct infer_call *call, const struct trace_wire *wire);

/* A trace whose tokens continue those of a session (trace_session.c): the pass computes the new
 * tokens alone, and every layer appends their keys and values to the session's.
 *
 * A wire finds the session and begins the call with it, which takes its turn; the trace is planned
 * when its turn is reached. A trace that fails, whose client leaves before it is computed, or whose
 * deadline passes has appended nothing. */

/* On the connection thread, in begin of the wire. Takes the session over. */
bool trace_session_begin(struct trace_call *call, struct session *session, struct fault *fault);

/* When the request has its item: whether the session's model can go on with it. */
bool trace_session_take(struct trace_call *call, struct fault *fault);

/* For the answer: the session that the trace continues, and its length afterwards. */
const struct session *trace_session_of(const struct trace_call *call);

/* For the wire's drop: gives the turn and the session back. */
void trace_session_drop(struct trace_call *call);

#endif
