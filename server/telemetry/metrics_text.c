/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_text.c - see metrics_text.h. */
#include "telemetry/metrics_text.h"

#include <string.h>

static const struct bound {
    int64_t ns;
    const char *seconds;
} BOUNDS[METRICS_BOUND_COUNT] = {
    { 100000, "0.0001" },  { 250000, "0.00025" }, { 500000, "0.0005" },  { 1000000, "0.001" },
    { 2500000, "0.0025" }, { 5000000, "0.005" },  { 10000000, "0.01" },  { 25000000, "0.025" },
    { 50000000, "0.05" },  { 100000000, "0.1" },  { 250000000, "0.25" }, { 500000000, "0.5" },
    { 1000000000, "1" },   { 2500000000, "2.5" }, { 5000000000, "5" },   { 10000000000, "10" },
    { 30000000000, "30" }, { 60000000000, "60" },
};

void metrics_observe(struct metrics_histogram *histogram, int64_t duration_ns)
{
    const int64_t ns = duration_ns > 0 ? duration_ns : 0;
    int bucket = 0;
    while (bucket < METRICS_BOUND_COUNT && ns > BOUNDS[bucket].ns)
        bucket++;
    metrics_count(&histogram->buckets[bucket], 1);
    atomic_fetch_add_explicit(&histogram->sum_ns, ns, memory_order_relaxed);
}

uint64_t metrics_histogram_count(const struct metrics_histogram *histogram)
{
    uint64_t count = 0;
    for (int i = 0; i <= METRICS_BOUND_COUNT; i++)
        count += metrics_value(&histogram->buckets[i]);
    return count;
}

void metrics_write_family(struct text *text, const char *name, const char *type, const char *help)
{
    text_format(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_write_label(struct text *text, const char *name, const char *value)
{
    text_raw(text, name);
    text_raw(text, "=\"");
    while (*value) {
        const size_t plain = strcspn(value, "\\\"\n");
        text_bytes(text, value, plain);
        value += plain;
        if (*value == '\n')
            text_raw(text, "\\n");
        else if (*value)
            text_raw(text, *value == '"' ? "\\\"" : "\\\\");
        value += *value != '\0';
    }
    text_raw(text, "\"");
}

void metrics_write_sample(struct text *text, const char *name, const char *labels, uint64_t value)
{
    text_raw(text, name);
    if (labels[0])
        text_format(text, "{%s}", labels);
    text_format(text, " %llu\n", (unsigned long long)value);
}

static void write_bucket(struct text *text, const char *name, const char *labels, const char *bound,
                         uint64_t count)
{
    text_raw(text, name);
    text_raw(text, "_bucket{");
    text_raw(text, labels);
    text_format(text, ",le=\"%s\"} %llu\n", bound, (unsigned long long)count);
}

void metrics_write_histogram(struct text *text, const char *name, const char *labels,
                             const struct metrics_histogram *histogram)
{
    const int64_t sum_ns = atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed);
    uint64_t count = 0;
    for (int i = 0; i <= METRICS_BOUND_COUNT; i++) {
        count += metrics_value(&histogram->buckets[i]);
        write_bucket(text, name, labels, i < METRICS_BOUND_COUNT ? BOUNDS[i].seconds : "+Inf",
                     count);
    }
    text_raw(text, name);
    text_raw(text, "_sum{");
    text_raw(text, labels);
    text_format(text, "} %.9f\n", (double)sum_ns / 1e9);
    text_raw(text, name);
    text_raw(text, "_count{");
    text_raw(text, labels);
    text_format(text, "} %llu\n", (unsigned long long)count);
}
