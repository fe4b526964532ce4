/* SPDX-License-Identifier: Apache-2.0 */
/* pass_add.c - the steps that add: what a part computed to the rows, with the norms around the sum;
 * and rows to the weighted sum of all places that a head over classes reads. */
#include "operations/pass/pass_internal.h"

#include <string.h>

static int64_t width_of(const struct pass *pass, const struct pass_step *step)
{
    return pass->forward->streams[step->stream].width;
}

static bool plan_add(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                     struct fault *fault)
{
    pass_rows_work(pass->row_count[step->stream], width_of(pass, step), work);
    return pass_record_plan(pass, step, fault);
}

static int64_t add_tasks(struct pass *pass, const struct pass_step *step, int turn,
                         struct fault *fault)
{
    (void)fault;
    return turn > 0 ? PASS_OVER
                    : pass_row_tasks(pass->row_count[step->stream], width_of(pass, step));
}

static void add_run(const struct pass *pass, const struct pass_step *step, int turn, int64_t task,
                    void *workspace)
{
    const struct model_part *part = step->part;
    const int64_t width = width_of(pass, step);
    int64_t first, count;
    (void)turn;
    (void)workspace;
    pass_task_rows(pass->row_count[step->stream], width, task, &first, &count);
    float *rows = pass->rows[step->stream] + first * width, *output = pass->output + first * width;
    pass_copy_answered(pass, step->stream, step->layer, TRACE_ATTENTION_OUTPUT, pass->output, width,
                       first, count);
    pass_record_before(pass, step, first, count);
    if (part->inside_adds_rows)
        attn_rows_add(pass->limits.kernels, output, width, rows, width, 1.0f, NULL, count, width);
    if (part->inside.weight)
        attn_rows_norm(&part->inside, output, width, output, width, count, width);
    attn_rows_add(pass->limits.kernels, rows, width, output, width,
                  part->scale != 0 ? (float)part->scale : 1.0f, part->column_scales, count, width);
    if (part->after.weight)
        attn_rows_norm(&part->after, rows, width, rows, width, count, width);
    if (part->sum_scale != 0)
        attn_rows_cap(pass->limits.kernels, rows, count * width, (float)part->sum_scale, 0);
    pass_record_after(pass, step, first, count);
}

const struct pass_step_functions pass_add = { plan_add, add_tasks, add_run };

/* ------------------------------------------------------------------- the sum of places -- */

static bool plan_mix(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                     struct fault *fault)
{
    const int64_t rows = pass->row_count[step->stream], width = width_of(pass, step);
    pass_rows_work(rows, width, work);
    if (!pass->mixed)
        pass->mixed = pass_alloc(pass, (rows + 1) * width, sizeof *pass->mixed, fault);
    return pass->mixed != NULL;
}

/* The first place begins the sum. */
static void mix_run(const struct pass *pass, const struct pass_step *step, int turn, int64_t task,
                    void *workspace)
{
    const float weight = pass->forward->classes.layer_weights[step->place_number];
    const int64_t width = width_of(pass, step);
    int64_t first, count;
    (void)turn;
    (void)workspace;
    pass_task_rows(pass->row_count[step->stream], width, task, &first, &count);
    float *mixed = pass->mixed + first * width;
    if (step->place_number == 0)
        memset(mixed, 0, (size_t)(count * width) * sizeof *mixed);
    attn_rows_add(pass->limits.kernels, mixed, width, pass->rows[step->stream] + first * width,
                  width, weight, NULL, count, width);
}

const struct pass_step_functions pass_mix = { plan_mix, add_tasks, mix_run };
