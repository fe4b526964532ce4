/* SPDX-License-Identifier: Apache-2.0 */
/* process_start.h - what the process arranges at its start, for what libraries and Linux decide
 * before threads begin: kernels of OpenBLAS, blocks that glibc keeps, tiles, open files. */
#ifndef ATTND_PROCESS_START_H
#define ATTND_PROCESS_START_H

#include <stdbool.h>

/* Sets GLIBC_TUNABLES for the next start, so that each thread keeps as many small blocks of freed
 * memory as a request needs. False where the variable is set already, by this program or by the
 * user, whose choice stands. */
bool restart_tune_heap(void);

/* Executes this program again with the same arguments and the environment as it is now. Returns
 * only where that cannot be done. Call it before anything is opened or started. */
void restart(char **argv);

/* The kernels that OpenBLAS runs on this CPU.
 *
 * Debian's OpenBLAS 0.3.21 does not know CPUs that are newer than itself. On such a CPU it falls
 * back to its oldest kernels, which are 5 times slower there. It reads OPENBLAS_CORETYPE when it is
 * loaded, before main(), so the daemon sets the variable and starts itself again, once. */

/* The core type for this CPU: "SkylakeX" (AVX-512), "Haswell" (AVX2 and FMA), "Sandybridge" (AVX),
 * or NULL, which leaves the choice to OpenBLAS. */
const char *blas_core_wanted(void);

/* Executes this program again with the same arguments, at most once, where OpenBLAS has chosen
 * kernels older than blas_core_wanted() and the user did not set OPENBLAS_CORETYPE, or where it has
 * started threads of its own. The new start has OPENBLAS_NUM_THREADS=1 and the right
 * OPENBLAS_CORETYPE. Returns, with BLAS set to one thread, where no new start is needed or where it
 * failed, which leaves the choice as it was. Call it before anything is opened or started. */
void blas_core_select(char **argv);

/* Whether the core type that OpenBLAS runs may be faster than a table of kernels of this name: it
 * uses AVX beside "generic", the table's instruction set beside others. On other CPUs than x86 all
 * do. */
bool blas_core_matches(const char *kernels);

/* The core type that OpenBLAS runs: openblas_get_corename(). */
const char *blas_core_name(void);

/* Asks Linux that this process may use tiles: their state is large, and a thread that touches one
 * unasked is killed (SIGILL). Threads that begin later may use them too. Returns NULL, or in words
 * why not. Call it before any thread begins, and before system calls are given up. */
const char *tiles_refused(void);

/* Raises the limit as far as the system lets this process do so. */
void open_files_raise(void);

/* How many of the wanted connections may be open at once, so that enough files are left for the
 * rest: files that requests read and write, the descriptors that thread_count connection threads
 * wait on, and more files of other kinds. A model keeps no file open. Logs a warning where the
 * number is lower than wanted. */
int open_files_connections(int wanted, int thread_count, int more);

#endif
