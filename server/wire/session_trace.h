/* session_trace.h - the wire of traces over a session (API_SESSIONS.md): the fields of a trace, the
 * session by the path, and its lengths in the answer. */
#ifndef ATTND_SESSION_TRACE_H
#define ATTND_SESSION_TRACE_H

#include "forward/trace_wire.h"

extern const struct trace_wire session_trace_wire;

#endif
