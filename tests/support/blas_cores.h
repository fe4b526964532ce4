/* SPDX-License-Identifier: Apache-2.0 */
/* blas_cores.h - a program of tests, once for each type of core whose kernels OpenBLAS has and this
 * CPU can run. OpenBLAS chooses when it is loaded, so each is a child of the program. */
#ifndef BLAS_CORES_H
#define BLAS_CORES_H

#include "blas_multiply.h"
#include "test.h"

#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __x86_64__
static inline bool blas_core_runs_here(const char *name)
{
    __builtin_cpu_init();
    if (strcmp(name, "Sandybridge") == 0)
        return __builtin_cpu_supports("avx");
    if (strcmp(name, "Haswell") == 0)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(name, "SkylakeX") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
               && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
               && __builtin_cpu_supports("avx512cd");
    return true;
}
#endif

static inline bool blas_core_is(const char *name)
{
    return strcasecmp(openblas_get_corename(), name) == 0;
}

/* main() of the program. Returns how many children failed, in a child how many tests did. Where the
 * CPU is not of x86, whatever OpenBLAS chooses by itself runs: an emulator starts no children. */
static inline int blas_cores_main(void)
{
#ifdef __x86_64__
    static const char *const CORES[] = { "Prescott",    "Core2",   "Nehalem",
                                         "Sandybridge", "Haswell", "SkylakeX" };
    const char *own = getenv("TEST_BLAS_CORE");
    int failed = 0;
    if (own && !blas_core_is(own)) {
        printf("this OpenBLAS has no kernels of %s\n", own);
        return 0;
    }
    if (own)
        return test_run(own);
    for (size_t i = 0; i < sizeof CORES / sizeof CORES[0]; i++) {
        int status = 1;
        if (!blas_core_runs_here(CORES[i]))
            continue;
        fflush(stdout);
        const pid_t pid = fork();
        if (pid == 0) {
            setenv("TEST_BLAS_CORE", CORES[i], 1);
            setenv("OPENBLAS_CORETYPE", CORES[i], 1);
            setenv("OPENBLAS_NUM_THREADS", "1", 1);
            execl("/proc/self/exe", CORES[i], (char *)NULL);
            _exit(127);
        }
        failed += pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
    }
    return failed;
#else
    return test_run(NULL);
#endif
}

#endif
