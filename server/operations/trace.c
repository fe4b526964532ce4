/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - reads traces from any format, and says their results to any. */
#include "operations/trace.h"

#include "models/model/model_describe.h"
#include "operations/plan/trace_job.h"
#include "operations/say.h"
#include "operations/session/session_path.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* -------------------------------------------------------------------- reading -- */

static bool begin_of_session(struct call *call, const struct exchange *exchange,
                             struct fault *fault)
{
    struct session *session = session_path_find_to_call(exchange, call->service->sessions, fault);
    if (session && !session_check_here(session, "a trace", fault)) {
        session_release(session);
        return false;
    }
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

/* Memory for numbers of the answer that are made while it is said; they stay as long as it does. */
static void *answer_memory(struct writer *writer, int64_t count, size_t size)
{
    static double none;
    void *memory = arena_calloc(writer->arena, (size_t)count, size);
    if (!memory)
        fault_no_memory(writer->fault);
    return memory || count > 1 ? memory : &none;
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

/* The vectors of streams, as their rows are named. */
static void say_vectors(struct writer *writer, const struct trace_item *item)
{
    const bool are_both =
        item->streams[0].vector.numbers.values && item->streams[1].vector.numbers.values;
    static const char *const NAMES[2][2][MODEL_STREAMS_MAX] = {
        { { "embedding", "embedding" }, { "text_embedding", "vision_embedding" } },
        { { "base_embedding", "base_embedding" },
          { "base_text_embedding", "base_vision_embedding" } },
    };
    for (int i = 0; i < MODEL_STREAMS_MAX; i++) {
        say_tensor(writer, NAMES[0][are_both][i], &item->streams[i].vector.numbers);
        if (item->base)
            say_tensor(writer, NAMES[1][are_both][i], &item->base->streams[i].vector.numbers);
    }
}

/* ------------------------------------------------------------------- classes -- */

/* What the model's own function makes of the logits, an input at a time. */
static void say_probabilities(struct writer *writer, const char *name,
                              const struct model_classes *classes,
                              const struct trace_tensor *logits)
{
    const int64_t inputs = logits->rank == 2 ? logits->shape[0] : 1;
    float *numbers = answer_memory(writer, inputs * classes->count, sizeof *numbers);
    if (!numbers)
        return;
    for (int64_t i = 0; i < inputs; i++)
        model_classes_activate(classes->activation, logits->values + i * classes->count,
                               classes->count, numbers + i * classes->count);
    say_array(writer, name, numbers, ATTN_F32, logits->rank, logits->shape);
}

/* The most probable letter of each row, decoded by the model's tokenizer: repeated letters are one,
 * the pad token is none (Graves et al. 2006, best path decoding). */
static void say_transcript(struct writer *writer, const char *name, const struct trace_item *item)
{
    const struct trace_tensor *logits = &item->classes.numbers;
    const struct tokenizer *tokenizer = item->model->tokenizer;
    const int64_t rows = logits->shape[0], count = logits->shape[1];
    struct fault fault = { .code = FAULT_NONE };
    struct text text;
    if (!item->model->forward->classes.are_letters || !tokenizer
        || tokenizer_id_end(tokenizer) < count)
        return;
    int32_t *ids = answer_memory(writer, rows, sizeof *ids);
    if (!ids)
        return;
    for (int64_t i = 0; i < rows; i++) {
        const float *row = logits->values + i * count;
        ids[i] = 0;
        for (int64_t k = 1; k < count; k++)
            if (row[k] > row[ids[i]])
                ids[i] = (int32_t)k;
    }
    text_init(&text, SIZE_MAX);
    tokenizer_decode(tokenizer, NULL, ids, rows, false, &text, &fault);
    text_bytes(&text, "", 1);
    char *end = text.data ? text.data + text.used - 1 : NULL;
    const char *begin = text.data;
    while (end && end > begin && end[-1] == ' ')
        *--end = '\0';
    while (begin && *begin == ' ')
        begin++;
    if (fault.code == FAULT_NONE && text.failed == FAULT_NONE && begin) {
        const char *kept = arena_strdup(writer->arena, begin); /* a file is written later */
        if (kept)
            writer->kind->string(writer, name, kept);
        else
            fault_no_memory(writer->fault);
    }
    text_free(&text);
}

static void say_classes(struct writer *writer, const struct trace_item *item)
{
    const struct model_classes *classes = &item->model->forward->classes;
    const bool has_probabilities = classes->activation != MODEL_CLASSES_NONE;
    if (!item->classes.numbers.values)
        return;
    writer->kind->list(writer, "labels");
    for (int64_t i = 0; i < classes->count; i++)
        writer->kind->string(writer, NULL, model_class_label(item->model, i));
    writer->kind->end(writer);
    writer->kind->string(writer, "activation", model_classes_names[classes->activation]);
    say_tensor(writer, "logits", &item->classes.numbers);
    if (has_probabilities)
        say_probabilities(writer, "probabilities", classes, &item->classes.numbers);
    say_transcript(writer, "transcript", item);
    if (!item->base)
        return;
    say_tensor(writer, "base_logits", &item->base->classes.numbers);
    if (has_probabilities)
        say_probabilities(writer, "base_probabilities", classes, &item->base->classes.numbers);
    say_transcript(writer, "base_transcript", item->base);
}

/* ---------------------------------------------------------------- predictions -- */

static void say_candidates(struct writer *writer, const struct trace_item *item,
                           const struct trace_predictions *predictions, int64_t number)
{
    writer->kind->list(writer, "tokens");
    for (int64_t k = 0; k < predictions->candidates; k++) {
        const int64_t i = number * predictions->candidates + k;
        writer->kind->object(writer, NULL);
        say_id(writer, item->model->tokenizer, predictions->ids[i]);
        say_number(writer, "logprob", &predictions->logprobs[i]);
        if (predictions->differences)
            say_number(writer, "difference", &predictions->differences[i]);
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

/* [{"position": 4, "tokens": [{"id": 261, "text": "▁a", "logprob": -0.1}, ...]}, ...] */
static void say_prediction_objects(struct writer *writer, const char *name,
                                   const struct trace_item *item)
{
    const struct trace_predictions *predictions = &item->predictions;
    writer->kind->list(writer, name);
    for (int64_t i = 0; i < predictions->count; i++) {
        writer->kind->object(writer, NULL);
        writer->kind->integer(writer, "position", predictions->positions[i]);
        say_candidates(writer, item, predictions, i);
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

/* [[text, ...], ...], of the shape of ids; null for a token without a text. */
static void say_candidate_texts(struct writer *writer, const char *name,
                                const struct trace_item *item,
                                const struct trace_predictions *predictions)
{
    if (!item->model->tokenizer)
        return;
    writer->kind->list(writer, name);
    for (int64_t i = 0; i < predictions->count; i++) {
        const int64_t *ids = predictions->ids + i * predictions->candidates;
        writer->kind->list(writer, NULL);
        for (int64_t k = 0; k < predictions->candidates; k++)
            writer->kind->string(writer, NULL, say_token_text(item->model->tokenizer, ids[k]));
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

static void say_candidate_tensors(struct writer *writer,
                                  const struct trace_predictions *predictions)
{
    const int64_t shape[] = { predictions->count, predictions->candidates };
    writer->kind->indices(writer, "positions", predictions->positions, 1, shape);
    writer->kind->indices(writer, "ids", predictions->ids, 2, shape);
    say_array(writer, "logprobs", predictions->logprobs, ATTN_F32, 2, shape);
    if (predictions->differences)
        say_array(writer, "differences", predictions->differences, ATTN_F32, 2, shape);
}

static void say_prediction_tensors(struct writer *writer, const char *name,
                                   const struct trace_item *item)
{
    say_candidate_texts(writer, name, item, &item->predictions);
    writer->kind->object(writer, name);
    say_candidate_tensors(writer, &item->predictions);
    writer->kind->end(writer);
}

static void say_predictions(struct writer *writer, const struct trace_item *item)
{
    void (*say)(struct writer *, const char *, const struct trace_item *) =
        writer->kind->keeps_dtype ? say_prediction_tensors : say_prediction_objects;
    if (!item->outputs[TRACE_OUTPUT_PREDICTIONS])
        return;
    say(writer, "predictions", item);
    if (item->base)
        say(writer, "base_predictions", item->base);
}

/* ------------------------------------------------------------------ log-probs -- */

/* score NULL: the first token, which nothing predicts. */
static void say_score(struct writer *writer, const struct trace_item *item, int64_t id,
                      const struct trace_score *score)
{
    say_id(writer, item->model->tokenizer, id);
    if (!score) {
        writer->kind->string(writer, "logprob", NULL);
        writer->kind->string(writer, "rank", NULL);
        return;
    }
    say_number(writer, "logprob", &score->logprob);
    writer->kind->integer(writer, "rank", score->rank);
    if (item->compare)
        say_number(writer, "difference", &score->difference);
}

static void say_made(struct writer *writer, const char *name, double number, enum attn_dtype dtype)
{
    void *made = answer_memory(writer, 1, sizeof number);
    if (dtype == ATTN_F64)
        memcpy(made, &number, sizeof number);
    else
        memcpy(made, &(float){ (float)number }, sizeof(float));
    say_array(writer, name, made, dtype, 0, NULL);
}

static void say_target_objects(struct writer *writer, const struct trace_item *item)
{
    writer->kind->list(writer, "targets");
    for (int64_t i = 0; i < item->target_count; i++) {
        const struct trace_target *target = &item->targets[i];
        const struct trace_score *score = &item->scores[target->score];
        writer->kind->object(writer, NULL);
        writer->kind->integer(writer, "position", score->row);
        say_score(writer, item, score->id, score);
        if (target->against.has) {
            writer->kind->object(writer, "against");
            say_score(writer, item, score[1].id, &score[1]);
            writer->kind->end(writer);
            say_made(writer, "logit_difference", score->logprob - score[1].logprob, ATTN_F32);
        }
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

static void say_logprob_objects(struct writer *writer, const struct trace_item *item)
{
    const struct trace_logprobs *logprobs = &item->logprobs;
    const struct token_list *tokens = &item->streams[item->model->forward->stream_count - 1].tokens;
    writer->kind->list(writer, "logprobs");
    for (int64_t i = 0; i < logprobs->count; i++) {
        writer->kind->object(writer, NULL);
        writer->kind->integer(writer, "position", i);
        say_score(writer, item, tokens->tokens[i].id,
                  i > 0 ? &item->scores[logprobs->first + i - 1] : NULL);
        if (i > 0 && logprobs->tokens.count > 0)
            say_candidates(writer, item, &logprobs->tokens, i - 1);
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

/* Scores as tensors of count numbers. One that is not there has the id -1 and rank 0. */
struct score_table {
    int64_t *positions, *ids, *ranks;
    float *logprobs, *differences;
    int64_t count;
};

static bool make_table(struct writer *writer, struct score_table *table, int64_t count,
                       bool has_differences)
{
    *table = (struct score_table){ answer_memory(writer, count + 1, sizeof(int64_t)),
                                   answer_memory(writer, count + 1, sizeof(int64_t)),
                                   answer_memory(writer, count + 1, sizeof(int64_t)),
                                   answer_memory(writer, count + 1, sizeof(float)),
                                   has_differences ? answer_memory(writer, count + 1, sizeof(float))
                                                   : NULL,
                                   count };
    return table->positions && table->ids && table->ranks && table->logprobs
           && (table->differences || !has_differences);
}

/* score NULL: there is none. */
static void set_row(struct score_table *table, int64_t i, int64_t position,
                    const struct trace_score *score)
{
    table->positions[i] = position;
    table->ids[i] = score ? score->id : -1;
    table->ranks[i] = score ? score->rank : 0;
    table->logprobs[i] = score ? score->logprob : NAN;
    if (table->differences)
        table->differences[i] = score ? score->difference : NAN;
}

/* The texts of a table's tokens, null where there is no score. */
static void say_texts(struct writer *writer, const struct trace_item *item,
                      const struct score_table *table)
{
    if (!item->model->tokenizer)
        return;
    writer->kind->list(writer, "texts");
    for (int64_t i = 0; i < table->count; i++)
        writer->kind->string(
            writer, NULL,
            table->ids[i] < 0 ? NULL : say_token_text(item->model->tokenizer, table->ids[i]));
    writer->kind->end(writer);
}

static void say_table(struct writer *writer, const struct trace_item *item,
                      const struct score_table *table)
{
    const int64_t shape[] = { table->count };
    say_texts(writer, item, table);
    writer->kind->indices(writer, "positions", table->positions, 1, shape);
    writer->kind->indices(writer, "ids", table->ids, 1, shape);
    writer->kind->indices(writer, "ranks", table->ranks, 1, shape);
    say_array(writer, "logprobs", table->logprobs, ATTN_F32, 1, shape);
    if (table->differences)
        say_array(writer, "differences", table->differences, ATTN_F32, 1, shape);
}

static void say_target_tensors(struct writer *writer, const struct trace_item *item)
{
    struct score_table targets, against;
    bool has_against = false;
    if (!make_table(writer, &targets, item->target_count, item->compare)
        || !make_table(writer, &against, item->target_count, item->compare))
        return;
    for (int64_t i = 0; i < item->target_count; i++) {
        const struct trace_target *target = &item->targets[i];
        const struct trace_score *score = &item->scores[target->score];
        set_row(&targets, i, score->row, score);
        set_row(&against, i, score->row, target->against.has ? score + 1 : NULL);
        has_against = has_against || target->against.has;
    }
    writer->kind->object(writer, "targets");
    say_table(writer, item, &targets);
    if (has_against) {
        writer->kind->object(writer, "against");
        say_table(writer, item, &against);
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

/* The first token has the id that it has, and no log-prob. */
static void say_logprob_tensors(struct writer *writer, const struct trace_item *item)
{
    const struct trace_logprobs *logprobs = &item->logprobs;
    const struct token_list *tokens = &item->streams[item->model->forward->stream_count - 1].tokens;
    struct score_table table;
    if (!make_table(writer, &table, logprobs->count, item->compare))
        return;
    for (int64_t i = 0; i < logprobs->count; i++) {
        set_row(&table, i, i, i > 0 ? &item->scores[logprobs->first + i - 1] : NULL);
        table.ids[i] = tokens->tokens[i].id;
    }
    writer->kind->object(writer, "logprobs");
    say_table(writer, item, &table);
    if (logprobs->tokens.count > 0) {
        writer->kind->object(writer, "tokens");
        say_candidate_texts(writer, "texts", item, &logprobs->tokens);
        say_candidate_tensors(writer, &logprobs->tokens);
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

/* Sums of the log-probs of tokens [begin, end) that have one, in double. */
static double logprob_sum(const struct trace_item *item, int64_t begin, int64_t end)
{
    const struct trace_logprobs *logprobs = &item->logprobs;
    double sum = 0;
    for (int64_t i = begin > 1 ? begin : 1; i < end; i++)
        sum += (double)item->scores[logprobs->first + i - 1].logprob;
    return sum;
}

static void say_logprobs(struct writer *writer, const struct trace_item *item)
{
    const bool has_spans = item->span_count > 0 && !item->model->forward->is_encoder_decoder;
    double *sums = answer_memory(writer, item->span_count + 2, sizeof *sums);
    if (!item->outputs[TRACE_OUTPUT_LOGPROBS] || !sums)
        return;
    (writer->kind->keeps_dtype ? say_logprob_tensors : say_logprob_objects)(writer, item);
    say_made(writer, "logprob_sum", logprob_sum(item, 0, item->logprobs.count), ATTN_F64);
    for (int64_t i = 0; has_spans && i < item->span_count; i++)
        sums[i] = logprob_sum(item, item->spans[i].begin, item->spans[i].end);
    if (has_spans)
        say_array(writer, "logprob_spans", sums, ATTN_F64, 1, &item->span_count);
}

static void say_targets(struct writer *writer, const struct trace_item *item)
{
    if (item->has_targets)
        (writer->kind->keeps_dtype ? say_target_tensors : say_target_objects)(writer, item);
}

/* --------------------------------------------------------------------- layers -- */

/* As predictions, and of targets at the position their log-probs there. */
static void say_lens_objects(struct writer *writer, const struct trace_item *item,
                             const struct trace_lens *lens)
{
    int64_t score = 0;
    writer->kind->list(writer, "lens");
    for (int64_t i = 0; i < lens->tokens.count; i++) {
        writer->kind->object(writer, NULL);
        writer->kind->integer(writer, "position", lens->tokens.positions[i]);
        say_candidates(writer, item, &lens->tokens, i);
        if (item->has_targets)
            writer->kind->list(writer, "targets");
        for (; score < lens->score_count && lens->scores[score].row == i; score++) {
            writer->kind->object(writer, NULL);
            say_id(writer, item->model->tokenizer, lens->scores[score].id);
            say_number(writer, "logprob", &lens->scores[score].logprob);
            writer->kind->integer(writer, "rank", lens->scores[score].rank);
            writer->kind->end(writer);
        }
        if (item->has_targets)
            writer->kind->end(writer);
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

static void say_lens_tensors(struct writer *writer, const struct trace_item *item,
                             const struct trace_lens *lens)
{
    struct score_table targets;
    if (!make_table(writer, &targets, lens->score_count, false))
        return;
    for (int64_t i = 0; i < lens->score_count; i++)
        set_row(&targets, i, lens->tokens.positions[lens->scores[i].row], &lens->scores[i]);
    writer->kind->object(writer, "lens");
    say_candidate_texts(writer, "texts", item, &lens->tokens);
    say_candidate_tensors(writer, &lens->tokens);
    if (item->has_targets) {
        writer->kind->object(writer, "targets");
        say_table(writer, item, &targets);
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

/* A file names the layer's tensors by its number: "layers.7.weights". */
static void say_layer(struct writer *writer, const struct trace_item *item,
                      const struct trace_layer *layer)
{
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, layer->number);
    writer->kind->object(writer, number);
    writer->kind->integer(writer, "layer", layer->number);
    writer->kind->string(writer, "kind", layer->kind);
    for (int i = 0; i < TRACE_TENSOR_COUNT; i++) {
        const struct trace_tensor *tensor = &layer->tensors[i];
        const int64_t *indices = i == TRACE_WEIGHTS ? layer->indices
                                 : i == TRACE_NORMS ? layer->norm_indices
                                                    : NULL;
        if (indices)
            say_top_k(writer, trace_tensor_names[i], indices, tensor->values, ATTN_F32,
                      tensor->rank, tensor->shape);
        else
            say_tensor(writer, trace_tensor_names[i], tensor);
    }
    if (layer->lens)
        (writer->kind->keeps_dtype ? say_lens_tensors : say_lens_objects)(writer, item,
                                                                          layer->lens);
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
        say_layer(writer, item, &item->answered[i]);
    writer->kind->end(writer);
    say_tensor(writer, "span_scores", &item->span_scores);
    say_tensor(writer, "contacts", &item->contacts);
    for (int i = 0; item->has_final_rows && i < stream_count; i++)
        say_tensor(writer, final_name(item, i), &item->streams[i].rows);
    say_vectors(writer, item);
    say_classes(writer, item);
    say_predictions(writer, item);
    say_targets(writer, item);
    contributions_say(writer, item);
    alignment_say(writer, item);
    say_logprobs(writer, item);
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
