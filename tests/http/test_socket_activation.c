/* SPDX-License-Identifier: Apache-2.0 */
/* test_socket_activation.c - listening sockets that a service manager opens and passes to the
 * daemon (sd_listen_fds(3)).
 *
 * The test is the manager. The daemon starts itself again before it takes the sockets, so each
 * start here shows too that they survive that. */
#include "base/unix_address.h"
#include "daemon.h"
#include "http_client.h"
#include "skip.h"
#include "test.h"
#include "unix_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIST_MAX = 16, TEXT_BYTES = 256, FIRST = 3, STAGE = 100 };

static struct daemon server;
static char name[256]; /* of a Unix socket */

/* What the manager does. */
struct manager {
    int sockets[LIST_MAX];
    int socket_count;
    const char *names;   /* LISTEN_FDNAMES; NULL: none */
    const char *count;   /* LISTEN_FDS, where it is not socket_count */
    bool is_for_another; /* LISTEN_PID is that of another process */
    const char *arguments[LIST_MAX];
};

static int passed_tcp(in_addr_t address, int *port)
{
    struct sockaddr_in local = { .sin_family = AF_INET, .sin_addr = { htonl(address) } };
    socklen_t size = sizeof local;
    const int one = 1, made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(made >= 0);
    assert_int_equal(setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
    assert_int_equal(bind(made, (struct sockaddr *)&local, size), 0);
    assert_int_equal(listen(made, 64), 0);
    assert_int_equal(getsockname(made, (struct sockaddr *)&local, &size), 0);
    *port = ntohs(local.sin_port);
    return made;
}

static int passed_unix(const char *socket_name, int type, bool listens)
{
    struct sockaddr_un local;
    const socklen_t size = unix_address(&local, socket_name);
    const int made = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    assert_true(made >= 0);
    assert_int_equal(bind(made, (struct sockaddr *)&local, size), 0);
    if (listens)
        assert_int_equal(listen(made, 64), 0);
    return made;
}

/* The tests' own variables are none of the daemon's. */
static void unset_own_variables(void)
{
    static const char OWN[] = "ATTND";
    char variable[TEXT_BYTES];
    for (char **entry = environ; *entry;) {
        snprintf(variable, sizeof variable, "%.*s", (int)strcspn(*entry, "="), *entry);
        if (strncmp(variable, OWN, strlen(OWN)) == 0)
            unsetenv(variable); /* moves the next entry here */
        else
            entry++;
    }
}

/* Becomes the daemon. What is not passed is closed, as a manager does. */
static void become(const struct manager *manager, int output)
{
    char text[32], program[TEXT_BYTES];
    snprintf(program, sizeof program, "%s", daemon_program());
    const char *arguments[LIST_MAX + 1] = { program };
    unset_own_variables();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(output, 1);
    dup2(output, 2);
    for (int i = 0; i < manager->socket_count; i++)
        dup2(manager->sockets[i], STAGE + i);
    for (int i = 0; i < manager->socket_count; i++)
        dup2(STAGE + i, FIRST + i);
    close_range((unsigned)(FIRST + manager->socket_count), ~0u, 0);
    snprintf(text, sizeof text, "%d", manager->is_for_another ? getppid() : getpid());
    setenv("LISTEN_PID", text, 1);
    snprintf(text, sizeof text, "%d", manager->socket_count);
    setenv("LISTEN_FDS", manager->count ? manager->count : text, 1);
    if (manager->names)
        setenv("LISTEN_FDNAMES", manager->names, 1);
    unsetenv("GLIBC_TUNABLES"); /* the daemon sets it, and starts again */
    unsetenv("OPENBLAS_NUM_THREADS");
    for (int i = 0; manager->arguments[i]; i++)
        arguments[i + 1] = manager->arguments[i];
    execv(program, (char *const *)(uintptr_t)arguments);
    _exit(127);
}

static void begin(const struct manager *manager)
{
    server = (struct daemon){ .log = memfd_create("attnd-output", MFD_CLOEXEC) };
    assert_int_equal(fcntl(server.log, F_SETFL, O_APPEND), 0);
    server.pid = fork();
    assert_true(server.pid >= 0);
    if (server.pid == 0)
        become(manager, server.log);
}

static void start(const struct manager *manager)
{
    begin(manager);
    free(daemon_log_with(&server, "ready ms"));
}

static void expect_refused(const struct manager *manager, const char *words)
{
    begin(manager);
    const int status = daemon_wait(&server, 20 * daemon_slowness());
    char *log = daemon_log(&server);
    if (status != 1 || !strstr(log, words))
        fail_msg("%d, without \"%s\": %s", status, words, log);
    assert_null(strstr(log, "listening"));
    free(log);
    daemon_kill(&server);
}

static int clear(void **state)
{
    daemon_kill(&server);
    return 0;
}

static long status_at(int port, const char *path)
{
    struct http_client client;
    http_client_init(&client, port);
    struct http_response response = http_client_get(&client, path);
    const long status = response.status;
    http_response_free(&response);
    http_client_free(&client);
    return status;
}

static int status_at_unix(const char *path)
{
    char *answer = unix_client_ask(name, "GET", path, NULL);
    const int status = unix_client_status(answer);
    free(answer);
    return status;
}

static int listening_count(void)
{
    int count = 0;
    char *log = daemon_log(&server);
    for (const char *c = log; (c = strstr(c, " listening ")); c++)
        count++;
    free(log);
    return count;
}

/* ------------------------------------------------------------------------ tests -- */

/* The passed sockets stand for the default address, and for no address that is given. */
TEST(which_addresses)
{
    int port;
    struct manager manager = { .socket_count = 2 };
    manager.sockets[0] = passed_tcp(INADDR_LOOPBACK, &port);
    manager.sockets[1] = passed_unix(name, SOCK_STREAM, true);
    start(&manager);
    assert_int_equal(listening_count(), 2);
    assert_int_equal(status_at(port, "/readyz"), 200);
    assert_int_equal(status_at_unix("/metrics"), 200);
    daemon_stop(&server);

    manager.arguments[0] = "--listen=127.0.0.1:0";
    start(&manager);
    assert_int_equal(listening_count(), 3);
    assert_int_equal(status_at(port, "/readyz"), 200);
    daemon_stop(&server);

    manager.arguments[0] = "--listen=127.0.0.1:0";
    manager.is_for_another = true;
    start(&manager);
    assert_int_equal(listening_count(), 1);
    daemon_stop(&server);
    close(manager.sockets[0]);
    close(manager.sockets[1]);
}

/* A socket that is called admin is the operators'. Alone it does not stand for the default. */
TEST(admin)
{
    int port;
    struct manager manager = { .socket_count = 2, .names = "web.socket:admin" };
    manager.sockets[0] = passed_tcp(INADDR_LOOPBACK, &port);
    manager.sockets[1] = passed_unix(name, SOCK_STREAM, true);
    start(&manager);
    assert_int_equal(status_at(port, "/metrics"), 404);
    assert_int_equal(status_at(port, "/v1/models"), 200);
    assert_int_equal(status_at_unix("/metrics"), 200);
    daemon_stop(&server);

    manager.names = "admin:web.socket";
    start(&manager);
    assert_int_equal(status_at(port, "/metrics"), 200);
    assert_int_equal(status_at_unix("/metrics"), 404);
    daemon_stop(&server);

    manager.names = "admin";
    manager.socket_count = 1;
    manager.arguments[0] = "--listen=127.0.0.1:0";
    start(&manager);
    assert_int_equal(listening_count(), 2);
    assert_int_equal(status_at(port, "/metrics"), 200);
    daemon_stop(&server);
    close(manager.sockets[0]);
    close(manager.sockets[1]);
}

/* Programs that the daemon might start do not get the sockets. */
TEST(descriptors_are_kept)
{
    int port;
    char path[64], line[128];
    bool is_closed = false;
    struct manager manager = { .socket_count = 1 };
    manager.sockets[0] = passed_tcp(INADDR_LOOPBACK, &port);
    start(&manager);
    snprintf(path, sizeof path, "/proc/%d/fdinfo/3", (int)server.pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "flags:", 6) == 0)
            is_closed = strtol(line + 6, NULL, 8) & O_CLOEXEC;
    fclose(file);
    assert_true(is_closed);
    daemon_stop(&server);
    close(manager.sockets[0]);
}

/* A daemon that ends leaves the socket as it was: clients that connect between two daemons, and
 * while the first one ends, are answered by the second. */
TEST(restart)
{
    enum { COUNT = 20 };
    int port, clients[COUNT];
    char *folder = daemon_directory_create();
    char path[TEXT_BYTES];
    struct stat status;
    snprintf(path, sizeof path, "%s/attnd.sock", folder);
    snprintf(name, sizeof name, "%s", path);
    struct manager manager = { .socket_count = 2 };
    manager.sockets[0] = passed_tcp(INADDR_LOOPBACK, &port);
    manager.sockets[1] = passed_unix(path, SOCK_STREAM, true);
    for (int round = 0; round < 3; round++) {
        start(&manager);
        assert_int_equal(status_at(port, "/readyz"), 200);
        assert_int_equal(status_at_unix("/readyz"), 200);
        daemon_stop(&server);
        assert_int_equal(lstat(path, &status), 0);
        struct http_raw raw[COUNT];
        for (int i = 0; i < COUNT; i++) {
            clients[i] = unix_client_connect(path);
            assert_true(clients[i] >= 0);
            unix_client_send(clients[i], "GET /livez HTTP/1.1\r\nHost: x\r\n"
                                         "Connection: close\r\n\r\n");
            http_raw_connect(&raw[i], port);
            assert_true(http_raw_send_text(&raw[i], "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"));
        }
        start(&manager);
        for (int i = 0; i < COUNT; i++) {
            char *answer = unix_client_read(clients[i]);
            assert_int_equal(unix_client_status(answer), 200);
            free(answer);
            struct http_response response = http_raw_receive(&raw[i], 10 * daemon_slowness());
            assert_int_equal(response.status, 200);
            http_response_free(&response);
            http_raw_close(&raw[i]);
        }
        daemon_stop(&server);
    }
    close(manager.sockets[0]);
    close(manager.sockets[1]);
    daemon_directory_remove(folder);
}

/* The rule for addresses that other machines reach is the same for passed sockets. */
TEST(reach)
{
    int port;
    struct manager manager = { .socket_count = 1 };
    manager.sockets[0] = passed_tcp(INADDR_ANY, &port);
    expect_refused(&manager, "is reachable from other machines; give --keys FILE");
    manager.names = "admin";
    expect_refused(&manager, "is reachable from other machines; give --keys FILE");
    manager.names = NULL;
    manager.arguments[0] = "--open";
    start(&manager);
    assert_int_equal(status_at(port, "/readyz"), 200);
    daemon_stop(&server);
    close(manager.sockets[0]);
}

TEST(wrong_sockets)
{
    int pipes[2];
    struct manager manager = { .socket_count = 1, .names = "odd" };
    manager.sockets[0] = passed_unix(name, SOCK_DGRAM, false);
    expect_refused(&manager, "descriptor 3, 'odd', of the service manager is not a stream socket");
    close(manager.sockets[0]);
    manager.sockets[0] = passed_unix(name, SOCK_STREAM, false);
    expect_refused(&manager, "does not listen (Accept=no)");
    close(manager.sockets[0]);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    manager.sockets[0] = pipes[0];
    expect_refused(&manager, "is not a stream socket");
    close(pipes[0]);
    close(pipes[1]);
    manager.socket_count = 0;
    static const char *const counts[] = { "x", "-1", "17", "99999999999999999999", "1x" };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        manager.count = counts[i];
        expect_refused(&manager, "LISTEN_FDS is '");
    }
    manager.count = "2"; /* none is there */
    expect_refused(&manager, "LISTEN_FDS says that descriptor 3 is passed");
}

/* systemd's own launcher starts the daemon when the first client connects. */
TEST(systemd_launcher)
{
    int port;
    char command[2 * TEXT_BYTES];
    skip_without("systemd-socket-activate", "systemd-socket-activate --version");
    close(passed_tcp(INADDR_LOOPBACK, &port));
    snprintf(command, sizeof command,
             "exec systemd-socket-activate -l 127.0.0.1:%d --fdname=web '%s' 2>/dev/null", port,
             daemon_program());
    server = (struct daemon){ .log = memfd_create("attnd-output", MFD_CLOEXEC), .pid = fork() };
    if (server.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    const double until = daemon_now() + 20 * daemon_slowness();
    while (status_at(port, "/readyz") != 200 && daemon_now() < until)
        daemon_pause(0.05);
    assert_int_equal(status_at(port, "/readyz"), 200);
    daemon_stop(&server);
}

static int set_name(void **state)
{
    snprintf(name, sizeof name, "@attnd-passed-%d", (int)getpid());
    return 0;
}

EACH_TEST(set_name, clear);
