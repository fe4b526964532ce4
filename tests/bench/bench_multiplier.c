/* SPDX-License-Identifier: Apache-2.0 */
/* bench_multiplier.c - the time of OpenBLAS over that of a table's kernels, one thread, where the
 * library takes a product of the caller's (linear.h): gradients of weights, in their tasks, all
 * gradients of a layer with these, and products of rows. Medians of alternating runs in CPU time.
 *
 * It takes the name of a table ("generic"), without one the best of this CPU, and behind it
 * "gradients", "layer" or "products" for one of these alone. OpenBLAS reads OPENBLAS_CORETYPE. */
#include "attn.h"
#include "blas_multiply.h"
#include "own.h"

#include "layer/layer_gradient_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 9, OUT_MAX = 4096, IN_MAX = 2048, ROWS_MAX = 512 };
enum { WORKSPACE = 1 << 20, SCRATCH = 1 << 25 };

static const double MULTIPLY_ADDS_MIN = 1e8; /* of a timed run: tens of milliseconds */

static const struct {
    int64_t out, in;
} SIZES[] = { { 768, 768 }, { 4096, 1024 }, { 2048, 2048 } };
enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0] };

static const struct attn_multiplier OF_GRADIENTS = { .multiply = blas_multiply,
                                                     .multiplies_gradients = true };
static const struct attn_multiplier OF_ROWS = { .multiply = blas_multiply, .rows_min = 1 };

/* Numbers of rows, or of a matrix of so many inputs, whose products are no larger then: scores of
 * the layer stay such that softmax weighs many keys. */
static float *numbers(int64_t count, int64_t inputs)
{
    float *made = aligned_alloc(64, (size_t)count * sizeof(float));
    if (!made)
        abort();
    attn_init_glorot(made, count, inputs, inputs, 1, (uint64_t)count);
    return made;
}

/* What both take their numbers from, and write. */
static struct {
    float *x, *rows, *matrix, *gradient, *inputs[3], *scratch, *workspace;
} data;

typedef void work_fn(const struct attn_kernels *kernels, const struct attn_linear *linear,
                     int64_t row_count);

static void gradients(const struct attn_kernels *kernels, const struct attn_linear *linear,
                      int64_t row_count)
{
    const struct attn_projected_rows rows = { data.rows, data.x, row_count };
    const struct attn_linear_gradient wanted = { .weight = data.gradient };
    const int64_t tasks = attn_linear_task_counts(kernels, linear, &wanted, NULL, 0).weight;
    for (int64_t task = 0; task < tasks; task++)
        attn_weight_gradient_run(kernels, linear, &rows, data.gradient, task, data.workspace);
}

static void products(const struct attn_kernels *kernels, const struct attn_linear *linear,
                     int64_t row_count)
{
    const struct attn_product product = { .kernels = kernels,
                                          .linear = linear,
                                          .x = data.x,
                                          .y = data.rows,
                                          .x_stride = linear->in,
                                          .y_stride = linear->out,
                                          .row_count = row_count };
    for (int64_t task = 0; task < attn_product_tasks(&product); task++)
        attn_product_run(&product, task, data.workspace);
}

/* All gradients of a layer of attention that has four such matrices, which are square. */
static void layer(const struct attn_kernels *kernels, const struct attn_linear *linear,
                  int64_t row_count)
{
    enum { HEAD_DIM = 64 };
    const struct attn_linear_gradient wanted = { .weight = data.gradient };
    const int64_t heads = linear->out / HEAD_DIM;
    const struct attn_layer attention = { .q_heads = heads,
                                          .kv_heads = heads,
                                          .head_dim = HEAD_DIM,
                                          .v_head_dim = HEAD_DIM,
                                          .q_proj = *linear,
                                          .k_proj = *linear,
                                          .v_proj = *linear,
                                          .o_proj = *linear };
    const struct attn_tensor x = attn_tensor_dense(data.x, ATTN_F32, 1, 1, row_count, linear->in);
    const struct attn_layer_gradient_problem problem = { .layer = { .layer = &attention,
                                                                    .options = attn_options_default(
                                                                        HEAD_DIM),
                                                                    .query = x,
                                                                    .key = x,
                                                                    .value = x,
                                                                    .kernels = kernels },
                                                         .context_gradient = data.rows,
                                                         .query = data.inputs[0],
                                                         .key = data.inputs[1],
                                                         .value = data.inputs[2],
                                                         .q_proj = wanted,
                                                         .k_proj = wanted,
                                                         .v_proj = wanted,
                                                         .o_proj = wanted };
    struct attn_layer_gradient_plan plan;
    if (attn_layer_gradient_plan_init(&plan, &problem, NULL) != ATTN_OK
        || plan.scratch_bytes > SCRATCH * sizeof(float)
        || plan.workspace_bytes > WORKSPACE * sizeof(float))
        abort();
    for (int stage = 0; stage < plan.stage_count; stage++)
        for (int64_t task = 0; task < plan.task_count[stage]; task++)
            attn_layer_gradient_run(&plan, stage, task, data.scratch, data.workspace);
}

static double time_of(work_fn *work, const struct attn_kernels *kernels,
                      const struct attn_linear *linear, int64_t row_count)
{
    const double once = (double)(linear->in * linear->out * row_count);
    const double begin = now_s(1);
    for (double done = 0; done < MULTIPLY_ADDS_MIN; done += once)
        work(kernels, linear, row_count);
    return now_s(1) - begin;
}

static const struct part {
    const char *name;
    work_fn *work;
    const struct attn_multiplier *multiplier;
    int64_t row_counts[6]; /* and 0 */
    bool is_square;
} PARTS[] = {
    { "gradients", gradients, &OF_GRADIENTS, { 16, 64, 128, 256, 512 }, false },
    { "layer", layer, &OF_GRADIENTS, { 64, 128, 256, 512 }, true },
    { "products", products, &OF_ROWS, { 1, 4, 8, 16, 64 }, false },
};
enum { PART_COUNT = sizeof PARTS / sizeof PARTS[0] };

static double compare(const struct part *part, const struct attn_kernels *kernels,
                      const struct attn_linear *linear, int64_t row_count)
{
    double own[ROUNDS], blas[ROUNDS];
    void *memory = malloc(attn_kernels_given_bytes());
    if (!memory)
        abort();
    const struct attn_kernels *given = attn_kernels_given(memory, kernels, part->multiplier);
    for (int i = 0; i < ROUNDS; i++) {
        own[i] = time_of(part->work, kernels, linear, row_count);
        blas[i] = time_of(part->work, given, linear, row_count);
    }
    free(memory);
    return median(blas, ROUNDS) / median(own, ROUNDS);
}

static void show(const struct part *part, const struct attn_kernels *kernels)
{
    for (const int64_t *rows = part->row_counts; *rows; rows++) {
        printf("%-10s %5d rows", part->name, (int)*rows);
        for (int i = 0; i < SIZE_COUNT; i++) {
            const struct attn_linear linear = {
                .weight = data.matrix, .out = SIZES[i].out, .in = SIZES[i].in, .dtype = ATTN_F32
            };
            if (part->is_square && linear.out != linear.in)
                continue;
            printf("  %d x %d: %.2f", (int)linear.out, (int)linear.in,
                   compare(part, kernels, &linear, *rows));
            fflush(stdout);
        }
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    const struct attn_kernels *const *table = attn_kernels_available();
    while (argc > 1 && *table && strcmp(attn_kernels_name(*table), argv[1]) != 0)
        table++;
    if (!*table) {
        fprintf(stderr, "this CPU runs no table of that name\n");
        return 1;
    }
    openblas_set_num_threads(1);
    data.x = numbers((int64_t)ROWS_MAX * IN_MAX, 3);
    data.rows = numbers((int64_t)ROWS_MAX * OUT_MAX, 3);
    data.matrix = numbers((int64_t)OUT_MAX * IN_MAX, IN_MAX);
    data.gradient = numbers((int64_t)OUT_MAX * IN_MAX, IN_MAX);
    for (int i = 0; i < 3; i++)
        data.inputs[i] = numbers((int64_t)ROWS_MAX * IN_MAX, 3);
    data.scratch = numbers(SCRATCH, 1);
    data.workspace = numbers(WORKSPACE, 1);
    printf("OpenBLAS %s over %s\n", openblas_get_corename(), attn_kernels_name(*table));
    for (int i = 0; i < PART_COUNT; i++)
        if (argc < 3 || strcmp(argv[2], PARTS[i].name) == 0)
            show(&PARTS[i], *table);
    return 0;
}
