/* SPDX-License-Identifier: Apache-2.0 */
/* test_sandbox_attempts.c - --sandbox: what an intruder would try in the daemon is refused, and the
 * daemon goes on serving.
 *
 * support/injected.c makes the attempts from within the daemon. Without the sandbox all of them
 * succeed, so each refusal is the sandbox's doing. Each half is also tested while the kernel
 * refuses the other to the daemon. Landlock refuses with EACCES, the filter with EPERM. */
#include "fixture.h"
#include "injected.h"
#include "key_file.h"
#include "model_client.h"
#include "sandbox_state.h"
#include "test.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NO_ANSWER = -1 };

static struct injected *control;
static int landlock_abi; /* of this kernel */
static char control_variable[512], preload_variable[512];
static char *outside;  /* a directory beside the models' */
static pid_t stranger; /* a process that anybody may trace */
static int tcp = -1, tcp_port, local = -1;

/* ------------------------------------------------------------------- begin -- */

/* build/cc/tests/http/test_sandbox_attempts has the library at build/cc/tests/support. */
static void find_library(void)
{
    char program[400];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    assert_true(length > 0);
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    snprintf(preload_variable, sizeof preload_variable, "LD_PRELOAD=%s/../support/injected.so",
             program);
    assert_int_equal(access(strchr(preload_variable, '/'), R_OK), 0);
}

static void share_control(void)
{
    static const struct injected NOTHING;
    daemon_directory_write(outside, "control", &NOTHING, sizeof NOTHING);
    snprintf(control_variable, sizeof control_variable, "INJECTED_CONTROL=%s/control", outside);
    const int file = open(strchr(control_variable, '/'), O_RDWR | O_CLOEXEC);
    assert_true(file >= 0);
    control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_true(control != MAP_FAILED);
    close(file);
}

static void listen_for_attempts(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr_un path = { .sun_family = AF_UNIX };
    socklen_t size = sizeof address;
    tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(tcp, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(tcp, 16), 0);
    assert_int_equal(getsockname(tcp, (struct sockaddr *)&address, &size), 0);
    tcp_port = ntohs(address.sin_port);
    local = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(path.sun_path, sizeof path.sun_path, "%s/socket", outside);
    assert_int_equal(bind(local, (struct sockaddr *)&path, sizeof path), 0);
    assert_int_equal(listen(local, 16), 0);
}

static void start_stranger(void)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    stranger = fork();
    if (stranger == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        close(ready[1]);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 0);
    close(ready[0]);
}

static int begin(void **state)
{
    struct model_bytes file = model_bytes_demo(2, "");
    landlock_abi = sandbox_landlock_abi();
    unsetenv("ATTND_TEST_SANDBOX"); /* some daemons here are outside of it */
    fixture_make_directory(state);
    outside = daemon_directory_create();
    daemon_directory_write(directory, "there.safetensors", file.data, file.size);
    daemon_directory_write(outside, "secret", "secret", 6);
    free(file.data);
    find_library();
    share_control();
    listen_for_attempts();
    start_stranger();
    return 0;
}

static int end(void **state)
{
    kill(stranger, SIGKILL);
    waitpid(stranger, NULL, 0);
    close(tcp);
    close(local);
    munmap(control, sizeof *control);
    daemon_directory_remove(outside);
    return fixture_clear(state);
}

/* Starts the daemon with the library in it. refused may be "". */
static void start(const char *refused, const char *argument, const char *control_mode)
{
    char refuses[64];
    snprintf(refuses, sizeof refuses, "INJECTED_REFUSES=%s", refused);
    const char *const environment[] = { control_variable, preload_variable, refuses, NULL };
    const char *const arguments[] = { "--models",   directory, "--model-control",
                                      control_mode, argument,  NULL };
    daemon_start(&server,
                 &(struct daemon_options){ .arguments = arguments, .environment = environment });
    http_client_init(&client, server.port);
}

static void expect_logged(const char *text)
{
    char *log = daemon_log_with(&server, text);
    free(log);
}

/* ---------------------------------------------------------------- attempts -- */

/* Makes an attempt in a thread of the daemon; 0: in any. Waits for it. NO_ANSWER where the daemon
 * ends instead. */
static int attempt_in(pid_t thread, enum injected_attempt what, int number, const char *path)
{
    const double until = daemon_now() + 20 * daemon_slowness();
    control->attempt = what;
    control->number = number;
    snprintf(control->path, sizeof control->path, "%s", path);
    atomic_store(&control->made, false);
    assert_int_equal(
        thread ? syscall(SYS_tgkill, server.pid, thread, SIGUSR2) : kill(server.pid, SIGUSR2), 0);
    while (!atomic_load(&control->made)) {
        int status;
        if (what == INJECTED_EXECUTE && waitpid(server.pid, &status, WNOHANG) == server.pid) {
            server.pid = 0;
            return NO_ANSWER;
        }
        assert_true(daemon_now() < until);
        daemon_pause(0.001);
    }
    return control->error;
}

static int attempt(enum injected_attempt what, int number, const char *path)
{
    return attempt_in(0, what, number, path);
}

static const char *outside_path(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", outside, name);
    return path;
}

/* Who refuses an attempt: the filter of calls or Landlock. Where both do, the filter is asked
 * first. */
static const struct {
    const char *name;
    enum injected_attempt what;
    int filter;       /* the errno of the filter; 0: it lets the attempt pass */
    int landlock;     /* the errno of Landlock; 0: it lets the attempt pass */
    int landlock_abi; /* from which version on Landlock refuses it */
} ATTEMPTS[] = {
    { "fork", INJECTED_FORK, EPERM, 0, 0 },
    { "fork by clone3", INJECTED_FORK_3, ENOSYS, 0, 0 },
    { "mprotect", INJECTED_PROTECT, EPERM, 0, 0 },
    { "mmap", INJECTED_MAP, EPERM, 0, 0 },
    { "connect to a unix socket", INJECTED_UNIX, EPERM, 0, 0 },
    { "connect by TCP", INJECTED_TCP, EPERM, EACCES, 4 },
    { "connect by sendto", INJECTED_TCP_SENDTO, EPERM, 0, 0 },
    { "connect by sendmsg", INJECTED_TCP_SENDMSG, EPERM, 0, 0 },
    { "bind", INJECTED_BIND, EPERM, EACCES, 4 },
    { "own a descriptor", INJECTED_OWNER, EPERM, 0, 0 },
    { "priority", INJECTED_PRIORITY, EPERM, 0, 0 },
    { "affinity", INJECTED_AFFINITY, EPERM, 0, 0 },
    { "an option of a socket", INJECTED_OPTION, EPERM, 0, 0 },
    { "a socket of UDP", INJECTED_UDP, EPERM, 0, 0 },
    { "ptrace", INJECTED_TRACE, EPERM, EPERM, 1 },
    { "signal", INJECTED_SIGNAL, EPERM, EPERM, 6 },
    { "open /etc/passwd", INJECTED_OPEN, 0, EACCES, 1 },
    { "open /proc/self/environ", INJECTED_OPEN, 0, EACCES, 1 },
    { "write to /proc/self/mem", INJECTED_OPEN_WRITE, EPERM, EACCES, 1 },
    { "open a file beside the models", INJECTED_OPEN, 0, EACCES, 1 },
    { "create a file beside the models", INJECTED_CREATE, EPERM, EACCES, 1 },
    { "create a file among the models", INJECTED_CREATE, EPERM, EACCES, 1 },
    { "write to a model", INJECTED_OPEN_WRITE, EPERM, EACCES, 1 },
    { "remove a model", INJECTED_REMOVE, EPERM, EACCES, 1 },
};

enum { ATTEMPT_COUNT = sizeof ATTEMPTS / sizeof ATTEMPTS[0] };

static int make_attempt(int i)
{
    const char *name = ATTEMPTS[i].name;
    const int number = strncmp(name, "connect", strlen("connect")) == 0 ? tcp_port : (int)stranger;
    const char *path = strchr(name, '/') ? strchr(name, '/')
                       : strstr(name, "beside")
                           ? outside_path(ATTEMPTS[i].what == INJECTED_OPEN ? "secret" : "made")
                       : strstr(name, "unix")   ? outside_path("socket")
                       : strstr(name, "create") ? fixture_path("made.safetensors")
                                                : fixture_path("there.safetensors");
    return attempt(ATTEMPTS[i].what, number, path);
}

/* Makes all attempts in a daemon in which these halves are in force. Those that nothing refuses
 * must succeed. */
static void make_attempts(bool filters, bool landlocks)
{
    for (int i = 0; i < ATTEMPT_COUNT; i++) {
        const bool locks = landlocks && landlock_abi >= ATTEMPTS[i].landlock_abi;
        const int expected = filters && ATTEMPTS[i].filter ? ATTEMPTS[i].filter
                             : locks                       ? ATTEMPTS[i].landlock
                                                           : 0;
        const int error = make_attempt(i);
        if (error != expected)
            fail_msg("%s: %s, and not %s", ATTEMPTS[i].name, strerror(error), strerror(expected));
    }
    unlink(outside_path("made"));
    unlink(fixture_path("made.safetensors"));
}

static void put_model_back(void)
{
    struct model_bytes file = model_bytes_demo(2, "");
    daemon_directory_write(directory, "there.safetensors", file.data, file.size);
    free(file.data);
}

/* Without the sandbox the daemon becomes the program and ends with its status. */
static void expect_execute(int expected)
{
    assert_int_equal(attempt(INJECTED_EXECUTE, 0, "/bin/true"), expected);
}

/* ------------------------------------------------------------------- tests -- */

TEST(attempts_are_refused)
{
    sandbox_skip_unless(false);
    start("", "--sandbox", "none");
    expect_logged(sandbox_landlock_text());
    expect_logged("seccomp=on");
    make_attempts(true, landlock_abi > 0);
    expect_execute(EPERM);
    assert_true(fabs(model_factor(&client, "there") - 2) < 1e-5);
    fixture_stop(state);
}

TEST(calls_are_refused)
{
    static const struct {
        const char *name;
        int number;
        bool may_be_refused; /* outside of the sandbox, to a process without rights */
    } CALLS[] = {
        { "keyctl", SYS_keyctl, false },
        { "memfd_create", SYS_memfd_create, false },
        { "personality", SYS_personality, false },
        { "unshare", SYS_unshare, false },
        { "process_vm_readv", SYS_process_vm_readv, false },
        { "bpf", SYS_bpf, true },
        { "io_uring_setup", SYS_io_uring_setup, true },
        { "mount", SYS_mount, true },
        { "open_by_handle_at", SYS_open_by_handle_at, true },
        { "setns", SYS_setns, true },
        { "userfaultfd", SYS_userfaultfd, true },
    };
    sandbox_skip_unless(false);
    for (int in_sandbox = 0; in_sandbox < 2; in_sandbox++) {
        start("", in_sandbox ? "--sandbox" : "--models-strict", "none");
        for (size_t i = 0; i < sizeof CALLS / sizeof CALLS[0]; i++) {
            const int error = attempt(INJECTED_CALL, CALLS[i].number, "");
            if (in_sandbox ? error != EPERM : error == EPERM && !CALLS[i].may_be_refused)
                fail_msg("%s, in sandbox: %d: %s", CALLS[i].name, in_sandbox, strerror(error));
        }
        fixture_stop(state);
    }
}

TEST(attempts_succeed_without)
{
    sandbox_skip_unless(false);
    start("", "--models-strict", "none");
    make_attempts(false, false);
    put_model_back();
    expect_execute(NO_ANSWER);
    http_client_free(&client);
    daemon_kill(&server);
}

TEST(filter_alone)
{
    sandbox_skip_unless(false);
    start("landlock", "--sandbox", "none");
    expect_logged("warning sandbox landlock=none seccomp=on reason=\"Function not implemented\"");
    make_attempts(true, false);
    expect_execute(EPERM);
    assert_true(fabs(model_factor(&client, "there") - 2) < 1e-5);
    fixture_stop(state);
}

TEST(landlock_alone)
{
    sandbox_skip_unless(true);
    start("seccomp", "--sandbox", "none");
    expect_logged("warning sandbox landlock=");
    expect_logged("seccomp=none reason=");
    make_attempts(false, true);
    expect_execute(EACCES);
    assert_true(fabs(model_factor(&client, "there") - 2) < 1e-5);
    fixture_stop(state);
}

TEST(neither)
{
    const char *const environment[] = { control_variable, preload_variable,
                                        "INJECTED_REFUSES=landlock,seccomp", NULL };
    const char *const arguments[] = { "--sandbox", "--listen", "127.0.0.1:0", NULL };
    sandbox_skip_unless(false);
    struct daemon_result result = daemon_command(arguments, environment);
    assert_int_equal(result.exit_code, 1);
    assert_non_null(strstr(result.errors, "sandbox landlock=none seccomp=none"));
    assert_non_null(strstr(result.errors, "not started reason=\"--sandbox: this system has neither "
                                          "Landlock (Function not implemented) nor seccomp ("));
    daemon_result_free(&result);
}

/* With --model-control=explicit files are made among the models, and nowhere else. */
TEST(model_control)
{
    sandbox_skip_unless(true);
    start("", "--sandbox", "explicit");
    assert_int_equal(attempt(INJECTED_CREATE, 0, fixture_path("made.safetensors")), 0);
    assert_int_equal(attempt(INJECTED_REMOVE, 0, fixture_path("made.safetensors")), 0);
    assert_int_equal(attempt(INJECTED_CREATE, 0, outside_path("made")), EACCES);
    assert_int_equal(attempt(INJECTED_OPEN_WRITE, 0, outside_path("secret")), EACCES);
    assert_int_equal(attempt(INJECTED_REMOVE, 0, outside_path("secret")), EACCES);
    assert_int_equal(attempt(INJECTED_OPEN, 0, outside_path("secret")), EACCES);
    fixture_stop(state);
}

/* UDP is there to look up the collector's name, and not where it has none. */
TEST(udp)
{
    static const struct {
        const char *collector;
        int error;
    } CASES[] = { { "http://127.0.0.1:9", EPERM }, { "http://localhost:9", 0 } };
    sandbox_skip_unless(false);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const char *const environment[] = { control_variable, preload_variable,
                                            "INJECTED_REFUSES=", NULL };
        const char *const arguments[] = { "--sandbox", "--otlp-endpoint", CASES[i].collector,
                                          NULL };
        daemon_start(&server, &(struct daemon_options){ .arguments = arguments,
                                                        .environment = environment });
        http_client_init(&client, server.port);
        assert_int_equal(attempt(INJECTED_UDP, 0, ""), CASES[i].error);
        fixture_stop(state);
    }
}

/* Not of the sandbox: a daemon that has secrets makes no core file and cannot be traced. */
TEST(secrets_are_not_dumped)
{
    static const struct key_line KEYS[] = { { "caller", "infer" }, { NULL, NULL } };
    sandbox_skip_unless(false); /* a sanitizer refuses the preloaded library too */
    key_file_write(fixture_path("keys"), KEYS);
    const char *const environment[] = { control_variable, preload_variable,
                                        "INJECTED_REFUSES=", NULL };
    const char *const arguments[] = { "--keys", fixture_path("keys"), NULL };
    for (int with_keys = 0; with_keys < 2; with_keys++) {
        daemon_start(&server, &(struct daemon_options){ .arguments = with_keys ? arguments : NULL,
                                                        .environment = environment });
        http_client_init(&client, server.port);
        assert_int_equal(attempt(INJECTED_DUMP, 0, ""), with_keys ? EPERM : 0);
        fixture_stop(state);
    }
    unlink(fixture_path("keys"));
}

/* Both halves hold for each thread, whenever it was started. */
TEST(every_thread)
{
    char path[64];
    int count = 0;
    sandbox_skip_unless(true);
    start("", "--sandbox", "none");
    snprintf(path, sizeof path, "/proc/%d/task", (int)server.pid);
    DIR *threads = opendir(path);
    assert_non_null(threads);
    for (const struct dirent *entry; (entry = readdir(threads));) {
        const pid_t thread = (pid_t)atoi(entry->d_name);
        if (thread <= 0)
            continue;
        assert_int_equal(attempt_in(thread, INJECTED_OPEN, 0, "/etc/passwd"), EACCES);
        assert_int_equal(attempt_in(thread, INJECTED_FORK, 0, ""), EPERM);
        count++;
    }
    closedir(threads);
    assert_true(count >= 4); /* the first, the log's, a worker and a connection thread */
    fixture_stop(state);
}

ALL_TESTS(begin, end);
