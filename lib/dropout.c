/* dropout.c - dropout by a random number that each pair of query row and key has from the start.
 *
 * Nothing is drawn in turn: the number of a pair is a function of the seed and of where the pair
 * stands, so the same weights are dropped whatever the tiles, the threads and the outputs, and in a
 * part of the keys (kv_offset) the same as in the whole. One counter serves four keys. */
#include "dropout.h"

#include "internal.h"

enum { PHILOX_ROUNDS = 10 };

void attn_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];

    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const uint64_t a = UINT64_C(0xD2511F53) * c0;
        const uint64_t b = UINT64_C(0xCD9E8D57) * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

void attn_dropout_row(const struct attn_problem *problem, int64_t batch, int64_t head, int64_t row,
                      int64_t first, int64_t n, float *weights, int64_t stride)
{
    const struct attn_options *options = &problem->options;
    const uint32_t key[2] = { (uint32_t)options->seed, (uint32_t)(options->seed >> 32) };
    /* Dropped where the word is below it: a share of dropout, to 2^-32. */
    const uint64_t threshold = (uint64_t)((double)options->dropout * 0x1p32);
    const float kept = (float)(1.0 / (1.0 - (double)options->dropout));
    const uint64_t start = (uint64_t)problem->kv_offset + (uint64_t)first;
    uint32_t words[4];

    for (int64_t j = 0; j < n; j++) {
        const uint64_t position = start + (uint64_t)j;
        if (j == 0 || position % 4 == 0) {
            const uint32_t counter[4] = { (uint32_t)(position / 4), (uint32_t)row, (uint32_t)head,
                                          (uint32_t)batch };
            attn_philox(counter, key, words);
        }
        weights[j * stride] *= words[position % 4] < threshold ? 0.0f : kept;
    }
}
