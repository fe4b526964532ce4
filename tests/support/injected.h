/* SPDX-License-Identifier: Apache-2.0 */
/* injected.h - what a test and the process under injected.c share.
 *
 * The file that INJECTED_CONTROL names holds one of these; the test maps it (MAP_SHARED), fills in
 * an attempt, sends SIGUSR2 and waits until the process has made it:
 *
 *     control->attempt = INJECTED_FORK;
 *     atomic_store(&control->made, false);
 *     kill(pid, SIGUSR2);
 *     ... until atomic_load(&control->made) ...
 *     control->error is 0 where it succeeded, else its errno */
#ifndef INJECTED_H
#define INJECTED_H

#include <stdatomic.h>
#include <stdbool.h>

enum injected_attempt {
    INJECTED_FORK,
    INJECTED_FORK_3,     /* by clone3() */
    INJECTED_EXECUTE,    /* path */
    INJECTED_OPEN,       /* path, to read */
    INJECTED_OPEN_WRITE, /* path, to write */
    INJECTED_CREATE,     /* path, which is not there */
    INJECTED_REMOVE,     /* path */
    INJECTED_TCP,        /* connect to the number, a port of 127.0.0.1 */
    INJECTED_TCP_SENDTO, /* the same by sendto() with MSG_FASTOPEN */
    INJECTED_TCP_SENDMSG,
    INJECTED_UNIX,     /* connect to path */
    INJECTED_BIND,     /* to any port of 127.0.0.1 */
    INJECTED_TRACE,    /* the process of the number */
    INJECTED_SIGNAL,   /* nothing but the check, to the process of the number */
    INJECTED_OWNER,    /* lets the process of the number have the signals of a descriptor */
    INJECTED_PRIORITY, /* of all processes of the user, as it is */
    INJECTED_AFFINITY, /* of the process of the number, as it is */
    INJECTED_OPTION,   /* of a socket: the size of its buffer */
    INJECTED_UDP,      /* opens a socket of UDP */
    INJECTED_DUMP,     /* whether a core file could be made of it */
    INJECTED_PROTECT,  /* makes memory executable that was written */
    INJECTED_MAP,      /* maps executable memory */
    INJECTED_CALL,     /* the system call of the number, its arguments all 0 */
};

struct injected {
    enum injected_attempt attempt;
    int number;
    char path[512];
    int error;
    _Atomic bool made;
};

#endif
