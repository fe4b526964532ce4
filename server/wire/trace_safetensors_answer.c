/* trace_safetensors_answer.c - see trace_safetensors.h: writes an answer.
 *
 *     layers.0.weights         and each other tensor of a layer, F32
 *     layers.0.weights.indices of a weight map with top_k, I64; its values are
 *     layers.0.weights.values  F32
 *     final_hidden_states      and what else leaves the model, F32
 *     predictions.positions    [positions], I64
 *     predictions.ids          [positions][k], I64
 *     predictions.logprobs     [positions][k], F32
 *
 * Values of eight bytes come first, so that all are aligned in the file. */
#include "wire/safetensors_answer.h"
#include "wire/trace_safetensors.h"
#include "wire/v1_token.h"
#include "wire/v1_trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    METADATA_MAX = 7 + TRACE_SAFETENSORS_MORE_MAX,
    NAME_BYTES = 64,
    TENSORS_BESIDE_LAYERS = MODEL_STREAMS_MAX + 3
};

/* A file while it is put together; all lies in the request's arena. */
struct file {
    struct arena *arena;
    struct safetensors_tensor *tensors;
    int64_t tensor_count;
    struct safetensors_pair metadata[METADATA_MAX];
    int metadata_count;
    struct fault *fault;
};

/* ---------------------------------------------------------------- tensors -- */

static bool add_tensor(struct file *file, const char *name, const char *dtype, const void *values,
                       int rank, const int64_t *shape)
{
    struct safetensors_tensor *tensor = &file->tensors[file->tensor_count++];
    *tensor =
        (struct safetensors_tensor){ arena_strdup(file->arena, name), rank, { 0 }, values, dtype };
    for (int i = 0; i < rank; i++)
        tensor->shape[i] = shape[i];
    return tensor->name || fault_no_memory(file->fault);
}

static bool add_floats(struct file *file, const char *name, const struct trace_tensor *tensor)
{
    return !tensor->values
           || add_tensor(file, name, "F32", tensor->values, tensor->rank, tensor->shape);
}

static bool add_indices(struct file *file, const struct trace_item *item)
{
    for (int64_t i = 0; i < item->answered_count; i++) {
        const struct trace_layer *layer = &item->answered[i];
        const struct trace_tensor *weights = &layer->tensors[TRACE_WEIGHTS];
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "layers.%" PRId64 ".weights.indices", layer->number);
        if (layer->indices
            && !add_tensor(file, name, "I64", layer->indices, weights->rank, weights->shape))
            return false;
    }
    return true;
}

static bool add_layers(struct file *file, const struct trace_item *item)
{
    for (int64_t i = 0; i < item->answered_count; i++) {
        const struct trace_layer *layer = &item->answered[i];
        for (int k = 0; k < TRACE_TENSOR_COUNT; k++) {
            char name[NAME_BYTES];
            snprintf(name, sizeof name, "layers.%" PRId64 ".%s%s", layer->number,
                     trace_tensor_names[k], k == TRACE_WEIGHTS && layer->indices ? ".values" : "");
            if (!add_floats(file, name, &layer->tensors[k]))
                return false;
        }
    }
    return true;
}

static bool add_final_rows(struct file *file, const struct trace_item *item)
{
    for (int i = 0; item->has_final_rows && i < item->model->forward->stream_count; i++)
        if (!add_floats(file, v1_trace_final_name(item, i), &item->streams[i].rows))
            return false;
    return true;
}

/* Copies positions and ids to places of their own; logprobs are added behind the tensors of eight
 * bytes. */
static bool add_predictions(struct file *file, const struct trace_item *item, float **logprobs)
{
    const int64_t count = item->prediction_count, k = item->candidate_count;
    const int64_t shape[] = { count, k };
    int64_t *positions, *ids;
    *logprobs = NULL;
    if (!item->outputs[TRACE_OUTPUT_PREDICTIONS])
        return true;
    positions = arena_calloc(file->arena, (size_t)count, sizeof *positions);
    ids = arena_calloc(file->arena, (size_t)(count * k), sizeof *ids);
    *logprobs = arena_calloc(file->arena, (size_t)(count * k), sizeof **logprobs);
    if (!positions || !ids || !*logprobs)
        return fault_no_memory(file->fault);
    for (int64_t i = 0; i < count; i++) {
        positions[i] = item->predictions[i].position;
        for (int64_t c = 0; c < k; c++) {
            ids[i * k + c] = item->predictions[i].candidates[c].id;
            (*logprobs)[i * k + c] = item->predictions[i].candidates[c].logprob;
        }
    }
    return add_tensor(file, "predictions.positions", "I64", positions, 1, shape)
           && add_tensor(file, "predictions.ids", "I64", ids, 2, shape);
}

static bool add_tensors(struct file *file, const struct trace_item *item)
{
    const int64_t shape[] = { item->prediction_count, item->candidate_count };
    const size_t most =
        (size_t)item->answered_count * (TRACE_TENSOR_COUNT + 1) + TENSORS_BESIDE_LAYERS;
    float *logprobs;
    file->tensors = arena_calloc(file->arena, most, sizeof *file->tensors);
    if (!file->tensors)
        return fault_no_memory(file->fault);
    return add_indices(file, item) && add_predictions(file, item, &logprobs)
           && add_layers(file, item) && add_final_rows(file, item)
           && (!logprobs || add_tensor(file, "predictions.logprobs", "F32", logprobs, 2, shape));
}

/* --------------------------------------------------------------- metadata -- */

/* Ends the text and makes it a value. */
static bool add_metadata(struct file *file, const char *key, struct text *text)
{
    text_bytes(text, "", 1); /* the NUL byte */
    const bool good = text_finish(text, file->fault);
    const char *value = good ? arena_strdup(file->arena, text->data) : NULL;
    text_free(text);
    file->metadata[file->metadata_count++] =
        (struct safetensors_pair){ .key = key, .value = value };
    return good && (value || fault_no_memory(file->fault));
}

static bool add_tokens(struct file *file, const struct trace_item *item)
{
    for (int i = 0; i < item->model->forward->stream_count; i++) {
        const char *key = v1_trace_tokens_name(item, i);
        struct text text;
        text_init(&text, SIZE_MAX);
        if (!key)
            continue;
        v1_trace_write_tokens(item, &item->streams[i].tokens, &text);
        if (!add_metadata(file, key, &text))
            return false;
    }
    return true;
}

static bool add_spans(struct file *file, const struct trace_item *item)
{
    struct text text;
    if (item->span_count == 0)
        return true;
    text_init(&text, SIZE_MAX);
    v1_trace_write_spans(item, &text);
    return add_metadata(file, "spans", &text);
}

static bool add_kinds(struct file *file, const struct trace_item *item)
{
    struct text text;
    text_init(&text, SIZE_MAX);
    text_raw(&text, "[");
    for (int64_t i = 0; i < item->answered_count; i++) {
        text_raw(&text, i > 0 ? ",{\"layer\":" : "{\"layer\":");
        text_integer(&text, item->answered[i].number);
        text_raw(&text, ",\"kind\":");
        text_string(&text, item->answered[i].kind);
        text_raw(&text, "}");
    }
    text_raw(&text, "]");
    return add_metadata(file, "layers", &text);
}

/* [[text, ...], ...], of the shape of predictions.ids; null for a token without a text. */
static bool add_texts(struct file *file, const struct trace_item *item)
{
    struct text text;
    if (!item->outputs[TRACE_OUTPUT_PREDICTIONS] || !item->model->tokenizer)
        return true;
    text_init(&text, SIZE_MAX);
    text_raw(&text, "[");
    for (int64_t i = 0; i < item->prediction_count; i++) {
        text_raw(&text, i > 0 ? ",[" : "[");
        for (int64_t c = 0; c < item->candidate_count; c++) {
            const char *name =
                v1_token_text(item->model->tokenizer, item->predictions[i].candidates[c].id);
            text_raw(&text, c > 0 ? "," : "");
            if (name)
                text_string(&text, name);
            else
                text_raw(&text, "null");
        }
        text_raw(&text, "]");
    }
    text_raw(&text, "]");
    return add_metadata(file, "predictions", &text);
}

bool trace_safetensors_write(struct trace_call *call, const struct safetensors_pair *more,
                             int more_count, struct fault *fault)
{
    const struct trace_item *item = &call->request.items[0];
    struct file file = { .arena = &call->request.arena, .fault = fault };
    file.metadata[file.metadata_count++] =
        (struct safetensors_pair){ .key = "model", .value = item->model->name };
    if (item->kept[0])
        file.metadata[file.metadata_count++] =
            (struct safetensors_pair){ .key = "trace", .value = item->kept };
    for (int i = 0; i < more_count; i++)
        file.metadata[file.metadata_count++] = more[i];
    return add_tokens(&file, item) && add_spans(&file, item) && add_kinds(&file, item)
           && add_texts(&file, item) && add_tensors(&file, item)
           && safetensors_answer_make(&call->base, &call->request.arena, file.tensors,
                                      file.tensor_count, file.metadata, file.metadata_count, fault);
}
