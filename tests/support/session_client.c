/* SPDX-License-Identifier: Apache-2.0 */
/* session_client.c - see session_client.h. */
#include "session_client.h"
#include "answer.h"
#include "test.h"

enum { PATH_BYTES = 160 };

static const char *path_of(char path[PATH_BYTES], const char *id, const char *verb)
{
    snprintf(path, PATH_BYTES, "/v1/sessions/%s%s%s", id, verb[0] ? "/" : "", verb);
    return path;
}

void session_make(struct http_client *client, const char *body)
{
    struct http_response response = http_client_post(client, "/v1/sessions", body);
    cJSON_Delete(answer_json(&response, 201));
    http_response_free(&response);
}

cJSON *session_post(struct http_client *client, const char *id, const char *verb, const char *body,
                    long status)
{
    char path[PATH_BYTES];
    struct http_response response = http_client_post(client, path_of(path, id, verb), body);
    cJSON *answer = answer_json(&response, status);
    http_response_free(&response);
    return answer;
}

void session_refused(struct http_client *client, const char *id, const char *verb, const char *body,
                     long status, const char *code, const char *says)
{
    char path[PATH_BYTES];
    struct http_response response = http_client_post(client, path_of(path, id, verb), body);
    if (!strstr(response.body, says))
        fail_msg("%s: %s does not say '%s'", body, response.body, says);
    answer_expect_fault(&response, status, code, NULL);
    http_response_free(&response);
}

void session_get(struct http_client *client, const char *id, long status)
{
    char path[PATH_BYTES];
    struct http_response response = http_client_get(client, path_of(path, id, ""));
    cJSON_Delete(answer_json(&response, status));
    http_response_free(&response);
}

void session_delete(struct http_client *client, const char *id, long status)
{
    char path[PATH_BYTES];
    const struct http_request request = { .method = "DELETE", .path = path_of(path, id, "") };
    struct http_response response = http_client_send(client, &request);
    if (response.status != status)
        fail_msg("DELETE %s: %ld %s", id, response.status, response.body);
    http_response_free(&response);
}

double session_number(struct http_client *client, const char *id, const char *name)
{
    char path[PATH_BYTES];
    cJSON *answer = answer_get(client, path_of(path, id, ""));
    const cJSON *number = cJSON_GetObjectItem(answer, name);
    assert_true(cJSON_IsNumber(number));
    const double value = number->valuedouble;
    cJSON_Delete(answer);
    return value;
}

void session_wait_until_empty(struct http_client *client)
{
    answer_wait_for_metric(client, "attnd_sessions", 0, 0);
    answer_wait_for_metric(client, "attnd_session_bytes", 0, 0);
}

void session_expect_same(const cJSON *session, const cJSON *attention)
{
    static const char *const NAMES[] = { "context",    "weights", "scores",
                                         "softcapped", "masked",  "lse" };
    int compared = 0;
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (cJSON_GetObjectItem(attention, NAMES[i])) {
            answer_expect_equal(session, attention, NAMES[i]);
            compared++;
        }
    assert_true(compared > 0);
}
