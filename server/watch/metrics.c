/* metrics.c - see metrics.h.
 *
 * All counters are static, so counting never allocates. A route has a counter for every HTTP
 * status: that costs address space, but memory only for the pages of statuses that were answered. A
 * page of metrics is written while other threads count, so each of its numbers is true but they are
 * not of one instant. */
#include "watch/metrics.h"

#include "watch/metrics_text.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { STATUS_FIRST = 100, STATUS_LAST = 599, STATUS_COUNT = STATUS_LAST - STATUS_FIRST + 1 };
enum { LABELS_BYTES_MAX = 128 };

struct route_metrics {
    const char *method, *pattern;
    char labels[LABELS_BYTES_MAX]; /* method and route, as the page writes them */
    _Atomic uint64_t requests[STATUS_COUNT];
    _Atomic uint64_t request_bytes, answer_bytes;
    struct metrics_histogram duration;
};

static const char *const REFUSED_REASONS[] = { "overloaded", "deadline", "draining", "memory",
                                               "other" };
enum { REASON_COUNT = sizeof REFUSED_REASONS / sizeof REFUSED_REASONS[0] };

static const struct gauge {
    const char *name, *help;
} GAUGES[METRICS_GAUGE_COUNT] = {
#define X(name, text, help) { text, help },
    METRICS_GAUGE_MAP(X)
#undef X
};

static struct {
    struct route_metrics routes[METRICS_ROUTES_MAX];
    int route_count;
    _Atomic uint64_t refused[REASON_COUNT];
    _Atomic int64_t gauges[METRICS_GAUGE_COUNT];
    const char *version, *kernels, *precision, *blas_core;
} all;

/* --------------------------------------------------------------- counting -- */

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

const char *metrics_route_pattern(int route)
{
    return all.routes[route].pattern;
}

void metrics_request(int route, int status, int64_t duration_ns, size_t request_bytes,
                     size_t answer_bytes)
{
    assert(route >= 0 && route < all.route_count);
    assert(status >= STATUS_FIRST && status <= STATUS_LAST);
    struct route_metrics *metrics = &all.routes[route];
    metrics_count(&metrics->requests[status - STATUS_FIRST], 1);
    metrics_count(&metrics->request_bytes, request_bytes);
    metrics_count(&metrics->answer_bytes, answer_bytes);
    metrics_observe(&metrics->duration, duration_ns);
}

void metrics_refused(const char *reason)
{
    int i = 0;
    while (i < REASON_COUNT - 1 && strcmp(REFUSED_REASONS[i], reason) != 0)
        i++;
    metrics_count(&all.refused[i], 1);
}

void metrics_gauge_add(enum metrics_gauge gauge, int64_t difference)
{
    atomic_fetch_add_explicit(&all.gauges[gauge], difference, memory_order_relaxed);
}

void metrics_gauge_set(enum metrics_gauge gauge, int64_t value)
{
    atomic_store_explicit(&all.gauges[gauge], value, memory_order_relaxed);
}

void metrics_build_info(const char *version, const char *kernels, const char *precision,
                        const char *blas_core)
{
    all.version = version;
    all.kernels = kernels;
    all.precision = precision;
    all.blas_core = blas_core;
}

/* ---------------------------------------------------------------- writing -- */

/* Writes one counter, at offset in struct route_metrics, of every route that was used. */
static void write_bytes(struct text *text, const char *name, const char *help,
                        const bool used[METRICS_ROUTES_MAX], size_t offset)
{
    metrics_write_family(text, name, "counter", help);
    for (int i = 0; i < all.route_count; i++) {
        const char *route = (const char *)&all.routes[i];
        if (used[i])
            metrics_write_sample(text, name, all.routes[i].labels,
                                 metrics_value((const _Atomic uint64_t *)(route + offset)));
    }
}

/* A route has series only once it has answered. Most daemons use few routes, and each series costs
 * time at every scrape and memory in the scraper. */
void metrics_write_requests(struct text *text)
{
    bool used[METRICS_ROUTES_MAX] = { false };
    for (int i = 0; i < all.route_count; i++)
        used[i] = metrics_histogram_count(&all.routes[i].duration) > 0;
    metrics_write_family(text, "attnd_requests_total", "counter", "Requests answered.");
    for (int i = 0; i < all.route_count; i++)
        for (int j = 0; used[i] && j < STATUS_COUNT; j++) {
            const uint64_t requests = metrics_value(&all.routes[i].requests[j]);
            if (requests > 0) {
                char labels[LABELS_BYTES_MAX + 16];
                snprintf(labels, sizeof labels, "%s,status=\"%d\"", all.routes[i].labels,
                         STATUS_FIRST + j);
                metrics_write_sample(text, "attnd_requests_total", labels, requests);
            }
        }
    write_bytes(text, "attnd_request_bytes_total", "Bytes of request bodies.", used,
                offsetof(struct route_metrics, request_bytes));
    write_bytes(text, "attnd_answer_bytes_total", "Bytes of answers' bodies.", used,
                offsetof(struct route_metrics, answer_bytes));
    metrics_write_family(text, "attnd_request_duration_seconds", "histogram",
                         "From a request's first byte to the hand-over of its answer.");
    for (int i = 0; i < all.route_count; i++)
        if (used[i])
            metrics_write_histogram(text, "attnd_request_duration_seconds", all.routes[i].labels,
                                    &all.routes[i].duration);
}

static void write_refused(struct text *text)
{
    metrics_write_family(text, "attnd_refused_total", "counter", "Inferences refused, by reason.");
    for (int i = 0; i < REASON_COUNT; i++) {
        char label[LABELS_BYTES_MAX];
        snprintf(label, sizeof label, "reason=\"%s\"", REFUSED_REASONS[i]);
        metrics_write_sample(text, "attnd_refused_total", label, metrics_value(&all.refused[i]));
    }
}

static void write_gauges(struct text *text)
{
    for (int i = 0; i < METRICS_GAUGE_COUNT; i++) {
        metrics_write_family(text, GAUGES[i].name, "gauge", GAUGES[i].help);
        text_format(text, "%s %lld\n", GAUGES[i].name,
                    (long long)atomic_load_explicit(&all.gauges[i], memory_order_relaxed));
    }
    if (!all.version)
        return;
    metrics_write_family(text, "attnd_build_info", "gauge", "What runs; always 1.");
    text_raw(text, "attnd_build_info{");
    metrics_write_label(text, "version", all.version);
    text_raw(text, ",");
    metrics_write_label(text, "kernels", all.kernels);
    text_raw(text, ",");
    metrics_write_label(text, "precision", all.precision);
    text_raw(text, ",");
    metrics_write_label(text, "blas_core", all.blas_core);
    text_raw(text, "} 1\n");
}

void metrics_write_counts(struct text *text)
{
    write_refused(text);
    write_gauges(text);
}
