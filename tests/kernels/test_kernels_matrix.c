/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels_matrix.c - the kernels of a matrix unit, on the model of its tiles, and on products
 * of vectors: numbers into parts and back, products of parts in any number of pieces, weights and
 * their sums. */
#include "fill.h"
#include "guard.h"
#include "kernel_tables.h"
#include "test.h"

#include "kernels/kernels.h"

#include <float.h>

enum {
    STEP = ATTN_MATRIX_STEP,
    BLOCK = ATTN_MATRIX_BLOCK,
    TILE = ATTN_MATRIX_TILE,
    COLUMNS_MAX = 96,
    BLOCKS_MAX = COLUMNS_MAX / ATTN_MATRIX_COLUMNS,
    NUMBERS = STEP * ATTN_MATRIX_LANES
};

/* Room for all parts of a step, and of a chunk of values. */
static uint16_t left[BLOCKS_MAX * ATTN_MATRIX_CHUNK * ATTN_MATRIX_PARTS_MAX * BLOCK]
    __attribute__((aligned(64)));
static uint16_t right[ATTN_MATRIX_CHUNK * ATTN_MATRIX_PARTS_MAX * BLOCK]
    __attribute__((aligned(64)));
static float scores_t[NUMBERS] __attribute__((aligned(64)));
static float context_t[NUMBERS] __attribute__((aligned(64)));
static float offset[ATTN_MATRIX_LANES] __attribute__((aligned(64)));
static float base[ATTN_MATRIX_LANES] __attribute__((aligned(64)));
static float sums[ATTN_MATRIX_LANES] __attribute__((aligned(64)));

static const struct attn_kernels *(*table_of_unit)(void) = kernel_table_of_model;

static const struct attn_matrix_kernels *kernels_or_skip(void)
{
    const struct attn_kernels *table = table_of_unit();
    if (table == NULL)
        skip();
    return table->matrix;
}

static float float_of(uint16_t number)
{
    const uint32_t bits = (uint32_t)number << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The number whose parts are stride apart. */
static double sum_of_parts(const uint16_t *first, int64_t stride, int parts)
{
    double sum = 0;
    for (int p = 0; p < parts; p++)
        sum += (double)float_of(first[p * stride]);
    return sum;
}

/* Each part is the nearest to what is left, so that it leaves at most half of its last place. */
static void expect_part_sum(double got, float want, int parts, const char *what)
{
    const double error[] = { 0, 0x1p-8, 0x1p-17, 0 };
    if (!(fabs(got - (double)want) <= error[parts] * fabs((double)want)))
        fail_msg("%s in %d parts: %.12g, want %.12g", what, parts, got, (double)want);
}

static struct guard_buffer random_rows(int64_t rows, int64_t stride, uint64_t seed)
{
    struct guard_buffer buffer = guard_alloc((size_t)(rows * stride) * sizeof(float));
    struct fill fill = { seed };
    fill_floats(&fill, buffer.data, rows * stride, -3, 3);
    return buffer;
}

/* --------------------------------------------------------------------------- into parts -- */

static void check_keys(const struct attn_matrix_kernels *kernels, int64_t rows, int64_t columns,
                       int parts)
{
    struct guard_buffer buffer = random_rows(rows, columns, (uint64_t)(rows * 100 + columns));
    const float *from = buffer.data;
    memset(left, 0xFF, sizeof left);
    assert_int_equal(kernels->pack_keys(left, from, columns, rows, columns, parts), 0);
    const int64_t padded = (columns + 31) / 32 * 32;
    for (int64_t j = 0; j < STEP; j++)
        for (int64_t c = 0; c < padded; c++)
            expect_part_sum(
                sum_of_parts(left + c / 32 * parts * BLOCK + j * 32 + c % 32, BLOCK, parts),
                j < rows && c < columns ? from[j * columns + c] : 0.0f, parts, "a key");
    guard_free(&buffer);
}

static void check_queries(const struct attn_matrix_kernels *kernels, int64_t rows, int64_t columns,
                          int parts)
{
    struct guard_buffer buffer = random_rows(rows, columns, (uint64_t)(rows * 200 + columns));
    const float *from = buffer.data;
    memset(left, 0xFF, sizeof left);
    assert_int_equal(kernels->pack_queries(left, from, columns, rows, columns, parts, 0.7f), 0);
    const int64_t padded = (columns + 31) / 32 * 32;
    for (int64_t r = 0; r < ATTN_MATRIX_LANES; r++)
        for (int64_t c = 0; c < padded; c++) {
            const int64_t at =
                c / 32 * parts * BLOCK + r / 16 * TILE + c % 32 / 2 * 32 + r % 16 * 2 + c % 2;
            expect_part_sum(sum_of_parts(left + at, BLOCK, parts),
                            r < rows && c < columns ? from[r * columns + c] * 0.7f : 0.0f, parts,
                            "a query");
        }
    guard_free(&buffer);
}

static void check_values(const struct attn_matrix_kernels *kernels, int64_t rows, int64_t columns,
                         int parts)
{
    struct guard_buffer buffer = random_rows(rows, columns, (uint64_t)(rows * 300 + columns));
    const float *from = buffer.data;
    memset(left, 0xFF, sizeof left);
    assert_false(kernels->pack_values(left, from, columns, rows, columns, parts));
    const int64_t padded = (columns + 31) / 32 * 32;
    for (int64_t j = 0; j < STEP; j++)
        for (int64_t c = 0; c < padded; c++) {
            const int64_t at =
                c / 32 * ATTN_MATRIX_CHUNK * parts * BLOCK + c % 32 / 16 * TILE + c % 16 * 32 + j;
            expect_part_sum(sum_of_parts(left + at, BLOCK, parts),
                            j < rows && c < columns ? from[j * columns + c] : 0.0f, parts,
                            "a value");
        }
    guard_free(&buffer);
}

TEST(parts)
{
    static const int64_t rows[] = { 1, 5, 16, 17, 31, 32 }, columns[] = { 1, 15, 16, 33, 64, 90 };
    for (int r = 0; r < 6; r++)
        for (int c = 0; c < 6; c++)
            for (int parts = 1; parts <= ATTN_MATRIX_PARTS_MAX; parts++) {
                check_keys(kernels_or_skip(), rows[r], columns[c], parts);
                check_queries(kernels_or_skip(), rows[r], columns[c], parts);
                check_values(kernels_or_skip(), rows[r], columns[c], parts);
            }
}

/* Numbers that parts cannot hold are reported by their row, and nowhere else. */
TEST(odd_numbers)
{
    static const float odd[] = { NAN, -NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX };
    const struct attn_matrix_kernels *kernels = kernels_or_skip();
    for (int64_t j = 0; j < STEP; j++)
        for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
            struct guard_buffer buffer = random_rows(STEP, 40, 5);
            ((float *)buffer.data)[j * 40 + (j + 3) % 40] = odd[i];
            const uint32_t bit = (uint32_t)1 << j;
            assert_int_equal(kernels->pack_keys(left, buffer.data, 40, STEP, 40, 3), bit);
            assert_int_equal(kernels->pack_queries(left, buffer.data, 40, STEP, 40, 3, 1.0f), bit);
            assert_true(kernels->pack_values(left, buffer.data, 40, STEP, 40, 3));
            guard_free(&buffer);
        }
}

/* ----------------------------------------------------------------------------- products -- */

static const struct attn_matrix_products SIX = {
    .count = 6,
    .left_parts = 3,
    .right_parts = 3,
    .left = { 0, 0, 1, 1, 2, 0 },
    .right = { 2, 1, 1, 0, 0, 0 },
    .loads_left = { true, false, true, false, true, true },
    .loads_right = { true, true, false, true, false, false },
};

static void expect_score(const float *keys, const float *queries, int64_t j, int64_t r,
                         int64_t columns)
{
    const bool is_one_chain = table_of_unit == kernel_table_of_dots; /* of all six products */
    double want = 0, size = 0;
    for (int64_t c = 0; c < columns; c++) {
        want += (double)keys[j * columns + c] * (double)queries[r * columns + c];
        size += fabs((double)keys[j * columns + c] * (double)queries[r * columns + c]);
    }
    if (!(fabs((double)scores_t[j * ATTN_MATRIX_LANES + r] - want)
          <= (is_one_chain ? 5e-7 : 2e-7) * size))
        fail_msg("score of key %d and lane %d: %.9g, want %.9g", (int)j, (int)r,
                 (double)scores_t[j * ATTN_MATRIX_LANES + r], want);
}

TEST(scores)
{
    const struct attn_matrix_kernels *kernels = kernels_or_skip();
    for (int64_t columns = 8; columns <= COLUMNS_MAX; columns += 29) {
        struct guard_buffer keys = random_rows(STEP, columns, 1);
        struct guard_buffer queries = random_rows(STEP, columns, 2);
        const struct attn_matrix_beside beside = { .score = &SIX,
                                                   .keys = left,
                                                   .queries = right,
                                                   .blocks = (columns + 31) / 32,
                                                   .scores_t = scores_t };
        kernels->pack_keys(left, keys.data, columns, STEP, columns, 3);
        kernels->pack_queries(right, queries.data, columns, STEP, columns, 3, 1.0f);
        kernels->begin();
        kernels->multiply(&beside);
        kernels->end();
        for (int64_t j = 0; j < STEP; j++)
            for (int64_t r = 0; r < ATTN_MATRIX_LANES; r++)
                expect_score(keys.data, queries.data, j, r, columns);
        guard_free(&keys);
        guard_free(&queries);
    }
}

/* ------------------------------------------------------------------------------ weights -- */

/* What parts of weights hold, and the polynomial for them. */
static const double WEIGHT_ERROR[] = { 0, 0x1p-8 + 2e-4, 0x1p-16 + 1e-5, 4e-7 };

static void check_weights(const struct attn_matrix_kernels *kernels, int parts, float to_power)
{
    static const struct attn_matrix_beside nothing = { 0 };
    const struct attn_matrix_weights weights = { right, sums, scores_t, offset, base, to_power };
    struct fill fill = { (uint64_t)parts };
    fill_floats(&fill, scores_t, NUMBERS, -20, 20);
    for (int r = 0; r < ATTN_MATRIX_LANES; r++) {
        offset[r] = (float)(r % 3) * 0.375f;
        base[r] = (float)(r % 7 - 3);
        scores_t[(r + 5) % STEP * ATTN_MATRIX_LANES + r] = -INFINITY;
    }
    kernels->weigh[parts - 1](&weights, &nothing);
    for (int64_t r = 0; r < ATTN_MATRIX_LANES; r++) {
        double sum = 0;
        for (int64_t j = 0; j < STEP; j++) {
            const int64_t at = r / 16 * TILE + j / 2 * 32 + r % 16 * 2 + j % 2;
            const double got = sum_of_parts(right + at, BLOCK, parts);
            const double score = ((double)scores_t[j * ATTN_MATRIX_LANES + r] - (double)offset[r])
                                 * (double)to_power;
            const double want = exp2(score - (double)base[r]);
            if (!(fabs(got - want) <= (WEIGHT_ERROR[parts] + 2e-6) * want))
                fail_msg("weight of %g in %d parts: %.9g, want %.9g", score, parts, got, want);
            sum += got;
        }
        assert_true(fabs((double)sums[r] - sum) <= (parts == 2 ? 0x1p-16 : 4e-7) * sum);
    }
}

TEST(weights)
{
    for (int parts = 1; parts <= ATTN_MATRIX_PARTS_MAX; parts++) {
        check_weights(kernels_or_skip(), parts, 1.0f);
        check_weights(kernels_or_skip(), parts, 0.3f);
    }
}

/* ------------------------------------------------------------------------------ context -- */

enum { SLOTS = 5 };

/* Products of slots, all at once, or some beside weights. steps are those of a chunk. */
static void add_context(const struct attn_matrix_kernels *kernels, const uint16_t *weights,
                        int64_t first, int64_t count, bool beside_weights)
{
    static const uint8_t steps[SLOTS] = { 1, 2, 7, 8, 15 };
    static uint16_t others[ATTN_MATRIX_PARTS_MAX * BLOCK] __attribute__((aligned(64)));
    struct attn_matrix_beside beside = { .context = &SIX,
                                         .values = left,
                                         .weights = weights,
                                         .steps = steps,
                                         .first = first,
                                         .count = count,
                                         .context_t = context_t };
    const struct attn_matrix_weights step = { others, sums, scores_t, offset, base, 1.0f };
    kernels->begin();
    if (beside_weights)
        kernels->weigh[2](&step, &beside);
    else
        kernels->multiply(&beside);
    kernels->end();
}

/* Equal bits, in however many pieces, and beside whatever. */
TEST(context)
{
    const struct attn_matrix_kernels *kernels = kernels_or_skip();
    static uint16_t weights[SLOTS * ATTN_MATRIX_PARTS_MAX * BLOCK] __attribute__((aligned(64)));
    float whole[NUMBERS];
    struct guard_buffer numbers = random_rows(STEP, 32, 9);
    for (int step = 0; step < ATTN_MATRIX_CHUNK; step++)
        kernels->pack_values(left + step * 3 * BLOCK, numbers.data, 32, STEP - step, 32, 3);
    for (int slot = 0; slot < SLOTS; slot++)
        kernels->pack_queries(weights + slot * 3 * BLOCK, numbers.data, 32, STEP - slot, 32, 3,
                              0.1f);
    memset(context_t, 0, sizeof context_t);
    memset(scores_t, 0, sizeof scores_t);
    add_context(kernels, weights, 0, SLOTS, false);
    memcpy(whole, context_t, sizeof whole);
    for (int64_t cut = 1; cut < SLOTS; cut++) {
        memset(context_t, 0, sizeof context_t);
        add_context(kernels, weights, 0, cut, cut % 2 == 0);
        add_context(kernels, weights, cut, SLOTS - cut, cut % 2 != 0);
        assert_memory_equal(context_t, whole, sizeof whole);
    }
    guard_free(&numbers);
}

TEST(greatest)
{
    struct fill fill = { 3 };
    float want[ATTN_MATRIX_LANES];
    fill_floats(&fill, scores_t, NUMBERS, -9, 9);
    for (int r = 0; r < ATTN_MATRIX_LANES; r++) {
        scores_t[r % STEP * ATTN_MATRIX_LANES + r] = NAN;
        want[r] = -INFINITY;
        for (int j = 0; j < STEP; j++)
            want[r] = fmaxf(want[r], scores_t[j * ATTN_MATRIX_LANES + r]);
    }
    kernels_or_skip()->greatest(sums, scores_t);
    assert_memory_equal(sums, want, sizeof want);
}

int main(void)
{
    int failed = test_run("tiles");
    table_of_unit = kernel_table_of_dots;
    failed += test_run("dots");
    return failed;
}
