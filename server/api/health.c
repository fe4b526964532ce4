/* SPDX-License-Identifier: Apache-2.0 */
/* health.c - see health.h. */
#include "api/health.h"

#include "call/service.h"

void health_live(struct exchange *exchange)
{
    struct text text;
    text_init(&text, 256);
    text_raw(&text, "{\"live\":true}\n");
    exchange_reply_text(exchange, 200, "application/json", &text);
}

void health_ready(struct exchange *exchange)
{
    struct service *service = exchange_context(exchange);
    const int state = atomic_load(&service->state);
    struct text text;
    text_init(&text, 256);
    if (state == SERVICE_SERVING)
        text_raw(&text, "{\"ready\":true}\n");
    else
        text_format(&text, "{\"ready\":false,\"reason\":\"%s\"}\n",
                    state == SERVICE_LOADING ? "loading" : "draining");
    exchange_reply_text(exchange, state == SERVICE_SERVING ? 200 : 503, "application/json", &text);
}
