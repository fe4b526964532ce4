/* SPDX-License-Identifier: Apache-2.0 */
/* test_request_log.c - one line in the log for each request, which says what the request did and
 * nothing of its data, and Server-Timing on every answer. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"

static const char PATH[] = "/v1/attention";
static const char GOOD[] = JSON({"model":"demo","query":[[1,0,0],[0,1,0]]});

static int request_count;

/* ------------------------------------------------------------------ lines -- */

/* The lines of this request, without those that say in an audit who changed what; the caller
 * deletes them. */
static cJSON *lines_of(const char *id)
{
    cJSON *lines = cJSON_CreateArray();
    char *log = daemon_log(&server);
    for (char *line = log, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        cJSON *parsed = cJSON_ParseWithOpts(line, NULL, true);
        assert_true(cJSON_IsObject(parsed));
        const cJSON *found = cJSON_GetObjectItemCaseSensitive(parsed, "request_id");
        const cJSON *event = cJSON_GetObjectItemCaseSensitive(parsed, "event");
        if (cJSON_IsString(found) && strcmp(found->valuestring, id) == 0
            && strcmp(event->valuestring, "audit") != 0)
            cJSON_AddItemToArray(lines, parsed);
        else
            cJSON_Delete(parsed);
    }
    free(log);
    return lines;
}

/* The only line of this request. The daemon may write it after the answer. */
static cJSON *line_of(const char *id)
{
    const double until = daemon_now() + 10 * daemon_slowness();
    cJSON *lines = lines_of(id);
    while (cJSON_GetArraySize(lines) == 0 && daemon_now() < until) {
        cJSON_Delete(lines);
        daemon_pause(0.005);
        lines = lines_of(id);
    }
    assert_int_equal(cJSON_GetArraySize(lines), 1);
    cJSON *line = cJSON_DetachItemFromArray(lines, 0);
    cJSON_Delete(lines);
    return line;
}

/* Every member of the JSON object want must be a member of line with the same value. */
static void expect_members(const cJSON *line, const char *want)
{
    cJSON *members = cJSON_Parse(want);
    assert_non_null(members);
    const cJSON *member;
    cJSON_ArrayForEach(member, members) {
        const cJSON *found = cJSON_GetObjectItemCaseSensitive(line, member->string);
        if (cJSON_IsNull(member) ? found != NULL : !cJSON_Compare(found, member, true))
            fail_msg("%s is not as in %s: %s", member->string, want, cJSON_Print(line));
    }
    cJSON_Delete(members);
}

static double number_of(const cJSON *line, const char *name)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(line, name);
    if (!cJSON_IsNumber(member))
        fail_msg("no number %s in %s", name, cJSON_Print(line));
    return member->valuedouble;
}

/* The line has four durations, whose sum is at most the total. */
static void expect_durations(const cJSON *line)
{
    static const char *const names[] = { "queue_ms", "parse_ms", "compute_ms", "write_ms" };
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        assert_true(number_of(line, names[i]) >= 0);
        sum += number_of(line, names[i]);
    }
    assert_true(sum <= number_of(line, "ms") * 1.0001 + 0.001);
}

/* Sends a request and returns its line. */
static cJSON *line_after(const char *path, const char *body, long status)
{
    char id[32], header[64];
    snprintf(id, sizeof id, "line-%d", ++request_count);
    snprintf(header, sizeof header, "X-Request-Id: %s", id);
    const char *const headers[] = { header, "Content-Type: application/json", NULL };
    struct http_response response = http_client_send(
        &client, &(struct http_request){ .path = path, .body = body, .headers = headers });
    if (response.status != status)
        fail_msg("%s: %ld %s", path, response.status, response.body);
    cJSON *line = line_of(id);
    assert_true(number_of(line, "bytes_in") == (body ? (double)strlen(body) : 0));
    assert_true(number_of(line, "bytes_out") == (double)response.body_size);
    assert_true(number_of(line, "status") == (double)status);
    assert_true(number_of(line, "ms") > 0);
    expect_members(line, "{\"event\":\"request\",\"level\":\"info\",\"client\":\"127.0.0.1\"}");
    http_response_free(&response);
    return line;
}

/* ------------------------------------------------------- what a line says -- */

#define ONE_HEAD "\"q_heads\":1,\"kv_heads\":1"

static const struct {
    const char *path, *body, *line;
} DONE[] = {
    { PATH, GOOD,
      "{\"method\":\"POST\",\"path\":\"/v1/attention\",\"route\":\"/v1/attention\","
      "\"model\":\"demo\",\"version\":1,\"layer\":0,\"items\":1,\"q_len\":2,\"kv_len\":2," ONE_HEAD
      ",\"head_dim\":3,\"v_head_dim\":3,\"code\":null,\"traceparent\":null}" },
    { PATH,
      "{\"model\":\"sdpa\",\"q_heads\":2,\"kv_heads\":1,\"query\":[[1,2,3,4]],"
      "\"key\":[[1,2],[3,4],[5,6]],\"value\":[[1,2,3],[3,4,5],[6,7,8]]}",
      "{\"model\":\"sdpa\",\"items\":1,\"q_len\":1,\"kv_len\":3,\"q_heads\":2,\"kv_heads\":1,"
      "\"head_dim\":2,\"v_head_dim\":3}" },
    { "/v1/attention/batch",
      "{\"model\":\"sdpa\",\"requests\":[{\"query\":[[1],[2]],\"key\":[[1]],\"value\":[[1]]},"
      "{\"query\":[]},{\"query\":[[1]],\"key\":[[1],[2],[3]],\"value\":[[1],[2],[3]]},"
      "{\"query\":[[1,[2]]}]}",
      NULL },
    { "/v1/attention/batch",
      "{\"model\":\"sdpa\",\"requests\":[{\"query\":[[1],[2]],\"key\":[[1]],\"value\":[[1]]},"
      "{\"query\":[[1]],\"key\":[[1],[2],[3]],\"value\":[[1],[2],[3]]},"
      "{\"query\":[[1],[1],[1],[1]],\"key\":[[1,2]]}]}",
      "{\"model\":\"sdpa\",\"items\":3,\"q_len\":2,\"kv_len\":3," ONE_HEAD ",\"head_dim\":1}" },
    { "/v1/attention/merge",
      "{\"model\":\"sdpa\",\"parts\":[{\"context\":[[[1,2]]],\"lse\":[[0]]}]}",
      "{\"model\":\"sdpa\",\"items\":1,\"q_len\":1,\"kv_len\":0,\"q_heads\":1,\"v_head_dim\":2}" },
    { "/v1/attention/gradients",
      "{\"model\":\"sdpa\",\"query\":[[1],[2]],\"context_gradient\":[[1],[1]]}",
      "{\"model\":\"sdpa\",\"items\":1,\"q_len\":2,\"kv_len\":2," ONE_HEAD "}" },
    { "/v1/softmax", "{\"input\":[[1,2,3],[4,5,6]]}",
      "{\"model\":null,\"layer\":null,\"items\":1,\"q_len\":2,\"kv_len\":3}" },
    { "/v2/models/demo/versions/1/infer",
      "{\"inputs\":[{\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[2,3],"
      "\"data\":[1,0,0,0,1,0]}]}",
      "{\"route\":\"/v2/models/{model}/versions/{version}/infer\",\"model\":\"demo\","
      "\"version\":1,\"layer\":0,\"items\":1,\"q_len\":2,\"head_dim\":3}" },
};

TEST(lines_of_inferences)
{
    for (size_t i = 0; i < sizeof DONE / sizeof DONE[0]; i++) {
        cJSON *line = line_after(DONE[i].path, DONE[i].body, DONE[i].line ? 200 : 400);
        expect_members(line, DONE[i].line ? DONE[i].line : JSON({"code":"json","items":null}));
        expect_durations(line);
        if (DONE[i].line && strcmp(DONE[i].path, "/v1/softmax") != 0)
            assert_true(number_of(line, "flops") > 0 || strstr(DONE[i].path, "merge"));
        cJSON_Delete(line);
    }
}

static const struct {
    const char *path, *body;
    long status;
    const char *line;
} FAULTS[] = {
    { PATH, "{\"model\":\"demo\",\"query\":[[13371337]]}", 400,
      "{\"code\":\"shape\",\"model\":\"demo\",\"items\":1,\"q_len\":0}" },
    { PATH, "{\"model\":\"demo\",\"query\":[[1,2,3]],\"marker13371337\":1}", 400,
      "{\"code\":\"field\"}" },
    { PATH, "{\"model\":\"nobody13371337\",\"query\":[[1]]}", 404, "{\"code\":\"not_found\"}" },
    { PATH, NULL, 405,
      "{\"code\":\"method\",\"method\":\"GET\",\"parse_ms\":null,\"route\":null}" },
    { "/nowhere", NULL, 404, "{\"code\":\"not_found\",\"route\":null,\"parse_ms\":null}" },
    { "/v2/repository/models/demo/unload", "{}", 403, "{\"code\":\"forbidden\",\"items\":null}" },
    { "/v1/models", NULL, 200, "{\"code\":null,\"route\":\"/v1/models\",\"parse_ms\":null}" },
};

TEST(lines_of_faults)
{
    for (size_t i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++) {
        cJSON *line = line_after(FAULTS[i].path, FAULTS[i].body, FAULTS[i].status);
        expect_members(line, FAULTS[i].line);
        cJSON_Delete(line);
    }
}

/* The line of a request whose client left says 499. One client leaves while it sends the body, the
 * other while the daemon computes. */
TEST(lines_of_departures)
{
    char *slow = request_text_slow(&client, 1, "");
    for (int i = 0; i < 2; i++) {
        char head[256];
        struct http_raw raw;
        const int size =
            snprintf(head, sizeof head,
                     "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: left-%d\r\n"
                     "traceparent: 00-abc-%d\r\nExpect: 100-continue\r\n"
                     "Content-Length: %zu\r\n\r\n",
                     i, i, strlen(slow));
        http_raw_connect(&raw, server.port);
        assert_true(http_raw_send(&raw, head, (size_t)size));
        struct http_response response = http_raw_receive(&raw, 30); /* the daemon has the head */
        assert_int_equal(response.status, 100);
        http_response_free(&response);
        assert_true(http_raw_send(&raw, slow, i == 0 ? 10 : strlen(slow)));
        if (i == 1)
            answer_wait_for_active(&client, 1); /* it leaves at once: the answer takes a second */
        http_raw_close(&raw);
        snprintf(head, sizeof head, "left-%d", i);
        cJSON *line = line_of(head);
        snprintf(head, sizeof head, JSON({"traceparent":"00-abc-%d"}), i);
        expect_members(line, JSON({"status":499,"code":"cancelled","bytes_out":0}));
        expect_members(line, head);
        cJSON_Delete(line);
    }
    free(slow);
}

TEST(no_payload_in_the_log)
{
    char *log = daemon_log(&server);
    assert_non_null(strstr(log, JSON("code":"shape")));
    /* The number has so many digits that no id or duration contains it by chance. It is searched in
     * full and as "%g" writes it. */
    assert_null(strstr(log, "13371337"));
    assert_null(strstr(log, "1.33713e"));
    free(log);
}

/* ---------------------------------------------------------- Server-Timing -- */

/* Checks that the header has names with durations and nothing else, the total last. *count is their
 * number. */
static double total_of(const char *timing, int *count)
{
    double value = -1;
    *count = 0;
    for (const char *rest = timing; *rest; ++*count) {
        char name[16], *end;
        int used = 0;
        assert_int_equal(sscanf(rest, "%15[a-z];dur=%n", name, &used), 1);
        value = strtod(rest + used, &end);
        assert_true(used > 0 && end > rest + used && value >= 0);
        assert_true(*end ? strncmp(end, ", ", 2) == 0 : strcmp(name, "total") == 0);
        rest = *end ? end + 2 : end;
    }
    return value;
}

static void expect_timing(const struct http_response *response, int count)
{
    char timing[300];
    int found;
    if (!http_response_header(response, "Server-Timing", timing, sizeof timing))
        fail_msg("%ld without Server-Timing: %s", response->status, response->headers);
    assert_true(total_of(timing, &found) <= response->seconds * 1000 + 1);
    if (found != count)
        fail_msg("%ld has %d timings: %s", response->status, found, timing);
}

TEST(timing_on_every_answer)
{
    static const char *const plain[] = { "Content-Type: text/plain", NULL };
    static const char *const packed[] = { "Content-Encoding: zstd", NULL };
    static const struct {
        struct http_request request;
        long status;
        int count;
    } cases[] = {
        { { .path = PATH, .body = GOOD }, 200, 5 },
        { { .path = "/v1/softmax", .body = "{\"input\":[1,2]}" }, 200, 5 },
        { { .path = "/v1/softmax", .body = "{" }, 400, 5 },
        { { .path = PATH, .body = "{" }, 400, 5 },
        { { .path = PATH, .body = "{\"model\":\"no\",\"query\":[[1]]}" }, 404, 5 },
        { { .path = PATH, .body = GOOD, .headers = plain }, 415, 1 },
        { { .path = PATH, .body = GOOD, .headers = packed }, 415, 1 },
        { { .path = PATH }, 405, 1 },
        { { .path = "/nowhere" }, 404, 1 },
        { { .path = "/livez" }, 200, 1 },
        { { .path = "/metrics" }, 200, 1 },
        { { .path = "/v1/models", .method = "HEAD" }, 200, 1 },
        { { .path = "/v1/models/demo", .method = "DELETE" }, 403, 1 },
        { { .path = "/v2/models/demo/stats" }, 200, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct http_response response = http_client_send(&client, &cases[i].request);
        if (response.status != cases[i].status)
            fail_msg("%s: %ld", cases[i].request.path, response.status);
        expect_timing(&response, cases[i].count);
        http_response_free(&response);
    }
}

/* Answers that come before the end of a body, or because it does not come. */
TEST(timing_without_a_body)
{
    static const struct {
        const char *request;
        long status;
    } cases[] = {
        { "POST /v1/attention HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999\r\n\r\n", 413 },
        { "POST /v1/attention HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", 408 },
    };
    for (int i = 0; i < 2; i++) {
        struct http_raw raw;
        http_raw_connect(&raw, server.port);
        http_raw_send_text(&raw, cases[i].request);
        struct http_response response = http_raw_receive(&raw, 20 * daemon_slowness());
        assert_int_equal(response.status, cases[i].status);
        response.seconds = 20 * daemon_slowness();
        expect_timing(&response, 1);
        http_response_free(&response);
        http_raw_close(&raw);
    }
}

static int start(void **state)
{
    fixture_serve("--log-format", "json", "--body-timeout", "1s");
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
