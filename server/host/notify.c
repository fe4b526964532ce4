/* notify.c - see notify.h.
 *
 * The protocol is one datagram, and sd_notify(3), "Notes", describes it in full, so the daemon does
 * without libsystemd. */
#include "host/notify.h"

#include "watch/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char VARIABLE[] = "NOTIFY_SOCKET";

/* Fills in the address of "/run/x", or of "@x", one of the abstract names of Linux (unix(7)): a NUL
 * byte stands in place of the "@", and the length alone says where the name ends. Returns the size
 * of the address; 0 where name is neither or too long. */
static socklen_t address_of(const char *name, struct sockaddr_un *address)
{
    const size_t length = strlen(name);
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if ((name[0] != '/' && name[0] != '@') || length >= sizeof address->sun_path)
        return 0;
    memcpy(address->sun_path, name, length);
    if (name[0] == '@')
        address->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

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
    const socklen_t size = name ? address_of(name, &address) : 0;
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
    const socklen_t size = address_of(name, &address);
    if (size == 0)
        errno = EAFNOSUPPORT;
    if (size == 0 || !send_to(&address, size, lines))
        log_line(LOG_WARNING, "service manager not told", LOG_STRING("lines", lines),
                 LOG_STRING("reason", strerror(errno)));
}
