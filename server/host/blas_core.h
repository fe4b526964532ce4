/* blas_core.h - the kernels that OpenBLAS runs on this CPU.
 *
 * Debian's OpenBLAS 0.3.21 does not know CPUs that are newer than itself. On such a CPU it falls
 * back to its oldest kernels, which are 5 times slower there. It reads OPENBLAS_CORETYPE when it is
 * loaded, before main(), so the daemon sets the variable and starts itself again, once. */
#ifndef ATTND_BLAS_CORE_H
#define ATTND_BLAS_CORE_H

#include <stdbool.h>

/* The core type for this CPU: "SkylakeX" (AVX-512), "Haswell" (AVX2 and FMA), "Sandybridge" (AVX),
 * or NULL, which leaves the choice to OpenBLAS. */
const char *blas_core_wanted(void);

/* Executes this program again with the same arguments, at most once, where OpenBLAS has chosen
 * kernels older than blas_core_wanted() and the user did not set OPENBLAS_CORETYPE, or where it has
 * started threads of its own. The new start has OPENBLAS_NUM_THREADS=1 and the right
 * OPENBLAS_CORETYPE. Returns, with BLAS set to one thread, where no new start is needed or where it
 * failed, which leaves the choice as it was. Call it before anything is opened or started. */
void blas_core_select(char **argv);

/* The core type that OpenBLAS runs: openblas_get_corename(). */
const char *blas_core_name(void);

#endif
