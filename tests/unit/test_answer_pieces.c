/* SPDX-License-Identifier: Apache-2.0 */
/* test_answer_pieces.c - a text with tensors in it has the same bytes whether it is written at
 * once or in pieces, for any shapes and dtypes. If there is no memory for it, that is a fault. */
#include "call/answer_pieces.h"
#include "test.h"

#include "base/dtype.h"

enum { NUMBERS = 300000 };

static float *floats;
static double *doubles;
static int64_t *integers;
static uint16_t *halves, *bfloats;

static int set_up(void **state)
{
    floats = malloc(NUMBERS * sizeof *floats);
    doubles = malloc(NUMBERS * sizeof *doubles);
    integers = malloc(NUMBERS * sizeof *integers);
    halves = malloc(NUMBERS * sizeof *halves);
    bfloats = malloc(NUMBERS * sizeof *bfloats);
    for (int i = 0; i < NUMBERS; i++) {
        const uint32_t bits = (uint32_t)i * 2654435761u; /* of every exponent, and not finite */
        memcpy(&floats[i], &bits, sizeof bits);
        doubles[i] = sin(i) * pow(10, i % 600 - 300);
        integers[i] = (int64_t)((uint64_t)i * UINT64_C(0x9e3779b97f4a7c15)) >> i % 60;
    }
    doubles[7] = NAN;
    integers[7] = INT64_MIN;
    dtype_write(halves, ATTN_F16, floats, NUMBERS);
    dtype_write(bfloats, ATTN_BF16, floats, NUMBERS);
    return 0;
}

static int tear_down(void **state)
{
    free(floats);
    free(doubles);
    free(integers);
    free(halves);
    free(bfloats);
    return 0;
}

struct tensor {
    const void *values;
    enum attn_dtype dtype;
    bool is_integers;
    int rank;
    int64_t shape[4];
};

static void write_text(struct text *text, const struct tensor *tensors, int count)
{
    text_raw(text, "{\"head\":true");
    for (int i = 0; i < count; i++) {
        struct tensor_text tensor = tensor_text_make(tensors[i].values, tensors[i].dtype,
                                                     tensors[i].rank, tensors[i].shape);
        tensor.is_integers = tensors[i].is_integers;
        text_raw(text, i % 3 == 2 ? ",\"a longer name\":" : ",");
        text_numbers(text, &tensor);
    }
    text_raw(text, "}\n");
}

/* Backwards, as tasks may run in any order. */
static void assert_same(const struct tensor *tensors, int count, int64_t pieces_least)
{
    struct text whole, text;
    struct answer_pieces pieces = { .count = 0 };
    struct fault fault;
    text_init(&whole, SIZE_MAX);
    text_init(&text, SIZE_MAX);
    write_text(&whole, tensors, count);
    text.deferred = &pieces.deferred;
    write_text(&text, tensors, count);
    assert_true(answer_pieces_cut(&pieces, &text, 0, &fault));
    assert_true(pieces.count >= pieces_least);
    for (int64_t i = pieces.count - 1; i >= 0; i--)
        answer_pieces_write(&pieces, &text, i);
    assert_int_equal(answer_pieces_bytes(&pieces), whole.used);
    size_t at = 0;
    for (int64_t i = 0; i < pieces.count; i++) {
        assert_memory_equal(pieces.parts[i].data, whole.data + at, pieces.parts[i].size);
        at += pieces.parts[i].size;
    }
    answer_pieces_free(&pieces);
    text_free(&text);
    text_free(&whole);
}

TEST(dtypes)
{
    const struct tensor tensors[] = {
        { floats, ATTN_F32, false, 2, { 300, 1000 } },
        { halves, ATTN_F16, false, 1, { 200000 } },
        { bfloats, ATTN_BF16, false, 1, { 70000 } },
        { doubles, ATTN_F64, false, 1, { 20000 } },
        { integers, ATTN_F32, true, 3, { 10, 100, 100 } },
    };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        assert_same(&tensors[i], 1, 2);
    assert_same(tensors, sizeof tensors / sizeof tensors[0], 5);
}

TEST(shapes)
{
    const struct tensor tensors[] = {
        { floats, ATTN_F32, false, 1, { 65536 } },
        { floats, ATTN_F32, false, 1, { 65537 } },
        { floats, ATTN_F32, false, 2, { 131072, 1 } },
        { floats, ATTN_F32, false, 3, { 70000, 1, 1 } },
        { floats, ATTN_F32, false, 3, { 2, 7, 9001 } },
        { floats, ATTN_F32, false, 4, { 2, 3, 5, 4000 } },
        { floats, ATTN_F32, false, 4, { 1, 1, 1, 90000 } },
        { floats, ATTN_F32, false, 4, { 90000, 1, 1, 1 } },
        { floats, ATTN_F32, false, 3, { 16, 64, 64 } },
        { floats, ATTN_F32, false, 2, { 256, 256 } },
    };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        assert_same(&tensors[i], 1, 1);
}

/* Many tensors in a piece: long ones, short ones that are written at once, and empty ones. */
TEST(many)
{
    enum { COUNT = 700 };
    static struct tensor tensors[COUNT];
    for (int i = 0; i < COUNT; i++)
        tensors[i] = (struct tensor){ floats + i, ATTN_F32, false, 2, { i % 40, i * 7 % 60 } };
    assert_same(tensors, COUNT, 4);
    tensors[COUNT - 1] = (struct tensor){ floats, ATTN_F32, false, 1, { 250000 } };
    tensors[COUNT / 2] = (struct tensor){ floats, ATTN_F32, false, 1, { 100000 } };
    assert_same(tensors, COUNT, 9);
    assert_same(tensors, 20, 0);
}

/* More bytes than the size from which memory is asked for in large pages. */
TEST(large)
{
    static struct tensor tensors[9];
    for (int i = 0; i < 9; i++)
        tensors[i] = (struct tensor){ floats, ATTN_F32, false, 2, { 1000, 300 } };
    assert_same(tensors, 9, 40);
}

TEST(no_gaps)
{
    const struct tensor tensor = { floats, ATTN_F32, false, 1, { 20 } };
    struct answer_pieces pieces = { .count = 0 };
    struct text text;
    struct fault fault;
    text_init(&text, SIZE_MAX);
    text.deferred = &pieces.deferred;
    write_text(&text, &tensor, 1);
    assert_true(answer_pieces_cut(&pieces, &text, 0, &fault));
    assert_int_equal(pieces.count, 0);
    assert_true(text.used > 0);
    answer_pieces_free(&pieces);
    text_free(&text);
}

/* If the budget is smaller than the text needs, by any amount, that is a fault, and nothing
 * stays reserved. */
TEST(budget)
{
    const struct tensor tensor = { floats, ATTN_F32, false, 2, { 300, 1000 } };
    int refused = 0, taken = 0;
    for (size_t budget = 0; budget < ((size_t)8 << 20); budget += 100000) {
        struct answer_pieces pieces = { .count = 0 };
        struct memory_share share = { 0 };
        struct text text;
        struct fault fault = { .code = FAULT_NONE };
        memory_budget_limit(budget);
        text_init(&text, SIZE_MAX);
        text.memory = &share;
        text.deferred = &pieces.deferred;
        write_text(&text, &tensor, 1);
        if (answer_pieces_cut(&pieces, &text, 0, &fault)) {
            taken++;
            assert_true(share.bytes <= budget);
            answer_pieces_write(&pieces, &text, 0);
        } else {
            refused++;
            assert_int_equal(fault.code, FAULT_MEMORY);
            assert_int_equal(pieces.count, 0);
        }
        answer_pieces_free(&pieces);
        text_free(&text);
        memory_return_all(&share);
    }
    memory_budget_limit(SIZE_MAX);
    assert_true(refused > 10 && taken > 10);
}

/* Stretches of any length, one behind the other. */
TEST(stretches)
{
    const int64_t shape[] = { 3, 4, 5 };
    const struct tensor_text tensor = tensor_text_make(floats, ATTN_F32, 3, shape);
    struct text whole;
    text_init(&whole, SIZE_MAX);
    text_numbers(&whole, &tensor);
    for (int64_t step = 1; step <= tensor.count; step++) {
        char bytes[60 * TENSOR_TEXT_NUMBER_BYTES_MAX];
        size_t used = 0;
        for (int64_t first = 0; first < tensor.count; first += step) {
            const int64_t left = tensor.count - first, some = left < step ? left : step;
            const size_t written = tensor_text_write(&tensor, first, some, bytes + used);
            assert_true(written <= tensor_text_bytes(&tensor, some));
            assert_true(written <= (size_t)some * tensor_text_number_bytes(&tensor));
            used += written;
        }
        assert_int_equal(used, whole.used);
        assert_memory_equal(bytes, whole.data, used);
    }
    text_free(&whole);
}

ALL_TESTS(set_up, tear_down);
