/* trace.c - reads traces from any format, and says their results to any. */
#include "operations/trace.h"

#include "operations/pass/trace_job.h"
#include "operations/say.h"
#include "operations/session/session_path.h"

#include <inttypes.h>
#include <stdio.h>

/* -------------------------------------------------------------------- reading -- */

static bool begin_of_session(struct call *call, const struct exchange *exchange,
                             struct fault *fault)
{
    struct session *session = session_path_find_to_call(exchange, call->service->sessions, fault);
    return session && trace_session_begin(call, session, fault);
}

static bool read_single(struct call *call, struct fault *fault)
{
    if (operation_answer(call)->writer->keeps_dtype)
        trace_request_of(call)->number_bytes = sizeof(float);
    return trace_fields_read(call, false, fault);
}

static bool read_batch(struct call *call, struct fault *fault)
{
    return trace_fields_read(call, true, fault);
}

static bool read_of_session(struct call *call, struct fault *fault)
{
    return read_single(call, fault) && trace_session_take(call, fault);
}

/* --------------------------------------------------------------------- tokens -- */

/* The name of a stream's list of tokens; NULL: the answer has none. Spans are asked of long
 * prompts, whose tokens would be most of the answer. */
static const char *tokens_name(const struct trace_item *item, int stream)
{
    if (!item->streams[stream].runs || !item->streams[stream].tokens.tokens || item->span_count > 0)
        return NULL;
    return item->model->forward->is_encoder_decoder && stream == 1 ? "decoder_tokens" : "tokens";
}

static void say_tokens(struct writer *writer, const struct trace_item *item, int stream)
{
    const struct token_list *list = &item->streams[stream].tokens;
    const char *name = tokens_name(item, stream);
    if (!name)
        return;
    writer->kind->list(writer, name);
    for (int64_t i = 0; i < list->count; i++)
        say_token(writer, item->model->tokenizer, &list->tokens[i], item->pair.data != NULL);
    writer->kind->end(writer);
}

/* The spans, in tokens, that sums are answered of: [[0,120],[120,480]]. */
static void say_spans(struct writer *writer, const struct trace_item *item)
{
    if (item->span_count == 0)
        return;
    writer->kind->list(writer, "spans");
    for (int64_t i = 0; i < item->span_count; i++) {
        writer->kind->list(writer, NULL);
        writer->kind->integer(writer, NULL, item->spans[i].begin);
        writer->kind->integer(writer, NULL, item->spans[i].end);
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

/* ---------------------------------------------------------------------- rows -- */

static void say_tensor(struct writer *writer, const char *name, const struct trace_tensor *tensor)
{
    if (tensor->values)
        say_array(writer, name, tensor->values, ATTN_F32, tensor->rank, tensor->shape);
}

/* A file names the layer's tensors by its number: "layers.7.weights". */
static void say_layer(struct writer *writer, const struct trace_layer *layer)
{
    const struct trace_tensor *weights = &layer->tensors[TRACE_WEIGHTS];
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, layer->number);
    writer->kind->object(writer, number);
    writer->kind->integer(writer, "layer", layer->number);
    writer->kind->string(writer, "kind", layer->kind);
    for (int i = 0; i < TRACE_TENSOR_COUNT; i++) {
        if (i == TRACE_WEIGHTS && layer->indices)
            say_top_k(writer, trace_tensor_names[i], layer->indices, weights->values, ATTN_F32,
                      weights->rank, weights->shape);
        else
            say_tensor(writer, trace_tensor_names[i], &layer->tensors[i]);
    }
    writer->kind->end(writer);
}

/* The name of the rows that leave a stream: of an encoder-decoder the answer has those of both, of
 * streams that are apart those of each that runs. */
static const char *final_name(const struct trace_item *item, int stream)
{
    const struct model_forward *forward = item->model->forward;
    const bool is_only = forward->stream_count == 1 || (forward->is_encoder_decoder && stream == 1)
                         || !item->streams[1 - stream].runs;
    return is_only                       ? "final_hidden_states"
           : forward->is_encoder_decoder ? "encoder_hidden_states"
           : stream == 0                 ? "text_hidden_states"
                                         : "vision_hidden_states";
}

/* ---------------------------------------------------------------- predictions -- */

static void say_candidate(struct writer *writer, const struct trace_item *item, int64_t i)
{
    const struct array logprob = { .data = &item->predictions.logprobs[i], .dtype = ATTN_F32 };
    const char *text = say_token_text(item->model->tokenizer, item->predictions.ids[i]);
    writer->kind->object(writer, NULL);
    writer->kind->integer(writer, "id", item->predictions.ids[i]);
    if (text)
        writer->kind->string(writer, "text", text);
    writer->kind->array(writer, "logprob", &logprob);
    writer->kind->end(writer);
}

/* [{"position": 4, "tokens": [{"id": 261, "text": "▁a", "logprob": -0.1}, ...]}, ...] */
static void say_prediction_objects(struct writer *writer, const struct trace_item *item)
{
    const struct trace_predictions *predictions = &item->predictions;
    writer->kind->list(writer, "predictions");
    for (int64_t i = 0; i < predictions->count; i++) {
        writer->kind->object(writer, NULL);
        writer->kind->integer(writer, "position", predictions->positions[i]);
        writer->kind->list(writer, "tokens");
        for (int64_t k = 0; k < predictions->candidates; k++)
            say_candidate(writer, item, i * predictions->candidates + k);
        writer->kind->end(writer);
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

/* [[text, ...], ...], of the shape of predictions.ids; null for a token without a text. */
static void say_prediction_texts(struct writer *writer, const struct trace_item *item)
{
    const struct trace_predictions *predictions = &item->predictions;
    writer->kind->list(writer, "predictions");
    for (int64_t i = 0; i < predictions->count; i++) {
        const int64_t *ids = predictions->ids + i * predictions->candidates;
        writer->kind->list(writer, NULL);
        for (int64_t k = 0; k < predictions->candidates; k++)
            writer->kind->string(writer, NULL, say_token_text(item->model->tokenizer, ids[k]));
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

static void say_prediction_tensors(struct writer *writer, const struct trace_item *item)
{
    const struct trace_predictions *predictions = &item->predictions;
    const int64_t shape[] = { predictions->count, predictions->candidates };
    if (item->model->tokenizer)
        say_prediction_texts(writer, item);
    writer->kind->object(writer, "predictions");
    writer->kind->indices(writer, "positions", predictions->positions, 1, shape);
    writer->kind->indices(writer, "ids", predictions->ids, 2, shape);
    say_array(writer, "logprobs", predictions->logprobs, ATTN_F32, 2, shape);
    writer->kind->end(writer);
}

/* -------------------------------------------------------------------- answers -- */

static void say_results(struct writer *writer, const struct trace_item *item)
{
    const int stream_count = item->model->forward->stream_count;
    for (int i = 0; i < stream_count; i++)
        say_tokens(writer, item, i);
    say_spans(writer, item);
    writer->kind->list(writer, "layers");
    for (int64_t i = 0; i < item->answered_count; i++)
        say_layer(writer, &item->answered[i]);
    writer->kind->end(writer);
    for (int i = 0; item->has_final_rows && i < stream_count; i++)
        say_tensor(writer, final_name(item, i), &item->streams[i].rows);
    if (!item->outputs[TRACE_OUTPUT_PREDICTIONS])
        return;
    if (writer->kind->keeps_dtype)
        say_prediction_tensors(writer, item);
    else
        say_prediction_objects(writer, item);
}

static void say_item(struct writer *writer, const struct trace_item *item)
{
    writer->kind->string(writer, "model", item->model->name);
    if (item->kept[0])
        writer->kind->string(writer, "trace", item->kept);
    say_results(writer, item);
}

static void say_single(const struct call *call, struct writer *writer)
{
    say_item(writer, trace_request_of(call)->items);
}

static void say_batch(const struct call *call, struct writer *writer)
{
    const struct trace_request *request = trace_request_of(call);
    writer->kind->list(writer, "results");
    for (int64_t i = 0; i < request->item_count; i++) {
        const struct trace_item *item = &request->items[i];
        writer->kind->object(writer, NULL);
        if (item->fault.code != FAULT_NONE)
            say_fault(writer, &item->fault, i);
        else
            say_item(writer, item);
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

static void say_of_session(const struct call *call, struct writer *writer)
{
    const struct session *session = trace_session_of(call);
    if (writer->kind->keeps_dtype)
        writer->kind->string(writer, "model", session->model->name);
    writer->kind->string(writer, "session", session->id);
    writer->kind->integer(writer, "kv_len", session_kv_len_then(session));
    if (!writer->kind->keeps_dtype)
        writer->kind->string(writer, "model", session->model->name);
    say_results(writer, trace_request_of(call)->items);
}

const struct operation trace_single = { .kind = &trace_kind,
                                        .formats = operation_formats_tensors,
                                        .read = read_single,
                                        .say = say_single };
const struct operation trace_batch = {
    .kind = &trace_kind, .formats = operation_formats_json, .read = read_batch, .say = say_batch
};
const struct operation trace_of_session = { .kind = &trace_kind,
                                            .formats = operation_formats_tensors,
                                            .begin = begin_of_session,
                                            .read = read_of_session,
                                            .say = say_of_session,
                                            .drop = trace_session_drop };
