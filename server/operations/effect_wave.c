/* SPDX-License-Identifier: Apache-2.0 */
/* effect_wave.c - the items of some variants that go through the model side by side: the base
 * pass' own, with the edits of the variant behind the common ones. */
#include "operations/effect.h"

#include <string.h>

/* ------------------------------------------------------------------------ edits -- */

/* What the edits of a wave's variants share. */
struct wave_layers {
    bool *one; /* [layer count of the model]: the list's layer alone */
    bool *none;
};

static bool make_layers(struct effects *job, const struct effect_list *list,
                        struct wave_layers *layers)
{
    const size_t count = (size_t)effect_base(job)->model->layer_count;
    layers->one = arena_calloc(&job->arena, count, sizeof(bool));
    layers->none = arena_calloc(&job->arena, count, sizeof(bool));
    if (layers->one && list->layer >= 0)
        layers->one[list->layer] = true;
    return layers->one && layers->none;
}

/* Makes of an edit of all variants that of number `number` of the list. at: memory that stays. */
static void specialize(const struct effects *job, const struct effect_list *list,
                       const struct wave_layers *layers, int64_t number, int64_t *at,
                       struct trace_edit *edit)
{
    if (list->layer >= 0)
        edit->in_layer = edit->in_layer[list->layer] ? layers->one : layers->none;
    switch (job->asked.each) {
    case EFFECT_HEADS:
        *at = number;
        edit->head_list = at;
        edit->head_count = 1;
        break;
    case EFFECT_ROWS_OF_LAYERS:
        *at = edit->row_list[number];
        edit->row_list = at;
        edit->row_count = 1;
        break;
    case EFFECT_SPANS:
    case EFFECT_SPAN_TEXTS:
        edit->hidden += number;
        edit->hidden_count = 1;
        break;
    default:
        break;
    }
    edit->source_rows = edit->row_list;
}

static bool add_edits(struct effects *job, const struct effect_list *list,
                      const struct wave_layers *layers, int64_t number, struct trace_item *item)
{
    const struct trace_item *base = effect_base(job);
    const int64_t common = base->edit_count;
    struct trace_edit *edits =
        arena_calloc(&job->arena, (size_t)(common + job->edit_count), sizeof *edits);
    int64_t *at = arena_calloc(&job->arena, 1, sizeof *at);
    if (!edits || !at)
        return false;
    if (common > 0)
        memcpy(edits, base->edits, (size_t)common * sizeof *edits);
    for (int i = 0; i < job->edit_count; i++) {
        edits[common + i] = job->edits[i];
        specialize(job, list, layers, number, at, &edits[common + i]);
    }
    item->edits = edits;
    item->edit_count = common + job->edit_count;
    item->planned_edit_count = 0; /* the base pass' item holds what they need */
    return true;
}

/* ------------------------------------------------------------------------ results -- */

/* What is asked of the row of the prediction. */
static bool add_results(struct effects *job, int64_t variant, struct trace_item *item)
{
    const struct trace_item *base = effect_base(job);
    const int64_t candidates = base->predictions.candidates;
    const int64_t vocabulary = trace_vocabulary(base->model->forward);
    item->score_count = base->score_count;
    item->scores = arena_calloc(&job->arena, (size_t)item->score_count, sizeof *item->scores);
    item->predictions = base->predictions;
    item->predictions.positions = &item->narrow_row;
    item->predictions.ids = job->predictions.ids + variant * candidates;
    item->predictions.logprobs = job->predictions.logprobs + variant * candidates;
    item->logit_rows = base->logit_rows;
    if (base->logit_rows.values)
        item->logit_rows.values = arena_alloc(&job->arena, (size_t)vocabulary * sizeof(float));
    if (!item->scores || (base->logit_rows.values && !item->logit_rows.values))
        return false;
    for (int64_t i = 0; i < item->score_count; i++)
        item->scores[i] = (struct trace_score){ .row = item->narrow_row, .id = base->scores[i].id };
    item->is_narrow = true;
    return true;
}

static bool make_item(struct effects *job, const struct effect_list *list,
                      const struct wave_layers *layers, int64_t number, bool is_priced,
                      struct trace_item *item, struct fault *fault)
{
    if (job->asked.by == EFFECT_LEAVE_OUT && !is_priced) {
        if (!effect_cut(job, &job->edits[0].hidden[number], &job->wave, item, fault))
            return false;
    } else {
        *item = *effect_base(job);
        item->marks = NULL;
        item->start = list->start;
        item->start_encoded = job->base_marks.encoded;
        item->narrow_row = job->position;
        item->planned_edit_count = 0;
        if (job->asked.by != EFFECT_LEAVE_OUT && !add_edits(job, list, layers, number, item))
            return fault_no_memory(fault);
    }
    return add_results(job, list->first + number, item) || fault_no_memory(fault);
}

/* ------------------------------------------------------------------------- passes -- */

static bool begin(struct effects *job, const struct effect_list *list, int64_t first, int64_t count,
                  bool is_priced, struct attn_work *work, struct fault *fault)
{
    struct arena *arena = &job->arena;
    struct trace_item *items = arena_calloc(arena, (size_t)count, sizeof *items);
    struct infer_item *own = arena_calloc(arena, (size_t)count, sizeof *own);
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    struct trace_item **listed = arena_calloc(arena, (size_t)count, sizeof *listed);
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    struct infer_item **attention = arena_calloc(arena, (size_t)count, sizeof *attention);
    struct wave_layers layers;
    if (!items || !own || !listed || !attention || !make_layers(job, list, &layers))
        return fault_no_memory(fault);
    job->wave.items = items;
    for (int64_t i = 0; i < count; i++) {
        job->wave.item_count = i + 1;
        if (!make_item(job, list, &layers, first + i, is_priced, &items[i], fault))
            return false;
        own[i].model = items[i].model;
        listed[i] = &items[i];
        attention[i] = &own[i];
    }
    const struct pass_group group = { listed, attention, count };
    return pass_create(&job->pass, arena, &group, &job->call->limits, work, fault);
}

static void begin_arena(struct effects *job)
{
    arena_init(&job->arena, job->call->limits.scratch_bytes_max);
    job->wave = (struct trace_request){ .arena = &job->arena,
                                        .kept = job->request.kept,
                                        .key = job->request.key };
}

bool effect_wave_begin(struct effects *job, const struct effect_list *list, int64_t first,
                       int64_t count, bool is_priced, struct attn_work *work, struct fault *fault)
{
    begin_arena(job);
    if (begin(job, list, first, count, is_priced, work, fault))
        return true;
    arena_explain(&job->arena, fault);
    return false;
}

bool effect_pass_begin(struct effects *job, struct trace_item *item, struct infer_item *attention,
                       struct attn_work *work, struct fault *fault)
{
    begin_arena(job);
    const struct pass_group group = { &item, &attention, 1 };
    return pass_create(&job->pass, &job->arena, &group, &job->call->limits, work, fault);
}

void effect_pass_end(struct effects *job)
{
    pass_end(job->pass);
    job->pass = NULL;
    for (int64_t i = 0; i < job->wave.item_count; i++)
        edits_release(job->wave.items[i].edits, job->wave.items[i].planned_edit_count);
    job->wave.item_count = 0;
    arena_free(&job->arena);
}
