/* SPDX-License-Identifier: Apache-2.0 */
/* pass_sound.c - the first rows of a stream of sound (model_sound.h has the formulas).
 *
 * The convolutions over samples go piece by piece: a task makes PIECE_ROWS rows by all of them, in
 * its own memory, so that what is between them, which is up to 256 times as long as the rows, is
 * never there as a whole. Neighbours compute the few rows that both need twice. Rows of
 * a layer lie dense, so the windows of the next one are rows that overlap.
 *
 * A group norm of the first layer needs all of its rows: their mean and variance follow from those
 * of the windows of samples, and become part of the layer's matrix. */
#include "operations/pass/pass_internal.h"

#include <math.h>
#include <string.h>

enum { PIECE_ROWS = 16 };
enum { TURN_FOLD, TURN_PIECES, TURN_PROJECT, TURN_GATHER, TURN_CONVOLVE, TURN_SUM };

/* What a pass needs of it. */
struct pass_sound {
    struct attn_linear first; /* the first layer's, with its norm */
    float *weight, *bias;     /* of a first layer with a group norm; NULL: it has none */
    double *moments;          /* of the windows that it reads, [1 + kernel][kernel] */
    int64_t most[2];          /* numbers of a piece between layers, by turns */
    size_t product_bytes;     /* the workspace of a product; what is between layers follows */
    int64_t rows, width;
};

static const struct model_embedding *embedding_of(const struct pass *pass)
{
    return &pass->forward->streams[0].embedding;
}

/* Rows of layer i that `rows` rows behind the last layer need. */
static int64_t rows_needed(const struct model_sound *sound, int i, int64_t rows)
{
    for (int k = sound->layer_count - 1; k > i; k--)
        rows = (rows - 1) * sound->layers[k].stride + sound->layers[k].kernel;
    return rows;
}

/* ------------------------------------------------------------------- planning -- */

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* The workspace of a task of pieces. */
static void plan_pieces(struct pass *pass, struct pass_sound *of)
{
    const struct model_sound *sound = &embedding_of(pass)->sound;
    for (int i = 0; i < sound->layer_count; i++) {
        const struct attn_product product = { .linear = &sound->layers[i].linear,
                                              .kernels = pass->limits.kernels };
        const size_t bytes = attn_product_workspace_bytes(&product);
        const int64_t numbers = rows_needed(sound, i, PIECE_ROWS) * sound->layers[i].linear.out;
        of->product_bytes = bytes > of->product_bytes ? bytes : of->product_bytes;
        of->most[i % 2] = numbers > of->most[i % 2] ? numbers : of->most[i % 2];
    }
    of->product_bytes = aligned(of->product_bytes);
    const size_t bytes = of->product_bytes + (size_t)(of->most[0] + of->most[1]) * sizeof(float);
    if (bytes > pass->workspace_bytes)
        pass->workspace_bytes = aligned(bytes);
}

static bool plan_fold(struct pass *pass, struct pass_sound *of, struct fault *fault)
{
    const struct model_sound *sound = &embedding_of(pass)->sound;
    of->first = sound->layers[0].linear;
    if (!sound->column_scales)
        return true;
    of->weight = pass_alloc(pass, of->first.out * of->first.in, sizeof *of->weight, fault);
    of->bias = of->weight ? pass_alloc(pass, of->first.out, sizeof *of->bias, fault) : NULL;
    of->moments =
        of->bias ? pass_alloc(pass, (1 + of->first.in) * of->first.in, sizeof *of->moments, fault)
                 : NULL;
    of->first.weight = of->weight;
    of->first.bias = of->bias;
    return of->moments != NULL;
}

static void count_work(struct pass *pass, const struct pass_sound *of, struct attn_work *work)
{
    const struct model_sound *sound = &embedding_of(pass)->sound;
    const int64_t columns = of->width / sound->groups;
    const struct attn_linear positional = { .weight = sound->positional,
                                            .out = columns,
                                            .in = columns * sound->positional_kernel };
    for (int i = 0; i < sound->layer_count; i++) {
        const int64_t rows = rows_needed(sound, i, of->rows);
        pass_product_work(pass, &sound->layers[i].linear, rows, work);
        pass_rows_work(rows, sound->layers[i].linear.out, work);
    }
    pass_product_work(pass, &sound->projection, of->rows, work);
    for (int64_t g = 0; g < sound->groups; g++)
        pass_product_work(pass, &positional, of->rows, work);
    pass_rows_work(2 * of->rows, of->width, work);
}

bool pass_sound_plan(struct pass *pass, struct attn_work *work, struct fault *fault)
{
    const struct model_sound *sound = &embedding_of(pass)->sound;
    const int64_t columns = sound->layers[sound->layer_count - 1].linear.out;
    struct pass_sound *of = pass_alloc(pass, 1, sizeof *of, fault);
    if (!of)
        return false;
    *of =
        (struct pass_sound){ .rows = pass->row_count[0], .width = pass->forward->streams[0].width };
    pass->sound = of;
    plan_pieces(pass, of);
    count_work(pass, of, work);
    const int64_t convolved = of->rows * columns;
    const int64_t gathered = (of->rows + sound->positional_kernel - 1) * of->width;
    pass->embedded = pass_alloc(pass, convolved > gathered ? convolved : gathered,
                                sizeof *pass->embedded, fault);
    return pass->embedded && plan_fold(pass, of, fault);
}

/* --------------------------------------------------------------- the first norm -- */

/* Mean and covariance of the windows that the first layer reads. */
static void measure_windows(const struct pass *pass, const struct model_sound_layer *layer,
                            double *mean, double *covariance)
{
    const int64_t kernel = layer->kernel, stride = layer->stride;
    const struct array *samples = &pass->sequences[0].item->sound;
    const float *x = samples->data;
    const int64_t count = (samples->shape[0] - kernel) / stride + 1;
    for (int64_t k = 0; k < kernel; k++) {
        mean[k] = 0;
        for (int64_t t = 0; t < count; t++)
            mean[k] += (double)x[t * stride + k];
        mean[k] /= (double)count;
    }
    for (int64_t k = 0; k < kernel; k++)
        for (int64_t m = 0; m <= k; m++) {
            double sum = 0;
            for (int64_t t = 0; t < count; t++)
                sum +=
                    ((double)x[t * stride + k] - mean[k]) * ((double)x[t * stride + m] - mean[m]);
            covariance[k * kernel + m] = covariance[m * kernel + k] = sum / (double)count;
        }
}

/* Makes one output of the matrix what its norm over all windows leaves. */
static void fold_output(const struct pass_sound *of, const struct model_sound *sound, int64_t o)
{
    static const double EPS = 1e-5; /* of torch.nn.GroupNorm */
    const int64_t kernel = of->first.in;
    const double *mean = of->moments, *covariance = of->moments + kernel;
    const float *weight = (const float *)sound->layers[0].linear.weight + o * kernel;
    double middle = 0, variance = 0;
    for (int64_t k = 0; k < kernel; k++) {
        double sum = 0;
        for (int64_t m = 0; m < kernel; m++)
            sum += covariance[k * kernel + m] * (double)weight[m];
        variance += sum * (double)weight[k];
        middle += mean[k] * (double)weight[k];
    }
    const double scale = (double)sound->column_scales[o] / sqrt(fmax(variance, 0) + EPS);
    for (int64_t k = 0; k < kernel; k++)
        of->weight[o * kernel + k] = (float)(scale * (double)weight[k]);
    of->bias[o] = (float)((double)sound->column_biases[o] - scale * middle);
}

static void fold_norm(const struct pass *pass)
{
    const struct model_sound *sound = &embedding_of(pass)->sound;
    double *moments = pass->sound->moments;
    measure_windows(pass, &sound->layers[0], moments, moments + sound->layers[0].kernel);
    for (int64_t o = 0; o < pass->sound->first.out; o++)
        fold_output(pass->sound, sound, o);
}

/* ----------------------------------------------------------------------- pieces -- */

/* y = activation(norm(x . linear)) of rows dense rows. */
static void run_layer(const struct pass *pass, int i, const float *x, int64_t x_stride, float *y,
                      int64_t rows, void *workspace)
{
    const struct model_sound *sound = &embedding_of(pass)->sound;
    const struct model_sound_layer *layer = &sound->layers[i];
    const struct attn_linear *linear = i == 0 ? &pass->sound->first : &layer->linear;
    const bool is_normed = layer->norm.weight != NULL;
    const struct attn_product product = {
        .linear = linear,
        .activation = is_normed ? ATTN_NO_ACTIVATION : sound->activation,
        .x = x,
        .x_stride = x_stride,
        .y = y,
        .y_stride = linear->out,
        .row_count = rows,
        .kernels = pass->limits.kernels,
    };
    for (int64_t task = 0; task < attn_product_tasks(&product); task++)
        attn_product_run(&product, task, workspace);
    if (!is_normed)
        return;
    attn_rows_norm(&layer->norm, y, linear->out, y, linear->out, rows, linear->out);
    attn_activate(pass->limits.kernels, sound->activation, NULL, y, rows * linear->out);
}

static void run_piece(const struct pass *pass, int64_t piece, void *workspace)
{
    const struct pass_sound *of = pass->sound;
    const struct model_sound *sound = &embedding_of(pass)->sound;
    const int64_t first = piece * PIECE_ROWS;
    const int64_t rows = of->rows - first < PIECE_ROWS ? of->rows - first : PIECE_ROWS;
    float *between[2];
    between[0] = (float *)(void *)((char *)workspace + of->product_bytes);
    between[1] = between[0] + of->most[0];
    int64_t start = first, columns = 1;
    for (int i = 0; i < sound->layer_count; i++)
        start *= sound->layers[i].stride;
    const float *x = (const float *)pass->sequences[0].item->sound.data + start;
    for (int i = 0; i < sound->layer_count; i++) {
        const struct model_sound_layer *layer = &sound->layers[i];
        run_layer(pass, i, x, layer->stride * columns, between[i % 2], rows_needed(sound, i, rows),
                  workspace);
        x = between[i % 2];
        columns = layer->linear.out;
    }
    float *to = pass->embedded + first * columns;
    if (sound->norm.weight)
        attn_rows_norm(&sound->norm, to, columns, x, columns, rows, columns);
    else
        memcpy(to, x, (size_t)(rows * columns) * sizeof *to);
}

/* ------------------------------------------------- the positional convolution -- */

/* The columns of a group side by side, with zeros around them: [rows + kernel - 1][columns]. */
static float *gathered(const struct pass *pass, int64_t group)
{
    const struct pass_sound *of = pass->sound;
    const struct model_sound *sound = &embedding_of(pass)->sound;
    return pass->embedded
           + group * (of->rows + sound->positional_kernel - 1) * (of->width / sound->groups);
}

static void gather_group(const struct pass *pass, int64_t group)
{
    const struct pass_sound *of = pass->sound;
    const struct model_sound *sound = &embedding_of(pass)->sound;
    const int64_t columns = of->width / sound->groups, first = group * columns;
    const int64_t before = sound->positional_kernel / 2;
    const int64_t after = sound->positional_kernel - 1 - before;
    float *to = gathered(pass, group);
    memset(to, 0, (size_t)(before * columns) * sizeof *to);
    to += before * columns;
    for (int64_t row = 0; row < of->rows; row++, to += columns)
        memcpy(to, pass->rows[0] + row * of->width + first, (size_t)columns * sizeof *to);
    memset(to, 0, (size_t)(after * columns) * sizeof *to);
}

/* The product of a group; linear is room for its matrix. */
static struct attn_product group_product(const struct pass *pass, int64_t group,
                                         struct attn_linear *linear)
{
    const struct pass_sound *of = pass->sound;
    const struct model_sound *sound = &embedding_of(pass)->sound;
    const int64_t columns = of->width / sound->groups, in = columns * sound->positional_kernel;
    *linear = (struct attn_linear){ .weight = sound->positional + group * columns * in,
                                    .bias = sound->positional_bias + group * columns,
                                    .out = columns,
                                    .in = in };
    return (struct attn_product){ .linear = linear,
                                  .activation = sound->activation,
                                  .x = gathered(pass, group),
                                  .x_stride = columns,
                                  .y = pass->output + group * columns,
                                  .y_stride = of->width,
                                  .row_count = of->rows,
                                  .kernels = pass->limits.kernels };
}

static void run_convolution(const struct pass *pass, int64_t task, void *workspace)
{
    struct attn_linear linear;
    struct attn_product product = group_product(pass, 0, &linear);
    const int64_t tasks = attn_product_tasks(&product);
    product = group_product(pass, task / tasks, &linear);
    attn_product_run(&product, task % tasks, workspace);
}

/* -------------------------------------------------------------------- the turns -- */

int64_t pass_sound_tasks(struct pass *pass, int turn)
{
    const struct pass_sound *of = pass->sound;
    const struct model_sound *sound = &embedding_of(pass)->sound;
    struct attn_linear linear;
    struct attn_product product;
    switch (turn) {
    case TURN_FOLD:
        return of->weight ? 1 : 0;
    case TURN_PIECES:
        return (of->rows + PIECE_ROWS - 1) / PIECE_ROWS;
    case TURN_PROJECT:
        return pass_product(pass, &sound->projection, pass->embedded, pass->rows[0], of->rows);
    case TURN_GATHER:
        return sound->groups;
    case TURN_CONVOLVE:
        product = group_product(pass, 0, &linear);
        return sound->groups * attn_product_tasks(&product);
    case TURN_SUM:
        return pass_row_tasks(of->rows, of->width);
    default:
        return PASS_OVER;
    }
}

static void run_sum(const struct pass *pass, int64_t task)
{
    const struct attn_norm *norm = &embedding_of(pass)->norm;
    const int64_t width = pass->sound->width;
    int64_t first, count;
    pass_task_rows(pass->sound->rows, width, task, &first, &count);
    float *rows = pass->rows[0] + first * width;
    attn_rows_add(pass->limits.kernels, rows, width, pass->output + first * width, width, 1.0f,
                  NULL, count, width);
    if (norm->weight)
        attn_rows_norm(norm, rows, width, rows, width, count, width);
}

void pass_sound_run(const struct pass *pass, int turn, int64_t task, void *workspace)
{
    if (turn == TURN_FOLD)
        fold_norm(pass);
    else if (turn == TURN_PIECES)
        run_piece(pass, task, workspace);
    else if (turn == TURN_PROJECT)
        attn_product_run(&pass->product, task, workspace);
    else if (turn == TURN_GATHER)
        gather_group(pass, task);
    else if (turn == TURN_CONVOLVE)
        run_convolution(pass, task, workspace);
    else
        run_sum(pass, task);
}
