/* heap_tuning.c - see heap_tuning.h.
 *
 * There are 64 sizes of up to about a kilobyte, so that a thread keeps 2 MiB at the most. */
#include "host/heap_tuning.h"

#include <stdlib.h>
#include <sys/auxv.h>

bool heap_tuning_set(void)
{
    static const char NAME[] = "GLIBC_TUNABLES";
    /* A program with more rights than its caller may lose the variable each time it starts. */
    return !getauxval(AT_SECURE) && !getenv(NAME)
           && setenv(NAME, "glibc.malloc.tcache_count=64", 1) == 0;
}
