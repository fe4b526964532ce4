/* SPDX-License-Identifier: Apache-2.0 */
/* listener.c - sockets of TCP and of Unix: opened, tried, adopted, closed. */
#include "http/listener.h"

#include "base/clock.h"
#include "base/unix_address.h"
#include "host/listen_address.h"
#include "telemetry/log.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* -------------------------------------------------------- sockets of Unix -- */

/* The file of a socket outlives a daemon that is killed, and bind() refuses a name that is there.
 * So a start asks the socket whether somebody listens, by connecting, and replaces it if nobody
 * does. Between the question and the answer another daemon may start at the same path, and at its
 * end a daemon must not remove the socket of its successor. So both are done under a lock of the
 * folder (flock(2)), which leaves no file behind. Where the folder cannot be read there is no lock.
 *
 * bind() makes the file with no rights at all, and it gets its owner first and its mode then: at no
 * time may somebody connect who may not later. */

enum { LOCK_MS_MAX = 2000, LOCK_STEP_MS = 5 };

const char *listener_file(const struct listener *listener)
{
    return listener->address + strlen(LISTEN_UNIX_PREFIX);
}

static bool refuse_unix(const char *name, const char *reason, struct fault *fault)
{
    return fault_set(fault, FAULT_OPTION, "cannot listen on unix:%s: %s", name, reason);
}

static bool is_path(const char *name)
{
    return name[0] == '/';
}

/* ------------------------------------------------------------------ the owner -- */

struct owner {
    uid_t user; /* -1: as it is */
    gid_t group;
};

/* Reads a number that is a user or a group; false where text is none. */
static bool read_id(const char *text, unsigned *id)
{
    char *end;
    errno = 0;
    const unsigned long number = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || number >= UINT32_MAX)
        return false;
    *id = (unsigned)number;
    return true;
}

static bool read_user(const char *text, uid_t *user)
{
    if (read_id(text, user))
        return true;
    const struct passwd *entry = getpwnam(text);
    if (entry)
        *user = entry->pw_uid;
    return entry != NULL;
}

static bool read_group(const char *text, gid_t *group)
{
    if (read_id(text, group))
        return true;
    const struct group *entry = getgrnam(text);
    if (entry)
        *group = entry->gr_gid;
    return entry != NULL;
}

/* Reads "USER", "USER:GROUP" or ":GROUP". */
static bool read_owner(struct owner *owner, const char *text, struct fault *fault)
{
    char user[256];
    *owner = (struct owner){ .user = (uid_t)-1, .group = (gid_t)-1 };
    if (!text)
        return true;
    const size_t length = strcspn(text, ":");
    const char *group = text[length] ? text + length + 1 : NULL;
    snprintf(user, sizeof user, "%.*s", (int)length, text);
    if ((!user[0] && !group) || length >= sizeof user)
        return fault_set(fault, FAULT_OPTION,
                         "--unix-owner: '%.60s' came; expected USER, USER:GROUP or :GROUP", text);
    if (user[0] && !read_user(user, &owner->user))
        return fault_set(fault, FAULT_OPTION, "--unix-owner: there is no user '%.60s'", user);
    if (group && !read_group(group, &owner->group))
        return fault_set(fault, FAULT_OPTION, "--unix-owner: there is no group '%.60s'", group);
    return true;
}

/* ------------------------------------------------------------ what is there -- */

enum presence { ABSENT, STALE, LISTENING, FOREIGN };

/* Whether somebody listens at an address: connects to it without waiting. *error is the errno where
 * that is not known. */
static enum presence ask(const struct sockaddr_un *address, socklen_t size, int *error)
{
    const int client = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (client < 0) {
        *error = errno;
        return FOREIGN;
    }
    const int result = connect(client, (const struct sockaddr *)address, size);
    *error = errno;
    close(client);
    if (result == 0 || *error == EAGAIN) /* EAGAIN: its queue is full */
        return LISTENING;
    if (*error == ENOENT)
        return ABSENT;
    return *error == ECONNREFUSED ? STALE : FOREIGN;
}

/* Looks at what is at a path; false, with a fault, where it may not be replaced or removed. */
static bool look(const char *name, enum presence *found, struct fault *fault)
{
    struct sockaddr_un address;
    struct stat status;
    int error = 0;
    *found = ABSENT;
    if (lstat(name, &status) != 0)
        return errno == ENOENT || refuse_unix(name, strerror(errno), fault);
    if (!S_ISSOCK(status.st_mode))
        return refuse_unix(name, "the file there is not a socket, and it stays", fault);
    *found = ask(&address, unix_address(&address, name), &error);
    return *found != FOREIGN
           || refuse_unix(name,
                          error == EPROTOTYPE ? "the socket there is of another kind, and it stays"
                                              : strerror(error),
                          fault);
}

/* ---------------------------------------------------------------- the folder -- */

static const char *last_name(const char *name)
{
    return strrchr(name, '/') + 1;
}

/* The folder that the socket lies in; -1 where it cannot be read. */
static int open_folder(const char *name)
{
    char folder[UNIX_NAME_MAX + 1];
    const size_t length = (size_t)(last_name(name) - name);
    memcpy(folder, name, length);
    folder[length] = '\0';
    return open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Others hold the lock for as long as they make or remove a socket. Whoever holds it for longer is
 * not waited for. */
static void lock(int folder)
{
    const int64_t end_ns = clock_now_ns() + LOCK_MS_MAX * INT64_C(1000000);
    while (folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) != 0 && clock_now_ns() < end_ns)
        poll(NULL, 0, LOCK_STEP_MS);
}

static void unlock(int folder)
{
    if (folder >= 0)
        flock(folder, LOCK_UN);
}

/* --------------------------------------------------------------- the socket -- */

static bool bind_without_rights(int socket, const char *name)
{
    struct sockaddr_un address;
    const socklen_t size = unix_address(&address, name);
    const mode_t before = umask(0777);
    const bool bound = bind(socket, (const struct sockaddr *)&address, size) == 0;
    const int error = errno;
    umask(before);
    errno = error;
    return bound;
}

/* Gives the file its owner and its mode, and notes which file it is. False and errno otherwise. */
static bool hand_over(struct listener *listener, const char *name, const struct owner *owner,
                      int mode)
{
    struct stat status;
    if ((owner->user != (uid_t)-1 || owner->group != (gid_t)-1)
        && lchown(name, owner->user, owner->group) != 0)
        return false;
    if (chmod(name, (mode_t)mode) != 0 || lstat(name, &status) != 0)
        return false;
    listener->device = status.st_dev;
    listener->inode = status.st_ino;
    listener->has_file = true;
    return true;
}

/* Binds and listens; the folder is locked. */
static bool establish(struct listener *listener, const char *name, const struct owner *owner,
                      int mode, struct fault *fault)
{
    enum presence found = ABSENT;
    if (is_path(name) && !look(name, &found, fault))
        return false;
    if (found == LISTENING)
        return refuse_unix(name, "something already listens there", fault);
    if (found == STALE && unlink(name) != 0 && errno != ENOENT)
        return refuse_unix(name, strerror(errno), fault);
    if (!bind_without_rights(listener->socket, name))
        return refuse_unix(
            name, errno == EADDRINUSE ? "something already listens there" : strerror(errno), fault);
    if (is_path(name) && !hand_over(listener, name, owner, mode)) {
        const int error = errno;
        unlink(name);
        return refuse_unix(
            name, error == EPERM ? "the file cannot be given to --unix-owner" : strerror(error),
            fault);
    }
    return listen(listener->socket, SOMAXCONN) == 0 || refuse_unix(name, strerror(errno), fault);
}

/* Makes a socket that listens at name, a path or "@NAME" (unix_address.h). A socket on which nobody
 * listens is replaced. False, with a fault and nothing open, where somebody listens, where the path
 * is a file of another kind, or where the file cannot be given its owner. */
static bool open_unix(struct listener *listener, const char *name,
                      const struct listener_options *options, struct fault *fault)
{
    struct owner owner;
    *listener = (struct listener){ .socket = -1, .folder = -1, .is_unix = true };
    snprintf(listener->address, sizeof listener->address, LISTEN_UNIX_PREFIX "%s", name);
    if (!read_owner(&owner, options->unix_owner, fault))
        return false;
    listener->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener->socket < 0)
        return refuse_unix(name, strerror(errno), fault);
    if (is_path(name))
        listener->folder = open_folder(name);
    lock(listener->folder);
    const bool opened = establish(listener, name, &owner, options->unix_mode, fault);
    unlock(listener->folder);
    if (!opened)
        listener_close(listener);
    return opened;
}

/* Whether the socket could be made if nobody listened there. Changes nothing. */
static bool try_unix(const char *name, const struct listener_options *options, struct fault *fault)
{
    struct owner owner;
    enum presence found;
    char folder[UNIX_NAME_MAX + 1];
    if (!read_owner(&owner, options->unix_owner, fault))
        return false;
    if (!is_path(name))
        return true;
    const size_t length = (size_t)(last_name(name) - name);
    memcpy(folder, name, length);
    folder[length] = '\0';
    if (access(folder, W_OK | X_OK) != 0)
        return refuse_unix(name, strerror(errno), fault);
    return look(name, &found, fault);
}

/* The kernel refuses a client whose socket would be queued at one whose receiving end is shut
 * down. */
static void begin_none_unix(const struct listener *listener)
{
    if (shutdown(listener->socket, SHUT_RD) != 0)
        log_line(LOG_DEBUG, "socket not shut", LOG_STRING("reason", strerror(errno)));
}

/* Where the folder is not open, nothing is known of who else is at work in it: the file stays, and
 * the next start replaces it. */
static void remove_unix(struct listener *listener)
{
    struct stat status;
    if (listener->folder < 0)
        return;
    const char *name = last_name(listener->address);
    lock(listener->folder);
    if (listener->has_file && fstatat(listener->folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0
        && status.st_dev == listener->device && status.st_ino == listener->inode
        && unlinkat(listener->folder, name, 0) != 0)
        log_line(LOG_WARNING, "socket not removed", LOG_STRING("address", listener->address),
                 LOG_STRING("reason", strerror(errno)));
    unlock(listener->folder);
    close(listener->folder);
    listener->folder = -1;
    listener->has_file = false;
}

/* -------------------------------------------------------------- listeners -- */

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
static void refuse_tcp(const char *asked, const char *host, const char *port, int error,
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
    refuse_tcp(asked, host, port, error, fault);
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
        *count = open_unix(listeners, parts.unix_name, options, fault);
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
        return try_unix(parts.unix_name, options, fault);
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
        begin_none_unix(listener);
    else
        drop_handshakes(listener);
}

void listener_close(struct listener *listener)
{
    if (listener->is_unix)
        remove_unix(listener);
    if (listener->socket >= 0)
        close(listener->socket);
    listener->socket = -1;
}
