/* SPDX-License-Identifier: Apache-2.0 */
/* test_sound.c - the log-mel spectrogram of sound: against numbers of numpy, and against the
 * formulas in double, with every table of kernels. */
#include "kernel_tables.h"
#include "operations/pass/sound.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLES = 5000, FEATURES_MAX = 128, LENGTH_MAX = 40 };

/* Noise that grows louder over a triangle, as 16 bits. */
static void make_samples(float *samples)
{
    uint32_t state = 12345;
    for (int i = 0; i < SAMPLES; i++) {
        state = (state * 1103515245u + 12345u) & 0x7fffffff;
        const int noise = (int)(state >> 16) % 2001 - 1000;
        const int step = i * 37 % 4000, triangle = step < 2000 ? step : 4000 - step;
        samples[i] = (float)((floor(noise * (i / 500) / 10.0) + (triangle - 1000) * 4) / 32768.0);
    }
}

/* numpy 1.24 in double: np.fft.rfft of the windowed frames, and the filters of get_mel_filters() in
 * transformers' feature_extraction_whisper.py at 017010f (Apache-2.0). */
static const struct {
    int features, length, feature, frame;
    double value;
} NUMPY[] = {
    { 80, 40, 0, 0, 0.221280535 },      { 80, 40, 3, 1, 1.07258706 },
    { 80, 40, 10, 5, 0.502835356 },     { 80, 40, 40, 20, 0.0905995615 },
    { 80, 40, 79, 0, -0.630192856 },    { 80, 40, 79, 39, -0.921303673 },
    { 80, 40, 7, 39, -0.921303673 },    { 80, 40, 60, 35, -0.921303673 },
    { 80, 40, 20, 20, 0.226462032 },    { 128, 33, 0, 0, 0.145521335 },
    { 128, 33, 3, 1, 0.517351607 },     { 128, 33, 10, 5, 0.210640144 },
    { 128, 33, 64, 16, 0.0667394652 },  { 128, 33, 127, 0, -0.6100566 },
    { 128, 33, 127, 32, -0.357948427 }, { 128, 33, 7, 32, 0.364085706 },
    { 128, 33, 108, 28, 0.175879827 },  { 128, 33, 20, 20, 0.485746179 },
};

static float *features_of(int features, int length, const struct attn_kernels *kernels)
{
    static float samples[SAMPLES];
    struct arena arena;
    struct fault fault = { .message = "" };
    const int64_t most = (int64_t)length * SOUND_HOP;
    float *values = malloc((size_t)features * (size_t)length * sizeof *values);
    assert_non_null(values);
    make_samples(samples);
    arena_init(&arena, SIZE_MAX);
    if (!sound_features(values, features, length, samples, most < SAMPLES ? most : SAMPLES, kernels,
                        &arena, &fault))
        fail_msg("%s", fault.message);
    arena_free(&arena);
    return values;
}

TEST(numbers_of_numpy)
{
    for (const struct attn_kernels *const *kernels = attn_kernels_available(); *kernels; kernels++)
        for (size_t i = 0; i < sizeof NUMPY / sizeof *NUMPY; i++) {
            float *values = features_of(NUMPY[i].features, NUMPY[i].length, *kernels);
            const double got = (double)values[NUMPY[i].feature * NUMPY[i].length + NUMPY[i].frame];
            if (!(fabs(got - NUMPY[i].value) <= 2e-5))
                fail_msg("%s, case %zu: %.9g; numpy has %.9g", attn_kernels_name(*kernels), i, got,
                         NUMPY[i].value);
            free(values);
        }
}

/* What follows a sound is silence, to the bit as if its samples had come. */
TEST(silence_behind_a_sound)
{
    enum { FEATURES = 80, LENGTH = 400 };
    static float samples[LENGTH * SOUND_HOP], values[2][FEATURES * LENGTH];
    static const int64_t COUNTS[] = { 1, 199, 200, 201, 5000, LENGTH * SOUND_HOP - 150 };
    struct arena arena;
    struct fault fault;
    for (size_t i = 0; i < sizeof COUNTS / sizeof COUNTS[0]; i++) {
        memset(samples, 0, sizeof samples);
        for (int64_t j = 0; j < COUNTS[i]; j++)
            samples[j] = (float)sin((double)j * 0.3);
        for (int which = 0; which < 2; which++) {
            arena_init(&arena, SIZE_MAX);
            assert_true(sound_features(values[which], FEATURES, LENGTH, samples,
                                       which == 0 ? COUNTS[i] : LENGTH * SOUND_HOP,
                                       *attn_kernels_available(), &arena, &fault));
            arena_free(&arena);
        }
        assert_memory_equal(values[0], values[1], sizeof values[0]);
    }
}

/* Silence is the same number everywhere: log10 of 1e-10 is all that there is. */
TEST(silence)
{
    enum { FEATURES = 80, LENGTH = 4 };
    static const float nothing[1];
    float values[FEATURES * LENGTH];
    struct arena arena;
    struct fault fault;
    arena_init(&arena, SIZE_MAX);
    assert_true(sound_features(values, FEATURES, LENGTH, nothing, 0, *attn_kernels_available(),
                               &arena, &fault));
    arena_free(&arena);
    for (int i = 0; i < FEATURES * LENGTH; i++)
        assert_true(values[i] == -1.5f);
}

ALL_TESTS(NULL, NULL);
