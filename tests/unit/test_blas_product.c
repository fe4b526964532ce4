/* SPDX-License-Identifier: Apache-2.0 */
/* test_blas_product.c - what the daemon lets OpenBLAS compute, on each type of its cores: gradients
 * beside tables that are not newer, rows only where they have the bits of the kernels, and nothing
 * where it could wait for memory for ever. */
#include "blas_cores.h"
#include "fill.h"
#include "linear.h"

#include "host/blas_product.h"

#include <sys/resource.h>

static const struct attn_kernels *table_of(const char *name)
{
    const struct attn_kernels *const *table = attn_kernels_available();
    while (*table && strcmp(attn_kernels_name(*table), name) != 0)
        table++;
    return *table;
}

static enum blas_use use_beside(const char *name)
{
    enum blas_use use = BLAS_NOTHING;
    const struct attn_kernels *kernels = blas_kernels(table_of(name), &use);
    assert_string_equal(attn_kernels_name(kernels), name);
    assert_true((kernels == table_of(name)) == (use == BLAS_NOTHING));
    return use;
}

TEST(the_use_follows_from_the_core_and_the_table)
{
    if (openblas_get_parallel() != OPENBLAS_THREAD)
        skip();
#ifdef __x86_64__
    const bool has_avx = blas_core_is("Sandybridge"), has_avx2 = blas_core_is("Haswell");
    const bool has_avx512 = blas_core_is("SkylakeX");
    assert_int_equal(use_beside("generic"), has_avx                  ? BLAS_GRADIENTS_AND_ROWS
                                            : has_avx2 || has_avx512 ? BLAS_GRADIENTS
                                                                     : BLAS_NOTHING);
    if (table_of("avx2"))
        assert_int_equal(use_beside("avx2"),
                         has_avx2 || has_avx512 ? BLAS_GRADIENTS : BLAS_NOTHING);
    if (table_of("avx512"))
        assert_int_equal(use_beside("avx512"), has_avx512 ? BLAS_GRADIENTS : BLAS_NOTHING);
#else
    assert_int_not_equal(use_beside("generic"), BLAS_NOTHING);
#endif
}

enum { ROWS_MAX = 70, IN_MAX = 700, OUT_MAX = 600 };

static struct {
    float x[ROWS_MAX * IN_MAX], weight[IN_MAX * OUT_MAX];
    float own[ROWS_MAX * OUT_MAX], blas[ROWS_MAX * OUT_MAX];
} data;

static void run(struct attn_product *product, const struct attn_kernels *kernels, float *y)
{
    product->kernels = kernels;
    product->y = y;
    void *workspace = aligned_alloc(64, attn_product_workspace_bytes(product) / 64 * 64 + 64);
    assert_non_null(workspace);
    for (int64_t task = 0; task < attn_product_tasks(product); task++)
        attn_product_run(product, task, workspace);
    free(workspace);
}

/* Whatever the answer is, rows have the bits that they have without OpenBLAS. */
TEST(rows_keep_their_bits)
{
    enum blas_use use;
    const struct attn_kernels *own = table_of("generic"), *kernels = blas_kernels(own, &use);
    for (uint64_t i = 0; i < 40; i++) {
        struct fill fill = { 400 + i };
        const struct attn_linear linear = { .weight = data.weight,
                                            .in = 1 + fill_below(&fill, IN_MAX),
                                            .out = 1 + fill_below(&fill, OUT_MAX),
                                            .in_out = i % 2 == 0,
                                            .dtype = ATTN_F32 };
        struct attn_product product = { .linear = &linear,
                                        .x = data.x,
                                        .x_stride = linear.in,
                                        .y_stride = linear.out,
                                        .row_count = 1 + fill_below(&fill, ROWS_MAX) };
        fill_floats(&fill, data.x, product.row_count * linear.in, -1, 1);
        fill_floats(&fill, data.weight, linear.in * linear.out, -1, 1);
        run(&product, own, data.own);
        run(&product, kernels, data.blas);
        assert_memory_equal(data.own, data.blas,
                            (size_t)(product.row_count * linear.out) * sizeof(float));
    }
}

/* What OpenBLAS takes its buffers from; it waits for ever if there is no memory for one. */
void *blas_memory_alloc(int position);
void blas_memory_free(void *buffer);

static rlim_t address_space(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &pages), 1);
    fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

TEST(buffers_are_there_before_they_are_needed)
{
    enum { THREADS = 5 };
    void *buffers[THREADS];
    struct rlimit before, limit;
    if (openblas_get_parallel() != OPENBLAS_THREAD)
        skip();
    blas_reserve(BLAS_GRADIENTS, THREADS);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limit = before;
    limit.rlim_cur = address_space();
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        skip();
    alarm(20);
    for (int i = 0; i < THREADS; i++)
        buffers[i] = blas_memory_alloc(0);
    for (int i = 0; i < THREADS; i++)
        blas_memory_free(buffers[i]);
    alarm(0);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
}

TEST(nothing_where_address_space_is_limited)
{
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)1 << 50;
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        skip();
    assert_int_equal(use_beside("generic"), BLAS_NOTHING);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
}

TEST(each_use_has_a_name)
{
    assert_string_equal(blas_use_name(BLAS_NOTHING), "none");
    assert_string_equal(blas_use_name(BLAS_GRADIENTS), "gradients");
    assert_string_equal(blas_use_name(BLAS_GRADIENTS_AND_ROWS), "gradients+rows");
}

int main(void)
{
    return blas_cores_main();
}
