/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels_gradient.c - the kernels of the gradient against double arithmetic, one number at a
 * time, with NaN and infinity where a weight is 0. */
#include "fill.h"
#include "guard.h"
#include "kernels/kernels.h"
#include "test.h"

enum { LENGTHS = 5 };
static const int64_t lengths[LENGTHS] = { 0, 1, 2, 7, 33 };

struct tiles {
    struct guard_buffer buffers[10];
    int count;
    struct fill fill;
};

static float *made(struct tiles *tiles, int64_t count, float low, float high)
{
    struct guard_buffer *buffer = &tiles->buffers[tiles->count++];
    *buffer = guard_alloc((size_t)count * sizeof(float));
    fill_floats(&tiles->fill, buffer->data, count, low, high);
    return buffer->data;
}

static float *copied(struct tiles *tiles, const float *numbers, int64_t count)
{
    float *copy = made(tiles, count, 0, 1);
    memcpy(copy, numbers, (size_t)count * sizeof(float));
    return copy;
}

static void tiles_free(struct tiles *tiles)
{
    for (int i = 0; i < tiles->count; i++)
        guard_free(&tiles->buffers[i]);
}

/* Runs test for every table, every length and every width of a few vectors. */
static void for_each(void (*test)(const struct attn_kernels *kernels, struct tiles *tiles,
                                  int64_t n, int64_t width))
{
    const struct attn_kernels *const *tables = attn_kernels_available();
    for (int t = 0; tables[t] != NULL; t++)
        for (int l = 0; l < LENGTHS; l++)
            for (int64_t width = tables[t]->lanes;
                 width <= 4 * tables[t]->lanes && width <= ATTN_WIDTH_MAX;
                 width += tables[t]->lanes) {
                struct tiles tiles = { .fill = { (uint64_t)(1000 * t + 10 * l + 1) } };
                test(tables[t], &tiles, lengths[l], width);
                tiles_free(&tiles);
            }
}

static void expect_near(float got, double want, double tolerance)
{
    if (!(fabs((double)got - want) <= tolerance * (1 + fabs(want))))
        fail_msg("%.9g, want %.9g", (double)got, want);
}

/* Sets some weights to 0, and the gradients beside them to what is no number. */
static void poison(float *weights, float *gradients, int64_t count)
{
    for (int64_t i = 0; i < count; i += 3) {
        weights[i] = 0;
        gradients[i] = i % 2 ? NAN : INFINITY;
    }
}

static void delta(const struct attn_kernels *kernels, struct tiles *tiles, int64_t n, int64_t width)
{
    double dividend[ATTN_WIDTH_MAX], divisor[ATTN_WIDTH_MAX];
    const float *first = made(tiles, width, -1, 1), *second = made(tiles, width, 0, 1);
    const float *rescale = made(tiles, width, 0, 1);
    float *weights = made(tiles, n * width, 0, 1), *gradients = made(tiles, n * width, -1, 1);
    poison(weights, gradients, n * width);
    for (int64_t r = 0; r < width; r++) {
        dividend[r] = (double)first[r];
        divisor[r] = (double)second[r];
    }
    kernels->delta_tile(dividend, divisor, rescale, weights, gradients, n, width);
    for (int64_t r = 0; r < width; r++) {
        double products = (double)first[r] * (double)rescale[r];
        double sum = (double)second[r] * (double)rescale[r];
        for (int64_t j = r; j < n * width; j += width) {
            sum += (double)weights[j];
            if (weights[j] != 0)
                products += (double)weights[j] * (double)gradients[j];
        }
        assert_true(fabs(dividend[r] - products) <= 1e-14 * (1 + fabs(products)));
        assert_true(fabs(divisor[r] - sum) <= 1e-14 * (1 + sum));
    }
}

TEST(delta)
{
    for_each(delta);
}

static void weights(const struct attn_kernels *kernels, struct tiles *tiles, int64_t n,
                    int64_t width)
{
    for (int64_t step = 0; step < 2; step++) {
        const int64_t queries = step ? n : width;
        float *scores = made(tiles, n * width, -9, 1);
        for (int64_t i = 0; i < n * width; i += 4)
            scores[i] = -INFINITY;
        const float *before = copied(tiles, scores, n * width);
        float *max = made(tiles, queries, 1, 2), *factor = made(tiles, queries, 0, 1);
        for (int64_t q = 0; q < queries; q += 5)
            factor[q] = 0;
        kernels->weights_tile(scores, max, factor, step, n, width);
        for (int64_t i = 0; i < n * width; i++) {
            const int64_t q = step ? i / width : i % width;
            if (before[i] == -INFINITY)
                assert_true(scores[i] == 0.0f);
            else
                expect_near(scores[i], exp((double)before[i] - (double)max[q]) * (double)factor[q],
                            1e-6);
        }
    }
}

TEST(weights)
{
    for_each(weights);
}

/* A row that sees nothing has the maximum -INFINITY and the factor 0. */
static void nothing(const struct attn_kernels *kernels, struct tiles *tiles, int64_t n,
                    int64_t width)
{
    float *scores = made(tiles, n * width, 0, 1), *max = made(tiles, width, 0, 1);
    float *factor = made(tiles, width, 0, 1);
    for (int64_t i = 0; i < n * width; i++)
        scores[i] = -INFINITY;
    for (int64_t r = 0; r < width; r++) {
        max[r] = -INFINITY;
        factor[r] = 0;
    }
    kernels->weights_tile(scores, max, factor, 0, n, width);
    for (int64_t i = 0; i < n * width; i++)
        assert_true(scores[i] == 0.0f);
}

TEST(nothing)
{
    for_each(nothing);
}

static void softmax_gradient(const struct attn_kernels *kernels, struct tiles *tiles, int64_t n,
                             int64_t width)
{
    for (int64_t step = 0; step < 2; step++) {
        float *chances = made(tiles, n * width, 0, 1), *gradients = made(tiles, n * width, -1, 1);
        poison(chances, gradients, n * width);
        const float *before = copied(tiles, gradients, n * width);
        const float *sums = made(tiles, step ? n : width, -1, 1);
        const float *rests = made(tiles, step ? n : width, -1e-3F, 1e-3F);
        kernels->softmax_gradient_tile(gradients, chances, sums, rests, step, n, width);
        for (int64_t i = 0; i < n * width; i++) {
            const int64_t q = step ? i / width : i % width;
            if (chances[i] == 0)
                assert_true(gradients[i] == 0.0f);
            else
                expect_near(gradients[i],
                            (double)chances[i]
                                * ((double)before[i] - (double)sums[q] - (double)rests[q]),
                            1e-6);
        }
    }
}

TEST(softmax_gradient)
{
    for_each(softmax_gradient);
}

static void softcap_gradient(const struct attn_kernels *kernels, struct tiles *tiles, int64_t n,
                             int64_t width)
{
    const float softcap = 3;
    float *capped = made(tiles, n * width, -softcap, softcap);
    float *gradients = made(tiles, n * width, -1, 1);
    poison(gradients, capped, n * width);
    const float *before = copied(tiles, gradients, n * width);
    kernels->softcap_gradient_tile(gradients, capped, softcap, n, width);
    for (int64_t i = 0; i < n * width; i++) {
        const double ratio = (double)capped[i] / 3;
        if (before[i] == 0)
            assert_true(gradients[i] == 0.0f);
        else
            expect_near(gradients[i], (double)before[i] * (1 - ratio * ratio), 1e-6);
    }
}

/* Rows of a few columns, copied with a factor and added with one. The rest of a copied row is 0;
 * the rest of a row that is added to stays as it was. */
static void rows(const struct attn_kernels *kernels, struct tiles *tiles, int64_t n, int64_t width)
{
    const int64_t columns = width - 1, gap = 3;
    const float *from = made(tiles, n * (width + gap), -1, 1);
    float *copy = made(tiles, n * width, -1, 1), *sum = made(tiles, n * width, -1, 1);
    const float *before = copied(tiles, sum, n * width);
    kernels->copy_rows(copy, width, from, width + gap, n, columns, 0.3f);
    kernels->add_rows(sum, width, from, width + gap, n, columns, -1.5f);
    for (int64_t i = 0; i < n * width; i++) {
        const double row = (double)from[i / width * (width + gap) + i % width];
        if (i % width < columns) {
            expect_near(copy[i], row * (double)0.3f, 1e-7);
            expect_near(sum[i], (double)before[i] - 1.5 * row, 3e-7);
        } else {
            assert_true(copy[i] == 0.0f);
            assert_true(sum[i] == before[i]);
        }
    }
}

TEST(rows)
{
    for_each(rows);
}

/* Products that are added to rows, and products of rows. */
static void added(const struct attn_kernels *kernels, struct tiles *tiles, int64_t n, int64_t width)
{
    enum { DEPTH = 9, STRIDE = 11 };
    const int64_t sum_stride = width + 3;
    const float *gradients = made(tiles, n * STRIDE, -1, 1),
                *keys = made(tiles, DEPTH * width, -1, 1);
    float *sums = made(tiles, n * sum_stride, -1, 1);
    const float *before = copied(tiles, sums, n * sum_stride);
    kernels->add_products(sums, sum_stride, keys, gradients, STRIDE, n, DEPTH, width, -1.5f);
    for (int64_t i = 0; i < n * sum_stride; i++) {
        const int64_t row = i / sum_stride, column = i % sum_stride;
        double product = 0;
        for (int64_t d = 0; column < width && d < DEPTH; d++)
            product += (double)gradients[row * STRIDE + d] * (double)keys[d * width + column];
        if (column < width)
            expect_near(sums[i], (double)before[i] - 1.5 * product, 2e-6);
        else
            assert_true(sums[i] == before[i]);
    }
}

TEST(added)
{
    for_each(added);
}

static void dots(const struct attn_kernels *kernels, struct tiles *tiles, int64_t n, int64_t width)
{
    const int64_t columns = width + 5, gap = 2;
    const float *a = made(tiles, n * columns, -1, 1);
    const float *b = made(tiles, n * (columns + gap), -1, 1);
    double *found = (double *)made(tiles, n * 2, 0, 0);
    kernels->dot_rows(found, a, columns, b, columns + gap, n, columns);
    for (int64_t r = 0; r < n; r++) {
        double want = 0;
        for (int64_t c = 0; c < columns; c++)
            want += (double)a[r * columns + c] * (double)b[r * (columns + gap) + c];
        assert_true(fabs(found[r] - want) <= 1e-13);
    }
}

TEST(dots)
{
    for_each(dots);
}

/* Gradients of scores times keys. Some keys are no numbers where the gradient is 0. */
static void guarded(const struct attn_kernels *kernels, struct tiles *tiles, int64_t n,
                    int64_t width)
{
    enum { DEPTH = 9, STRIDE = 11 };
    float *gradients = made(tiles, n * STRIDE, -1, 1), *keys = made(tiles, DEPTH * width, -1, 1);
    float *products = made(tiles, n * width, -1, 1);
    for (int64_t i = 0; i < n * STRIDE; i++)
        if (i % STRIDE % 4 == 1)
            gradients[i] = 0;
    for (int64_t i = 0; i < DEPTH * width; i++)
        if (i / width % 4 == 1)
            keys[i] = i % 2 ? NAN : INFINITY;
    kernels->score_tile_guarded(products, keys, gradients, STRIDE, n, DEPTH, width);
    for (int64_t i = 0; i < n * width; i++) {
        double want = 0;
        for (int64_t d = 0; d < DEPTH; d++)
            if (d % 4 != 1)
                want +=
                    (double)gradients[i / width * STRIDE + d] * (double)keys[d * width + i % width];
        expect_near(products[i], want, 1e-6);
    }
}

TEST(guarded)
{
    for_each(guarded);
}

TEST(softcap_gradient)
{
    for_each(softcap_gradient);
}

/* One sum by features of lanes, with rows and lanes that are no numbers where the gradient is 0. */
static void additive_gradient(const struct attn_kernels *kernels, struct tiles *tiles, int64_t n,
                              int64_t width)
{
    enum { HEAD_DIM = 5, STRIDE = 7 };
    const float scale = 0.75f;
    const float *lanes = made(tiles, HEAD_DIM * width, -3, 3);
    float *rows = made(tiles, n * STRIDE, -3, 3), *gradients = made(tiles, n * width, -1, 1);
    for (int64_t j = 0; j < n; j += 3)
        for (int64_t i = 0; i < width; i++)
            gradients[j * width + i] = 0;
    for (int64_t j = 0; j < n; j += 3)
        rows[j * STRIDE + j % HEAD_DIM] = j % 2 ? NAN : INFINITY;
    for (int64_t j = 1; j < n; j += 3)
        rows[j * STRIDE] = j % 2 ? 30.0f : -200.0f; /* tanh is 1, its slope next to nothing */
    const float *weight = made(tiles, HEAD_DIM, -1, 1);
    float *sums = made(tiles, HEAD_DIM * width, -1, 1),
          *weights = made(tiles, HEAD_DIM * width, -1, 1);
    const float *sums_before = copied(tiles, sums, HEAD_DIM * width);
    const float *weights_before = copied(tiles, weights, HEAD_DIM * width);
    kernels->additive_gradient_tile(sums, weights, lanes, rows, STRIDE, gradients, weight, scale, n,
                                    HEAD_DIM, width);
    for (int64_t i = 0; i < HEAD_DIM * width; i++) {
        double slopes = 0, tanhs = 0;
        for (int64_t j = 0; j < n; j++) {
            const double gradient = (double)gradients[j * width + i % width];
            const double t = tanh((double)rows[j * STRIDE + i / width] + (double)lanes[i]);
            if (gradient != 0) {
                slopes += gradient * (1 - t) * (1 + t);
                tanhs += gradient * t;
            }
        }
        expect_near(sums[i],
                    (double)sums_before[i] + (double)scale * (double)weight[i / width] * slopes,
                    2e-6);
        expect_near(weights[i], (double)weights_before[i] + (double)scale * tanhs, 2e-6);
    }
    kernels->additive_gradient_tile(sums, NULL, lanes, rows, STRIDE, gradients, weight, scale, n,
                                    HEAD_DIM, width);
}

/* Far from 0, 1 - tanh^2 of a float would be 0 or have few digits. The slope keeps its digits. */
static void far_slope(const struct attn_kernels *kernels, struct tiles *tiles, int64_t n,
                      int64_t width)
{
    const float *lanes = made(tiles, width, 4, 12), *gradients = made(tiles, n * width, 0.5f, 1);
    const float *rows = made(tiles, n, 4, 12), weight = 1;
    float *sums = made(tiles, width, 0, 1);
    memset(sums, 0, (size_t)width * sizeof *sums);
    kernels->additive_gradient_tile(sums, NULL, lanes, rows, 1, gradients, &weight, 1, n, 1, width);
    for (int64_t i = 0; i < width; i++) {
        double slopes = 0;
        for (int64_t j = 0; j < n; j++)
            slopes +=
                (double)gradients[j * width + i] / pow(cosh((double)rows[j] + (double)lanes[i]), 2);
        assert_true(fabs((double)sums[i] - slopes) <= 1e-5 * slopes);
    }
}

TEST(additive_gradient)
{
    for_each(additive_gradient);
    for_each(far_slope);
}
