/* SPDX-License-Identifier: Apache-2.0 */
/* random.h - Philox4x32-10, a random number generator without state, and which weights dropout
 * drops.
 *
 * Numbers are a function of a key and a counter. Any number can be computed alone, in any order, by
 * any thread, the same everywhere.
 *
 * Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", with the
 * constants of the authors' Random123. */
#ifndef ATTN_RANDOM_H
#define ATTN_RANDOM_H

#include "attn.h"

/* Four words of 32 random bits for seed, at the 128-bit counter (low, high). */
static inline void attn_philox(uint64_t seed, uint64_t low, uint64_t high, uint32_t bits[4])
{
    uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    uint32_t x[4] = { (uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high,
                      (uint32_t)(high >> 32) };

    for (int round = 0; round < 10; round++) {
        const uint64_t a = UINT64_C(0xD2511F53) * x[0];
        const uint64_t b = UINT64_C(0xCD9E8D57) * x[2];
        x[0] = (uint32_t)(b >> 32) ^ x[1] ^ key[0];
        x[1] = (uint32_t)b;
        x[2] = (uint32_t)(a >> 32) ^ x[3] ^ key[1];
        x[3] = (uint32_t)a;
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++)
        bits[i] = x[i];
}

/* Multiply the weights of one query row, for keys [first, first + n), by 0 or by 1 / (1 -
 * options.dropout); the weights are stride apart. first is an index of the problem's keys.
 *
 * The word of a pair is number k mod 4 of the four that Philox4x32-10 gives for the seed
 * and the counter (k div 4, row, head, batch), where k is the position of the key. */
void attn_dropout_row(const struct attn_problem *problem, int64_t batch, int64_t head, int64_t row,
                      int64_t first, int64_t n, float *weights, int64_t stride);
void attn_dropout_row_double(const struct attn_problem *problem, int64_t batch, int64_t head,
                             int64_t row, int64_t first, int64_t n, double *weights,
                             int64_t stride);

#endif
