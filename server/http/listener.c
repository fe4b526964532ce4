/* listener.c - see listener.h. */
#include "http/listener.h"

#include "config/listen_address.h"
#include "http/listener_unix.h"
#include "watch/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The addresses that localhost stands for. */
static const char *const LOOPBACKS[LISTENERS_OF_ONE] = { "127.0.0.1", "::1" };

/* The name of a Unix socket, as unix_address() takes it. */
static void describe_unix(struct listener *listener, const struct sockaddr_un *name, socklen_t size)
{
    const size_t length = size - offsetof(struct sockaddr_un, sun_path);
    const bool is_abstract = length > 0 && !name->sun_path[0];
    snprintf(listener->address, sizeof listener->address, LISTEN_UNIX_PREFIX "%s%.*s",
             is_abstract ? "@" : "", (int)(length - is_abstract), name->sun_path + is_abstract);
}

static bool describe(struct listener *listener, const char *asked, struct fault *fault)
{
    struct sockaddr_storage name = { .ss_family = AF_UNSPEC };
    socklen_t size = sizeof name;
    char host[64], port[8];
    const bool is_known = getsockname(listener->socket, (struct sockaddr *)&name, &size) == 0;
    listener->is_unix = name.ss_family == AF_UNIX;
    if (is_known && listener->is_unix) {
        describe_unix(listener, (const struct sockaddr_un *)&name, size);
        return true;
    }
    if (!is_known
        || getnameinfo((struct sockaddr *)&name, size, host, sizeof host, port, sizeof port,
                       NI_NUMERICHOST | NI_NUMERICSERV)
               != 0)
        return fault_set(fault, FAULT_OPTION, "cannot tell the address of %s", asked);
    snprintf(listener->address, sizeof listener->address,
             name.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    return true;
}

/* Makes a socket and binds it; false and errno otherwise. */
static bool bind_to(struct listener *listener, const struct addrinfo *address)
{
    const int one = 1;
    listener->socket = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return listener->socket >= 0
           && setsockopt(listener->socket, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0
           && bind(listener->socket, address->ai_addr, address->ai_addrlen) == 0;
}

/* Sets the fault. The message has the address as typed, and the address that it stands for where
 * that is another. */
static void refuse(const char *asked, const char *host, const char *port, int error,
                   struct fault *fault)
{
    char address[LISTENER_ADDRESS_MAX];
    snprintf(address, sizeof address, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    if (strcmp(asked, address) == 0)
        fault_set(fault, FAULT_OPTION, "cannot listen on %s: %s", asked, strerror(error));
    else
        fault_set(fault, FAULT_OPTION, "cannot listen on %s (%s): %s", asked, address,
                  strerror(error));
}

/* asked is the address as typed. Returns 0, the errno of the call that failed, or -1 where host and
 * port are no address, or where the address of the socket cannot be told. */
static int open_one(struct listener *listener, const char *host, const char *port,
                    const char *asked, struct fault *fault)
{
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {
        .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
        .ai_socktype = SOCK_STREAM,
    };
    *listener = (struct listener){ .socket = -1, .folder = -1 };
    if (getaddrinfo(host, port, &hints, &found) != 0) {
        fault_set(fault, FAULT_OPTION, "cannot listen on '%s': %s", asked,
                  listen_address_forms(asked));
        return -1;
    }
    const int error = bind_to(listener, found) ? 0 : errno;
    freeaddrinfo(found);
    if (error == 0)
        return describe(listener, asked, fault) ? 0 : -1;
    listener_close(listener);
    refuse(asked, host, port, error, fault);
    return error;
}

static bool is_missing(int error)
{
    return error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
}

/* Opens localhost in the families that this machine has, IPv4 and IPv6, on one port. */
static int open_localhost(struct listener *listeners, int *count, const char *port,
                          const char *asked, struct fault *fault)
{
    int opened = 0, error = 0;
    for (int i = 0; i < LISTENERS_OF_ONE; i++) {
        struct listener *listener = &listeners[opened];
        const char *same = opened > 0 ? strrchr(listeners[0].address, ':') + 1 : port;
        error = open_one(listener, LOOPBACKS[i], same, asked, fault);
        if (error == 0)
            opened++;
        else if (!is_missing(error))
            break;
    }
    *count = opened;
    return opened > 0 && is_missing(error) ? 0 : error;
}

/* Binds the sockets of an address of TCP. Returns what open_one() returns. The caller closes the
 * *count sockets that were bound, even after an error. */
static int open_tcp(struct listener *listeners, int *count, const char *address,
                    const struct listen_address *parts, struct fault *fault)
{
    *count = 0;
    if (parts->is_localhost)
        return open_localhost(listeners, count, parts->port, address, fault);
    const int error = open_one(listeners, parts->host, parts->port, address, fault);
    *count = error == 0;
    return error;
}

static void close_all(struct listener *listeners, int count)
{
    for (int i = 0; i < count; i++)
        listener_close(&listeners[i]);
}

static bool has_option(int socket, int option, int value)
{
    int found = -1;
    socklen_t size = sizeof found;
    return getsockopt(socket, SOL_SOCKET, option, &found, &size) == 0 && found == value;
}

bool listener_adopt(struct listener *listener, int socket, const char *name, struct fault *fault)
{
    char asked[96];
    *listener = (struct listener){ .socket = socket, .folder = -1, .is_passed = true };
    snprintf(asked, sizeof asked, "descriptor %d, '%s', of the service manager", socket, name);
    if (!has_option(socket, SO_TYPE, SOCK_STREAM))
        return fault_set(fault, FAULT_OPTION, "%s is not a stream socket (ListenStream=)", asked);
    if (!has_option(socket, SO_ACCEPTCONN, 1))
        return fault_set(fault, FAULT_OPTION, "%s does not listen (Accept=no)", asked);
    if (fcntl(socket, F_SETFL, O_NONBLOCK) != 0)
        return fault_set(fault, FAULT_OPTION, "%s: %s", asked, strerror(errno));
    return describe(listener, asked, fault);
}

static bool read_address(struct listen_address *parts, const char *address, struct fault *fault)
{
    return listen_address_read(parts, address)
           || fault_set(fault, FAULT_OPTION, "cannot listen on '%s': %s", address,
                        listen_address_forms(address));
}

bool listener_open(struct listener listeners[LISTENERS_OF_ONE], int *count, const char *address,
                   const struct listener_options *options, struct fault *fault)
{
    struct listen_address parts;
    *count = 0;
    if (!read_address(&parts, address, fault))
        return false;
    if (parts.unix_name) {
        *count = listener_unix_open(listeners, parts.unix_name, options, fault);
        return *count == 1;
    }
    bool good = open_tcp(listeners, count, address, &parts, fault) == 0;
    for (int i = 0; good && i < *count; i++)
        good =
            listen(listeners[i].socket, SOMAXCONN) == 0
            || fault_set(fault, FAULT_OPTION, "cannot listen on %s: %s", address, strerror(errno));
    if (good)
        return true;
    close_all(listeners, *count);
    *count = 0;
    return false;
}

bool listener_try(const char *address, const struct listener_options *options, struct fault *fault)
{
    struct listener listeners[LISTENERS_OF_ONE];
    struct listen_address parts;
    int count;
    if (!read_address(&parts, address, fault))
        return false;
    if (parts.unix_name)
        return listener_unix_try(parts.unix_name, options, fault);
    const int error = open_tcp(listeners, &count, address, &parts, fault);
    close_all(listeners, count);
    return error == 0 || error == EADDRINUSE;
}

/* Attaches a filter that drops packets with SYN and lets all others pass (socket(7),
 * SO_ATTACH_FILTER). The filter sees packets from their TCP header on. */
static void drop_handshakes(const struct listener *listener)
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

void listener_begin_none(const struct listener *listener)
{
    if (listener->is_passed)
        return;
    if (listener->is_unix)
        listener_unix_begin_none(listener);
    else
        drop_handshakes(listener);
}

const char *listener_file(const struct listener *listener)
{
    return listener->address + strlen(LISTEN_UNIX_PREFIX);
}

void listener_close(struct listener *listener)
{
    if (listener->is_unix)
        listener_unix_remove(listener);
    if (listener->socket >= 0)
        close(listener->socket);
    listener->socket = -1;
}
