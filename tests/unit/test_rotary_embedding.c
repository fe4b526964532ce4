/* SPDX-License-Identifier: Apache-2.0 */
/* test_rotary_embedding.c - the operator RotaryEmbedding beyond ONNX's own cases: views of every
 * stride, in place, what is refused, and that it turns as a layer does. */
#include "attention_case.h"
#include "rope.h"
#include "test.h"

enum { BATCH = 2, HEADS = 3, LENGTH = 5, COLUMNS = 10, POSITIONS = 7 };
enum { COUNT = BATCH * HEADS * LENGTH * COLUMNS, CACHE = BATCH * LENGTH * COLUMNS };

struct operator_case {
    struct attn_rotary_embedding rotary;
    float input[COUNT], output[COUNT], cosines[CACHE], sines[CACHE];
    int64_t ids[BATCH * LENGTH];
};

static void operator_case_init(struct operator_case *c, uint64_t seed)
{
    struct fill fill = { seed };
    fill_floats(&fill, c->input, COUNT, -1, 1);
    fill_floats(&fill, c->output, COUNT, -1, 1);
    fill_floats(&fill, c->cosines, CACHE, -1, 1);
    fill_floats(&fill, c->sines, CACHE, -1, 1);
    for (int i = 0; i < BATCH * LENGTH; i++)
        c->ids[i] = fill_below(&fill, POSITIONS);
    c->rotary = (struct attn_rotary_embedding){
        .input = attn_tensor_dense(c->input, ATTN_F32, BATCH, HEADS, LENGTH, COLUMNS),
        .output =
            attn_tensor_rows(c->output, ATTN_F32, BATCH, HEADS, LENGTH, COLUMNS, HEADS * COLUMNS),
        .cos_cache = c->cosines,
        .sin_cache = c->sines,
        .position_ids = c->ids,
        .position_count = POSITIONS,
    };
}

/* As the operator's text says: x1 and x2 are the halves of the first dim columns, or the even
 * and odd ones of them. */
static double expected(const struct operator_case *c, int64_t b, int64_t h, int64_t i, int64_t d)
{
    const struct attn_rotary_embedding *r = &c->rotary;
    const int64_t dim = r->dim ? r->dim : COLUMNS, half = dim / 2;
    const float *row = attention_at(&r->input, b, h, i, 0);
    if (d >= dim)
        return (double)row[d];
    const int64_t pair = r->interleaved ? d / 2 : d % half;
    const bool is_second = r->interleaved ? d % 2 != 0 : d >= half;
    const double x1 = (double)row[r->interleaved ? 2 * pair : pair];
    const double x2 = (double)row[r->interleaved ? 2 * pair + 1 : pair + half];
    const int64_t at = b * LENGTH + i;
    const int64_t angle = (r->position_ids ? r->position_ids[at] : at) * half + pair;
    const double cosine = (double)c->cosines[angle], sine = (double)c->sines[angle];
    return is_second ? sine * x1 + cosine * x2 : cosine * x1 - sine * x2;
}

static void check_output(const struct operator_case *c, const struct attn_tensor *output)
{
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t i = 0; i < LENGTH; i++)
                for (int64_t d = 0; d < COLUMNS; d++)
                    assert_true(
                        fabs((double)*attention_at(output, b, h, i, d) - expected(c, b, h, i, d))
                        <= 3e-7);
}

TEST(options)
{
    static const int64_t DIMS[] = { 0, 2, 6, COLUMNS };
    for (int k = 0; k < 16; k++) {
        struct operator_case c;
        operator_case_init(&c, (uint64_t)k);
        c.rotary.dim = DIMS[k % 4];
        c.rotary.interleaved = k / 4 % 2 != 0;
        if (k / 8 != 0)
            c.rotary.position_ids = NULL;
        assert_int_equal(attn_rotary_embedding(&c.rotary, NULL), ATTN_OK);
        check_output(&c, &c.rotary.output);
        /* In place, the bits are the same. */
        struct operator_case same;
        operator_case_init(&same, (uint64_t)k);
        struct attn_rotary_embedding in_place = c.rotary;
        in_place.input = attn_tensor_dense(same.input, ATTN_F32, BATCH, HEADS, LENGTH, COLUMNS);
        in_place.output = in_place.input;
        assert_int_equal(attn_rotary_embedding(&in_place, NULL), ATTN_OK);
        assert_int_equal(attention_differing_bits(&in_place.output, &c.rotary.output), 0);
    }
}

/* The input has stride 0 over heads. The output has gaps, in which nothing may be written. */
TEST(strides)
{
    enum { ROW = COLUMNS + 3 };
    static float gaps[BATCH * HEADS * LENGTH * ROW];
    struct operator_case c;
    operator_case_init(&c, 99);
    memset(gaps, 0xA5, sizeof gaps);
    c.rotary.input.stride[1] = 0;
    c.rotary.output = (struct attn_tensor){
        .data = gaps,
        .dtype = ATTN_F32,
        .shape = { BATCH, HEADS, LENGTH, COLUMNS },
        .stride = { HEADS * LENGTH * ROW, LENGTH * ROW, ROW, 1 },
    };
    assert_int_equal(attn_rotary_embedding(&c.rotary, NULL), ATTN_OK);
    check_output(&c, &c.rotary.output);
    for (int64_t r = 0; r < BATCH * HEADS * LENGTH; r++)
        for (int64_t d = COLUMNS; d < ROW; d++) {
            uint32_t bits;
            memcpy(&bits, &gaps[r * ROW + d], sizeof bits);
            assert_int_equal(bits, 0xA5A5A5A5u);
        }
}

/* With the cosines and sines of a position, the operator does what a layer does, except that
 * they are rounded to float. */
TEST(as_a_layer)
{
    for (int k = 0; k < 4; k++) {
        const struct attn_rope rope = {
            .dim = k / 2 ? 6 : COLUMNS,
            .theta = 500,
            .interleaved = k % 2 != 0,
            .scaling = { .type = ATTN_ROPE_LINEAR, .factor = 3 },
        };
        struct operator_case c;
        operator_case_init(&c, (uint64_t)(50 + k));
        c.rotary.input = c.rotary.output;
        memcpy(c.input, c.output, sizeof c.input);
        c.rotary.dim = rope.dim;
        c.rotary.interleaved = rope.interleaved;
        for (int i = 0; i < BATCH * LENGTH; i++)
            c.ids[i] = i % LENGTH + 2;
        for (int64_t p = 0; p < POSITIONS; p++)
            for (int64_t pair = 0; pair < rope.dim / 2; pair++) {
                const double angle = (double)p * attn_rope_frequency(&rope, pair, 0);
                c.cosines[p * rope.dim / 2 + pair] = (float)cos(angle);
                c.sines[p * rope.dim / 2 + pair] = (float)sin(angle);
            }
        assert_int_equal(attn_rotary_embedding(&c.rotary, NULL), ATTN_OK);
        for (int64_t b = 0; b < BATCH; b++) {
            const struct attn_rope_rows rows = {
                .data = c.input + b * LENGTH * HEADS * COLUMNS,
                .row_stride = HEADS * COLUMNS,
                .row_count = LENGTH,
                .heads = HEADS,
                .head_dim = COLUMNS,
                .first_position = 2,
            };
            attn_rope_rotate(&rope, &rows);
        }
        for (int i = 0; i < COUNT; i++)
            assert_true(fabs((double)c.input[i] - (double)c.output[i]) <= 2e-7);
    }
}

static void expect_refusal(const struct operator_case *c, enum attn_status status,
                           const char *field)
{
    const char *where = "";
    float before[COUNT];
    memcpy(before, c->output, sizeof before);
    assert_int_equal(attn_rotary_embedding(&c->rotary, &where), status);
    assert_string_equal(where, field);
    assert_memory_equal(before, c->output, sizeof before);
    assert_int_equal(attn_rotary_embedding(&c->rotary, NULL), status);
}

TEST(refused)
{
    struct operator_case c;
#define REFUSED(change, status, field)                                                             \
    operator_case_init(&c, 1);                                                                     \
    change;                                                                                        \
    expect_refusal(&c, status, field)
    REFUSED(c.rotary.input.data = NULL, ATTN_ERR_NO_DATA, "input.data");
    REFUSED(c.rotary.output.data = NULL, ATTN_ERR_NO_DATA, "output.data");
    REFUSED(c.rotary.cos_cache = NULL, ATTN_ERR_NO_DATA, "cos_cache");
    REFUSED(c.rotary.sin_cache = NULL, ATTN_ERR_NO_DATA, "sin_cache");
    REFUSED(c.rotary.input.dtype = ATTN_F16, ATTN_ERR_DTYPE, "input.dtype");
    REFUSED(c.rotary.output.dtype = ATTN_F64, ATTN_ERR_DTYPE, "output.dtype");
    REFUSED(c.rotary.output.shape[2] = 4, ATTN_ERR_SHAPE, "output.shape[2]");
    REFUSED(c.rotary.output.stride[1] = 0, ATTN_ERR_STRIDE, "output.stride[1]");
    REFUSED(c.rotary.dim = 3, ATTN_ERR_OPTION, "dim");
    REFUSED(c.rotary.dim = COLUMNS + 2, ATTN_ERR_OPTION, "dim");
    REFUSED(c.rotary.dim = -2, ATTN_ERR_OPTION, "dim");
    REFUSED(c.rotary.input.shape[3] = c.rotary.output.shape[3] = 9, ATTN_ERR_OPTION, "dim");
    REFUSED(c.ids[LENGTH + 1] = -1, ATTN_ERR_LENGTH, "position_ids");
    REFUSED(c.ids[BATCH * LENGTH - 1] = POSITIONS, ATTN_ERR_LENGTH, "position_ids");
    /* No work is not a fault. */
    operator_case_init(&c, 1);
    c.rotary.input.shape[2] = c.rotary.output.shape[2] = 0;
    assert_int_equal(attn_rotary_embedding(&c.rotary, NULL), ATTN_OK);
}
