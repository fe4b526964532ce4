/* blas_core.c - see blas_core.h.
 *
 * OpenBLAS chooses its kernels, and starts a thread for each CPU, in a constructor that runs before
 * main(). So another choice needs another start of the program. The new start does not lead to one
 * more: it has the environment variables that rule out both reasons for a start. */
#include "host/blas_core.h"

#include "host/restart.h"

#include <cblas.h>
#ifndef OPENBLAS_VERSION
#error "this cblas.h is another BLAS's: put that of OpenBLAS (libopenblas-dev) before it"
#endif
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char CORE_VARIABLE[] = "OPENBLAS_CORETYPE";
static const char THREADS_VARIABLE[] = "OPENBLAS_NUM_THREADS";

/* Instruction sets, from the slowest to the fastest. */
enum generation { GENERATION_OLD, GENERATION_AVX, GENERATION_AVX2, GENERATION_AVX512 };

/* The cores of OpenBLAS (driver/others/dynamic.c) that use AVX or a later instruction set. Zen uses
 * AVX2, even on the Zen CPUs that have AVX-512. */
static const struct core {
    const char *name;
    enum generation generation;
} CORES[] = {
    { "Sandybridge", GENERATION_AVX },   { "Bulldozer", GENERATION_AVX },
    { "Piledriver", GENERATION_AVX },    { "Steamroller", GENERATION_AVX },
    { "Excavator", GENERATION_AVX },     { "Haswell", GENERATION_AVX2 },
    { "Zen", GENERATION_AVX2 },          { "SkylakeX", GENERATION_AVX512 },
    { "Cooperlake", GENERATION_AVX512 }, { "SapphireRapids", GENERATION_AVX512 },
};

static enum generation generation_of_core(const char *name)
{
    for (size_t i = 0; i < sizeof CORES / sizeof CORES[0]; i++)
        if (strcasecmp(CORES[i].name, name) == 0)
            return CORES[i].generation;
    return GENERATION_OLD;
}

/* The newest set that the CPU has and the system lets programs use (the builtin also asks XGETBV).
 */
static enum generation generation_of_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
        && __builtin_cpu_supports("avx512cd"))
        return GENERATION_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return GENERATION_AVX2;
    if (__builtin_cpu_supports("avx"))
        return GENERATION_AVX;
#endif
    return GENERATION_OLD;
}

const char *blas_core_wanted(void)
{
    static const char *const WANTED[] = {
        [GENERATION_OLD] = NULL,
        [GENERATION_AVX] = "Sandybridge",
        [GENERATION_AVX2] = "Haswell",
        [GENERATION_AVX512] = "SkylakeX",
    };
    return WANTED[generation_of_cpu()];
}

const char *blas_core_name(void)
{
    return openblas_get_corename();
}

void blas_core_select(char **argv)
{
    const char *threads = getenv(THREADS_VARIABLE);
    const char *wanted = blas_core_wanted();
    const bool core_is_old = wanted && !getenv(CORE_VARIABLE)
                             && generation_of_core(blas_core_name()) < generation_of_core(wanted);
    const bool has_threads =
        openblas_get_num_threads() > 1 && (!threads || strcmp(threads, "1") != 0);
    if ((core_is_old || has_threads) && setenv(THREADS_VARIABLE, "1", 1) == 0
        && (!core_is_old || setenv(CORE_VARIABLE, wanted, 1) == 0))
        restart(argv);
    openblas_set_num_threads(1);
}
