/* SPDX-License-Identifier: Apache-2.0 */
/* pass_tokens.c - the steps of a model whose blocks read tokens (struct model_token_inputs): the
 * rows that enter its first block are kept, and behind a block's feed-forward come these turns: the
 * gate's product, the product of the first rows with the block's part of a matrix, both together
 * with the tokens' rows of the table, and the last product, which a sum follows. */
#include "operations/pass/pass_internal.h"

#include "base/dtype.h"

#include <string.h>

static const struct model_token_inputs *inputs_of(const struct pass *pass,
                                                  const struct pass_step *step)
{
    return &pass->forward->streams[step->stream].token_inputs;
}

static int64_t width_of(const struct pass *pass, const struct pass_step *step)
{
    return pass->forward->streams[step->stream].width;
}

/* ------------------------------------------------------------- the first rows -- */

static bool first_plan(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                       struct fault *fault)
{
    const int64_t row_count = pass->row_count[step->stream], width = width_of(pass, step);
    pass_rows_work(row_count, width, work);
    pass->first_rows = pass_alloc(pass, (row_count + 1) * width, sizeof(float), fault);
    return pass->first_rows != NULL;
}

static int64_t first_tasks(struct pass *pass, const struct pass_step *step, int turn,
                           struct fault *fault)
{
    (void)fault;
    return turn > 0 ? PASS_OVER
                    : pass_row_tasks(pass->row_count[step->stream], width_of(pass, step));
}

static void first_run(const struct pass *pass, const struct pass_step *step, int turn, int64_t task,
                      void *workspace)
{
    const int64_t width = width_of(pass, step);
    int64_t first, count;
    (void)turn;
    (void)workspace;
    pass_task_rows(pass->row_count[step->stream], width, task, &first, &count);
    memcpy(pass->first_rows + first * width, pass->rows[step->stream] + first * width,
           (size_t)(count * width) * sizeof(float));
}

const struct pass_step_functions pass_first = { first_plan, first_tasks, first_run };

/* ------------------------------------------------------------- a block's part -- */

enum { TURN_GATE, TURN_PROJECT, TURN_JOIN, TURN_OUTPUT };

/* The block's part of the matrix that projects the first rows. */
static struct attn_linear projection_of(const struct pass *pass, const struct pass_step *step)
{
    const struct model_token_inputs *inputs = inputs_of(pass, step);
    const int64_t block = step->block - pass->forward->streams[step->stream].blocks;
    struct attn_linear projection = inputs->projection;
    projection.out = inputs->width;
    projection.weight =
        attn_number_at(projection.weight, projection.dtype, block * inputs->width * projection.in);
    return projection;
}

static bool tokens_plan(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                        struct fault *fault)
{
    const struct model_token_part *part = &step->block->token_part;
    const int64_t row_count = pass->row_count[step->stream];
    const int64_t columns = inputs_of(pass, step)->width;
    const struct attn_linear projection = projection_of(pass, step);
    pass_product_work(pass, &part->gate, row_count, work);
    pass_product_work(pass, &projection, row_count, work);
    pass_rows_work(row_count, 2 * columns, work);
    pass_product_work(pass, &part->projection, row_count, work);
    if (!pass->token_rows)
        pass->token_rows = pass_alloc(pass, 2 * (row_count + 1) * columns, sizeof(float), fault);
    return pass->token_rows != NULL;
}

/* What the gate let through, and behind it the block's inputs. */
static float *gated_rows(const struct pass *pass)
{
    return pass->token_rows;
}

static float *input_rows(const struct pass *pass, const struct pass_step *step)
{
    return pass->token_rows + pass->row_count[step->stream] * inputs_of(pass, step)->width;
}

static int64_t tokens_tasks(struct pass *pass, const struct pass_step *step, int turn,
                            struct fault *fault)
{
    const struct model_token_part *part = &step->block->token_part;
    const int64_t row_count = pass->row_count[step->stream];
    (void)fault;
    if (turn == TURN_GATE) {
        pass_product(pass, &part->gate, pass->rows[step->stream], gated_rows(pass), row_count);
        pass->product.activation = part->activation;
        return attn_product_tasks(&pass->product);
    }
    if (turn == TURN_PROJECT) {
        pass->sliced = projection_of(pass, step);
        return pass_product(pass, &pass->sliced, pass->first_rows, input_rows(pass, step),
                            row_count);
    }
    if (turn == TURN_JOIN)
        return pass_row_tasks(row_count, inputs_of(pass, step)->width);
    return turn > TURN_OUTPUT
               ? PASS_OVER
               : pass_product(pass, &part->projection, gated_rows(pass), pass->output, row_count);
}

/* The row of the table that a block reads of a token. */
static int64_t number_of(const struct pass *pass, const struct pass_step *step, int64_t row)
{
    const struct model_stream *stream = &pass->forward->streams[step->stream];
    const int64_t count = stream->token_inputs.tokens.count / stream->block_count;
    const int64_t id = pass->ids[step->stream][row];
    return (id < count ? id : 0) * stream->block_count + (step->block - stream->blocks);
}

/* Multiplies what the gate let through by the block's inputs. */
static void join_rows(const struct pass *pass, const struct pass_step *step, int64_t first,
                      int64_t count)
{
    const struct model_token_inputs *inputs = inputs_of(pass, step);
    const struct attn_kernels *kernels = pass->limits.kernels;
    const struct attn_rows_table table = { inputs->tokens.rows, inputs->tokens.dtype,
                                           inputs->width };
    const int64_t columns = inputs->width;
    for (int64_t i = first; i < first + count; i++) {
        float *row = input_rows(pass, step) + i * columns;
        float *gated = gated_rows(pass) + i * columns;
        const int64_t number = number_of(pass, step, i);
        attn_rows_cap(kernels, row, columns, (float)inputs->projection_scale, 0);
        attn_rows_norm(&inputs->norm, row, columns, row, columns, 1, columns);
        attn_rows_gather(kernels, &table, &number, 1, (float)inputs->token_scale, true, row,
                         columns);
        for (int64_t c = 0; c < columns; c++)
            gated[c] *= row[c] * (float)inputs->sum_scale;
    }
}

static void tokens_run(const struct pass *pass, const struct pass_step *step, int turn,
                       int64_t task, void *workspace)
{
    int64_t first, count;
    if (turn != TURN_JOIN) {
        attn_product_run(&pass->product, task, workspace);
        return;
    }
    pass_task_rows(pass->row_count[step->stream], inputs_of(pass, step)->width, task, &first,
                   &count);
    join_rows(pass, step, first, count);
}

const struct pass_step_functions pass_tokens = { tokens_plan, tokens_tasks, tokens_run };
