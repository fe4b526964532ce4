/* SPDX-License-Identifier: Apache-2.0 */
/* test_notify.c - what the daemon tells a service manager (systemd's Type=notify): that it is
 * ready, once it is; that it stops, once it begins to; and nothing else. It also serves where no
 * manager listens. */
#include "daemon.h"
#include "http_client.h"
#include "test.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct daemon server;
static char *directory;
static int manager = -1;
static char variable[256];

/* A socket of that name; "@" at the beginning means an abstract one. */
static void listen_as(const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const size_t length = strlen(name);
    assert_true(length < sizeof(address.sun_path));
    memcpy(address.sun_path, name, length);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(manager, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)),
                     0);
}

static void start_told(const char *name, const char *const *arguments)
{
    snprintf(variable, sizeof(variable), "NOTIFY_SOCKET=%s", name);
    const char *const environment[] = { variable, NULL };
    daemon_start(&server, &(struct daemon_options){ .arguments = arguments,
                                                    .environment = environment,
                                                    .may_not_be_ready = true });
}

static void expect_told(const char *lines)
{
    char told[256];
    struct pollfd watch = { .fd = manager, .events = POLLIN };
    assert_int_equal(poll(&watch, 1, (int)(20000 * daemon_slowness())), 1);
    const ssize_t size = recv(manager, told, sizeof(told) - 1, 0);
    assert_true(size > 0);
    told[size] = '\0';
    assert_string_equal(told, lines);
}

static void expect_told_nothing(void)
{
    char byte;
    assert_int_equal(recv(manager, &byte, 1, MSG_DONTWAIT), -1);
}

static void expect_ready(long status)
{
    struct http_client client;
    http_client_init(&client, server.port);
    struct http_response response = http_client_get(&client, "/readyz");
    assert_int_equal(response.status, status);
    http_response_free(&response);
    http_client_free(&client);
}

static void check_life(const char *name)
{
    static const char *const arguments[] = { "--drain-delay", "2s", NULL };
    listen_as(name);
    start_told(name, arguments);
    expect_told("READY=1");
    expect_ready(200);
    kill(server.pid, SIGHUP);
    free(daemon_log_with(&server, "models read again"));
    expect_told_nothing();
    kill(server.pid, SIGTERM);
    expect_told("STOPPING=1");
    expect_ready(503);
    assert_int_equal(daemon_wait(&server, 30 * daemon_slowness()), 0);
    expect_told_nothing();
}

TEST(socket_in_a_directory)
{
    char name[100];
    directory = daemon_directory_create();
    snprintf(name, sizeof(name), "%s/notify", directory);
    check_life(name);
}

TEST(abstract_socket)
{
    char name[100];
    snprintf(name, sizeof(name), "@attnd-test/%d", (int)getpid());
    check_life(name);
}

TEST(not_ready_without_its_models)
{
    char name[100];
    directory = daemon_directory_create();
    snprintf(name, sizeof(name), "@attnd-test/%d", (int)getpid());
    listen_as(name);
    daemon_directory_write(directory, "broken/model.safetensors", "no model", 8);
    snprintf(variable, sizeof(variable), "NOTIFY_SOCKET=%s", name);
    struct daemon_result result =
        daemon_command((const char *const[]){ "--listen", "127.0.0.1:0", "--models", directory,
                                              "--models-strict", NULL },
                       (const char *const[]){ variable, NULL });
    assert_int_equal(result.exit_code, 1);
    daemon_result_free(&result);
    expect_told_nothing();
}

/* The daemon serves even if it cannot tell the manager. */
TEST(nobody_listens)
{
    char too_long[200];
    memset(too_long, 'x', sizeof(too_long) - 1);
    too_long[0] = '/';
    too_long[sizeof(too_long) - 1] = '\0';
    const char *const names[] = { "/nowhere/notify", "@attnd-nobody", "notify", "vsock:2:1234",
                                  too_long };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        start_told(names[i], NULL);
        free(daemon_log_with(&server, "service manager not told"));
        expect_ready(200);
        daemon_stop(&server);
    }
    start_told("", NULL);
    char *log = daemon_log_with(&server, "ready");
    daemon_stop(&server);
    free(log);
    log = daemon_log(&server);
    assert_null(strstr(log, "not told"));
    free(log);
}

static int clear(void **state)
{
    daemon_kill(&server);
    if (manager >= 0)
        close(manager);
    manager = -1;
    daemon_directory_remove(directory);
    directory = NULL;
    return 0;
}

EACH_TEST(NULL, clear);
