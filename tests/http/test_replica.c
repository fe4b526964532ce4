/* SPDX-License-Identifier: Apache-2.0 */
/* test_replica.c - Attnd-Replica, the name of the daemon that answers: on every answer, by
 * --replica, by its variable and by the host, and in the ids that the daemon makes. */
#include "answer.h"
#include "fixture.h"
#include "test.h"

static void expect_name(const struct http_response *response, const char *name)
{
    char value[80];
    if (!http_response_header(response, "Attnd-Replica", value, sizeof value)
        || strcmp(value, name) != 0)
        fail_msg("no Attnd-Replica: %s in %ld:\n%s", name, response->status, response->headers);
}

TEST(on_every_answer)
{
    static const struct {
        const char *method, *path, *body;
        long status;
    } REQUESTS[] = {
        { "GET", "/livez", NULL, 200 },
        { "GET", "/metrics", NULL, 200 },
        { "GET", "/", NULL, 200 },
        { "POST", "/v1/attention", "{\"model\":\"demo\",\"query\":[[1,0,0]]}", 200 },
        { "POST", "/v1/attention", "{", 400 },
        { "POST", "/v1/sessions", "{\"model\":\"demo\",\"id\":\"a\"}", 201 },
        { "DELETE", "/v1/sessions/a", NULL, 204 },
        { "GET", "/v1/sessions/a", NULL, 410 },
        { "GET", "/nowhere", NULL, 404 },
        { "PUT", "/livez", NULL, 405 },
        { "GET", "/v2/health/ready", NULL, 200 },
        { "GET", "/v2/models/demo", NULL, 200 },
        { "POST", "/v2/models/demo/infer", "{\"inputs\":[]}", 400 },
        { "POST", "/v2/models/none/infer", "{\"inputs\":[]}", 404 },
    };
    for (size_t i = 0; i < sizeof REQUESTS / sizeof REQUESTS[0]; i++) {
        struct http_response response =
            http_client_send(&client, &(struct http_request){ .method = REQUESTS[i].method,
                                                              .path = REQUESTS[i].path,
                                                              .body = REQUESTS[i].body });
        if (response.status != REQUESTS[i].status)
            fail_msg("%s %s: %ld %s", REQUESTS[i].method, REQUESTS[i].path, response.status,
                     response.body);
        expect_name(&response, "attnd-0");
        http_response_free(&response);
    }
}

/* An answer that goes past libmicrohttpd, since the body is not read. */
TEST(on_a_refusal_before_the_body)
{
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, "POST /v1/attention HTTP/1.1\r\nHost: x\r\nContent-Length:"
                                         " 999999999\r\n\r\n{"));
    struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
    assert_int_equal(response.status, 413);
    expect_name(&response, "attnd-0");
    http_response_free(&response);
    http_raw_close(&raw);
}

static void expect_id(struct http_client *of, const char *path, const char *body,
                      const char *beginning)
{
    struct http_response response = http_client_post(of, path, body);
    cJSON *made = answer_json(&response, 201);
    const char *id = cJSON_GetObjectItem(made, "session")->valuestring;
    const size_t size = strlen(beginning);
    if (strncmp(id, beginning, size) != 0 || strlen(id) != size + 32
        || strspn(id + size, "0123456789abcdef") != 32)
        fail_msg("the id is '%s'; expected 32 digits behind '%s'", id, beginning);
    cJSON_Delete(made);
    http_response_free(&response);
}

TEST(in_ids_that_it_makes)
{
    expect_id(&client, "/v1/sessions", JSON({"model":"demo"}), "attnd-0.");
    struct http_response named =
        http_client_post(&client, "/v1/sessions", "{\"model\":\"demo\",\"id\":\"mine\"}");
    cJSON *made = answer_json(&named, 201);
    answer_expect(made, "session", "\"mine\"", 0);
    cJSON_Delete(made);
    http_response_free(&named);
    expect_id(&client, "/v1/sessions/mine/fork", "{}", "attnd-0.");
}

/* Not in ids: nothing is routed by a name that nobody gave. */
TEST(by_the_host)
{
    struct daemon other;
    struct http_client own;
    char value[80];
    daemon_start(&other, NULL);
    http_client_init(&own, other.port);
    struct http_response response = http_client_get(&own, "/livez");
    assert_non_null(http_response_header(&response, "Attnd-Replica", value, sizeof value));
    assert_in_range(strlen(value), 1, 31);
    http_response_free(&response);
    expect_id(&own, "/v1/sessions", JSON({"model":"demo"}), "");
    http_client_free(&own);
    daemon_stop(&other);
}

TEST(by_the_variable)
{
    const char *const environment[] = { "ATTND_REPLICA=east_1", NULL };
    struct daemon other;
    struct http_client own;
    daemon_start(&other, &(struct daemon_options){ .environment = environment });
    http_client_init(&own, other.port);
    struct http_response response = http_client_get(&own, "/livez");
    expect_name(&response, "east_1");
    http_response_free(&response);
    http_client_free(&own);
    daemon_stop(&other);
}

TEST(refused)
{
    const char *const arguments[] = { "--listen", "127.0.0.1:0", "--replica", "a.b", NULL };
    struct daemon_result result = daemon_command(arguments, NULL);
    assert_int_equal(result.exit_code, 1);
    assert_non_null(strstr(result.errors, "--replica: 'a.b' came; expected 1 to 31 of"));
    daemon_result_free(&result);
}

static int start(void **state)
{
    fixture_serve("--replica", "attnd-0");
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
