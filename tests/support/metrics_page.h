/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_page.h - a strict reader of a page of /metrics.
 *
 * It accepts the Prometheus text format 0.0.4 as Prometheus's own linter wants it. Each family
 * occurs once, with HELP before TYPE before its samples. Names fit the type, and no series
 * occurs twice. The buckets of a histogram rise and end with its count. If a line breaks a rule,
 * the test fails and shows the line. */
#ifndef METRICS_PAGE_H
#define METRICS_PAGE_H

#include <stdbool.h>
#include <stddef.h>

struct metrics_series {
    char *name; /* with its labels, as on the page */
    double value;
};

struct metrics_family {
    char *name, *type;
};

struct metrics_page {
    struct metrics_series *series; /* sorted by name */
    int series_count, series_capacity;
    struct metrics_family *families;
    int family_count, family_capacity;
};

/* page must be empty: freed or zeroed. */
void metrics_page_read(struct metrics_page *page, const char *text);
void metrics_page_free(struct metrics_page *page);

/* 0 if there is no such series. */
double metrics_page_value(const struct metrics_page *page, const char *series);
bool metrics_page_has(const struct metrics_page *page, const char *series);

/* The sum of all series of this name, with any labels: "attnd_requests_total". */
double metrics_page_sum(const struct metrics_page *page, const char *name);

/* "counter", "gauge" or "histogram". NULL if there is no such family. */
const char *metrics_page_type(const struct metrics_page *page, const char *family);

#endif
