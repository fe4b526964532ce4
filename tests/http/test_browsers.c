/* SPDX-License-Identifier: Apache-2.0 */
/* test_browsers.c - requests as Chromium sends them for web pages. The daemon answers the requests
 * of its own pages. Requests of other pages make it do nothing, and so do requests to a host name
 * that somebody has pointed at this machine. */
#include "answer.h"
#include "fixture.h"
#include "model_client.h"
#include "test.h"

#define AGENT                                                                                      \
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "          \
    "Chrome/131.0.0.0 Safari/537.36\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate, br, "        \
    "zstd\r\n"                                                                                     \
    "Accept-Language: en-US,en;q=0.9\r\n"
#define ELSEWHERE   "Origin: https://evil.example\r\nReferer: https://evil.example/\r\n"
#define SITE(which) "Sec-Fetch-Site: " which "\r\n"
#define MODE(which) "Sec-Fetch-Mode: " which "\r\n"
#define DEST(which) "Sec-Fetch-Dest: " which "\r\n"
#define CROSS_FETCH SITE("cross-site") MODE("no-cors") DEST("empty")

static const char GOOD[] = "{\"model\":\"sdpa\",\"query\":[[1]]}";

/* A request and the status that it gets. %d in the host or the headers stands for the port. */
struct browser_case {
    const char *line, *host, *headers, *body;
    long status;
};

static const struct browser_case CASES[] = {
    /* fetch() of text, of a form and of a Blob without a type. The browser sends no preflight
     * before these. */
    { "POST /v1/attention", "127.0.0.1:%d",
      AGENT ELSEWHERE CROSS_FETCH "Content-Type: text/plain\r\n", GOOD, 403 },
    { "POST /v1/attention", "127.0.0.1:%d",
      AGENT ELSEWHERE CROSS_FETCH "Content-Type: application/x-www-form-urlencoded\r\n", GOOD,
      403 },
    { "POST /v1/attention", "127.0.0.1:%d", AGENT ELSEWHERE CROSS_FETCH, GOOD, 403 },
    { "POST /v2/repository/models/kept/unload", "127.0.0.1:%d", AGENT ELSEWHERE CROSS_FETCH, "{}",
      403 },
    { "POST /v2/logging", "localhost:%d", AGENT ELSEWHERE CROSS_FETCH, "{\"log_info\":false}",
      403 },
    { "POST /nowhere", "127.0.0.1:%d", AGENT ELSEWHERE CROSS_FETCH, "", 403 },
    /* No browser sends these, but a program between browser and daemon may put them together. */
    { "POST /v2/repository/models/kept/unload", "127.0.0.1:%d",
      AGENT "Origin: http://127.0.0.1:%d\r\nOrigin: http://evil.example\r\n", "{}", 400 },
    { "POST /v2/repository/models/kept/unload", "127.0.0.1:%d",
      AGENT SITE("same-origin") SITE("cross-site"), "{}", 400 },
    { "POST /v2/repository/models/kept/unload", "127.0.0.1:%d",
      AGENT "Origin: evil://127.0.0.1:%d\r\n", "{}", 403 },
    { "POST /v2/repository/models/kept/unload", "127.0.0.1:%d",
      AGENT "Origin: http://evil.example\r\n" SITE("none"), "{}", 403 },
    /* For plain HTTP to another machine of the network a browser sends only the Origin. */
    { "POST /v2/repository/models/kept/unload", "192.168.1.7:%d",
      AGENT "Origin: http://evil.example\r\n", "{}", 403 },
    /* A form, and a form in a sandbox. */
    { "POST /v2/repository/models/kept/unload", "127.0.0.1:%d",
      AGENT ELSEWHERE SITE("cross-site") MODE("navigate") DEST(
          "document") "Content-Type: application/x-www-form-urlencoded\r\nSec-Fetch-User: ?1\r\n",
      "a=b", 403 },
    { "POST /v2/logging", "127.0.0.1:%d",
      AGENT "Origin: null\r\n" SITE("cross-site") MODE("navigate")
          DEST("iframe") "Content-Type: text/plain\r\n",
      "{\"log_info\":false}", 403 },
    /* fetch() of JSON sends a preflight first. */
    { "OPTIONS /v1/attention", "127.0.0.1:%d",
      AGENT ELSEWHERE SITE("cross-site") MODE("cors")
          DEST("empty") "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: "
                        "content-type\r\n",
      "", 403 },
    { "OPTIONS /v1/models/kept", "127.0.0.1:%d",
      AGENT ELSEWHERE SITE("cross-site") MODE("cors")
          DEST("empty") "Access-Control-Request-Method: "
                        "DELETE\r\nAccess-Control-Request-Private-Network: true\r\n",
      "", 403 },
    { "DELETE /v1/models/kept", "127.0.0.1:%d", AGENT ELSEWHERE SITE("cross-site") MODE("cors"), "",
      403 },
    /* Pages of other sites use the daemon's answers as pictures, scripts and frames. */
    { "GET /v1/models", "127.0.0.1:%d", AGENT SITE("cross-site") MODE("no-cors") DEST("image"), "",
      403 },
    { "GET /metrics", "127.0.0.1:%d", AGENT SITE("same-site") MODE("no-cors") DEST("script"), "",
      403 },
    { "GET /v1/models", "127.0.0.1:%d", AGENT SITE("cross-site") MODE("navigate") DEST("iframe"),
      "", 403 },
    /* A page of another port of this machine is another origin. */
    { "POST /v1/attention", "localhost:%d",
      AGENT "Origin: http://localhost:3000\r\n" SITE("same-site") MODE("no-cors") DEST("empty"),
      GOOD, 403 },
    /* DNS rebinding: the name of the other page leads to this machine now. */
    { "POST /v1/attention", "evil.example:%d", AGENT "Origin: http://evil.example:%d\r\n", GOOD,
      403 },
    { "GET /v1/models", "evil.example:%d", AGENT, "", 403 },
    { "GET /v1/models", "evil.example:%d", AGENT SITE("same-origin") MODE("cors") DEST("empty"), "",
      403 },
    /* The daemon's own page. */
    { "POST /v1/attention", "127.0.0.1:%d",
      AGENT "Origin: http://127.0.0.1:%d\r\n" SITE("same-origin") MODE("cors")
          DEST("empty") "Content-Type: application/json\r\n",
      GOOD, 200 },
    { "POST /v1/attention", "localhost:%d",
      AGENT "Origin: http://localhost:%d\r\n" SITE("same-origin") MODE("cors") DEST("empty"), GOOD,
      200 },
    { "POST /v1/attention", "192.168.1.7:%d", AGENT "Origin: http://192.168.1.7:%d\r\n", GOOD,
      200 },
    { "GET /v1/models", "127.0.0.1:%d", AGENT SITE("same-origin") MODE("cors") DEST("empty"), "",
      200 },
    /* A person opens it in the browser, by hand or by a link. */
    { "GET /metrics", "127.0.0.1:%d", AGENT SITE("none") MODE("navigate") DEST("document"), "",
      200 },
    { "GET /v1/models", "box.lan:%d", AGENT SITE("none") MODE("navigate") DEST("document"), "",
      403 },
    { "GET /v1/models", "127.0.0.1:%d", AGENT SITE("cross-site") MODE("navigate") DEST("document"),
      "", 200 },
    { "GET /v1/models", "192.168.1.7:%d", AGENT, "", 200 },
    /* A rebound page that looks like another client: it may set User-Agent. What is the same for
     * everybody, the health checks, it may have. */
    { "GET /v1/models", "evil.example:%d", "User-Agent: curl/8\r\n", "", 403 },
    { "GET /metrics", "evil.example:%d", "", "", 403 },
    { "GET /nowhere", "evil.example:%d", "", "", 403 },
    { "POST /v1/attention", "attnd.default.svc:%d", "", GOOD, 403 },
    { "POST /v1/attention", "attnd:%d",
      "accept-language: *\r\nsec-fetch-mode: cors\r\nuser-agent: node\r\n", GOOD, 403 },
    { "GET /readyz", "attnd:%d", "", "", 200 },
    { "GET /readyz", "evil.example:%d", AGENT, "", 403 },
    /* The client is not a browser. */
    { "POST /v1/attention", "box.example:%d", "", GOOD, 200 },
    { "POST /v1/attention", "[::1]:%d", "", GOOD, 200 },
    { "POST /v1/attention", "LOCALHOST:%d", "User-Agent: curl/8\r\n", GOOD, 200 },
};

static char *request_of(const struct browser_case *c)
{
    char host[100], headers[1500], *text;
    const int host_length = (int)(strrchr(c->host, ':') - c->host);
    snprintf(host, sizeof host, "%.*s:%d", host_length, c->host, server.port);
    const char *port = strstr(c->headers, "%d");
    if (port)
        snprintf(headers, sizeof headers, "%.*s%d%s", (int)(port - c->headers), c->headers,
                 server.port, port + 2);
    else
        snprintf(headers, sizeof headers, "%s", c->headers);
    assert_true(asprintf(&text, "%s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %zu\r\n\r\n%s",
                         c->line, host, headers, strlen(c->body), c->body)
                > 0);
    return text;
}

/* All requests go over one connection, and a refusal with 403 leaves it open. A request whose
 * headers contradict each other gets 400, and that ends the connection. */
TEST(requests)
{
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char *request = request_of(&CASES[i]);
        assert_true(http_raw_send_text(&raw, request));
        struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
        if (response.status != CASES[i].status)
            fail_msg("expected %ld, not %ld:\n%s\n%s%s", CASES[i].status, response.status, request,
                     response.headers, response.body);
        if (response.status == 403)
            answer_expect_fault(&response, 403, "forbidden", "");
        char value[64];
        assert_null(http_response_header(&response, "Access-Control-Allow-Origin", value, 64));
        assert_null(http_response_header(&response, "Allow", value, 64));
        http_response_free(&response);
        free(request);
        if (CASES[i].status == 400) {
            assert_true(http_raw_is_closed(&raw, 10 * daemon_slowness()));
            http_raw_close(&raw);
            http_raw_connect(&raw, server.port);
        }
    }
    http_raw_close(&raw);
    assert_true(model_is_listed(&client, "kept"));
    struct http_response response = http_client_get(&client, "/v2/models/kept/ready");
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    cJSON *settings = answer_get(&client, "/v2/logging");
    answer_expect(settings, "log_info", "true", 0);
    cJSON_Delete(settings);
}

/* The daemon does not wait for a long body from another page. */
TEST(before_a_long_body)
{
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(
        &raw, "POST /v1/attention HTTP/1.1\r\nHost: 127.0.0.1\r\n" AGENT ELSEWHERE
              "Content-Length: 60000000\r\n\r\n"));
    struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
    answer_expect_fault(&response, 403, "forbidden", "");
    http_response_free(&response);
    assert_true(http_raw_is_closed(&raw, 10 * daemon_slowness()));
    http_raw_close(&raw);
}

static int start(void **state)
{
    if (fixture_make_directory(state) != 0)
        return -1;
    fixture_serve("--models", directory, "--model-control", "explicit", "--host", "box.example");
    model_put_demo(&client, "kept", 2, 201);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
