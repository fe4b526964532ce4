/* SPDX-License-Identifier: Apache-2.0 */
/* test_admin_listen.c - with a listener of the operators' own, the others do not have their routes.
 *
 * Every route of the table is asked for at both listeners and at a daemon that has only one. What
 * the operators' listener answers is what the daemon with one listener answers. On the public one,
 * the routes of the scopes models, metrics and admin are not there. */
#include "answer.h"
#include "api/routes.h"
#include "fixture.h"
#include "test.h"
#include "unix_client.h"

#include <unistd.h>

static struct http_client operators, plain;
static struct daemon plain_server;

static int start(void **state)
{
    const char *const arguments[] = { "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
                                      NULL };
    daemon_start(&server, &(struct daemon_options){ .arguments = arguments, .listen_count = 2 });
    http_client_init(&client, server.ports[0]);
    http_client_init(&operators, server.ports[1]);
    daemon_start(&plain_server, NULL);
    http_client_init(&plain, plain_server.port);
    return 0;
}

static int stop(void **state)
{
    http_client_free(&client);
    http_client_free(&operators);
    http_client_free(&plain);
    daemon_stop(&server);
    daemon_stop(&plain_server);
    return 0;
}

static bool is_of_operators(const struct route *route)
{
    return route->scope == ACCESS_MODELS || route->scope == ACCESS_METRICS
           || route->scope == ACCESS_ADMIN;
}

/* The path of a route, with names in place of its braces. */
static void path_of(const struct route *route, char path[256])
{
    size_t used = 0;
    for (const char *c = route->pattern; *c; c++) {
        if (*c != '{') {
            path[used++] = *c;
            continue;
        }
        const char *name = strncmp(c, "{model}", 7) == 0 ? "demo" : "1";
        used += (size_t)sprintf(path + used, "%s", name);
        c = strchr(c, '}');
    }
    path[used] = '\0';
}

static struct http_response ask(struct http_client *who, const char *method, const char *path)
{
    const bool has_body = strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0;
    return http_client_send(
        who,
        &(struct http_request){ .method = method, .path = path, .body = has_body ? "{}" : NULL });
}

static void expect_nothing_there(const char *method, const char *path)
{
    char words[320], allow[64];
    struct http_response response = ask(&client, method, path);
    snprintf(words, sizeof words, "there is nothing at %.*s", (int)strcspn(path, "?"), path);
    if (response.status != 404 || !strstr(response.body, words))
        fail_msg("%s %s: %ld %s", method, path, response.status, response.body);
    answer_expect_fault(&response, 404, "not_found", "");
    assert_null(http_response_header(&response, "Allow", allow, sizeof allow));
    http_response_free(&response);
}

TEST(every_route)
{
    int count, hidden_count = 0;
    const struct route *routes = routes_table(&count);
    for (int i = 0; i < count; i++) {
        char path[256];
        path_of(&routes[i], path);
        struct http_response alone = ask(&plain, routes[i].method, path);
        struct http_response there = ask(&operators, routes[i].method, path);
        if (alone.status != there.status)
            fail_msg("%s %s: %ld for the operators, not %ld", routes[i].method, path, there.status,
                     alone.status);
        http_response_free(&there);
        hidden_count += is_of_operators(&routes[i]);
        if (is_of_operators(&routes[i])) {
            expect_nothing_there(routes[i].method, path);
        } else {
            there = ask(&client, routes[i].method, path);
            if (alone.status != there.status)
                fail_msg("%s %s: %ld for all, not %ld", routes[i].method, path, there.status,
                         alone.status);
            http_response_free(&there);
        }
        http_response_free(&alone);
    }
    assert_true(hidden_count >= 10 && hidden_count < count);
}

/* Allow does not tell of what is hidden. */
TEST(methods)
{
    char allow[64] = "";
    expect_nothing_there("DELETE", "/metrics");
    expect_nothing_there("PUT", "/v2/logging");
    struct http_response response = ask(&client, "HEAD", "/metrics");
    assert_int_equal(response.status, 404);
    http_response_free(&response);
    response = ask(&client, "POST", "/v1/models/demo");
    answer_expect_fault(&response, 405, "method", "");
    assert_non_null(http_response_header(&response, "Allow", allow, sizeof allow));
    assert_string_equal(allow, "GET, HEAD");
    http_response_free(&response);
    response = ask(&operators, "POST", "/v1/models/demo");
    assert_non_null(http_response_header(&response, "Allow", allow, sizeof allow));
    assert_string_equal(allow, "GET, HEAD, PUT, DELETE");
    http_response_free(&response);
}

/* A path that is written in another way is the same path. */
TEST(spellings)
{
    expect_nothing_there("GET", "/v2/models/d%65mo/stats");
    expect_nothing_there("GET", "/metrics?x=1");
    static const char *const others[] = { "/metrics/", "//metrics",  "/./metrics",
                                          "/METRICS",  "/%6detrics", "/v1/../metrics" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct http_response response = ask(&client, "GET", others[i]);
        assert_int_equal(response.status, 404);
        http_response_free(&response);
    }
}

/* The bodies of hidden routes are refused as those of unknown ones are. */
TEST(bodies)
{
    char *body = malloc((1 << 20) + 1);
    memset(body, ' ', 1 << 20);
    body[1 << 20] = '\0';
    static const char *const paths[] = { "/v2/logging", "/nothing" };
    struct http_response responses[2];
    for (int i = 0; i < 2; i++)
        responses[i] = http_client_post(&client, paths[i], body);
    assert_int_equal(responses[0].status, 404);
    assert_int_equal(responses[0].status, responses[1].status);
    http_response_free(&responses[0]);
    http_response_free(&responses[1]);
    free(body);
}

TEST(log_says_which)
{
    char line[80];
    char *log = daemon_log(&server);
    snprintf(line, sizeof line, "address=127.0.0.1:%d for=operators\n", server.ports[1]);
    assert_non_null(strstr(log, line));
    snprintf(line, sizeof line, "address=127.0.0.1:%d\n", server.ports[0]);
    assert_non_null(strstr(log, line));
    free(log);
}

/* The operators' listener may be a Unix socket, and there may be several. */
TEST(unix_socket)
{
    char name[64], listen[96];
    snprintf(name, sizeof name, "@attnd-operators-%d", (int)getpid());
    snprintf(listen, sizeof listen, "unix:%s,127.0.0.1:0", name);
    const char *const arguments[] = { "--listen", "127.0.0.1:0", NULL };
    char variable[128];
    snprintf(variable, sizeof variable, "ATTND_ADMIN_LISTEN=%s", listen);
    struct daemon other;
    struct http_client of_all, of_operators;
    daemon_start(&other,
                 &(struct daemon_options){ .arguments = arguments,
                                           .environment = (const char *[]){ variable, NULL },
                                           .listen_count = 3 });
    http_client_init(&of_all, other.ports[0]);
    http_client_init(&of_operators, other.ports[2]);
    struct http_response response = http_client_get(&of_all, "/metrics");
    assert_int_equal(response.status, 404);
    http_response_free(&response);
    response = http_client_get(&of_operators, "/metrics");
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    char *answer = unix_client_ask(name, "GET", "/metrics", NULL);
    assert_int_equal(unix_client_status(answer), 200);
    free(answer);
    http_client_free(&of_all);
    http_client_free(&of_operators);
    daemon_stop(&other);
}

static void expect_refused(const char *listen, const char *admin, const char *words)
{
    for (int checks = 0; checks < 2; checks++) {
        const char *const arguments[] = {
            "--listen", listen, "--admin-listen", admin, checks ? "--check-config" : NULL, NULL
        };
        struct daemon_result result = daemon_command(arguments, NULL);
        if (result.exit_code != 1 || !strstr(result.errors, words))
            fail_msg("%s and %s: %d, %s", listen, admin, result.exit_code, result.errors);
        daemon_result_free(&result);
    }
}

TEST(addresses)
{
    expect_refused("127.0.0.1:9194", "127.0.0.1:9194", "the same port of the same address");
    expect_refused("localhost:9194", "[::1]:9194", "the same port of the same address");
    expect_refused("unix:@attnd-twice", "unix:@attnd-twice", "the same socket");
    expect_refused("127.0.0.1:0", "9194", "--admin-listen: '9194' came");
    expect_refused("127.0.0.1:0", "0.0.0.0:0", "--open");
}

ALL_TESTS(start, stop);
