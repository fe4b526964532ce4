/* trace_handlers.c - see trace_handlers.h. */
#include "api/trace_handlers.h"

#include "operations/pass/trace_job.h"
#include "operations/trace.h"

void trace_handle(struct exchange *exchange)
{
    operation_handle(exchange, &trace_single);
}

void trace_handle_batch(struct exchange *exchange)
{
    operation_handle(exchange, &trace_batch);
}

void trace_handle_session(struct exchange *exchange)
{
    operation_handle(exchange, &trace_of_session);
}
