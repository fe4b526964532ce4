/* softmax_call.h - POST /v1/softmax: a softmax along any axis (API_CALLS.md). */
#ifndef ATTND_SOFTMAX_CALL_H
#define ATTND_SOFTMAX_CALL_H

#include "http/http.h"

void softmax_handle(struct exchange *exchange);

#endif
