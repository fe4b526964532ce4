/* SPDX-License-Identifier: Apache-2.0 */
/* yardstick.c - see yardstick.h. Compiled so that a product and a sum become one multiply-add. */
#include "yardstick.h"

#include <stdint.h>
#include <string.h>
#include <time.h>

#ifdef __x86_64__
#include <immintrin.h>
#define TARGET(features) __attribute__((target(features)))
#else
#define TARGET(features)
#endif

typedef float vec16 __attribute__((vector_size(16)));
typedef float vec32 __attribute__((vector_size(32)));
typedef float vec64 __attribute__((vector_size(64)));

enum { CHAINS = 12, ROUNDS = 100000 };

/* Chains of multiply-adds enough to hide their latency; they decay to 0 and stay there. */
#define MAKE_CHAINS(name, vec, features)                                                           \
    TARGET(features) static float name(float factor)                                               \
    {                                                                                              \
        vec a0 = { 1 }, a1 = { 2 }, a2 = { 3 }, a3 = { 4 }, a4 = { 5 }, a5 = { 6 };                \
        vec a6 = { 7 }, a7 = { 8 }, a8 = { 9 }, a9 = { 10 }, a10 = { 11 }, a11 = { 12 };           \
        const vec f = factor - (vec){ 0 }, g = 1.0f - f;                                           \
        for (int i = 0; i < ROUNDS; i++) {                                                         \
            a0 = a0 * f + g, a1 = a1 * f + g, a2 = a2 * f + g, a3 = a3 * f + g;                    \
            a4 = a4 * f + g, a5 = a5 * f + g, a6 = a6 * f + g, a7 = a7 * f + g;                    \
            a8 = a8 * f + g, a9 = a9 * f + g, a10 = a10 * f + g, a11 = a11 * f + g;                \
        }                                                                                          \
        const vec sum = a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11;               \
        return sum[0];                                                                             \
    }

MAKE_CHAINS(chains16, vec16, "sse2")
MAKE_CHAINS(chains32, vec32, "avx2,fma")
MAKE_CHAINS(chains64, vec64, "avx512f")

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double yardstick_flops(const char *table)
{
    static volatile float factor = 0.5f;
    const int lanes = strncmp(table, "avx512", 6) == 0 || strcmp(table, "amx") == 0 ? 16
                      : strcmp(table, "avx2") == 0                                  ? 8
                                                                                    : 4;
    const double begin = cpu_s();

    const float sum = lanes == 16  ? chains64(factor)
                      : lanes == 8 ? chains32(factor)
                                   : chains16(factor);
    return 2.0 * lanes * CHAINS * ROUNDS / (cpu_s() - begin + 0.0 * (double)sum);
}

#ifdef __x86_64__

enum { DOT_LANES = 16, DOT_BYTES = 4, TILES = 4, TILE_ROWS = 16, TILE_BYTES = 64 };

TARGET("avx512f,avx512vnni") static int chain_dots(int byte)
{
    __m512i sums[CHAINS], total = _mm512_setzero_si512();
    const __m512i factor = _mm512_set1_epi8((char)byte);
    for (int c = 0; c < CHAINS; c++)
        sums[c] = _mm512_set1_epi32(c);
    for (int i = 0; i < ROUNDS; i++)
        for (int c = 0; c < CHAINS; c++)
            sums[c] = _mm512_dpbusd_epi32(sums[c], factor, factor);
    for (int c = 0; c < CHAINS; c++)
        total = _mm512_add_epi32(total, sums[c]);
    return _mm512_reduce_add_epi32(total);
}

double yardstick_dots(void)
{
    static volatile int byte = 1;
    if (!__builtin_cpu_supports("avx512vnni"))
        return 0;
    const double begin = cpu_s();
    const int sum = chain_dots(byte);
    return 2.0 * DOT_LANES * DOT_BYTES * CHAINS * ROUNDS / (cpu_s() - begin + 0.0 * sum);
}

double yardstick_tiles(void)
{
    struct {
        uint8_t palette, first_row, none[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = { .palette = 1 };
    for (int t = 0; t < TILES + 2; t++) {
        config.bytes[t] = TILE_BYTES;
        config.rows[t] = TILE_ROWS;
    }
    __asm__ volatile("ldtilecfg %0\n\ttilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\t"
                     "tilezero %%tmm3\n\ttilezero %%tmm4\n\ttilezero %%tmm5" ::"m"(config));
    const double begin = cpu_s();
    for (int i = 0; i < ROUNDS; i++)
        __asm__ volatile("tdpbf16ps %%tmm5, %%tmm4, %%tmm0\n\ttdpbf16ps %%tmm5, %%tmm4, %%tmm1\n\t"
                         "tdpbf16ps %%tmm5, %%tmm4, %%tmm2\n\ttdpbf16ps %%tmm5, %%tmm4, %%tmm3" ::);
    const double seconds = cpu_s() - begin;
    __asm__ volatile("tilerelease" ::);
    return 2.0 * TILE_ROWS * TILE_ROWS * (TILE_BYTES / 2) * TILES * ROUNDS / seconds;
}

#else

double yardstick_dots(void)
{
    return 0;
}

double yardstick_tiles(void)
{
    return 0;
}

#endif

/* Four streams, as keys and values of two tiles are. */
#define MAKE_READ(name, vec, features)                                                             \
    TARGET(features) static float name(const float *numbers, size_t quarter)                       \
    {                                                                                              \
        enum { LANES = sizeof(vec) / sizeof(float) };                                              \
        vec sums[4] = { { 0 } };                                                                   \
        for (size_t i = 0; i + LANES <= quarter; i += LANES)                                       \
            for (size_t s = 0; s < 4; s++) {                                                       \
                vec v;                                                                             \
                memcpy(&v, numbers + s * quarter + i, sizeof v);                                   \
                sums[s] += v;                                                                      \
            }                                                                                      \
        const vec sum = sums[0] + sums[1] + sums[2] + sums[3];                                     \
        return sum[0];                                                                             \
    }

MAKE_READ(read16, vec16, "sse2")
MAKE_READ(read32, vec32, "avx2")

float yardstick_read(const float *numbers, size_t count)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return read32(numbers, count / 4);
#endif
    return read16(numbers, count / 4);
}
