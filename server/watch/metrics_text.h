/* metrics_text.h - what the page of /metrics is made of: families, label values, histograms.
 *
 * The Prometheus text format 0.0.4, see
 * https://prometheus.io/docs/instrumenting/exposition_formats/. Counting takes no lock. */
#ifndef ATTND_METRICS_TEXT_H
#define ATTND_METRICS_TEXT_H

#include "text/text.h"

#include <stdatomic.h>

/* Of durations, in seconds. */
enum { METRICS_BOUND_COUNT = 18 };

struct metrics_histogram {
    _Atomic uint64_t
        buckets[METRICS_BOUND_COUNT + 1]; /* not cumulative; the last is beyond all bounds */
    _Atomic int64_t sum_ns;
};

static inline void metrics_count(_Atomic uint64_t *counter, uint64_t difference)
{
    atomic_fetch_add_explicit(counter, difference, memory_order_relaxed);
}

static inline uint64_t metrics_value(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Less than 0 counts as 0. */
void metrics_observe(struct metrics_histogram *histogram, int64_t duration_ns);

/* How many were observed. */
uint64_t metrics_histogram_count(const struct metrics_histogram *histogram);

/* The HELP and TYPE lines; type is "counter", "gauge" or "histogram". */
void metrics_write_family(struct text *text, const char *name, const char *type, const char *help);

/* name="value" with value escaped, for between the braces; commas are the caller's. */
void metrics_write_label(struct text *text, const char *name, const char *value);

/* name{labels} value, or without labels where these are "". */
void metrics_write_sample(struct text *text, const char *name, const char *labels, uint64_t value);

/* All samples of one histogram; labels, at least one, is what stands in the braces before le. Its
 * count is made from its buckets, so that those two never disagree. */
void metrics_write_histogram(struct text *text, const char *name, const char *labels,
                             const struct metrics_histogram *histogram);

#endif
