/* infer_handlers.h - POST /v1/attention, its batch form, its gradients and the merging of partial
 * answers; and inference in the Open Inference Protocol. Each handler starts a job with the
 * operation of its endpoint. */
#ifndef ATTND_INFER_HANDLERS_H
#define ATTND_INFER_HANDLERS_H

#include "call/service.h"
#include "http/http.h"

void infer_handle_attention(struct exchange *exchange);
void infer_handle_batch(struct exchange *exchange);
void infer_handle_merge(struct exchange *exchange);
void infer_handle_gradients(struct exchange *exchange);
void infer_handle_session(struct exchange *exchange);  /* of the path */
void infer_handle_sessions(struct exchange *exchange); /* of the items */
void infer_handle_oip(struct exchange *exchange);

/* Computes one small attention from JSON to JSON. A daemon that says it is ready has thereby run
 * all the code once. */
bool infer_handlers_warm_up(struct service *service, struct fault *fault);

#endif
