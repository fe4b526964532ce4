/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_inference.h - what one request did, and inferences counted by model and route.
 *
 * Models come and go, and clients that may put models choose their names, so the number of places
 * is fixed. A name keeps its place, and its counters go on, until its last model has gone and
 * another name needs the place. Models without a place are counted together as "_other", a name
 * that no model can have. Thread-safe; counting takes no lock. */
#ifndef ATTND_METRICS_INFERENCE_H
#define ATTND_METRICS_INFERENCE_H

#include "base/fault.h"
#include "json/text.h"

#include <stdbool.h>
#include <stdint.h>

/* What one request did, as plain data: for its line in the log, its
 * Server-Timing header and the metrics.
 *
 * Every exchange has one (exchange_record()). The code that serves the request fills in what it
 * learns, on the thread that may answer at that time. Once the exchange has been answered the
 * record is only read. It never holds anything of a payload. */

enum { REQUEST_MODEL_MAX = 128, REQUEST_SESSION_MAX = 64, REQUEST_TIMING_MAX = 192 };

struct request_record {
    /* Of an inference, as far as it was read and planned. A batch may name several models: model,
     * version and layer are those of the first item, and each size is the largest among the
     * items. */
    char model[REQUEST_MODEL_MAX + 1]; /* "": none */
    int64_t version, layer;
    int64_t item_count; /* 0: no item was read, and no other member of this part counts */
    int64_t q_len, kv_len, q_heads, kv_heads, head_dim, v_head_dim; /* 0: does not apply */

    int64_t cost_ns; /* predicted time of one worker; 0: it was not planned */
    double flops;    /* multiplications and additions of what is computed */

    bool was_job; /* it came to a worker or waited for one; only then the durations count */
    int64_t parse_ns, queue_ns, compute_ns, write_ns;
    int64_t total_ns; /* from the first byte of the request until its answer was complete */

    char session[REQUEST_SESSION_MAX + 1]; /* that was made, forked or ended; "": none */

    int route;             /* metrics_route() */
    enum fault_code fault; /* the fault that it was answered with, or FAULT_NONE */
};

/* When a job came to each of its steps, on the monotonic clock; 0: it did not come to it.
 * started_ns is the time of the request's first byte. */
struct request_clock {
    int64_t started_ns, submitted_ns, begun_ns, parsed_ns, computed_ns;
};

/* Sets the durations of a job whose answer was complete at written_ns. A step that the job did not
 * come to took no time. */
void request_record_durations(struct request_record *record, const struct request_clock *clock,
                              int64_t written_ns);

/* Writes the value of Server-Timing (https://www.w3.org/TR/server-timing/), in milliseconds: the
 * four durations, if they count, and the total. */
void request_record_timing(const struct request_record *record, int64_t total_ns,
                           char timing[REQUEST_TIMING_MAX]);

enum { METRICS_MODELS_MAX = 32, METRICS_ENDPOINTS_MAX = 40 };

/* Takes the place of models of this name and returns it. It is held until it has been dropped as
 * often as it was taken. */
int metrics_model_take(const char *name);
void metrics_model_drop(int place); /* 0 is fine */

/* Counts one inference that came to a worker. Place 0: it named no model, or none that exists.
 * record's route is one of inferences, of which there may be METRICS_ENDPOINTS_MAX. Durations and
 * items count only where the inference was answered well. */
void metrics_inference(int place, const struct request_record *record);

/* Parts of a pass of a model, and their names on the page. */
#define METRICS_PART_MAP(X)                                                                        \
    X(PRODUCTS, "products") /* of projections and feed-forwards, with their activations */         \
    X(ATTENTION, "attention")                                                                      \
    X(ROTARY, "rotary") /* rotary embedding, with norms of what was projected */                   \
    X(RECURRENCE, "recurrence")                                                                    \
    X(EMBEDDING, "embedding")                                                                      \
    X(ROWS, "rows")             /* norms, sums and copies of rows */                               \
    X(VOCABULARY, "vocabulary") /* logits, and what is chosen by them */                           \
    X(OTHER, "other")

enum metrics_part {
#define X(name, text) METRICS_PART_##name,
    METRICS_PART_MAP(X)
#undef X
        METRICS_PART_COUNT
};

/* Counts the time of a task of this part, by the clock. The page has the parts that took some. */
void metrics_pass_spent(enum metrics_part part, int64_t ns);

/* Writes all of them, for GET /metrics. */
void metrics_inference_write(struct text *text);

#endif
