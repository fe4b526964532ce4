/* SPDX-License-Identifier: Apache-2.0 */
/* blas_product.c - decides what OpenBLAS computes beside a table of kernels, and hands it over.
 *
 * The kernels of OpenBLAS differ in how they round: one chain of multiply-adds for each number, as
 * ours do, or several that are summed in the end, and not the same for every place in a matrix.
 * Which of them runs depends on the CPU. So products of rows, whose bits are the row's alone, are
 * compared with ours over all that a kernel may distinguish: the number of rows, and the rests that
 * rows, outputs and inputs leave behind whole vectors. */
#include "host/blas_product.h"

#include "host/process_start.h"
#include "linear.h"

#include <cblas.h>
#ifndef OPENBLAS_VERSION
#error "this cblas.h is another BLAS's: put that of OpenBLAS (libopenblas-dev) before it"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static void multiply(const struct attn_matmul *m)
{
    cblas_sgemm(CblasRowMajor, m->a_transposed ? CblasTrans : CblasNoTrans,
                m->b_transposed ? CblasTrans : CblasNoTrans, (blasint)m->rows, (blasint)m->columns,
                (blasint)m->depth, 1.0f, m->a, (blasint)m->a_stride, m->b, (blasint)m->b_stride,
                m->adds ? 1.0f : 0.0f, m->c, (blasint)m->c_stride);
}

/* Fewer rows than these are faster with our kernels. */
enum { ROWS_MIN = 4, ROWS_MAX = 64 };

static const struct attn_multiplier of_gradients = { .multiply = multiply,
                                                     .multiplies_gradients = true };
static const struct attn_multiplier of_both = { .multiply = multiply,
                                                .multiplies_gradients = true,
                                                .rows_min = ROWS_MIN };

/* ---------------------------------------------------------------------- its memory -- */

/* Each call of sgemm works in a buffer of 128 MiB, of which it touches some MiB at most. A buffer
 * is mapped when no earlier one is free, and is kept. No header of OpenBLAS declares these two, and
 * a build of it may hide them. */
void *blas_memory_alloc(int position) __attribute__((weak));
void blas_memory_free(void *buffer) __attribute__((weak));

void blas_reserve(enum blas_use use, int threads)
{
    enum { BUFFERS_MAX = 128 };
    void *buffers[BUFFERS_MAX];
    const int count = use == BLAS_NOTHING ? 0 : threads < BUFFERS_MAX ? threads : BUFFERS_MAX;
    for (int i = 0; i < count; i++)
        buffers[i] = blas_memory_alloc(0);
    for (int i = 0; i < count; i++)
        blas_memory_free(buffers[i]);
}

/* ------------------------------------------------------------- may it be called at all -- */

static bool overcommits(void)
{
    FILE *file = fopen("/proc/sys/vm/overcommit_memory", "re");
    const int mode = file ? fgetc(file) : '0';
    if (file)
        fclose(file);
    return mode != '2';
}

/* The library of one thread keeps no lock around its memory, and that of OpenMP starts threads. */
static bool may_be_called(void)
{
    struct rlimit limit;
    return openblas_get_parallel() == OPENBLAS_THREAD && blas_memory_alloc && blas_memory_free
           && getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY && overcommits();
}

/* ---------------------------------------------------------------- the bits of rows -- */

enum { INPUTS_MAX = 260, OUTPUTS_MAX = 130 };

static const struct {
    int64_t out, in;
} SIZES[] = { { 1, 1 },   { 2, 9 },   { 3, 2 },    { 5, 15 },   { 7, 3 },    { 15, 4 },
              { 17, 6 },  { 33, 5 },  { 31, 7 },   { 63, 8 },   { 100, 17 }, { 130, 16 },
              { 66, 20 }, { 9, 255 }, { 21, 256 }, { 12, 257 }, { 40, 260 } };

struct numbers {
    float weight[INPUTS_MAX * OUTPUTS_MAX], x[ROWS_MAX * INPUTS_MAX];
    float own[ROWS_MAX * OUTPUTS_MAX], blas[ROWS_MAX * OUTPUTS_MAX];
    float bias[OUTPUTS_MAX];
};

static void run(struct attn_product *product, const struct attn_kernels *kernels, float *y,
                void *workspace)
{
    product->kernels = kernels;
    product->y = y;
    for (int64_t task = 0; task < attn_product_tasks(product); task++)
        attn_product_run(product, task, workspace);
}

static bool has_same_bits(const struct attn_kernels *own, const struct attn_kernels *given,
                          const struct attn_linear *linear, int64_t row_count,
                          struct numbers *numbers, void *workspace)
{
    struct attn_product product = { .linear = linear,
                                    .x = numbers->x,
                                    .x_stride = linear->in,
                                    .y_stride = linear->out,
                                    .row_count = row_count };
    run(&product, own, numbers->own, workspace);
    run(&product, given, numbers->blas, workspace);
    return memcmp(numbers->own, numbers->blas, (size_t)(row_count * linear->out) * sizeof(float))
           == 0;
}

static bool rows_have_same_bits(const struct attn_kernels *own, const struct attn_kernels *given,
                                struct numbers *numbers, void *workspace)
{
    enum { COUNT = sizeof SIZES / sizeof SIZES[0] };
    attn_init_glorot(numbers->weight, (int64_t)INPUTS_MAX * OUTPUTS_MAX, 1, 1, 1, 0);
    attn_init_glorot(numbers->x, (int64_t)ROWS_MAX * INPUTS_MAX, 1, 1, 1, 1);
    attn_init_glorot(numbers->bias, OUTPUTS_MAX, 1, 1, 1, 2);
    for (int i = 0; i < 2 * COUNT; i++) {
        const struct attn_linear linear = { .weight = numbers->weight,
                                            .bias = i % 4 < 2 ? numbers->bias : NULL,
                                            .out = SIZES[i / 2].out,
                                            .in = SIZES[i / 2].in,
                                            .in_out = i % 2 != 0,
                                            .dtype = ATTN_F32 };
        for (int64_t rows = ROWS_MIN; rows <= ROWS_MAX; rows++)
            if (!has_same_bits(own, given, &linear, rows, numbers, workspace))
                return false;
    }
    return true;
}

static bool computes_rows(const struct attn_kernels *kernels)
{
    const struct attn_linear any = { .in = 1, .out = 1, .dtype = ATTN_F32 };
    const size_t bytes =
        attn_product_workspace_bytes(&(struct attn_product){ .linear = &any, .kernels = kernels });
    struct numbers *numbers = malloc(sizeof *numbers);
    void *table = malloc(attn_kernels_given_bytes());
    void *workspace = aligned_alloc(64, (bytes + 63) / 64 * 64);
    const bool result =
        numbers && table && workspace
        && rows_have_same_bits(kernels, attn_kernels_given(table, kernels, &of_both), numbers,
                               workspace);
    free(numbers);
    free(table);
    free(workspace);
    return result;
}

/* ------------------------------------------------------------------------ the use -- */

/* Tables of 16-byte vectors, for which the compiler writes what OpenBLAS has in assembler. */
static bool is_short(const char *table)
{
    return strcmp(table, "generic") == 0 || strcmp(table, "neon_bf16") == 0;
}

static enum blas_use use_beside(const struct attn_kernels *kernels)
{
    const char *table = attn_kernels_name(kernels);
    if (!may_be_called() || !blas_core_matches(table))
        return BLAS_NOTHING;
    return is_short(table) && computes_rows(kernels) ? BLAS_GRADIENTS_AND_ROWS : BLAS_GRADIENTS;
}

const struct attn_kernels *blas_kernels(const struct attn_kernels *kernels, enum blas_use *use)
{
    static void *memory; /* to the end of the process */
    *use = use_beside(kernels);
    if (*use != BLAS_NOTHING && !memory)
        memory = malloc(attn_kernels_given_bytes());
    if (!memory)
        *use = BLAS_NOTHING;
    if (*use == BLAS_NOTHING)
        return kernels;
    return attn_kernels_given(memory, kernels, *use == BLAS_GRADIENTS ? &of_gradients : &of_both);
}

const char *blas_use_name(enum blas_use use)
{
    static const char *const NAMES[] = { [BLAS_NOTHING] = "none",
                                         [BLAS_GRADIENTS] = "gradients",
                                         [BLAS_GRADIENTS_AND_ROWS] = "gradients+rows" };
    return NAMES[use];
}
