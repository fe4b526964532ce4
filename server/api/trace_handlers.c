/* trace_handlers.c - see trace_handlers.h. */
#include "api/trace_handlers.h"

#include "forward/trace_wire.h"
#include "wire/session_trace.h"
#include "wire/trace_wire_v1.h"

void trace_handle(struct exchange *exchange)
{
    trace_job_handle(exchange, &trace_wire_v1_single);
}

void trace_handle_batch(struct exchange *exchange)
{
    trace_job_handle(exchange, &trace_wire_v1_batch);
}

void trace_handle_session(struct exchange *exchange)
{
    trace_job_handle(exchange, &session_trace_wire);
}
