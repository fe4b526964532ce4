/* trace_handlers.h - POST /v1/trace and its batch form. */
#ifndef ATTND_TRACE_HANDLERS_H
#define ATTND_TRACE_HANDLERS_H

#include "http/http.h"

void trace_handle(struct exchange *exchange);
void trace_handle_batch(struct exchange *exchange);
void trace_handle_session(struct exchange *exchange);

#endif
