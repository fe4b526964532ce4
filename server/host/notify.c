/* notify.c - see notify.h.
 *
 * The protocol is one datagram, and sd_notify(3), "Notes", describes it in full, so the daemon does
 * without libsystemd. */
#include "host/notify.h"

#include "base/unix_address.h"
#include "watch/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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
