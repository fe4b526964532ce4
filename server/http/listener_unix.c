/* listener_unix.c - see listener_unix.h.
 *
 * The file of a socket outlives a daemon that is killed, and bind() refuses a name that is there.
 * So a start asks the socket whether somebody listens, by connecting, and replaces it if nobody
 * does. Between the question and the answer another daemon may start at the same path, and at its
 * end a daemon must not remove the socket of its successor. So both are done under a lock of the
 * folder (flock(2)), which leaves no file behind. Where the folder cannot be read there is no lock.
 *
 * bind() makes the file with no rights at all, and it gets its owner first and its mode then: at no
 * time may somebody connect who may not later. */
#include "http/listener_unix.h"

#include "base/clock.h"
#include "base/unix_address.h"
#include "config/listen_address.h"
#include "watch/log.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOCK_MS_MAX = 2000, LOCK_STEP_MS = 5 };

static bool refuse(const char *name, const char *reason, struct fault *fault)
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
        return errno == ENOENT || refuse(name, strerror(errno), fault);
    if (!S_ISSOCK(status.st_mode))
        return refuse(name, "the file there is not a socket, and it stays", fault);
    *found = ask(&address, unix_address(&address, name), &error);
    return *found != FOREIGN
           || refuse(name,
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
        return refuse(name, "something already listens there", fault);
    if (found == STALE && unlink(name) != 0 && errno != ENOENT)
        return refuse(name, strerror(errno), fault);
    if (!bind_without_rights(listener->socket, name))
        return refuse(
            name, errno == EADDRINUSE ? "something already listens there" : strerror(errno), fault);
    if (is_path(name) && !hand_over(listener, name, owner, mode)) {
        const int error = errno;
        unlink(name);
        return refuse(name,
                      error == EPERM ? "the file cannot be given to --unix-owner" : strerror(error),
                      fault);
    }
    return listen(listener->socket, SOMAXCONN) == 0 || refuse(name, strerror(errno), fault);
}

bool listener_unix_open(struct listener *listener, const char *name,
                        const struct listener_options *options, struct fault *fault)
{
    struct owner owner;
    *listener = (struct listener){ .socket = -1, .folder = -1, .is_unix = true };
    snprintf(listener->address, sizeof listener->address, LISTEN_UNIX_PREFIX "%s", name);
    if (!read_owner(&owner, options->unix_owner, fault))
        return false;
    listener->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener->socket < 0)
        return refuse(name, strerror(errno), fault);
    if (is_path(name))
        listener->folder = open_folder(name);
    lock(listener->folder);
    const bool opened = establish(listener, name, &owner, options->unix_mode, fault);
    unlock(listener->folder);
    if (!opened)
        listener_close(listener);
    return opened;
}

bool listener_unix_try(const char *name, const struct listener_options *options,
                       struct fault *fault)
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
        return refuse(name, strerror(errno), fault);
    return look(name, &found, fault);
}

/* The kernel refuses a client whose socket would be queued at one whose receiving end is shut
 * down. */
void listener_unix_begin_none(const struct listener *listener)
{
    if (shutdown(listener->socket, SHUT_RD) != 0)
        log_line(LOG_DEBUG, "socket not shut", LOG_STRING("reason", strerror(errno)));
}

/* Where the folder is not open, nothing is known of who else is at work in it: the file stays, and
 * the next start replaces it. */
void listener_unix_remove(struct listener *listener)
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
