/* SPDX-License-Identifier: Apache-2.0 */
/* oip_statistics.c - the statistics extension: what each model has answered since it was loaded.
 *
 * Nothing is cached and every request has one answer, so the members about a cache are 0 and those
 * about several answers are empty. They are written because clients read them. Source: Triton
 * Inference Server, docs/protocol/extension_statistics.md. */
#include "api/oip_handlers.h"

#include "api/oip_model.h"
#include "call/service.h"
#include "telemetry/model_statistics.h"

static int64_t value_of(const _Atomic int64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void write_integer(struct text *text, const char *key, const _Atomic int64_t *counter)
{
    text_key(text, key);
    text_integer(text, value_of(counter));
}

static void write_duration(struct text *text, const char *key,
                           const struct model_duration *duration)
{
    text_key(text, key);
    text_raw(text, "{");
    write_integer(text, "count", &duration->count);
    text_raw(text, ",");
    write_integer(text, "ns", &duration->ns);
    text_raw(text, "}");
}

struct named_duration {
    const char *key;
    const struct model_duration *duration;
};

static void write_durations(struct text *text, const struct named_duration *durations, int count)
{
    for (int i = 0; i < count; i++) {
        text_raw(text, i > 0 ? "," : "");
        write_duration(text, durations[i].key, durations[i].duration);
    }
}

static void write_batches(struct text *text, const struct model_statistics *statistics)
{
    for (int i = 0; i < MODEL_BATCH_SIZES_MAX; i++) {
        const struct model_batch_statistics *batch = &statistics->batches[i];
        const struct named_duration durations[] = {
            { "compute_input", &batch->compute_input },
            { "compute_infer", &batch->compute_infer },
            { "compute_output", &batch->compute_output },
        };
        if (value_of(&batch->batch_size) == 0)
            break;
        text_raw(text, i > 0 ? ",{" : "{");
        write_integer(text, "batch_size", &batch->batch_size);
        text_raw(text, ",");
        write_durations(text, durations, 3);
        text_raw(text, "}");
    }
}

static void write_model(struct text *text, const struct model *model)
{
    static const struct model_duration none;
    const struct model_statistics *statistics = model->statistics;
    const struct named_duration durations[] = {
        { "success", &statistics->success },
        { "fail", &statistics->fail },
        { "queue", &statistics->queue },
        { "compute_input", &statistics->compute_input },
        { "compute_infer", &statistics->compute_infer },
        { "compute_output", &statistics->compute_output },
        { "cache_hit", &none },
        { "cache_miss", &none },
    };
    text_raw(text, "{\"name\":");
    text_string(text, model->name);
    text_raw(text, ",\"version\":\"");
    text_integer(text, model->version);
    text_raw(text, "\",");
    write_integer(text, "last_inference", &statistics->last_inference_ms);
    text_raw(text, ",");
    write_integer(text, "inference_count", &statistics->inference_count);
    text_raw(text, ",");
    write_integer(text, "execution_count", &statistics->execution_count);
    text_raw(text, ",\"inference_stats\":{");
    write_durations(text, durations, sizeof durations / sizeof durations[0]);
    text_raw(text, "},\"response_stats\":{},\"batch_stats\":[");
    write_batches(text, statistics);
    text_raw(text, "],\"memory_usage\":[{\"type\":\"CPU\",\"id\":0,\"byte_size\":");
    text_integer(text, model->parameter_bytes);
    text_raw(text, "}]}");
}

static void reply(struct exchange *exchange, struct text *text)
{
    text_raw(text, "]}\n");
    exchange_reply_text(exchange, 200, "application/json", text);
}

static void statistics_begin(struct exchange *exchange, struct text *text)
{
    const struct service *service = exchange_context(exchange);
    text_init(text, service->config->answer_bytes_max);
    text_raw(text, "{\"model_stats\":[");
}

void oip_statistics_one(struct exchange *exchange)
{
    struct model *model;
    struct fault fault;
    struct text text;
    if (!oip_model_find(exchange, NULL, &model, &fault)) {
        exchange_fail(exchange, &fault);
        return;
    }
    statistics_begin(exchange, &text);
    write_model(&text, model);
    model_release(model);
    reply(exchange, &text);
}

struct all {
    struct text text;
    bool some;
};

static void write_listing(void *context, const struct model_listing *listing)
{
    struct all *all = context;
    if (!listing->model)
        return;
    text_raw(&all->text, all->some ? "," : "");
    write_model(&all->text, listing->model);
    all->some = true;
}

void oip_statistics_all(struct exchange *exchange)
{
    struct service *service = exchange_context(exchange);
    struct all all = { .some = false };
    struct fault fault;
    if (!service_accepts(service, &fault)) {
        exchange_fail(exchange, &fault);
        return;
    }
    statistics_begin(exchange, &all.text);
    model_store_each(service->store, NULL, write_listing, &all);
    reply(exchange, &all.text);
}
