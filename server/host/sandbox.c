/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.c - : the half of files, and what the log says of both.
 *
 * The C library has no functions for Landlock, so the calls are made by their numbers, which are
 * the same on all machines. The kernel's headers may be older than the kernel that the daemon runs
 * on. So the rights that came after the first version are defined here, and the kernel is only
 * given those that its version knows: it refuses a set with an unknown right.
 *
 * Rules are bound to inodes. An inode of /proc is made anew when nobody has used it for long, and
 * then no rule holds for it. So the descriptors by which /proc was named stay open. */
#include "host/sandbox.h"

#include "telemetry/log.h"

#include <seccomp.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
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
                       const struct sandbox_peers *peers)
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
    for (int i = 0; i < peers->count; i++)
        allow_port(rules, &given_up, peers->ports[i]);
    if (peers->looks_up)
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
                         const struct sandbox_peers *peers)
{
    *sandbox = (struct sandbox){ .connects = peers->count > 0, .looks_up = peers->looks_up };
    tzset(); /* glibc reads the time zone before it takes a time apart, be it UTC */
    for (int i = 0; i < path_count; i++) {
        sandbox->changes_files |= paths[i].path && paths[i].use == SANDBOX_CHANGES;
        sandbox->removes_files |= paths[i].path && paths[i].use == SANDBOX_REMOVES;
        sandbox->writes_files |= paths[i].path && paths[i].use == SANDBOX_WRITES;
    }
    sandbox->landlock_error = leave_files(&sandbox->landlock_abi, paths, path_count, peers);
}

/* The half of the sandbox that is a filter of system calls (sandbox.h).
 *
 * The list below is what the daemon calls once it serves: what it calls itself, and what glibc,
 * libmicrohttpd and its TLS library call for it. Every other call fails with EPERM, as a call does
 * that lacks a right, and the daemon goes on.
 *
 * The kernel keeps a bitmap of the calls that a filter allows whatever their arguments are (from
 * 5.11 on), and does not run the filter for them. So a call that a request makes has no condition
 * on its arguments, but for the two that send and the one that sets an option of a socket. The
 * filter itself is a binary tree over the numbers
 * of the calls. */

/* ------------------------------------------------------------------- lists -- */

/* By their names: a machine that lacks one, as aarch64 lacks poll, has another for it. */
static const char *const ALWAYS[] = {
    /* connections */
    "accept",
    "accept4",
    "epoll_create1",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_wait",
    "eventfd2",
    "getpeername",
    "getsockname",
    "getsockopt",
    "poll",
    "ppoll",
    "recvfrom",
    "recvmsg",
    "sendfile",
    "shutdown",
    /* files */
    "close",
    "fstat",
    "getcwd",
    "getdents64",
    "lseek",
    "newfstatat",
    "pread64",
    "read",
    "readlink",
    "readlinkat",
    "readv",
    "stat",
    "lstat",
    "statx",
    "write",
    "writev",
    "flock",
    /* memory; mbind is refused, and OpenBLAS goes on without */
    "brk",
    "madvise",
    "mremap",
    "munmap",
    /* threads and time */
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "exit",
    "exit_group",
    "futex",
    "getcpu",
    "getpid",
    "getpriority",
    "gettid",
    "gettimeofday",
    "nanosleep",
    "restart_syscall",
    "rseq",
    "sched_getaffinity",
    "sched_yield",
    "set_robust_list",
    /* signals */
    "rt_sigaction",
    "rt_sigpending",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigtimedwait",
    "sigaltstack",
    /* what the machine grants */
    "getegid",
    "geteuid",
    "getgid",
    "getrandom",
    "getrlimit",
    "getrusage",
    "getuid",
    "sysinfo",
    "uname",
};

/* With --model-control=explicit. */
static const char *const CHANGES[] = {
    "fdatasync", "fsync", "ftruncate", "openat", "rename", "renameat", "renameat2",
};

/* The same, or with Unix sockets, whose files the end of the daemon removes. */
static const char *const REMOVES[] = { "unlink", "unlinkat" };

/* With --shared-memory-prefix. */
static const char *const WRITES[] = { "pwrite64" };

/* --------------------------------------------------------------- conditions -- */

#define LIST(names) (names), sizeof(names) / sizeof(names)[0]

static int allow_all(scmp_filter_ctx filter, const char *const *names, size_t count)
{
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        const int call = seccomp_syscall_resolve_name(names[i]);
        if (call != __NR_SCMP_ERROR)
            result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0);
    }
    return result;
}

/* Allows a call where the bits of its argument under mask are bits. */
static int allow_bits(scmp_filter_ctx filter, int call, unsigned argument, scmp_datum_t mask,
                      scmp_datum_t bits)
{
    const struct scmp_arg_cmp condition = SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, mask, bits);
    return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, 1, &condition);
}

static int allow_equal(scmp_filter_ctx filter, int call, unsigned argument, scmp_datum_t value)
{
    const struct scmp_arg_cmp condition = SCMP_CMP(argument, SCMP_CMP_EQ, value);
    return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, 1, &condition);
}

/* A thread may be started, for SIGHUP may bring more workers, and a process may not. The flags of
 * clone3() lie in memory, where no filter sees them. It does not exist here, and glibc then calls
 * clone(). */
static int allow_threads(scmp_filter_ctx filter)
{
    const int result = allow_bits(filter, SCMP_SYS(clone), 0, CLONE_THREAD, CLONE_THREAD);
    return result ? result : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

/* Memory is never executable. */
static int allow_memory(scmp_filter_ctx filter)
{
    const int result = allow_bits(filter, SCMP_SYS(mmap), 2, PROT_EXEC, 0);
    return result ? result : allow_bits(filter, SCMP_SYS(mprotect), 2, PROT_EXEC, 0);
}

/* With MSG_FASTOPEN both calls connect a TCP socket first, and Landlock does not see it. A socket
 * for that is at hand: shutdown() makes a listening one into one that is not connected. */
static int allow_sending(scmp_filter_ctx filter)
{
    const int result = allow_bits(filter, SCMP_SYS(sendto), 3, MSG_FASTOPEN, 0);
    return result ? result : allow_bits(filter, SCMP_SYS(sendmsg), 2, MSG_FASTOPEN, 0);
}

static int allow_option(scmp_filter_ctx filter, int level, int option)
{
    const struct scmp_arg_cmp which[] = { SCMP_CMP(1, SCMP_CMP_EQ, (scmp_datum_t)level),
                                          SCMP_CMP(2, SCMP_CMP_EQ, (scmp_datum_t)option) };
    return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, SCMP_SYS(setsockopt), 2, which);
}

/* Options of connections, and of the sockets that listen no longer while the daemon drains. The
 * last two are the resolver's. */
static int allow_options(scmp_filter_ctx filter, const struct sandbox *sandbox)
{
    static const int OPTIONS[][2] = {
        { SOL_SOCKET, SO_LINGER },        { SOL_SOCKET, SO_RCVLOWAT },
        { SOL_SOCKET, SO_ATTACH_FILTER }, { IPPROTO_TCP, TCP_NODELAY },
        { IPPROTO_TCP, TCP_CORK },        { IPPROTO_IP, IP_RECVERR },
        { IPPROTO_IPV6, IPV6_RECVERR },
    };
    enum { COUNT = sizeof OPTIONS / sizeof OPTIONS[0], OF_RESOLVER = 2 };
    const int count = COUNT - (sandbox->looks_up ? 0 : OF_RESOLVER);
    int result = 0;
    for (int i = 0; i < count && result == 0; i++)
        result = allow_option(filter, OPTIONS[i][0], OPTIONS[i][1]);
    return result;
}

/* The flags of the type, SOCK_CLOEXEC and SOCK_NONBLOCK, lie above these bits. */
static int allow_socket(scmp_filter_ctx filter, int family, int type)
{
    static const scmp_datum_t TYPE = 0xf;
    const struct scmp_arg_cmp which[] = { SCMP_CMP(0, SCMP_CMP_EQ, (scmp_datum_t)family),
                                          SCMP_CMP(1, SCMP_CMP_MASKED_EQ, TYPE,
                                                   (scmp_datum_t)type) };
    return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2, which);
}

/* Sockets of TCP are opened and connected; of UDP too where a name is looked up. glibc's resolver
 * sends by sendmmsg(), whose flags are where those of sendto() are; it does without the other
 * sockets that it tries. */
static int allow_connecting(scmp_filter_ctx filter, const struct sandbox *sandbox)
{
    int result = allow_socket(filter, AF_INET, SOCK_STREAM);
    if (result == 0)
        result = allow_socket(filter, AF_INET6, SOCK_STREAM);
    if (result == 0 && sandbox->looks_up)
        result = allow_socket(filter, AF_INET, SOCK_DGRAM);
    if (result == 0 && sandbox->looks_up)
        result = allow_socket(filter, AF_INET6, SOCK_DGRAM);
    if (result == 0 && sandbox->looks_up)
        result = allow_bits(filter, SCMP_SYS(sendmmsg), 3, MSG_FASTOPEN, 0);
    return result ? result : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(connect), 0);
}

/* A descriptor is copied, and its flags are asked and set. It gets no owner: the kernel would send
 * that process whatever signal F_SETSIG names. */
static int allow_descriptors(scmp_filter_ctx filter)
{
    static const int COMMANDS[] = { F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL };
    int result = 0;
    for (size_t i = 0; i < sizeof COMMANDS / sizeof COMMANDS[0] && result == 0; i++)
        result = allow_equal(filter, SCMP_SYS(fcntl), 1, (scmp_datum_t)COMMANDS[i]);
    return result;
}

/* A thread gives way to others and chooses its CPUs, and does so for no other thread or process. */
static int allow_scheduling(scmp_filter_ctx filter)
{
    const struct scmp_arg_cmp itself[] = { SCMP_CMP(0, SCMP_CMP_EQ, PRIO_PROCESS),
                                           SCMP_CMP(1, SCMP_CMP_EQ, 0) };
    const int result =
        seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, SCMP_SYS(setpriority), 2, itself);
    return result ? result : allow_equal(filter, SCMP_SYS(sched_setaffinity), 0, 0);
}

/* A signal goes to this process only, as abort() sends it. Limits are asked, not set. A thread
 * names itself. A descriptor is asked how much it holds and whether it is a terminal. */

static int allow_own_calls(scmp_filter_ctx filter)
{
    static const unsigned long ASKED[] = { FIONBIO, FIONREAD, TCGETS, TIOCOUTQ };
    int result = allow_equal(filter, SCMP_SYS(tgkill), 0, (scmp_datum_t)getpid());
    if (result == 0)
        result = allow_equal(filter, SCMP_SYS(prlimit64), 2, 0);
    if (result == 0)
        result = allow_equal(filter, SCMP_SYS(prctl), 0, PR_SET_NAME);
    for (size_t i = 0; i < sizeof ASKED / sizeof ASKED[0] && result == 0; i++)
        result = allow_equal(filter, SCMP_SYS(ioctl), 1, ASKED[i]);
    return result;
}

/* Files are opened to read, or to read and write; none is made or cut. */
static int allow_opening(scmp_filter_ctx filter, bool writes_files)
{
    static const scmp_datum_t MASK = O_ACCMODE | O_CREAT | O_TRUNC;
    const int result = allow_bits(filter, SCMP_SYS(openat), 2, MASK, O_RDONLY);
    return result || !writes_files ? result : allow_bits(filter, SCMP_SYS(openat), 2, MASK, O_RDWR);
}

static int allow_files(scmp_filter_ctx filter, const struct sandbox *sandbox)
{
    int result = 0;
    if (sandbox->changes_files || sandbox->removes_files)
        result = allow_all(filter, LIST(REMOVES));
    if (result == 0 && sandbox->writes_files)
        result = allow_all(filter, LIST(WRITES));
    if (result)
        return result;
    return sandbox->changes_files ? allow_all(filter, LIST(CHANGES))
                                  : allow_opening(filter, sandbox->writes_files);
}

/* ------------------------------------------------------------------ the filter -- */

/* CTL_SSB: older kernels take a filter as a sign of foreign code, and slow the whole process down
 * to protect it from that code. The daemon has none. */
static int set_attributes(scmp_filter_ctx filter)
{
    static const struct {
        enum scmp_filter_attr attribute;
        uint32_t value;
    } WANTED[] = {
        { SCMP_FLTATR_CTL_TSYNC, 1 },
        { SCMP_FLTATR_CTL_OPTIMIZE, 2 },
        { SCMP_FLTATR_CTL_SSB, 1 },
        { SCMP_FLTATR_API_SYSRAWRC, 1 },
        { SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM) },
    };
    int result = 0;
    for (size_t i = 0; i < sizeof WANTED / sizeof WANTED[0] && result == 0; i++) {
        result = seccomp_attr_set(filter, WANTED[i].attribute, WANTED[i].value);
        if (result == -EOPNOTSUPP && WANTED[i].attribute == SCMP_FLTATR_CTL_SSB)
            result = 0;
    }
    return result;
}

/* Filters the calls of all threads, for these uses of files. Returns 0 or an errno. */
static int filter_calls(const struct sandbox *sandbox)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (!filter)
        return ENOMEM;
    int result = set_attributes(filter);
    if (result == 0)
        result = allow_all(filter, LIST(ALWAYS));
    if (result == 0)
        result = allow_threads(filter);
    if (result == 0)
        result = allow_memory(filter);
    if (result == 0)
        result = allow_sending(filter);
    if (result == 0)
        result = allow_descriptors(filter);
    if (result == 0)
        result = allow_scheduling(filter);
    if (result == 0)
        result = allow_options(filter, sandbox);
    if (result == 0)
        result = allow_own_calls(filter);
    if (result == 0)
        result = allow_files(filter, sandbox);
    if (result == 0 && sandbox->connects)
        result = allow_connecting(filter, sandbox);
    if (result == 0)
        result = seccomp_load(filter);
    seccomp_release(filter);
    return -result;
}

bool sandbox_leave_calls(struct sandbox *sandbox, struct fault *fault)
{
    char abi[16] = "none";
    sandbox->filter_error = filter_calls(sandbox);
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
