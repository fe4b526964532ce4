/* metrics_page.h - a page of /metrics, read as strictly as the format is written.
 *
 * The Prometheus text format 0.0.4 as its own linter wants it: each family once, HELP before TYPE
 * before its samples, names that suit the type, no series twice, histograms whose buckets rise and
 * end in their count. Whatever is not so fails the test with the line. */
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

/* The page must be free or zeroed. */
void metrics_page_read(struct metrics_page *page, const char *text);
void metrics_page_free(struct metrics_page *page);

/* 0 where it is not there. */
double metrics_page_value(const struct metrics_page *page, const char *series);
bool metrics_page_has(const struct metrics_page *page, const char *series);

/* Of all series of this name, whatever their labels: "attnd_requests_total". */
double metrics_page_sum(const struct metrics_page *page, const char *name);

/* "counter", "gauge" or "histogram"; NULL where there is no such family. */
const char *metrics_page_type(const struct metrics_page *page, const char *family);

#endif
