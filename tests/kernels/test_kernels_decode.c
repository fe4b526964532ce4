/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels_decode.c - the kernels for few query rows, of every table that this CPU can run,
 * against arithmetic in double.
 *
 * Rows of 32 and of 16 bits, counts around the vector, memory that ends at a guard page. */
#include "buffers.h"
#include "test.h"

static const int64_t KEYS[] = { 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 211, 213 };
static const int64_t MORE_COLUMNS[] = { 0, 1, 3, 7, 15, 16, 17, 31, 48, 65 };
enum { KEY_COUNTS = 17, COLUMN_COUNTS = 10, ROWS_MAX = 7 };

/* Rows of one kind, and the same numbers in float. */
struct numbers {
    enum attn_numbers kind;
    int64_t stride;
    void *data;
    float *floats;
};

static struct numbers make_numbers(struct fill *fill, const struct attn_kernels *kernels,
                                   enum attn_numbers kind, int64_t rows, int64_t columns)
{
    const int64_t stride = columns + 1;
    struct numbers made = { kind, stride, NULL, buffers_rows(fill, rows, columns, stride) };
    const int64_t count = (rows - 1) * stride + columns;

    if (kind == ATTN_NUMBERS_F32) {
        made.data = made.floats;
        return made;
    }
    struct guard_buffer *buffer = &buffers[buffers_count++];
    *buffer = guard_alloc((size_t)count * sizeof(uint16_t));
    made.data = buffer->data;
    if (kind == ATTN_NUMBERS_F16) {
        kernels->narrow_f16(made.data, made.floats, count);
        kernels->widen_f16(made.floats, made.data, count);
    } else {
        kernels->narrow_bf16(made.data, made.floats, count);
        kernels->widen_bf16(made.floats, made.data, count);
    }
    return made;
}

static int64_t padded(const struct attn_kernels *kernels, int64_t columns)
{
    return (columns + kernels->lanes - 1) / kernels->lanes * kernels->lanes;
}

/* The place of column c in the padded form of a row. Where the last vector is a partial one, it
 * begins with columns of the vector before. */
static int64_t place(const struct attn_kernels *kernels, int64_t columns, int64_t c)
{
    const int64_t whole = columns / kernels->lanes * kernels->lanes;
    return c < whole ? c : c + padded(kernels, columns) - columns;
}

static void expect_near(const struct attn_kernels *kernels, const char *what, int64_t i, int64_t j,
                        double got, double want)
{
    if (!(fabs(got - want) <= 2e-5 * (1 + fabs(want))))
        fail_msg("%s, %s: [%" PRId64 ", %" PRId64 "] = %.9g, want %.9g", kernels->name, what, i, j,
                 got, want);
}

static void check_scores(const struct attn_kernels *kernels, enum attn_numbers kind, int64_t rows,
                         int64_t n, int64_t head_dim)
{
    struct fill fill = { (uint64_t)(rows * 10000 + n * 100 + head_dim) };
    const int64_t query_stride = padded(kernels, head_dim), scores_stride = n + 3;
    const struct numbers key = make_numbers(&fill, kernels, kind, n, head_dim);
    float *query = buffers_floats(rows * query_stride);
    float *scores = buffers_floats((rows - 1) * scores_stride + n);

    memset(query, 0, (size_t)(rows * query_stride) * sizeof *query);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t d = 0; d < head_dim; d++)
            query[r * query_stride + place(kernels, head_dim, d)] = fill_float(&fill, -1, 1);
    for (int64_t i = 0; i < (rows - 1) * scores_stride + n; i++)
        scores[i] = 77.0f;
    kernels->decode_scores[kind](scores, scores_stride, query, query_stride, rows, key.data,
                                 key.stride, n, head_dim, n % 2 ? key.data : NULL);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < n; j++) {
            double want = 0;
            for (int64_t d = 0; d < head_dim; d++)
                want += (double)query[r * query_stride + place(kernels, head_dim, d)]
                        * (double)key.floats[j * key.stride + d];
            expect_near(kernels, "scores", r, j, (double)scores[r * scores_stride + j], want);
        }
        for (int64_t j = n; j < scores_stride && r + 1 < rows; j++)
            assert_true(scores[r * scores_stride + j] == 77.0f);
    }
    buffers_free();
}

/* If hides is set, every third weight is 0 and its value NaN. */
static void check_context(const struct attn_kernels *kernels, enum attn_numbers kind, int64_t rows,
                          int64_t n, int64_t columns, bool hides)
{
    struct fill fill = { (uint64_t)(rows * 10000 + n * 100 + columns) };
    const int64_t stride = padded(kernels, columns);
    const struct numbers value = make_numbers(&fill, kernels, kind, n, columns);
    float *weights = buffers_filled(&fill, rows * n, 0, 1);
    float *context = buffers_filled(&fill, rows * stride, -1, 1);
    float *before = buffers_copy(context, rows * stride);
    float *rescale = buffers_filled(&fill, rows, 0, 1);

    for (int64_t j = 0; hides && j < n; j += 3) {
        for (int64_t r = 0; r < rows; r++)
            weights[r * n + j] = 0.0f;
        if (kind == ATTN_NUMBERS_F32)
            value.floats[j * value.stride] = NAN;
        else
            ((uint16_t *)value.data)[j * value.stride] = 0x7fff; /* NaN in both */
    }
    kernels->decode_context[kind](context, stride, rescale, weights, n, rows, value.data,
                                  value.stride, n, columns, n % 2 ? value.data : NULL, 0,
                                  hides ? 0 : n);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            const int64_t at = r * stride + place(kernels, columns, c);
            double want = (double)before[at] * (double)rescale[r];
            for (int64_t j = 0; j < n; j++)
                if (!hides || j % 3 != 0)
                    want += (double)weights[r * n + j] * (double)value.floats[j * value.stride + c];
            expect_near(kernels, "context", r, c, (double)context[at], want);
        }
    buffers_free();
}

typedef void (*check_fn)(const struct attn_kernels *kernels, enum attn_numbers kind, int64_t rows,
                         int64_t n, int64_t columns);

static void for_all(check_fn check)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++)
        for (int kind = 0; kind < ATTN_NUMBERS_COUNT; kind++)
            for (int64_t rows = 1; rows <= ROWS_MAX; rows++)
                for (int i = 0; i < KEY_COUNTS; i++)
                    for (int c = 0; c < COLUMN_COUNTS; c += 1 + (i + (int)rows) % 3) {
                        buffers_shift = (i + c) % 2;
                        check(*k, (enum attn_numbers)kind, rows, KEYS[i],
                              (*k)->lanes + MORE_COLUMNS[c]);
                    }
}

TEST(scores)
{
    for_all(check_scores);
}

static void check_both_contexts(const struct attn_kernels *kernels, enum attn_numbers kind,
                                int64_t rows, int64_t n, int64_t columns)
{
    check_context(kernels, kind, rows, n, columns, false);
    check_context(kernels, kind, rows, n, columns, true);
}

TEST(context)
{
    for_all(check_both_contexts);
}

static void check_softmax(const struct attn_kernels *kernels, int64_t n, float old_max)
{
    struct fill fill = { (uint64_t)n };
    const int64_t room = padded(kernels, n);
    float *scores = buffers_filled(&fill, room, -5, 5);
    float max = old_max, sum = old_max == -INFINITY ? 0.0f : 2.0f, rescale = NAN;

    if (n > 2)
        scores[2] = -INFINITY;
    float *before = buffers_copy(scores, room);
    double want_max = (double)old_max, want_sum;
    for (int64_t j = 0; j < n; j++)
        want_max = fmax(want_max, (double)before[j]);
    const double factor = exp((double)old_max - want_max);
    want_sum = (double)sum * factor;
    for (int64_t j = 0; j < n; j++)
        want_sum += exp((double)before[j] - want_max);
    kernels->decode_softmax(scores, &max, &sum, &rescale, n);
    assert_true((double)max == want_max);
    expect_near(kernels, "sum", n, 0, (double)sum, want_sum);
    expect_near(kernels, "rescale", n, 0, (double)rescale, factor);
    for (int64_t j = 0; j < n; j++)
        expect_near(kernels, "weight", n, j, (double)scores[j], exp((double)before[j] - want_max));
    for (int64_t j = n; j < room; j++)
        assert_true(scores[j] == 0.0f);
    buffers_free();
}

/* The row has seen nothing, and sees nothing. */
static void check_softmax_of_nothing(const struct attn_kernels *kernels)
{
    float scores[32], max = -INFINITY, sum = 0, rescale = NAN;
    for (int j = 0; j < 32; j++)
        scores[j] = -INFINITY;
    kernels->decode_softmax(scores, &max, &sum, &rescale, 19);
    assert_true(max == -INFINITY && sum == 0.0f && !isnan(rescale));
    for (int j = 0; j < 19; j++)
        assert_true(scores[j] == 0.0f);
}

TEST(softmax)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++) {
        check_softmax_of_nothing(*k);
        for (int i = 0; i < KEY_COUNTS; i++) {
            check_softmax(*k, KEYS[i], -INFINITY);
            check_softmax(*k, KEYS[i], -1.0f);
            check_softmax(*k, KEYS[i], 9.0f);
        }
    }
}
