/* SPDX-License-Identifier: Apache-2.0 */
/* test_init.c - the generator's published answers, and parameters that are uniform within their
 * bound. */
#include "base/random.h"
#include "linear.h"
#include "test.h"

/* Random123's tests/kat_vectors, philox4x32 of 10 rounds: counter, key, answer. */
static const struct {
    uint64_t low, high, seed;
    uint32_t bits[4];
} KNOWN[] = {
    { 0, 0, 0, { 0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8 } },
    { UINT64_MAX, UINT64_MAX, UINT64_MAX, { 0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD } },
    { 0x85A308D3243F6A88,
      0x0370734413198A2E,
      0x299F31D0A4093822,
      { 0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1 } },
};

TEST(philox)
{
    for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++) {
        uint32_t bits[4];
        attn_philox(KNOWN[i].seed, KNOWN[i].low, KNOWN[i].high, bits);
        for (int j = 0; j < 4; j++)
            assert_true(bits[j] == KNOWN[i].bits[j]);
    }
}

/* The first four numbers under seed 0, from the generator's published answer. */
TEST(first_numbers)
{
    float values[4];
    attn_init_glorot(values, 4, 3, 5, 0, 0);
    for (int i = 0; i < 4; i++) {
        const double unit = ((double)(KNOWN[0].bits[i] >> 8) + 0.5) / 16777216.0;
        assert_true(values[i] == (float)(sqrt(6.0 / 8.0) * (2.0 * unit - 1.0)));
    }
}

/* Mean 0, variance bound^2 / 3, both ends nearly reached. */
TEST(uniform)
{
    enum { COUNT = 100000 };
    static float values[COUNT];
    static const int64_t sizes[][2] = { { 1, 1 }, { 64, 64 }, { 512, 8 }, { 1, 1000 } };
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const double bound = sqrt(6.0 / (double)(sizes[s][0] + sizes[s][1]));
        double sum = 0, squares = 0, least = 0, most = 0;
        attn_init_glorot(values, COUNT, sizes[s][0], sizes[s][1], 42, s);
        for (int i = 0; i < COUNT; i++) {
            const double value = (double)values[i] / bound;
            sum += value;
            squares += value * value;
            least = fmin(least, value);
            most = fmax(most, value);
        }
        assert_true(fabs(sum / COUNT) < 0.01);
        assert_true(fabs(squares / COUNT - 1.0 / 3.0) < 0.01);
        assert_true(least >= -1.000001 && least < -0.999 && most <= 1.000001 && most > 0.999);
    }
}

/* A number depends on its seed, its stream and its index alone. Every seed and every stream has
 * other numbers. */
TEST(streams)
{
    float some[6], more[37], other[37];
    attn_init_glorot(some, 6, 4, 4, 7, 1);
    attn_init_glorot(more, 37, 4, 4, 7, 1);
    for (int i = 0; i < 6; i++)
        assert_true(some[i] == more[i]);
    static const uint64_t others[][2] = {
        { 7, 0 }, { 7, 2 }, { 8, 1 }, { 7, UINT64_C(1) << 40 }, { 7 + (UINT64_C(1) << 40), 1 }
    };
    for (size_t o = 0; o < sizeof others / sizeof others[0]; o++) {
        int equal = 0;
        attn_init_glorot(other, 37, 4, 4, others[o][0], others[o][1]);
        for (int i = 0; i < 37; i++)
            equal += other[i] == more[i];
        assert_int_equal(equal, 0);
    }
}
