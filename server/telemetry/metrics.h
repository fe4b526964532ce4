/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h - counters, gauges and histograms, and their Prometheus text.
 *
 * Thread-safe; counting allocates nothing and takes no lock (C11 atomics). Route labels are the
 * route table's patterns, never a client's text. */
#ifndef ATTND_METRICS_H
#define ATTND_METRICS_H

#include "json/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { METRICS_ROUTES_MAX = 128 };

/* Counts one answered request. route comes from metrics_route(), status is the HTTP status, and the
 * duration is from the request's first byte until its answer was handed over. */
void metrics_request(int route, int status, int64_t duration_ns, size_t request_bytes,
                     size_t answer_bytes);

/* Registers a route's label, at start and before threads; both strings are borrowed. Returns its
 * index. */
int metrics_route(const char *method, const char *pattern);
const char *metrics_route_pattern(int route);

/* Counts a refused inference. reason is "overloaded", "deadline", "draining" or "memory"; any other
 * text counts as "other". */
void metrics_refused(const char *reason);

/* Name, name on the page, help. */
#define METRICS_GAUGE_MAP(X)                                                                       \
    X(QUEUE_JOBS, "attnd_queue_jobs", "Jobs accepted and not yet done.")                           \
    X(CONNECTIONS, "attnd_connections", "Open connections.")                                       \
    X(CONNECTIONS_MAX, "attnd_connections_max", "How many of them there may be.")                  \
    X(BODIES_WAITING, "attnd_bodies_waiting", "Bodies that wait to be read.")                      \
    X(REQUESTS_ACTIVE, "attnd_requests_active",                                                    \
      "Requests between their first byte and their answer.")                                       \
    X(MODELS_READY, "attnd_models_ready", "Models that are served.")                               \
    X(MODELS_FAILED, "attnd_models_failed", "Models that failed to load.")                         \
    X(CONVERTED_BYTES, "attnd_converted_parameter_bytes",                                          \
      "Memory of parameters that are no F32 in their file, as floats; what --model-memory-max "    \
      "bounds.")                                                                                   \
    X(TRACES_KEPT, "attnd_traces_kept", "Traces that are kept.")                                   \
    X(TRACE_BYTES, "attnd_trace_bytes",                                                            \
      "Memory of kept traces and of those on their way; what --trace-memory-max bounds.")          \
    X(SESSIONS, "attnd_sessions", "Sessions.")                                                     \
    X(SESSION_BYTES, "attnd_session_bytes",                                                        \
      "Memory of all sessions, with their keys and values; what --session-memory-max bounds.")     \
    X(REGIONS, "attnd_shared_memory_regions", "Regions of shared memory that are registered.")     \
    X(REGION_BYTES, "attnd_shared_memory_bytes", "Their sizes together.")                          \
    X(WORKERS, "attnd_workers", "Threads that compute.")                                           \
    X(READY, "attnd_ready", "1 where /readyz answers 200, else 0.")

enum metrics_gauge {
#define X(name, text, help) METRICS_##name,
    METRICS_GAUGE_MAP(X)
#undef X
        METRICS_GAUGE_COUNT
};
void metrics_gauge_add(enum metrics_gauge gauge, int64_t difference);
void metrics_gauge_set(enum metrics_gauge gauge, int64_t value);

/* attnd_build_info{version,kernels,precision,blas_core,blas_computes} 1; set once at start,
 * borrowed strings. */
void metrics_build_info(const char *version, const char *kernels, const char *precision,
                        const char *blas_core, const char *blas_computes);

/* Write their part of the page (api/prometheus.h): what each route answered; then refusals, gauges
 * and the build. */
void metrics_write_requests(struct text *text);
void metrics_write_counts(struct text *text);

/* A fixed number of places for what is counted by name, where names come and go.
 *
 * A name keeps its place, and its counters go on, until its last holder has dropped it and another
 * name needs the place. The caller holds a lock around each call. */

enum { METRICS_NAME_MAX = 128 };

struct metrics_place {
    char name[METRICS_NAME_MAX + 1]; /* "": free */
    int holder_count;
    uint64_t dropped_at; /* drop_count when the last holder dropped it */
};

/* places is an array of count zeroed places. */
struct metrics_places {
    struct metrics_place *places;
    int count;
    uint64_t drop_count;
};

/* Takes the place of this name and returns its index; -1 where all places are held by other names.
 * *is_new: the counters there are of another name, or of none. */
int metrics_places_take(struct metrics_places *places, const char *name, bool *is_new);
void metrics_places_drop(struct metrics_places *places, int index);

/* Counts one matrix product, of row_count rows, that request_count requests share. From any
 * thread. */
void batch_metrics_observe(int64_t request_count, int64_t row_count);

/* Writes histograms of both. */
void batch_metrics_write(struct text *text);

/* Why a request ended before its client had the whole answer. */
enum request_end {
    REQUEST_LEFT_READING, /* the client left before its whole body had arrived */
    REQUEST_LEFT_WAITING, /* the client left while the request was queued or computed */
    REQUEST_LEFT_SENDING, /* the client left while its answer was being sent */
    REQUEST_SLOW_READER,  /* the client took its answer too slowly for too long */
    REQUEST_STOPPED,      /* the daemon stopped first */
    REQUEST_END_COUNT
};

enum connection_end {
    CONNECTION_IDLE,        /* no request came for too long */
    CONNECTION_FOR_ANOTHER, /* too many were open, and this one had been idle the longest */
    CONNECTION_END_COUNT
};

/* Count a request that ended so, and an idle connection that the daemon closed. */
void connection_metrics_cancelled(enum request_end why);
void connection_metrics_closed(enum connection_end why);

void connection_metrics_write(struct text *text);

/* process_*, the metrics that every Prometheus client library has of its process: writes CPU
 * seconds, resident and virtual bytes, threads, descriptors, start time. What the system does not
 * tell (no /proc) is left out. */
void process_metrics_write(struct text *text);

#endif
