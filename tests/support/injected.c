/* SPDX-License-Identifier: Apache-2.0 */
/* injected.c - does in a program what an intruder would try there.
 *
 * Not a part of the tests but a library of its own, put before a program that knows nothing of it:
 *
 *     cc -std=c11 -D_GNU_SOURCE -shared -fPIC injected.c -o injected.so
 *     INJECTED_CONTROL=file LD_PRELOAD=./injected.so program
 *
 * INJECTED_CONTROL   a file of sizeof(struct injected) bytes: injected.h says how it is used. The
 *                    attempts are made in the handler of SIGUSR2, in whatever thread takes it.
 * INJECTED_REFUSES   "landlock", "seccomp" or "landlock,seccomp": the kernel refuses them to the
 *                    program, as an older kernel or the runtime of a container does.
 *
 * Attempts are system calls by their numbers where the C library's function would do more. */
#include "injected.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LANDLOCK_CREATE_RULESET = 444, PAGE = 65536 };

static struct injected *control;
static int spare[2]; /* TCP sockets that are not connected, as the program may have some */

/* ---------------------------------------------------------------- attempts -- */

/* 0 or an errno, of what a system call returned. */
static int error_of(long result)
{
    return result < 0 ? errno : 0;
}

/* The same of a call that gives a descriptor, which is closed. */
static int error_of_open(int descriptor)
{
    const int error = error_of(descriptor);
    if (descriptor >= 0)
        close(descriptor);
    return error;
}

static int wait_for(long child)
{
    if (child < 0)
        return errno;
    if (child == 0)
        syscall(SYS_exit_group, 0);
    return waitpid((pid_t)child, NULL, 0) == child ? 0 : errno;
}

static int try_fork(void)
{
    return wait_for(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}

static int try_fork_3(void)
{
    struct clone_args arguments = { .exit_signal = SIGCHLD };
    return wait_for(syscall(SYS_clone3, &arguments, sizeof arguments));
}

static int try_execute(void)
{
    char *const arguments[] = { control->path, NULL };
    char *const environment[] = { NULL };
    return error_of(execve(control->path, arguments, environment));
}

static int try_connect(int family, const void *address, socklen_t size)
{
    const int made = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int error = made < 0 ? errno : error_of(connect(made, address, size));
    if (made >= 0)
        close(made);
    return error;
}

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static int try_tcp(void)
{
    const struct sockaddr_in address = loopback(control->number);
    return try_connect(AF_INET, &address, sizeof address);
}

/* Success also where the machine has no MSG_FASTOPEN. */
static int try_fast_open(bool by_message)
{
    struct sockaddr_in address = loopback(control->number);
    struct iovec byte = { .iov_base = (char[]){ "x" }, .iov_len = 1 };
    const struct msghdr message = {
        .msg_name = &address, .msg_namelen = sizeof address, .msg_iov = &byte, .msg_iovlen = 1
    };
    const int flags = MSG_FASTOPEN | MSG_NOSIGNAL;
    const int error =
        error_of(by_message ? sendmsg(spare[0], &message, flags)
                            : sendto(spare[1], "x", 1, flags, (const struct sockaddr *)&address,
                                     sizeof address));
    return error == EOPNOTSUPP ? 0 : error;
}

static int try_unix(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const size_t length = strlen(control->path);
    if (length >= sizeof address.sun_path)
        return ENAMETOOLONG;
    memcpy(address.sun_path, control->path, length);
    return try_connect(AF_UNIX, &address, sizeof address);
}

static int try_bind(void)
{
    const struct sockaddr_in address = loopback(0);
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int error =
        made < 0 ? errno : error_of(bind(made, (const struct sockaddr *)&address, sizeof address));
    if (made >= 0)
        close(made);
    return error;
}

static int try_affinity(void)
{
    cpu_set_t cpus;
    return sched_getaffinity(control->number, sizeof cpus, &cpus) != 0
               ? errno
               : error_of(sched_setaffinity(control->number, sizeof cpus, &cpus));
}

static int try_memory(int mapped, int protected)
{
    char *page = mmap(NULL, PAGE, mapped, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return errno;
    if (mapped & PROT_WRITE)
        page[0] = 1;
    const int error = protected ? error_of(mprotect(page, PAGE, protected)) : 0;
    munmap(page, PAGE);
    return error;
}

static int make_attempt(void)
{
    switch (control->attempt) {
    case INJECTED_FORK:
        return try_fork();
    case INJECTED_FORK_3:
        return try_fork_3();
    case INJECTED_EXECUTE:
        return try_execute();
    case INJECTED_OPEN:
        return error_of_open(open(control->path, O_RDONLY | O_CLOEXEC));
    case INJECTED_OPEN_WRITE:
        return error_of_open(open(control->path, O_RDWR | O_CLOEXEC));
    case INJECTED_CREATE:
        return error_of_open(open(control->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    case INJECTED_REMOVE:
        return error_of(unlink(control->path));
    case INJECTED_TCP:
        return try_tcp();
    case INJECTED_TCP_SENDTO:
        return try_fast_open(false);
    case INJECTED_TCP_SENDMSG:
        return try_fast_open(true);
    case INJECTED_UNIX:
        return try_unix();
    case INJECTED_BIND:
        return try_bind();
    case INJECTED_TRACE:
        return error_of(ptrace(PTRACE_SEIZE, (pid_t)control->number, NULL, NULL));
    case INJECTED_SIGNAL:
        return error_of(kill((pid_t)control->number, 0));
    case INJECTED_OWNER:
        return error_of(fcntl(spare[0], F_SETOWN, control->number));
    case INJECTED_PRIORITY:
        return error_of(setpriority(PRIO_USER, 0, getpriority(PRIO_PROCESS, 0)));
    case INJECTED_AFFINITY:
        return try_affinity();
    case INJECTED_OPTION:
        return error_of(setsockopt(spare[0], SOL_SOCKET, SO_SNDBUF, &(int){ 65536 }, sizeof(int)));
    case INJECTED_UDP:
        return error_of_open(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    case INJECTED_DUMP:
        return prctl(PR_GET_DUMPABLE) == 1 ? 0 : EPERM;
    case INJECTED_PROTECT:
        return try_memory(PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC);
    case INJECTED_MAP:
        return try_memory(PROT_READ | PROT_EXEC, 0);
    case INJECTED_CALL:
        return error_of(syscall(control->number, 0, 0, 0, 0, 0, 0));
    }
    return EINVAL;
}

static void handle(int signal_number)
{
    const int saved_errno = errno;
    (void)signal_number;
    control->error = make_attempt();
    atomic_store(&control->made, true);
    errno = saved_errno;
}

/* ---------------------------------------------------------------- the start -- */

/* A test that believes it is in control and is not would pass for no reason. */
static void end(const char *what)
{
    fprintf(stderr, "injected: %s: %s\n", what, strerror(errno));
    _exit(127);
}

/* Lets one system call fail with an errno, from now on and in every program that follows. */
static void refuse(unsigned number, unsigned error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = { .len = sizeof code / sizeof code[0], .filter = code };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
        || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        end("refuse");
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("INJECTED_CONTROL"), *refused = getenv("INJECTED_REFUSES");
    const struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART };
    const int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        end("no control");
    control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (control == MAP_FAILED || sigaction(SIGUSR2, &action, NULL) != 0)
        end(path);
    for (int i = 0; i < 2; i++)
        spare[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (refused && strstr(refused, "landlock"))
        refuse(LANDLOCK_CREATE_RULESET, ENOSYS);
    if (refused && strstr(refused, "seccomp"))
        refuse(SYS_seccomp, EPERM);
}
