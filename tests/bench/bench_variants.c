/* SPDX-License-Identifier: Apache-2.0 */
/* bench_variants.c - what a variant of attention costs beside the plain context of as many rows.
 *
 * The variants are masks, a window, weight maps, other dtypes and another table of kernels on
 * one core, and the plain context on two. Best of alternating runs: CPU time for one core, the
 * clock for two. "per pair" counts the pairs that are seen. The goals are those of
 * lib/PERFORMANCE.md. */
#include "kernel_tables.h"
#include "own.h"
#include "weight_map.h"
#include "yardstick.h"

#include "base/internal.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 2048, HEADS = 2, DIM = 64, ROUNDS = 10, MEMORY_MAX = 8 };

static const struct bench_shape SQUARE = { 1, HEADS, HEADS, LENGTH, LENGTH, DIM, 0, 1 };

/* The memory that a variant adds to a problem. It is freed after the variant. */
static void *made[MEMORY_MAX];
static int made_count;

static void *memory(size_t bytes)
{
    void *zeroed = calloc(1, bytes);
    if (!zeroed || made_count == MEMORY_MAX)
        abort();
    return made[made_count++] = zeroed;
}

static void free_memory(void)
{
    while (made_count > 0)
        free(made[--made_count]);
}

/* -------------------------------------------------------------------------------- masks -- */

static bool all_pairs(int64_t i, int64_t j)
{
    (void)i, (void)j;
    return true;
}

static bool random_pairs(int64_t i, int64_t j)
{
    return bench_number((uint32_t)(i * LENGTH + j), BENCH_KEY) > 0;
}

static bool three_quarters(int64_t i, int64_t j)
{
    (void)i;
    return j < LENGTH * 3 / 4;
}

static bool four_documents(int64_t i, int64_t j)
{
    return i / (LENGTH / 4) == j / (LENGTH / 4);
}

/* Sets one mask for all heads; returns the share of pairs that are seen. */
static double set_mask(struct own *own, bool (*sees)(int64_t i, int64_t j), enum attn_dtype dtype)
{
    const size_t size = attn_dtype_size(dtype);
    char *mask = memory((size_t)LENGTH * LENGTH * size);
    double seen = 0;

    for (int64_t i = 0; i < LENGTH; i++)
        for (int64_t j = 0; j < LENGTH; j++) {
            const bool is_seen = sees(i, j);
            const float bias = is_seen ? 0.0f : -INFINITY;
            char *at = mask + (size_t)(i * LENGTH + j) * size;
            seen += is_seen;
            if (dtype == ATTN_BOOL)
                *at = is_seen;
            else
                memcpy(at, &bias, sizeof bias);
        }
    own->problem.mask = attn_tensor_dense(mask, dtype, 1, 1, LENGTH, LENGTH);
    return seen / LENGTH / LENGTH;
}

/* ---------------------------------------------------------------------------------- runs -- */

static double run_map(struct own *own, const struct attn_weight_map *map)
{
    void *workspace = own->workspace[0];
    const double begin = now_s(1);

    for (int64_t i = 0; i < attn_weight_map_tasks(map, &own->plan); i++)
        attn_weight_map_run(map, &own->plan, i, workspace);
    for (int64_t i = 0; i < attn_weight_map_select_tasks(map, &own->plan); i++)
        attn_weight_map_select(map, &own->plan, i);
    return now_s(1) - begin;
}

/* Takes the best of alternating runs of base and variant. */
static void race(struct own *base, struct own *variant, const struct attn_weight_map *map,
                 double best[2])
{
    best[0] = best[1] = INFINITY;
    for (int i = 0; i < ROUNDS; i++) {
        best[0] = fmin(best[0], own_time(base));
        best[1] = fmin(best[1], map ? run_map(variant, map) : own_time(variant));
    }
}

/* Plans the variant, races it and frees all of it. share is the part of the base's pairs that
 * the variant sees. */
static void report(struct own *base, struct own *variant, const char *name, double share,
                   const struct attn_weight_map *map)
{
    double best[2];

    own_plan(variant);
    if (map) {
        free(variant->workspace[0]);
        variant->workspace[0] = aligned_alloc(
            64, (attn_weight_map_workspace_bytes(map, &variant->plan) + 63) / 64 * 64);
    }
    race(base, variant, map, best);
    printf("%-44s %9.3f ms %9.2f x plain %9.2f x per pair\n", name, best[1] * 1e3,
           best[1] / best[0], best[1] / best[0] / share);
    fflush(stdout);
    own_free(variant);
    free_memory();
}

static void bench_masks(struct own *base)
{
    static const struct {
        const char *name;
        bool (*sees)(int64_t i, int64_t j);
    } masks[] = {
        { "every pair", all_pairs },
        { "one of two, at random", random_pairs },
        { "padding, 3 of 4 keys seen", three_quarters },
        { "4 documents, each by itself", four_documents },
    };
    for (int dtype = 0; dtype < 2; dtype++)
        for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
            struct own own;
            char name[64];
            own_init(&own, &SQUARE);
            const double share = set_mask(&own, masks[i].sees, dtype == 0 ? ATTN_BOOL : ATTN_F32);
            snprintf(name, sizeof name, "mask of %s: %s", dtype == 0 ? "bytes" : "floats",
                     masks[i].name);
            report(base, &own, name, share, NULL);
        }
}

/* Compares a window's work per pair with that of squares as wide as the window. */
static void bench_window(void)
{
    enum { WINDOW = 256, LONG = 16384 };
    const struct bench_shape squares = { LONG / WINDOW, 1, 1, WINDOW, WINDOW, DIM, 0, 1 };
    const struct bench_shape one = { 1, 1, 1, LONG, LONG, DIM, 1, 1 };
    struct own base, own;

    own_init(&base, &squares);
    own_plan(&base);
    own_init(&own, &one);
    own.problem.options.window_left = WINDOW - 1;
    const double seen = (double)LONG * WINDOW - (double)WINDOW * (WINDOW - 1) / 2;
    report(&base, &own, "window of 256 at 16384, beside 256 x 256", seen / LONG / WINDOW, NULL);
    own_free(&base);
}

static void bench_maps(struct own *base)
{
    struct attn_weight_map maps[] = { { .top_k = 8 }, { .pool_rows = 64, .pool_columns = 64 } };
    static const char *const names[] = { "map: the 8 greatest of each row",
                                         "map: pooled to 64 x 64" };
    struct own own;

    own_init(&own, &SQUARE);
    float *weights = memory((size_t)HEADS * LENGTH * LENGTH * sizeof *weights);
    own.problem.weights = attn_tensor_dense(weights, ATTN_F32, 1, HEADS, LENGTH, LENGTH);
    report(base, &own, "map: whole", 1, NULL);
    for (int i = 0; i < 2; i++) {
        int64_t shape[3];
        own_init(&own, &SQUARE);
        attn_weight_map_shape(&maps[i], HEADS, LENGTH, LENGTH, shape);
        const size_t count = (size_t)(shape[0] * shape[1] * shape[2]);
        maps[i].values = memory(count * sizeof *maps[i].values);
        maps[i].indices = maps[i].top_k > 0 ? memory(count * sizeof *maps[i].indices) : NULL;
        report(base, &own, names[i], 1, &maps[i]);
    }
}

/* The tensors keep their memory. It then holds numbers of another width. */
static void bench_dtypes(struct own *base)
{
    static const enum attn_dtype dtypes[] = { ATTN_F16, ATTN_BF16, ATTN_F64 };
    static const char *const names[] = { "query, key, value, context of F16", "of BF16", "of F64" };
    for (int i = 0; i < 3; i++) {
        struct own own;
        own_init(&own, &SQUARE);
        struct attn_tensor *tensors[] = { &own.problem.query, &own.problem.key, &own.problem.value,
                                          &own.problem.context };
        for (int t = 0; t < 4; t++)
            *tensors[t] =
                attn_tensor_dense(memory((size_t)HEADS * LENGTH * DIM * attn_dtype_size(dtypes[i])),
                                  dtypes[i], 1, HEADS, LENGTH, DIM);
        report(base, &own, names[i], 1, NULL);
    }
}

/* A table's multiple of the multiply-adds that its vectors could do. */
static void bench_table(const struct attn_kernels *kernels)
{
    const double operations = 4.0 * HEADS * LENGTH * LENGTH * DIM;
    struct own own;
    double best_s = INFINITY, flops = 0;

    own_init(&own, &SQUARE);
    own.problem.kernels = kernels;
    own_plan(&own);
    for (int i = 0; i < ROUNDS; i++) {
        flops = fmax(flops, yardstick_flops(attn_kernels_name(kernels)));
        best_s = fmin(best_s, own_time(&own));
    }
    printf("%-44s %9.3f ms %9.2f of its peak\n", attn_kernels_name(kernels), best_s * 1e3,
           operations / best_s / flops);
    own_free(&own);
}

/* The plain context with tensors of a dtype; returns whether a matrix unit computes it. */
static bool make_plain(struct own *own, const struct bench_shape *shape, enum attn_dtype dtype,
                       const struct attn_kernels *kernels, enum attn_precision precision)
{
    own_init(own, shape);
    own->problem.kernels = kernels;
    own->problem.options.precision = precision;
    if (dtype != ATTN_F32) {
        own_narrow(own, dtype);
        own_narrow_query(own, dtype);
    }
    own_plan(own);
    return attn_plan_full(&own->plan)->is_matrix;
}

/* A matrix unit beside the vectors of its table, in turns. */
static void bench_unit(const struct attn_kernels *kernels, const struct bench_shape *shape,
                       enum attn_dtype dtype, enum attn_precision precision)
{
    struct attn_kernels vectors = *kernels;
    struct own base, own;
    double best[2], flops = 0;
    char name[80];

    vectors.matrix = NULL;
    make_plain(&base, shape, dtype, &vectors, precision);
    if (make_plain(&own, shape, dtype, kernels, precision)) {
        for (int i = 0; i < ROUNDS; i++)
            flops = fmax(flops, yardstick_flops("avx512"));
        race(&base, &own, NULL, best);
        const double operations =
            4.0 * shape->q_heads * shape->q_len * shape->kv_len * shape->head_dim;
        snprintf(name, sizeof name, "%s, %d x %d x %d, %s, %s", attn_kernels_name(kernels),
                 shape->q_heads, shape->q_len, shape->head_dim,
                 dtype == ATTN_F32    ? "F32"
                 : dtype == ATTN_BF16 ? "BF16"
                                      : "F16",
                 attn_precision_name(precision));
        printf("%-44s %9.3f ms %9.2f of the peak of vectors, which take %.2f as long\n", name,
               best[1] * 1e3, operations / best[1] / flops, best[0] / best[1]);
        fflush(stdout);
    }
    own_free(&base);
    own_free(&own);
}

static void bench_units(const struct attn_kernels *kernels)
{
    static const struct bench_shape shapes[] = { { 1, 2, 2, 2048, 2048, 64, 0, 1 },
                                                 { 1, 1, 1, 4096, 4096, 128, 0, 1 },
                                                 { 1, 4, 4, 512, 512, 64, 0, 1 },
                                                 { 1, 16, 16, 128, 128, 64, 0, 1 },
                                                 { 1, 32, 32, 64, 64, 64, 0, 1 } };
    static const enum attn_dtype dtypes[] = { ATTN_F32, ATTN_BF16, ATTN_F16 };

    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int d = 0; d < 3; d++)
            for (int p = 0; p < ATTN_PRECISION_COUNT; p++)
                bench_unit(kernels, &shapes[i], dtypes[d], (enum attn_precision)p);
}

/* The matrix units with each precision, where this machine has them; then the tables of vectors. */
static void bench_tables(void)
{
    if (kernel_table_of_unit() != NULL)
        bench_units(kernel_table_of_unit());
    if (attn_kernels_available()[0]->matrix != NULL)
        bench_units(attn_kernels_available()[0]);
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        if ((*k)->matrix == NULL)
            bench_table(*k);
}

static void bench_two_cores(void)
{
    struct bench_shape shape = { 1, 12, 12, 512, 512, DIM, 0, 1 };
    for (int causal = 0; causal <= 1; causal++) {
        struct own one, two;
        double best[2];
        shape.causal = causal;
        shape.threads = 1;
        own_init(&one, &shape);
        own_plan(&one);
        shape.threads = 2;
        own_init(&two, &shape);
        own_plan(&two);
        race(&one, &two, NULL, best);
        printf("%-44s %9.3f ms %9.2f times as fast\n",
               causal ? "two cores, 12 heads of 512 causal" : "two cores, 12 heads of 512",
               best[1] * 1e3, best[0] / best[1]);
        own_free(&one);
        own_free(&two);
    }
}

int main(void)
{
    struct own base;

    own_init(&base, &SQUARE);
    own_plan(&base);
    printf("%d heads, %d x %d x %d, %s\n", HEADS, LENGTH, LENGTH, DIM,
           attn_kernels_name(attn_plan_full(&base.plan)->kernels));
    bench_masks(&base);
    bench_window();
    bench_maps(&base);
    bench_dtypes(&base);
    bench_tables();
    bench_two_cores();
    own_free(&base);
    return 0;
}
