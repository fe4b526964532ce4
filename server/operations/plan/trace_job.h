/* SPDX-License-Identifier: Apache-2.0 */
/* trace_job.h - a trace as a call (call/call.h), for whichever operation. */
#ifndef ATTND_TRACE_JOB_H
#define ATTND_TRACE_JOB_H

#include "call/infer_job.h"
#include "operations/session/session.h"
#include "operations/trace/trace.h"

/* The kind of operations that fill a trace_request. */
extern const struct call_kind trace_kind;

/* The work of such a call begins with its request. */
static inline struct trace_request *trace_request_of(const struct call *call)
{
    return call->work;
}

/* A trace whose tokens continue those of a session (trace_session.c): the pass computes the new
 * tokens alone, and every layer appends their keys and values to the session's.
 *
 * An operation finds the session and begins the call with it, which takes its turn; the trace is
 * planned when its turn is reached. A trace that fails, whose client leaves before it is computed,
 * or whose deadline passes has appended nothing. */

/* On the connection thread, in begin of the operation. Takes the session over. */
bool trace_session_begin(struct call *call, struct session *session, struct fault *fault);

/* When the request has its item: whether the session's model can go on with it. */
bool trace_session_take(struct call *call, struct fault *fault);

/* For the answer: the session that the trace continues, and its length afterwards. */
const struct session *trace_session_of(const struct call *call);

/* For the operation's drop: gives the turn and the session back. */
void trace_session_drop(struct call *call);

#endif
