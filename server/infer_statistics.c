/* infer_statistics.c - see infer_statistics.h. */
#include "infer_statistics.h"

#include "metrics_inference.h"
#include "model_statistics.h"

static void count_run(struct model_statistics *statistics, int64_t good_count, int64_t bad_count,
                      const struct request_record *record)
{
    const struct model_execution execution = {
        .batch_size = good_count,
        .queue_ns = record->queue_ns,
        .input_ns = record->parse_ns,
        .infer_ns = record->compute_ns,
        .output_ns = record->write_ns,
    };
    const int64_t duration_ns =
        record->queue_ns + record->parse_ns + record->compute_ns + record->write_ns;
    if (good_count > 0)
        model_statistics_success(statistics, &execution);
    for (int64_t i = 0; i < bad_count; i++)
        model_statistics_failure(statistics, duration_ns);
}

static void count_models(const struct infer_request *request, const struct request_record *record)
{
    const bool failed = record->fault != FAULT_NONE;
    int64_t end = 0;
    if (request->model && failed) { /* before or after there were items of it */
        count_run(request->model->statistics, 0, 1, record);
        return;
    }
    for (int64_t first = 0; first < request->item_count; first = end) {
        const struct model *model = request->items[first].model;
        int64_t good_count = 0;
        for (end = first; end < request->item_count && request->items[end].model == model; end++)
            good_count += request->items[end].fault.code == FAULT_NONE;
        if (model && failed)
            count_run(model->statistics, 0, 1, record);
        else if (model)
            count_run(model->statistics, good_count, end - first - good_count, record);
    }
}

static const struct model *first_model(const struct infer_request *request)
{
    const struct model *model = request->model;
    for (int64_t i = 0; i < request->item_count && !model; i++)
        model = request->items[i].model;
    return model;
}

void infer_statistics(const struct infer_request *request, const struct request_record *record)
{
    const struct model *model = first_model(request);
    count_models(request, record);
    metrics_inference(model ? model_statistics_place(model->statistics, model->name) : 0, record);
}
