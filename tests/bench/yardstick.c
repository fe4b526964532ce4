/* yardstick.c - see yardstick.h. Compiled so that a product and a sum become one multiply-add. */
#include "yardstick.h"

#include <stdint.h>
#include <string.h>
#include <time.h>

#ifdef __x86_64__
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
