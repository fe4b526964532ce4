/* SPDX-License-Identifier: Apache-2.0 */
/* prometheus.h - GET /metrics.
 *
 * The Prometheus text format 0.0.4: every name with HELP and TYPE, prefix attnd_, base units
 * (seconds, bytes), counters ending in _total; also process_* of the standard clients (resident
 * memory, CPU seconds, open descriptors, start time). */
#ifndef ATTND_PROMETHEUS_H
#define ATTND_PROMETHEUS_H

#include "http/http.h"
#include "json/text.h"

/* The page without aliases is shorter than this, whatever was counted. */
enum { PROMETHEUS_BYTES_MAX = 16 << 20 };

/* Writes what the process has counted. */
void prometheus_write(struct text *text);

/* Answers with all of that and with what the service knows. */
void prometheus_get(struct exchange *exchange);

#endif
