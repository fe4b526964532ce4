/* v1_trace_answer.c - writes the answer of a trace as JSON. */
#include "wire/v1_fault.h"
#include "wire/v1_token.h"
#include "wire/v1_trace.h"

static void write_tensor(const char *name, const struct trace_tensor *tensor, struct text *text)
{
    if (!tensor->values)
        return;
    text_raw(text, ",");
    text_key(text, name);
    text_tensor(text, tensor->values, tensor->rank, tensor->shape);
}

static void write_top_k(const struct trace_layer *layer, struct text *text)
{
    const struct trace_tensor *weights = &layer->tensors[TRACE_WEIGHTS];
    struct tensor_text indices =
        tensor_text_make(layer->indices, ATTN_F32, weights->rank, weights->shape);
    indices.is_integers = true;
    text_raw(text, ",\"weights\":{\"indices\":");
    text_numbers(text, &indices);
    text_raw(text, ",\"values\":");
    text_tensor(text, weights->values, weights->rank, weights->shape);
    text_raw(text, "}");
}

static void write_layer(const struct trace_layer *layer, struct text *text)
{
    text_raw(text, "{\"layer\":");
    text_integer(text, layer->number);
    text_raw(text, ",\"kind\":");
    text_string(text, layer->kind);
    for (int i = 0; i < TRACE_TENSOR_COUNT; i++) {
        if (i == TRACE_WEIGHTS && layer->indices)
            write_top_k(layer, text);
        else
            write_tensor(trace_tensor_names[i], &layer->tensors[i], text);
    }
    text_raw(text, "}");
}

/* Spans are asked of long prompts, whose tokens would be most of the answer. */
const char *v1_trace_tokens_name(const struct trace_item *item, int stream)
{
    if (!item->streams[stream].runs || !item->streams[stream].tokens.tokens || item->span_count > 0)
        return NULL;
    return item->model->forward->is_encoder_decoder && stream == 1 ? "decoder_tokens" : "tokens";
}

void v1_trace_write_tokens(const struct trace_item *item, const struct token_list *list,
                           struct text *text)
{
    text_raw(text, "[");
    for (int64_t i = 0; i < list->count; i++) {
        text_raw(text, i > 0 ? "," : "");
        v1_token_write(item->model->tokenizer, &list->tokens[i], item->pair.data != NULL, text);
    }
    text_raw(text, "]");
}

void v1_trace_write_spans(const struct trace_item *item, struct text *text)
{
    text_raw(text, "[");
    for (int64_t i = 0; i < item->span_count; i++) {
        text_raw(text, i > 0 ? ",[" : "[");
        text_integer(text, item->spans[i].begin);
        text_raw(text, ",");
        text_integer(text, item->spans[i].end);
        text_raw(text, "]");
    }
    text_raw(text, "]");
}

static void write_prediction(const struct trace_item *item,
                             const struct trace_prediction *prediction, struct text *text)
{
    text_raw(text, "{\"position\":");
    text_integer(text, prediction->position);
    text_raw(text, ",\"tokens\":[");
    for (int64_t i = 0; i < item->candidate_count; i++) {
        const struct trace_candidate *candidate = &prediction->candidates[i];
        text_raw(text, i > 0 ? ",{\"id\":" : "{\"id\":");
        text_integer(text, candidate->id);
        v1_token_write_text(item->model->tokenizer, candidate->id, text);
        text_raw(text, ",\"logprob\":");
        text_float(text, candidate->logprob);
        text_raw(text, "}");
    }
    text_raw(text, "]}");
}

static void write_streams(const struct trace_item *item, struct text *text)
{
    for (int i = 0; i < item->model->forward->stream_count; i++) {
        const char *name = v1_trace_tokens_name(item, i);
        if (!name)
            continue;
        text_raw(text, ",");
        text_key(text, name);
        v1_trace_write_tokens(item, &item->streams[i].tokens, text);
    }
    if (item->span_count > 0) {
        text_raw(text, ",\"spans\":");
        v1_trace_write_spans(item, text);
    }
}

const char *v1_trace_final_name(const struct trace_item *item, int stream)
{
    const struct model_forward *forward = item->model->forward;
    const bool is_only = forward->stream_count == 1 || (forward->is_encoder_decoder && stream == 1)
                         || !item->streams[1 - stream].runs;
    return is_only                       ? "final_hidden_states"
           : forward->is_encoder_decoder ? "encoder_hidden_states"
           : stream == 0                 ? "text_hidden_states"
                                         : "vision_hidden_states";
}

static void write_final_rows(const struct trace_item *item, struct text *text)
{
    for (int i = 0; item->has_final_rows && i < item->model->forward->stream_count; i++)
        write_tensor(v1_trace_final_name(item, i), &item->streams[i].rows, text);
}

void v1_trace_write_members(const struct trace_item *item, struct text *text)
{
    text_raw(text, "\"model\":");
    text_string(text, item->model->name);
    if (item->kept[0]) {
        text_raw(text, ",\"trace\":");
        text_string(text, item->kept);
    }
    write_streams(item, text);
    text_raw(text, ",\"layers\":[");
    for (int64_t i = 0; i < item->answered_count; i++) {
        text_raw(text, i > 0 ? "," : "");
        write_layer(&item->answered[i], text);
    }
    text_raw(text, "]");
    write_final_rows(item, text);
    if (item->outputs[TRACE_OUTPUT_PREDICTIONS]) {
        text_raw(text, ",\"predictions\":[");
        for (int64_t i = 0; i < item->prediction_count; i++) {
            text_raw(text, i > 0 ? "," : "");
            write_prediction(item, &item->predictions[i], text);
        }
        text_raw(text, "]");
    }
}

static void write_item(const struct trace_item *item, struct text *text)
{
    text_raw(text, "{");
    v1_trace_write_members(item, text);
    text_raw(text, "}");
}

void v1_trace_write(const struct trace_request *request, struct text *text)
{
    if (!request->batch) {
        write_item(&request->items[0], text);
        text_raw(text, "\n");
        return;
    }
    text_raw(text, "{\"results\":[");
    for (int64_t i = 0; i < request->item_count; i++) {
        text_raw(text, i > 0 ? "," : "");
        if (request->items[i].fault.code != FAULT_NONE)
            v1_fault_write(&request->items[i].fault, i, text);
        else
            write_item(&request->items[i], text);
    }
    text_raw(text, "]}\n");
}
