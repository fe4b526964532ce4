/* bench_decode.c - a step of decoding with keys and values of F32, BF16 and F16, from memory and
 * from the cache, for each table of kernels and on one core. Numbers half as long should take
 * half the time. Medians of alternating runs in CPU time. */
#include "own.h"

#include "kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 11, DTYPES = 3 };

static const struct dtype {
    enum attn_dtype dtype;
    const char *name;
} dtypes[DTYPES] = { { ATTN_F32, "F32" }, { ATTN_BF16, "BF16" }, { ATTN_F16, "F16" } };

static void decode_init(struct own *own, const struct bench_shape *shape,
                        const struct attn_kernels *kernels, enum attn_dtype dtype)
{
    own_init(own, shape);
    if (dtype != ATTN_F32)
        own_narrow(own, dtype);
    own->problem.kernels = kernels;
    own_plan(own);
}

/* BF16 has eight bits of precision. */
static void check_same(const struct own *decodes)
{
    double sums[2], first[2];

    own_sums(&decodes[0], first);
    for (int i = 1; i < DTYPES; i++) {
        own_sums(&decodes[i], sums);
        if (fabs(sums[1] - first[1]) > 0.01 * first[1]) {
            fprintf(stderr, "%s computes something else\n", dtypes[i].name);
            exit(1);
        }
    }
}

static void bench(const struct bench_shape *shape, const struct attn_kernels *kernels)
{
    const double numbers = 2.0 * shape->batch * shape->kv_heads * shape->kv_len * shape->head_dim;
    double seconds[DTYPES][ROUNDS];
    struct own decodes[DTYPES];

    for (int i = 0; i < DTYPES; i++)
        decode_init(&decodes[i], shape, kernels, dtypes[i].dtype);
    for (int round = -1; round < ROUNDS; round++)
        for (int i = 0; i < DTYPES; i++)
            seconds[i][round < 0 ? 0 : round] = own_time(&decodes[i]);
    check_same(decodes);
    printf("%d,%d,%d,%d,%d,%d %s:", shape->batch, shape->q_heads, shape->kv_heads, shape->q_len,
           shape->kv_len, shape->head_dim, attn_kernels_name(kernels));
    const double first_s = median(seconds[0], ROUNDS);
    for (int i = 0; i < DTYPES; i++) {
        const double now = median(seconds[i], ROUNDS);
        printf("  %s %.2f ms, %.2f Gnumbers/s, %.2f x", dtypes[i].name, now * 1e3,
               numbers / now * 1e-9, first_s / now);
        own_free(&decodes[i]);
    }
    printf("\n");
}

int main(void)
{
    static const struct bench_shape shapes[] = {
        { 1, 32, 8, 1, 32768, 128, 0, 1 },
        { 64, 12, 12, 1, 512, 64, 0, 1 },
        { 1, 12, 12, 1, 512, 64, 0, 1 },
    };

    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
            bench(&shapes[i], *k);
    return 0;
}
