/* SPDX-License-Identifier: Apache-2.0 */
/* bench_blocks.c - products with weights in blocks and of 16 bits beside F32, by two threads as a
 * daemon of two workers runs them: one row, which waits for memory, and many. Best of some runs.
 *
 * There are more matrices than a cache holds, as a model has, and each run takes the next. The
 * numbers are random: what a block stands for changes no time.
 *
 *     bench_blocks [TABLE [THREADS [DTYPE]]]
 */
#include "kernel_tables.h"
#include "own.h"

#include "kernels/kernels.h"
#include "linear.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 2, DIM = 4096, ROWS_MAX = 64, RUNS = 8 };

static const int64_t ROWS[] = { 1, 2, 4, 8, ROWS_MAX };
enum { ROW_COUNTS = sizeof ROWS / sizeof ROWS[0] };

static const struct {
    enum attn_dtype dtype;
    const char *name;
} DTYPES[] = { { ATTN_F32, "F32" },
               { ATTN_BF16, "BF16" },
               { ATTN_F16, "F16" },
#define X(NAME, numbers, bytes) { ATTN_##NAME, #NAME },
               ATTN_BLOCK_MAP(X)
#undef X
};
enum { DTYPE_COUNT = sizeof DTYPES / sizeof DTYPES[0] };

/* All matrices of a dtype have these bytes, or a few more. */
static const size_t MATRICES_BYTES = (size_t)3 << 28;

static struct {
    struct attn_product product;
    struct attn_linear linear;
    char *workspaces[THREADS_MAX];
    int threads;
    pthread_barrier_t begin, end;
    bool is_over;
} all;

static void run_half(int thread)
{
    const int64_t tasks = attn_product_tasks(&all.product);

    for (int64_t t = tasks * thread / all.threads; t < tasks * (thread + 1) / all.threads; t++)
        attn_product_run(&all.product, t, all.workspaces[thread]);
}

static void *help(void *unused)
{
    for (;;) {
        pthread_barrier_wait(&all.begin);
        if (all.is_over)
            return unused;
        run_half(1);
        pthread_barrier_wait(&all.end);
    }
}

static void *memory(size_t bytes)
{
    void *made = aligned_alloc(64, (bytes + 63) / 64 * 64);

    if (!made)
        abort();
    return made;
}

static void run_product(void)
{
    if (all.threads > 1)
        pthread_barrier_wait(&all.begin);
    run_half(0);
    if (all.threads > 1)
        pthread_barrier_wait(&all.end);
}

/* Numbers of one size, so that no sum is subnormal; bytes of blocks without the bits that would
 * make scales infinite or, of MXFP4, tiny. */
static uint8_t *make_matrices(enum attn_dtype dtype)
{
    uint8_t *bytes = memory(MATRICES_BYTES);
    uint64_t state = 1;

    for (size_t i = 0; i < MATRICES_BYTES; i += sizeof state) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint64_t mixed = state ^ state >> 33;
        const uint64_t bits =
            attn_block_numbers(dtype) > 1
                ? (mixed & UINT64_C(0xbbbbbbbbbbbbbbbb))
                      | (dtype == ATTN_MXFP4 ? UINT64_C(0x6060606060606060) : 0)
                : (mixed & UINT64_C(0x807f807f807f807f)) | UINT64_C(0x3f003f003f003f00);
        memcpy(bytes + i, &bits, sizeof bits);
    }
    return bytes;
}

static double best_s(enum attn_dtype dtype, const uint8_t *matrices, int64_t rows)
{
    const size_t size =
        (size_t)((int64_t)DIM * DIM / attn_block_numbers(dtype)) * attn_block_bytes(dtype);
    const int count = (int)(MATRICES_BYTES / size), runs = rows == 1 ? count + RUNS : RUNS;
    double best = 1e9;

    all.linear = (struct attn_linear){ .in = DIM, .out = DIM, .dtype = dtype };
    all.product.row_count = rows;
    for (int i = 0; i < runs; i++) {
        all.linear.weight = matrices + (size_t)(i % count) * size;
        const double begin = now_s(1);
        run_product();
        const double seconds = now_s(1) - begin;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static void bench(const struct attn_kernels *kernels, const char *name)
{
    double seconds[DTYPE_COUNT][ROW_COUNTS];

    all.product.kernels = kernels;
    for (int d = 0; d < DTYPE_COUNT; d++) {
        if (name && d > 1 && strcmp(name, DTYPES[d].name) != 0)
            continue;
        uint8_t *matrices = make_matrices(DTYPES[d].dtype);
        printf("%-8s %-6s", attn_kernels_name(kernels), DTYPES[d].name);
        for (int r = 0; r < ROW_COUNTS; r++) {
            seconds[d][r] = best_s(DTYPES[d].dtype, matrices, ROWS[r]);
            printf("  %3d: %7.3f ms (%.2f)", (int)ROWS[r], seconds[d][r] * 1e3,
                   seconds[d > 0][r] / seconds[d][r]);
            fflush(stdout);
        }
        const double bytes = (double)((int64_t)DIM * DIM / attn_block_numbers(DTYPES[d].dtype))
                             * (double)attn_block_bytes(DTYPES[d].dtype);
        printf("  %.1f GB/s\n", bytes / seconds[d][0] * 1e-9);
        free(matrices);
    }
}

int main(int argc, char **argv)
{
    pthread_t helper;
    float *x = memory(sizeof(float) * ROWS_MAX * DIM), *y = memory(sizeof(float) * ROWS_MAX * DIM);

    bench_fill(x, (int64_t)ROWS_MAX * DIM, BENCH_KEY);
    all.threads = argc > 2 ? atoi(argv[2]) : THREADS_MAX;
    all.product = (struct attn_product){
        .linear = &all.linear, .x = x, .x_stride = DIM, .y = y, .y_stride = DIM
    };
    for (int i = 0; i < THREADS_MAX; i++)
        all.workspaces[i] = memory(1 << 20);
    pthread_barrier_init(&all.begin, NULL, 2);
    pthread_barrier_init(&all.end, NULL, 2);
    if (all.threads > 1 && pthread_create(&helper, NULL, help, NULL) != 0)
        abort();
    printf("%d x %d, %d threads; in brackets: times as fast as BF16\n", DIM, DIM, all.threads);
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        if (argc < 2 || strcmp(argv[1], attn_kernels_name(*k)) == 0)
            bench(*k, argc > 3 ? argv[3] : NULL);
    all.is_over = true;
    if (all.threads > 1) {
        pthread_barrier_wait(&all.begin);
        pthread_join(helper, NULL);
    }
    free(x);
    free(y);
    return 0;
}
