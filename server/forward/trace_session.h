/* trace_session.h - a trace whose tokens go on from those of a session: the pass computes the new
 * tokens alone, and every layer appends their keys and values to the session's.
 *
 * A wire finds the session and begins the call with it, which takes its turn; the trace is planned
 * when the turn has come. A trace that fails, whose client leaves before it is computed, or whose
 * deadline passes has appended nothing. */
#ifndef ATTND_TRACE_SESSION_H
#define ATTND_TRACE_SESSION_H

#include "forward/trace_wire.h"
#include "session/session.h"

/* On the connection thread, in begin of the wire. Takes the session over. */
bool trace_session_begin(struct trace_call *call, struct session *session, struct fault *fault);

/* When the request has its item: whether the session's model can go on with it. */
bool trace_session_take(struct trace_call *call, struct fault *fault);

/* For the answer: the session that the trace goes on from, and its length afterwards. */
const struct session *trace_session_of(const struct trace_call *call);

/* For the wire's drop: gives the turn and the session back. */
void trace_session_drop(struct trace_call *call);

#endif
