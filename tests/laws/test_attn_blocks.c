/* SPDX-License-Identifier: Apache-2.0 */
/* test_attn_blocks.c - masks that are looked at block by block.
 *
 * A block that a mask lets through whole, or hides whole, is never gathered. A mask whose keys
 * lie two apart is gathered, pair by pair. The same mask in both forms must give the same bits,
 * whichever outputs are asked for. Keys and values of blocks that are hidden whole need not even
 * be in memory. */
#include "attention_case.h"
#include "guard.h"
#include "kernel_tables.h"
#include "problem_count.h"
#include "test.h"

/* Several tiles each way, the last of each ragged, and heads that share keys. */
static const struct attention_sizes SIZES[] = {
    { 2, 4, 2, 150, 310, 24, 17 },
    { 1, 2, 2, 64, 192, 16, 16 },
    { 1, 1, 1, 17, 97, 8, 5 },
};
enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0] };

enum kind { DIAGONAL, PADDING, RANDOM, HOLES, EVERYTHING, NOTHING, ROWS, KINDS };

static bool sees(enum kind kind, const struct attention_sizes *s, int64_t i, int64_t j)
{
    switch (kind) {
    case DIAGONAL: /* documents of 100 */
        return (i + s->kv_len - s->q_len) / 100 == j / 100;
    case PADDING:
        return j < s->kv_len / 2 + 5;
    case HOLES: /* hides whole tiles of keys, and in the other tiles whole rows */
        return j / 96 % 2 == 0 && i % 5 != 2;
    case EVERYTHING:
        return true;
    case NOTHING:
        return false;
    case ROWS:
        return i / 64 % 2 == 0;
    default:
        return (i * 31 + j * 17 + i * j % 13) % 7 < 4;
    }
}

/* A mask whose keys lie step places apart. Each place between holds the opposite of the mask. */
static struct attn_tensor mask_of(struct attention_case *c, enum kind kind, bool is_float,
                                  const struct attention_sizes *s, int64_t step)
{
    struct attn_tensor mask = attention_case_tensor(c, is_float ? ATTN_F32 : ATTN_BOOL,
                                                    LAYOUT_DENSE, 1, 1, s->q_len, s->kv_len * step);
    for (int64_t i = 0; i < s->q_len; i++)
        for (int64_t j = 0; j < s->kv_len * step; j++) {
            const bool seen = sees(kind, s, i, j / step) == (j % step == 0);
            const int64_t at = i * mask.stride[2] + j;
            if (is_float)
                ((float *)mask.data)[at] = seen ? 0.0f : -INFINITY;
            else
                ((uint8_t *)mask.data)[at] = seen;
        }
    mask.shape[3] = s->kv_len;
    mask.stride[3] = step;
    return mask;
}

static void check_kind(const struct attn_kernels *kernels, const struct attention_sizes *s,
                       enum kind kind, bool is_float, unsigned outputs)
{
    struct attention_case scanned, gathered;
    struct attention_case *cases[] = { &scanned, &gathered };

    for (int i = 0; i < 2; i++) {
        attention_case_init(cases[i], s, LAYOUT_DENSE, 11);
        cases[i]->problem.kernels = kernels;
        cases[i]->problem.mask = mask_of(cases[i], kind, is_float, s, i + 1);
        attention_case_outputs(cases[i], outputs, LAYOUT_DENSE);
        attention_run(&cases[i]->problem);
    }
    for (int o = 0; o < OUT_COUNT; o++) {
        const struct attn_tensor *x = attention_output(&scanned.problem, o);
        const struct attn_tensor *y = attention_output(&gathered.problem, o);
        if (x->data != NULL && attention_differing_bits(x, y) > 0)
            fail_msg("%s, kind %d%s: %s has other bits", attn_kernels_name(kernels), kind,
                     is_float ? ", floats" : "", attention_output_name(o));
    }
    attention_case_free(&scanned);
    attention_case_free(&gathered);
}

TEST(scanned_as_gathered)
{
    static const unsigned outputs[] = { OUT_CONTEXT | OUT_LSE, OUT_CONTEXT | OUT_LSE | OUT_WEIGHTS,
                                        OUT_ALL };
    uint64_t n = 0;
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int s = 0; s < SIZE_COUNT; s++)
                for (int o = 0; o < 3; o++)
                    for (int is_float = 0; is_float <= 1; is_float++)
                        if (problem_is_tried(n++))
                            check_kind(*k, &SIZES[s], kind, is_float, outputs[o]);
}

/* Returns count floats that end where readable memory ends. */
static float *floats_at_the_end(struct guard_buffer *memory, int64_t count)
{
    *memory = guard_alloc((size_t)count * sizeof(float));
    float *numbers = memory->data;
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (float)(i % 7) - 3.0f;
    return numbers;
}

/* There are two tiles of keys, and only the first is in memory: the mask hides the second from
 * all. */
TEST(hidden_blocks_are_not_read)
{
    enum { ROWS_COUNT = 70, HERE = 96, KEYS = 192, DIM = 16 };
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for (int is_float = 0; is_float <= 1; is_float++) {
            const struct attention_sizes s = { 1, 1, 1, ROWS_COUNT, KEYS, DIM, DIM };
            struct guard_buffer key, value;
            struct attention_case c;
            attention_case_init(&c, &s, LAYOUT_DENSE, 3);
            c.problem.kernels = *k;
            c.problem.mask = mask_of(&c, HOLES, is_float, &s, 1);
            c.problem.key.data = floats_at_the_end(&key, HERE * DIM);
            c.problem.value.data = floats_at_the_end(&value, HERE * DIM);
            attention_case_outputs(&c, OUT_CONTEXT | OUT_LSE, LAYOUT_DENSE);
            attention_run(&c.problem);
            for (int64_t i = 0; i < ROWS_COUNT; i++) {
                const float lse = *attention_at(&c.problem.lse, 0, 0, i, 0);
                assert_true(i % 5 == 2 ? lse == -INFINITY : isfinite(lse));
            }
            attention_case_free(&c);
            guard_free(&key);
            guard_free(&value);
        }
}
