/* SPDX-License-Identifier: Apache-2.0 */
/* model_statistics.c - see model_statistics.h. */
#include "telemetry/model_statistics.h"

#include "telemetry/metrics_inference.h"

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

static void add(_Atomic int64_t *counter, int64_t difference)
{
    atomic_fetch_add_explicit(counter, difference, memory_order_relaxed);
}

static void observe(struct model_duration *duration, int64_t ns)
{
    add(&duration->count, 1);
    add(&duration->ns, ns > 0 ? ns : 0);
}

/* The statistics of a batch size, NULL where no place is left. Places are taken in order and never
 * given back. */
static struct model_batch_statistics *batch_of(struct model_statistics *statistics, int64_t size)
{
    for (int i = 0; i < MODEL_BATCH_SIZES_MAX; i++) {
        struct model_batch_statistics *batch = &statistics->batches[i];
        int64_t found = atomic_load_explicit(&batch->batch_size, memory_order_relaxed);
        if (found == size
            || (found == 0
                && (atomic_compare_exchange_strong(&batch->batch_size, &found, size)
                    || found == size)))
            return batch;
    }
    return NULL;
}

int model_statistics_place(struct model_statistics *statistics, const char *name)
{
    int place = atomic_load_explicit(&statistics->metrics_place, memory_order_acquire);
    if (place)
        return place;
    const int taken = metrics_model_take(name);
    if (atomic_compare_exchange_strong(&statistics->metrics_place, &place, taken))
        return taken;
    metrics_model_drop(taken);
    return place;
}

void model_statistics_free(struct model_statistics *statistics)
{
    if (statistics)
        metrics_model_drop(atomic_load(&statistics->metrics_place));
}

void model_statistics_success(struct model_statistics *statistics,
                              const struct model_execution *execution)
{
    struct model_batch_statistics *batch = batch_of(statistics, execution->batch_size);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    atomic_store_explicit(&statistics->last_inference_ms,
                          (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, memory_order_relaxed);
    add(&statistics->inference_count, execution->batch_size);
    add(&statistics->execution_count, 1);
    observe(&statistics->success,
            execution->queue_ns + execution->input_ns + execution->infer_ns + execution->output_ns);
    observe(&statistics->queue, execution->queue_ns);
    observe(&statistics->compute_input, execution->input_ns);
    observe(&statistics->compute_infer, execution->infer_ns);
    observe(&statistics->compute_output, execution->output_ns);
    if (!batch)
        return;
    observe(&batch->compute_input, execution->input_ns);
    observe(&batch->compute_infer, execution->infer_ns);
    observe(&batch->compute_output, execution->output_ns);
}

static enum model_failure failure_of(enum fault_code code)
{
    switch (code) {
    case FAULT_OVERLOADED:
    case FAULT_DEADLINE:
    case FAULT_DRAINING:
        return MODEL_FAILURE_REJECTED;
    case FAULT_LEFT:
        return MODEL_FAILURE_CANCELED;
    case FAULT_MEMORY:
    case FAULT_FULL:
    case FAULT_LOADING:
        return MODEL_FAILURE_BACKEND;
    default:
        return MODEL_FAILURE_OTHER;
    }
}

void model_statistics_pending(struct model_statistics *statistics, int difference)
{
    add(&statistics->pending_count, difference);
}

void model_statistics_failure(struct model_statistics *statistics, enum fault_code code,
                              int64_t duration_ns)
{
    add(&statistics->failures[failure_of(code)], 1);
    observe(&statistics->fail, duration_ns);
}
