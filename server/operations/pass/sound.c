/* SPDX-License-Identifier: Apache-2.0 */
/* sound.c - see sound.h.
 *
 * The transform of a frame is a product with a matrix of cosines and sines under the window, which
 * for 400 points takes as long as a fast transform would that is not ours; the filters are another
 * product. Frames go through both in blocks that stay in a cache. */
#include "operations/pass/sound.h"

#include <math.h>
#include <string.h>

enum {
    BINS = SOUND_WINDOW / 2 + 1,
    BLOCK = 60 /* frames */
};

#define TURN 6.28318530717958647692

struct spectrogram {
    struct attn_linear transform; /* [2 * BINS][SOUND_WINDOW]: real parts, then imaginary ones */
    struct attn_linear filters;   /* [feature_count][BINS] */
    const struct attn_kernels *kernels;
    float *frames;   /* [BLOCK][SOUND_WINDOW] */
    float *spectrum; /* [BLOCK][2 * BINS]; then the power is in front of each row */
    float *mel;      /* [BLOCK][feature_count] */
    void *workspace;
};

/* ---------------------------------------------------------------------- matrices -- */

static void make_transform(float *transform)
{
    double cosine[SOUND_WINDOW], window[SOUND_WINDOW];
    for (int j = 0; j < SOUND_WINDOW; j++) {
        cosine[j] = cos(TURN * j / SOUND_WINDOW);
        window[j] = 0.5 - 0.5 * cosine[j]; /* Hann's, periodic */
    }
    for (int k = 0; k < BINS; k++)
        for (int j = 0; j < SOUND_WINDOW; j++) {
            const int turn = k * j % SOUND_WINDOW;
            const int quarter = (turn + SOUND_WINDOW / 4) % SOUND_WINDOW; /* -sin a = cos(a + 90) */
            transform[k * SOUND_WINDOW + j] = (float)(window[j] * cosine[turn]);
            transform[(BINS + k) * SOUND_WINDOW + j] = (float)(window[j] * cosine[quarter]);
        }
}

/* The mel scale of Slaney: linear below 1000 Hz, which is 15 mel, then logarithmic. */
static double hertz_of(double mel)
{
    return mel < 15 ? mel * 200 / 3 : 1000 * exp((mel - 15) * log(6.4) / 27);
}

static double mel_of(double hertz)
{
    return hertz < 1000 ? hertz * 3 / 200 : 15 + log(hertz / 1000) * 27 / log(6.4);
}

/* Triangles between equal steps of mel up to half the rate, each of area 1. */
static void make_filters(float *filters, int64_t count)
{
    const double step = mel_of(SOUND_RATE / 2.0) / (double)(count + 1);
    for (int64_t i = 0; i < count; i++) {
        const double low = hertz_of(step * (double)i), middle = hertz_of(step * (double)(i + 1));
        const double high = hertz_of(step * (double)(i + 2));
        for (int k = 0; k < BINS; k++) {
            const double hertz = (double)k * SOUND_RATE / SOUND_WINDOW;
            const double up = (hertz - low) / (middle - low);
            const double down = (high - hertz) / (high - middle);
            filters[i * BINS + k] = (float)(fmax(0, fmin(up, down)) * 2 / (high - low));
        }
    }
}

/* ------------------------------------------------------------------------ blocks -- */

/* Sample i of the padded sound, reflected at both ends. */
static float sample_at(const float *samples, int64_t count, int64_t length, int64_t i)
{
    if (i < 0)
        i = -i;
    if (i >= length)
        i = 2 * (length - 1) - i;
    return i < count ? samples[i] : 0;
}

static void multiply(const struct spectrogram *of, const struct attn_linear *linear, const float *x,
                     int64_t x_stride, float *y, int64_t rows)
{
    const struct attn_product product = { .linear = linear,
                                          .x = x,
                                          .x_stride = x_stride,
                                          .y = y,
                                          .y_stride = linear->out,
                                          .row_count = rows,
                                          .kernels = of->kernels };
    const int64_t tasks = attn_product_tasks(&product);
    for (int64_t task = 0; task < tasks; task++)
        attn_product_run(&product, task, of->workspace);
}

static void make_power(float *spectrum, int64_t rows)
{
    for (int64_t row = 0; row < rows; row++, spectrum += (int64_t)2 * BINS)
        for (int k = 0; k < BINS; k++)
            spectrum[k] = spectrum[k] * spectrum[k] + spectrum[BINS + k] * spectrum[BINS + k];
}

static bool make_room(struct spectrogram *of, int64_t feature_count, struct arena *arena,
                      struct fault *fault)
{
    float *transform = arena_calloc(arena, (size_t)2 * BINS * SOUND_WINDOW, sizeof *transform);
    float *filters = arena_calloc(arena, (size_t)(feature_count * BINS), sizeof *filters);
    of->frames = arena_calloc(arena, (size_t)BLOCK * SOUND_WINDOW, sizeof *of->frames);
    of->spectrum = arena_calloc(arena, (size_t)BLOCK * 2 * BINS, sizeof *of->spectrum);
    of->mel = arena_calloc(arena, (size_t)(BLOCK * feature_count), sizeof *of->mel);
    of->transform = (struct attn_linear){
        .weight = transform, .out = (int64_t)2 * BINS, .in = SOUND_WINDOW, .dtype = ATTN_F32
    };
    of->filters = (struct attn_linear){
        .weight = filters, .out = feature_count, .in = BINS, .dtype = ATTN_F32
    };
    const struct attn_product product = { .linear = &of->transform, .kernels = of->kernels };
    of->workspace = arena_alloc(arena, attn_product_workspace_bytes(&product));
    if (!transform || !filters || !of->frames || !of->spectrum || !of->mel || !of->workspace)
        return fault_no_memory(fault);
    make_transform(transform);
    make_filters(filters, feature_count);
    return true;
}

static void make_mel(struct spectrogram *of, const float *samples, int64_t count, int64_t length,
                     int64_t first, int64_t rows)
{
    for (int64_t row = 0; row < rows; row++)
        for (int64_t j = 0; j < SOUND_WINDOW; j++)
            of->frames[row * SOUND_WINDOW + j] =
                sample_at(samples, count, length, (first + row) * SOUND_HOP + j - SOUND_WINDOW / 2);
    multiply(of, &of->transform, of->frames, SOUND_WINDOW, of->spectrum, rows);
    make_power(of->spectrum, rows);
    multiply(of, &of->filters, of->spectrum, (int64_t)2 * BINS, of->mel, rows);
}

/* Whether no frame of a block has a sample: behind the end, and not so near to the last frame that
 * what is mirrored there is sound. */
static bool is_silent(int64_t count, int64_t length, int64_t first, int64_t rows)
{
    const int64_t begin = first * SOUND_HOP - SOUND_WINDOW / 2;
    const int64_t end = (first + rows - 1) * SOUND_HOP + SOUND_WINDOW / 2;
    return begin >= count && (end <= length || 2 * (length - 1) - end >= count);
}

bool sound_features(float *features, int64_t feature_count, int64_t feature_length,
                    const float *samples, int64_t count, const struct attn_kernels *kernels,
                    struct arena *arena, struct fault *fault)
{
    struct spectrogram of = { .kernels = kernels };
    const int64_t length = feature_length * SOUND_HOP;
    float largest = -INFINITY;
    if (!make_room(&of, feature_count, arena, fault))
        return false;
    for (int64_t first = 0; first < feature_length; first += BLOCK) {
        const int64_t rows = feature_length - first < BLOCK ? feature_length - first : BLOCK;
        if (is_silent(count, length, first, rows))
            memset(of.mel, 0, (size_t)(rows * feature_count) * sizeof *of.mel);
        else
            make_mel(&of, samples, count, length, first, rows);
        for (int64_t row = 0; row < rows; row++)
            for (int64_t i = 0; i < feature_count; i++) {
                const float value = log10f(fmaxf(of.mel[row * feature_count + i], 1e-10f));
                features[i * feature_length + first + row] = value;
                largest = fmaxf(largest, value);
            }
    }
    for (int64_t i = 0; i < feature_count * feature_length; i++)
        features[i] = (fmaxf(features[i], largest - 8) + 4) / 4;
    return true;
}
