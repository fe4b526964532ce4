/* SPDX-License-Identifier: Apache-2.0 */
/* pass_contribute.c - the step behind the head that says what each part added to a logit.
 *
 * It goes back from the token's row of the head's matrix, a gradient, through every norm and sum
 * that was recorded (pass_record.c). A norm is linear once its scale is held; its mean is linear
 * anyway. What a part put into the residual, times the gradient that meets it, is what it added. In
 * double; a task has one target. */
#include "operations/pass/pass_internal.h"

#include "base/dtype.h"

#include <math.h>
#include <string.h>

static int head_stream(const struct pass *pass)
{
    return pass->forward->stream_count - 1;
}

static int64_t width_of(const struct pass *pass)
{
    return pass->forward->streams[head_stream(pass)].width;
}

/* ------------------------------------------------------------------------ planning -- */

/* The most columns of a context. */
static int64_t columns_max(const struct pass *pass)
{
    int64_t most = width_of(pass);
    for (int64_t i = 0; i < pass->model->layer_count; i++) {
        const struct attn_layer *layer = &pass->model->layers[i].layer;
        const int64_t columns = layer->q_heads * layer->v_head_dim;
        most = columns > most ? columns : most;
    }
    return most;
}

/* The memory of a task: gradients at the residual, and behind a part; a sum; what meets a context;
 * numbers of a matrix. */
struct room {
    double *gradient, *inner, *sum, *met;
    float *numbers;
};

static size_t room_bytes(const struct pass *pass)
{
    const int64_t columns = columns_max(pass);
    return (size_t)columns * (4 * sizeof(double) + sizeof(float)) + 64;
}

static struct room room_of(const struct pass *pass, void *workspace)
{
    const int64_t columns = columns_max(pass);
    double *at = workspace;
    return (struct room){ at, at + columns, at + 2 * columns, at + 3 * columns,
                          (float *)(void *)(at + 4 * columns) };
}

static bool contribute_plan(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                            struct fault *fault)
{
    double flops = 0, targets = 0;
    (void)step;
    (void)fault;
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        const struct pass_sequence *sequence = &pass->sequences[i];
        targets += (double)sequence->item->contribution_count;
        for (int64_t k = 0; k < sequence->record_count; k++) {
            const struct pass_step *own = sequence->records[k].step;
            const struct attn_layer *layer =
                own->layer >= 0 ? &pass->model->layers[own->layer].layer : NULL;
            const double columns = layer ? (double)(layer->q_heads * layer->v_head_dim) : 0;
            flops += (double)sequence->item->contribution_count * (double)width_of(pass)
                     * (2 * columns + 16);
        }
    }
    work->double_flops += flops;
    work->tasks += targets;
    if (room_bytes(pass) > pass->workspace_bytes)
        pass->workspace_bytes = (room_bytes(pass) + 63) / 64 * 64;
    return true;
}

/* ------------------------------------------------------------------------- matrices -- */

static int64_t stride_of(const struct attn_linear *linear)
{
    return linear->stride > 0 ? linear->stride : linear->in_out ? linear->out : linear->in;
}

/* Numbers of a stored row of the matrix, as floats: of one with blocks a whole row. */
static void read_row(const struct attn_linear *linear, int64_t row, int64_t first, int64_t count,
                     float *to)
{
    const int64_t at = row * stride_of(linear) + first;
    dtype_read(to, attn_number_at(linear->weight, linear->dtype, at), linear->dtype, (size_t)count);
}

/* Adds times the weights of one output to the gradient. */
static void add_output(const struct attn_linear *linear, int64_t output, double times,
                       struct room *room)
{
    if (!linear->in_out)
        read_row(linear, output, 0, linear->in, room->numbers);
    for (int64_t c = 0; c < linear->in; c++) {
        if (linear->in_out)
            read_row(linear, c, output, 1, &room->numbers[c]);
        room->gradient[c] += times * (double)room->numbers[c];
    }
}

static double dot(const double *a, const float *b, int64_t count)
{
    double sum = 0;
    for (int64_t c = 0; c < count; c++)
        sum += a[c] * (double)b[c];
    return sum;
}

/* met = inner . weight: the gradient that meets what enters a product. */
static void go_through(const struct attn_linear *linear, struct room *room)
{
    memset(room->met, 0, (size_t)linear->in * sizeof *room->met);
    if (linear->in_out)
        for (int64_t c = 0; c < linear->in; c++) {
            read_row(linear, c, 0, linear->out, room->numbers);
            room->met[c] = dot(room->inner, room->numbers, linear->out);
        }
    else
        for (int64_t o = 0; o < linear->out; o++) {
            read_row(linear, o, 0, linear->in, room->numbers);
            for (int64_t c = 0; c < linear->in; c++)
                room->met[c] += room->inner[o] * (double)room->numbers[c];
        }
}

/* ---------------------------------------------------------------------------- norms -- */

/* Takes a gradient back through the norm of x, whose scale is held. Returns what its bias adds. */
static double go_through_norm(const struct attn_norm *norm, const double *x, double *gradient,
                              int64_t width)
{
    double mean = 0, squares = 0, bias = 0, sum = 0;
    for (int64_t c = 0; norm->is_centred && c < width; c++)
        mean += x[c] / (double)width;
    for (int64_t c = 0; c < width; c++)
        squares += (x[c] - mean) * (x[c] - mean) / (double)width;
    const double scale = 1 / sqrt(squares + norm->eps);
    for (int64_t c = 0; c < width; c++) {
        bias += norm->bias ? gradient[c] * (double)norm->bias[c] : 0;
        gradient[c] *= (double)norm->weight[c] * scale;
        sum += gradient[c] / (double)width;
    }
    for (int64_t c = 0; norm->is_centred && c < width; c++)
        gradient[c] -= sum;
    return bias;
}

/* The number that a part's output has at a column of the residual. */
static double scale_of(const struct model_part *part, int64_t column)
{
    return (part->scale != 0 ? part->scale : 1)
           * (part->column_scales ? (double)part->column_scales[column] : 1);
}

/* y = norm(x), in double. */
static void apply_norm(const struct attn_norm *norm, const float *x, double *y, int64_t width)
{
    double mean = 0, squares = 0;
    for (int64_t c = 0; norm->is_centred && c < width; c++)
        mean += (double)x[c] / (double)width;
    for (int64_t c = 0; c < width; c++)
        squares += ((double)x[c] - mean) * ((double)x[c] - mean) / (double)width;
    const double scale = 1 / sqrt(squares + norm->eps);
    for (int64_t c = 0; c < width; c++)
        y[c] = ((double)x[c] - mean) * scale * (double)norm->weight[c]
               + (norm->bias ? (double)norm->bias[c] : 0);
}

/* What enters the norm behind the residual: the sum, before it. */
static void set_sum(const struct pass_record *record, int64_t place, int64_t width, double *sum)
{
    const struct model_part *part = record->step->part;
    const float *output = record->output + place * width;
    const float *entering = record->entering + place * width;
    if (part->inside.weight)
        apply_norm(&part->inside, output, sum, width);
    for (int64_t c = 0; c < width; c++)
        sum[c] = (double)entering[c]
                 + scale_of(part, c) * (part->inside.weight ? sum[c] : (double)output[c]);
}

/* ----------------------------------------------------------------------------- parts -- */

static struct contribution_part *part_of(const struct contribution *to, int64_t layer)
{
    for (int64_t i = 0; i < to->part_count; i++)
        if (to->parts[i].layer == layer)
            return &to->parts[i];
    return NULL;
}

/* What edits of the output added. */
static float edits_of(const struct pass_record *record, int64_t place, int64_t width,
                      const struct room *room)
{
    const float *output = record->output + place * width;
    const float *unedited = record->unedited + place * width;
    double edits = 0;
    for (int64_t c = 0; c < width; c++)
        edits += room->inner[c] * ((double)output[c] - (double)unedited[c]);
    return (float)edits;
}

/* What a layer without attention added, as one number. */
static void add_other(const struct pass_record *record, const struct contribution *to,
                      int64_t width, const struct room *room)
{
    struct contribution_part *part = part_of(to, record->step->layer);
    part->heads[0] = (float)dot(room->inner, record->unedited + to->place * width, width);
    part->attention_bias = 0;
    part->edits += edits_of(record, to->place, width, room);
}

/* What attention added, with the gradient room->inner behind its output projection. */
static void add_attention(const struct pass *pass, const struct pass_record *record,
                          const struct contribution *to, struct room *room)
{
    const int64_t width = width_of(pass), place = to->place;
    const struct attn_layer *layer = &pass->model->layers[record->step->layer].layer;
    const int64_t dim = layer->v_head_dim, columns = layer->q_heads * dim;
    const float *context = record->context + place * columns;
    struct contribution_part *part = part_of(to, record->step->layer);
    if (layer->o_proj.weight)
        go_through(&layer->o_proj, room);
    else
        memcpy(room->met, room->inner, (size_t)columns * sizeof *room->met);
    for (int64_t h = 0; h < layer->q_heads; h++)
        part->heads[h] = (float)dot(room->met + h * dim, context + h * dim, dim);
    part->attention_bias =
        layer->o_proj.bias ? (float)dot(room->inner, layer->o_proj.bias, width) : 0;
    part->edits += edits_of(record, place, width, room);
}

/* Takes the gradient back through the sum of a part with the residual. Adds what norms' biases
 * add to *bias. */
static void go_through_sum(const struct pass *pass, const struct pass_record *record,
                           const struct contribution *to, struct room *room, double *bias)
{
    const struct model_part *part = record->step->part;
    const int64_t width = width_of(pass);
    const float *output = record->output + to->place * width;
    for (int64_t c = 0; part->sum_scale != 0 && c < width; c++)
        room->gradient[c] *= part->sum_scale;
    if (part->after.weight) {
        set_sum(record, to->place, width, room->sum);
        *bias += go_through_norm(&part->after, room->sum, room->gradient, width);
    }
    for (int64_t c = 0; c < width; c++)
        room->inner[c] = room->gradient[c] * scale_of(part, c);
    if (part->inside.weight) {
        for (int64_t c = 0; c < width; c++)
            room->sum[c] = (double)output[c];
        *bias += go_through_norm(&part->inside, room->sum, room->inner, width);
    }
    if (record->step->layer >= 0) {
        if (model_block_recurrence(record->step->block, record->step->layer))
            add_other(record, to, width, room);
        else
            add_attention(pass, record, to, room);
        return;
    }
    struct contribution_part *own = part_of(to, record->step->block->self_layer);
    if (own)
        own->feed_forward += (float)dot(room->inner, output, width);
    else
        *bias += dot(room->inner, output, width);
}

/* What edits put between the sum before and this one. */
static double between(const struct pass_record *before, const struct pass_record *record,
                      const struct contribution *to, const double *gradient, int64_t width)
{
    const float *was = before->leaving + to->place * width;
    const float *is = record->entering + to->place * width;
    double sum = 0;
    for (int64_t c = 0; c < width; c++)
        sum += gradient[c] * ((double)is[c] - (double)was[c]);
    return sum;
}

/* The gradient of the logits, or of their difference, and the logit itself, of rows behind the
 * final norm. Returns what the head's bias adds. */
static double begin_at_head(const struct pass *pass, const struct pass_sequence *sequence,
                            struct contribution *to, struct room *room)
{
    const struct model_head *head = &pass->forward->head;
    const int64_t width = width_of(pass), ids[] = { to->id, to->against };
    const double scale = head->scale != 0 ? head->scale : 1;
    double bias = 0;
    memset(room->gradient, 0, (size_t)width * sizeof *room->gradient);
    for (int i = 0; i < 2 && ids[i] >= 0; i++) {
        const double times = i == 0 ? scale : -scale;
        add_output(&head->output, ids[i], times, room);
        bias += head->output.bias ? times * (double)head->output.bias[ids[i]] : 0;
    }
    const float *row =
        pass->rows[head_stream(pass)] + (sequence->first[head_stream(pass)] + to->row) * width;
    to->logit = (float)(dot(room->gradient, row, width) + bias);
    return bias;
}

static void contribute(const struct pass *pass, const struct pass_sequence *sequence,
                       struct contribution *to, void *workspace)
{
    const struct attn_norm *final_norm = &pass->forward->streams[head_stream(pass)].final_norm;
    const int64_t width = width_of(pass), last = sequence->record_count - 1;
    const struct pass_record *records = sequence->records;
    struct room room = room_of(pass, workspace);
    double bias = begin_at_head(pass, sequence, to, &room);
    for (int64_t i = 0; i < to->part_count; i++)
        to->parts[i].edits = to->parts[i].feed_forward = 0;
    if (final_norm->weight && last >= 0) {
        for (int64_t c = 0; c < width; c++)
            room.sum[c] = (double)records[last].leaving[to->place * width + c];
        bias += go_through_norm(final_norm, room.sum, room.gradient, width);
    }
    for (int64_t i = last; i >= 0; i--) {
        go_through_sum(pass, &records[i], to, &room, &bias);
        struct contribution_part *part = part_of(to, records[i].step->block->self_layer);
        if (i > 0 && part)
            part->edits += (float)between(&records[i - 1], &records[i], to, room.gradient, width);
    }
    to->bias = (float)bias;
    to->embedding =
        last >= 0 ? (float)dot(room.gradient, records[0].entering + to->place * width, width) : 0;
}

/* ------------------------------------------------------------------------------ turns -- */

void pass_contribute_drop(struct pass *pass)
{
    while (pass->held_for_contributions > 0)
        model_drop_layer(pass->model, --pass->held_for_contributions);
}

static int64_t contribute_tasks(struct pass *pass, const struct pass_step *step, int turn,
                                struct fault *fault)
{
    int64_t count = 0;
    (void)step;
    if (turn > 0) {
        pass_contribute_drop(pass);
        return PASS_OVER;
    }
    for (int64_t i = 0; i < pass->model->layer_count; i++) {
        if (!model_hold_layer(pass->model, i, fault))
            return 0;
        pass->held_for_contributions++;
    }
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        pass->first_task[i] = count;
        count += pass->sequences[i].item->contribution_count;
    }
    pass->first_task[pass->sequence_count] = count;
    return count;
}

static void contribute_run(const struct pass *pass, const struct pass_step *step, int turn,
                           int64_t task, void *workspace)
{
    int64_t i = 0;
    (void)step;
    (void)turn;
    while (pass->first_task[i + 1] <= task)
        i++;
    const struct pass_sequence *sequence = &pass->sequences[i];
    contribute(pass, sequence, &sequence->item->contributions[task - pass->first_task[i]],
               workspace);
}

const struct pass_step_functions pass_contribute = { contribute_plan, contribute_tasks,
                                                     contribute_run };
