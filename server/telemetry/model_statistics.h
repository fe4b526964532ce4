/* SPDX-License-Identifier: Apache-2.0 */
/* model_statistics.h - what a model has answered since it was loaded.
 *
 * The words are those of the statistics extension of the Open Inference Protocol v2. Thread-safe;
 * counting allocates nothing and takes no lock. */
#ifndef ATTND_MODEL_STATISTICS_H
#define ATTND_MODEL_STATISTICS_H

#include "base/fault.h"

#include <stdatomic.h>
#include <stdint.h>

/* How many batch sizes have statistics of their own; further sizes are in all other counts. */
enum { MODEL_BATCH_SIZES_MAX = 32 };

struct model_duration {
    _Atomic int64_t count, ns;
};

/* Why a request failed, in Triton's words. */
enum model_failure {
    MODEL_FAILURE_REJECTED, /* deadline passed, queue full or daemon draining */
    MODEL_FAILURE_CANCELED, /* the client left */
    MODEL_FAILURE_BACKEND,  /* the daemon could not: no memory, or parameters that cannot be read */
    MODEL_FAILURE_OTHER,    /* the request itself cannot be answered */
    MODEL_FAILURE_COUNT
};

struct model_batch_statistics {
    _Atomic int64_t batch_size; /* 0: the place is free */
    struct model_duration compute_input, compute_infer, compute_output;
};

struct model_statistics {
    _Atomic int metrics_place;         /* of metrics_inference.h; 0: not counted there yet */
    _Atomic int64_t last_inference_ms; /* since 1970; 0: none yet */
    _Atomic int64_t inference_count;   /* batch items that were answered well */
    _Atomic int64_t execution_count;   /* how often such items were computed together */
    _Atomic int64_t pending_count;     /* requests that were read and wait to be computed */
    _Atomic int64_t failures[MODEL_FAILURE_COUNT]; /* by reason; they add up to fail.count */
    struct model_duration success, fail;
    struct model_duration queue, compute_input, compute_infer, compute_output; /* of successes */
    struct model_batch_statistics batches[MODEL_BATCH_SIZES_MAX];
};

struct model_execution {
    int64_t batch_size; /* > 0 */
    int64_t queue_ns, input_ns, infer_ns, output_ns;
};

/* The place of a model of this name in metrics_inference.h: taken at the first call, held until
 * model_statistics_free(). */
int model_statistics_place(struct model_statistics *statistics, const char *name);
void model_statistics_free(struct model_statistics *statistics); /* NULL is fine */

void model_statistics_success(struct model_statistics *statistics,
                              const struct model_execution *execution);
void model_statistics_failure(struct model_statistics *statistics, enum fault_code code,
                              int64_t duration_ns);
void model_statistics_pending(struct model_statistics *statistics, int difference);

#endif
