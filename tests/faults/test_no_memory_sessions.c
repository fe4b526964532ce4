/* SPDX-License-Identifier: Apache-2.0 */
/* test_no_memory_sessions.c - when the daemon gets no memory at some allocation of a call on a
 * session, it answers (no_memory.h), and the call has appended nothing. */
#include "answer.h"
#include "no_memory.h"
#include "test.h"
#include "traced_model.h"

static int64_t kv_len(void)
{
    struct http_response response = send_once(&(struct http_request){ .path = "/v1/sessions/s" });
    cJSON *answer = answer_json(&response, 200);
    const int64_t length = cJSON_GetObjectItem(answer, "kv_len")->valueint;
    cJSON_Delete(answer);
    http_response_free(&response);
    return length;
}

/* A call that appends one row: with each answer of 200 there is one more, and with no other. */
static void append_through(const struct http_request *request, uint64_t times)
{
    int refused = 0;
    long answered = 0;
    uint64_t n = 1;
    int64_t before = kv_len();
    for (; n < ALLOCATIONS_MAX && round_of(request, 200, n, times, &answered); n++) {
        const int64_t after = kv_len();
        if (answered > 0)
            assert_int_equal(after, before + (answered == 200));
        refused += answered == 503 || answered == NO_MEMORY_UNSENT;
        before = after;
    }
    print_message("    %d allocations, %d answers of 503\n", (int)n - 1, refused);
    assert_true(n > 5 && n < ALLOCATIONS_MAX && refused > 0);
}

TEST(append)
{
    static const char *const AS_FILE[] = { "Content-Type: application/json",
                                           "Accept: application/x-safetensors", NULL };
    static const struct http_request CALLS[] = {
        { .path = "/v1/sessions/s/attention",
          .body = "{\"query\":[[1,2]],\"key\":[[1,2]],\"mask\":null,\"outputs\":[\"lse\"]}" },
        { .path = "/v1/sessions/s/attention",
          .headers = AS_FILE,
          .body = "{\"query\":[[1,2]],\"key\":[[1,2]],\"outputs\":[\"context\"]}" },
        { .path = "/v1/sessions/s/attention",
          .body = "{\"outputs\":[\"lse\"],\"steps\":[{\"query\":[[1,2]],\"key\":[[1,2]]}]}" },
    };
    expect_well(&(struct http_request){ .path = "/v1/sessions",
                                        .body = "{\"model\":\"sdpa\",\"id\":\"s\"}" },
                201);
    for (size_t i = 0; i < sizeof CALLS / sizeof CALLS[0]; i++) {
        append_through(&CALLS[i], 1);
        append_through(&CALLS[i], 1000000);
    }
}

TEST(other_verbs)
{
    static const struct http_request RETRY = {
        .path = "/v1/sessions/s/attention",
        .body = "{\"query\":[[1,2]],\"key\":[[1,2]],\"at\":1,\"outputs\":[\"context\"]}"
    };
    static const struct http_request MANY = {
        .path = "/v1/sessions/attention",
        .body = "{\"query\":[[1,2]],\"outputs\":[\"lse\"],\"requests\":[{\"session\":\"s\"},{}]}"
    };
    go_through(&RETRY, 200, 1);
    go_through(&RETRY, 200, 1000000);
    go_through(&MANY, 200, 1);
    go_through(&(struct http_request){ .path = "/v1/sessions", .body = "{\"model\":\"sdpa\"}" },
               201, 1);
    go_through(&(struct http_request){ .path = "/v1/sessions/s/fork", .body = "{\"ttl\":\"1h\"}" },
               201, 1);
    go_through(
        &(struct http_request){ .path = "/v1/sessions/s/truncate", .body = "{\"kv_len\":0}" }, 200,
        1);
    go_through(&(struct http_request){ .path = "/v1/sessions/s" }, 200, 1);
    go_through(&(struct http_request){ .path = "/v1/sessions" }, 200, 1);
}

/* A trace appends to all layers or to none. */
TEST(trace)
{
    static const struct http_request TRACE = {
        .path = "/v1/sessions/s/trace",
        .body = "{\"tokens\":[1],\"outputs\":[\"lse\",\"predictions\"]}"
    };
    traced_model_save(directory);
    expect_well(&(struct http_request){ .path = "/v2/repository/models/llama/load", .body = "{}" },
                200);
    expect_well(&(struct http_request){ .method = "DELETE", .path = "/v1/sessions/s" }, 204);
    expect_well(&(struct http_request){ .path = "/v1/sessions",
                                        .body = "{\"model\":\"llama\",\"id\":\"s\"}" },
                201);
    append_through(&TRACE, 1);
    append_through(&TRACE, 1000000);
}

TEST(daemon_stops)
{
    fail_from(0, 0);
    daemon_stop(&server);
}

ALL_TESTS(no_memory_start, no_memory_clear);
