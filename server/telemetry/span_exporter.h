/* SPDX-License-Identifier: Apache-2.0 */
/* span_exporter.h - sends the spans of answered requests to an OpenTelemetry collector.
 *
 * OTLP over HTTP, in JSON (https://opentelemetry.io/docs/specs/otlp/#otlphttp). A separate thread
 * looks at the queue, writes what is there and posts it in batches. A request only copies its
 * record into the queue; while the queue is full, records are dropped and counted. So a collector
 * that is slow or gone takes the memory of one queue, and no request waits for it. */
#ifndef ATTND_SPAN_EXPORTER_H
#define ATTND_SPAN_EXPORTER_H

#include "base/fault.h"
#include "telemetry/span_record.h"
#include "telemetry/trace_context.h"

struct span_exporter;
struct text;

/* Starts the thread. False: there is no memory. */
bool span_exporter_create(struct span_exporter **exporter, const struct span_options *options,
                          struct fault *fault);

/* Sends what is in the queue, once, for SPAN_FLUSH_MS at the most, and ends the thread; no other
 * thread uses the exporter any more. NULL is fine. */
enum { SPAN_FLUSH_MS = 1000 };
void span_exporter_free(struct span_exporter *exporter);

/* Which requests have spans that are sent. */
const struct trace_sampler *span_exporter_sampler(const struct span_exporter *exporter);

/* Whether there is room for a record, of which the times and the stages are set; else its spans are
 * counted as dropped. At a high rate most requests end here. From any thread, as the next. */
bool span_exporter_has_room(struct span_exporter *exporter, const struct span_record *record);

/* Takes a record. False, and its spans are counted, where there is no room for it any more. */
bool span_exporter_put(struct span_exporter *exporter, const struct span_record *record);

/* Writes the attnd_otlp_* families of /metrics; nothing where exporter is NULL. */
void span_exporter_write_metrics(const struct span_exporter *exporter, struct text *text);

#endif
