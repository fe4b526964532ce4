/* SPDX-License-Identifier: Apache-2.0 */
/* pass_rollout.c - rollouts of a pass: from layer to layer, by the steps of rollout.h. */
#include "operations/pass/pass_internal.h"

#include "operations/pass/rollout.h"

#include <string.h>

enum { TURN_STEP, TURN_ROLL, TURN_ANSWER };

static struct attn_map_tile tile_of(const void *sequence, int64_t head)
{
    return pass_map_tile(sequence, head);
}

/* ---------------------------------------------------------------------- rollouts -- */

/* A rollout goes through every layer of its kind up to the last that answers one. */
static bool rollout_is_read(const struct pass *pass, const struct pass_step *step,
                            const struct pass_sequence *sequence)
{
    const struct model_stream *stream = &pass->forward->streams[step->stream];
    if (step->is_cross || !sequence->item->outputs[TRACE_OUTPUT_ROLLOUT]
        || sequence->length[step->stream] == 0)
        return false;
    for (const struct model_block *block = step->block;
         block < stream->blocks + stream->block_count; block++) {
        const struct trace_layer *answered =
            block->self_layer >= 0 ? sequence->answered[block->self_layer] : NULL;
        if (answered && answered->tensors[TRACE_ROLLOUT].values)
            return true;
    }
    return false;
}

/* The place of the layer among those of its kind. */
static int64_t place_of(const struct pass *pass, const struct pass_step *step)
{
    int64_t place = 0;
    for (const struct model_block *block = pass->forward->streams[step->stream].blocks;
         block < step->block; block++)
        place += block->self_layer >= 0;
    return place;
}

/* Three tables: the rollouts of layers of even and of odd places, and a step. */
static float *table_of(const struct pass_sequence *sequence, const struct pass_step *step,
                       int64_t number)
{
    const int64_t length = sequence->length[step->stream];
    return (float *)sequence->rollout.memory + number * length * length;
}

static float *rollout_of(const struct pass *pass, const struct pass_step *step,
                         const struct pass_sequence *sequence)
{
    return table_of(sequence, step, place_of(pass, step) % 2);
}

/* The step of the first layer is its rollout. */
static float *step_of(const struct pass *pass, const struct pass_step *step,
                      const struct pass_sequence *sequence)
{
    return table_of(sequence, step, place_of(pass, step) == 0 ? 0 : 2);
}

/* Sets the product of the layer's step with the rollout of the layer before. Returns its tasks. */
static int64_t set_product(const struct pass *pass, const struct pass_step *step,
                           struct pass_sequence *sequence)
{
    const int64_t length = sequence->length[step->stream], place = place_of(pass, step);
    if (place == 0)
        return 0;
    sequence->before = (struct attn_linear){ .weight = table_of(sequence, step, (place + 1) % 2),
                                             .in = length,
                                             .out = length,
                                             .in_out = true,
                                             .dtype = ATTN_F32 };
    sequence->product = (struct attn_product){ .linear = &sequence->before,
                                               .x = table_of(sequence, step, 2),
                                               .x_stride = length,
                                               .y = table_of(sequence, step, place % 2),
                                               .y_stride = length,
                                               .row_count = length,
                                               .kernels = pass->limits.kernels,
                                               .precision = pass->limits.precision };
    return attn_product_tasks(&sequence->product);
}

static bool rollout_plan(struct pass *pass, const struct pass_step *step,
                         struct pass_sequence *sequence, struct attn_work *work,
                         struct fault *fault)
{
    const int64_t length = sequence->length[step->stream];
    int64_t count;
    if (__builtin_mul_overflow(3 * length, length, &count))
        return fault_no_memory(fault);
    if (!pass_keep_room(pass, &sequence->rollout, count, sizeof(float), fault))
        return false;
    if (work && set_product(pass, step, sequence) > 0)
        attn_product_work(&sequence->product, work);
    return true;
}

static void run_step(const struct pass *pass, const struct pass_step *step,
                     const struct pass_sequence *sequence, int64_t task, void *workspace)
{
    const int64_t length = sequence->length[step->stream];
    const struct rollout_layer layer = { tile_of, sequence,
                                         pass->model->layers[step->layer].layer.q_heads, length };
    rollout_step_run(&layer, 0, length, task, step_of(pass, step, sequence), workspace);
}

/* Copies the rows that are asked for. */
static void answer_rollout(const struct pass *pass, const struct pass_step *step,
                           const struct pass_sequence *sequence)
{
    const struct trace_tensor *to = &sequence->answered[step->layer]->tensors[TRACE_ROLLOUT];
    const struct trace_stream *stream = &sequence->item->streams[step->stream];
    const float *from = rollout_of(pass, step, sequence);
    const int64_t length = to->shape[1];
    for (int64_t i = 0; i < to->shape[0]; i++)
        memcpy((float *)to->values + i * length,
               from + (sequence->item->has_rows ? stream->span_rows[i] : i) * length,
               (size_t)length * sizeof *from);
}

/* ------------------------------------------------------------------------- turns -- */

static size_t task_workspace_bytes(const struct pass *pass, const struct pass_step *step,
                                   struct pass_sequence *sequence)
{
    const struct attn_map_tile tile = pass_map_tile(sequence, 0);
    const size_t own = (rollout_workspace_bytes(&tile) + 63) / 64 * 64;
    const size_t product =
        place_of(pass, step) > 0 ? attn_product_workspace_bytes(&sequence->product) : 0;
    return product > own ? product : own;
}

static int64_t rollout_tasks(struct pass *pass, const struct pass_step *step,
                             struct pass_sequence *sequence, int turn)
{
    const struct trace_layer *answered = sequence->answered[step->layer];
    switch (turn) {
    case TURN_STEP:
        return rollout_step_tasks(sequence->length[step->stream]);
    case TURN_ROLL:
        return set_product(pass, step, sequence);
    default:
        return turn == TURN_ANSWER && answered && answered->tensors[TRACE_ROLLOUT].values;
    }
}

static void rollout_run(const struct pass *pass, const struct pass_step *step,
                        const struct pass_sequence *sequence, int turn, int64_t task,
                        void *workspace)
{
    if (turn == TURN_STEP)
        run_step(pass, step, sequence, task, workspace);
    else if (turn == TURN_ROLL)
        attn_product_run(&sequence->product, task, workspace);
    else
        answer_rollout(pass, step, sequence);
}

const struct pass_map_reader pass_rollout = { rollout_is_read, rollout_plan, task_workspace_bytes,
                                              rollout_tasks, rollout_run };
