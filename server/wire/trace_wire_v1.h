/* trace_wire_v1.h - the wires of traces in the native API. */
#ifndef ATTND_TRACE_WIRE_V1_H
#define ATTND_TRACE_WIRE_V1_H

#include "forward/trace_wire.h"

extern const struct trace_wire trace_wire_v1_single, trace_wire_v1_batch;

#endif
