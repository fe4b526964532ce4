/* SPDX-License-Identifier: Apache-2.0 */
/* pass_rows.c - steps that work on single rows, and what all steps do with rows. */
#include "operations/pass/pass_internal.h"

#include <string.h>

/* -------------------------------------------------------------- for all steps -- */

void *pass_alloc(struct pass *pass, int64_t count, size_t size, struct fault *fault)
{
    size_t bytes;
    if (__builtin_mul_overflow((size_t)count, size, &bytes)
        || bytes > pass->limits.scratch_bytes_max) {
        fault_set(fault, FAULT_TOO_LARGE,
                  "the request needs more than the %zu bytes that are given to compute in",
                  pass->limits.scratch_bytes_max);
        return NULL;
    }
    void *memory = arena_alloc(pass->arena, bytes);
    if (!memory)
        fault_no_memory(fault);
    return memory;
}

bool pass_keep_room(struct pass *pass, struct pass_room *room, int64_t count, size_t size,
                    struct fault *fault)
{
    if (room->memory && count <= room->count)
        return true;
    room->memory = pass_alloc(pass, count, size, fault);
    room->count = count;
    return room->memory != NULL;
}

static int64_t rows_per_task(int64_t columns)
{
    return columns >= PASS_TASK_NUMBERS ? 1 : PASS_TASK_NUMBERS / (columns > 0 ? columns : 1);
}

int64_t pass_row_tasks(int64_t row_count, int64_t columns)
{
    const int64_t rows = rows_per_task(columns);
    return row_count / rows + (row_count % rows != 0);
}

void pass_task_rows(int64_t row_count, int64_t columns, int64_t task, int64_t *first,
                    int64_t *count)
{
    const int64_t rows = rows_per_task(columns);
    *first = task * rows;
    *count = row_count - *first < rows ? row_count - *first : rows;
}

int64_t pass_product(struct pass *pass, const struct attn_linear *linear, const float *x, float *y,
                     int64_t row_count)
{
    pass->product = (struct attn_product){ .linear = linear,
                                           .x = x,
                                           .x_stride = linear->in,
                                           .y = y,
                                           .y_stride = linear->out,
                                           .row_count = row_count,
                                           .kernels = pass->limits.kernels,
                                           .precision = pass->limits.precision };
    return attn_product_tasks(&pass->product);
}

void pass_product_work(const struct pass *pass, const struct attn_linear *linear, int64_t row_count,
                       struct attn_work *work)
{
    const struct attn_product product = { .linear = linear,
                                          .x_stride = linear->in,
                                          .y_stride = linear->out,
                                          .row_count = row_count,
                                          .kernels = pass->limits.kernels };
    attn_product_work(&product, work);
}

void pass_rows_work(int64_t row_count, int64_t columns, struct attn_work *work)
{
    work->tasks += (double)pass_row_tasks(row_count, columns);
    attn_rows_work(row_count, columns, work);
}

/* The rows [*first, *first + *count) of a stream, as far as they are of the sequence: the number of
 * the first of them within the sequence. */
static int64_t clip_rows(const struct pass_sequence *sequence, int stream, int64_t *first,
                         int64_t *count)
{
    const int64_t begin = sequence->first[stream], end = begin + sequence->length[stream];
    const int64_t last = *first + *count;
    if (*first < begin)
        *first = begin;
    *count = (last < end ? last : end) - *first;
    return *first - begin;
}

static void copy_rows(const struct trace_tensor *to, int64_t row, const float *from, int64_t count,
                      int64_t columns)
{
    memcpy((float *)to->values + row * columns, from, (size_t)(count * columns) * sizeof *from);
}

void pass_copy_answered(const struct pass *pass, int stream, int64_t layer,
                        enum trace_tensor_name name, const float *source, int64_t columns,
                        int64_t first, int64_t count)
{
    if (layer < 0)
        return;
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        const struct pass_sequence *sequence = &pass->sequences[i];
        const struct trace_layer *answered = sequence->answered[layer];
        int64_t some_first = first, some = count;
        const int64_t row = clip_rows(sequence, stream, &some_first, &some);
        if (answered && answered->tensors[name].values && some > 0)
            copy_rows(&answered->tensors[name], row, source + some_first * columns, some, columns);
    }
}

/* -------------------------------------------------------------------- norms -- */

static int64_t width_of(const struct pass *pass, const struct pass_step *step)
{
    return pass->forward->streams[step->stream].width;
}

static bool plan_rows(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                      struct fault *fault)
{
    (void)fault;
    pass_rows_work(pass->row_count[step->stream], width_of(pass, step), work);
    return true;
}

/* Room for the rows that enter a layer whose keys others have. */
static bool plan_norm(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                      struct fault *fault)
{
    const int64_t layer_count = pass->model->layer_count;
    bool is_shared = false;
    for (int64_t i = 0; step->layer >= 0 && i < layer_count; i++)
        is_shared = is_shared
                    || (pass->model->layers[i].shares_keys
                        && pass->model->layers[i].keys_of == step->layer);
    if (is_shared && !pass->shared_inputs) {
        pass->shared_inputs = pass_alloc(pass, layer_count, sizeof *pass->shared_inputs, fault);
        if (!pass->shared_inputs)
            return false;
        memset(pass->shared_inputs, 0, (size_t)layer_count * sizeof *pass->shared_inputs);
    }
    if (is_shared)
        pass->shared_inputs[step->layer] = pass_alloc(
            pass, (pass->row_count[step->stream] + 1) * width_of(pass, step), sizeof(float), fault);
    return (!is_shared || pass->shared_inputs[step->layer]) && plan_rows(pass, step, work, fault);
}

static int64_t step_row_tasks(const struct pass *pass, const struct pass_step *step)
{
    return pass_row_tasks(pass->row_count[step->stream], width_of(pass, step));
}

static bool is_normed(const struct pass_step *step)
{
    return step->part->before.weight || step->is_copied;
}

static int64_t norm_tasks(struct pass *pass, const struct pass_step *step, int turn,
                          struct fault *fault)
{
    (void)fault;
    if (turn > 0)
        return PASS_OVER;
    pass->input = is_normed(step) ? pass->normed : pass->rows[step->stream];
    return step_row_tasks(pass, step);
}

/* The rows of the block belong to all of its layers. */
static void copy_hidden_states(const struct pass *pass, const struct pass_step *step, int64_t first,
                               int64_t count)
{
    const struct model_block *block = step->block;
    const int64_t layers[] = { block->self_layer, block->beside_layer, block->cross_layer };
    for (int i = 0; i < 3; i++)
        pass_copy_answered(pass, step->stream, layers[i], TRACE_HIDDEN_STATES,
                           pass->rows[step->stream], width_of(pass, step), first, count);
}

static void norm_run(const struct pass *pass, const struct pass_step *step, int turn, int64_t task,
                     void *workspace)
{
    const int64_t width = width_of(pass, step);
    const float *rows = pass->rows[step->stream];
    int64_t first, count;
    (void)turn;
    (void)workspace;
    pass_task_rows(pass->row_count[step->stream], width, task, &first, &count);
    if (step->is_first)
        copy_hidden_states(pass, step, first, count);
    if (is_normed(step))
        attn_rows_norm(&step->part->before, pass->normed + first * width, width,
                       rows + first * width, width, count, width);
    if (step->layer >= 0 && pass->shared_inputs && pass->shared_inputs[step->layer])
        memcpy(pass->shared_inputs[step->layer] + first * width, pass->input + first * width,
               (size_t)(count * width) * sizeof *rows);
    pass_copy_answered(pass, step->stream, step->layer, TRACE_INPUTS, pass->input, width, first,
                       count);
    if (step->layer >= 0 && pass->shared_inputs && pass->model->layers[step->layer].shares_keys)
        pass_copy_answered(pass, step->stream, step->layer, TRACE_KEY_INPUTS,
                           pass->shared_inputs[pass->model->layers[step->layer].keys_of], width,
                           first, count);
}

const struct pass_step_functions pass_norm = { plan_norm, norm_tasks, norm_run };

/* --------------------------------------------------------------- final norm -- */

static int64_t final_tasks(struct pass *pass, const struct pass_step *step, int turn,
                           struct fault *fault)
{
    (void)fault;
    return turn > 0 ? PASS_OVER : step_row_tasks(pass, step);
}

static void final_run(const struct pass *pass, const struct pass_step *step, int turn, int64_t task,
                      void *workspace)
{
    const struct attn_norm *norm = &pass->forward->streams[step->stream].final_norm;
    const int64_t width = width_of(pass, step);
    int64_t first, count;
    (void)turn;
    (void)workspace;
    pass_task_rows(pass->row_count[step->stream], width, task, &first, &count);
    float *rows = pass->rows[step->stream];
    if (norm->weight)
        attn_rows_norm(norm, rows + first * width, width, rows + first * width, width, count,
                       width);
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        const struct pass_sequence *sequence = &pass->sequences[i];
        const struct trace_tensor *answered = &sequence->item->streams[step->stream].rows;
        int64_t some_first = first, some = count;
        const int64_t row = clip_rows(sequence, step->stream, &some_first, &some);
        if (answered->values && some > 0)
            copy_rows(answered, row, rows + some_first * width, some, width);
    }
}

const struct pass_step_functions pass_final = { plan_rows, final_tasks, final_run };
