/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels_rows.c - the kernels that look for the greatest numbers of a row. They look at
 * scores in place of weights, so a greater score must never have a smaller weight. */
#include "buffers.h"
#include "test.h"

enum { N_MAX = 330 };

/* Numbers of few values, so that many are equal, or of many; some NaN and some -INFINITY. */
static float *make_row(int64_t n, int kind)
{
    struct fill fill = { (uint64_t)(n * 4 + kind) };
    float *row = buffers_filled(&fill, n, -3, 3);
    for (int64_t j = 0; j < n; j++) {
        if (kind % 2 == 1)
            row[j] = roundf(row[j]);
        if (kind >= 2 && fill_below(&fill, 4) == 0)
            row[j] = fill_below(&fill, 2) == 0 ? NAN : -INFINITY;
    }
    return row;
}

static void for_all(void (*check)(const struct attn_kernels *kernels, int64_t n, int kind))
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (buffers_shift = 0; buffers_shift <= 1; buffers_shift++)
            for (int64_t n = 0; n <= N_MAX; n += n < 70 ? 1 : 13)
                for (int kind = 0; kind < 4; kind++) {
                    check(*k, n, kind);
                    buffers_free();
                }
}

/* -------------------------------------------------------------------- greatest_of_cells -- */

static void check_cells(const struct attn_kernels *kernels, int64_t n, int kind)
{
    const int64_t counts[] = { 1, 2, 3, n / 17, n / 5, n / 2, n };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const int64_t cells = counts[i];
        if (cells < 1 || cells > n)
            continue;
        float want[N_MAX];
        float *row = make_row(n, kind);
        float *greatest = buffers_floats(cells);
        for (int64_t c = 0; c < cells; c++)
            want[c] = -INFINITY;
        for (int64_t j = 0; j < n; j++)
            want[j * cells / n] = fmaxf(want[j * cells / n], row[j]);
        kernels->greatest_of_cells(greatest, row, n, cells);
        for (int64_t c = 0; c < cells; c++)
            assert_true(greatest[c] == want[c]);
        kernels->greatest_of_cells(row, row, n, cells);
        assert_memory_equal(row, greatest, (size_t)cells * sizeof *row);
        buffers_free();
    }
}

TEST(cells)
{
    for_all(check_cells);
}

/* -------------------------------------------------------------------- bound_of_greatest -- */

static int64_t count_reaching(const float *row, int64_t n, float bound)
{
    int64_t count = 0;
    for (int64_t j = 0; j < n; j++)
        count += row[j] >= bound;
    return count;
}

static void check_bound(const struct attn_kernels *kernels, int64_t n, int kind)
{
    static const int64_t ks[] = { 1, 2, 7, 8, 9, 16, 17, 31, ATTN_BOUND_MAX };
    const float *row = make_row(n, kind);
    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
        const float bound = kernels->bound_of_greatest(row, n, ks[i]);
        assert_false(isnan(bound));
        if (bound > -INFINITY)
            assert_in_range(count_reaching(row, n, bound), ks[i], n);
        else /* there are 64 groups at the most */
            assert_true(kind >= 2 || n < 64);
    }
}

TEST(bound)
{
    for_all(check_bound);
}

/* Few numbers reach the bound. A number that all of them reach would be a bound too. */
TEST(bound_is_near)
{
    enum { LENGTH = 2048, ROWS = 100 };
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int64_t rank = 1; rank <= ATTN_BOUND_MAX; rank++) {
            struct fill fill = { (uint64_t)rank };
            int64_t count = 0;
            for (int i = 0; i < ROWS; i++) {
                const float *row = buffers_filled(&fill, LENGTH, -1, 1);
                count += count_reaching(row, LENGTH, (*k)->bound_of_greatest(row, LENGTH, rank));
                buffers_free();
            }
            assert_in_range(count, rank * ROWS, 2 * rank * ROWS);
        }
}

/* ------------------------------------------------------------------------ find_reaching -- */

static void check_reaching(const struct attn_kernels *kernels, int64_t n, int kind)
{
    static const float bounds[] = { -INFINITY, -1, 0, 2.5f, 3, INFINITY };
    const float *row = make_row(n, kind);
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        const int64_t want = count_reaching(row, n, bounds[i]);
        int64_t places[N_MAX + 1];
        for (int64_t room = want > 2 ? want - 2 : 0; room <= want + 1; room++) {
            const int64_t filled = room < want ? room : want;
            for (int64_t j = 0; j <= N_MAX; j++)
                places[j] = -1;
            assert_int_equal(kernels->find_reaching(places, room, row, n, bounds[i]),
                             room < want ? room + 1 : want);
            int64_t at = 0;
            for (int64_t j = 0; j < n && at < filled; j++)
                if (row[j] >= bounds[i])
                    assert_int_equal(places[at++], j);
            assert_int_equal(places[filled], -1);
        }
    }
}

TEST(reaching)
{
    for_all(check_reaching);
}

/* -------------------------------------------------------------------------- the order -- */

enum { RUN = 4096 };

/* The weights of RUN floats one after the other, from the float with these bits downwards. */
static float check_order(const struct attn_kernels *kernels, uint32_t bits, float above)
{
    static float row[RUN];
    for (uint32_t i = 0; i < RUN; i++) {
        const uint32_t number = bits + i;
        memcpy(&row[i], &number, sizeof number);
    }
    kernels->weights_row(row, 0.0f, 3.0f, RUN);
    for (int64_t i = 0; i < RUN; i++) {
        assert_true(row[i] <= above);
        above = row[i];
    }
    return above;
}

/* Goes from -0 past the least number that has a weight. It takes one run in 256, or all of them
 * where ATTND_TEST_FLOATS is set. */
TEST(order_of_weights)
{
    const uint32_t step = getenv("ATTND_TEST_FLOATS") ? RUN : 256 * RUN;
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++) {
        float above = INFINITY;
        for (uint32_t bits = 0x80000000u; bits < 0xc2c00000u; bits += step)
            above = check_order(*k, bits, above);
        assert_true(above == 0.0f);
    }
}
