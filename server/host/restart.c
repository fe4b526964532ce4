/* restart.c - see restart.h.
 *
 * glibc keeps seven freed blocks of each size for a thread. It takes all others from the one heap,
 * under the lock of that heap, and a request in JSON, or an envelope of the Open Inference
 * Protocol, takes dozens of blocks. glibc reads how many to keep from the environment when it is
 * loaded (https://www.gnu.org/software/libc/manual/html_node/Memory-Allocation-Tunables.html).
 * Blocks of up to about a kilobyte have 64 sizes, so 64 blocks of each keep at most 2 MiB for a
 * thread. */
#include "host/restart.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

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
