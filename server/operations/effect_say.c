/* SPDX-License-Identifier: Apache-2.0 */
/* effect_say.c - the answer to a request of effects, said to any format. */
#include "operations/effect.h"
#include "operations/say.h"

#include <inttypes.h>
#include <stdio.h>

/* Of a number with its comma, and of a token with its log-prob, at most. */
enum { NUMBER_BYTES = 24, TOKEN_BYTES = 160, ANSWER_BYTES = 4096 };

static bool is_span(const struct effects *job)
{
    return job->asked.each >= EFFECT_SPANS;
}

/* Whether effects and predictions are lists of a layer's lists. */
static bool is_nested(const struct effects *job)
{
    return job->asked.each == EFFECT_HEADS || job->asked.each == EFFECT_ROWS_OF_LAYERS;
}

size_t effect_answer_bytes(const struct effects *job)
{
    const struct trace_item *base = effect_base(job);
    const int64_t vocabulary = trace_vocabulary(base->model->forward);
    const int64_t candidates =
        job->asked.top_k_tokens < vocabulary ? job->asked.top_k_tokens : vocabulary;
    const double bytes =
        ANSWER_BYTES
        + (double)job->variant_count * (3 * NUMBER_BYTES + (double)candidates * TOKEN_BYTES)
        + (double)(job->layer_count + job->edits[0].row_count) * NUMBER_BYTES
        + (double)candidates * TOKEN_BYTES;
    return bytes < (double)(SIZE_MAX / 2) ? (size_t)bytes : SIZE_MAX / 2;
}

/* ------------------------------------------------------------------------- tokens -- */

static void say_score(struct writer *writer, const struct effects *job,
                      const struct trace_score *score)
{
    say_id(writer, effect_base(job)->model->tokenizer, score->id);
    say_number(writer, "logprob", &score->logprob);
    writer->kind->integer(writer, "rank", score->rank);
}

static void say_tokens(struct writer *writer, const struct effects *job, const char *name,
                       const int64_t *ids, const float *logprobs)
{
    writer->kind->list(writer, name);
    for (int64_t i = 0; i < job->predictions.candidates; i++) {
        writer->kind->object(writer, NULL);
        say_id(writer, effect_base(job)->model->tokenizer, ids[i]);
        say_number(writer, "logprob", &logprobs[i]);
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

/* A file has tensors in place of lists of tokens. */
static void say_token_tensors(struct writer *writer, const char *name, const int64_t *ids,
                              const float *logprobs, int rank, const int64_t *shape)
{
    writer->kind->object(writer, name);
    writer->kind->indices(writer, "ids", ids, rank, shape);
    say_array(writer, "logprobs", logprobs, ATTN_F32, rank, shape);
    writer->kind->end(writer);
}

/* --------------------------------------------------------------------------- base -- */

static void say_base(struct writer *writer, const struct effects *job)
{
    const struct trace_item *base = effect_base(job);
    const struct trace_predictions *predictions = &base->predictions;
    writer->kind->object(writer, "base");
    writer->kind->integer(writer, "position", job->position);
    say_number(writer, "value", &job->base_value);
    if (!effect_is_divergence(job)) {
        writer->kind->object(writer, "target");
        say_score(writer, job, &base->scores[0]);
        if (job->asked.metric.target.against.has) {
            writer->kind->object(writer, "against");
            say_score(writer, job, &base->scores[1]);
            writer->kind->end(writer);
        }
        writer->kind->end(writer);
    }
    if (predictions->candidates > 0 && writer->kind->keeps_dtype)
        say_token_tensors(writer, "tokens", predictions->ids, predictions->logprobs, 1,
                          &predictions->candidates);
    else if (predictions->candidates > 0)
        say_tokens(writer, job, "tokens", predictions->ids, predictions->logprobs);
    writer->kind->end(writer);
}

/* ------------------------------------------------------------------------- effects -- */

/* Whether the lists of all layers are of one length. */
static bool is_even(const struct effects *job)
{
    for (int64_t i = 1; i < job->list_count; i++)
        if (job->lists[i].count != job->lists[0].count)
            return false;
    return true;
}

static int shape_of(const struct effects *job, int64_t shape[3])
{
    const bool is_matrix = is_nested(job) && is_even(job);
    shape[0] = is_matrix ? job->list_count : job->variant_count;
    shape[1] = is_matrix && job->list_count > 0 ? job->lists[0].count : 0;
    return is_matrix ? 2 : 1;
}

static void say_effects(struct writer *writer, const struct effects *job)
{
    int64_t shape[3];
    const int rank = shape_of(job, shape);
    if (!is_nested(job) || is_even(job)) {
        say_array(writer, "effects", job->effects, ATTN_F32, rank, shape);
        return;
    }
    writer->kind->list(writer, "effects");
    for (int64_t i = 0; i < job->list_count; i++)
        say_array(writer, NULL, job->effects + job->lists[i].first, ATTN_F32, 1,
                  &job->lists[i].count);
    writer->kind->end(writer);
}

static void say_variant(struct writer *writer, const struct effects *job, int64_t variant)
{
    const int64_t first = variant * job->predictions.candidates;
    say_tokens(writer, job, NULL, job->predictions.ids + first, job->predictions.logprobs + first);
}

static void say_predictions(struct writer *writer, const struct effects *job)
{
    int64_t shape[3];
    const int rank = shape_of(job, shape);
    if (job->predictions.candidates == 0)
        return;
    if (writer->kind->keeps_dtype) {
        shape[rank] = job->predictions.candidates;
        say_token_tensors(writer, "predictions", job->predictions.ids, job->predictions.logprobs,
                          rank + 1, shape);
        return;
    }
    writer->kind->list(writer, "predictions");
    for (int64_t i = 0; i < job->list_count; i++) {
        if (is_nested(job))
            writer->kind->list(writer, NULL);
        for (int64_t v = 0; v < job->lists[i].count; v++)
            say_variant(writer, job, job->lists[i].first + v);
        if (is_nested(job))
            writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

/* -------------------------------------------------------------------------- answer -- */

static void say_integers(struct writer *writer, const char *name, const int64_t *list,
                         int64_t count)
{
    writer->kind->indices(writer, name, list, 1, &count);
}

static void say_spans(struct writer *writer, const struct effects *job)
{
    const struct trace_edit *edit = &job->edits[0];
    writer->kind->list(writer, "spans");
    for (int64_t i = 0; i < edit->hidden_count; i++) {
        writer->kind->list(writer, NULL);
        writer->kind->integer(writer, NULL, edit->hidden[i].begin);
        writer->kind->integer(writer, NULL, edit->hidden[i].end);
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

void effect_say(const struct call *call, struct writer *writer)
{
    const struct effects *job = effects_of(call);
    writer->kind->string(writer, "model", effect_base(job)->model->name);
    say_integers(writer, "layers", job->layers, job->layer_count);
    if (job->asked.each == EFFECT_ROWS_OF_LAYERS)
        say_integers(writer, "rows", job->edits[0].row_list, job->edits[0].row_count);
    if (is_span(job))
        say_spans(writer, job);
    if (job->asked.by == EFFECT_LEAVE_OUT)
        writer->kind->flag(writer, "moved", true);
    say_base(writer, job);
    say_effects(writer, job);
    say_predictions(writer, job);
}
