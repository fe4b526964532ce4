/* connection_metrics.c - see connection_metrics.h. */
#include "watch/connection_metrics.h"

#include "watch/metrics_text.h"

#include <stdio.h>

static const char *const REQUEST_ENDS[REQUEST_END_COUNT] = {
    [REQUEST_LEFT_READING] = "left_reading", [REQUEST_LEFT_WAITING] = "left_waiting",
    [REQUEST_LEFT_SENDING] = "left_sending", [REQUEST_SLOW_READER] = "slow_reader",
    [REQUEST_STOPPED] = "stopped",
};

static const char *const CONNECTION_ENDS[CONNECTION_END_COUNT] = {
    [CONNECTION_IDLE] = "idle",
    [CONNECTION_FOR_ANOTHER] = "for_another",
};

static _Atomic uint64_t cancelled[REQUEST_END_COUNT];
static _Atomic uint64_t closed[CONNECTION_END_COUNT];

void connection_metrics_cancelled(enum request_end why)
{
    metrics_count(&cancelled[why], 1);
}

void connection_metrics_closed(enum connection_end why)
{
    metrics_count(&closed[why], 1);
}

static void write_counts(struct text *text, const char *name, const char *help,
                         const char *const *reasons, const _Atomic uint64_t *counts, int count)
{
    char labels[64];
    metrics_write_family(text, name, "counter", help);
    for (int i = 0; i < count; i++) {
        snprintf(labels, sizeof labels, "reason=\"%s\"", reasons[i]);
        metrics_write_sample(text, name, labels, metrics_value(&counts[i]));
    }
}

void connection_metrics_write(struct text *text)
{
    write_counts(text, "attnd_cancelled_total",
                 "Requests that ended without their answer having been taken, by reason.",
                 REQUEST_ENDS, cancelled, REQUEST_END_COUNT);
    write_counts(text, "attnd_connections_closed_total",
                 "Connections closed on clients that sent no request, by reason.", CONNECTION_ENDS,
                 closed, CONNECTION_END_COUNT);
}
