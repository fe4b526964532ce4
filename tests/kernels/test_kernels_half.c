/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels_half.c - 16-bit numbers to float and back, on every table of kernels: all
 * numbers, all points where the rounding changes, and all lengths around the vectors. */
#include "buffers.h"
#include "number.h"
#include "test.h"

enum { HALVES = 1 << 16 };

struct direction {
    enum attn_dtype dtype;
    void (*widen)(float *to, const uint16_t *from, int64_t n);
    void (*narrow)(uint16_t *to, const float *from, int64_t n);
};

typedef void (*check_fn)(const struct direction *direction, int64_t lanes);

static void for_all(check_fn check)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++) {
        const struct direction directions[] = {
            { ATTN_F16, (*k)->widen_f16, (*k)->narrow_f16 },
            { ATTN_BF16, (*k)->widen_bf16, (*k)->narrow_bf16 },
        };
        for (int i = 0; i < 2; i++)
            check(&directions[i], (*k)->lanes);
    }
}

static uint16_t rounded(enum attn_dtype dtype, float number)
{
    uint16_t half;
    number_set(&half, dtype, 0, (double)number);
    return half;
}

static float bits_of(uint32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static uint32_t number_of(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* All 16-bit numbers become what their definition says, with their sign, and come back. */
static void check_all(const struct direction *direction, int64_t lanes)
{
    (void)lanes;
    static uint16_t halves[HALVES], back[HALVES];
    static float floats[HALVES];
    for (int i = 0; i < HALVES; i++)
        halves[i] = (uint16_t)i;
    direction->widen(floats, halves, HALVES);
    direction->narrow(back, floats, HALVES);
    for (int i = 0; i < HALVES; i++) {
        const double want = number_get(halves, direction->dtype, i);
        assert_true(buffers_same(floats[i], (float)want));
        assert_true(!signbit(floats[i]) == !(i & 0x8000));
        if (isnan(want))
            assert_true(isnan(number_get(back, direction->dtype, i)));
        else
            assert_int_equal(back[i], halves[i]);
    }
}

TEST(all)
{
    for_all(check_all);
}

/* Each number of 16 bits, the middle to the next one, and the floats beside both. */
static void check_rotations(const struct direction *direction, int64_t lanes)
{
    (void)lanes;
    for (int i = 0; i < HALVES; i++) {
        const uint16_t three[3] = { (uint16_t)(i - 1), (uint16_t)i, (uint16_t)(i + 1) };
        const double here = number_get(three, direction->dtype, 1);
        double next = number_get(three, direction->dtype, 2);
        if (!isfinite(here))
            continue;
        if (!isfinite(next)) /* past the greatest number the exponents go on */
            next = here + (here - number_get(three, direction->dtype, 0));
        const float middle = (float)((here + next) / 2);
        float given[6] = { (float)here, middle };
        for (uint32_t side = 0; side < 2; side++) {
            given[2 + side] = bits_of(number_of((float)here) + (side ? 1 : UINT32_MAX));
            given[4 + side] = bits_of(number_of(middle) + (side ? 1 : UINT32_MAX));
        }
        uint16_t got[6];
        direction->narrow(got, given, 6);
        for (int k = 0; k < 6; k++)
            if (!isnan(given[k]) && got[k] != rounded(direction->dtype, given[k]))
                fail_msg("%a became %04x, want %04x", (double)given[k], got[k],
                         rounded(direction->dtype, given[k]));
    }
}

TEST(turns)
{
    for_all(check_rotations);
}

/* Any bits at all. */
static void check_random(const struct direction *direction, int64_t lanes)
{
    (void)lanes;
    struct fill fill = { 7 };
    for (int i = 0; i < 4000; i++) {
        float given[16];
        uint16_t got[16];
        for (int k = 0; k < 16; k++)
            given[k] = bits_of((uint32_t)fill_bits(&fill));
        direction->narrow(got, given, 16);
        for (int k = 0; k < 16; k++) {
            const double number = number_get(got, direction->dtype, k);
            assert_true(isnan(given[k]) ? isnan(number)
                                        : got[k] == rounded(direction->dtype, given[k]));
        }
    }
}

TEST(random)
{
    for_all(check_random);
}

/* Nothing past the end is read or written. */
static void check_lengths(const struct direction *direction, int64_t lanes)
{
    for (int64_t n = 0; n <= 3 * lanes + 1; n++) {
        struct guard_buffer halves = guard_alloc((size_t)n * sizeof(uint16_t));
        uint16_t *half = halves.data;
        float *floats = buffers_floats(n);
        for (int64_t i = 0; i < n; i++)
            number_set(half, direction->dtype, i, (double)i - 1.5);
        direction->widen(floats, half, n);
        memset(half, 0, (size_t)n * sizeof *half);
        direction->narrow(half, floats, n);
        for (int64_t i = 0; i < n; i++) {
            assert_true((double)floats[i] == (double)i - 1.5);
            assert_true(number_get(half, direction->dtype, i) == (double)i - 1.5);
        }
        guard_free(&halves);
        buffers_free();
    }
}

TEST(lengths)
{
    for_all(check_lengths);
}
