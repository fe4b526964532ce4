/* SPDX-License-Identifier: Apache-2.0 */
/* infer_statistics.c - a request, successive items of one model together, in records and counts. */
#include "call/infer_statistics.h"

#include "telemetry/metrics_inference.h"
#include "telemetry/model_statistics.h"

#include <string.h>

_Static_assert((int)REQUEST_MODEL_MAX == (int)MODEL_NAME_MAX, "a record holds any model's name");

static void set_model(struct request_record *record, const struct model *model)
{
    memcpy(record->model, model->name, sizeof record->model);
    record->version = model->version;
}

static void raise(int64_t *largest, int64_t value)
{
    if (value > *largest)
        *largest = value;
}

static void describe(struct request_record *record, const struct infer_request *request)
{
    bool is_known = false;
    record->item_count = request->item_count;
    if (request->model)
        set_model(record, request->model);
    for (int64_t i = 0; i < request->item_count; i++) {
        const struct infer_item *item = &request->items[i];
        if (!item->model)
            continue;
        if (!is_known) {
            set_model(record, item->model);
            record->layer = item->layer_index;
            is_known = true;
        }
        raise(&record->q_len, item->q_len);
        raise(&record->kv_len, item->kv_len_max);
        raise(&record->q_heads, item->layer.q_heads);
        raise(&record->kv_heads, item->layer.kv_heads);
        raise(&record->head_dim, item->layer.head_dim);
        raise(&record->v_head_dim, item->layer.v_head_dim);
    }
}

/* ---------------------------------------------------------------- counts -- */

static void count_success(const struct model *model, int64_t item_count,
                          const struct request_record *record)
{
    const struct model_execution execution = {
        .batch_size = item_count,
        .queue_ns = record->queue_ns,
        .input_ns = record->parse_ns,
        .infer_ns = record->compute_ns,
        .output_ns = record->write_ns,
    };
    model_statistics_success(model->statistics, &execution);
}

static void count_failure(const struct model *model, enum fault_code code,
                          const struct request_record *record)
{
    model_statistics_failure(model->statistics, code,
                             record->queue_ns + record->parse_ns + record->compute_ns
                                 + record->write_ns);
}

/* The end of the run of items that have the same model as item first. */
static int64_t run_end(const struct infer_request *request, int64_t first)
{
    int64_t end = first + 1;
    while (end < request->item_count && request->items[end].model == request->items[first].model)
        end++;
    return end;
}

/* Counts the items from first to end - 1, which have one model. */
static void count_run(const struct infer_request *request, int64_t first, int64_t end,
                      const struct request_record *record)
{
    const struct model *model = request->items[first].model;
    int64_t good_count = 0;
    for (int64_t i = first; i < end; i++) {
        const enum fault_code code = request->items[i].fault.code;
        if (code == FAULT_NONE)
            good_count++;
        else
            count_failure(model, code, record);
    }
    if (good_count > 0)
        count_success(model, good_count, record);
}

static void count_models(const struct infer_request *request, const struct request_record *record)
{
    const bool failed = record->fault != FAULT_NONE;
    if (request->model && failed) { /* there may be no items yet */
        count_failure(request->model, record->fault, record);
        return;
    }
    for (int64_t first = 0, end; first < request->item_count; first = end) {
        const struct model *model = request->items[first].model;
        end = run_end(request, first);
        if (model && failed)
            count_failure(model, record->fault, record);
        else if (model)
            count_run(request, first, end, record);
    }
}

void infer_statistics_pending(const struct infer_request *request, bool *is_pending, bool pending)
{
    const int difference = (int)pending - (int)*is_pending;
    *is_pending = pending;
    for (int64_t first = 0; difference != 0 && first < request->item_count;
         first = run_end(request, first))
        if (request->items[first].model)
            model_statistics_pending(request->items[first].model->statistics, difference);
}

static const struct model *first_model(const struct infer_request *request)
{
    const struct model *model = request->model;
    for (int64_t i = 0; i < request->item_count && !model; i++)
        model = request->items[i].model;
    return model;
}

void infer_statistics_record(struct request_record *record, const struct infer_request *request,
                             const struct infer_cost *cost)
{
    const struct model *model = first_model(request);
    describe(record, request);
    record->cost_ns = infer_cost_ns(cost);
    record->flops = cost->flops;
    count_models(request, record);
    metrics_inference(model ? model_statistics_place(model->statistics, model->name) : 0, record);
}
