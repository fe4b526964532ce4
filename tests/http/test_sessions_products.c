/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_products.c - calls of several sessions whose rows are projected together. Each has
 * the bits that POST /v1/attention answers for the same rows. */
#include "answer.h"
#include "fill.h"
#include "fixture.h"
#include "request_text.h"
#include "session_client.h"
#include "test.h"

enum { D_MODEL = 256, CLIENTS = 8, ROWS = 6 };

static float rows[CLIENTS][ROWS][D_MODEL];

static void expect_row(struct http_response *response, int owner, int row)
{
    struct request_text text = { .data = NULL };
    cJSON *answer = answer_json(response, 200);
    request_text_add(&text, "{\"model\":\"wide\",\"causal\":true,\"past_len\":%d,\"query\":", row);
    request_text_matrix(&text, rows[owner][row], 1, D_MODEL);
    request_text_add(&text, ",\"key\":");
    request_text_matrix(&text, rows[owner][0], row + 1, D_MODEL);
    request_text_add(&text, "}");
    cJSON *want = answer_post(&client, "/v1/attention", text.data);
    session_expect_same(answer, want);
    cJSON_Delete(want);
    cJSON_Delete(answer);
    free(text.data);
}

/* All sessions append their next row at the same moment. The answers are compared afterwards. */
TEST(shared_products)
{
    struct http_request requests[CLIENTS];
    struct http_response responses[ROWS][CLIENTS];
    struct request_text texts[CLIENTS] = { { .data = NULL } };
    char bodies[CLIENTS][64], paths[CLIENTS][64];
    struct http_crowd crowd;
    struct fill fill = { .state = 3 };
    fill_floats(&fill, &rows[0][0][0], sizeof rows / sizeof(float), -1, 1);
    http_crowd_init(&crowd, server.port, CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        snprintf(bodies[i], sizeof bodies[i], JSON({"model":"wide","id":"c%d"}), i);
        snprintf(paths[i], sizeof paths[i], "/v1/sessions/c%d/attention", i);
        session_make(&client, bodies[i]);
    }
    for (int row = 0; row < ROWS; row++) {
        for (int i = 0; i < CLIENTS; i++) {
            texts[i].used = 0;
            request_text_add(&texts[i], "{\"input\":");
            request_text_matrix(&texts[i], rows[i][row], 1, D_MODEL);
            request_text_add(&texts[i], "}");
            requests[i] = (struct http_request){ .path = paths[i], .body = texts[i].data };
        }
        http_crowd_send(&crowd, requests, responses[row]);
    }
    assert_true(answer_metric(&client, "attnd_batch_requests_count") > 0);
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < CLIENTS; i++) {
            expect_row(&responses[row][i], i, row);
            http_response_free(&responses[row][i]);
        }
    for (int i = 0; i < CLIENTS; i++)
        free(texts[i].data);
    http_crowd_free(&crowd);
}

static int start(void **state)
{
    char path[512];
    directory = daemon_directory_create();
    snprintf(path, sizeof path, "%s/wide.safetensors", directory);
    struct daemon_result made = daemon_command(
        (const char *const[]){ "model", "new", "--d-model", "256", "--q-heads", "4", path, NULL },
        NULL);
    const int exit_code = made.exit_code;
    daemon_result_free(&made);
    if (exit_code == 0)
        fixture_serve("--models", directory, "--workers", "2", "--batch-delay", "20ms");
    return exit_code;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
