/* SPDX-License-Identifier: Apache-2.0 */
/* test_long_answers.c - answers so long that several workers write them in pieces, and that the
 * daemon sends block by block. They have the same numbers and bytes as ever. Nothing is left in the
 * daemon of answers that end early. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"

#include <sys/socket.h>

static const char PATH[] = "/v1/attention";

enum { ROWS = 450, WIDTH = 4 };

/* A request for self-attention over so many rows; more is the text of further fields. */
static char *body_of(int64_t rows, const char *more)
{
    struct request_text text = { 0 };
    request_text_add(&text, "{\"model\":\"sdpa\",\"query\":");
    request_text_random(&text, 5, rows, WIDTH);
    request_text_add(&text, "%s}", more);
    return text.data;
}

/* The context that follows from an answer's weights must be the context of the same answer. */
static void expect_weights_of_context(const cJSON *answer, const double *value)
{
    const int64_t square[] = { 1, ROWS, ROWS }, rows[] = { ROWS, WIDTH };
    double *weights = answer_numbers(answer, "weights", 3, square);
    double *context = answer_numbers(answer, "context", 2, rows);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < WIDTH; j++) {
            double sum = 0;
            for (int k = 0; k < ROWS; k++)
                sum += weights[i * ROWS + k] * value[k * WIDTH + j];
            assert_true(fabs(sum - context[i * WIDTH + j]) < 1e-5);
        }
    free(weights);
    free(context);
}

static double *query_of(const char *body)
{
    const int64_t rows[] = { ROWS, WIDTH };
    cJSON *request = cJSON_Parse(body);
    double *query = answer_numbers(request, "query", 2, rows);
    cJSON_Delete(request);
    return query;
}

/* The answer is also asked for packed, on the same connection as the plain requests before and
 * after. */
TEST(numbers)
{
    char *body = body_of(ROWS, "");
    double *query = query_of(body);
    struct http_request request = { .path = PATH, .body = body };
    struct http_response plain = http_client_send(&client, &request);
    cJSON *answer = answer_json(&plain, 200);
    answer_expect_members(answer, "model,layer,context,weights");
    expect_weights_of_context(answer, query);
    cJSON_Delete(answer);
    for (int i = 0; i < 3; i++) {
        request.accept_encoding = i == 0 ? "gzip" : i == 1 ? "deflate" : NULL;
        struct http_response again = http_client_send(&client, &request);
        assert_int_equal(again.status, 200);
        assert_false(again.on_new_connection);
        assert_int_equal(again.body_size, plain.body_size);
        assert_memory_equal(again.body, plain.body, plain.body_size);
        http_response_free(&again);
    }
    http_response_free(&plain);
    free(query);
    free(body);
}

/* Each item, long, short or faulty, has the same answer as alone. */
TEST(batch)
{
    static const int64_t lengths[] = { 2, ROWS, 30, 200, 1 };
    enum { COUNT = sizeof lengths / sizeof lengths[0] };
    struct request_text text = { 0 };
    request_text_add(&text, "{\"requests\":[");
    for (int i = 0; i < COUNT; i++) {
        char *item = body_of(lengths[i], ",\"outputs\":[\"weights\",\"lse\"]");
        request_text_add(&text, "%s,", item);
        free(item);
    }
    request_text_add(&text, "{\"model\":\"none\"}]}");
    cJSON *answer = answer_post(&client, "/v1/attention/batch", text.data);
    const cJSON *results = cJSON_GetObjectItem(answer, "results");
    assert_int_equal(cJSON_GetArraySize(results), COUNT + 1);
    for (int i = 0; i < COUNT; i++) {
        char *item = body_of(lengths[i], ",\"outputs\":[\"weights\",\"lse\"]");
        cJSON *alone = answer_post(&client, PATH, item);
        answer_expect_equal(cJSON_GetArrayItem(results, i), alone, "weights");
        answer_expect_equal(cJSON_GetArrayItem(results, i), alone, "lse");
        cJSON_Delete(alone);
        free(item);
    }
    answer_expect_item_fault(cJSON_GetArrayItem(results, COUNT), "not_found", "/requests/5/model");
    cJSON_Delete(answer);
    free(text.data);
}

/* Other kinds of numbers: indices, and numbers of the Open Inference Protocol as text beside others
 * as bytes. */
TEST(other_numbers)
{
    const int64_t shape[] = { 1, ROWS, 200 };
    char *body = body_of(ROWS, ",\"outputs\":[\"weights\"],\"weight_map\":{\"top_k\":200}");
    cJSON *answer = answer_post(&client, PATH, body);
    double *indices = answer_numbers(cJSON_GetObjectItem(answer, "weights"), "indices", 3, shape);
    double *values = answer_numbers(cJSON_GetObjectItem(answer, "weights"), "values", 3, shape);
    for (int i = 0; i < ROWS * 200; i++) {
        assert_true(indices[i] >= 0 && indices[i] < ROWS && floor(indices[i]) == indices[i]);
        assert_true(i % 200 == 0 || values[i] <= values[i - 1]);
    }
    free(indices);
    free(values);
    cJSON_Delete(answer);
    free(body);
}

static struct http_response infer_oip(const char *query, bool binary)
{
    struct request_text text = { 0 };
    request_text_add(&text, "{\"inputs\":[");
    for (int i = 0; i < 3; i++)
        request_text_add(&text,
                         "%s{\"name\":\"%c\",\"datatype\":\"FP64\",\"shape\":[1,1,%d,%d],"
                         "\"data\":%s}",
                         i > 0 ? "," : "", "QKV"[i], ROWS, WIDTH, query);
    request_text_add(
        &text,
        "],\"outputs\":[{\"name\":\"qk_matmul_output\",\"parameters\":{"
        "\"binary_data\":%s}},{\"name\":\"Y\",\"parameters\":{\"binary_data\":true}}]}",
        binary ? "true" : "false");
    const struct http_request request = { .path = "/v2/models/sdpa/infer", .body = text.data };
    struct http_response response = http_client_send(&client, &request);
    assert_int_equal(response.status, 200);
    free(text.data);
    return response;
}

static size_t header_length(const struct http_response *response)
{
    char value[32];
    assert_non_null(
        http_response_header(response, "Inference-Header-Content-Length", value, sizeof value));
    return strtoul(value, NULL, 10);
}

/* The text of the doubles reads back to the same doubles that are sent as bytes. */
TEST(text_beside_bytes)
{
    struct request_text query = { 0 };
    request_text_random(&query, 6, ROWS, WIDTH);
    struct http_response bytes = infer_oip(query.data, true), text = infer_oip(query.data, false);
    const size_t at = header_length(&text), scores_bytes = sizeof(double) * ROWS * ROWS;
    const size_t context_bytes = sizeof(double) * ROWS * WIDTH;
    assert_int_equal(bytes.body_size, header_length(&bytes) + scores_bytes + context_bytes);
    assert_int_equal(text.body_size, at + context_bytes);
    assert_memory_equal(text.body + at, bytes.body + header_length(&bytes) + scores_bytes,
                        context_bytes);
    cJSON *head = cJSON_ParseWithLength(text.body, at);
    const cJSON *scores = cJSON_GetArrayItem(cJSON_GetObjectItem(head, "outputs"), 0);
    const cJSON *number = cJSON_GetObjectItem(scores, "data");
    assert_int_equal(cJSON_GetArraySize(number), ROWS * ROWS);
    number = number->child;
    for (size_t i = 0; i < (size_t)ROWS * ROWS; i++, number = number->next) {
        double value;
        memcpy(&value, bytes.body + header_length(&bytes) + i * sizeof value, sizeof value);
        assert_true(number->valuedouble == value);
    }
    cJSON_Delete(head);
    http_response_free(&bytes);
    http_response_free(&text);
    free(query.data);
}

/* Each row has one number, so its softmax is 1, also in a packed answer. */
TEST(softmax)
{
    enum { COUNT = 140000 };
    struct request_text text = { 0 };
    request_text_add(&text, "{\"input\":[");
    for (int i = 0; i < COUNT; i++)
        request_text_add(&text, i > 0 ? ",[%d]" : "[%d]", i % 10);
    request_text_add(&text, "]}");
    struct http_request request = { .path = "/v1/softmax", .body = text.data };
    for (int packed = 0; packed < 2; packed++) {
        request.accept_encoding = packed ? "gzip" : NULL;
        struct http_response response = http_client_send(&client, &request);
        assert_int_equal(response.status, 200);
        assert_int_equal(response.body_size,
                         strlen("{\"output\":[]}\n") + COUNT * strlen("[1],") - 1);
        const char *p = response.body + strlen("{\"output\":[");
        for (int i = 0; i < COUNT; i++, p += strlen("[1],"))
            assert_memory_equal(p, i < COUNT - 1 ? "[1]," : "[1]]", strlen("[1],"));
        http_response_free(&response);
    }
    free(text.data);
}

static void expect_nothing_left(void)
{
    answer_wait_for_metric(&client, "attnd_queue_jobs", 0, 0);
    answer_wait_for_metric(&client, "attnd_memory_in_flight_bytes", 0, 0);
}

/* Bytes that shrink by less than a tenth are sent as they are, unless the client refuses that. */
TEST(bytes_packed)
{
    static const char *const wanted[] = { NULL, "Accept-Encoding: gzip",
                                          "Accept-Encoding: gzip, identity;q=0" };
    char *body = body_of(700, ",\"outputs\":[\"weights\"]"), coding[16];
    size_t plain = 0;
    for (int i = 0; i < 3; i++) {
        const char *const headers[] = { "Content-Type: application/json",
                                        "Accept: application/x-safetensors", wanted[i], NULL };
        struct http_response response = http_client_send(
            &client, &(struct http_request){ .path = PATH, .body = body, .headers = headers });
        assert_int_equal(response.status, 200);
        const bool is_packed =
            http_response_header(&response, "Content-Encoding", coding, sizeof coding) != NULL;
        plain = i == 0 ? response.body_size : plain;
        assert_true(is_packed ? i > 0 : i < 2);
        assert_true(is_packed ? i == 2 || response.body_size < plain / 10 * 9 + 1000
                              : response.body_size == plain);
        http_response_free(&response);
    }
    free(body);
}

/* The deadlines pass before, while and after the daemon writes the answer. */
TEST(deadlines)
{
    char *body = body_of(900, "");
    for (int i = 0; i < 15; i++) {
        char timeout[40];
        const char *const headers[] = { "Content-Type: application/json", timeout, NULL };
        const int timeout_ms = 1 + (int)(i * 5 * daemon_slowness());
        snprintf(timeout, sizeof timeout, "X-Timeout-Ms: %d", timeout_ms);
        struct http_response response = http_client_send(
            &client, &(struct http_request){ .path = PATH, .body = body, .headers = headers });
        if (response.status == 200)
            assert_memory_equal(response.body + response.body_size - 4, "]]}\n", 4);
        else
            answer_expect_fault(&response, 504, "timeout|deadline", NULL);
        http_response_free(&response);
    }
    expect_nothing_left();
    free(body);
}

/* The clients leave before, while and after the daemon writes the answer, and while it sends it. */
TEST(departures)
{
    char *body = body_of(900, ""), head[200];
    const int descriptors = daemon_descriptor_count(&server);
    snprintf(head, sizeof head,
             "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
             strlen(body));
    for (int i = 0; i < 15; i++) {
        struct http_raw raw;
        http_raw_connect(&raw, server.port);
        assert_true(http_raw_send_text(&raw, head));
        assert_true(http_raw_send_text(&raw, body));
        daemon_pause(i * 0.005 * daemon_slowness());
        http_raw_close(&raw);
    }
    expect_nothing_left();
    const double until = daemon_now() + 10 * daemon_slowness();
    while (daemon_descriptor_count(&server) > descriptors) {
        assert_true(daemon_now() < until);
        daemon_pause(0.02);
    }
    free(body);
}

/* The answer is 46 MB of text and 16 MB of weights, packed to 20 MB. When the daemon sends the
 * first packed byte, nothing of the text and the weights is left in memory. */
TEST(text_goes_when_packed)
{
    if (daemon_slowness() > 1)
        return; /* sanitizers keep what is freed */
    char *body = body_of(2000, ""), head[200], first;
    struct http_raw raw;
    const size_t before = daemon_memory_bytes(&server);
    snprintf(head, sizeof head,
             "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n"
             "Content-Length: %zu\r\n\r\n",
             strlen(body));
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, head));
    assert_true(http_raw_send_text(&raw, body));
    assert_int_equal(recv(raw.socket, &first, 1, 0), 1);
    assert_in_range(daemon_memory_bytes(&server), 0, before + (40 << 20));
    http_raw_close(&raw);
    expect_nothing_left();
    free(body);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start, fixture_clear);
