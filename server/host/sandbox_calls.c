/* sandbox_calls.c - the half of the sandbox that is a filter of system calls (sandbox.h).
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
#include "host/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

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
    /* memory */
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
static int allow_own(scmp_filter_ctx filter)
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

int sandbox_filter_calls(const struct sandbox *sandbox)
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
        result = allow_own(filter);
    if (result == 0)
        result = allow_files(filter, sandbox);
    if (result == 0 && sandbox->connects)
        result = allow_connecting(filter, sandbox);
    if (result == 0)
        result = seccomp_load(filter);
    seccomp_release(filter);
    return -result;
}
