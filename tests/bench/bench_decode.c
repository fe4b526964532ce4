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

/* A contender whose keys and values are of a dtype, and the memory that holds them. */
struct decode {
    struct own own;
    uint16_t *key, *value;
};

static uint16_t *narrowed(const struct attn_kernels *kernels, struct attn_tensor *tensor,
                          enum attn_dtype dtype)
{
    const int64_t *shape = tensor->shape;
    const int64_t count = shape[0] * shape[1] * shape[2] * shape[3];
    uint16_t *halves = malloc((size_t)count * sizeof *halves);
    if (!halves)
        abort();
    (dtype == ATTN_F16 ? kernels->narrow_f16 : kernels->narrow_bf16)(halves, tensor->data, count);
    *tensor = attn_tensor_dense(halves, dtype, shape[0], shape[1], shape[2], shape[3]);
    return halves;
}

static void decode_init(struct decode *decode, const struct bench_shape *shape,
                        const struct attn_kernels *kernels, enum attn_dtype dtype)
{
    struct attn_problem *problem = &decode->own.problem;

    *decode = (struct decode){ .key = NULL };
    own_init(&decode->own, shape);
    if (dtype != ATTN_F32) {
        decode->key = narrowed(kernels, &problem->key, dtype);
        decode->value = narrowed(kernels, &problem->value, dtype);
    }
    problem->kernels = kernels;
    own_plan(&decode->own);
}

static void decode_free(struct decode *decode)
{
    own_free(&decode->own);
    free(decode->key);
    free(decode->value);
}

/* BF16 has eight bits of precision. */
static void check_same(const struct decode *decodes)
{
    double sums[2], first[2];

    own_sums(&decodes[0].own, first);
    for (int i = 1; i < DTYPES; i++) {
        own_sums(&decodes[i].own, sums);
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
    struct decode decodes[DTYPES];

    for (int i = 0; i < DTYPES; i++)
        decode_init(&decodes[i], shape, kernels, dtypes[i].dtype);
    for (int round = -1; round < ROUNDS; round++)
        for (int i = 0; i < DTYPES; i++)
            seconds[i][round < 0 ? 0 : round] = own_time(&decodes[i].own);
    check_same(decodes);
    printf("%d,%d,%d,%d,%d,%d %s:", shape->batch, shape->q_heads, shape->kv_heads, shape->q_len,
           shape->kv_len, shape->head_dim, attn_kernels_name(kernels));
    const double first_s = median(seconds[0], ROUNDS);
    for (int i = 0; i < DTYPES; i++) {
        const double now = median(seconds[i], ROUNDS);
        printf("  %s %.2f ms, %.2f Gnumbers/s, %.2f x", dtypes[i].name, now * 1e3,
               numbers / now * 1e-9, first_s / now);
        decode_free(&decodes[i]);
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
