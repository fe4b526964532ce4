/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_text.h - the parts of the page of /metrics: families, labels, samples, histograms.
 *
 * The Prometheus text format 0.0.4, see
 * https://prometheus.io/docs/instrumenting/exposition_formats/. Counting takes no lock. */
#ifndef ATTND_METRICS_TEXT_H
#define ATTND_METRICS_TEXT_H

#include "json/text.h"

#include <stdatomic.h>

/* The bounds of a histogram of durations, from 0.1 ms to 60 s. */
enum { METRICS_BOUND_COUNT = 18 };

struct metrics_histogram {
    /* Not cumulative; the last bucket counts what is above all bounds. */
    _Atomic uint64_t buckets[METRICS_BOUND_COUNT + 1];
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

/* Counts one duration; one below 0 counts as 0. */
void metrics_observe(struct metrics_histogram *histogram, int64_t duration_ns);

/* How many durations were counted. */
uint64_t metrics_histogram_count(const struct metrics_histogram *histogram);

/* Writes the HELP and TYPE lines; type is "counter", "gauge" or "histogram". */
void metrics_write_family(struct text *text, const char *name, const char *type, const char *help);

/* Writes name="value" with value escaped, for between the braces; the caller writes the commas. */
void metrics_write_label(struct text *text, const char *name, const char *value);

/* Writes "name{labels} value", or "name value" where labels is "". */
void metrics_write_sample(struct text *text, const char *name, const char *labels, uint64_t value);

/* Writes all samples of one histogram. labels, at least one, is written in the braces before le.
 * The count is the sum of the buckets, so the two always agree. */
void metrics_write_histogram(struct text *text, const char *name, const char *labels,
                             const struct metrics_histogram *histogram);

#endif
