/* blas_core.h - the kernels that OpenBLAS runs on this CPU.
 *
 * Debian's OpenBLAS 0.3.21 does not know CPUs that are younger than it and then
 * falls back to its oldest kernels (5 times slower on such a machine). It reads
 * OPENBLAS_CORETYPE when it is loaded, so the choice has to be made before main():
 * the daemon sets the variable and starts itself again, once. */
#ifndef ATTND_BLAS_CORE_H
#define ATTND_BLAS_CORE_H

#include <stdbool.h>

/* The core type for this CPU, "SkylakeX", "Haswell" (AVX2 and FMA), "Sandybridge" (AVX) or NULL:
 * leave it to OpenBLAS. What runs on an AVX-512 machine is never older than AVX-512. */
const char *blas_core_wanted(void);

/* Executes this program again with the same arguments where OpenBLAS, before main(), chose kernels
 * older than blas_core_wanted() (and the user did not set OPENBLAS_CORETYPE), or has started
 * threads of its own: with OPENBLAS_NUM_THREADS=1 and the right OPENBLAS_CORETYPE, at most once.
 * Returns where nothing has to be done or that failed (then the choice stays as it was). Also sets
 * one BLAS thread. To be called before anything is opened or started. */
void blas_core_select(char **argv);

/* What runs: openblas_get_corename(). */
const char *blas_core_name(void);

#endif
