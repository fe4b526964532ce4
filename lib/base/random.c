/* SPDX-License-Identifier: Apache-2.0 */
/* random.c - dropout with a random number that is fixed for each pair of query row and key; initial
 * values of parameters.
 *
 * No generator state advances: the number of a pair is a function of the seed and of the pair's
 * place. So the same weights are dropped for any tiles, threads and outputs, and in a part of the
 * keys (kv_offset) the same as in the whole. One counter serves four keys. */
#include "base/random.h"

#include "base/internal.h"
#include "linear.h"

#include <math.h>

/* The random words of one query row, four at a time. */
struct row_words {
    uint64_t seed, row, head; /* the constant parts of the counter */
    uint64_t threshold; /* a weight is dropped if its word is below this: the fraction dropout, to
                           2^-32 */
    uint32_t words[4];
};

static struct row_words begin_row(const struct attn_problem *problem, int64_t batch, int64_t head,
                                  int64_t row)
{
    return (struct row_words){
        .seed = problem->options.seed,
        .row = (uint64_t)(uint32_t)row << 32,
        .head = (uint64_t)(uint32_t)batch << 32 | (uint32_t)head,
        .threshold = (uint64_t)((double)problem->options.dropout * 0x1p32),
    };
}

/* Call with ascending positions; is_first marks the first of them. */
static inline bool is_dropped(struct row_words *row, uint64_t position, bool is_first)
{
    if (is_first || position % 4 == 0)
        attn_philox(row->seed, row->row | (uint32_t)(position / 4), row->head, row->words);
    return row->words[position % 4] < row->threshold;
}

void attn_dropout_row(const struct attn_problem *problem, int64_t batch, int64_t head, int64_t row,
                      int64_t first, int64_t n, float *weights, int64_t stride)
{
    struct row_words words = begin_row(problem, batch, head, row);
    const float kept = (float)(1.0 / (1.0 - (double)problem->options.dropout));
    const uint64_t start = (uint64_t)problem->kv_offset + (uint64_t)first;

    for (int64_t j = 0; j < n; j++)
        weights[j * stride] *= is_dropped(&words, start + (uint64_t)j, j == 0) ? 0.0f : kept;
}

void attn_dropout_row_double(const struct attn_problem *problem, int64_t batch, int64_t head,
                             int64_t row, int64_t first, int64_t n, double *weights, int64_t stride)
{
    struct row_words words = begin_row(problem, batch, head, row);
    const double kept = 1.0 / (1.0 - (double)problem->options.dropout);
    const uint64_t start = (uint64_t)problem->kv_offset + (uint64_t)first;

    for (int64_t j = 0; j < n; j++)
        weights[j * stride] *= is_dropped(&words, start + (uint64_t)j, j == 0) ? 0.0 : kept;
}

/* ---------------------------------------------------------------------------- initial values -- */

void attn_init_glorot(float *values, int64_t count, int64_t in, int64_t out, uint64_t seed,
                      uint64_t stream)
{
    const double bound = sqrt(6.0 / ((double)in + (double)out));
    uint32_t bits[4] = { 0 };

    for (int64_t i = 0; i < count; i++) {
        if (i % 4 == 0)
            attn_philox(seed, (uint64_t)(i / 4), stream, bits);
        const double odd = 2.0 * (double)(bits[i % 4] >> 8) + 1.0;
        values[i] = (float)(bound * (odd * 0x1p-24 - 1.0));
    }
}
