/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_own.h - the metrics of the test's own process. The counters only grow, so tests look at
 * the difference between two pages. */
#ifndef METRICS_OWN_H
#define METRICS_OWN_H

#include "api/prometheus.h"
#include "metrics_page.h"
#include "telemetry/metrics.h"
#include "test.h"

static struct metrics_page before, after;

static void page_read(struct metrics_page *page)
{
    struct text text;
    struct fault fault;
    text_init(&text, PROMETHEUS_BYTES_MAX);
    prometheus_write(&text);
    text_bytes(&text, "", 1);
    if (!text_finish(&text, &fault))
        fail_msg("%s", fault.message);
    assert_int_equal(strlen(text.data), text.used - 1);
    metrics_page_free(page);
    metrics_page_read(page, text.data);
    text_free(&text);
}

static double growth(const char *series)
{
    return metrics_page_value(&after, series) - metrics_page_value(&before, series);
}

#endif
