/* SPDX-License-Identifier: Apache-2.0 */
/* pass_recur.c - the step of a layer that keeps a state in place of keys and values
 * (model_recurrence.h).
 *
 * Rows go through it in panels, those of all sequences together through products and norms, those
 * of each sequence alone through convolution and recurrence. A sequence takes its state from panel
 * to panel, so memory does not grow with its length, and its rows have the bits that they have one
 * by one. The state before the first row is that of a session, or zeros. */
#include "operations/pass/pass_internal.h"

#include <string.h>

/* Turns of a panel. */
enum {
    TURN_IN,
    TURN_ORDER = TURN_IN + MODEL_RECURRENCE_PRODUCTS_MAX,
    TURN_CONVOLVE,
    TURN_MIX,
    TURN_FINISH,
    TURN_OUT,
    PANEL_TURNS
};

/* Rows of a panel. */
struct pass_recurrent_rows {
    struct pass_room projected, convolved, mixed; /* float */
};

struct panel {
    int64_t first, count; /* of the rows of all sequences */
};

static struct panel panel_of(const struct pass *pass, const struct pass_step *step, int turn)
{
    const int64_t first = (int64_t)(turn / PANEL_TURNS) * PASS_PANEL_ROWS;
    const int64_t left = pass->row_count[step->stream] - first;
    return (struct panel){ first, left < PASS_PANEL_ROWS ? left : PASS_PANEL_ROWS };
}

/* Rows of the panel that are the sequence's. */
static struct panel part_of(const struct pass_sequence *sequence, int stream,
                            const struct panel *panel)
{
    const int64_t begin = sequence->first[stream], end = begin + sequence->length[stream];
    const int64_t first = panel->first > begin ? panel->first : begin;
    const int64_t last = panel->first + panel->count < end ? panel->first + panel->count : end;
    return (struct panel){ first, last > first ? last - first : 0 };
}

/* Mixed rows are convolved rows where nothing follows the convolution. */
static float *mixed_rows(const struct pass *pass, const struct model_recurrence *recurrence)
{
    const struct pass_recurrent_rows *rows = pass->recurrent;
    return recurrence->kind == MODEL_RECURRENCE_NONE ? rows->convolved.memory : rows->mixed.memory;
}

static const float *columns_at(const float *rows, int64_t at)
{
    return at < 0 ? NULL : rows + at;
}

/* ------------------------------------------------------------------------ problems -- */

static struct attn_convolution_problem convolution_of(const struct pass *pass,
                                                      const struct pass_step *step,
                                                      const struct pass_sequence *sequence,
                                                      const struct panel *panel)
{
    const struct model_recurrence *recurrence = step->block->recurrence;
    const struct panel part = part_of(sequence, step->stream, panel);
    const bool is_start = part.first == sequence->first[step->stream];
    const int64_t row = part.first - panel->first, columns = recurrence->columns;
    const float *rows = (const float *)pass->recurrent->projected.memory + row * columns;
    float *convolved = pass->recurrent->convolved.memory;
    return (struct attn_convolution_problem){
        .convolution = &recurrence->convolution,
        .x = rows + recurrence->convolved_at,
        .factor = columns_at(rows, recurrence->factor_at),
        .gate = columns_at(rows, recurrence->conv_gate_at),
        .x_stride = columns,
        .y = convolved + row * recurrence->convolution.columns,
        .y_stride = recurrence->convolution.columns,
        .before = is_start ? sequence->state_before : sequence->state_after,
        .after = sequence->state_after,
        .row_count = part.count,
        .kernels = pass->limits.kernels,
    };
}

/* State that follows that of the convolution. */
static struct attn_ssd_problem ssd_of(const struct pass *pass, const struct pass_step *step,
                                      const struct pass_sequence *sequence,
                                      const struct panel *panel)
{
    const struct model_recurrence *recurrence = step->block->recurrence;
    const struct attn_ssd *ssd = &recurrence->ssd;
    const struct panel part = part_of(sequence, step->stream, panel);
    const bool is_start = part.first == sequence->first[step->stream];
    const int64_t row = part.first - panel->first, stride = recurrence->convolution.columns;
    const int64_t at = attn_convolution_state(&recurrence->convolution);
    const float *x = (const float *)pass->recurrent->convolved.memory + row * stride;
    const float *b = x + ssd->heads * ssd->head_dim;
    const float *before = is_start ? sequence->state_before : sequence->state_after;
    return (struct attn_ssd_problem){
        .ssd = ssd,
        .x = x,
        .b = b,
        .c = b + ssd->groups * ssd->state_dim,
        .dt = (const float *)pass->recurrent->projected.memory + row * recurrence->columns
              + recurrence->dt_at,
        .x_stride = stride,
        .b_stride = stride,
        .dt_stride = recurrence->columns,
        .y = (float *)pass->recurrent->mixed.memory + row * recurrence->mixed,
        .y_stride = recurrence->mixed,
        .before = before ? before + at : NULL,
        .after = sequence->state_after + at,
        .row_count = part.count,
        .kernels = pass->limits.kernels,
    };
}

static struct attn_linear_attention_problem attention_of(const struct pass *pass,
                                                         const struct pass_step *step,
                                                         const struct pass_sequence *sequence,
                                                         const struct panel *panel)
{
    const struct model_recurrence *recurrence = step->block->recurrence;
    const struct attn_linear_attention *attention = &recurrence->attention;
    const struct panel part = part_of(sequence, step->stream, panel);
    const bool is_start = part.first == sequence->first[step->stream];
    const int64_t row = part.first - panel->first, stride = recurrence->convolution.columns;
    const int64_t at = attn_convolution_state(&recurrence->convolution);
    const float *query = (const float *)pass->recurrent->convolved.memory + row * stride;
    const float *key = query + attention->q_heads * attention->k_head_dim;
    const float *others =
        (const float *)pass->recurrent->projected.memory + row * recurrence->columns;
    const float *before = is_start ? sequence->state_before : sequence->state_after;
    return (struct attn_linear_attention_problem){
        .attention = attention,
        .query = query,
        .key = key,
        .value = key + attention->k_heads * attention->k_head_dim,
        .decay = others + recurrence->decay_at,
        .beta = others + recurrence->beta_at,
        .query_stride = stride,
        .key_stride = stride,
        .value_stride = stride,
        .decay_stride = recurrence->columns,
        .beta_stride = recurrence->columns,
        .y = (float *)pass->recurrent->mixed.memory + row * recurrence->mixed,
        .y_stride = recurrence->mixed,
        .before = before ? before + at : NULL,
        .after = sequence->state_after + at,
        .row_count = part.count,
        .kernels = pass->limits.kernels,
    };
}

/* ------------------------------------------------------------------------ planning -- */

/* Where the state of the sequence is and goes to. Once it is open, it stays where it is. */
static bool open_state(struct pass *pass, const struct pass_step *step,
                       struct pass_sequence *sequence, struct fault *fault)
{
    const int64_t numbers = model_recurrence_state(step->block->recurrence);
    if (sequence->item->past) {
        struct infer_cache *cache = sequence->item->past->caches[step->layer];
        return cache->open_state(cache, numbers, sequence->length[step->stream],
                                 &sequence->state_before, &sequence->state_after, fault);
    }
    if (!pass_keep_room(pass, &sequence->state, numbers, sizeof(float), fault))
        return false;
    sequence->state_before = NULL;
    sequence->state_after = sequence->state.memory;
    return true;
}

static bool keep_rows(struct pass *pass, const struct model_recurrence *recurrence, int64_t rows,
                      struct fault *fault)
{
    struct pass_recurrent_rows *of = pass->recurrent;
    if (!of) {
        of = pass_alloc(pass, 1, sizeof *of, fault);
        if (!of)
            return false;
        *of = (struct pass_recurrent_rows){ .mixed.count = 0 };
        pass->recurrent = of;
    }
    return pass_keep_room(pass, &of->projected, rows * recurrence->columns, sizeof(float), fault)
           && pass_keep_room(pass, &of->convolved, rows * recurrence->convolution.columns,
                             sizeof(float), fault)
           && (recurrence->kind == MODEL_RECURRENCE_NONE
               || pass_keep_room(pass, &of->mixed, rows * recurrence->mixed, sizeof(float), fault));
}

static void add_work(const struct pass *pass, const struct pass_step *step, struct attn_work *work)
{
    const struct model_recurrence *recurrence = step->block->recurrence;
    const int64_t rows = pass->row_count[step->stream];
    for (int i = 0; i < recurrence->in_count; i++)
        pass_product_work(pass, &recurrence->in[i], rows, work);
    pass_product_work(pass, &recurrence->out, rows, work);
    pass_rows_work(rows, recurrence->mixed, work);
    if (recurrence->column_scales)
        pass_rows_work(rows, recurrence->columns, work);
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        const int64_t length = pass->sequences[i].length[step->stream];
        attn_convolution_work(
            &(struct attn_convolution_problem){ .convolution = &recurrence->convolution,
                                                .row_count = length },
            work);
        if (recurrence->kind == MODEL_RECURRENCE_SSD)
            attn_ssd_work(
                &(struct attn_ssd_problem){ .ssd = &recurrence->ssd, .row_count = length }, work);
        if (recurrence->kind == MODEL_RECURRENCE_DELTA)
            attn_linear_attention_work(
                &(struct attn_linear_attention_problem){ .attention = &recurrence->attention,
                                                         .row_count = length },
                work);
    }
}

static bool is_out_of_order(const struct model_recurrence *recurrence)
{
    return recurrence->groups[0].groups > 0 || recurrence->groups[1].groups > 0;
}

/* The workspace of a task, beside those of products. */
static size_t workspace_of(const struct model_recurrence *recurrence)
{
    const size_t ordered = is_out_of_order(recurrence)
                               ? ((size_t)recurrence->columns * sizeof(float) + 63) / 64 * 64
                               : 0;
    const size_t mixed = recurrence->kind == MODEL_RECURRENCE_DELTA
                             ? attn_linear_attention_workspace_bytes(&recurrence->attention)
                             : 0;
    return ordered > mixed ? ordered : mixed;
}

static bool recur_plan(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                       struct fault *fault)
{
    const int64_t rows = pass->row_count[step->stream];
    for (int64_t i = 0; i < pass->sequence_count; i++)
        if (!open_state(pass, step, &pass->sequences[i], fault))
            return false;
    add_work(pass, step, work);
    if (workspace_of(step->block->recurrence) > pass->workspace_bytes)
        pass->workspace_bytes = workspace_of(step->block->recurrence);
    return keep_rows(pass, step->block->recurrence, rows < PASS_PANEL_ROWS ? rows : PASS_PANEL_ROWS,
                     fault);
}

/* ------------------------------------------------------------------------- running -- */

static int64_t in_tasks(struct pass *pass, const struct pass_step *step, int number,
                        const struct panel *panel)
{
    const struct model_recurrence *recurrence = step->block->recurrence;
    const int64_t width = pass->forward->streams[step->stream].width;
    float *to = pass->recurrent->projected.memory;
    if (number >= recurrence->in_count)
        return 0;
    for (int i = 0; i < number; i++)
        to += recurrence->in[i].out;
    pass_product(pass, &recurrence->in[number], pass->input + panel->first * width, to,
                 panel->count);
    pass->product.y_stride = recurrence->columns;
    return attn_product_tasks(&pass->product);
}

/* Tasks of each sequence that has rows in the panel. */
static int64_t sequence_tasks(struct pass *pass, const struct pass_step *step, int turn,
                              const struct panel *panel)
{
    const struct model_recurrence *recurrence = step->block->recurrence;
    int64_t count = 0;
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        const struct pass_sequence *sequence = &pass->sequences[i];
        pass->first_task[i] = count;
        if (turn == TURN_CONVOLVE) {
            const struct attn_convolution_problem problem =
                convolution_of(pass, step, sequence, panel);
            count += attn_convolution_tasks(&problem);
        } else if (recurrence->kind == MODEL_RECURRENCE_SSD) {
            const struct attn_ssd_problem problem = ssd_of(pass, step, sequence, panel);
            count += attn_ssd_tasks(&problem);
        } else if (recurrence->kind == MODEL_RECURRENCE_DELTA) {
            const struct attn_linear_attention_problem problem =
                attention_of(pass, step, sequence, panel);
            count += attn_linear_attention_tasks(&problem);
        }
    }
    pass->first_task[pass->sequence_count] = count;
    return count;
}

static int64_t recur_tasks(struct pass *pass, const struct pass_step *step, int turn,
                           struct fault *fault)
{
    const struct model_recurrence *recurrence = step->block->recurrence;
    const struct panel panel = panel_of(pass, step, turn);
    const int64_t width = pass->forward->streams[step->stream].width;
    const bool is_finished = recurrence->norm.weight || recurrence->gate_at >= 0;
    for (int64_t i = 0; turn == 0 && i < pass->sequence_count; i++)
        if (!open_state(pass, step, &pass->sequences[i], fault))
            return 0;
    if (panel.count <= 0) {
        pass_record_output(pass, step);
        return PASS_OVER;
    }
    switch (turn % PANEL_TURNS) {
    case TURN_ORDER:
        return is_out_of_order(recurrence) || recurrence->column_scales
                   ? pass_row_tasks(panel.count, recurrence->columns)
                   : 0;
    case TURN_CONVOLVE:
    case TURN_MIX:
        return sequence_tasks(pass, step, turn % PANEL_TURNS, &panel);
    case TURN_FINISH:
        return is_finished ? pass_row_tasks(panel.count, recurrence->mixed) : 0;
    case TURN_OUT:
        return pass_product(pass, &recurrence->out, mixed_rows(pass, recurrence),
                            pass->output + panel.first * width, panel.count);
    default:
        return in_tasks(pass, step, turn % PANEL_TURNS - TURN_IN, &panel);
    }
}

/* Puts the columns of one row of products in order; memory has room for a row. */
static void order_columns(float *row, const struct model_column_groups *groups, float *memory)
{
    int64_t all = 0, at = 0;
    for (int p = 0; p < groups->count; p++)
        all += groups->parts[p];
    row += groups->first;
    memcpy(memory, row, (size_t)(all * groups->groups) * sizeof *row);
    for (int p = 0; p < groups->count; at += groups->parts[p++])
        for (int64_t g = 0; g < groups->groups; g++, row += groups->parts[p])
            memcpy(row, memory + g * all + at, (size_t)groups->parts[p] * sizeof *row);
}

static void order_rows(const struct pass *pass, const struct model_recurrence *recurrence,
                       int64_t first, int64_t count, float *memory)
{
    float *row = (float *)pass->recurrent->projected.memory + first * recurrence->columns;
    for (int64_t i = 0; i < count; i++, row += recurrence->columns) {
        for (int g = 0; g < 2; g++)
            if (recurrence->groups[g].groups > 0)
                order_columns(row, &recurrence->groups[g], memory);
        for (int64_t c = 0; recurrence->column_scales && c < recurrence->columns; c++)
            row[c] *= recurrence->column_scales[c];
    }
}

static void run_sequence(const struct pass *pass, const struct pass_step *step, int turn,
                         int64_t task, const struct panel *panel, void *workspace)
{
    int64_t i = 0;
    while (pass->first_task[i + 1] <= task)
        i++;
    task -= pass->first_task[i];
    if (turn == TURN_CONVOLVE) {
        const struct attn_convolution_problem problem =
            convolution_of(pass, step, &pass->sequences[i], panel);
        attn_convolution_run(&problem, task);
    } else if (step->block->recurrence->kind == MODEL_RECURRENCE_DELTA) {
        const struct attn_linear_attention_problem problem =
            attention_of(pass, step, &pass->sequences[i], panel);
        attn_linear_attention_run(&problem, task, workspace);
    } else {
        const struct attn_ssd_problem problem = ssd_of(pass, step, &pass->sequences[i], panel);
        attn_ssd_run(&problem, task);
    }
}

/* Gate and norm of the rows [first, first + count) of the panel. */
static void finish_rows(const struct pass *pass, const struct model_recurrence *recurrence,
                        int64_t first, int64_t count)
{
    const int64_t columns = recurrence->mixed, part = columns / recurrence->norm_groups;
    float *rows = mixed_rows(pass, recurrence) + first * columns;
    const float *gate =
        columns_at((const float *)pass->recurrent->projected.memory + first * recurrence->columns,
                   recurrence->gate_at);
    if (gate && !recurrence->gate_follows_norm)
        attn_rows_gate(pass->limits.kernels, rows, columns, gate, recurrence->columns,
                       recurrence->gate_activation, count, columns);
    for (int64_t c = 0; recurrence->norm.weight && c < columns; c += part) {
        struct attn_norm norm = recurrence->norm;
        norm.weight += c;
        attn_rows_norm(&norm, rows + c, columns, rows + c, columns, count, part);
    }
    if (gate && recurrence->gate_follows_norm)
        attn_rows_gate(pass->limits.kernels, rows, columns, gate, recurrence->columns,
                       recurrence->gate_activation, count, columns);
}

static void recur_run(const struct pass *pass, const struct pass_step *step, int turn, int64_t task,
                      void *workspace)
{
    const struct model_recurrence *recurrence = step->block->recurrence;
    const struct panel panel = panel_of(pass, step, turn);
    int64_t first, count;
    switch (turn % PANEL_TURNS) {
    case TURN_ORDER:
        pass_task_rows(panel.count, recurrence->columns, task, &first, &count);
        order_rows(pass, recurrence, first, count, workspace);
        return;
    case TURN_CONVOLVE:
    case TURN_MIX:
        run_sequence(pass, step, turn % PANEL_TURNS, task, &panel, workspace);
        return;
    case TURN_FINISH:
        pass_task_rows(panel.count, recurrence->mixed, task, &first, &count);
        finish_rows(pass, recurrence, first, count);
        return;
    default:
        attn_product_run(&pass->product, task, workspace);
    }
}

const struct pass_step_functions pass_recur = { recur_plan, recur_tasks, recur_run };
