/* SPDX-License-Identifier: Apache-2.0 */
/* published_disentangled.c - see published_disentangled.h. */
#include "published_disentangled.h"
#include "test.h"

static double sums[PUBLISHED_DISENTANGLED_HEADS][PUBLISHED_DISENTANGLED_LENGTH]
                  [PUBLISHED_DISENTANGLED_LENGTH];

/* make_log_bucket_position(). */
static int64_t bucket(const struct published_disentangled *of, int64_t relative_pos)
{
    const int64_t mid = of->bucket_size / 2;
    const int64_t sign = relative_pos > 0 ? 1 : relative_pos < 0 ? -1 : 0;
    if (of->bucket_size == 0)
        return relative_pos;
    const int64_t abs_pos =
        relative_pos < mid && relative_pos > -mid ? mid - 1 : llabs(relative_pos);
    if (abs_pos <= mid)
        return relative_pos;
    const double most = log((double)(of->max_position - 1) / (double)mid);
    const double log_pos = ceil(log((double)abs_pos / (double)mid) / most * (double)(mid - 1)
                                - 1e-6); /* which floats round to an integer */
    return ((int64_t)log_pos + mid) * sign;
}

static int64_t clamped(int64_t position, int64_t att_span)
{
    return position < 0 ? 0 : position > 2 * att_span - 1 ? 2 * att_span - 1 : position;
}

/* The product of a head's columns of a row of each. */
static double product(struct rows a, int64_t i, struct rows b, int64_t j, int64_t head,
                      int64_t heads)
{
    const int64_t dim = a.columns / heads;
    double sum = 0;
    for (int64_t c = head * dim; c < (head + 1) * dim; c++)
        sum += a.data[i * a.columns + c] * b.data[j * b.columns + c];
    return sum;
}

void published_disentangled_set(const struct published_disentangled *of, struct rows q,
                                struct rows k)
{
    assert_true(of->heads <= PUBLISHED_DISENTANGLED_HEADS
                && q.count <= PUBLISHED_DISENTANGLED_LENGTH
                && k.count <= PUBLISHED_DISENTANGLED_LENGTH);
    for (int64_t h = 0; h < of->heads; h++)
        for (int64_t i = 0; i < q.count; i++)
            for (int64_t j = 0; j < k.count; j++) {
                const int64_t c2p = clamped(bucket(of, i - j) + of->att_span, of->att_span);
                const int64_t p2c = clamped(-bucket(of, j - i) + of->att_span, of->att_span);
                sums[h][i][j] = of->scale * product(q, i, of->pos_key, c2p, h, of->heads);
                if (of->pos_query.data)
                    sums[h][i][j] += of->scale * product(k, j, of->pos_query, p2c, h, of->heads);
            }
}

double published_disentangled_bias(int64_t head, int64_t query, int64_t key)
{
    return sums[head][query][key];
}
