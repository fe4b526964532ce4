/* SPDX-License-Identifier: Apache-2.0 */
/* test_health_command.c - attnd health against a small server that gives any answer that a case
 * wants. The tests check the exit status, the request, and how long the command takes if no
 * answer comes. */
#include "base/clock.h"
#include "capture.h"
#include "cli/commands.h"
#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

struct server {
    int socket;
    int port;
    const char *answer; /* sent byte by byte; NULL: the connection is closed, "": nothing comes */
    char request[1024];
    pthread_t thread;
};

static void *serve_one(void *argument)
{
    struct server *server = argument;
    const int connection = accept(server->socket, NULL, NULL);
    size_t used = 0;
    if (connection < 0)
        return NULL;
    while (used < sizeof server->request - 1 && !strstr(server->request, "\r\n\r\n")) {
        const ssize_t size =
            recv(connection, server->request + used, sizeof server->request - 1 - used, 0);
        if (size <= 0)
            break;
        used += (size_t)size;
    }
    for (const char *p = server->answer; p && *p; p++)
        if (send(connection, p, 1, MSG_NOSIGNAL) != 1)
            break;
    if (server->answer && !server->answer[0]) {
        char byte;
        while (recv(connection, &byte, 1, 0) > 0) /* until the other end gives up */
            ;
    }
    close(connection);
    return NULL;
}

static void server_start(struct server *server, const char *answer)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t size = sizeof address;
    memset(server, 0, sizeof *server);
    server->answer = answer;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(server->socket >= 0);
    assert_int_equal(bind(server->socket, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(server->socket, 1), 0);
    assert_int_equal(getsockname(server->socket, (struct sockaddr *)&address, &size), 0);
    server->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&server->thread, NULL, serve_one, server), 0);
}

/* Also ends an accept() that no client connected to: the test then fails instead of hanging. */
static void server_stop(struct server *server)
{
    shutdown(server->socket, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->socket);
}

/* Runs the command. It must print one line if it failed, and nothing otherwise. */
static int run(const char *url, char *printed, size_t printed_size)
{
    struct capture capture;
    char *argv[] = { "attnd", "health", (char *)url, NULL };
    capture_begin(&capture, STDERR_FILENO);
    const int status = health_command(url ? 3 : 2, argv);
    char *text = capture_end(&capture, NULL);
    snprintf(printed, printed_size, "%s", text);
    if (status == 0)
        assert_string_equal(text, "");
    else
        assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    free(text);
    return status;
}

TEST(answers)
{
    static const struct {
        const char *answer;
        int status;
        const char *said;
    } CASES[] = {
        { "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0, "" },
        { "HTTP/1.0 200 OK\r\n\r\n", 0, "" },
        { "HTTP/1.1 200\r\n\r\n", 0, "" },
        { "HTTP/1.1 503 Service Unavailable\r\n\r\n{}", 1, "/readyz answered 503" },
        { "HTTP/1.1 404 Not Found\r\n\r\n", 1, "/readyz answered 404" },
        { "HTTP/1.1 204 No Content\r\n\r\n", 1, "/readyz answered 204" },
        { "200 OK\r\n\r\n", 1, "what answers is not HTTP" },
        { "SSH-2.0-OpenSSH_9.2\r\n", 1, "what answers is not HTTP" },
        { "HTTP/1.1 200", 1, "reset" }, /* ends before its line does */
        { NULL, 1, "reset" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct server server;
        char url[64], printed[512], authority[64];
        server_start(&server, CASES[i].answer);
        snprintf(url, sizeof url, "http://127.0.0.1:%d", server.port);
        const int status = run(url, printed, sizeof printed);
        server_stop(&server);
        assert_int_equal(status, CASES[i].status);
        snprintf(authority, sizeof authority, "attnd health: 127.0.0.1:%d: ", server.port);
        if (status != 0)
            assert_memory_equal(printed, authority, strlen(authority));
        if (!strstr(printed, CASES[i].said))
            fail_msg("case %zu printed '%s', expected '%s'", i, printed, CASES[i].said);
    }
}

TEST(what_it_asks)
{
    static const struct {
        const char *path, *asked;
    } CASES[] = {
        { "", "GET /readyz HTTP/1.1\r\n" },
        { "/", "GET /readyz HTTP/1.1\r\n" },
        { "/base", "GET /base/readyz HTTP/1.1\r\n" },
        { "/a/b//", "GET /a/b/readyz HTTP/1.1\r\n" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct server server;
        char url[64], host[64], printed[256];
        server_start(&server, "HTTP/1.1 200 OK\r\n\r\n");
        snprintf(url, sizeof url, "http://127.0.0.1:%d%s", server.port, CASES[i].path);
        const int status = run(url, printed, sizeof printed);
        server_stop(&server);
        assert_int_equal(status, 0);
        assert_memory_equal(server.request, CASES[i].asked, strlen(CASES[i].asked));
        snprintf(host, sizeof host, "\r\nHost: 127.0.0.1:%d\r\n", server.port);
        assert_non_null(strstr(server.request, host));
        assert_non_null(strstr(server.request, "\r\nConnection: close\r\n"));
    }
}

/* Without a URL, it asks at the address where the daemon listens in the same environment. */
TEST(the_listen_variable)
{
    static const char *const FORMS[] = { "127.0.0.1:%d", "0.0.0.0:%d", "127.0.0.1:%d,[::1]:1",
                                         "localhost:%d", ":%d" };
    char printed[512];
    for (size_t i = 0; i < sizeof FORMS / sizeof FORMS[0]; i++) {
        struct server server;
        char listen[64], port[8];
        server_start(&server, "HTTP/1.1 200 OK\r\n\r\n");
        snprintf(port, sizeof port, "%d", server.port);
        const char *at = strstr(FORMS[i], "%d");
        snprintf(listen, sizeof listen, "%.*s%s%s", (int)(at - FORMS[i]), FORMS[i], port, at + 2);
        setenv("ATTND_LISTEN", listen, 1);
        const int status = run(NULL, printed, sizeof printed);
        server_stop(&server);
        assert_int_equal(status, 0);
    }
    static const char *const BROKEN[] = { "127.0.0.1:0", "unix:attnd.sock", ":x", "[::1" };
    for (size_t i = 0; i < sizeof BROKEN / sizeof BROKEN[0]; i++) {
        setenv("ATTND_LISTEN", BROKEN[i], 1);
        assert_int_equal(run(NULL, printed, sizeof printed), 1);
        assert_non_null(strstr(printed, "ATTND_LISTEN"));
    }
    unsetenv("ATTND_LISTEN");
}

TEST(urls_refused)
{
    static const char *const URLS[] = {
        "",
        "127.0.0.1:8080",
        "ftp://127.0.0.1:8080",
        "https://",
        "https://h:99999",
        "http://",
        "http:///readyz",
        "http://h:99999",
        "http://h:8o",
        "http://[::1",
        "http://[::1]x",
        "http://h/a b",
        "http://h/\r\nX: y",
    };
    char printed[512];
    for (size_t i = 0; i < sizeof URLS / sizeof URLS[0]; i++) {
        struct capture capture;
        char *argv[] = { "attnd", "health", (char *)URLS[i], NULL };
        capture_begin(&capture, STDERR_FILENO);
        const int status = health_command(3, argv);
        char *text = capture_end(&capture, NULL);
        assert_int_equal(status, 1);
        assert_non_null(strstr(text, "expected a URL such as http://127.0.0.1:8080"));
        free(text);
    }
    char *long_url = calloc(1, 5000);
    assert_non_null(long_url);
    memset(long_url, 'a', 4999);
    memcpy(long_url, "http://", 7);
    assert_int_equal(run(long_url, printed, sizeof printed), 1);
    memcpy(long_url, "http://h/", 9);
    assert_int_equal(run(long_url, printed, sizeof printed), 1);
    free(long_url);
    char *argv[] = { "attnd", "health", "http://a", "http://b", NULL };
    assert_int_equal(health_command(4, argv), 1);
}

TEST(nobody_listens)
{
    struct server server;
    char url[64], printed[256];
    server_start(&server, "HTTP/1.1 200 OK\r\n\r\n");
    snprintf(url, sizeof url, "http://127.0.0.1:%d", server.port);
    assert_int_equal(run(url, printed, sizeof printed), 0);
    server_stop(&server);
    assert_int_equal(run(url, printed, sizeof printed), 1);
    assert_non_null(strstr(printed, "Connection refused"));
}

TEST(silence_takes_three_seconds)
{
    struct server server;
    char url[64], printed[256];
    server_start(&server, "");
    snprintf(url, sizeof url, "http://127.0.0.1:%d", server.port);
    const int64_t start_ns = clock_now_ns();
    assert_int_equal(run(url, printed, sizeof printed), 1);
    const int64_t ms = (clock_now_ns() - start_ns) / 1000000;
    server_stop(&server);
    assert_true(ms >= 2900 && ms < 6000);
    assert_non_null(strstr(printed, "timed out"));
}

static int forget_variable(void **state)
{
    return unsetenv("ATTND_LISTEN");
}

ALL_TESTS(forget_variable, NULL);
