/* SPDX-License-Identifier: Apache-2.0 */
/* trace_readout.c - which vectors and classes a trace answers of its rows, and how they are made.
 */
#include "operations/plan/trace_plan.h"

#include <inttypes.h>

bool trace_has_readout(const struct trace_item *item)
{
    for (int i = 0; i < MODEL_STREAMS_MAX; i++)
        if (item->streams[i].vector.readout.width > 0)
            return true;
    return item->classes.readout.width > 0;
}

/* The row of the first token of readout->token_id, or with the largest id; the last row where there
 * is none. */
static int64_t find_token(const struct model_readout *readout, const struct trace_stream *stream)
{
    const struct token_list *list = &stream->tokens;
    int64_t largest = 0;
    if (list->count == 0)
        return stream->length - 1;
    for (int64_t i = 0; i < list->count; i++) {
        if (list->tokens[i].id == readout->token_id)
            return i;
        if (list->tokens[i].id > list->tokens[largest].id)
            largest = i;
    }
    return readout->token_id < 0 ? largest : list->count - 1;
}

/* The readout that is asked for: the model's, or the pooling of the request alone. */
static bool choose_readout(const struct trace_item *item, int stream, struct model_readout *readout,
                           struct fault *fault)
{
    const char *reason;
    if (item->has_pooling) {
        *readout = (struct model_readout){ .width = item->model->forward->streams[stream].width,
                                           .poolings = { (enum model_pooling)item->pooling },
                                           .pooling_count = 1 };
        return true;
    }
    const struct model_readout *own = model_find_readout(item->model, stream, &reason);
    if (own)
        *readout = *own;
    return own
           || fault_set_at(fault, "/outputs", FAULT_OPTION,
                           "model '%s' does not say how its rows become one vector: %s; say it "
                           "with \"pooling\"",
                           item->model->name, reason);
}

static bool check_rows(const struct trace_item *item, const struct trace_vector *vector,
                       const char *name, struct fault *fault)
{
    if (item->past)
        return fault_set_at(fault, "/outputs", FAULT_OPTION,
                            "%s is of all rows of a text, and a session computes those of new "
                            "tokens alone; ask for a trace",
                            name);
    return vector->row_count > 0
           || fault_set_at(fault, item->has_tokens ? "/tokens" : "/text", FAULT_OPTION,
                           "there are no rows, of which %s could be made", name);
}

static bool plan_vector(struct trace_item *item, int i, struct fault *fault)
{
    struct trace_stream *stream = &item->streams[i];
    struct trace_vector *vector = &stream->vector;
    struct model_readout readout;
    if (!choose_readout(item, i, &readout, fault))
        return false;
    vector->first_row = readout.is_of_token ? find_token(&readout, stream) : item->prompt_rows;
    vector->row_count = readout.is_of_token ? 1 : stream->length - vector->first_row;
    if (!check_rows(item, vector, "embedding", fault))
        return false;
    if (item->has_normalize)
        readout.is_unit = item->normalize;
    if (item->dimensions > readout.width)
        return fault_set_at(fault, "/dimensions", FAULT_OPTION,
                            "dimensions is %" PRId64 "; an embedding of model '%s' has %" PRId64
                            " numbers",
                            item->dimensions, item->model->name, readout.width);
    if (item->dimensions > 0)
        readout.width = item->dimensions;
    vector->readout = readout;
    vector->numbers = (struct trace_tensor){ .rank = 1, .shape = { readout.width, 1, 1 } };
    return true;
}

static bool plan_classes(struct trace_item *item, struct fault *fault)
{
    const struct model_forward *forward = item->model->forward;
    const struct model_classes *classes = &forward->classes;
    const struct trace_stream *stream = &item->streams[classes->stream];
    struct trace_vector *vector = &item->classes;
    if (classes->readout.width == 0)
        return fault_set_at(
            fault, "/outputs", FAULT_OPTION, "model '%s' has no classes: %s", item->model->name,
            forward->classes_reason ? forward->classes_reason
                                    : "config.json's architectures name no head that tells any");
    vector->row_count = stream->length;
    if (!check_rows(item, vector, "logits", fault))
        return false;
    vector->readout = classes->readout;
    vector->numbers =
        classes->is_of_rows
            ? (struct trace_tensor){ .rank = 2, .shape = { stream->length, classes->count, 1 } }
            : (struct trace_tensor){ .rank = 1, .shape = { classes->count, 1, 1 } };
    return true;
}

bool trace_plan_readouts(struct trace_item *item, struct fault *fault)
{
    const struct model_forward *forward = item->model->forward;
    for (int i = 0; item->outputs[TRACE_OUTPUT_EMBEDDING] && i < forward->stream_count; i++)
        if (item->streams[i].runs && !(forward->is_encoder_decoder && i == 1)
            && !plan_vector(item, i, fault))
            return false;
    return !item->outputs[TRACE_OUTPUT_LOGITS] || plan_classes(item, fault);
}
