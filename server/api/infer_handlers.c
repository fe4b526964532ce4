/* infer_handlers.c - see infer_handlers.h. */
#include "api/infer_handlers.h"

#include "operations/attention.h"
#include "operations/oip.h"
#include "operations/session_attention.h"

void infer_handle_attention(struct exchange *exchange)
{
    operation_handle(exchange, &attention_single);
}

void infer_handle_batch(struct exchange *exchange)
{
    operation_handle(exchange, &attention_batch);
}

void infer_handle_merge(struct exchange *exchange)
{
    operation_handle(exchange, &attention_merge);
}

void infer_handle_gradients(struct exchange *exchange)
{
    operation_handle(exchange, &attention_gradients);
}

void infer_handle_session(struct exchange *exchange)
{
    operation_handle(exchange, &session_attention_of_path);
}

void infer_handle_sessions(struct exchange *exchange)
{
    operation_handle(exchange, &session_attention_of_items);
}

void infer_handle_oip(struct exchange *exchange)
{
    operation_handle(exchange, &oip_infer);
}

bool infer_handlers_warm_up(struct service *service, struct fault *fault)
{
    static const char body[] = "{\"model\":\"demo\",\"query\":[[1,0,0],[0,1,0],[1,1,0],[0,0,1]]}";
    return operation_try(service, &attention_single, (struct byte_slice){ body, sizeof body - 1 },
                         fault);
}
