/* SPDX-License-Identifier: Apache-2.0 */
/* test_key_log.c - what the log says of keys and of changes: names and no secrets, and an audit
 * line for each change of models or of the log, done or refused. */
#include "answer.h"
#include "fixture.h"
#include "key_file.h"
#include "test.h"

static const struct key_line KEYS[] = {
    { "caller", "infer" },
    { "owner", "infer,models" },
    { "admin", "admin" },
    { NULL, NULL },
};

/* The line of this event and request; the caller deletes it. */
static cJSON *line_of(const char *event, const char *id)
{
    const double until = daemon_now() + 10 * daemon_slowness();
    while (daemon_now() < until) {
        char *log = daemon_log(&server);
        for (char *line = log, *end; (end = strchr(line, '\n')); line = end + 1) {
            *end = '\0';
            cJSON *parsed = cJSON_Parse(line);
            const cJSON *of = cJSON_GetObjectItem(parsed, "request_id");
            const cJSON *what = cJSON_GetObjectItem(parsed, "event");
            if (cJSON_IsString(of) && strcmp(of->valuestring, id) == 0
                && strcmp(what->valuestring, event) == 0) {
                free(log);
                return parsed;
            }
            cJSON_Delete(parsed);
        }
        free(log);
        daemon_pause(0.005);
    }
    fail_msg("no %s of %s in the log", event, id);
    return NULL;
}

static void expect_member(const cJSON *line, const char *name, const char *value)
{
    const cJSON *member = cJSON_GetObjectItem(line, name);
    const char *found = cJSON_IsString(member) ? member->valuestring : NULL;
    if (value ? !found || strcmp(found, value) != 0 : member != NULL)
        fail_msg("%s: expected %s in %s", name, value ? value : "nothing", cJSON_Print(line));
}

static void send_with_id(const char *key, const char *method, const char *path, const char *body,
                         const char *id, long status)
{
    char header[64];
    snprintf(header, sizeof header, "X-Request-Id: %s", id);
    const struct http_request request = { .method = method, .path = path, .body = body };
    struct http_response response = key_send(&client, key, &request, header);
    if (response.status != status)
        fail_msg("%s %s: %ld %s", method, path, response.status, response.body);
    http_response_free(&response);
}

TEST(request_line)
{
    static const struct {
        const char *key, *path, *name; /* name: in the log */
        long status;
    } CASES[] = {
        { "caller", "/v1/models", "caller", 200 },   { "caller", "/metrics", "caller", 403 },
        { "caller", "/v1/models/x", "caller", 404 }, { "nobody", "/v1/models", NULL, 401 },
        { NULL, "/v1/models", NULL, 401 },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char id[32];
        snprintf(id, sizeof id, "line-%zu", i);
        send_with_id(CASES[i].key, "GET", CASES[i].path, NULL, id, CASES[i].status);
        cJSON *line = line_of("request", id);
        expect_member(line, "key", CASES[i].name);
        cJSON_Delete(line);
    }
}

TEST(audit)
{
    static const char TYPED[] = "{\"config\":{\"attention\":\"dot\"},\"parameters\":"
                                "{\"q_proj.weight\":[[1]],\"k_proj.weight\":[[2]]}}";
    static const char M[] = "/v1/models/{model}", L[] = "/v2/repository/models/{model}/load",
                      U[] = "/v2/repository/models/{model}/unload";
    static const struct {
        const char *key, *method, *path, *body, *route, *model;
        long status;
        const char *outcome;
    } CASES[] = {
        { "owner", "PUT", "/v1/models/new", TYPED, M, "new", 201, "done" },
        { "owner", "PUT", "/v1/models/new", "{}", M, "new", 400, "field" },
        { "caller", "PUT", "/v1/models/new", TYPED, M, "new", 403, "scope" },
        { NULL, "PUT", "/v1/models/new", TYPED, M, "new", 401, "key" },
        { "nobody", "DELETE", "/v1/models/new", NULL, M, "new", 401, "key" },
        { "owner", "POST", "/v2/repository/models/new/unload", "{}", U, "new", 200, "done" },
        { "owner", "POST", "/v2/repository/models/new/load", "{}", L, "new", 200, "done" },
        { "admin", "POST", "/v2/repository/models/demo/load", "{}", L, "demo", 409, "conflict" },
        { "caller", "POST", "/v2/repository/models/new/unload", "{}", U, "new", 403, "scope" },
        { "admin", "DELETE", "/v1/models/new", NULL, M, "new", 204, "done" },
        { "owner", "POST", "/v2/logging", "{}", "/v2/logging", NULL, 403, "scope" },
        { "admin", "POST", "/v2/logging", "{\"log_info\":false}", "/v2/logging", NULL, 200,
          "done" },
        { "admin", "POST", "/v2/logging", "{\"log_info\":true}", "/v2/logging", NULL, 200, NULL },
        { "admin", "POST", "/v2/logging", "{\"log_verbose_level\":0}", "/v2/logging", NULL, 200,
          "done" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char id[32], what[100];
        snprintf(id, sizeof id, "audit-%zu", i);
        send_with_id(CASES[i].key, CASES[i].method, CASES[i].path, CASES[i].body, id,
                     CASES[i].status);
        if (!CASES[i].outcome)
            continue; /* info was off when it came */
        const bool has_key = CASES[i].key && strcmp(CASES[i].key, "nobody") != 0;
        cJSON *line = line_of("audit", id);
        snprintf(what, sizeof what, "%s %s", CASES[i].method, CASES[i].route);
        expect_member(line, "level", "info");
        expect_member(line, "who", has_key ? CASES[i].key : "-");
        expect_member(line, "what", what);
        expect_member(line, "model", CASES[i].model);
        expect_member(line, "outcome", CASES[i].outcome);
        expect_member(line, "client", "127.0.0.1");
        answer_expect(line, "status", (snprintf(what, sizeof what, "%ld", CASES[i].status), what),
                      0);
        cJSON_Delete(line);
    }
}

/* A client that leaves does not hide what was done for it. Once the daemon has asked for the body,
 * it knows of the request. */
TEST(audit_of_the_departed)
{
    static const char BODY[] = "{\"config\":{\"attention\":\"dot\"},\"parameters\":"
                               "{\"q_proj.weight\":[[1]],\"k_proj.weight\":[[2]]}}";
    for (int i = 0; i < 20; i++) {
        char text[600], id[32], path[64];
        struct http_raw raw;
        snprintf(id, sizeof id, "departed-%d", i);
        snprintf(path, sizeof path, "/v1/models/departed-%d", i);
        snprintf(text, sizeof text,
                 "PUT %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nX-Request-Id: %s\r\n"
                 "Expect: 100-continue\r\nContent-Length: %zu\r\n\r\n",
                 path, key_secret("owner"), id, sizeof BODY - 1);
        http_raw_connect(&raw, server.port);
        assert_true(http_raw_send_text(&raw, text));
        struct http_response asked = http_raw_receive(&raw, 30);
        assert_int_equal(asked.status, 100);
        http_response_free(&asked);
        assert_true(http_raw_send_text(&raw, BODY));
        daemon_pause(0.0005 * (i % 5));
        http_raw_close(&raw);
        cJSON *line = line_of("audit", id);
        const bool done = strcmp(cJSON_GetObjectItem(line, "outcome")->valuestring, "done") == 0;
        const struct http_request get = { .path = path };
        struct http_response response = key_expect(&client, "owner", &get, done ? 200 : 404);
        http_response_free(&response);
        expect_member(line, "who", "owner");
        cJSON_Delete(line);
    }
}

/* What only reads has no audit line. */
TEST(no_audit)
{
    send_with_id("admin", "GET", "/v2/logging", NULL, "quiet-1", 200);
    send_with_id("admin", "POST", "/v2/repository/index", "{}", "quiet-2", 200);
    send_with_id("caller", "POST", "/v1/attention", "{\"model\":\"demo\",\"query\":[[1,0,0]]}",
                 "quiet-3", 200);
    cJSON_Delete(line_of("request", "quiet-3"));
    char *log = daemon_log(&server);
    for (const char *at = log; (at = strstr(at, "\"event\":\"audit\"")); at++) {
        const char *end = strchr(at, '\n');
        const char *quiet = strstr(at, "quiet-");
        assert_true(!quiet || (end && quiet > end));
    }
    free(log);
}

/* Without --keys what looks like a key means nothing, and changes are audited all the same. */
TEST(without_keys)
{
    struct daemon with_keys = server;
    struct http_client client_of_it = client;
    fixture_serve("--log-format", "json");
    send_with_id("nobody", "GET", "/v1/models", NULL, "open-1", 200);
    send_with_id(NULL, "DELETE", "/v1/models/demo", NULL, "open-2", 403);
    cJSON *line = line_of("request", "open-1");
    expect_member(line, "key", NULL);
    cJSON_Delete(line);
    line = line_of("audit", "open-2");
    expect_member(line, "who", "-");
    expect_member(line, "outcome", "forbidden");
    cJSON_Delete(line);
    fixture_stop(state);
    server = with_keys;
    client = client_of_it;
}

/* After all that was sent, and refused. */
TEST(no_secret_in_log)
{
    key_expect_not_logged(&server, "caller");
}

/* ------------------------------------------------------------------- start, end -- */

static int start(void **state)
{
    directory = daemon_directory_create();
    key_file_write(fixture_path("keys"), KEYS);
    fixture_serve("--models", directory, "--model-control", "explicit", "--log-format", "json",
                  "--keys", fixture_path("keys"));
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
