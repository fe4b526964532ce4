/* dropout.c - dropout by a random number that each pair of query row and key has from the start.
 *
 * Nothing is drawn in turn: the number of a pair is a function of the seed and of where the pair
 * stands, so the same weights are dropped whatever the tiles, the threads and the outputs, and in a
 * part of the keys (kv_offset) the same as in the whole. One counter serves four keys. */
#include "dropout.h"

#include "internal.h"
#include "philox.h"

void attn_dropout_row(const struct attn_problem *problem, int64_t batch, int64_t head, int64_t row,
                      int64_t first, int64_t n, float *weights, int64_t stride)
{
    const struct attn_options *options = &problem->options;
    /* Dropped where the word is below it: a share of dropout, to 2^-32. */
    const uint64_t threshold = (uint64_t)((double)options->dropout * 0x1p32);
    const float kept = (float)(1.0 / (1.0 - (double)options->dropout));
    const uint64_t start = (uint64_t)problem->kv_offset + (uint64_t)first;
    uint32_t words[4];

    for (int64_t j = 0; j < n; j++) {
        const uint64_t position = start + (uint64_t)j;
        if (j == 0 || position % 4 == 0) {
            const uint64_t low = (position / 4 & UINT32_MAX) | (uint64_t)row << 32;
            const uint64_t high = ((uint64_t)head & UINT32_MAX) | (uint64_t)batch << 32;
            attn_philox(options->seed, low, high, words);
        }
        weights[j * stride] *= words[position % 4] < threshold ? 0.0f : kept;
    }
}
