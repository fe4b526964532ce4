/* SPDX-License-Identifier: Apache-2.0 */
/* pass_lens.c - the step behind a block whose rows the head reads as if they were the last (the
 * logit lens, nostalgebraist 2020): the rows of the asked positions, through the final norm. The
 * head's step does the rest. */
#include "operations/pass/pass_internal.h"

#include <string.h>

static struct trace_lens *lens_of(const struct pass_sequence *sequence,
                                  const struct model_block *block)
{
    struct trace_layer *answered =
        block->self_layer >= 0 ? sequence->answered[block->self_layer] : NULL;
    return answered ? answered->lens : NULL;
}

bool pass_lens_is_needed(const struct pass *pass, const struct model_block *block)
{
    for (int64_t i = 0; i < pass->sequence_count; i++)
        if (lens_of(&pass->sequences[i], block))
            return true;
    return false;
}

static bool lens_plan(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                      struct fault *fault)
{
    const int64_t width = pass->forward->streams[step->stream].width;
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        struct trace_lens *lens = lens_of(&pass->sequences[i], step->block);
        if (!lens)
            continue;
        lens->rows = pass_alloc(pass, lens->tokens.count * width, sizeof *lens->rows, fault);
        if (!lens->rows)
            return false;
        pass_rows_work(lens->tokens.count, width, work);
    }
    return true;
}

static int64_t lens_tasks(struct pass *pass, const struct pass_step *step, int turn,
                          struct fault *fault)
{
    (void)step;
    (void)fault;
    return turn > 0 ? PASS_OVER : pass->sequence_count;
}

/* A task has one sequence. */
static void lens_run(const struct pass *pass, const struct pass_step *step, int turn, int64_t task,
                     void *workspace)
{
    const struct pass_sequence *sequence = &pass->sequences[task];
    const struct model_stream *stream = &pass->forward->streams[step->stream];
    const struct trace_lens *lens = lens_of(sequence, step->block);
    const int64_t width = stream->width;
    (void)turn;
    (void)workspace;
    if (!lens)
        return;
    for (int64_t i = 0; i < lens->tokens.count; i++)
        memcpy(lens->rows + i * width,
               pass->rows[step->stream]
                   + (sequence->first[step->stream] + lens->tokens.positions[i]) * width,
               (size_t)width * sizeof *lens->rows);
    if (stream->final_norm.weight)
        attn_rows_norm(&stream->final_norm, lens->rows, width, lens->rows, width,
                       lens->tokens.count, width);
}

const struct pass_step_functions pass_lens = { lens_plan, lens_tasks, lens_run };
