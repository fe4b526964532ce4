/* sandbox.c - see sandbox.h: the half of files, and what the log says of both.
 *
 * The C library has no functions for Landlock, so the calls are made by their numbers, which are
 * the same on all machines. The kernel's headers may be older than the kernel that the daemon runs
 * on. So the rights that came after the first version are defined here, and the kernel is only
 * given those that its version knows: it refuses a set with an unknown right.
 *
 * Rules are bound to inodes. An inode of /proc is made anew when nobody has used it for long, and
 * then no rule holds for it. So the descriptors by which /proc was named stay open. */
#include "host/sandbox.h"

#include "watch/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* -------------------------------------------------- Landlock by its numbers -- */

enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446 }; /* system calls */
enum { CREATE_RULESET_VERSION = 1, RULE_PATH_BENEATH = 1, RULE_NET_PORT = 2 };
enum { ABI_MOST = 6 }; /* the latest that has a right below */

/* Rights over files, of the first version where nothing else is said. */
enum {
    EXECUTE = 1 << 0,
    WRITE_FILE = 1 << 1,
    READ_FILE = 1 << 2,
    READ_DIR = 1 << 3,
    REMOVE_FILE = 1 << 5,
    MAKE_REG = 1 << 8,
    FILES_1 = (1 << 13) - 1, /* all of the first version */
    REFER = 1 << 13,         /* from 2 on */
    TRUNCATE = 1 << 14,      /* from 3 on */
    IOCTL_DEV = 1 << 15,     /* from 5 on */
};

enum { DNS_PORT = 53 };                               /* TCP, for long answers */
enum { BIND_TCP = 1 << 0, CONNECT_TCP = 1 << 1 };     /* from 4 on */
enum { ABSTRACT_SOCKETS = 1 << 0, SIGNALS = 1 << 1 }; /* from 6 on: those of other processes */

struct ruleset {
    uint64_t files;
    uint64_t net;    /* from 4 on */
    uint64_t scoped; /* from 6 on */
};

struct path_rule {
    uint64_t allowed;
    int32_t parent;
} __attribute__((packed));

struct port_rule {
    uint64_t allowed;
    uint64_t port;
};

/* The rights that a folder or file has by its use; those of folders fall away for a file. */
static const uint64_t RIGHTS[] = {
    [SANDBOX_READS] = READ_FILE | READ_DIR,
    [SANDBOX_CHANGES] =
        READ_FILE | READ_DIR | WRITE_FILE | MAKE_REG | REMOVE_FILE | REFER | TRUNCATE,
    [SANDBOX_REMOVES] = REMOVE_FILE,
    [SANDBOX_WRITES] = READ_FILE | WRITE_FILE,
};
enum { OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV };

/* All rights that a version knows: the process gives up all of them that no rule gives back. */
static struct ruleset rights_of(int abi)
{
    return (struct ruleset){
        .files = FILES_1 | (abi >= 2 ? REFER : 0) | (abi >= 3 ? TRUNCATE : 0)
                 | (abi >= 5 ? IOCTL_DEV : 0),
        .net = abi >= 4 ? BIND_TCP | CONNECT_TCP : 0,
        .scoped = abi >= 6 ? ABSTRACT_SOCKETS | SIGNALS : 0,
    };
}

static size_t ruleset_size(int abi)
{
    return abi >= 6   ? sizeof(struct ruleset)
           : abi >= 4 ? offsetof(struct ruleset, scoped)
                      : offsetof(struct ruleset, net);
}

/* ------------------------------------------------------------------- rules -- */

/* Gives back the rights of use over a path. Returns the descriptor by which the kernel was told,
 * which the caller closes, or -1 where the path leads nowhere. */
static int allow(int rules, const struct ruleset *given_up, const char *path, enum sandbox_use use)
{
    struct stat status;
    const int parent = open(path, O_PATH | O_CLOEXEC);
    if (parent < 0 || fstat(parent, &status) != 0)
        return parent;
    const struct path_rule rule = {
        .allowed = RIGHTS[use] & given_up->files & (S_ISDIR(status.st_mode) ? ~0u : OF_FILES),
        .parent = parent,
    };
    if (rule.allowed && syscall(ADD_RULE, rules, RULE_PATH_BENEATH, &rule, 0) != 0)
        log_line(LOG_WARNING, "sandbox rule", LOG_STRING("path", path),
                 LOG_STRING("reason", strerror(errno)));
    return parent;
}

static void allow_and_close(int rules, const struct ruleset *given_up, const char *path,
                            enum sandbox_use use)
{
    const int parent = allow(rules, given_up, path, use);
    if (parent >= 0)
        close(parent);
}

/* Allows the use of the folder that a path lies in; of the file alone where that is the root of all
 * files. */
static void allow_folder_of(int rules, const struct ruleset *given_up, const char *path,
                            enum sandbox_use use)
{
    char folder[PATH_MAX], real[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    const bool is_root = realpath(folder, real) && strcmp(real, "/") == 0;
    allow_and_close(rules, given_up, is_root ? path : folder, use);
}

static void allow_listed(int rules, const struct ruleset *given_up, const struct sandbox_path *path)
{
    char real[PATH_MAX];
    if (!path->is_folder_of) {
        allow_and_close(rules, given_up, path->path, path->use);
        return;
    }
    allow_folder_of(rules, given_up, path->path, path->use);
    if (realpath(path->path, real))
        allow_folder_of(rules, given_up, real, path->use);
}

/* What metrics.c and resources.c read, and what glibc reads before it gives memory of a
 * thread's heap back for the first time. */
static void allow_own(int rules, const struct ruleset *given_up)
{
    static const char *const PATHS[] = { "/proc/self/cgroup", "/proc/self/fd", "/proc/self/stat",
                                         "/proc/stat", "/proc/sys/vm/overcommit_memory" };
    for (size_t i = 0; i < sizeof PATHS / sizeof PATHS[0]; i++)
        allow(rules, given_up, PATHS[i], SANDBOX_READS); /* stays open: see above */
    allow_and_close(rules, given_up, "/sys/fs/cgroup", SANDBOX_READS);
}

static void allow_port(int rules, const struct ruleset *given_up, int port)
{
    const struct port_rule rule = { .allowed = CONNECT_TCP & given_up->net,
                                    .port = (uint64_t)port };
    if (rule.allowed && syscall(ADD_RULE, rules, RULE_NET_PORT, &rule, 0) != 0)
        log_line(LOG_WARNING, "sandbox rule", LOG_NUMBER("port", port),
                 LOG_STRING("reason", strerror(errno)));
}

/* Returns 0 or an errno. */
static int leave_files(int *abi, const struct sandbox_path *paths, int path_count,
                       struct sandbox_peer peer)
{
    const long version = syscall(CREATE_RULESET, NULL, 0, CREATE_RULESET_VERSION);
    if (version < 1)
        return version < 0 ? errno : EOPNOTSUPP;
    const int used = version < ABI_MOST ? (int)version : ABI_MOST;
    const struct ruleset given_up = rights_of(used);
    const int rules = (int)syscall(CREATE_RULESET, &given_up, ruleset_size(used), 0);
    if (rules < 0)
        return errno;
    allow_own(rules, &given_up);
    for (int i = 0; i < path_count; i++)
        if (paths[i].path)
            allow_listed(rules, &given_up, &paths[i]);
    if (peer.port)
        allow_port(rules, &given_up, peer.port);
    if (peer.port && peer.looks_up)
        allow_port(rules, &given_up, DNS_PORT);
    const bool done =
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(RESTRICT_SELF, rules, 0) == 0;
    const int error = done ? 0 : errno;
    close(rules);
    *abi = done ? (int)version : 0;
    return error;
}

/* --------------------------------------------------------------- the halves -- */

/* gcc says it by a macro, clang by a feature. */
#if defined(__has_feature)
#define HAS_SANITIZER (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1
#else
#define HAS_SANITIZER 0
#endif

bool sandbox_is_possible(struct fault *fault)
{
#if HAS_SANITIZER
    return fault_set(fault, FAULT_OPTION,
                     "--sandbox does not work in a build with a sanitizer, which reads files and "
                     "starts programs for its reports");
#else
    (void)fault;
    return true;
#endif
}

void sandbox_leave_files(struct sandbox *sandbox, const struct sandbox_path *paths, int path_count,
                         struct sandbox_peer peer)
{
    *sandbox =
        (struct sandbox){ .connects = peer.port != 0, .looks_up = peer.port != 0 && peer.looks_up };
    tzset(); /* glibc reads the time zone before it takes a time apart, be it UTC */
    for (int i = 0; i < path_count; i++) {
        sandbox->changes_files |= paths[i].path && paths[i].use == SANDBOX_CHANGES;
        sandbox->removes_files |= paths[i].path && paths[i].use == SANDBOX_REMOVES;
        sandbox->writes_files |= paths[i].path && paths[i].use == SANDBOX_WRITES;
    }
    sandbox->landlock_error = leave_files(&sandbox->landlock_abi, paths, path_count, peer);
}

bool sandbox_leave_calls(struct sandbox *sandbox, struct fault *fault)
{
    char abi[16] = "none";
    sandbox->filter_error = sandbox_filter_calls(sandbox);
    sandbox->filters = sandbox->filter_error == 0;
    const bool is_whole = sandbox->landlock_abi > 0 && sandbox->filters;
    if (sandbox->landlock_abi > 0)
        snprintf(abi, sizeof abi, "%d", sandbox->landlock_abi);
    if (is_whole)
        log_line(LOG_INFO, "sandbox", LOG_STRING("landlock", abi), LOG_STRING("seccomp", "on"));
    else
        log_line(LOG_WARNING, "sandbox", LOG_STRING("landlock", abi),
                 LOG_STRING("seccomp", sandbox->filters ? "on" : "none"),
                 LOG_STRING("reason", strerror(sandbox->filters ? sandbox->landlock_error
                                                                : sandbox->filter_error)));
    if (sandbox->landlock_abi > 0 || sandbox->filters)
        return true;
    return fault_set(fault, FAULT_OPTION,
                     "--sandbox: this system has neither Landlock (%s) nor seccomp (%s)",
                     strerror(sandbox->landlock_error), strerror(sandbox->filter_error));
}
