/* SPDX-License-Identifier: Apache-2.0 */
/* test_rope_scaling.c - the frequencies that Hugging Face transformers expects of each rope_type.
 *
 * From tests/utils/test_modeling_rope_utils.py at commit 087e80025678 (Apache-2.0): a head of 128
 * columns, theta 10000, trained for 2048 positions, factor 10; those of dynamic in a call of 16384.
 * The numbers have five digits. Those of longrope are what _compute_longrope_parameters() of
 * src/transformers/modeling_rope_utils.py at commit ef46806472a6 computes, in float32, for the
 * widths of Phi-3-mini-128k. */
#include "rope.h"
#include "test.h"

enum { DIM = 128, PAIRS = DIM / 2 };

static const double DEFAULT[PAIRS] = {
    1.0000e+00, 8.6596e-01, 7.4989e-01, 6.4938e-01, 5.6234e-01, 4.8697e-01, 4.2170e-01, 3.6517e-01,
    3.1623e-01, 2.7384e-01, 2.3714e-01, 2.0535e-01, 1.7783e-01, 1.5399e-01, 1.3335e-01, 1.1548e-01,
    1.0000e-01, 8.6596e-02, 7.4989e-02, 6.4938e-02, 5.6234e-02, 4.8697e-02, 4.2170e-02, 3.6517e-02,
    3.1623e-02, 2.7384e-02, 2.3714e-02, 2.0535e-02, 1.7783e-02, 1.5399e-02, 1.3335e-02, 1.1548e-02,
    1.0000e-02, 8.6596e-03, 7.4989e-03, 6.4938e-03, 5.6234e-03, 4.8697e-03, 4.2170e-03, 3.6517e-03,
    3.1623e-03, 2.7384e-03, 2.3714e-03, 2.0535e-03, 1.7783e-03, 1.5399e-03, 1.3335e-03, 1.1548e-03,
    1.0000e-03, 8.6596e-04, 7.4989e-04, 6.4938e-04, 5.6234e-04, 4.8697e-04, 4.2170e-04, 3.6517e-04,
    3.1623e-04, 2.7384e-04, 2.3714e-04, 2.0535e-04, 1.7783e-04, 1.5399e-04, 1.3335e-04, 1.1548e-04,
};

static const double DYNAMIC[PAIRS] = {
    1.0000e+00, 8.0931e-01, 6.5498e-01, 5.3008e-01, 4.2900e-01, 3.4720e-01, 2.8099e-01, 2.2741e-01,
    1.8404e-01, 1.4895e-01, 1.2055e-01, 9.7558e-02, 7.8955e-02, 6.3899e-02, 5.1714e-02, 4.1853e-02,
    3.3872e-02, 2.7413e-02, 2.2185e-02, 1.7955e-02, 1.4531e-02, 1.1760e-02, 9.5176e-03, 7.7027e-03,
    6.2339e-03, 5.0451e-03, 4.0831e-03, 3.3045e-03, 2.6744e-03, 2.1644e-03, 1.7517e-03, 1.4176e-03,
    1.1473e-03, 9.2852e-04, 7.5146e-04, 6.0817e-04, 4.9220e-04, 3.9834e-04, 3.2238e-04, 2.6091e-04,
    2.1115e-04, 1.7089e-04, 1.3830e-04, 1.1193e-04, 9.0585e-05, 7.3312e-05, 5.9332e-05, 4.8018e-05,
    3.8861e-05, 3.1451e-05, 2.5453e-05, 2.0600e-05, 1.6672e-05, 1.3492e-05, 1.0920e-05, 8.8374e-06,
    7.1522e-06, 5.7883e-06, 4.6845e-06, 3.7912e-06, 3.0683e-06, 2.4832e-06, 2.0097e-06, 1.6265e-06,
};

static const double YARN[PAIRS] = {
    1.0000e+00, 8.6596e-01, 7.4989e-01, 6.4938e-01, 5.6234e-01, 4.8697e-01, 4.2170e-01, 3.6517e-01,
    3.1623e-01, 2.7384e-01, 2.3714e-01, 2.0535e-01, 1.7783e-01, 1.5399e-01, 1.3335e-01, 1.1548e-01,
    1.0000e-01, 8.3479e-02, 6.9590e-02, 5.7925e-02, 4.8136e-02, 3.9931e-02, 3.3061e-02, 2.7315e-02,
    2.2515e-02, 1.8512e-02, 1.5177e-02, 1.2403e-02, 1.0101e-02, 8.1924e-03, 6.6143e-03, 5.3120e-03,
    4.2400e-03, 3.3599e-03, 2.6396e-03, 2.0520e-03, 1.5746e-03, 1.1882e-03, 8.7713e-04, 6.2810e-04,
    4.3007e-04, 2.7384e-04, 2.3714e-04, 2.0535e-04, 1.7783e-04, 1.5399e-04, 1.3335e-04, 1.1548e-04,
    1.0000e-04, 8.6596e-05, 7.4989e-05, 6.4938e-05, 5.6234e-05, 4.8697e-05, 4.2170e-05, 3.6517e-05,
    3.1623e-05, 2.7384e-05, 2.3714e-05, 2.0535e-05, 1.7783e-05, 1.5399e-05, 1.3335e-05, 1.1548e-05,
};

static const double LLAMA3[PAIRS] = {
    1.0000e+00, 8.6596e-01, 7.4989e-01, 6.4938e-01, 5.6234e-01, 4.8697e-01, 4.2170e-01, 3.6517e-01,
    3.1623e-01, 2.7384e-01, 2.3714e-01, 2.0535e-01, 1.7783e-01, 1.5399e-01, 1.3335e-01, 1.1548e-01,
    1.0000e-01, 8.6596e-02, 7.4989e-02, 6.4938e-02, 5.6234e-02, 4.8697e-02, 4.2170e-02, 3.6517e-02,
    3.1623e-02, 2.7384e-02, 2.3714e-02, 2.0535e-02, 1.7783e-02, 1.5399e-02, 1.3335e-02, 1.0730e-02,
    7.7785e-03, 5.6009e-03, 3.9991e-03, 2.8248e-03, 1.9675e-03, 1.3449e-03, 8.9549e-04, 5.7363e-04,
    3.4539e-04, 2.7384e-04, 2.3714e-04, 2.0535e-04, 1.7783e-04, 1.5399e-04, 1.3335e-04, 1.1548e-04,
    1.0000e-04, 8.6596e-05, 7.4989e-05, 6.4938e-05, 5.6234e-05, 4.8697e-05, 4.2170e-05, 3.6517e-05,
    3.1623e-05, 2.7384e-05, 2.3714e-05, 2.0535e-05, 1.7783e-05, 1.5399e-05, 1.3335e-05, 1.1548e-05,
};

enum { PHI_PAIRS = 48 };

/* short_factor 1 + c/64, long_factor 1 + c^2/32; calls of 4096 and of 4097 positions. */
static const double LONGROPE[2][PHI_PAIRS] = {
    { 1,
      0.812705636,
      0.660646856,
      0.537161827,
      0.436855435,
      0.355356455,
      0.289122522,
      0.235281795,
      0.191505283,
      0.15590395,
      0.126944795,
      0.103383683,
      0.0842105299,
      0.0686050206,
      0.0559008941,
      0.0455567613,
      0.0371327065,
      0.0302711073,
      0.0246811919,
      0.0201265123,
      0.0164147429,
      0.0133893974,
      0.0109231565,
      0.0089123873,
      0.00727272732,
      0.00593549199,
      0.00484474283,
      0.0039549279,
      0.00322893169,
      0.00263651507,
      0.00215304014,
      0.001758422,
      0.00143628952,
      0.00117329787,
      0.000958563003,
      0.000783209631,
      0.000639999984,
      0.000523028488,
      0.000427477265,
      0.000349415961,
      0.000285636284,
      0.00023351991,
      0.000190929975,
      0.00015612159,
      0.000127670181,
      0.000104412742,
      8.5399246e-05,
      6.98538424e-05 },
    { 1,
      0.800391912,
      0.605592966,
      0.43890056,
      0.309439272,
      0.21508418,
      0.148813069,
      0.103117317,
      0.0718144849,
      0.050358355,
      0.0355830118,
      0.0253391378,
      0.0181818176,
      0.0131407632,
      0.00956199504,
      0.00700191502,
      0.00515732029,
      0.00381925167,
      0.00284249685,
      0.00212531863,
      0.00159587781,
      0.00120306434,
      0.000910263101,
      0.000691067486,
      0.000526315765,
      0.000402023434,
      0.000307928567,
      0.000236464155,
      0.000182023126,
      0.000140432938,
      0.000108576067,
      8.41138462e-05,
      6.52858871e-05,
      5.0762661e-05,
      3.95366878e-05,
      3.08423841e-05,
      2.40963855e-05,
      1.88529175e-05,
      1.47705559e-05,
      1.15871999e-05,
      9.10115614e-06,
      7.15691522e-06,
      5.63434787e-06,
      4.44045963e-06,
      3.50314508e-06,
      2.76640458e-06,
      2.18666605e-06,
      1.72998125e-06 },
};

static struct attn_rope rope_of(enum attn_rope_type type, double factor)
{
    struct attn_rope rope = {
        .dim = DIM,
        .theta = 10000,
        .scaling = attn_rope_scaling_default(type),
    };
    rope.scaling.factor = factor;
    rope.scaling.original_max_position_embeddings = 2048;
    assert_int_equal(attn_rope_check(&rope, DIM, NULL), ATTN_OK);
    return rope;
}

static void expect(enum attn_rope_type type, double length, double divisor, const double *want)
{
    const struct attn_rope rope = rope_of(type, 10);
    for (int64_t c = 0; c < PAIRS; c++) {
        const double got = attn_rope_frequency(&rope, c, length);
        if (!(fabs(got - want[c] / divisor) <= 5.1e-5 * got))
            fail_msg("type %d, pair %d: %.9g, want %.9g", (int)type, (int)c, got,
                     want[c] / divisor);
    }
}

TEST(frequencies)
{
    expect(ATTN_ROPE_DEFAULT, 16384, 1, DEFAULT);
    expect(ATTN_ROPE_LINEAR, 16384, 10, DEFAULT);
    expect(ATTN_ROPE_DYNAMIC, 1, 1, DEFAULT);
    expect(ATTN_ROPE_DYNAMIC, 2048, 1, DEFAULT);
    expect(ATTN_ROPE_DYNAMIC, 16384, 1, DYNAMIC);
    expect(ATTN_ROPE_YARN, 16384, 1, YARN);
    expect(ATTN_ROPE_LLAMA3, 16384, 1, LLAMA3);
}

TEST(attention_factors)
{
    static const double FACTORS[] = { 2, 10, 20 };
    for (int i = 0; i < 3; i++) {
        struct attn_rope rope = rope_of(ATTN_ROPE_YARN, FACTORS[i]);
        assert_true(attn_rope_attention_factor(&rope) == 0.1 * log(FACTORS[i]) + 1.0);
        rope.scaling.attention_factor = 0.5;
        assert_true(attn_rope_attention_factor(&rope) == 0.5);
        for (int t = ATTN_ROPE_DEFAULT; t <= ATTN_ROPE_LLAMA3; t++)
            if (t != ATTN_ROPE_YARN) {
                rope = rope_of((enum attn_rope_type)t, FACTORS[i]);
                assert_true(attn_rope_attention_factor(&rope) == 1.0);
            }
    }
}

TEST(longrope)
{
    double factors[2][PHI_PAIRS];
    struct attn_rope rope = {
        .dim = 2 * PHI_PAIRS,
        .theta = 10000,
        .scaling = { .type = ATTN_ROPE_LONGROPE,
                     .factor = 131072 / 4096,
                     .original_max_position_embeddings = 4096,
                     .short_factor = factors[0],
                     .long_factor = factors[1] },
    };
    for (int c = 0; c < PHI_PAIRS; c++) {
        factors[0][c] = 1 + c / 64.0;
        factors[1][c] = 1 + c * c / 32.0;
    }
    assert_int_equal(attn_rope_check(&rope, rope.dim, NULL), ATTN_OK);
    for (int i = 0; i < 2; i++)
        for (int64_t c = 0; c < PHI_PAIRS; c++) {
            const double got = attn_rope_frequency(&rope, c, 4096 + i);
            assert_true(fabs(got - LONGROPE[i][c]) <= 1e-6 * got);
        }
    assert_true(fabs(attn_rope_attention_factor(&rope) - 1.1902380714238083) < 1e-15);
    rope.scaling.factor = 4;
    assert_true(fabs(attn_rope_attention_factor(&rope) - 1.0801234497346435) < 1e-15);
    rope.scaling.factor = 1;
    assert_true(attn_rope_attention_factor(&rope) == 1);
    rope.scaling.attention_factor = 0.75;
    assert_true(attn_rope_attention_factor(&rope) == 0.75);
}
