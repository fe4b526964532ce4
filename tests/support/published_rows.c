/* SPDX-License-Identifier: Apache-2.0 */
/* published_rows.c - the functions of published.h that change projected rows in place: rotary
 * embedding, norms and clamping. Also the buckets of T5. */
#include "forward_parts.h"
#include "published.h"
#include "test.h"

enum { PAIRS_MAX = 256 };

static void turn(double *a, double *b, double angle)
{
    const double first = *a, second = *b;
    *a = first * cos(angle) - second * sin(angle);
    *b = second * cos(angle) + first * sin(angle);
}

void published_rotate_half_by(struct rows x, int64_t heads, int64_t dim, const double *frequencies,
                              double factor)
{
    const int64_t head_dim = x.columns / heads;
    for (int64_t i = 0; i < x.count; i++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t c = 0; c < dim / 2; c++) {
                double *head = x.data + i * x.columns + h * head_dim;
                turn(&head[c], &head[c + dim / 2], (double)i * frequencies[c]);
                head[c] *= factor;
                head[c + dim / 2] *= factor;
            }
}

void published_rotate_every_two_by(struct rows x, int64_t heads, int64_t dim,
                                   const double *frequencies, double factor)
{
    const int64_t head_dim = x.columns / heads;
    for (int64_t i = 0; i < x.count; i++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t c = 0; c < dim; c += 2) {
                double *head = x.data + i * x.columns + h * head_dim;
                turn(&head[c], &head[c + 1], (double)i * frequencies[c / 2]);
                head[c] *= factor;
                head[c + 1] *= factor;
            }
}

void published_frequencies(double *frequencies, int64_t dim, double theta)
{
    assert_true(dim / 2 <= PAIRS_MAX);
    for (int64_t c = 0; c < dim / 2; c++)
        frequencies[c] = 1 / pow(theta, 2.0 * (double)c / (double)dim);
}

void published_rotate_half(struct rows x, int64_t heads, int64_t dim, double theta)
{
    double frequencies[PAIRS_MAX];
    published_frequencies(frequencies, dim, theta);
    published_rotate_half_by(x, heads, dim, frequencies, 1);
}

void published_rotate_every_two(struct rows x, int64_t heads, int64_t dim, double theta)
{
    double frequencies[PAIRS_MAX];
    published_frequencies(frequencies, dim, theta);
    published_rotate_every_two_by(x, heads, dim, frequencies, 1);
}

void published_rms_norm(struct rows x, int64_t heads, const char *name, int layer, double eps,
                        double offset)
{
    const struct rows weight = published_tensor(name, layer);
    const int64_t head_dim = x.columns / heads;
    assert_int_equal(weight.columns, head_dim);
    for (int64_t i = 0; i < x.count * heads; i++) {
        double *head = x.data + i * head_dim, sum = 0;
        for (int64_t c = 0; c < head_dim; c++)
            sum += head[c] * head[c];
        const double scale = forward_parts_norm_scale(1 / sqrt(sum / (double)head_dim + eps));
        for (int64_t c = 0; c < head_dim; c++)
            head[c] *= (offset + weight.data[c]) * scale;
    }
}

void published_clamp(struct rows x, double most)
{
    for (int64_t i = 0; i < x.count * x.columns; i++)
        x.data[i] = fmin(fmax(x.data[i], -most), most);
}

void published_layer_norm(struct rows x, int64_t first, int64_t columns, const double *weight,
                          const double *bias, double eps)
{
    for (int64_t i = 0; i < x.count; i++) {
        double *row = x.data + i * x.columns + first, mean = 0, variance = 0;
        for (int64_t c = 0; c < columns; c++)
            mean += row[c] / (double)columns;
        for (int64_t c = 0; c < columns; c++)
            variance += pow(row[c] - mean, 2) / (double)columns;
        const double scale = forward_parts_norm_scale(1 / sqrt(variance + eps));
        for (int64_t c = 0; c < columns; c++)
            row[c] = (row[c] - mean) * scale * weight[c] + (bias ? bias[c] : 0);
    }
}

/* t5/modeling_t5.py of Hugging Face transformers at 001359e316a8, _relative_position_bucket(). */
int published_t5_bucket(int64_t relative_position, bool bidirectional, int num_buckets,
                        int max_distance)
{
    int relative_buckets = 0;
    if (bidirectional) {
        num_buckets /= 2;
        relative_buckets += relative_position > 0 ? num_buckets : 0;
        relative_position = llabs(relative_position);
    } else {
        relative_position = relative_position < 0 ? -relative_position : 0;
    }
    const int max_exact = num_buckets / 2;
    if (relative_position < max_exact)
        return relative_buckets + (int)relative_position;
    const int large = max_exact
                      + (int)(log((double)relative_position / max_exact)
                              / log((double)max_distance / max_exact) * (num_buckets - max_exact));
    return relative_buckets + (large < num_buckets - 1 ? large : num_buckets - 1);
}
