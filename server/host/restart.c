/* restart.c - see restart.h. By its path where that still leads here, because the system names a
 * process after what it was started as, and /proc/self/exe would make that "exe". */
#include "host/restart.h"

#include <limits.h>
#include <unistd.h>

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
