/* SPDX-License-Identifier: Apache-2.0 */
/* layer_gradient_weight.c - the gradient of a projection's weight, dy^T . x.
 *
 * It is a sum over rows of products of two numbers, as a context is a sum over keys of weights
 * times values: the lanes of a tile are outputs, its columns are inputs, and the kernel is that of
 * attention. The bounds of every tile depend on shapes alone. A multiplier of the caller's
 * (linear.h) takes all of a task at once. */
#include "layer/layer_gradient_internal.h"

#include "base/internal.h"
#include "kernels/kernels.h"

#include <string.h>

/* Inputs of one tile, and rows that one step adds to its sums. */
enum { TILE_INPUTS = 128, STEP_ROWS = 96 };

struct weight_work {
    float *ones;  /* [ATTN_WIDTH_MAX] */
    float *dy_t;  /* [STEP_ROWS][width] */
    float *sum_t; /* [TILE_INPUTS][width] */
};

static size_t lay_out(struct weight_work *work, void *memory)
{
    size_t bytes = 0;

    work->ones = attn_cut(memory, &bytes, ATTN_WIDTH_MAX, sizeof(float));
    work->dy_t = attn_cut(memory, &bytes, (int64_t)STEP_ROWS * ATTN_WIDTH_MAX, sizeof(float));
    work->sum_t = attn_cut(memory, &bytes, (int64_t)TILE_INPUTS * ATTN_WIDTH_MAX, sizeof(float));
    return bytes;
}

size_t attn_weight_gradient_workspace_bytes(void)
{
    struct weight_work work;

    return lay_out(&work, NULL);
}

/* Outputs [first_out, first_out + outs) and inputs [first_in, first_in + ins), in lanes of width.
 */
struct tile {
    int64_t first_out, outs, first_in, ins, width;
};

/* dy_t = the tile's columns of row_count rows; lanes behind them are 0. */
static void pack(float *dy_t, const float *dy, int64_t dy_stride, const struct tile *tile,
                 int64_t row_count)
{
    for (int64_t i = 0; i < row_count; i++) {
        float *row = dy_t + i * tile->width;
        memcpy(row, dy + i * dy_stride + tile->first_out, (size_t)tile->outs * sizeof(float));
        memset(row + tile->outs, 0, (size_t)(tile->width - tile->outs) * sizeof(float));
    }
}

/* A row of x that nothing sees has dy 0, and then the contents of x do not count. */
static void add_tile(const struct attn_kernels *kernels, const struct attn_linear *linear,
                     const struct attn_projected_rows *rows, const struct tile *tile,
                     const struct weight_work *work)
{
    memset(work->sum_t, 0, (size_t)(tile->ins * tile->width) * sizeof(float));
    for (int64_t first = 0; first < rows->count; first += STEP_ROWS) {
        const int64_t n = attn_min(STEP_ROWS, rows->count - first);
        const float *x = rows->x + first * linear->in + tile->first_in;
        const bool is_finite = kernels->all_finite(x, linear->in, n, tile->ins);

        pack(work->dy_t, rows->dy + first * linear->out, linear->out, tile, n);
        (is_finite ? kernels->context_tile : kernels->context_tile_guarded)(
            work->sum_t, work->ones, work->dy_t, x, linear->in, n, tile->ins, tile->width, NULL);
    }
}

static void store_tile(const struct attn_kernels *kernels, const struct attn_linear *linear,
                       float *weight, const struct tile *tile, const struct weight_work *work)
{
    const int64_t stride = attn_linear_stride(linear);

    if (!linear->in_out)
        kernels->transpose_out(weight + tile->first_out * stride + tile->first_in, stride,
                               work->sum_t, NULL, tile->outs, tile->ins, tile->width);
    else
        for (int64_t i = 0; i < tile->ins; i++)
            memcpy(weight + (tile->first_in + i) * stride + tile->first_out,
                   work->sum_t + i * tile->width, (size_t)tile->outs * sizeof(float));
}

/* One product for the task's outputs, with all inputs. Numbers of x have to be finite: a product
 * adds 0 times the others, too. */
static void multiply(const struct attn_multiplier *multiplier, const struct attn_linear *linear,
                     const struct attn_projected_rows *rows, float *weight, int64_t first_out,
                     int64_t outs)
{
    const int64_t stride = attn_linear_stride(linear);
    const float *dy = rows->dy + first_out;
    struct attn_matmul matmul = {
        .c_stride = stride, .depth = rows->count, .a_transposed = true, .rows = outs
    };

    if (linear->in_out) {
        matmul.c = weight + first_out;
        matmul.a = rows->x;
        matmul.b = dy;
        matmul.a_stride = matmul.rows = linear->in;
        matmul.b_stride = linear->out;
        matmul.columns = outs;
    } else {
        matmul.c = weight + first_out * stride;
        matmul.a = dy;
        matmul.b = rows->x;
        matmul.a_stride = linear->out;
        matmul.b_stride = matmul.columns = linear->in;
    }
    multiplier->multiply(&matmul);
}

/* What it takes follows from the call's own numbers. */
static bool is_multipliers(const struct attn_kernels *kernels, const struct attn_linear *linear,
                           const struct attn_projected_rows *rows)
{
    return kernels->multiplier != NULL && kernels->multiplier->multiplies_gradients
           && rows->count > 0 && rows->count <= INT32_MAX
           && kernels->all_finite(rows->x, linear->in, rows->count, linear->in);
}

void attn_weight_gradient_run(const struct attn_kernels *kernels, const struct attn_linear *linear,
                              const struct attn_projected_rows *rows, float *weight, int64_t task,
                              void *workspace)
{
    const int64_t begin = task * ATTN_LAYER_GRADIENT_OUTPUTS;
    const int64_t end = attn_min(begin + ATTN_LAYER_GRADIENT_OUTPUTS, linear->out);
    struct weight_work work;
    struct tile tile;

    if (is_multipliers(kernels, linear, rows)) {
        multiply(kernels->multiplier, linear, rows, weight, begin, end - begin);
        return;
    }
    lay_out(&work, workspace);
    for (int64_t i = 0; i < ATTN_WIDTH_MAX; i++)
        work.ones[i] = 1.0f;
    for (tile.first_in = 0; tile.first_in < linear->in; tile.first_in += TILE_INPUTS)
        for (tile.first_out = begin; tile.first_out < end; tile.first_out += ATTN_WIDTH_MAX) {
            tile.ins = attn_min(TILE_INPUTS, linear->in - tile.first_in);
            tile.outs = attn_min(ATTN_WIDTH_MAX, end - tile.first_out);
            tile.width = attn_divide_up(tile.outs, kernels->lanes) * kernels->lanes;
            add_tile(kernels, linear, rows, &tile, &work);
            store_tile(kernels, linear, weight, &tile, &work);
        }
}
