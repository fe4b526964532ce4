/* SPDX-License-Identifier: Apache-2.0 */
/* process_start.c - starts the program once more, chooses OpenBLAS's kernels, asks for tiles,
 * raises the limit of files. */
#include "host/process_start.h"

#include "telemetry/log.h"

#include <cblas.h>
#ifndef OPENBLAS_VERSION
#error "this cblas.h is another BLAS's: put that of OpenBLAS (libopenblas-dev) before it"
#endif

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---------------------------------------------------------- another start -- */

/* glibc keeps seven freed blocks of each size for a thread. It takes all others from the one heap,
 * under the lock of that heap, and a request in JSON, or an envelope of the Open Inference
 * Protocol, takes dozens of blocks. glibc reads how many to keep from the environment when it is
 * loaded (https://www.gnu.org/software/libc/manual/html_node/Memory-Allocation-Tunables.html).
 * Blocks of up to about a kilobyte have 64 sizes, so 64 blocks of each keep at most 2 MiB for a
 * thread. */

bool restart_tune_heap(void)
{
    static const char NAME[] = "GLIBC_TUNABLES";
    /* A program with more rights than its caller may lose the variable each time it starts. */
    return !getauxval(AT_SECURE) && !getenv(NAME)
           && setenv(NAME, "glibc.malloc.tcache_count=64", 1) == 0;
}

/* Starts the program by its path where that path still leads to it: the system names a process
 * after the path that it was started by, and /proc/self/exe would name it "exe". */
void restart(char **argv)
{
    char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length > 0) {
        path[length] = '\0';
        execv(path, argv);
    }
    execv("/proc/self/exe", argv);
}

/* ---------------------------------------------------- kernels of OpenBLAS -- */

/* OpenBLAS chooses its kernels, and starts a thread for each CPU, in a constructor that runs before
 * main(). So another choice needs another start of the program. The new start does not lead to one
 * more: it has the environment variables that rule out both reasons for a start. */

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

bool blas_core_matches(const char *kernels)
{
    enum generation needed = GENERATION_OLD;
#if defined(__x86_64__) || defined(__i386__)
    needed = strcmp(kernels, "generic") == 0 ? GENERATION_AVX
             : strcmp(kernels, "avx2") == 0  ? GENERATION_AVX2
                                             : GENERATION_AVX512;
#endif
    (void)kernels;
    return generation_of_core(blas_core_name()) >= needed;
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

/* ------------------------------------------------------------------ tiles -- */

#ifdef __x86_64__

/* Of <asm/prctl.h>, since Linux 5.16, and the number of the tiles' data in XCR0. */
enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

const char *tiles_refused(void)
{
    if (syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0)
        return NULL;
    switch (errno) {
    case EPERM:
    case EACCES:
        return "a filter of system calls (seccomp) refuses arch_prctl(ARCH_REQ_XCOMP_PERM); allow "
               "arch_prctl";
    case ENOSPC:
        return "a thread has an alternate signal stack that is too small for them "
               "(AT_MINSIGSTKSZ)";
    case EINVAL:
    case ENOSYS:
    case EOPNOTSUPP:
        return "Linux does not offer them; it has them from 5.16 on, where the CPU does";
    default:
        return strerror(errno);
    }
}

#else

const char *tiles_refused(void)
{
    return "this CPU is not of x86";
}

#endif

/* ------------------------------------------------------------- open files -- */

/* How the files of the process are shared out. */
enum {
    OWN = 48,             /* kept for the daemon itself */
    OWN_A_THREAD = 4,     /* kept for each connection thread */
    FILES_PART = 16,      /* one in 16 is kept for the files that requests read and write */
    CONNECTIONS_PART = 4, /* at least one in 4 may be a connection */
};

void open_files_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        log_line(LOG_WARNING, "file limit", LOG_STRING("reason", strerror(errno)));
}

int open_files_connections(int wanted, int thread_count, int more)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return wanted;
    const rlim_t own =
        OWN + (rlim_t)(OWN_A_THREAD * thread_count + more) + limit.rlim_cur / FILES_PART;
    const rlim_t least = limit.rlim_cur / CONNECTIONS_PART + 1;
    const rlim_t most = limit.rlim_cur > own + least ? limit.rlim_cur - own : least;
    if ((rlim_t)wanted <= most)
        return wanted;
    log_line(LOG_WARNING, "fewer connections than --connections-max",
             LOG_NUMBER("connections_max", most), LOG_NUMBER("wanted", wanted),
             LOG_NUMBER("open_files_max", limit.rlim_cur));
    return (int)most;
}
