/* trace.h - traces as an operation: one, a batch, and one over a session. */
#ifndef ATTND_OPERATION_TRACE_H
#define ATTND_OPERATION_TRACE_H

#include "infer/operation.h"

extern const struct operation trace_single, trace_batch, trace_of_session;

#endif
