/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels_mask.c - the kernels that look at the caller's mask, against a loop over its pairs.
 *
 * Masks of every kind of pattern end at an unreadable page, with garbage between their rows. */
#include "buffers.h"
#include "test.h"

enum pattern { ALL, NOTHING, RANDOM, ONE_SEEN, ONE_HIDDEN, LAST_ROW_HIDDEN, PATTERNS };

static bool is_seen(enum pattern pattern, struct fill *fill, int64_t at, int64_t count,
                    int64_t row_length)
{
    switch (pattern) {
    case ALL:
        return true;
    case NOTHING:
        return false;
    case ONE_SEEN:
        return at == count - 1;
    case ONE_HIDDEN:
        return at != count - 1;
    case LAST_ROW_HIDDEN:
        return at < count - row_length;
    default:
        return fill_bits(fill) % 2 == 0;
    }
}

static const int64_t KEYS[] = { 0, 1, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 95, 96, 127, 128 };
static const int64_t ROWS[] = { 1, 2, 15, 16, 17, 33, 63, 64 };
enum { KEYS_COUNT = 16, ROWS_COUNT = 8 };

/* A byte that a caller may write for true. */
static uint8_t true_byte(int64_t at)
{
    static const uint8_t bytes[] = { 1, 1, 255, 2, 128 };
    return bytes[at % 5];
}

static void check_bits(const struct attn_kernels *kernels, enum pattern pattern, int64_t rows,
                       int64_t n)
{
    struct fill fill = { (uint64_t)(rows * 1000 + n) };
    const int64_t stride = n + 3;
    struct guard_buffer mask = guard_alloc((size_t)((rows - 1) * stride + n));
    uint8_t *allowed = mask.data;
    uint64_t want[ATTN_MASK_KEYS_MAX], bits[ATTN_MASK_KEYS_MAX];
    int64_t seen = 0;
    for (int64_t j = 0; j < n; j++)
        want[j] = rows == 64 ? 0 : ~(uint64_t)0 << rows;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j++) {
            const int64_t at = r * n + j;
            const bool sees = is_seen(pattern, &fill, at, rows * n, n);
            allowed[r * stride + j] = sees ? true_byte(at) : 0;
            seen += sees;
            want[j] |= (uint64_t)sees << r;
        }
    const enum attn_sees sees = kernels->mask_bits(bits, allowed, stride, rows, n);
    const enum attn_sees expected = seen == rows * n ? ATTN_SEES_ALL
                                    : seen == 0      ? ATTN_SEES_NOTHING
                                                     : ATTN_SEES_BITS;
    if (sees != expected)
        fail_msg("%s: %" PRId64 " rows of %" PRId64 " keys, %" PRId64 " seen: said %d",
                 kernels->name, rows, n, seen, sees);
    if (sees == ATTN_SEES_BITS)
        assert_memory_equal(bits, want, (size_t)n * sizeof *bits);
    guard_free(&mask);
}

TEST(mask_bits)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int pattern = 0; pattern < PATTERNS; pattern++)
            for (int r = 0; r < ROWS_COUNT; r++)
                for (int j = 0; j < KEYS_COUNT; j++)
                    check_bits(*k, pattern, ROWS[r], KEYS[j]);
}

/* There is garbage between the rows. The last place has a number that is neither 0 nor
 * -INFINITY. */
static void check_floats(const struct attn_kernels *kernels, enum pattern pattern, int64_t rows,
                         int64_t n, float last)
{
    struct fill fill = { (uint64_t)(rows * 1000 + n) };
    const int64_t stride = n + 3;
    float *bias = buffers_rows(&fill, rows, n, stride);
    enum attn_sees want = ATTN_SEES_ALL;
    for (int64_t i = 0; i < rows * n; i++) {
        const bool sees = is_seen(pattern, &fill, i, rows * n, n);
        float number = !sees ? -INFINITY : i % 3 == 0 ? -0.0f : 0.0f;
        if (i == rows * n - 1 && last != 0.0f)
            number = last;
        const enum attn_sees one = number == 0.0f        ? ATTN_SEES_ALL
                                   : number == -INFINITY ? ATTN_SEES_NOTHING
                                                         : ATTN_SEES_BIASES;
        want = i == 0 || one == want ? one : ATTN_SEES_BIASES;
        bias[i / n * stride + i % n] = number;
    }
    const enum attn_sees sees = kernels->mask_floats(bias, stride, rows, n);
    if (sees != want)
        fail_msg("%s: pattern %d, %" PRId64 " rows of %" PRId64 " keys: said %d, want %d",
                 kernels->name, pattern, rows, n, sees, want);
    buffers_free();
}

TEST(mask_floats)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int pattern = 0; pattern < PATTERNS; pattern++)
            for (int r = 0; r < ROWS_COUNT; r++)
                for (int j = 0; j < KEYS_COUNT; j++) {
                    buffers_shift = j % 2;
                    check_floats(*k, pattern, ROWS[r], KEYS[j], 0.0f);
                    check_floats(*k, pattern, ROWS[r], KEYS[j], NAN);
                    check_floats(*k, pattern, ROWS[r], KEYS[j], -2.0f);
                }
}

/* Visible scores keep their bits, NaN among them. Hidden scores may have been anything. */
static void check_tile(const struct attn_kernels *kernels, int64_t width, int64_t n)
{
    struct fill fill = { (uint64_t)(width * 100 + n) };
    float *scores_t = buffers_filled(&fill, n * width, -4, 4);
    uint64_t bits[ATTN_MASK_KEYS_MAX];
    for (int64_t j = 0; j < n; j++)
        bits[j] = j % 5 == 0 ? ~(uint64_t)0 : j % 5 == 1 ? 0 : fill_bits(&fill);
    for (int64_t i = 0; i < n * width; i += 7)
        scores_t[i] = i % 2 == 0 ? NAN : -0.0f;
    float *given = buffers_copy(scores_t, n * width);
    kernels->mask_tile(scores_t, bits, n, width);
    for (int64_t i = 0; i < n * width; i++) {
        const float hidden = -INFINITY;
        const bool sees = bits[i / width] >> (i % width) & 1;
        assert_memory_equal(&scores_t[i], sees ? &given[i] : &hidden, sizeof hidden);
    }
    buffers_free();
}

TEST(mask_tile)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int64_t width = (*k)->lanes; width <= ATTN_WIDTH_MAX; width += (*k)->lanes)
            for (int j = 0; j < KEYS_COUNT; j++) {
                buffers_shift = j % 2;
                check_tile(*k, width, KEYS[j]);
            }
}
