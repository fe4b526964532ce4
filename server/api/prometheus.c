/* SPDX-License-Identifier: Apache-2.0 */
/* prometheus.c - see prometheus.h. */
#include "api/prometheus.h"

#include "access/access_keys.h"
#include "api/nv_metrics.h"
#include "call/service.h"
#include "scheduler/cost.h"
#include "telemetry/log_writer.h"
#include "telemetry/metrics.h"
#include "telemetry/metrics_inference.h"
#include "telemetry/metrics_text.h"
#include "telemetry/span_exporter.h"

static void write_number(struct text *text, const char *name, const char *type, const char *help,
                         uint64_t value)
{
    metrics_write_family(text, name, type, help);
    metrics_write_sample(text, name, "", value);
}

static void write_memory(struct text *text)
{
    const struct memory_budget_state memory = memory_budget_state();
    write_number(text, "attnd_memory_in_flight_bytes", "gauge",
                 "Memory reserved by the requests in flight.", memory.used_bytes);
    write_number(text, "attnd_memory_bodies_bytes", "gauge",
                 "The part of it that bodies take until answered.", memory.body_bytes);
    write_number(text, "attnd_memory_max_bytes", "gauge", "The most of it, see --memory-max.",
                 memory.bytes_max);
    write_number(text, "attnd_memory_refused_total", "counter", "Reservations that had no room.",
                 memory.refused_count);
}

void prometheus_write(struct text *text)
{
    metrics_write_requests(text);
    metrics_inference_write(text);
    metrics_write_counts(text);
    connection_metrics_write(text);
    cost_write_metrics(text);
    batch_metrics_write(text);
    write_memory(text);
    write_number(text, "attnd_log_lines_dropped_total", "counter",
                 "Lines of the log that nobody took.", log_writer_dropped());
    process_metrics_write(text);
}

void prometheus_get(struct exchange *exchange)
{
    const struct service *service = exchange_context(exchange);
    struct text text;
    /* The aliases need room for each model. */
    text_init(&text, service->config->metrics_nv_aliases
                         ? PROMETHEUS_BYTES_MAX + service->config->answer_bytes_max
                         : PROMETHEUS_BYTES_MAX);
    prometheus_write(&text);
    metrics_write_family(&text, "attnd_queue_cost_seconds", "gauge",
                         "Predicted time of one worker for what is accepted and not yet done.");
    text_format(&text, "attnd_queue_cost_seconds %.9f\n",
                (double)scheduler_load(service->scheduler).cost_ns / 1e9);
    access_metrics_write(service->keys, &text);
    span_exporter_write_metrics(service->spans, &text);
    if (service->config->metrics_nv_aliases && atomic_load(&service->state) != SERVICE_LOADING)
        nv_metrics_write(&text, service->store);
    exchange_reply_text(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", &text);
}
