/* SPDX-License-Identifier: Apache-2.0 */
/* service_manager.c - sockets that were passed, and notes on the daemon's state. */
#include "host/service_manager.h"

#include "base/unix_address.h"
#include "telemetry/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---------------------------------------------------------------- sockets -- */

/* The protocol is three variables, and sd_listen_fds(3), "Notes", describes it in full, so the
 * daemon does without libsystemd. LISTEN_FDS is the number of descriptors, from 3 on.
 * LISTEN_FDNAMES has their names, with colons between. LISTEN_PID is the process that they are for:
 * a program inherits the variables from a parent that did not unset them. A daemon that starts
 * itself again (process_start.h) stays the same process, and keeps descriptors and variables. */

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

/* ------------------------------------------------------------------ notes -- */

/* The protocol is one datagram, and sd_notify(3), "Notes", describes it in full, so the daemon does
 * without libsystemd. */

static const char VARIABLE[] = "NOTIFY_SOCKET";

static int kept = -1; /* connected to the manager; -1: none */

/* Does not wait for a manager that does not read. False, with errno, where the lines were not sent.
 */
static bool send_to(const struct sockaddr_un *address, socklen_t size, const char *lines)
{
    if (kept >= 0)
        return send(kept, lines, strlen(lines), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
    const int sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool sent = sender >= 0
                      && sendto(sender, lines, strlen(lines), MSG_NOSIGNAL | MSG_DONTWAIT,
                                (const struct sockaddr *)address, size)
                             >= 0;
    const int error = errno;
    if (sender >= 0)
        close(sender);
    errno = error;
    return sent;
}

void notify_keep(void)
{
    struct sockaddr_un address;
    const char *name = getenv(VARIABLE);
    const socklen_t size = name ? unix_address(&address, name) : 0;
    if (size == 0 || kept >= 0)
        return;
    kept = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (kept >= 0 && connect(kept, (const struct sockaddr *)&address, size) != 0) {
        close(kept);
        kept = -1;
    }
}

void notify(const char *lines)
{
    struct sockaddr_un address;
    const char *name = getenv(VARIABLE);
    if (!name || !name[0])
        return;
    const socklen_t size = unix_address(&address, name);
    if (size == 0)
        errno = EAFNOSUPPORT;
    if (size == 0 || !send_to(&address, size, lines))
        log_line(LOG_WARNING, "service manager not told", LOG_STRING("lines", lines),
                 LOG_STRING("reason", strerror(errno)));
}
