/* metrics.c - see metrics.h.
 *
 * Everything has its place from the start: a route's counters are an array over
 * all HTTP statuses, which costs address space and, page by page, only as much
 * memory as there are different answers. A page is read while others count, so
 * the numbers on it are each true but not of one instant; a histogram's count is
 * made from its buckets, so that those two never disagree. */
#include "metrics.h"

#include "process_metrics.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { STATUS_FIRST = 100, STATUS_LAST = 599, STATUS_COUNT = STATUS_LAST - STATUS_FIRST + 1 };
enum { LABELS_BYTES_MAX = 128 };

static const double BUCKET_BOUNDS[] = { 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                        0.25,   0.5,   1,      2.5,   5,    10,    30,   60 };
enum { BOUND_COUNT = sizeof BUCKET_BOUNDS / sizeof BUCKET_BOUNDS[0] };

struct histogram {
    _Atomic uint64_t buckets[BOUND_COUNT + 1]; /* not cumulative; the last is beyond all bounds */
    _Atomic int64_t sum_ns;
};

struct route_metrics {
    const char *method, *pattern;
    char labels[LABELS_BYTES_MAX]; /* both, as the page has them */
    _Atomic uint64_t requests[STATUS_COUNT];
    _Atomic uint64_t request_bytes, answer_bytes;
    struct histogram duration;
};

enum stage { STAGE_PARSE, STAGE_QUEUE, STAGE_COMPUTE, STAGE_WRITE, STAGE_COUNT };
static const char *const STAGE_NAMES[] = { "parse", "queue", "compute", "write" };

static const char *const REFUSED_REASONS[] = { "overloaded", "deadline", "draining", "left",
                                               "other" };
enum { REASON_COUNT = sizeof REFUSED_REASONS / sizeof REFUSED_REASONS[0] };

static const struct gauge {
    const char *name, *help;
} GAUGES[METRICS_GAUGE_COUNT] = {
    [METRICS_QUEUE_JOBS] = { "attnd_queue_jobs", "Jobs accepted and not yet done." },
    [METRICS_CONNECTIONS] = { "attnd_connections", "Open connections." },
    [METRICS_REQUESTS_ACTIVE] = { "attnd_requests_active",
                                  "Requests between their first byte and their answer." },
    [METRICS_MODELS_READY] = { "attnd_models_ready", "Models that are served." },
    [METRICS_MODELS_FAILED] = { "attnd_models_failed", "Models that failed to load." },
    [METRICS_CONVERTED_BYTES] = { "attnd_converted_parameter_bytes",
                                  "Memory of parameters that are no F32 in their file, as floats; "
                                  "what --model-memory-max bounds." },
    [METRICS_WORKERS] = { "attnd_workers", "Threads that compute." },
    [METRICS_READY] = { "attnd_ready", "1 where /readyz answers 200, else 0." },
};

static struct {
    struct route_metrics routes[METRICS_ROUTES_MAX];
    int route_count;
    struct histogram stages[STAGE_COUNT];
    _Atomic uint64_t items;
    _Atomic uint64_t refused[REASON_COUNT];
    _Atomic int64_t gauges[METRICS_GAUGE_COUNT];
    const char *version, *kernels, *blas_core;
} all;

/* --------------------------------------------------------------- counting -- */

static void count(_Atomic uint64_t *counter, uint64_t difference)
{
    atomic_fetch_add_explicit(counter, difference, memory_order_relaxed);
}

static uint64_t value_of(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void observe(struct histogram *histogram, int64_t duration_ns)
{
    const int64_t ns = duration_ns > 0 ? duration_ns : 0;
    const double seconds = (double)ns / 1e9;
    int bucket = 0;
    while (bucket < BOUND_COUNT && seconds > BUCKET_BOUNDS[bucket])
        bucket++;
    count(&histogram->buckets[bucket], 1);
    atomic_fetch_add_explicit(&histogram->sum_ns, ns, memory_order_relaxed);
}

int metrics_route(const char *method, const char *pattern)
{
    for (int i = 0; i < all.route_count; i++)
        if (strcmp(all.routes[i].method, method) == 0
            && strcmp(all.routes[i].pattern, pattern) == 0)
            return i;
    assert(all.route_count < METRICS_ROUTES_MAX);
    struct route_metrics *route = &all.routes[all.route_count];
    route->method = method;
    route->pattern = pattern;
    const int length = snprintf(route->labels, sizeof route->labels, "method=\"%s\",route=\"%s\"",
                                method, pattern);
    assert(length > 0 && length < LABELS_BYTES_MAX);
    (void)length;
    return all.route_count++;
}

void metrics_request(int route, int status, int64_t duration_ns, size_t request_bytes,
                     size_t answer_bytes)
{
    assert(route >= 0 && route < all.route_count);
    assert(status >= STATUS_FIRST && status <= STATUS_LAST);
    struct route_metrics *metrics = &all.routes[route];
    count(&metrics->requests[status - STATUS_FIRST], 1);
    count(&metrics->request_bytes, request_bytes);
    count(&metrics->answer_bytes, answer_bytes);
    observe(&metrics->duration, duration_ns);
}

void metrics_inference(const struct request_record *record)
{
    observe(&all.stages[STAGE_PARSE], record->parse_ns);
    observe(&all.stages[STAGE_QUEUE], record->queue_ns);
    observe(&all.stages[STAGE_COMPUTE], record->compute_ns);
    observe(&all.stages[STAGE_WRITE], record->write_ns);
    count(&all.items, (uint64_t)record->item_count);
}

void metrics_refused(const char *reason)
{
    int i = 0;
    while (i < REASON_COUNT - 1 && strcmp(REFUSED_REASONS[i], reason) != 0)
        i++;
    count(&all.refused[i], 1);
}

void metrics_gauge_add(enum metrics_gauge gauge, int64_t difference)
{
    atomic_fetch_add_explicit(&all.gauges[gauge], difference, memory_order_relaxed);
}

void metrics_gauge_set(enum metrics_gauge gauge, int64_t value)
{
    atomic_store_explicit(&all.gauges[gauge], value, memory_order_relaxed);
}

void metrics_build_info(const char *version, const char *kernels, const char *blas_core)
{
    all.version = version;
    all.kernels = kernels;
    all.blas_core = blas_core;
}

/* ---------------------------------------------------------------- writing -- */

static void write_family(struct text *text, const char *name, const char *type, const char *help)
{
    text_format(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_unsigned(struct text *text, uint64_t value)
{
    text_format(text, " %llu\n", (unsigned long long)value);
}

/* One histogram of a family; labels is what stands in the braces before le. */
static void write_histogram(struct text *text, const char *name, const char *labels,
                            const struct histogram *histogram)
{
    uint64_t total = 0;
    for (int i = 0; i <= BOUND_COUNT; i++) {
        total += value_of(&histogram->buckets[i]);
        text_format(text, "%s_bucket{%s,le=\"", name, labels);
        if (i < BOUND_COUNT)
            text_format(text, "%g\"}", BUCKET_BOUNDS[i]);
        else
            text_raw(text, "+Inf\"}");
        write_unsigned(text, total);
    }
    const int64_t sum_ns = atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed);
    text_format(text, "%s_sum{%s} %.9f\n", name, labels, (double)sum_ns / 1e9);
    text_format(text, "%s_count{%s}", name, labels);
    write_unsigned(text, total);
}

static void write_requests(struct text *text)
{
    write_family(text, "attnd_requests_total", "counter", "Requests answered.");
    for (int i = 0; i < all.route_count; i++)
        for (int j = 0; j < STATUS_COUNT; j++) {
            const uint64_t requests = value_of(&all.routes[i].requests[j]);
            if (requests > 0) {
                text_format(text, "attnd_requests_total{%s,status=\"%d\"}", all.routes[i].labels,
                            STATUS_FIRST + j);
                write_unsigned(text, requests);
            }
        }
    write_family(text, "attnd_request_bytes_total", "counter", "Bytes of request bodies.");
    for (int i = 0; i < all.route_count; i++) {
        text_format(text, "attnd_request_bytes_total{%s}", all.routes[i].labels);
        write_unsigned(text, value_of(&all.routes[i].request_bytes));
    }
    write_family(text, "attnd_answer_bytes_total", "counter", "Bytes of answers' bodies.");
    for (int i = 0; i < all.route_count; i++) {
        text_format(text, "attnd_answer_bytes_total{%s}", all.routes[i].labels);
        write_unsigned(text, value_of(&all.routes[i].answer_bytes));
    }
    write_family(text, "attnd_request_duration_seconds", "histogram",
                 "From a request's first byte to the hand-over of its answer.");
    for (int i = 0; i < all.route_count; i++)
        write_histogram(text, "attnd_request_duration_seconds", all.routes[i].labels,
                        &all.routes[i].duration);
}

static void write_inferences(struct text *text)
{
    write_family(text, "attnd_inference_stage_seconds", "histogram",
                 "The stages of inferences that were answered well.");
    for (int i = 0; i < STAGE_COUNT; i++) {
        char labels[LABELS_BYTES_MAX];
        snprintf(labels, sizeof labels, "stage=\"%s\"", STAGE_NAMES[i]);
        write_histogram(text, "attnd_inference_stage_seconds", labels, &all.stages[i]);
    }
    write_family(text, "attnd_inference_items_total", "counter",
                 "Batch items of inferences that were answered well.");
    text_raw(text, "attnd_inference_items_total");
    write_unsigned(text, value_of(&all.items));
    write_family(text, "attnd_refused_total", "counter", "Inferences refused, by reason.");
    for (int i = 0; i < REASON_COUNT; i++) {
        text_format(text, "attnd_refused_total{reason=\"%s\"}", REFUSED_REASONS[i]);
        write_unsigned(text, value_of(&all.refused[i]));
    }
}

static void write_gauges(struct text *text)
{
    for (int i = 0; i < METRICS_GAUGE_COUNT; i++) {
        write_family(text, GAUGES[i].name, "gauge", GAUGES[i].help);
        text_format(text, "%s %lld\n", GAUGES[i].name,
                    (long long)atomic_load_explicit(&all.gauges[i], memory_order_relaxed));
    }
    if (!all.version)
        return;
    write_family(text, "attnd_build_info", "gauge", "What runs; always 1.");
    text_format(text, "attnd_build_info{version=\"%s\",kernels=\"%s\",blas_core=\"%s\"} 1\n",
                all.version, all.kernels, all.blas_core);
}

/* No label needs an escape: all are constants of ours or names that OpenBLAS gives its kernels. */
void metrics_write(struct text *text)
{
    write_requests(text);
    write_inferences(text);
    write_gauges(text);
    process_metrics_write(text);
}
