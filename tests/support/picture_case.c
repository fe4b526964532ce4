/* SPDX-License-Identifier: Apache-2.0 */
/* picture_case.c - see picture_case.h. */
#include "picture_case.h"

#include "fixture.h"
#include "request_text.h"
#include "test.h"
#include "trace_client.h"

#include <math.h>
#include <stdlib.h>

struct rows picture_case(int height, int width)
{
    const struct rows numbers = forward_scale(published_input(height * width), 2);
    return forward_slice(numbers, 0, PICTURE_CHANNELS);
}

char *picture_case_field(struct rows pixels, int height, int width)
{
    struct request_text text = { .data = NULL };
    for (int c = 0; c < PICTURE_CHANNELS; c++)
        for (int i = 0; i < height * width; i++) {
            const char *before = ",";
            if (i == 0)
                before = c == 0 ? "\"pixels\":[[[" : "]],[[";
            else if (i % width == 0)
                before = "],[";
            request_text_add(&text, "%s%.9g", before, pixels.data[c * pixels.columns + i]);
        }
    request_text_add(&text, "]]]");
    return text.data;
}

struct rows picture_case_patches(struct rows pixels, int height, int width)
{
    const int down = height / PICTURE_PATCH, across = width / PICTURE_PATCH;
    const struct rows rows =
        published_rows(down * across, PICTURE_CHANNELS * PICTURE_PATCH * PICTURE_PATCH);
    for (int p = 0; p < down * across; p++)
        for (int n = 0; n < PICTURE_CHANNELS * PICTURE_PATCH * PICTURE_PATCH; n++) {
            const int y = p / across * PICTURE_PATCH + n / PICTURE_PATCH % PICTURE_PATCH;
            const int x = p % across * PICTURE_PATCH + n % PICTURE_PATCH;
            rows.data[p * rows.columns + n] =
                pixels.data[n / (PICTURE_PATCH * PICTURE_PATCH) * pixels.columns + y * width + x];
        }
    return rows;
}

/* ----------------------------------------------------------------- positions -- */

/* cubic_convolution1() and cubic_convolution2() of ATen/native/UpSample.h. */
static double convolution(double x, double a)
{
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* The part of each of `from` places in place i of `to`. */
static void weigh_places(double *weights, int i, int from, int to, enum picture_mode mode)
{
    const double scale = (double)from / to, wide = fmax(scale, 1);
    double sum = 0;
    for (int j = 0; j < from; j++)
        weights[j] = 0;
    if (mode == PICTURE_BICUBIC) {
        const double source = scale * (i + 0.5) - 0.5, fraction = source - floor(source);
        for (int k = -1; k <= 2; k++) {
            const int place = (int)floor(source) + k;
            weights[place < 0       ? 0
                    : place >= from ? from - 1
                                    : place] += convolution(k - fraction, -0.75);
        }
        return;
    }
    for (int j = 0; j < from; j++) {
        const double x = (j + 0.5 - scale * (i + 0.5)) / wide;
        weights[j] = mode == PICTURE_BICUBIC_SMOOTH ? convolution(x, -0.5) : fmax(0, 1 - fabs(x));
        sum += weights[j];
    }
    for (int j = 0; j < from; j++)
        weights[j] /= sum;
}

struct rows picture_case_positions(struct rows positions, int before, int side, int height,
                                   int width, enum picture_mode mode)
{
    enum { SIDE_MAX = 16 };
    const int down = height / PICTURE_PATCH, across = width / PICTURE_PATCH;
    const struct rows resized = published_rows(down * across, positions.columns);
    double y[SIDE_MAX], x[SIDE_MAX];
    if (down == side && across == side)
        return positions;
    assert_true(side <= SIDE_MAX);
    for (int p = 0; p < down * across; p++) {
        weigh_places(y, p / across, side, down, mode);
        weigh_places(x, p % across, side, across, mode);
        for (int j = 0; j < side * side; j++)
            for (int64_t c = 0; c < positions.columns; c++)
                resized.data[p * positions.columns + c] +=
                    y[j / side] * x[j % side]
                    * positions.data[(before + j) * positions.columns + c];
    }
    return before > 0 ? forward_join(forward_slice(positions, 0, before), resized) : resized;
}

/* ----------------------------------------------------------------- comparing -- */

void picture_case_compare(const char *name, const char *config, const char *fields,
                          const struct forward *want)
{
    published_save(fixture_path(name), config);
    fixture_serve("--models", directory);
    trace_client_expect(&client, name, fields, want);
    fixture_stop(NULL);
}

void picture_case_check(const char *name, const char *config, int height, int width,
                        const struct forward *want)
{
    char *fields = picture_case_field(picture_case(height, width), height, width);
    picture_case_compare(name, config, fields, want);
    free(fields);
    published_close();
}
