/* SPDX-License-Identifier: Apache-2.0 */
/* bench_decode.c - a step of decoding with keys and values of F32, BF16, F16 and I8, from memory
 * and from the cache, for each table of kernels and on one core. Numbers half as long should take
 * half the time. I8 lies in pages, as sessions have it. Medians of alternating runs in CPU time.
 *
 *     bench_decode [table]          that table of kernels alone */
#include "own.h"

#include "kernels/kernels.h"
#include "quantize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 11, DTYPES = 4, PAGE_ROWS = 2048, PAGES_MAX = 16 };

static const struct dtype {
    enum attn_dtype dtype;
    const char *name;
} dtypes[DTYPES] = {
    { ATTN_F32, "F32" }, { ATTN_BF16, "BF16" }, { ATTN_F16, "F16" }, { ATTN_I8, "I8" }
};

struct int8_side {
    struct attn_pages pages;
    struct attn_page list[PAGES_MAX];
    int8_t *numbers[PAGES_MAX];
    float *scales[PAGES_MAX];
};

/* A contender whose keys and values are of a dtype. */
struct decode {
    struct own own;
    struct int8_side sides[2];
};

static void *memory(size_t bytes)
{
    void *made = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!made)
        abort();
    return made;
}

static void quantize_page(const struct attn_tensor *tensor, struct int8_side *side, int64_t first,
                          int64_t rows, bool by_rows)
{
    const int64_t heads = tensor->shape[1], columns = tensor->shape[3];
    const int64_t scales = by_rows ? rows : (rows + 63) / ATTN_I8_ROWS * columns;
    const int64_t n = side->pages.count++;
    int8_t *numbers = side->numbers[n] = memory((size_t)(heads * rows * columns));
    float *scale = side->scales[n] = memory((size_t)(heads * scales) * sizeof *scale);
    side->list[n] = (struct attn_page){ first, numbers, rows * columns, scale, scales };
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < rows; i += ATTN_I8_ROWS) {
            const float *from = (const float *)tensor->data + h * tensor->stride[1]
                                + (first + i) * tensor->stride[2];
            int8_t *to = numbers + (h * rows + i) * columns;
            const int64_t count = rows - i < ATTN_I8_ROWS ? rows - i : ATTN_I8_ROWS;
            if (by_rows)
                attn_quantize_rows(to, columns, scale + h * scales + i, from, columns, count,
                                   columns);
            else
                attn_quantize_channels(to, columns, scale + h * scales + i / ATTN_I8_ROWS * columns,
                                       from, columns, count, columns);
        }
}

static void quantized(struct attn_tensor *tensor, struct int8_side *side, bool by_rows)
{
    const int64_t length = tensor->shape[2];
    side->pages = (struct attn_pages){ .list = side->list, .has_row_scales = by_rows };
    for (int64_t first = 0; first < length; first += PAGE_ROWS)
        quantize_page(tensor, side, first, length - first < PAGE_ROWS ? length - first : PAGE_ROWS,
                      by_rows);
    tensor->data = side->numbers[0];
    tensor->dtype = ATTN_I8;
    tensor->pages = &side->pages;
}

static void decode_init(struct decode *decode, const struct bench_shape *shape,
                        const struct attn_kernels *kernels, enum attn_dtype dtype)
{
    struct attn_problem *problem = &decode->own.problem;

    *decode = (struct decode){ .sides[0].pages.count = 0 };
    own_init(&decode->own, shape);
    if (dtype == ATTN_I8) {
        quantized(&problem->key, &decode->sides[0], false);
        quantized(&problem->value, &decode->sides[1], true);
    } else if (dtype != ATTN_F32) {
        own_narrow(&decode->own, dtype);
    }
    problem->kernels = kernels;
    own_plan(&decode->own);
}

static void decode_free(struct decode *decode)
{
    own_free(&decode->own);
    for (int side = 0; side < 2; side++)
        for (int64_t i = 0; i < decode->sides[side].pages.count; i++) {
            free(decode->sides[side].numbers[i]);
            free(decode->sides[side].scales[i]);
        }
}

/* Pages have no batches. */
static int dtypes_of(const struct bench_shape *shape)
{
    return shape->batch == 1 ? DTYPES : DTYPES - 1;
}

/* BF16 has eight bits of precision. */
static void check_same(const struct decode *decodes, int count)
{
    double sums[2], first[2];

    own_sums(&decodes[0].own, first);
    for (int i = 1; i < count; i++) {
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
    const int count = dtypes_of(shape);
    double seconds[DTYPES][ROUNDS];
    struct decode decodes[DTYPES];

    for (int i = 0; i < count; i++)
        decode_init(&decodes[i], shape, kernels, dtypes[i].dtype);
    for (int round = -1; round < ROUNDS; round++)
        for (int i = 0; i < count; i++)
            seconds[i][round < 0 ? 0 : round] = own_time(&decodes[i].own);
    check_same(decodes, count);
    printf("%d,%d,%d,%d,%d,%d %s:", shape->batch, shape->q_heads, shape->kv_heads, shape->q_len,
           shape->kv_len, shape->head_dim, attn_kernels_name(kernels));
    const double first_s = median(seconds[0], ROUNDS);
    for (int i = 0; i < count; i++) {
        const double now = median(seconds[i], ROUNDS);
        printf("  %s %.2f ms, %.2f Gnumbers/s, %.2f x", dtypes[i].name, now * 1e3,
               numbers / now * 1e-9, first_s / now);
        decode_free(&decodes[i]);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    static const struct bench_shape shapes[] = {
        { 1, 32, 8, 1, 32768, 128, 0, 1 },
        { 64, 12, 12, 1, 512, 64, 0, 1 },
        { 1, 12, 12, 1, 512, 64, 0, 1 },
    };

    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
            if (argc < 2 || strcmp(argv[1], attn_kernels_name(*k)) == 0)
                bench(&shapes[i], *k);
    return 0;
}
