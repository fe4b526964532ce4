/* listener.c - see listener.h. */
#include "listener.h"

#include "log.h"

#include <errno.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Cuts "[::1]:80" or "127.0.0.1:80" into its parts. */
static bool split_address(const char *address, char *host, size_t host_size, const char **port)
{
    const char *colon = strrchr(address, ':');
    if (!colon || !colon[1])
        return false;
    *port = colon + 1;
    size_t length = (size_t)(colon - address);
    if (address[0] == '[') {
        if (length < 2 || colon[-1] != ']')
            return false;
        address++;
        length -= 2;
    }
    if (length == 0 || length >= host_size)
        return false;
    memcpy(host, address, length);
    host[length] = '\0';
    return true;
}

static bool describe(struct listener *listener, const char *asked, struct fault *fault)
{
    struct sockaddr_storage name = { .ss_family = AF_UNSPEC };
    socklen_t size = sizeof name;
    char host[64], port[8];
    if (getsockname(listener->socket, (struct sockaddr *)&name, &size) != 0
        || getnameinfo((struct sockaddr *)&name, size, host, sizeof host, port, sizeof port,
                       NI_NUMERICHOST | NI_NUMERICSERV)
               != 0)
        return fault_set(fault, FAULT_OPTION, "cannot tell the address of %s", asked);
    snprintf(listener->address, sizeof listener->address,
             name.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    return true;
}

bool listener_open(struct listener *listener, const char *address, struct fault *fault)
{
    char host[64];
    const char *port;
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {
        .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
        .ai_socktype = SOCK_STREAM,
    };
    listener->socket = -1;
    if (!split_address(address, host, sizeof host, &port)
        || getaddrinfo(host, port, &hints, &found) != 0)
        return fault_set(fault, FAULT_OPTION,
                         "cannot listen on '%s': expected ADDR:PORT with a numeric address",
                         address);
    const int one = 1;
    listener->socket = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const bool bound =
        listener->socket >= 0
        && setsockopt(listener->socket, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0
        && bind(listener->socket, found->ai_addr, found->ai_addrlen) == 0
        && listen(listener->socket, SOMAXCONN) == 0;
    const int error = errno;
    freeaddrinfo(found);
    if (!bound) {
        listener_close(listener);
        return fault_set(fault, FAULT_OPTION, "cannot listen on %s: %s", address, strerror(error));
    }
    if (!describe(listener, address, fault)) {
        listener_close(listener);
        return false;
    }
    return true;
}

/* A packet with SYN is one too few for a filter that lets all others pass (socket(7),
 * SO_ATTACH_FILTER); it sees packets from their TCP header on. */
void listener_begin_none(const struct listener *listener)
{
    enum { FLAGS_AT = 13 };
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS_AT),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, TH_SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    const struct sock_fprog filter = { .len = sizeof code / sizeof code[0], .filter = code };
    if (setsockopt(listener->socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0)
        log_line(LOG_DEBUG, "no filter", LOG_STRING("reason", strerror(errno)));
}

void listener_close(struct listener *listener)
{
    if (listener->socket >= 0)
        close(listener->socket);
    listener->socket = -1;
}
