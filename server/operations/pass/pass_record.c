/* SPDX-License-Identifier: Apache-2.0 */
/* pass_record.c - rows of a pass that its contributions are made of (pass_contribute.c): what a sum
 * with the residual reads and what it leaves, and the contexts of attention, of the rows that are
 * asked for. */
#include "operations/pass/pass_internal.h"

#include <string.h>

static bool is_recorded(const struct pass *pass, const struct pass_step *step,
                        const struct pass_sequence *sequence)
{
    return sequence->item->contribution_count > 0
           && step->stream == pass->forward->stream_count - 1;
}

static const struct pass_record *record_of(const struct pass_sequence *sequence,
                                           const struct pass_step *step)
{
    for (int64_t i = 0; i < sequence->record_count; i++) {
        const struct pass_step *own = sequence->records[i].step;
        if (own == step || (step->layer >= 0 && own->layer == step->layer))
            return &sequence->records[i];
    }
    return NULL;
}

static int64_t context_columns(const struct pass *pass, const struct pass_step *step)
{
    const struct attn_layer *layer =
        step->layer >= 0 ? &pass->model->layers[step->layer].layer : NULL;
    return layer ? layer->q_heads * layer->v_head_dim : 0;
}

bool pass_record_plan(struct pass *pass, const struct pass_step *step, struct fault *fault)
{
    const int64_t width = pass->forward->streams[step->stream].width;
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        struct pass_sequence *sequence = &pass->sequences[i];
        const int64_t rows = sequence->item->contribution_row_count;
        if (!is_recorded(pass, step, sequence))
            continue;
        if (!sequence->records)
            sequence->records =
                pass_alloc(pass, pass->step_count, sizeof *sequence->records, fault);
        if (!sequence->records)
            return false;
        const int64_t columns = 4 * width + context_columns(pass, step);
        float *memory = pass_alloc(pass, rows * columns, sizeof *memory, fault);
        if (!memory)
            return false;
        sequence->records[sequence->record_count++] =
            (struct pass_record){ .step = step,
                                  .entering = memory,
                                  .output = memory + rows * width,
                                  .leaving = memory + 2 * rows * width,
                                  .unedited = memory + 3 * rows * width,
                                  .context = memory + 4 * rows * width };
    }
    return true;
}

/* Copies those of the rows [first, first + count) of all sequences that are asked for. */
static void record_rows(const struct pass *pass, const struct pass_step *step, int64_t first,
                        int64_t count, bool is_after)
{
    const int64_t width = pass->forward->streams[step->stream].width;
    const size_t bytes = (size_t)width * sizeof(float);
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        const struct pass_sequence *sequence = &pass->sequences[i];
        const struct trace_item *item = sequence->item;
        const struct pass_record *record =
            is_recorded(pass, step, sequence) ? record_of(sequence, step) : NULL;
        for (int64_t k = 0; record && k < item->contribution_row_count; k++) {
            const int64_t row = sequence->first[step->stream] + item->contribution_rows[k];
            const float *from = pass->rows[step->stream] + row * width;
            if (row < first || row >= first + count)
                continue;
            memcpy((is_after ? record->leaving : record->entering) + k * width, from, bytes);
            if (!is_after)
                memcpy(record->output + k * width, pass->output + row * width, bytes);
        }
    }
}

void pass_record_before(const struct pass *pass, const struct pass_step *step, int64_t first,
                        int64_t count)
{
    record_rows(pass, step, first, count, false);
}

void pass_record_after(const struct pass *pass, const struct pass_step *step, int64_t first,
                       int64_t count)
{
    record_rows(pass, step, first, count, true);
}

/* The rows of the sequence that are asked for, as the layer leaves them. */
static void record_unedited(const struct pass *pass, const struct pass_step *step,
                            const struct pass_sequence *sequence, const struct pass_record *record)
{
    const int64_t width = pass->forward->streams[step->stream].width;
    for (int64_t k = 0; k < sequence->item->contribution_row_count; k++)
        memcpy(record->unedited + k * width,
               pass->output
                   + (sequence->first[step->stream] + sequence->item->contribution_rows[k]) * width,
               (size_t)width * sizeof(float));
}

void pass_record_output(const struct pass *pass, const struct pass_step *step)
{
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        const struct pass_sequence *sequence = &pass->sequences[i];
        const struct pass_record *record =
            is_recorded(pass, step, sequence) ? record_of(sequence, step) : NULL;
        if (record)
            record_unedited(pass, step, sequence, record);
    }
}

bool pass_record_is_needed(const struct pass *pass, const struct pass_step *step,
                           const struct pass_sequence *sequence)
{
    return is_recorded(pass, step, sequence) && sequence->attention->plan.stage_count > 0;
}

void pass_record_context(const struct pass *pass, const struct pass_step *step,
                         const struct pass_sequence *sequence)
{
    const struct infer_item *attention = sequence->attention;
    const struct trace_item *item = sequence->item;
    const struct pass_record *record = record_of(sequence, step);
    const struct attn_tensor context =
        attn_layer_attention(&attention->plan, attention->scratch).context;
    const int64_t heads = context.shape[1], dim = context.shape[3];
    if (!record || !context.data)
        return;
    record_unedited(pass, step, sequence, record);
    for (int64_t k = 0; k < item->contribution_row_count; k++) {
        const int64_t row = item->contribution_rows[k];
        for (int64_t h = 0; h < heads; h++)
            memcpy(record->context + (k * heads + h) * dim,
                   (const float *)context.data + h * context.stride[1] + row * context.stride[2],
                   (size_t)dim * sizeof(float));
    }
}
