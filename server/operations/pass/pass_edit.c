/* SPDX-License-Identifier: Apache-2.0 */
/* pass_edit.c - what edits change in a pass: rows between two steps, and keys, weights and contexts
 * of heads within the step of attention. What is kept of a pass with its states is copied here,
 * too.
 *
 * Only where a sequence has an edit or keeps its states is there such a step: another pass has the
 * steps and the bits that it has without this file. */
#include "operations/pass/pass_internal.h"

#include "operations/trace/kept_trace.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------- any rows -- */

/* Rows of one place, rows[row * stride], row < count, of width columns; those of one head at head.
 */
struct edited_rows {
    float *rows;
    int64_t stride, count, width;
    int64_t column; /* of the first number within a row of the place */
};

static float *edited_row(const struct edited_rows *rows, int64_t row)
{
    return rows->rows + row * rows->stride;
}

static void scale_row(float *row, const struct trace_edit *edit, int64_t width)
{
    for (int64_t c = 0; c < width; c++)
        row[c] = (float)((double)row[c] * edit->scale);
}

/* A number that adds 0 keeps its bits, -0 too. */
static void add_to_row(float *row, const struct trace_edit *edit, int64_t width)
{
    const double times = edit->has_times ? edit->times : 1;
    for (int64_t c = 0; c < width; c++) {
        const double term = times * (double)edit->values[c];
        if (term != 0)
            row[c] = (float)((double)row[c] + term);
    }
}

/* Column by column, in double, over all rows of the pass. */
static void set_means(const struct edited_rows *rows, const struct trace_edit *edit)
{
    for (int64_t c = 0; c < rows->width && edit->row_count > 0; c++) {
        double sum = 0;
        for (int64_t row = 0; row < rows->count; row++)
            sum += (double)edited_row(rows, row)[c];
        const float mean = (float)(sum / (double)rows->count);
        for (int64_t i = 0; i < edit->row_count; i++)
            edited_row(rows, edit->row_list[i])[c] = mean;
    }
}

static void copy_source(const struct edited_rows *rows, const struct trace_edit *edit,
                        int64_t layer)
{
    const int64_t from = edit->source_layer >= 0 ? edit->source_layer : layer;
    const struct pass_mark *mark = mark_find(edit->marks, edit->at, edit->stream, from);
    const struct kept_states *states =
        mark ? NULL : kept_trace_states(edit->source, edit->at, edit->stream, from);
    const float *source = mark ? mark_values(mark) : states->rows;
    const int64_t width = mark ? mark->columns : states->width;
    for (int64_t i = 0; i < edit->row_count; i++)
        memcpy(edited_row(rows, edit->row_list[i]),
               source + edit->source_rows[i] * width + rows->column,
               (size_t)rows->width * sizeof *source);
}

static void apply_edit(const struct trace_edit *edit, const struct edited_rows *rows, int64_t layer)
{
    if (edit->action == EDIT_MEAN)
        set_means(rows, edit);
    if (edit->action == EDIT_FROM)
        copy_source(rows, edit, layer);
    for (int64_t i = 0; i < edit->row_count; i++) {
        float *row = edited_row(rows, edit->row_list[i]);
        if (edit->action == EDIT_SCALE)
            scale_row(row, edit, rows->width);
        else if (edit->action == EDIT_ADD)
            add_to_row(row, edit, rows->width);
        else if (edit->action == EDIT_SET)
            memcpy(row, edit->values + i * rows->width, (size_t)rows->width * sizeof *row);
    }
}

/* ---------------------------------------------------------------- kept states -- */

/* Where rows of this place are kept of the sequence; NULL: they are not. */
static const struct kept_states *states_of(const struct pass_sequence *sequence,
                                           enum edit_place place, int stream, int64_t layer)
{
    const struct kept_trace *kept = sequence->item->keeping;
    return kept && kept->has_states ? kept_trace_states(kept, place, stream, layer) : NULL;
}

/* Whether something is edited or kept there. */
static bool is_touched(const struct pass_sequence *sequence, enum edit_place place, int stream,
                       int64_t layer)
{
    const struct trace_item *item = sequence->item;
    bool is_touched =
        (item->states && sequence->length[stream] > 0 && (layer < 0 || sequence->answered[layer]))
        || mark_find(item->marks, place, stream, layer)
        || (item->start && item->start->place == place && item->start->stream == stream
            && item->start->layer == layer);
    for (int64_t i = 0; i < item->edit_count && !is_touched; i++)
        is_touched = edit_is_at(&item->edits[i], place, stream, layer)
                     && item->edits[i].row_count > 0 && item->edits[i].action > EDIT_WEIGHTS;
    return is_touched;
}

/* ----------------------------------------------------------------------- marks -- */

static void copy(float *to, const float *from, int64_t count)
{
    if (to && from)
        memcpy(to, from, (size_t)count * sizeof *to);
}

/* Rows that the mark has go to the pass that starts there. values: the rows of the
 * place, so many numbers apart. */
static void take_start(const struct pass *pass, const struct pass_step *step,
                       const struct pass_sequence *sequence, float *values, int64_t stride)
{
    const struct pass_mark *start = sequence->item->start;
    const int s = step->stream;
    const int64_t width = pass->forward->streams[s].width;
    copy(pass->rows[s] + sequence->first[s] * width, start->rows, sequence->length[s] * width);
    for (int64_t row = 0; start->values && row < sequence->length[s]; row++)
        copy(values + row * stride, start->values + row * start->columns, start->columns);
    if (s > 0 && sequence->item->start_encoded) {
        const int64_t encoded = pass->forward->streams[0].width;
        copy(pass->rows[0] + sequence->first[0] * encoded, sequence->item->start_encoded,
             sequence->length[0] * encoded);
    }
}

static void leave_mark(const struct pass *pass, const struct pass_step *step,
                       const struct pass_sequence *sequence, enum edit_place place,
                       const float *values, int64_t stride)
{
    const struct pass_marks *marks = sequence->item->marks;
    const struct pass_mark *mark = mark_find(marks, place, step->stream, step->layer);
    const int s = step->stream;
    const int64_t width = pass->forward->streams[s].width;
    if (!mark)
        return;
    copy(mark->rows, pass->rows[s] + sequence->first[s] * width, sequence->length[s] * width);
    for (int64_t row = 0; mark->values && row < sequence->length[s]; row++)
        copy(mark->values + row * mark->columns, values + row * stride, mark->columns);
    if (s > 0 && mark == &marks->list[0]) {
        const int64_t encoded = pass->forward->streams[0].width;
        copy(marks->encoded, pass->rows[0] + sequence->first[0] * encoded,
             sequence->length[0] * encoded);
    }
}

/* ------------------------------------------------------------------- the steps -- */

bool pass_edit_is_needed(const struct pass *pass, enum edit_place place, int stream, int64_t layer)
{
    for (int64_t i = 0; i < pass->sequence_count; i++)
        if (is_touched(&pass->sequences[i], place, stream, layer))
            return true;
    return false;
}

bool pass_edit_keeps(const struct pass_sequence *sequence, const struct pass_step *step)
{
    return (sequence->item->states && (step->layer < 0 || sequence->answered[step->layer]))
           || mark_find(sequence->item->marks, step->place, step->stream, step->layer);
}

static bool edit_plan_rows(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                           struct fault *fault)
{
    (void)fault;
    pass_rows_work(pass->row_count[step->stream], pass->forward->streams[step->stream].width, work);
    return true;
}

static int64_t edit_tasks(struct pass *pass, const struct pass_step *step, int turn,
                          struct fault *fault)
{
    (void)step;
    (void)fault;
    return turn > 0 ? PASS_OVER : pass->sequence_count;
}

/* A task has one sequence. */
static void edit_run(const struct pass *pass, const struct pass_step *step, int turn, int64_t task,
                     void *workspace)
{
    const struct pass_sequence *sequence = &pass->sequences[task];
    const int64_t width = pass->forward->streams[step->stream].width;
    const bool is_output = step->place == EDIT_ATTENTION_OUTPUT || step->place == EDIT_FEED_FORWARD;
    float *of_all = is_output ? pass->output : pass->rows[step->stream];
    const struct edited_rows rows = { .rows = of_all + sequence->first[step->stream] * width,
                                      .stride = width,
                                      .count = sequence->length[step->stream],
                                      .width = width };
    const struct kept_states *states = states_of(sequence, step->place, step->stream, step->layer);
    (void)turn;
    (void)workspace;
    if (pass_starts_at(pass, step))
        take_start(pass, step, sequence, rows.rows, width);
    leave_mark(pass, step, sequence, step->place, rows.rows, width);
    for (int64_t i = 0; i < sequence->item->edit_count; i++)
        if (edit_is_at(&sequence->item->edits[i], step->place, step->stream, step->layer))
            apply_edit(&sequence->item->edits[i], &rows, step->layer);
    if (states)
        memcpy(states->rows, rows.rows, (size_t)(rows.count * width) * sizeof(float));
}

const struct pass_step_functions pass_edit = { edit_plan_rows, edit_tasks, edit_run };

/* ---------------------------------------------------------- heads: what is hidden -- */

static bool is_of_layer(const struct trace_edit *edit, const struct pass_step *step,
                        enum edit_action action)
{
    return edit->action == action && edit->row_count > 0
           && edit_is_at(edit, EDIT_HEAD, step->stream, step->layer);
}

static int64_t keys_of(const struct pass_sequence *sequence, const struct pass_step *step)
{
    const int64_t past = sequence->item->past ? sequence->item->past->length : 0;
    return step->is_cross ? sequence->length[0] : past + sequence->length[step->stream];
}

/* The heads that the mask of a layer is of: 0: nothing is hidden; 1: all heads have the same. */
static int64_t hidden_heads(const struct pass *pass, const struct pass_sequence *sequence,
                            const struct pass_step *step)
{
    int64_t heads = 0;
    for (int64_t i = 0; i < sequence->item->edit_count; i++) {
        const struct trace_edit *edit = &sequence->item->edits[i];
        if (!is_of_layer(edit, step, EDIT_HIDE) || edit->hidden_count == 0
            || (edit->head_list && edit->head_count == 0))
            continue;
        heads = edit->head_list || heads > 1 ? pass->model->layers[step->layer].layer.q_heads : 1;
    }
    return heads;
}

bool pass_edit_mask(struct pass *pass, const struct pass_step *step, struct pass_sequence *sequence,
                    struct fault *fault)
{
    const int64_t heads = hidden_heads(pass, sequence, step);
    const int64_t rows = sequence->length[step->stream], keys = keys_of(sequence, step);
    int64_t count;
    if (heads == 0 || rows == 0 || keys == 0)
        return true;
    if (__builtin_mul_overflow(heads * rows, keys, &count))
        return fault_no_memory(fault);
    if (!pass_keep_room(pass, &sequence->hidden, count, 1, fault))
        return false;
    sequence->attention->masking.mask =
        attn_tensor_dense(sequence->hidden.memory, ATTN_BOOL, 1, heads, rows, keys);
    sequence->bias_of = NULL;
    return true;
}

bool pass_edit_hides(const struct pass_sequence *sequence)
{
    return sequence->hidden.memory
           && sequence->attention->masking.mask.data == sequence->hidden.memory;
}

static void hide_keys(const struct trace_edit *edit, const struct attn_tensor *mask)
{
    const int64_t heads = mask->shape[1] == 1 ? 1
                          : edit->head_list   ? edit->head_count
                                              : mask->shape[1];
    for (int64_t h = 0; h < heads; h++) {
        const int64_t head = edit->head_list ? edit->head_list[h] : h;
        for (int64_t i = 0; i < edit->row_count; i++) {
            uint8_t *row = (uint8_t *)mask->data
                           + (head * mask->shape[2] + edit->row_list[i]) * mask->shape[3];
            for (int64_t k = 0; k < edit->hidden_count; k++)
                memset(row + edit->hidden[k].begin, 0,
                       (size_t)(edit->hidden[k].end - edit->hidden[k].begin));
        }
    }
}

void pass_edit_hide(const struct pass_step *step, const struct pass_sequence *sequence)
{
    const struct trace_item *item = sequence->item;
    const struct attn_tensor *mask = &sequence->attention->masking.mask;
    const uint8_t *visible = step->is_cross || step->stream == 0 ? item->streams[0].visible : NULL;
    if (!pass_edit_hides(sequence))
        return;
    for (int64_t row = 0; row < mask->shape[1] * mask->shape[2]; row++) {
        uint8_t *seen = (uint8_t *)mask->data + row * mask->shape[3];
        if (visible)
            memcpy(seen, visible, (size_t)mask->shape[3]);
        else
            memset(seen, 1, (size_t)mask->shape[3]);
    }
    for (int64_t i = 0; i < item->edit_count; i++)
        if (is_of_layer(&item->edits[i], step, EDIT_HIDE))
            hide_keys(&item->edits[i], mask);
}

/* --------------------------------------------------------- heads: given weights -- */

/* Numbers of the weights that all edits of a layer give. */
static bool given_numbers(const struct pass *pass, const struct pass_sequence *sequence,
                          const struct pass_step *step, int64_t *numbers)
{
    const int64_t q_heads = pass->model->layers[step->layer].layer.q_heads;
    *numbers = 0;
    for (int64_t i = 0; i < sequence->item->edit_count; i++) {
        const struct trace_edit *edit = &sequence->item->edits[i];
        int64_t own;
        if (is_of_layer(edit, step, EDIT_WEIGHTS)
            && (__builtin_mul_overflow((edit->head_list ? edit->head_count : q_heads)
                                           * edit->row_count,
                                       keys_of(sequence, step), &own)
                || __builtin_add_overflow(*numbers, own, numbers)))
            return false;
    }
    return true;
}

bool pass_edit_given(struct pass *pass, const struct pass_step *step,
                     struct pass_sequence *sequence, struct attn_work *work, struct fault *fault)
{
    const int64_t q_heads = pass->model->layers[step->layer].layer.q_heads;
    const int64_t rows = q_heads * sequence->length[step->stream];
    int64_t numbers;
    if (!given_numbers(pass, sequence, step, &numbers))
        return fault_no_memory(fault);
    if (numbers == 0)
        return true;
    if (!pass_keep_room(pass, &sequence->given, rows, sizeof(float *), fault)
        || !pass_keep_room(pass, &sequence->given_weights, numbers, sizeof(float), fault)
        || !pass_keep_room(pass, &sequence->seen, keys_of(sequence, step), sizeof(bool), fault))
        return false;
    memset(sequence->given.memory, 0, (size_t)rows * sizeof(float *));
    sequence->attention->given = sequence->given.memory;
    if (work)
        work->tile_flops +=
            2.0 * (double)numbers * (double)pass->model->layers[step->layer].layer.v_head_dim;
    return true;
}

/* The weights of one row for its pattern, over the keys that it sees. */
static void set_pattern(float *weights, const struct trace_edit *edit, int64_t i, int64_t position,
                        const bool *seen, int64_t keys)
{
    const int64_t previous = position > 0 ? position - 1 : 0;
    const int64_t named = edit->pattern == EDIT_SELF ? position : previous;
    int64_t count = 0;
    for (int64_t j = 0; j < keys; j++) {
        const bool is_first = seen[j] && count == 0;
        count += seen[j];
        weights[j] = !seen[j]                        ? 0.0f
                     : edit->pattern == EDIT_MATRIX  ? edit->values[i * keys + j]
                     : edit->pattern == EDIT_UNIFORM ? 1.0f
                     : edit->pattern == EDIT_FIRST   ? (float)is_first
                                                     : (float)(j == named);
    }
    for (int64_t j = 0; edit->pattern == EDIT_UNIFORM && j < keys; j++)
        weights[j] = seen[j] ? (float)(1.0 / (double)count) : 0.0f;
}

bool pass_edit_gives(const struct pass_sequence *sequence)
{
    return sequence->attention->given != NULL;
}

/* Masks hide keys, and biases do not: a row sees what it sees without them. */
void pass_edit_give(const struct pass *pass, const struct pass_step *step,
                    const struct pass_sequence *sequence)
{
    const struct infer_item *attention = sequence->attention;
    const struct trace_item *item = sequence->item;
    const int64_t q_heads = pass->model->layers[step->layer].layer.q_heads;
    const int64_t q_len = sequence->length[step->stream], keys = keys_of(sequence, step);
    const int64_t past = item->past ? item->past->length : 0;
    struct attn_problem problem = attn_layer_attention(&attention->plan, attention->scratch);
    const float **given = sequence->given.memory;
    float *weights = sequence->given_weights.memory;
    problem.mask = attention->masking.mask;
    for (int64_t e = 0; e < item->edit_count; e++) {
        const struct trace_edit *edit = &item->edits[e];
        const int64_t heads = edit->head_list ? edit->head_count : q_heads;
        if (!is_of_layer(edit, step, EDIT_WEIGHTS))
            continue;
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < edit->row_count; i++, weights += keys) {
                const int64_t head = edit->head_list ? edit->head_list[h] : h;
                attn_row_seen(&problem, head, edit->row_list[i], sequence->seen.memory);
                set_pattern(weights, edit, i, past + edit->row_list[i], sequence->seen.memory,
                            keys);
                given[head * q_len + edit->row_list[i]] = weights;
            }
    }
}

/* ------------------------------------------------------------- heads: contexts -- */

bool pass_edit_has_heads(const struct pass_sequence *sequence, const struct pass_step *step)
{
    return is_touched(sequence, EDIT_HEAD, step->stream, step->layer);
}

static void edit_head(const struct trace_edit *edit, const struct attn_tensor *context,
                      int64_t head, int64_t layer)
{
    const struct edited_rows rows = { .rows = (float *)context->data + head * context->stride[1],
                                      .stride = context->stride[2],
                                      .count = context->shape[2],
                                      .width = context->shape[3],
                                      .column = head * context->shape[3] };
    apply_edit(edit, &rows, layer);
}

void pass_edit_heads(const struct pass *pass, const struct pass_step *step,
                     const struct pass_sequence *sequence)
{
    const struct infer_item *attention = sequence->attention;
    const struct attn_problem problem = attn_layer_attention(&attention->plan, attention->scratch);
    const struct attn_tensor *context = &problem.context;
    const struct kept_states *states = states_of(sequence, EDIT_HEAD, step->stream, step->layer);
    if (!context->data)
        return;
    if (pass_starts_at(pass, step))
        take_start(pass, step, sequence, context->data, context->stride[2]);
    leave_mark(pass, step, sequence, EDIT_HEAD, context->data, context->stride[2]);
    for (int64_t i = 0; i < sequence->item->edit_count; i++) {
        const struct trace_edit *edit = &sequence->item->edits[i];
        const int64_t heads = edit->head_list ? edit->head_count : context->shape[1];
        if (edit->action <= EDIT_WEIGHTS || !edit_is_at(edit, EDIT_HEAD, step->stream, step->layer))
            continue;
        for (int64_t h = 0; h < heads; h++)
            edit_head(edit, context, edit->head_list ? edit->head_list[h] : h, step->layer);
    }
    for (int64_t row = 0; states && row < context->shape[2]; row++)
        memcpy(states->rows + row * states->width,
               (float *)context->data + row * context->stride[2],
               (size_t)states->width * sizeof(float));
}
