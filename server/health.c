/* health.c - is the daemon alive, is it ready, and its metrics. */
#include "health.h"

#include "metrics.h"
#include "metrics_text.h"
#include "nv_metrics.h"
#include "service.h"

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

void health_metrics(struct exchange *exchange)
{
    const struct service *service = exchange_context(exchange);
    struct text text;
    /* The aliases are as many as there are models. */
    text_init(&text, service->config->metrics_nv_aliases
                         ? METRICS_PAGE_BYTES_MAX + service->config->answer_bytes_max
                         : METRICS_PAGE_BYTES_MAX);
    metrics_write(&text);
    metrics_write_family(&text, "attnd_queue_cost_seconds", "gauge",
                         "Predicted time of one worker for what is accepted and not yet done.");
    text_format(&text, "attnd_queue_cost_seconds %.9f\n",
                (double)scheduler_load(service->scheduler).cost_ns / 1e9);
    if (service->config->metrics_nv_aliases && atomic_load(&service->state) != SERVICE_LOADING)
        nv_metrics_write(&text, service->store);
    exchange_reply_text(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", &text);
}
