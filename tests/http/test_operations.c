/* SPDX-License-Identifier: Apache-2.0 */
/* test_operations.c - what an operator sees: health, request ids, timings and log lines. */
#include "answer.h"
#include "fixture.h"
#include "test.h"

static const char PATH[] = "/v1/attention";
static const char GOOD[] = JSON({"model":"sdpa","query":[[1]]});

TEST(health)
{
    struct http_response response = http_client_get(&client, "/livez");
    cJSON_Delete(answer_json(&response, 200));
    http_response_free(&response);
    response = http_client_get(&client, "/readyz");
    cJSON *ready = answer_json(&response, 200);
    answer_expect(ready, "ready", "true", 0);
    cJSON_Delete(ready);
    http_response_free(&response);
    response = http_client_get(&client, "/readyz?verbose=1");
    assert_int_equal(response.status, 200);
    http_response_free(&response);
}

/* --------------------------------------------------------------- ids and timings -- */

static struct http_response post_with(const char *header)
{
    const char *const headers[] = { header, "Content-Type: application/json", NULL };
    struct http_response response = http_client_send(
        &client, &(struct http_request){ .path = PATH, .body = GOOD, .headers = headers });
    assert_int_equal(response.status, 200);
    return response;
}

TEST(request_id)
{
    char longest[200] = "X-Request-Id: ", id[300], last[300] = "";
    const char *const taken[] = { "X-Request-Id: abc-123", "x-request-id: A/b:c;d=e~!",
                                  "X-REQUEST-ID: 0", longest };
    memset(longest + 14, 'i', 128);
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        struct http_response response = post_with(taken[i]);
        assert_non_null(http_response_header(&response, "X-Request-Id", id, sizeof(id)));
        assert_string_equal(id, strchr(taken[i], ' ') + 1);
        http_response_free(&response);
    }
    char too_long[200] = "X-Request-Id: ";
    memset(too_long + 14, 'i', 129);
    const char *const refused[] = { "X-Request-Id:",
                                    "X-Request-Id: two words",
                                    "X-Request-Id: a\"quote",
                                    "X-Request-Id: back\\slash",
                                    "X-Request-Id: t\tab",
                                    "X-Request-Id: caf\xC3\xA9",
                                    "X-Request-Id: \x7f",
                                    too_long,
                                    "X-Other: x" };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct http_response response = post_with(refused[i]);
        assert_non_null(http_response_header(&response, "X-Request-Id", id, sizeof(id)));
        assert_true(strlen(id) >= 8 && strlen(id) <= 64);
        assert_string_not_equal(id, last);
        assert_true(strspn(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_")
                    == strlen(id));
        strcpy(last, id);
        http_response_free(&response);
    }
}

/* Every answer has an id, even for an unknown path or a health check. */
TEST(request_id_everywhere)
{
    static const char *const paths[] = { "/livez", "/readyz", "/metrics", "/v1/models",
                                         "/nowhere" };
    const char *const headers[] = { "X-Request-Id: everywhere", NULL };
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        char id[300] = "";
        struct http_response response = http_client_send(
            &client, &(struct http_request){ .path = paths[i], .headers = headers });
        http_response_header(&response, "X-Request-Id", id, sizeof(id));
        assert_string_equal(id, "everywhere");
        http_response_free(&response);
    }
}

TEST(server_timing)
{
    static const char *const stages[] = { "parse", "queue", "compute", "write" };
    static const char batch[] = JSON({"model":"sdpa","requests":[{"query":[[1]]}]});
    for (int b = 0; b < 2; b++) {
        char timing[300] = "";
        struct http_response response =
            http_client_post(&client, b ? "/v1/attention/batch" : PATH, b ? batch : GOOD);
        assert_int_equal(response.status, 200);
        http_response_header(&response, "Server-Timing", timing, sizeof(timing));
        for (int s = 0; s < 4; s++) {
            char start[32], *end;
            snprintf(start, sizeof(start), "%s;dur=", stages[s]);
            const char *stage = strstr(timing, start);
            if (!stage)
                fail_msg("no %s in Server-Timing: %s", stages[s], timing);
            double milliseconds = strtod(stage + strlen(start), &end);
            assert_true(end > stage + strlen(start) && milliseconds >= 0);
            assert_true(milliseconds <= response.seconds * 1000 + 1);
        }
        http_response_free(&response);
    }
}

/* ------------------------------------------------------------------- log lines -- */

/* The JSON log line that has this text; the caller deletes it. Every line must be JSON. */
static cJSON *find_line(const struct daemon *from, const char *text)
{
    char *log = daemon_log(from);
    cJSON *found = NULL;
    for (char *line = log, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        cJSON *parsed = cJSON_ParseWithOpts(line, NULL, true);
        if (!cJSON_IsObject(parsed))
            fail_msg("not a JSON log line: %s", line);
        if (!found && strstr(line, text))
            found = parsed;
        else
            cJSON_Delete(parsed);
    }
    free(log);
    return found;
}

TEST(log_lines)
{
    struct daemon other;
    struct http_client own;
    daemon_start_with(&other, "--log-format", "json", NULL);
    http_client_init(&own, other.port);
    const char *const headers[] = { "X-Request-Id: find-me",
                                    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad-01",
                                    "Content-Type: application/json", NULL };
    struct http_response response = http_client_send(
        &own, &(struct http_request){ .path = PATH, .body = GOOD, .headers = headers });
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    const char *const forged[] = { "X-Request-Id: forged-1",
                                   "traceparent: a\"b\\c\tlevel=error\x80", NULL };
    response = http_client_send(
        &own, &(struct http_request){ .path = "/no%0d%0awhere\"x", .headers = forged });
    assert_int_equal(response.status, 404);
    http_response_free(&response);
    http_client_free(&own);
    free(daemon_log_with(&other, "find-me"));
    free(daemon_log_with(&other, "forged-1"));

    cJSON *line = find_line(&other, "find-me");
    assert_non_null(line);
    char *text = cJSON_PrintUnformatted(line);
    static const char *const words[] = { "\"time\":\"",      "\"level\":\"info\"",
                                         "\"event\":\"",     "POST",
                                         "/v1/attention",    "200",
                                         "0af7651916cd43dd", "find-me" };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (!strstr(text, words[i]))
            fail_msg("no %s in the log line %s", words[i], text);
    cJSON_free(text);
    cJSON_Delete(line);
    line = find_line(&other, "forged-1");
    assert_non_null(line);
    cJSON_Delete(line);
    daemon_stop(&other);
}

/* A request makes one text line, and a client cannot make it two. */
TEST(text_log_lines)
{
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    http_raw_send_text(&raw, "GET /nowhere%0a2026 HTTP/1.1\r\nHost: x\r\nX-Request-Id: text-1\r\n"
                             "traceparent: a b=c \"d\r\n\r\n");
    struct http_response response = http_raw_receive(&raw, 5 * daemon_slowness());
    assert_int_equal(response.status, 404);
    http_response_free(&response);
    http_raw_close(&raw);
    char *log = daemon_log_with(&server, "text-1");
    int lines = 0;
    for (char *line = log, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (strlen(line) < 24 || line[4] != '-' || line[10] != 'T' || line[23] != 'Z')
            fail_msg("not a log line: %s", line);
        if (strstr(line, "text-1")) {
            lines++;
            assert_non_null(strstr(line, "404"));
            assert_non_null(strstr(line, "/nowhere"));
        }
    }
    free(log);
    assert_int_equal(lines, 1);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start, fixture_clear);
