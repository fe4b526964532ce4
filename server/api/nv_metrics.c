/* SPDX-License-Identifier: Apache-2.0 */
/* nv_metrics.c - see nv_metrics.h.
 *
 * Triton's metrics of a model are the numbers of the statistics extension, so they are read from
 * struct model_statistics. Times are in microseconds and of inferences that were answered well. */
#include "api/nv_metrics.h"

#include "telemetry/metrics_text.h"
#include "telemetry/model_statistics.h"

#include <stddef.h>

static const char *const FAILURE_REASONS[MODEL_FAILURE_COUNT] = {
    [MODEL_FAILURE_REJECTED] = "REJECTED",
    [MODEL_FAILURE_CANCELED] = "CANCELED",
    [MODEL_FAILURE_BACKEND] = "BACKEND",
    [MODEL_FAILURE_OTHER] = "OTHER",
};

/* One metric, made of one number of struct model_statistics. */
struct family {
    const char *name, *type, *help;
    size_t offset;
    int64_t divisor; /* 1000 where nanoseconds become microseconds */
};

#define AT(member) offsetof(struct model_statistics, member)

static const struct family FAMILIES[] = {
    { "nv_inference_request_success", "counter", "Requests that were answered well.",
      AT(success.count), 1 },
    { "nv_inference_count", "counter", "Batch items that were answered well.", AT(inference_count),
      1 },
    { "nv_inference_exec_count", "counter", "Times that some of them were computed together.",
      AT(execution_count), 1 },
    { "nv_inference_request_duration_us", "counter", "All of their time.", AT(success.ns), 1000 },
    { "nv_inference_queue_duration_us", "counter", "The part of it in the queue.", AT(queue.ns),
      1000 },
    { "nv_inference_compute_input_duration_us", "counter", "The part of it that read the request.",
      AT(compute_input.ns), 1000 },
    { "nv_inference_compute_infer_duration_us", "counter", "The part of it that computed.",
      AT(compute_infer.ns), 1000 },
    { "nv_inference_compute_output_duration_us", "counter", "The part of it that wrote the answer.",
      AT(compute_output.ns), 1000 },
    { "nv_inference_pending_request_count", "gauge",
      "Requests that have been read and wait to be computed.", AT(pending_count), 1 },
};
enum { FAMILY_COUNT = sizeof FAMILIES / sizeof FAMILIES[0] };

struct page {
    struct text *text;
    const struct family *family; /* NULL: the failures */
};

/* Writes name{ and the labels of model and version; the caller writes further labels and the brace
 * that closes. */
static void write_labels(struct text *text, const char *name, const struct model *model)
{
    text_raw(text, name);
    text_raw(text, "{");
    metrics_write_label(text, "model", model->name);
    text_format(text, ",version=\"%lld\"", (long long)model->version);
}

static void write_failures(struct text *text, const struct model *model)
{
    for (int i = 0; i < MODEL_FAILURE_COUNT; i++) {
        const int64_t count =
            atomic_load_explicit(&model->statistics->failures[i], memory_order_relaxed);
        write_labels(text, "nv_inference_request_failure", model);
        text_format(text, ",reason=\"%s\"} %lld\n", FAILURE_REASONS[i], (long long)count);
    }
}

static void write_model(void *context, const struct model_listing *listing)
{
    const struct page *page = context;
    const struct family *family = page->family;
    if (!listing->model)
        return;
    if (!family) {
        write_failures(page->text, listing->model);
        return;
    }
    const _Atomic int64_t *value =
        (const _Atomic int64_t *)((const char *)listing->model->statistics + family->offset);
    write_labels(page->text, family->name, listing->model);
    text_format(page->text, "} %lld\n",
                (long long)(atomic_load_explicit(value, memory_order_relaxed) / family->divisor));
}

void nv_metrics_write(struct text *text, struct model_store *store)
{
    struct page page = { .text = text };
    metrics_write_family(text, "nv_inference_request_failure", "counter",
                         "Requests that failed, by reason.");
    model_store_each(store, NULL, write_model, &page);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        page.family = &FAMILIES[i];
        metrics_write_family(text, FAMILIES[i].name, FAMILIES[i].type, FAMILIES[i].help);
        model_store_each(store, NULL, write_model, &page);
    }
}
