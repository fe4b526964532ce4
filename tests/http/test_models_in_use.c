/* SPDX-License-Identifier: Apache-2.0 */
/* test_models_in_use.c - models that are replaced, deleted or damaged while requests use them.
 *
 * Every answer comes wholly from one version of a model: the version that was there when its
 * request came. */
#include "answer.h"
#include "fixture.h"
#include "model_client.h"
#include "request_text.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

static void expect_factor(const char *model, double factor)
{
    assert_true(model_factor(&client, model) == factor);
}

struct users {
    int port;
    _Atomic bool end;
    _Atomic int answers, wrong;
};

static void *use(void *context)
{
    struct users *users = context;
    struct http_client own;
    http_client_init(&own, users->port);
    while (!users->end) {
        struct http_response response = http_client_post(
            &own, "/v1/attention", "{\"model\":\"swapped\",\"query\":" MODEL_BYTES_WORDS "}");
        cJSON *answer = cJSON_Parse(response.body);
        const cJSON *rows = cJSON_GetObjectItem(answer, "context");
        double factor = rows ? rows->child->child->valuedouble / 0.98522025 : 0;
        double second = rows ? rows->child->child->next->valuedouble / 1.74174051 : 0;
        double whole = round(factor);
        if (response.status != 200 || fabs(factor - whole) > 1e-4 || fabs(second - whole) > 1e-4
            || whole < 1 || whole > 2)
            users->wrong++;
        users->answers++;
        cJSON_Delete(answer);
        http_response_free(&response);
    }
    http_client_free(&own);
    return NULL;
}

TEST(replaced_while_in_use)
{
    enum { USERS = 3, PUTS = 60 };
    pthread_t threads[USERS];
    struct users users = { .port = server.port };
    model_put_demo(&client, "swapped", 1, 201);
    for (int i = 0; i < USERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, &users), 0);
    for (int i = 0; i < PUTS; i++) {
        model_put_demo(&client, "swapped", i % 2 ? 1 : 2, 200);
        expect_factor("swapped", i % 2 ? 1 : 2);
    }
    users.end = true;
    for (int i = 0; i < USERS; i++)
        pthread_join(threads[i], NULL);
    assert_true(users.answers > 20);
    assert_int_equal(users.wrong, 0);
}

enum { LONG_ROWS = 1000, LONG_KEYS = 8000 };

/* Puts the model "slow" and begins a long request to it. Returns when the daemon has received the
 * request. The caller frees *text when the request has ended. */
static void begin_long_one(struct http_background *long_one, struct request_text *text)
{
    struct http_response response = model_put_json(
        &client, "slow",
        "{\"config\":{\"attention\":\"dot\",\"q_heads\":64,\"kv_heads\":1},\"parameters\":{"
        "\"q_proj.weight\":[[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],"
        "[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],"
        "[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],"
        "[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0],[0]],"
        "\"k_proj.weight\":[[1]],\"v_proj.weight\":[[7]]}}");
    cJSON_Delete(answer_json(&response, 201));
    http_response_free(&response);
    *text = (struct request_text){ 0 };
    request_text_add(text, "{\"model\":\"slow\",\"outputs\":[\"context\"],\"query\":[[1]");
    for (int i = 1; i < LONG_ROWS; i++)
        request_text_add(text, ",[1]");
    request_text_add(text, "],\"key\":[[1]");
    for (int i = 1; i < LONG_KEYS; i++)
        request_text_add(text, ",[1]");
    request_text_add(text, "]}");
    http_background_start(long_one, server.port,
                          &(struct http_request){ .path = "/v1/attention", .body = text->data });
    answer_wait_for_active(&client, 1);
}

/* A long request begins on the old parameters and ends on them, although the file is deleted
 * meanwhile. */
TEST(deleted_while_in_use)
{
    struct http_background long_one;
    struct request_text text;
    begin_long_one(&long_one, &text);
    daemon_pause(0.1 * daemon_slowness()); /* until the daemon has read it and found its model */
    model_delete_well(&client, "slow");
    struct http_response response = http_background_join(&long_one);
    cJSON *answer = answer_json(&response, 200);
    const int64_t shape[] = { LONG_ROWS, 64 };
    double *context = answer_numbers(answer, "context", 2, shape);
    for (int i = 0; i < LONG_ROWS * 64; i++)
        assert_true(fabs(context[i] - 7) < 1e-4);
    free(context);
    cJSON_Delete(answer);
    http_response_free(&response);
    free(text.data);
}

static void expect_unavailable(const char *name, const char *words)
{
    char path[128];
    snprintf(path, sizeof path, "/v1/models/%s", name);
    struct http_response response = http_client_get(&client, path);
    cJSON *model = answer_json(&response, 200);
    answer_expect(model, "state", "\"UNAVAILABLE\"", 0);
    const char *reason = cJSON_GetStringValue(cJSON_GetObjectItem(model, "reason"));
    if (!reason || !strstr(reason, words))
        fail_msg("the reason is: %s", reason ? reason : "none");
    cJSON_Delete(model);
    http_response_free(&response);
}

/* The log has one warning for the model with these words, however many requests have met them. */
static void expect_logged_once(const char *name, const char *words)
{
    char line[160];
    int lines = 0;
    snprintf(line, sizeof line,
             "warning model unavailable name=%s version=1 reason=\"its file was %s", name, words);
    char *log = daemon_log_with(&server, line);
    for (const char *at = log; (at = strstr(at, line)); at++)
        lines++;
    assert_int_equal(lines, 1);
    free(log);
}

/* The same, but here the file changes: it loses its last byte, which takes no page away, or it is
 * written into. The long request gets no result, no later request does, and the model says why. */
TEST(written_into_while_in_use)
{
    static const char *const WORDS[] = { "cut short", "written into" };
    for (int i = 0; i < 2; i++) {
        struct http_background long_one;
        struct request_text text;
        struct stat status;
        char path[512];
        begin_long_one(&long_one, &text);
        snprintf(path, sizeof path, "%s/slow.safetensors", directory);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(truncate(path, status.st_size - (i == 0 ? 1 : -1)), 0);
        struct http_response response = http_background_join(&long_one);
        answer_expect_fault(&response, 503, "loading", NULL);
        assert_non_null(strstr(response.body, WORDS[i]));
        http_response_free(&response);
        answer_refused(&client, "/v1/attention", "{\"model\":\"slow\",\"query\":[[1]]}", 503,
                       "loading", NULL);
        expect_unavailable("slow", WORDS[i]);
        expect_logged_once("slow", WORDS[i]);
        model_delete_well(&client, "slow");
        free(text.data);
    }
}

/* The mapped file is truncated. Its requests are refused; the daemon and every other model live on.
 * A file that is put anew heals the model. */
TEST(file_cut_short)
{
    enum { WIDTH = 96 };
    struct request_text text = { 0 };
    request_text_add(&text, "{\"config\":{\"attention\":\"dot\"},\"parameters\":{");
    for (int p = 0; p < 3; p++) {
        request_text_add(&text, "%s\"%c_proj.weight\":", p ? "," : "", "qkv"[p]);
        request_text_random(&text, (uint64_t)p, WIDTH, WIDTH);
    }
    request_text_add(&text, "}}");
    struct request_text question = { 0 };
    request_text_add(&question, "{\"model\":\"cut\",\"query\":");
    request_text_random(&question, 9, 4, WIDTH);
    request_text_add(&question, "}");
    for (int round = 0; round < 2; round++) {
        struct http_response response = model_put_json(&client, "cut", text.data);
        cJSON_Delete(answer_json(&response, round ? 200 : 201));
        http_response_free(&response);
        if (round)
            break;
        char path[512];
        snprintf(path, sizeof(path), "%s/cut.safetensors", directory);
        assert_int_equal(truncate(path, 4096), 0);
        answer_refused(&client, "/v1/attention", question.data, 503, "loading", NULL);
        model_put_demo(&client, "beside", 3, 201);
        expect_factor("beside", 3);
    }
    cJSON_Delete(answer_post(&client, "/v1/attention", question.data));
    free(question.data);
    free(text.data);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start_with_directory, fixture_clear);
