/* tiles.c - see tiles.h. */
#include "host/tiles.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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
