/* SPDX-License-Identifier: Apache-2.0 */
/* effect_plan.c - what a request of effects means for its model. The base pass is planned as a
 * trace of one target, and what is edited as edits of all variants at once: all layers, heads, rows
 * and spans. A variant takes its own of these (effect_wave.c), so that no variant can fail. */
#include "operations/effect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------- faults -- */

/* Puts `to` in place of the pointer's beginning, where that is `from`. */
static bool rename_pointer(struct fault *fault, const char *from, const char *to)
{
    char rest[FAULT_POINTER_MAX];
    const size_t length = strlen(from);
    if (strncmp(fault->pointer, from, length) != 0
        || (fault->pointer[length] && fault->pointer[length] != '/'))
        return false;
    memcpy(rest, fault->pointer + length, strlen(fault->pointer + length) + 1);
    snprintf(fault->pointer, sizeof fault->pointer, "%s%.*s", to,
             (int)(sizeof fault->pointer - strlen(to) - 1), rest);
    return true;
}

/* Takes a part out of the message. */
static void cut_message(struct fault *fault, const char *part)
{
    char *at = strstr(fault->message, part);
    if (at)
        memmove(at, at + strlen(part), strlen(at + strlen(part)) + 1);
}

static void replace_message(struct fault *fault, const char *part, const char *with)
{
    char rest[FAULT_MESSAGE_MAX];
    char *at = strstr(fault->message, part);
    if (!at)
        return;
    snprintf(rest, sizeof rest, "%s", at + strlen(part));
    snprintf(at, sizeof fault->message - (size_t)(at - fault->message), "%s%s", with, rest);
}

/* A fault of the target, in the words of the metric. */
static bool explain_target(struct fault *fault)
{
    if (!rename_pointer(fault, "/targets/0", "/metric"))
        rename_pointer(fault, "/targets", "/metric");
    replace_message(fault, "position of target 0", "position");
    return false;
}

/* A fault of edit number i, which is made of fields of the request. */
static bool explain_edit(int i, struct fault *fault)
{
    char from[24], words[24];
    snprintf(from, sizeof from, "/edits/%d", i);
    snprintf(words, sizeof words, " of edit %d", i);
    rename_pointer(fault, from, "");
    rename_pointer(fault, "/at", "/each");
    if (!rename_pointer(fault, "/hide", "/each/spans")
        && rename_pointer(fault, "/hide_texts", "/each/span_texts"))
        replace_message(fault, "hide_texts", "span_texts");
    if (strncmp(fault->pointer, "/each/spans", 11) == 0)
        replace_message(fault, "hide", "spans");
    cut_message(fault, words);
    return false;
}

/* ------------------------------------------------------------------------ the base -- */

static bool plan_base(struct effects *job, struct fault *fault)
{
    struct trace_request *request = &job->request;
    struct trace_groups groups = { .count = 0 };
    struct trace_item *base = arena_calloc(request->arena, 1, sizeof *base);
    struct trace_target *target = arena_calloc(request->arena, 1, sizeof *target);
    if (!base || !target)
        return fault_no_memory(fault);
    *target = job->asked.metric.target;
    target->token.has = true; /* of a divergence it is token 0, and only its row counts */
    *base = job->asked.input;
    base->edits = job->asked.edits;
    base->edit_count = job->asked.edit_count;
    base->has_layers = base->has_outputs = base->has_targets = true;
    base->targets = target;
    base->target_count = 1;
    request->items = base;
    request->item_count = 1;
    if (!trace_plan(request, &groups, &job->call->limits, fault))
        return explain_target(fault);
    job->position = base->scores[0].row;
    if (effect_is_divergence(job))
        base->score_count = 0;
    return true;
}

/* Room for what the row of the prediction has beside its scores. */
static bool plan_predictions(struct effects *job, struct fault *fault)
{
    struct trace_item *base = effect_base(job);
    struct arena *arena = job->request.arena;
    const int64_t vocabulary = trace_vocabulary(base->model->forward);
    const int64_t candidates =
        job->asked.top_k_tokens < vocabulary ? job->asked.top_k_tokens : vocabulary;
    int64_t numbers;
    if (__builtin_mul_overflow(job->variant_count, candidates, &numbers))
        return fault_no_memory(fault);
    base->predictions.count = candidates > 0 || effect_is_divergence(job) ? 1 : 0;
    base->predictions.candidates = candidates;
    base->predictions.positions = &job->position;
    base->predictions.ids = arena_calloc(arena, (size_t)candidates, sizeof(int64_t));
    base->predictions.logprobs = arena_calloc(arena, (size_t)candidates, sizeof(float));
    job->predictions.candidates = candidates;
    job->predictions.ids = arena_calloc(arena, (size_t)numbers, sizeof(int64_t));
    job->predictions.logprobs = arena_calloc(arena, (size_t)numbers, sizeof(float));
    job->effects = arena_calloc(arena, (size_t)job->variant_count, sizeof(float));
    if (effect_is_divergence(job))
        base->logit_rows.values = arena_alloc(arena, (size_t)vocabulary * sizeof(float));
    return (base->predictions.ids && base->predictions.logprobs && job->predictions.ids
            && job->predictions.logprobs && job->effects
            && (base->logit_rows.values || !effect_is_divergence(job)))
           || fault_no_memory(fault);
}

/* ------------------------------------------------------------------------- edits -- */

static bool is_span(const struct effects *job)
{
    return job->asked.each >= EFFECT_SPANS;
}

static bool plan_edit(struct effects *job, const struct trace_edit *asked, struct fault *fault)
{
    struct trace_item item = *effect_base(job);
    struct trace_edit edit = *asked;
    edit.hides_apart = true; /* a variant each */
    item.edits = &edit;
    item.edit_count = 1;
    if (!trace_plan_edits(&job->request, &item, fault))
        return explain_edit(0, fault);
    job->edits[job->edit_count++] = item.edits[0];
    return true;
}

/* The kind of the layers of the encoder, or of those that look at it; "": there are none. */
static const char *kind_of(const struct model *model, bool is_cross)
{
    for (int64_t i = 0; i < model->layer_count; i++) {
        const struct trace_place place = trace_place_of(model->forward, i);
        if (place.block && place.is_cross == is_cross && (is_cross || place.stream == 0))
            return model_layer_kind(&model->layers[i]);
    }
    return "";
}

/* The layers asked for that are of the kind. */
static bool filter_layers(struct effects *job, struct trace_edit *edit, struct fault *fault)
{
    const struct model *model = effect_base(job)->model;
    const struct edit_list *asked = &job->asked.edit.layers;
    struct edit_range *ranges =
        arena_calloc(job->request.arena, (size_t)asked->count, sizeof *ranges);
    if (!ranges)
        return fault_no_memory(fault);
    edit->layers.ranges = ranges;
    edit->layers.count = 0;
    for (int64_t i = 0; i < asked->count; i++)
        if (strcmp(model_layer_kind(&model->layers[asked->ranges[i].begin]), edit->kind) == 0)
            ranges[edit->layers.count++] = asked->ranges[i];
    return true;
}

/* Every layer that is named has to be one that sees tokens of the encoder. */
static bool check_span_layers(const struct effects *job, const char *encoder, const char *cross,
                              struct fault *fault)
{
    const struct model *model = effect_base(job)->model;
    const struct edit_list *asked = &job->asked.edit.layers;
    for (int64_t i = 0; i < asked->count; i++) {
        const int64_t layer = asked->ranges[i].begin;
        char pointer[FAULT_POINTER_MAX];
        snprintf(pointer, sizeof pointer, "/layers/%" PRId64, i);
        if (layer < 0 || layer >= model->layer_count)
            return fault_set_at(fault, pointer, FAULT_NOT_FOUND,
                                "layers[%" PRId64 "] is %" PRId64
                                "; model '%s' has layers 0 to %" PRId64,
                                i, layer, model->name, model->layer_count - 1);
        const char *kind = model_layer_kind(&model->layers[layer]);
        if (strcmp(kind, encoder) != 0 && strcmp(kind, cross) != 0)
            return fault_set_at(fault, pointer, FAULT_OPTION,
                                "layers[%" PRId64 "] is %" PRId64
                                ", a layer of the kind '%s'; spans are of the encoder's tokens, "
                                "which layers of '%s' and '%s' see",
                                i, layer, kind, encoder, cross);
    }
    return true;
}

/* Spans of the encoder's tokens are hidden in its layers and in those that look at it. */
static bool plan_both_kinds(struct effects *job, struct fault *fault)
{
    const struct model *model = effect_base(job)->model;
    const char *const kinds[] = { kind_of(model, false), kind_of(model, true) };
    if (!check_span_layers(job, kinds[0], kinds[1], fault))
        return false;
    for (int i = 0; i < 2; i++) {
        struct trace_edit edit = job->asked.edit;
        edit.kind = kinds[i];
        if ((edit.layers.has && !filter_layers(job, &edit, fault)) || !plan_edit(job, &edit, fault))
            return false;
    }
    return true;
}

/* Rows that another pass gives: those of the same numbers. */
static void take_from_marks(struct effects *job)
{
    for (int i = 0; i < job->edit_count; i++) {
        job->edits[i].action = EDIT_FROM;
        job->edits[i].marks = &job->other_marks;
        job->edits[i].source_layer = -1;
    }
}

static bool kind_fault(const struct model *model, struct fault *fault)
{
    char kinds[96];
    trace_list_kinds(model, kinds, sizeof kinds);
    return fault_set_at(fault, "/kind", FAULT_FIELD,
                        "kind is missing; model '%s' has layers of the kinds %s", model->name,
                        kinds);
}

static bool plan_parts(struct effects *job, struct fault *fault)
{
    static const enum edit_place PLACES[] = { [EFFECT_HEADS] = EDIT_HEAD,
                                              [EFFECT_LAYERS] = EDIT_ATTENTION_OUTPUT,
                                              [EFFECT_FEED_FORWARDS] = EDIT_FEED_FORWARD,
                                              [EFFECT_ROWS_OF_LAYERS] = EDIT_HIDDEN_STATES };
    struct trace_edit edit = job->asked.edit;
    edit.at = (int)PLACES[job->asked.each];
    edit.mean = job->asked.by == EFFECT_MEAN;
    edit.has_scale = !edit.mean;
    edit.scale = job->asked.scale;
    if (!edit.kind && !trace_edit_kind(effect_base(job)->model, PLACES[job->asked.each]))
        return kind_fault(effect_base(job)->model, fault);
    if (!plan_edit(job, &edit, fault))
        return false;
    if (job->asked.each == EFFECT_LAYERS && !job->edits[0].is_cross && !job->edits[0].is_beside) {
        edit.at = EDIT_FEED_FORWARD;
        edit.layers = (struct edit_list){ .has = false }; /* those that have the place */
        if (!plan_edit(job, &edit, fault))
            return false;
    }
    if (job->asked.by == EFFECT_FROM)
        take_from_marks(job);
    return true;
}

static bool plan_edits(struct effects *job, struct fault *fault)
{
    const struct model *model = effect_base(job)->model;
    if (is_span(job))
        return model->forward->is_encoder_decoder && !job->asked.edit.kind
                   ? plan_both_kinds(job, fault)
                   : plan_edit(job, &job->asked.edit, fault);
    return plan_parts(job, fault);
}

/* ------------------------------------------------------------------------- lists -- */

static bool is_edited(const struct effects *job, int64_t layer)
{
    for (int i = 0; i < job->edit_count; i++)
        if (job->edits[i].in_layer[layer] && (i == 0 || is_span(job)))
            return true;
    return false;
}

static bool list_layers(struct effects *job, struct fault *fault)
{
    const int64_t count = effect_base(job)->model->layer_count;
    job->layers = arena_calloc(job->request.arena, (size_t)count, sizeof *job->layers);
    job->lists = arena_calloc(job->request.arena, (size_t)count + 1, sizeof *job->lists);
    if (!job->layers || !job->lists)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < count; i++)
        if (is_edited(job, i))
            job->layers[job->layer_count++] = i;
    return true;
}

static void add_list(struct effects *job, int64_t layer, int64_t count)
{
    job->lists[job->list_count++] =
        (struct effect_list){ .layer = layer, .first = job->variant_count, .count = count };
    job->variant_count += count;
}

static bool list_variants(struct effects *job, struct fault *fault)
{
    const struct model *model = effect_base(job)->model;
    if (!list_layers(job, fault))
        return false;
    if (is_span(job))
        add_list(job, -1, job->edits[0].hidden_count);
    for (int64_t i = 0; i < job->layer_count && !is_span(job); i++)
        add_list(job, job->layers[i],
                 job->asked.each == EFFECT_HEADS ? model->layers[job->layers[i]].layer.q_heads
                 : job->asked.each == EFFECT_ROWS_OF_LAYERS ? job->edits[0].row_count
                                                            : 1);
    return job->variant_count <= EFFECT_VARIANTS_MAX
           || fault_set_at(fault, "/each", FAULT_OPTION,
                           "there are %" PRId64 " variants; expected at most %d: ask for fewer "
                           "layers or rows",
                           job->variant_count, EFFECT_VARIANTS_MAX);
}

/* ------------------------------------------------------------------------- marks -- */

static int64_t columns_at(const struct model *model, enum edit_place place, int stream,
                          int64_t layer)
{
    const struct attn_layer *of = &model->layers[layer].layer;
    return place == EDIT_HEAD ? of->q_heads * of->v_head_dim
                              : model->forward->streams[stream].width;
}

/* Adds a mark with room for what is kept there. has_rows: a pass starts there. */
static struct pass_mark *add_mark(struct effects *job, const struct trace_item *item,
                                  struct arena *arena, struct pass_marks *marks,
                                  struct pass_mark mark, bool has_rows)
{
    const struct model *model = effect_base(job)->model;
    const size_t rows = (size_t)item->streams[mark.stream].length;
    const size_t width = (size_t)model->forward->streams[mark.stream].width;
    const bool is_stream = mark.place == EDIT_HIDDEN_STATES;
    mark.columns = columns_at(model, mark.place, mark.stream, mark.layer);
    if (has_rows || is_stream)
        mark.rows = arena_calloc(arena, rows, width * sizeof(float));
    if (!is_stream)
        mark.values = arena_calloc(arena, rows, (size_t)mark.columns * sizeof(float));
    if ((!mark.rows && (has_rows || is_stream)) || (!mark.values && !is_stream))
        return NULL;
    marks->list[marks->count] = mark;
    return &marks->list[marks->count++];
}

/* The layer whose hidden states enter the first block in which spans are hidden; -1: none. */
static int64_t first_block(const struct effects *job, int *stream)
{
    const struct model_forward *forward = effect_base(job)->model->forward;
    for (*stream = 0; *stream < forward->stream_count; (*stream)++)
        for (int64_t i = 0; i < forward->streams[*stream].block_count; i++) {
            const struct model_block *block = &forward->streams[*stream].blocks[i];
            const bool is_self = block->self_layer >= 0 && is_edited(job, block->self_layer);
            const bool is_cross = block->cross_layer >= 0 && is_edited(job, block->cross_layer);
            if (is_self || is_cross)
                return block->self_layer;
        }
    return -1;
}

static bool mark_list(struct effects *job, struct effect_list *list, struct fault *fault)
{
    const struct model_forward *forward = effect_base(job)->model->forward;
    struct pass_mark mark = { .place = (enum edit_place)job->edits[0].at,
                              .stream = job->edits[0].stream,
                              .layer = list->layer };
    if (forward->streams[job->edits[0].stream].token_inputs.width > 0)
        return true; /* later blocks read more than the rows of the mark */
    if (is_span(job)) {
        mark.place = EDIT_HIDDEN_STATES;
        mark.layer = first_block(job, &mark.stream);
    }
    if (mark.layer < 0 || list->count == 0)
        return true;
    list->start = add_mark(job, effect_base(job), job->request.arena, &job->base_marks, mark, true);
    return list->start || fault_no_memory(fault);
}

/* Where the base pass keeps what variants start from. */
static bool mark_base(struct effects *job, struct fault *fault)
{
    struct trace_item *base = effect_base(job);
    const struct model_forward *forward = base->model->forward;
    job->base_marks.list =
        arena_calloc(job->request.arena, (size_t)job->list_count, sizeof *job->base_marks.list);
    if (!job->base_marks.list)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < job->list_count; i++)
        if (!mark_list(job, &job->lists[i], fault))
            return false;
    base->marks = &job->base_marks;
    if (job->base_marks.count == 0 || job->base_marks.list[0].stream == 0
        || !forward->is_encoder_decoder)
        return true;
    job->base_marks.encoded = arena_calloc(job->request.arena, (size_t)base->streams[0].length,
                                           (size_t)forward->streams[0].width * sizeof(float));
    return job->base_marks.encoded || fault_no_memory(fault);
}

/* -------------------------------------------------------------------- the other input -- */

static bool explain_other(struct fault *fault)
{
    if (strcmp(fault->pointer, "/model") != 0)
        fault_prefix_pointer(fault, "/other");
    return false;
}

static bool mark_other(struct effects *job, struct fault *fault)
{
    struct trace_item *other = &job->other.items[0];
    job->other_marks.list =
        arena_calloc(job->other.arena, (size_t)(job->list_count * job->edit_count),
                     sizeof *job->other_marks.list);
    if (!job->other_marks.list)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < job->list_count; i++)
        for (int e = 0; e < job->edit_count; e++) {
            const struct trace_edit *edit = &job->edits[e];
            const struct pass_mark mark = { .place = (enum edit_place)edit->at,
                                            .stream = edit->stream,
                                            .layer = job->lists[i].layer };
            if (edit->in_layer[mark.layer]
                && !add_mark(job, other, job->other.arena, &job->other_marks, mark, false))
                return fault_no_memory(fault);
        }
    other->marks = &job->other_marks;
    return true;
}

static bool plan_other(struct effects *job, struct fault *fault)
{
    struct trace_request *request = &job->other;
    const struct trace_item *base = effect_base(job);
    const int stream = job->edits[0].stream;
    struct trace_groups groups = { .count = 0 };
    if (job->asked.by != EFFECT_FROM)
        return true;
    struct trace_item *item = job->asked.other;
    item->model = model_retain(base->model);
    item->model_name = base->model_name;
    item->has_layers = item->has_outputs = true;
    request->items = item;
    request->item_count = 1;
    if (!trace_plan(request, &groups, &job->call->limits, fault))
        return explain_other(fault);
    if (item->streams[stream].length != base->streams[stream].length)
        return fault_set_at(fault, "/other", FAULT_LENGTH,
                            "other has %" PRId64 " rows; the input has %" PRId64
                            ": expected as many",
                            item->streams[stream].length, base->streams[stream].length);
    return mark_other(job, fault);
}

/* --------------------------------------------------------------------------- all -- */

static bool check_answer(const struct effects *job, struct fault *fault)
{
    const size_t most = job->call->limits.answer_bytes_max;
    return effect_answer_bytes(job) <= most
           || fault_set(fault, FAULT_ANSWER_TOO_LARGE,
                        "the answer may take more than the %zu bytes that are given; ask for fewer "
                        "variants or top_k_tokens",
                        most);
}

bool effect_plan(struct effects *job, struct fault *fault)
{
    if (!plan_base(job, fault) || !plan_edits(job, fault) || !list_variants(job, fault)
        || !check_answer(job, fault))
        return false;
    if (job->asked.by == EFFECT_LEAVE_OUT)
        return effect_check_cuts(job, fault) && plan_predictions(job, fault);
    return mark_base(job, fault) && plan_other(job, fault) && plan_predictions(job, fault);
}
