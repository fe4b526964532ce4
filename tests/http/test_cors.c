/* SPDX-License-Identifier: Apache-2.0 */
/* test_cors.c - pages of other origins that --allow-origin lets in, and the names that --host adds:
 * requests as browsers send them, and the headers by which a browser decides what its page sees. */
#include "answer.h"
#include "endless.h"
#include "fixture.h"
#include "key_file.h"
#include "model_client.h"
#include "test.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define SITE(which) "Sec-Fetch-Site: " which "\r\n"
#define ALLOWED     "Origin: https://app.example\r\n" SITE("cross-site")
#define ELSEWHERE   "Origin: https://evil.example\r\n" SITE("cross-site")
#define ASKS(what)  "Access-Control-Request-Method: " what "\r\n"
#define PLAIN_TEXT  "Content-Type: text/plain\r\n"
#define OF_JSON     "Content-Type: application/json\r\n"

#define EXPOSED                                                                                    \
    "X-Request-Id, Attnd-Replica, Server-Timing, Retry-After, Inference-Header-Content-Length, "   \
    "WWW-Authenticate, "                                                                           \
    "ETag, X-Tile-Shape, X-Tile-Min, X-Tile-Max"

static const char GOOD[] = "{\"model\":\"sdpa\",\"query\":[[1]],\"key\":[[1]],\"value\":[[1]]}";

/* Sends a request over a connection of its own to the server. */
static struct http_response ask(const char *line, const char *host, const char *headers,
                                const char *body)
{
    char request[20000];
    struct http_raw raw;
    snprintf(request, sizeof request, "%s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %zu\r\n\r\n%s",
             line, host, headers, strlen(body), body);
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, request));
    struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
    http_raw_close(&raw);
    return response;
}

/* The header must have this value; NULL: there is none. */
static void expect_header(const struct http_response *response, const char *name, const char *want)
{
    char value[512];
    const char *found = http_response_header(response, name, value, sizeof value);
    if (!found != !want || (want && strcmp(found, want) != 0))
        fail_msg("%s is %s; expected %s\n%s%s", name, found ? found : "not there",
                 want ? want : "none", response->headers, response->body);
}

/* The answer to a page: allowed is the origin that the answer names; NULL: it names none. */
static void expect_page(struct http_response *response, long status, const char *allowed,
                        const char *vary)
{
    if (response->status != status)
        fail_msg("expected %ld:\n%s%s", status, response->headers, response->body);
    if (status == 403)
        answer_expect_fault(response, 403, "forbidden", "");
    expect_header(response, "Access-Control-Allow-Origin", allowed);
    expect_header(response, "Access-Control-Expose-Headers", allowed ? EXPOSED : NULL);
    expect_header(response, "Access-Control-Allow-Credentials", NULL);
    expect_header(response, "Vary", vary);
    http_response_free(response);
}

/* ------------------------------------------------------------------- origins -- */

TEST(origins)
{
    static const struct {
        const char *origin;
        bool is_allowed;
    } CASES[] = {
        { "https://app.example", true },
        { "https://app.example:443", true },
        { "https://APP.Example", true },
        { "http://localhost:3000", true },
        { "http://[2001:db8::1]:8000", true },
        { "http://[2001:DB8:0::1]:8000", true },
        { "http://app.example", false },
        { "https://app.example:80", false },
        { "https://app.example.", false },
        { "https://app.example/", false },
        { "https://app.example.evil.example", false },
        { "https://evil.example", false },
        { "https://evilapp.example", false },
        { "https://sub.app.example", false },
        { "https://app.example https://evil.example", false },
        { "https://app.example,https://evil.example", false },
        { "http://localhost", false },
        { "http://localhost:3001", false },
        { "http://[2001:db8::1]", false },
        { "http://[2001:db8::2]:8000", false },
        { "null", false },
        { "file://", false },
        { "*", false },
        { "", false },
    };
    for (size_t i = 0; i < COUNT(CASES); i++) {
        static const char *const SITES[] = { "", SITE("cross-site"), SITE("same-site") };
        for (size_t j = 0; j < COUNT(SITES); j++) {
            char headers[400];
            snprintf(headers, sizeof headers, "Origin: %s\r\n%s%s", CASES[i].origin, SITES[j],
                     CASES[i].is_allowed ? OF_JSON : PLAIN_TEXT);
            struct http_response response = ask("POST /v1/attention", "127.0.0.1", headers, GOOD);
            expect_page(&response, CASES[i].is_allowed ? 200 : 403,
                        CASES[i].is_allowed ? CASES[i].origin : NULL, "Origin");
        }
    }
    struct http_response response =
        ask("POST /v1/attention", "127.0.0.1",
            "Origin: https://app.example\r\nOrigin: https://evil.example\r\n", GOOD);
    expect_page(&response, 400, NULL, "Origin");
}

/* A page that is not allowed changes nothing, by whatever request a browser sends without asking
 * first. */
TEST(changes)
{
    static const char *const LINES[] = {
        "POST /v2/repository/models/kept/unload",
        "POST /v2/repository/models/kept/load",
        "POST /v2/logging",
        "POST /v1/attention",
        "POST /v1/attention/batch",
        "POST /v1/softmax",
        "PUT /v1/models/new",
        "DELETE /v1/models/kept",
    };
    static const char *const PAGES[] = { ELSEWHERE, "Origin: null\r\n", "Origin: file://\r\n",
                                         SITE("cross-site"), SITE("same-site") };
    for (size_t i = 0; i < COUNT(LINES); i++)
        for (size_t j = 0; j < COUNT(PAGES); j++) {
            char headers[400];
            snprintf(headers, sizeof headers, "%s" PLAIN_TEXT, PAGES[j]);
            struct http_response response = ask(LINES[i], "127.0.0.1", headers, "{}");
            expect_page(&response, 403, NULL, "Origin");
        }
    assert_true(model_is_listed(&client, "kept"));
    struct http_response ready = http_client_get(&client, "/v2/models/kept/ready");
    assert_int_equal(ready.status, 200);
    http_response_free(&ready);
    struct http_response response = ask("DELETE /v1/models/other", "127.0.0.1", ALLOWED, "");
    expect_page(&response, 204, "https://app.example", "Origin");
    assert_false(model_is_listed(&client, "other"));
}

/* The daemon does not wait for the body of a page that is not allowed. */
TEST(before_the_body)
{
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(
        &raw, "POST /v1/attention HTTP/1.1\r\nHost: 127.0.0.1\r\n" ELSEWHERE PLAIN_TEXT
              "Content-Length: 60000000\r\n\r\n"));
    struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
    expect_page(&response, 403, NULL, "Origin");
    http_raw_close(&raw);
}

/* Pages see why a request failed, at whatever point that was. */
TEST(faults)
{
    static const struct {
        const char *line, *headers, *body;
        long status;
    } CASES[] = {
        { "GET /nowhere", "", "", 404 },
        { "DELETE /v1/attention", "", "", 405 },
        { "OPTIONS /v1/attention", "", "", 405 },
        { "POST /v1/attention", "", "{", 400 },
        { "POST /v1/attention", "Content-Encoding: br\r\n", "{}", 415 },
        { "POST /v1/attention", "Transfer-Encoding: chunked\r\n", "", 400 },
        { "GET /v2", "bad name: x\r\n", "", 400 },
        { "POST /v1/attention", "X-Timeout-Ms: x\r\n", "{}", 400 },
    };
    for (size_t i = 0; i < COUNT(CASES); i++) {
        char headers[400];
        snprintf(headers, sizeof headers, ALLOWED "%s", CASES[i].headers);
        struct http_response response = ask(CASES[i].line, "127.0.0.1", headers, CASES[i].body);
        expect_page(&response, CASES[i].status, "https://app.example", "Origin");
    }
    char many[6200] = ALLOWED;
    for (size_t used = strlen(many); used < sizeof many - 100; used = strlen(many))
        snprintf(many + used, sizeof many - used, "X-%zu: 0123456789012345678901234567890\r\n",
                 used);
    struct http_response response = ask("GET /v2", "127.0.0.1", many, "");
    expect_page(&response, 431, "https://app.example", "Origin");
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw,
                                   "POST /v1/attention HTTP/1.1\r\nHost: 127.0.0.1\r\n" ALLOWED
                                   "Content-Length: 600000000\r\n\r\n"));
    response = http_raw_receive(&raw, 10 * daemon_slowness());
    expect_page(&response, 413, "https://app.example", "Origin");
    http_raw_close(&raw);
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw,
                                   "POST /v1/attention HTTP/1.1\r\nHost: 127.0.0.1\r\n" ALLOWED
                                   "Content-Length: 100\r\n\r\n{"));
    response = http_raw_receive(&raw, 30 * daemon_slowness());
    expect_page(&response, 408, "https://app.example", "Origin");
    http_raw_close(&raw);
}

/* Caches must not give one page's answer to another, packed or not; the answer to a client that is
 * no page says so too. */
TEST(vary)
{
    struct http_response response = ask("GET /v2", "box.lan", "", "");
    expect_page(&response, 200, NULL, "Origin");
    response = ask("GET /openapi.json", "127.0.0.1", ALLOWED "Accept-Encoding: gzip\r\n", "");
    expect_header(&response, "Content-Encoding", "gzip");
    expect_page(&response, 200, "https://app.example", "Accept-Encoding, Origin");
}

/* Headers as long as the daemon takes them leave room for those of the answer. */
TEST(room)
{
    char headers[16000];
    for (size_t size = 13000; size < 15000; size += 50) {
        size_t used = (size_t)snprintf(headers, sizeof headers,
                                       "X-Request-Id: %0128d\r\n" ALLOWED "X-Long: ", 7);
        memset(headers + used, 'x', size - used);
        snprintf(headers + size, sizeof headers - size, "\r\n");
        struct http_response response = ask("GET /v2", "127.0.0.1", headers, "");
        const long status = response.status;
        expect_page(&response, status == 431 ? 431 : 200, "https://app.example", "Origin");
    }
}

/* ---------------------------------------------------------------- preflights -- */

static void expect_preflight(struct http_response *response, const char *allowed,
                             const char *methods, const char *private)
{
    if (response->status != 204)
        fail_msg("expected 204:\n%s%s", response->headers, response->body);
    assert_int_equal(response->body_size, 0);
    expect_header(response, "Access-Control-Allow-Origin", allowed);
    expect_header(response, "Access-Control-Allow-Methods", methods);
    expect_header(response, "Access-Control-Allow-Headers",
                  "Accept, X-Api-Key, tracestate, traceparent, Content-Type, X-Request-Id, "
                  "X-Timeout-Ms, Authorization, Content-Encoding, Inference-Header-Content-Length, "
                  "Attnd-Replica");
    expect_header(response, "Access-Control-Max-Age", "7200");
    expect_header(response, "Access-Control-Allow-Private-Network", private);
    expect_header(response, "Access-Control-Allow-Credentials", NULL);
    expect_header(response, "Content-Type", NULL);
    http_response_free(response);
}

TEST(preflights)
{
    static const char *const PATHS[][2] = {
        { "/v1/attention", "POST" },
        { "/v1/models", "GET, HEAD" },
        { "/v1/models/kept", "GET, HEAD, PUT, DELETE" },
        { "/v1/models/none", "GET, HEAD, PUT, DELETE" },
        { "/v2/logging", "GET, HEAD, POST" },
        { "/v2/models/kept/infer", "POST" },
        { "/readyz", "GET, HEAD" },
    };
    char line[100];
    for (size_t i = 0; i < COUNT(PATHS); i++) {
        snprintf(line, sizeof line, "OPTIONS %s", PATHS[i][0]);
        struct http_response response = ask(
            line, "127.0.0.1",
            ALLOWED ASKS("PATCH") "Access-Control-Request-Headers: content-type,x-mine\r\n", "");
        expect_preflight(&response, "https://app.example", PATHS[i][1], NULL);
        response = ask(line, "127.0.0.1",
                       ALLOWED ASKS("POST") "Access-Control-Request-Private-Network: true\r\n", "");
        expect_preflight(&response, "https://app.example", PATHS[i][1], "true");
        response = ask(line, "127.0.0.1", ELSEWHERE ASKS("POST"), "");
        expect_page(&response, 403, NULL, "Origin");
        response = ask(line, "127.0.0.1", "Origin: null\r\n" ASKS("POST"), "");
        expect_page(&response, 403, NULL, "Origin");
        response = ask(line, "127.0.0.1", ASKS("POST"), "");
        assert_int_equal(response.status, 405);
        expect_header(&response, "Allow", PATHS[i][1]);
        http_response_free(&response);
    }
    struct http_response response = ask("OPTIONS /nowhere", "127.0.0.1", ALLOWED ASKS("POST"), "");
    expect_page(&response, 404, "https://app.example", "Origin");
    response = ask("OPTIONS *", "127.0.0.1", ALLOWED ASKS("POST"), "");
    expect_page(&response, 404, "https://app.example", "Origin");
}

/* No browser sends a preflight with a body, whatever its length. */
TEST(preflights_with_a_body)
{
    enum { LONG_BYTES = 300000 };
    struct http_raw raw;
    char *body = malloc(LONG_BYTES), head[300];
    assert_non_null(body);
    memset(body, 'x', LONG_BYTES);
    http_raw_connect(&raw, server.port);
    for (int i = 0; i < 3; i++) {
        snprintf(head, sizeof head,
                 "OPTIONS /v1/attention HTTP/1.1\r\nHost: 127.0.0.1\r\n" ALLOWED ASKS(
                     "POST") "Content-Length: %d\r\n\r\n",
                 LONG_BYTES);
        assert_true(http_raw_send_text(&raw, head));
        assert_true(http_raw_send(&raw, body, LONG_BYTES));
        struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
        expect_preflight(&response, "https://app.example", "POST", NULL);
    }
    http_raw_close(&raw);
    free(body);
}

/* -------------------------------------------------------------------- hosts -- */

TEST(hosts)
{
    static const struct {
        const char *host;
        bool is_trusted;
    } CASES[] = {
        { "attnd.example", true },
        { "ATTND.example:8443", true },
        { "box.lan", true },
        { "box.lan:9", true },
        { "localhost", true },
        { "192.168.1.7:80", true },
        { "attnd.example.", false },
        { "sub.attnd.example", false },
        { "attnd.example.evil", false },
        { "evil.example", false },
    };
    for (size_t i = 0; i < COUNT(CASES); i++) {
        char headers[400], own[400];
        snprintf(own, sizeof own, "Origin: https://%s\r\n", CASES[i].host);
        snprintf(headers, sizeof headers, "%s", SITE("same-origin"));
        struct http_response response = ask("GET /v2", CASES[i].host, headers, "");
        expect_page(&response, CASES[i].is_trusted ? 200 : 403, NULL, "Origin");
        response = ask("POST /v1/attention", CASES[i].host, own, GOOD);
        expect_page(&response, CASES[i].is_trusted ? 200 : 403, NULL, "Origin");
        response = ask("POST /v1/attention", CASES[i].host, ALLOWED, GOOD);
        expect_page(&response, CASES[i].is_trusted ? 200 : 403, "https://app.example", "Origin");
        response = ask("POST /v1/attention", CASES[i].host, "", GOOD);
        expect_page(&response, CASES[i].is_trusted ? 200 : 403, NULL, "Origin");
    }
    struct http_response response = ask("GET /v2", "evil.example", SITE("same-origin"), "");
    assert_non_null(strstr(response.body, "--host"));
    http_response_free(&response);
}

/* ---------------------------------------------------------------- all pages -- */

/* ------------------------------------------------------------------- keys -- */

/* Where keys are in use a preflight needs none, and the page sees why its request is refused. A
 * page that is not allowed is refused whatever key it has. */
TEST(with_keys)
{
    static const struct key_line KEYS[] = { { "page", "infer" }, { NULL, NULL } };
    char headers[600];
    fixture_stop(state);
    key_file_write(fixture_path("keys"), KEYS);
    fixture_serve("--keys", fixture_path("keys"), "--allow-origin", "https://app.example");
    struct http_response response =
        ask("OPTIONS /v1/models/demo", "127.0.0.1", ALLOWED ASKS("DELETE"), "");
    expect_preflight(&response, "https://app.example", "GET, HEAD, PUT, DELETE", NULL);
    response = ask("OPTIONS /v1/models/demo", "127.0.0.1", ELSEWHERE ASKS("DELETE"), "");
    expect_page(&response, 403, NULL, "Origin");
    response = ask("POST /v1/attention", "127.0.0.1", ALLOWED OF_JSON, GOOD);
    expect_header(&response, "WWW-Authenticate", "Bearer realm=\"attnd\"");
    expect_page(&response, 401, "https://app.example", "Origin");
    snprintf(headers, sizeof headers, "%sAuthorization: Bearer %s\r\n", ALLOWED OF_JSON,
             key_secret("page"));
    response = ask("POST /v1/attention", "127.0.0.1", headers, GOOD);
    expect_page(&response, 200, "https://app.example", "Origin");
    response = ask("DELETE /v1/models/demo", "127.0.0.1", headers, "");
    answer_expect_fault(&response, 403, "scope", "");
    expect_header(&response, "Access-Control-Allow-Origin", "https://app.example");
    http_response_free(&response);
    snprintf(headers, sizeof headers, "%sX-Api-Key: %s\r\n", ELSEWHERE OF_JSON, key_secret("page"));
    response = ask("POST /v1/attention", "127.0.0.1", headers, GOOD);
    expect_page(&response, 403, NULL, "Origin");
    /* A client that is no browser may bring its key by any name. */
    snprintf(headers, sizeof headers, OF_JSON "X-Api-Key: %s\r\n", key_secret("page"));
    response = ask("POST /v1/attention", "attnd.default.svc", headers, GOOD);
    expect_page(&response, 200, NULL, "Origin");
    response = ask("POST /v1/attention", "attnd.default.svc", SITE("same-origin"), GOOD);
    expect_page(&response, 403, NULL, "Origin");
}

/* A page reads when to come again. */
TEST(come_again)
{
    struct endless endless;
    char value[20];
    fixture_stop(state);
    daemon_directory_write(directory, "broken.safetensors", "no model", 8);
    fixture_serve("--models", directory, "--queue-max", "1", DAEMON_PATIENT, "--allow-origin",
                  "https://app.example");
    endless_begin_any(&endless, &client);
    struct http_response response = ask("POST /v1/attention", "127.0.0.1", ALLOWED OF_JSON, GOOD);
    assert_non_null(http_response_header(&response, "Retry-After", value, sizeof value));
    expect_page(&response, 429, "https://app.example", "Origin");
    endless_end(&endless);
    response = ask("GET /v2/models/broken/ready", "127.0.0.1", ALLOWED, "");
    expect_page(&response, 503, "https://app.example", "Origin");
}

TEST(all_pages)
{
    fixture_stop(state);
    fixture_serve("--allow-origin", "*");
    static const char *const PAGES[] = { ALLOWED,
                                         ELSEWHERE,
                                         "Origin: null\r\n",
                                         "Origin: file://\r\n",
                                         "Origin: \r\n",
                                         SITE("cross-site"),
                                         "" };
    for (size_t i = 0; i < COUNT(PAGES); i++) {
        char headers[400];
        snprintf(headers, sizeof headers, "%s" OF_JSON, PAGES[i]);
        struct http_response response = ask("POST /v1/attention", "127.0.0.1", headers, GOOD);
        expect_page(&response, 200, "*", NULL);
        response = ask("POST /v1/attention", "127.0.0.1", headers, "{");
        expect_page(&response, 400, "*", NULL);
    }
    struct http_response response =
        ask("OPTIONS /v1/attention", "127.0.0.1", ELSEWHERE ASKS("POST"), "");
    expect_preflight(&response, "*", "POST", NULL);
    response = ask("GET /v2", "evil.example", ELSEWHERE, "");
    expect_page(&response, 403, "*", NULL);
}

/* Without the flag nothing of all this is there. */
TEST(no_pages)
{
    fixture_stop(state);
    fixture_serve("--workers", "1");
    struct http_response response =
        ask("OPTIONS /v1/attention", "127.0.0.1", ALLOWED ASKS("POST"), "");
    expect_page(&response, 403, NULL, NULL);
    response =
        ask("OPTIONS /v1/attention", "127.0.0.1", "Origin: http://127.0.0.1\r\n" ASKS("POST"), "");
    expect_page(&response, 405, NULL, NULL);
    response = ask("GET /v2", "127.0.0.1", "Origin: http://127.0.0.1\r\n", "");
    expect_page(&response, 200, NULL, NULL);
}

static int start(void **state)
{
    if (fixture_make_directory(state) != 0)
        return -1;
    fixture_serve("--models", directory, "--model-control", "explicit", "--body-timeout", "2s",
                  "--allow-origin", "https://App.example:443", "--allow-origin",
                  "http://localhost:3000", "--allow-origin", "http://[2001:db8::1]:8000", "--host",
                  "Attnd.example", "--host", "box.lan:8080");
    model_put_demo(&client, "kept", 2, 201);
    model_put_demo(&client, "other", 2, 201);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
