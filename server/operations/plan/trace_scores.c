/* SPDX-License-Identifier: Apache-2.0 */
/* trace_scores.c - which log-probs a trace asks of the head over the vocabulary: those of the
 * stream's own tokens, and those of targets; and the item without edits that is compared. */
#include "operations/plan/trace_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool trace_expect_head(const struct trace_item *item, const char *pointer, struct fault *fault)
{
    if (item->model->forward->head.output.weight)
        return true;
    return fault_set_at(fault, pointer, FAULT_OPTION,
                        "model '%s' has no predictions: there is no head over its vocabulary",
                        item->model->name);
}

bool trace_expect_one_row(const struct trace_item *item, struct fault *fault)
{
    const struct model_forward *forward = item->model->forward;
    if (forward->streams[forward->stream_count - 1].altup.count == 0)
        return true;
    return fault_set_at(fault, "/outputs", FAULT_OPTION,
                        "tokens of model '%s' have several rows between its layers, which become "
                        "one behind the last; ask for predictions, logprobs or targets",
                        item->model->name);
}

static const struct trace_stream *head_stream(const struct trace_item *item)
{
    return &item->streams[item->model->forward->stream_count - 1];
}

/* ------------------------------------------------------------------- tokens -- */

int64_t trace_mask_id(const struct model *model)
{
    static const char *const NAMES[] = { "[MASK]", "<mask>" };
    int64_t id = model->forward->mask_id;
    for (int i = 0; i < 2 && id < 0 && model->tokenizer; i++)
        id = tokenizer_find(model->tokenizer, NAMES[i]);
    return id;
}

/* The texts of the tokens that a text is made of: "'▁c' 'ake'". */
static void list_pieces(const struct model *model, const char *string, char *out, size_t out_size)
{
    const struct byte_slice text = { string, strlen(string) };
    struct token_list list = { 0 };
    struct fault ignored = { .code = FAULT_NONE };
    struct arena arena;
    size_t used = 0;
    out[0] = '\0';
    arena_init(&arena, 1 << 20);
    if (text.size < 1024
        && tokenizer_encode(model->tokenizer, NULL, text, NULL, false, &arena, &list, &ignored))
        for (int64_t i = 0; i < list.count && used < out_size; i++) {
            const char *piece = tokenizer_token_text(model->tokenizer, list.tokens[i].id);
            used += (size_t)snprintf(out + used, out_size - used, "%s'%.40s'", i > 0 ? " " : "",
                                     piece ? piece : "");
        }
    arena_free(&arena);
}

bool trace_plan_choice(const struct model *model, const struct trace_choice *choice,
                       const char *pointer, int64_t *id, struct fault *fault)
{
    const int64_t vocabulary = trace_vocabulary(model->forward);
    char pieces[200];
    *id = choice->id;
    if (!choice->text)
        return choice->id < vocabulary
               || fault_set_at(fault, pointer, FAULT_OPTION,
                               "token %" PRId64 " is beyond the vocabulary of model '%s', %" PRId64
                               " tokens",
                               choice->id, model->name, vocabulary);
    if (!model->tokenizer)
        return fault_set_at(fault, pointer, FAULT_OPTION,
                            "model '%s' has no tokenizer; send the token's id", model->name);
    *id = tokenizer_find(model->tokenizer, choice->text);
    if (*id >= 0 && *id < vocabulary)
        return true;
    list_pieces(model, choice->text, pieces, sizeof pieces);
    return fault_set_at(fault, pointer, FAULT_OPTION,
                        "'%.60s' is no token of model '%s'; its text is made of the tokens %s",
                        choice->text, model->name, pieces);
}

/* ------------------------------------------------------------------ targets -- */

/* The row of a target without a position: the last, of a masked model its only mask token. */
static bool default_row(const struct trace_item *item, const char *pointer, int64_t *row,
                        struct fault *fault)
{
    const struct trace_stream *stream = head_stream(item);
    const int64_t mask_id = trace_mask_id(item->model);
    int64_t count = 0;
    *row = stream->length - 1;
    if (!item->model->forward->head.is_masked || mask_id < 0)
        return stream->length > 0
               || fault_set_at(fault, pointer, FAULT_OPTION, "there is no row; expected tokens");
    for (int64_t i = 0; i < stream->tokens.count; i++)
        if (stream->tokens.tokens[i].id == mask_id) {
            *row = i;
            count++;
        }
    return count == 1
           || fault_set_at(fault, pointer, FAULT_OPTION,
                           "there are %" PRId64 " mask tokens; say at which position the target is",
                           count);
}

static bool plan_target(const struct trace_item *item, struct trace_target *target, int64_t i,
                        struct trace_score *scores, struct fault *fault)
{
    const int64_t length = head_stream(item)->length;
    char pointer[FAULT_POINTER_MAX];
    int64_t row;
    snprintf(pointer, sizeof pointer, "/targets/%" PRId64 "/position", i);
    if (!target->has_position && !default_row(item, pointer, &row, fault))
        return false;
    if (target->has_position) {
        row = target->position < 0 ? target->position + length : target->position;
        if (row < 0 || row >= length)
            return fault_set_at(fault, pointer, FAULT_OPTION,
                                "position of target %" PRId64 " is %" PRId64 "; there are %" PRId64
                                " tokens",
                                i, target->position, length);
    }
    scores[0].row = scores[1].row = row;
    snprintf(pointer, sizeof pointer, "/targets/%" PRId64 "/token", i);
    if (!trace_plan_choice(item->model, &target->token, pointer, &scores[0].id, fault))
        return false;
    snprintf(pointer, sizeof pointer, "/targets/%" PRId64 "/against", i);
    return !target->against.has
           || trace_plan_choice(item->model, &target->against, pointer, &scores[1].id, fault);
}

static bool check_targets(const struct trace_item *item, struct fault *fault)
{
    if (item->target_count > TRACE_TARGETS_MAX)
        return fault_set_at(fault, "/targets", FAULT_OPTION,
                            "there are %" PRId64 " targets; expected at most %d",
                            item->target_count, TRACE_TARGETS_MAX);
    return !item->has_targets || trace_expect_head(item, "/targets", fault);
}

/* ----------------------------------------------------------------- logprobs -- */

static bool check_logprobs(const struct trace_item *item, struct fault *fault)
{
    const struct model_forward *forward = item->model->forward;
    if (!item->outputs[TRACE_OUTPUT_LOGPROBS])
        return true;
    if (!trace_expect_head(item, "/outputs", fault))
        return false;
    if (forward->head.is_masked)
        return fault_set_at(fault, "/outputs", FAULT_OPTION,
                            "model '%s' predicts masked tokens and does not go on with a text; "
                            "ask for targets in place of logprobs",
                            item->model->name);
    if (head_stream(item)->length > 0 && !head_stream(item)->tokens.tokens)
        return fault_set_at(fault, "/outputs", FAULT_OPTION,
                            "logprobs are those of tokens, and rows came without tokens");
    return true;
}

/* The scores of the tokens, and the most probable ones beside them where top_k_tokens came. */
static bool plan_logprobs(struct trace_item *item, struct arena *arena, struct fault *fault)
{
    struct trace_logprobs *logprobs = &item->logprobs;
    const struct token_list *tokens = &head_stream(item)->tokens;
    const int64_t vocabulary = trace_vocabulary(item->model->forward);
    logprobs->count = tokens->count;
    logprobs->first = item->score_count;
    for (int64_t i = 1; i < tokens->count; i++) {
        if (tokens->tokens[i].id >= vocabulary)
            return fault_set_at(fault, "/outputs", FAULT_OPTION,
                                "token %" PRId64 " has the id %" PRId32
                                ", which the head does not predict",
                                i, tokens->tokens[i].id);
        item->scores[item->score_count++] =
            (struct trace_score){ .row = i - 1, .id = tokens->tokens[i].id };
    }
    if (item->top_k_tokens == 0 || tokens->count < 2)
        return true;
    logprobs->tokens.count = tokens->count - 1;
    logprobs->tokens.candidates = item->top_k_tokens < vocabulary ? item->top_k_tokens : vocabulary;
    logprobs->tokens.positions =
        arena_calloc(arena, (size_t)logprobs->tokens.count, sizeof(int64_t));
    if (!logprobs->tokens.positions)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < logprobs->tokens.count; i++)
        logprobs->tokens.positions[i] = i;
    return true;
}

bool trace_plan_scores(struct trace_item *item, struct arena *arena, struct fault *fault)
{
    const bool has_logprobs = item->outputs[TRACE_OUTPUT_LOGPROBS];
    if (!check_targets(item, fault) || !check_logprobs(item, fault))
        return false;
    if (item->compare && !item->outputs[TRACE_OUTPUT_PREDICTIONS] && !has_logprobs
        && !item->has_targets && !trace_has_readout(item))
        return fault_set_at(
            fault, "/compare", FAULT_OPTION,
            "compare goes with predictions, logprobs, targets, embedding or logits");
    const int64_t most =
        2 * item->target_count + (has_logprobs ? head_stream(item)->tokens.count : 0);
    item->scores = arena_calloc(arena, (size_t)most, sizeof *item->scores);
    struct trace_target *targets = arena_calloc(arena, (size_t)item->target_count, sizeof *targets);
    if (!item->scores || !targets)
        return fault_no_memory(fault);
    if (item->target_count > 0) /* items of a batch may share what was asked */
        memcpy(targets, item->targets, (size_t)item->target_count * sizeof *targets);
    item->targets = targets;
    for (int64_t i = 0; i < item->target_count; i++) {
        targets[i].score = item->score_count;
        if (!plan_target(item, &targets[i], i, item->scores + item->score_count, fault))
            return false;
        item->score_count += targets[i].against.has ? 2 : 1;
    }
    return (!has_logprobs || plan_logprobs(item, arena, fault))
           && (!item->compare || trace_plan_base(item, arena, fault));
}

/* --------------------------------------------------------------- the comparison -- */

bool trace_plan_base(struct trace_item *item, struct arena *arena, struct fault *fault)
{
    struct trace_item *base = arena_alloc(arena, sizeof *base);
    struct trace_score *scores = arena_calloc(arena, (size_t)item->score_count, sizeof *scores);
    if (!base || !scores)
        return fault_no_memory(fault);
    if (item->score_count > 0)
        memcpy(scores, item->scores, (size_t)item->score_count * sizeof *scores);
    *base = *item;
    base->scores = scores;
    base->edits = NULL;
    base->edit_count = base->planned_edit_count = 0;
    base->answered_count = 0;
    base->lens_count = base->contribution_count = base->contribution_row_count = 0;
    base->has_head_weights = false;
    base->span_scores = (struct trace_tensor){ .values = NULL };
    base->has_final_rows = false;
    for (int i = 0; i < MODEL_STREAMS_MAX; i++)
        base->streams[i].rows = (struct trace_tensor){ .values = NULL };
    base->logit_rows = (struct trace_tensor){ .values = NULL };
    base->states = false;
    base->keep_ns = 0;
    item->base = base;
    item->base_attention = arena_calloc(arena, 1, sizeof *item->base_attention);
    if (!item->base_attention)
        return fault_no_memory(fault);
    item->base_attention->model = item->model;
    return true;
}
