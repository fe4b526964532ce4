/* passed_sockets.c - see passed_sockets.h.
 *
 * The protocol is three variables, and sd_listen_fds(3), "Notes", describes it in full, so the
 * daemon does without libsystemd. LISTEN_FDS is the number of descriptors, from 3 on.
 * LISTEN_FDNAMES has their names, with colons between. LISTEN_PID is the process that they are for:
 * a program inherits the variables from a parent that did not unset them. A daemon that starts
 * itself again (restart.h) stays the same process, and keeps descriptors and variables. */
#include "host/passed_sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_DESCRIPTOR = 3 };

static const char COUNT[] = "LISTEN_FDS", NAMES[] = "LISTEN_FDNAMES", PROCESS[] = "LISTEN_PID";

/* The number that a variable has; -1 where it has none. */
static long number_in(const char *variable)
{
    char *end;
    const char *text = getenv(variable);
    if (!text || text[0] < '0' || text[0] > '9')
        return -1;
    errno = 0;
    const long number = strtol(text, &end, 10);
    return *end || errno ? -1 : number;
}

static bool take(struct passed_socket *passed, int descriptor, const char **names,
                 struct fault *fault)
{
    const size_t length = *names ? strcspn(*names, ":") : 0;
    *passed = (struct passed_socket){ .descriptor = descriptor };
    snprintf(passed->name, sizeof passed->name, "%.*s", (int)length, *names ? *names : "");
    *names = *names && (*names)[length] ? *names + length + 1 : NULL;
    return fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0
           || fault_set(fault, FAULT_OPTION, "%s says that descriptor %d is passed: %s", COUNT,
                        descriptor, strerror(errno));
}

static bool take_all(struct passed_socket sockets[PASSED_SOCKETS_MAX], int *count,
                     struct fault *fault)
{
    const long passed = number_in(COUNT);
    const char *names = getenv(NAMES);
    if (number_in(PROCESS) != getpid() || !getenv(COUNT))
        return true;
    if (passed < 0 || passed > PASSED_SOCKETS_MAX)
        return fault_set(fault, FAULT_OPTION,
                         "%s is '%.20s'; expected the number of sockets, at "
                         "most %d",
                         COUNT, getenv(COUNT), PASSED_SOCKETS_MAX);
    for (; *count < passed; (*count)++)
        if (!take(&sockets[*count], FIRST_DESCRIPTOR + *count, &names, fault))
            return false;
    return true;
}

bool passed_sockets_take(struct passed_socket sockets[PASSED_SOCKETS_MAX], int *count,
                         struct fault *fault)
{
    *count = 0;
    const bool taken = take_all(sockets, count, fault);
    unsetenv(COUNT);
    unsetenv(NAMES);
    unsetenv(PROCESS);
    return taken;
}
