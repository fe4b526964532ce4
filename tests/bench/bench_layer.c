/* SPDX-License-Identifier: Apache-2.0 */
/* bench_layer.c - the products of a layer beside OpenBLAS on the same rows, parameters of 16
 * bits beside those of 32 and, where there are tiles, on these, and the whole time of a layer
 * beside the sum of its parts, on one core. Best of alternating runs.
 *
 * Parameters lie 8 bytes from a vector's boundary, as they may in a file. There are as many
 * matrices as query, key and value have. OpenBLAS runs the kernels that the daemon tells it to
 * run. */
#include "kernel_tables.h"
#include "own.h"
#include "yardstick.h"

#include "host/process_start.h"
#include "kernels/kernels.h"
#include "layer.h"
#include "linear.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MATRICES = 3, ROWS_MAX = 256, MISALIGNED = 2 };

static const int64_t SHAPES[][2] = { { 768, 768 }, { 2304, 768 }, { 4096, 4096 } };
static const int64_t ROWS[] = { 1, 2, 4, 8, 16, 32, 64, ROWS_MAX };
enum { SHAPE_COUNT = 3, ROW_COUNTS = 8 };

static float *numbers_of(int64_t count)
{
    float *numbers = aligned_alloc(64, (size_t)(count + 2 * 16) / 16 * 64);

    if (!numbers)
        abort();
    bench_fill(numbers + MISALIGNED, count, BENCH_KEY);
    return numbers;
}

/* ----------------------------------------------------------------------------- products -- */

struct product {
    int64_t rows, out, in;
    const float *x;
    float *y, *work;
};

/* Parameters, one matrix after the other. */
struct parameters {
    enum attn_numbers kind;
    const void *numbers;
};

static const void *number_at(const struct parameters *parameters, int64_t index)
{
    return (const char *)parameters->numbers
           + index * (parameters->kind == ATTN_NUMBERS_F32 ? 4 : 2);
}

static void run_own(const struct attn_kernels *kernels, const struct product *product,
                    const struct parameters *parameters, int64_t first_number)
{
    const int64_t outs = ATTN_PROJECT_OUTPUTS_MAX;
    const float *x[ATTN_PROJECT_ROWS_MAX];
    float *y[ATTN_PROJECT_ROWS_MAX];

    for (int64_t o = 0; o < product->out; o += outs)
        for (int64_t first = 0; first < product->rows; first += ATTN_PROJECT_ROWS_MAX) {
            int64_t n = 0;
            for (; n < ATTN_PROJECT_ROWS_MAX && first + n < product->rows; n++) {
                x[n] = product->x + (first + n) * product->in;
                y[n] = product->y + (first + n) * product->out + o;
            }
            kernels->project_by_outputs[parameters->kind](
                y, x, n, number_at(parameters, first_number + o * product->in), product->in, NULL,
                o + outs < product->out ? outs : product->out - o, product->in, product->work);
        }
}

static void run_openblas(const struct product *product, const float *weight)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)product->rows,
                (blasint)product->out, (blasint)product->in, 1.0f, product->x, (blasint)product->in,
                weight, (blasint)product->in, 0.0f, product->y, (blasint)product->out);
}

/* The best time of one product, in seconds. If kernels is NULL, OpenBLAS runs it. The matrices
 * take turns. */
static double product_s(const struct attn_kernels *kernels, const struct product *product,
                        const struct parameters *parameters, double seconds)
{
    const double begin = now_s(1);

    for (int m = 0; m < MATRICES; m++) {
        const int64_t first = m * product->out * product->in;
        if (kernels)
            run_own(kernels, product, parameters, first);
        else
            run_openblas(product, number_at(parameters, first));
    }
    const double now = (now_s(1) - begin) / MATRICES;
    return now < seconds ? now : seconds;
}

/* Makes the same numbers of each kind, each as far from a vector's boundary. */
static void make_parameters(struct parameters parameters[ATTN_NUMBERS_COUNT],
                            const struct attn_kernels *kernels, int64_t count)
{
    const float *floats = numbers_of(count) + MISALIGNED;
    uint16_t *f16 = (uint16_t *)(void *)(numbers_of(count / 2 + 1) + MISALIGNED);
    uint16_t *bf16 = (uint16_t *)(void *)(numbers_of(count / 2 + 1) + MISALIGNED);

    kernels->narrow_f16(f16, floats, count);
    kernels->narrow_bf16(bf16, floats, count);
    parameters[0] = (struct parameters){ ATTN_NUMBERS_F32, floats };
    parameters[1] = (struct parameters){ ATTN_NUMBERS_F16, f16 };
    parameters[2] = (struct parameters){ ATTN_NUMBERS_BF16, bf16 };
}

static void free_parameters(const struct parameters parameters[ATTN_NUMBERS_COUNT])
{
    for (int kind = 0; kind < ATTN_NUMBERS_COUNT; kind++)
        free((float *)parameters[kind].numbers - MISALIGNED);
}

static void bench_products(const struct attn_kernels *kernels, int64_t out, int64_t in)
{
    struct parameters parameters[ATTN_NUMBERS_COUNT];
    float *x = numbers_of(ROWS_MAX * in), *y = numbers_of(ROWS_MAX * out);
    float *work = numbers_of(ATTN_PROJECT_WORK);
    const double flops = yardstick_flops(kernels->name);

    make_parameters(parameters, kernels, MATRICES * out * in);
    for (int r = 0; r < ROW_COUNTS; r++) {
        const struct product product = { ROWS[r], out, in, x + MISALIGNED, y + MISALIGNED, work };
        const int rounds = (int)(2e9 / (double)(product.rows * out * in * 2 + 40000000)) / 4 + 3;
        double own_s[ATTN_NUMBERS_COUNT] = { 1e9, 1e9, 1e9 }, openblas_s = 1e9;
        for (int i = 0; i < rounds; i++) {
            for (int kind = 0; kind < ATTN_NUMBERS_COUNT; kind++)
                own_s[kind] = product_s(kernels, &product, &parameters[kind], own_s[kind]);
            openblas_s = product_s(NULL, &product, &parameters[0], openblas_s);
        }
        printf("%-8s %4d rows, %4d x %4d: %8.3f ms, %5.1f GB/s of parameters, %.2f of the peak; "
               "F16 %.2f, BF16 %.2f times as fast; OpenBLAS takes %.2f as long\n",
               kernels->name, (int)product.rows, (int)out, (int)in, own_s[0] * 1e3,
               (double)(out * in) * 4e-9 / own_s[0],
               2.0 * (double)(product.rows * out * in) / own_s[0] / flops, own_s[0] / own_s[1],
               own_s[0] / own_s[2], openblas_s / own_s[0]);
    }
    free_parameters(parameters);
    free(x);
    free(y);
    free(work);
}

/* ------------------------------------------------------------------- products on tiles -- */

enum { TILES_ROWS_MAX = 512, TILES_DIM = 4096 };

/* The best of some runs of a product in all its tasks, on a table and with a precision. */
static double tiles_s(struct attn_product *product, const struct attn_kernels *kernels,
                      enum attn_precision precision, double seconds)
{
    product->kernels = kernels;
    product->precision = precision;
    void *workspace = aligned_alloc(64, attn_product_workspace_bytes(product));
    if (!workspace)
        abort();
    const double begin = now_s(1);
    for (int64_t task = 0; task < attn_product_tasks(product); task++)
        attn_product_run(product, task, workspace);
    const double now = now_s(1) - begin;
    free(workspace);
    return now < seconds ? now : seconds;
}

static void bench_tiles(int64_t rows, enum attn_dtype dtype, const struct parameters *parameters,
                        const float *x, float *y)
{
    const struct attn_kernels *const vectors = attn_kernels_available()[0];
    const struct attn_linear linear = {
        .weight = parameters->numbers, .in = TILES_DIM, .out = TILES_DIM, .dtype = dtype
    };
    struct attn_product product = { .linear = &linear,
                                    .x = x,
                                    .x_stride = TILES_DIM,
                                    .y = y,
                                    .y_stride = TILES_DIM,
                                    .row_count = rows };
    const double operations = 2.0 * (double)rows * TILES_DIM * TILES_DIM;
    const double flops = yardstick_flops("avx512");
    double vectors_s = 1e9, best_s[ATTN_PRECISION_COUNT] = { 1e9, 1e9, 1e9 };

    for (int round = 0; round < 9; round++) {
        vectors_s = tiles_s(&product, vectors, ATTN_PRECISION_HIGHEST, vectors_s);
        for (int p = 0; p < ATTN_PRECISION_COUNT; p++)
            best_s[p] =
                tiles_s(&product, kernel_table_of_unit(), (enum attn_precision)p, best_s[p]);
    }
    for (int p = 0; p < ATTN_PRECISION_COUNT; p++)
        printf("amx      %4d rows, %4d x %4d, %s, %-7s: %8.3f ms, %.2f of the peak of vectors, "
               "which take %.2f as long\n",
               (int)rows, TILES_DIM, TILES_DIM, dtype == ATTN_BF16 ? "BF16" : "F16 ",
               attn_precision_name((enum attn_precision)p), best_s[p] * 1e3,
               operations / best_s[p] / flops, vectors_s / best_s[p]);
}

static void bench_all_tiles(void)
{
    static const int64_t rows[] = { 1, 16, 64, TILES_ROWS_MAX };
    struct parameters parameters[ATTN_NUMBERS_COUNT];
    float *x = numbers_of(TILES_ROWS_MAX * TILES_DIM), *y = numbers_of(TILES_ROWS_MAX * TILES_DIM);

    make_parameters(parameters, attn_kernels_available()[0], (int64_t)TILES_DIM * TILES_DIM);
    for (int i = 0; i < 4; i++) {
        bench_tiles(rows[i], ATTN_BF16, &parameters[ATTN_NUMBERS_BF16], x, y);
        bench_tiles(rows[i], ATTN_F16, &parameters[ATTN_NUMBERS_F16], x, y);
    }
    free_parameters(parameters);
    free(x);
    free(y);
}

/* -------------------------------------------------------------------------------- layers -- */

enum { LAYER_DIM = 768, HEADS = 12 };

/* The seconds of each stage and of the whole layer, the best of some runs. */
static double layer_s(const struct attn_layer_plan *plan, double stages[ATTN_LAYER_STAGES_MAX])
{
    char *scratch = aligned_alloc(64, plan->scratch_bytes + 64);
    char *workspace = aligned_alloc(64, plan->workspace_bytes + 64);
    double whole_s = 1e9;

    if (!scratch || !workspace)
        abort();
    for (int run = 0; run < 9; run++) {
        const double begin = now_s(1);
        for (int stage = 0; stage < plan->stage_count; stage++) {
            const double stage_begin = now_s(1);
            for (int64_t task = 0; task < plan->task_count[stage]; task++)
                attn_layer_run(plan, stage, task, scratch, workspace);
            const double stage_s = now_s(1) - stage_begin;
            stages[stage] = run == 0 || stage_s < stages[stage] ? stage_s : stages[stage];
        }
        whole_s = now_s(1) - begin < whole_s ? now_s(1) - begin : whole_s;
    }
    free(scratch);
    free(workspace);
    return whole_s;
}

/* The parts: four products by OpenBLAS, at its best for so many rows, and attention alone. */
static double parts_s(const struct attn_layer_problem *problem, const float *weights,
                      double attention_s)
{
    const int64_t rows = problem->query.shape[2];
    float *y = numbers_of(rows * LAYER_DIM);
    const struct product product = { rows, LAYER_DIM, LAYER_DIM, problem->query.data, y, NULL };
    const struct parameters parameters = { ATTN_NUMBERS_F32, weights };
    double seconds = 1e9;

    for (int i = 0; i < 9; i++)
        seconds = product_s(NULL, &product, &parameters, seconds);
    free(y);
    return 4 * seconds + attention_s;
}

static void bench_layer(int64_t length)
{
    const int64_t size = LAYER_DIM * LAYER_DIM;
    float *weights = numbers_of(4 * size), *x = numbers_of(length * LAYER_DIM);
    float *context = numbers_of(length * LAYER_DIM);
    const float *first = weights + MISALIGNED;
    const struct attn_linear linear = { .weight = first, .out = LAYER_DIM, .in = LAYER_DIM };
    struct attn_layer layer = {
        .q_heads = HEADS,
        .kv_heads = HEADS,
        .head_dim = LAYER_DIM / HEADS,
        .v_head_dim = LAYER_DIM / HEADS,
        .q_proj = linear,
        .k_proj = linear,
        .v_proj = linear,
        .o_proj = linear,
    };
    layer.k_proj.weight = first + size;
    layer.v_proj.weight = first + 2 * size;
    layer.o_proj.weight = first + 3 * size;
    const struct attn_tensor rows =
        attn_tensor_dense(x + MISALIGNED, ATTN_F32, 1, 1, length, LAYER_DIM);
    const struct attn_layer_problem problem = {
        .layer = &layer,
        .options = attn_options_default(LAYER_DIM / HEADS),
        .query = rows,
        .key = rows,
        .value = rows,
        .context = context,
    };
    struct attn_layer_plan plan;
    double stages[ATTN_LAYER_STAGES_MAX] = { 0 };
    double attention_s = 0;

    if (attn_layer_plan_init(&plan, &problem, NULL) != ATTN_OK)
        abort();
    const double whole_s = layer_s(&plan, stages);
    for (int stage = 0; stage < plan.stage_count; stage++)
        if (attn_layer_product(&plan, stage) == ATTN_PRODUCT_NONE)
            attention_s += stages[stage];
    printf(
        "layer of %d x %d, %4d rows: %8.3f ms, attention %.0f %% of it; with OpenBLAS's products "
        "%.2f as long\n",
        LAYER_DIM, LAYER_DIM, (int)length, whole_s * 1e3, attention_s / whole_s * 100,
        parts_s(&problem, first, attention_s) / whole_s);
    free(weights);
    free(x);
    free(context);
}

int main(int argc, char **argv)
{
    static const int64_t lengths[] = { 1, 4, 16, 64, 128, 512 };

    (void)argc;
    blas_core_select(argv);
    printf("OpenBLAS's kernels: %s\n", blas_core_name());
    for (const struct attn_kernels *const *table = attn_kernels_available();
         *table && strcmp((*table)->name, "generic") != 0; table++)
        for (int s = 0; s < SHAPE_COUNT && (*table)->matrix == NULL; s++)
            bench_products(*table, SHAPES[s][0], SHAPES[s][1]);
    if (kernel_table_of_unit() != NULL)
        bench_all_tiles();
    for (int i = 0; i < 6; i++)
        bench_layer(lengths[i]);
    return 0;
}
