/* SPDX-License-Identifier: Apache-2.0 */
/* pass.c - lists the steps of a pass by the model's blocks, up to the last one whose numbers an
 * item asks for, and runs them. */
#include "operations/pass/pass_internal.h"

#include "base/clock.h"

#include <string.h>

static const struct pass_step_functions *const STEPS[PASS_STEP_KINDS] = {
    [PASS_EMBED] = &pass_embed,   [PASS_FIRST] = &pass_first,
    [PASS_TOKENS] = &pass_tokens, [PASS_NORM] = &pass_norm,
    [PASS_ATTEND] = &pass_attend, [PASS_RECUR] = &pass_recur,
    [PASS_FEED] = &pass_feed,     [PASS_ADD] = &pass_add,
    [PASS_MIX] = &pass_mix,       [PASS_EDIT] = &pass_edit,
    [PASS_LENS] = &pass_lens,     [PASS_NARROW] = &pass_narrow,
    [PASS_FINAL] = &pass_final,   [PASS_READOUT] = &pass_readout,
    [PASS_HEAD] = &pass_head,     [PASS_CONTRIBUTE] = &pass_contribute,
    [PASS_SPREAD] = &pass_spread, [PASS_PREDICT] = &pass_predict,
    [PASS_LAUREL] = &pass_laurel, [PASS_CORRECT] = &pass_correct,
    [PASS_BESIDE] = &pass_beside, [PASS_JOIN] = &pass_join,
};

/* ------------------------------------------------------------------- steps -- */

/* Steps of a block at most: three parts of three steps, with the rows that enter the block and the
 * output of each part edited, what it reads of tokens and its sum, three of several rows, a lens,
 * and a sum of places; of a stream beside: its first rows, edited and kept, several of them and
 * one, its last, narrow or not, in a sum, a vector of them and their classes. */
enum { BLOCK_STEPS = 20, STREAM_STEPS = 10 };

static bool has_feed_forward(const struct model_block *block)
{
    return block->dense.down.weight || block->experts.router.weight;
}

static void add_step(struct pass *pass, struct pass_step step)
{
    pass->steps[pass->step_count++] = step;
}

static struct pass_step make_step(enum pass_step_kind kind, int stream,
                                  const struct model_block *block, const struct model_part *part,
                                  int64_t layer)
{
    return (struct pass_step){
        .kind = kind, .stream = stream, .block = block, .part = part, .layer = layer
    };
}

/* Adds a step for edits where there are any. layer -1: of embeddings, or a block without the place.
 */
static void add_edit(struct pass *pass, enum edit_place place, int stream,
                     const struct model_block *block, int64_t layer)
{
    if ((layer < 0 && block) || !pass_edit_is_needed(pass, place, stream, layer))
        return;
    struct pass_step step = make_step(PASS_EDIT, stream, block, NULL, layer);
    step.place = place;
    add_step(pass, step);
}

/* What a layer of the block does: attention, or a recurrence. */
static enum pass_step_kind kind_of(const struct model_block *block, int64_t layer)
{
    return model_block_recurrence(block, layer) ? PASS_RECUR : PASS_ATTEND;
}

/* Whether the block's own layer does something: not where it is the feed-forward alone. */
static bool has_mixer(const struct pass *pass, const struct model_block *block)
{
    return block->self_layer >= 0
           && (block->recurrence || !pass->model->layers[block->self_layer].lacks_attention);
}

/* The norm before a second part that reads the rows that the first one reads: it precedes the sum
 * with what the first one computed. */
static void add_second_norm(struct pass *pass, int stream, const struct model_block *block,
                            const struct model_part *part, int64_t layer)
{
    struct pass_step norm = make_step(PASS_NORM, stream, block, part, layer);
    norm.is_copied = true;
    add_step(pass, norm);
}

/* A recurrence beside attention, whose sum comes first. */
static void list_beside(struct pass *pass, int stream, const struct model_block *block)
{
    const int64_t layer = block->beside_layer;
    add_second_norm(pass, stream, block, &block->beside, layer);
    add_step(pass, make_step(PASS_ADD, stream, block, &block->self, block->self_layer));
    add_step(pass, make_step(kind_of(block, layer), stream, block, &block->beside, layer));
    add_edit(pass, EDIT_ATTENTION_OUTPUT, stream, block, layer);
    add_step(pass, make_step(PASS_ADD, stream, block, &block->beside, layer));
}

/* Each part reads the rows that the part before it has written. */
static void list_in_sequence(struct pass *pass, int stream, const struct model_block *block)
{
    const int64_t layers[] = { block->self_layer, block->cross_layer };
    const struct model_part *const parts[] = { &block->self, &block->cross };
    bool is_first = true;
    if (block->altup)
        add_step(pass, make_step(PASS_PREDICT, stream, block, NULL, -1));
    add_edit(pass, EDIT_HIDDEN_STATES, stream, block, block->self_layer);
    for (int i = 0; i < 2; i++) {
        if (layers[i] < 0 || (i == 0 && !has_mixer(pass, block)))
            continue;
        struct pass_step norm = make_step(PASS_NORM, stream, block, parts[i], layers[i]);
        struct pass_step attend =
            make_step(kind_of(block, layers[i]), stream, block, parts[i], layers[i]);
        norm.is_first = is_first;
        attend.is_cross = i == 1;
        is_first = false;
        add_step(pass, norm);
        add_step(pass, attend);
        add_edit(pass, EDIT_ATTENTION_OUTPUT, stream, block, layers[i]);
        if (block->altup)
            add_step(pass, make_step(PASS_LAUREL, stream, block, NULL, -1));
        if (i == 0 && block->beside_layer >= 0)
            list_beside(pass, stream, block);
        else
            add_step(pass, make_step(PASS_ADD, stream, block, parts[i], layers[i]));
    }
    if (!has_feed_forward(block))
        return;
    struct pass_step feed_norm = make_step(PASS_NORM, stream, block, &block->feed_forward, -1);
    feed_norm.is_first = is_first;
    add_step(pass, feed_norm);
    add_step(pass, make_step(PASS_FEED, stream, block, &block->feed_forward, -1));
    add_edit(pass, EDIT_FEED_FORWARD, stream, block, block->self_layer);
    add_step(pass, make_step(PASS_ADD, stream, block, &block->feed_forward, -1));
    if (!block->token_part.gate.weight)
        return;
    if (block->altup)
        add_step(pass, make_step(PASS_CORRECT, stream, block, NULL, -1));
    add_step(pass, make_step(PASS_TOKENS, stream, block, NULL, -1));
    add_step(pass, make_step(block->altup ? PASS_BESIDE : PASS_ADD, stream, block,
                             &block->token_part.part, -1));
}

/* Both parts read the rows that enter the block. */
static void list_in_parallel(struct pass *pass, int stream, const struct model_block *block)
{
    struct pass_step norm = make_step(PASS_NORM, stream, block, &block->self, block->self_layer);
    norm.is_first = true;
    add_edit(pass, EDIT_HIDDEN_STATES, stream, block, block->self_layer);
    add_step(pass, norm);
    add_step(pass, make_step(kind_of(block, block->self_layer), stream, block, &block->self,
                             block->self_layer));
    add_edit(pass, EDIT_ATTENTION_OUTPUT, stream, block, block->self_layer);
    add_second_norm(pass, stream, block, &block->feed_forward, -1);
    add_step(pass, make_step(PASS_ADD, stream, block, &block->self, block->self_layer));
    add_step(pass, make_step(PASS_FEED, stream, block, &block->feed_forward, -1));
    add_edit(pass, EDIT_FEED_FORWARD, stream, block, block->self_layer);
    add_step(pass, make_step(PASS_ADD, stream, block, &block->feed_forward, -1));
}

static bool needs_readout(const struct pass *pass, const struct pass_step *step)
{
    for (int64_t i = 0; i < pass->sequence_count; i++)
        if (pass_readout_is_needed(&pass->sequences[i], step))
            return true;
    return false;
}

static void add_readout(struct pass *pass, int stream, bool is_classes)
{
    struct pass_step step = make_step(PASS_READOUT, stream, NULL, NULL, -1);
    step.is_classes = is_classes;
    if (needs_readout(pass, &step))
        add_step(pass, step);
}

/* Adds a step where classes that are asked for read the rows of this place, of all blocks. */
static void add_mix(struct pass *pass, int stream, int64_t place)
{
    const struct model_classes *classes = &pass->forward->classes;
    struct pass_step step = make_step(PASS_MIX, stream, NULL, NULL, -1);
    step.is_classes = true;
    step.place_number = place;
    if (classes->stream == stream && classes->layer_weights && needs_readout(pass, &step))
        add_step(pass, step);
}

static void list_stream(struct pass *pass, int stream)
{
    const struct model_stream *of = &pass->forward->streams[stream];
    add_step(pass, make_step(PASS_EMBED, stream, NULL, NULL, -1));
    add_edit(pass, EDIT_EMBEDDINGS, stream, NULL, -1);
    if (of->token_inputs.width > 0)
        add_step(pass, make_step(PASS_FIRST, stream, NULL, NULL, -1));
    if (of->altup.count > 0)
        add_step(pass, make_step(PASS_SPREAD, stream, NULL, NULL, -1));
    for (int64_t i = 0; i < of->block_count; i++) {
        const struct model_block *block = &of->blocks[i];
        add_mix(pass, stream, i);
        if (block->is_parallel && has_mixer(pass, block) && has_feed_forward(block))
            list_in_parallel(pass, stream, block);
        else
            list_in_sequence(pass, stream, block);
        if (pass_lens_is_needed(pass, block))
            add_step(pass, make_step(PASS_LENS, stream, block, NULL, -1));
    }
    if (of->altup.count > 0)
        add_step(pass, make_step(PASS_JOIN, stream, NULL, NULL, -1));
    add_step(pass, make_step(PASS_FINAL, stream, NULL, NULL, -1));
    add_mix(pass, stream, of->block_count);
    add_readout(pass, stream, false);
    if (stream == pass->forward->classes.stream)
        add_readout(pass, stream, true);
}

/* Whether something of a layer without attention is asked for, beside what it is. */
static bool is_asked(const struct trace_layer *layer)
{
    for (int i = 0; i < TRACE_TENSOR_COUNT; i++)
        if (layer->is_answered[i])
            return true;
    return false;
}

static bool layer_needs_step(const struct pass_sequence *sequence, const struct pass_step *step)
{
    if (step->kind == PASS_READOUT)
        return pass_readout_is_needed(sequence, step);
    if (step->kind == PASS_EDIT)
        return pass_edit_keeps(sequence, step);
    if (step->layer < 0)
        return false;
    if (step->kind == PASS_ATTEND
        && mark_find(sequence->item->marks, EDIT_HEAD, step->stream, step->layer))
        return true;
    if (step->kind == PASS_ATTEND && sequence->item->align
        && step->layer == sequence->item->align->last_layer)
        return true;
    const struct trace_layer *layer = sequence->answered[step->layer];
    if (!layer || (model_block_recurrence(step->block, step->layer) && !is_asked(layer)))
        return false;
    return step->kind != PASS_ADD || layer->tensors[TRACE_ATTENTION_OUTPUT].values;
}

static bool item_needs_step(const struct trace_item *item, const struct pass_step *step)
{
    if (step->kind == PASS_HEAD)
        return trace_has_head(item);
    if (step->kind == PASS_CONTRIBUTE)
        return item->contribution_count > 0;
    if (step->kind == PASS_ATTEND && (item->past || (step->stream == 0 && item->contacts.rank > 0)))
        return true;
    if (step->kind == PASS_RECUR && item->past)
        return true;
    return step->kind == PASS_FINAL && item->streams[step->stream].rows.values;
}

static bool is_step_needed(const struct pass *pass, const struct pass_step *step)
{
    for (int64_t i = 0; i < pass->sequence_count; i++)
        if (layer_needs_step(&pass->sequences[i], step)
            || item_needs_step(pass->sequences[i].item, step))
            return true;
    return false;
}

static void list_head(struct pass *pass, int stream)
{
    add_step(pass, make_step(PASS_HEAD, stream, NULL, NULL, -1));
    add_step(pass, make_step(PASS_CONTRIBUTE, stream, NULL, NULL, -1));
}

/* A pass that is taken up has no step before its start. */
static void drop_before_start(struct pass *pass)
{
    const struct pass_mark *start = pass->sequences[0].item->start;
    int64_t first = 0;
    if (!start)
        return;
    const enum pass_step_kind kind = start->place == EDIT_HEAD ? PASS_ATTEND : PASS_EDIT;
    while (first < pass->step_count
           && (pass->steps[first].kind != kind || pass->steps[first].layer != start->layer
               || pass->steps[first].stream != start->stream
               || (kind == PASS_EDIT && pass->steps[first].place != start->place)))
        first++;
    pass->step_count -= first;
    memmove(pass->steps, pass->steps + first, (size_t)pass->step_count * sizeof *pass->steps);
}

static bool list_steps(struct pass *pass, struct fault *fault)
{
    const struct model_forward *forward = pass->forward;
    int64_t most = 2; /* those of the head */
    for (int i = 0; i < forward->stream_count; i++)
        most += forward->streams[i].block_count * BLOCK_STEPS + STREAM_STEPS;
    pass->steps = pass_alloc(pass, most, sizeof *pass->steps, fault);
    if (!pass->steps)
        return false;
    for (int i = 0; i < forward->stream_count; i++)
        if (pass->row_count[i] > 0)
            list_stream(pass, i);
    if (forward->head.output.weight && pass->row_count[forward->stream_count - 1] > 0)
        list_head(pass, forward->stream_count - 1);
    while (pass->step_count > 0 && !is_step_needed(pass, &pass->steps[pass->step_count - 1]))
        pass->step_count--;
    drop_before_start(pass);
    pass_list_narrow(pass);
    return true;
}

/* ------------------------------------------------------------------ making -- */

static bool place_sequence(struct pass *pass, struct pass_sequence *sequence,
                           struct trace_item *item, struct infer_item *attention,
                           struct fault *fault)
{
    *sequence = (struct pass_sequence){ .item = item, .attention = attention };
    sequence->answered =
        pass_alloc(pass, pass->model->layer_count, sizeof(struct trace_layer *), fault);
    if (!sequence->answered)
        return false;
    for (int64_t i = 0; i < pass->model->layer_count; i++)
        sequence->answered[i] = NULL;
    for (int64_t i = 0; i < item->answered_count; i++)
        sequence->answered[item->answered[i].number] = &item->answered[i];
    for (int i = 0; i < pass->forward->stream_count; i++) {
        sequence->first[i] = pass->row_count[i];
        sequence->length[i] = item->streams[i].length;
        pass->row_count[i] += sequence->length[i];
    }
    return true;
}

/* A row more than there are: memory of no rows has an address too. */
static bool allocate_rows(struct pass *pass, struct fault *fault)
{
    int64_t numbers_max = 0;
    for (int i = 0; i < pass->forward->stream_count; i++) {
        const int64_t width = pass->forward->streams[i].width;
        int64_t numbers;
        if (__builtin_mul_overflow(pass->row_count[i] + 1, width, &numbers)) {
            fault_no_memory(fault);
            return false;
        }
        pass->rows[i] = pass_alloc(pass, numbers, sizeof(float), fault);
        if (!pass->rows[i])
            return false;
        numbers_max = numbers > numbers_max ? numbers : numbers_max;
    }
    pass->normed = pass_alloc(pass, numbers_max, sizeof(float), fault);
    pass->output = pass->normed ? pass_alloc(pass, numbers_max, sizeof(float), fault) : NULL;
    pass->input = pass->normed;
    return pass->output != NULL;
}

static bool allocate_workspaces(struct pass *pass, struct fault *fault)
{
    const struct infer_limits *limits = &pass->limits;
    if (pass->workspace_bytes <= limits->workspace_bytes)
        return true;
    pass->workspaces = pass_alloc(pass, limits->worker_count, pass->workspace_bytes, fault);
    return pass->workspaces != NULL;
}

static bool fill_pass(struct pass *pass, const struct pass_group *group, struct attn_work *work,
                      struct fault *fault)
{
    pass->sequences = pass_alloc(pass, group->count, sizeof *pass->sequences, fault);
    pass->first_task = pass->sequences
                           ? pass_alloc(pass, group->count + 1, sizeof *pass->first_task, fault)
                           : NULL;
    if (!pass->first_task)
        return false;
    for (int64_t i = 0; i < group->count; i++) {
        if (!place_sequence(pass, &pass->sequences[i], group->items[i], group->attention[i], fault))
            return false;
        pass->sequence_count++;
    }
    if (!allocate_rows(pass, fault) || !list_steps(pass, fault))
        return false;
    for (pass->step = 0; pass->step < pass->step_count; pass->step++) {
        const struct pass_step *step = &pass->steps[pass->step];
        if (STEPS[step->kind]->plan && !STEPS[step->kind]->plan(pass, step, work, fault))
            return false;
    }
    pass->step = 0;
    pass_widen(pass);
    return pass_attend_allocate(pass, fault) && allocate_workspaces(pass, fault);
}

bool pass_create(struct pass **made, struct arena *arena, const struct pass_group *group,
                 const struct infer_limits *limits, struct attn_work *work, struct fault *fault)
{
    struct pass *pass = arena_calloc(arena, 1, sizeof *pass);
    if (!pass)
        return fault_no_memory(fault);
    pass->arena = arena;
    pass->model = group->items[0]->model;
    pass->forward = pass->model->forward;
    pass->limits = *limits;
    pass->held_layer = -1;
    *made = pass;
    if (fill_pass(pass, group, work, fault))
        return true;
    arena_explain(arena, fault);
    return false;
}

int64_t pass_step_count(const struct pass *pass)
{
    return pass->step_count;
}

static int64_t count_layers(const struct pass *pass, int64_t end)
{
    int64_t count = 0;
    for (int64_t i = 0; i < end; i++)
        count += pass->steps[i].kind == PASS_ATTEND || pass->steps[i].kind == PASS_RECUR;
    return count;
}

int64_t pass_layer_count(const struct pass *pass)
{
    return count_layers(pass, pass->step_count);
}

int64_t pass_layers_over(const struct pass *pass)
{
    return count_layers(pass, pass->step);
}

/* ----------------------------------------------------------------- running -- */

int64_t pass_tasks(struct pass *pass, struct fault *fault)
{
    if (!pass->forward_held && pass->step_count > 0) {
        if (!model_forward_hold(pass->model, fault))
            return 0;
        pass->forward_held = true;
    }
    while (pass->step < pass->step_count) {
        const struct pass_step *step = &pass->steps[pass->step];
        const int64_t count = STEPS[step->kind]->tasks(pass, step, pass->turn, fault);
        if (fault->code != FAULT_NONE)
            return 0;
        if (count == PASS_OVER) {
            pass->step++;
            pass->turn = 0;
            continue;
        }
        pass->running = pass->turn++;
        if (count > 0)
            return count;
    }
    return 0;
}

/* Of attention pass_attend_part() says it. */
static const enum metrics_part PARTS[PASS_STEP_KINDS] = {
    [PASS_EMBED] = METRICS_PART_EMBEDDING,  [PASS_FIRST] = METRICS_PART_ROWS,
    [PASS_TOKENS] = METRICS_PART_OTHER,     [PASS_NORM] = METRICS_PART_ROWS,
    [PASS_FEED] = METRICS_PART_PRODUCTS,    [PASS_RECUR] = METRICS_PART_RECURRENCE,
    [PASS_ADD] = METRICS_PART_ROWS,         [PASS_MIX] = METRICS_PART_ROWS,
    [PASS_EDIT] = METRICS_PART_ROWS,        [PASS_LENS] = METRICS_PART_ROWS,
    [PASS_NARROW] = METRICS_PART_ROWS,      [PASS_FINAL] = METRICS_PART_ROWS,
    [PASS_READOUT] = METRICS_PART_ROWS,     [PASS_HEAD] = METRICS_PART_VOCABULARY,
    [PASS_SPREAD] = METRICS_PART_OTHER,     [PASS_PREDICT] = METRICS_PART_OTHER,
    [PASS_LAUREL] = METRICS_PART_OTHER,     [PASS_CORRECT] = METRICS_PART_OTHER,
    [PASS_BESIDE] = METRICS_PART_OTHER,     [PASS_JOIN] = METRICS_PART_OTHER,
    [PASS_CONTRIBUTE] = METRICS_PART_OTHER,
};

void pass_run(const struct pass *pass, int64_t task, const struct worker *worker)
{
    const int64_t begin_ns = clock_now_ns();
    const struct pass_step *step = &pass->steps[pass->step];
    void *workspace = pass->workspaces
                          ? (char *)pass->workspaces + (size_t)worker->slot * pass->workspace_bytes
                          : worker->workspace;
    const enum metrics_part part = step->kind == PASS_ATTEND
                                       ? pass_attend_part(pass, step, pass->running, task)
                                       : PARTS[step->kind];
    STEPS[step->kind]->run(pass, step, pass->running, task, workspace);
    metrics_pass_spent(part, clock_now_ns() - begin_ns);
}

void pass_end(struct pass *pass)
{
    if (!pass)
        return;
    pass_attend_drop(pass);
    pass_contribute_drop(pass);
    if (pass->forward_held)
        model_forward_drop(pass->model);
    pass->forward_held = false;
}
