/* SPDX-License-Identifier: Apache-2.0 */
/* test_accidents_canary.c - the accident of a server that answers one client with bytes of another.
 *
 * Clients send at the same moment, each with a number of its own in every element of its values, in
 * shapes that change. An attention of equal values is this value, whatever its weights, so every
 * number of a good answer is the client's own; any other number comes from another request or from
 * memory that nobody wrote. Fresh and freed memory are filled with patterns. Between the good
 * requests lie some whose sizes lie. */
#include "answer.h"
#include "fixture.h"
#include "model_client.h"
#include "test.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { CLIENTS = 8, ROUNDS = 200, BODY_BYTES = 400000 };

/* The number of each client; as text none is part of another. */
static const float OWN[CLIENTS] = { 1100001, 2200002, 3300003, 4400004,
                                    5500005, 6600006, 7700007, 8800008 };

struct message {
    char body[BODY_BYTES];
    size_t size;
    const char *headers[4];
    bool is_lying;
};
static struct message messages[CLIENTS];

/* A sequence of its own, the same in every run. */
static unsigned next(unsigned bound)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % bound;
}

/* ----------------------------------------------------------------- requests -- */

static void add_matrix(struct message *message, const char *name, float value, int rows,
                       int columns)
{
    char *body = message->body;
    size_t used = message->size;
    used += (size_t)sprintf(body + used, ",\"%s\":[", name);
    for (int i = 0; i < rows; i++) {
        used += (size_t)sprintf(body + used, "%s[", i ? "," : "");
        for (int j = 0; j < columns; j++)
            used += (size_t)sprintf(body + used, "%s%.9g", j ? "," : "", (double)value);
        used += (size_t)sprintf(body + used, "]");
    }
    message->size = used + (size_t)sprintf(body + used, "]");
}

/* A request in JSON; one that lies has an empty row at its end. */
static void write_json(struct message *message, float own, int rows, int keys, int columns)
{
    message->size = (size_t)sprintf(message->body, "{\"model\":\"sdpa\"");
    add_matrix(message, "query", own / 1e7F, rows, columns);
    add_matrix(message, "key", own / 1e7F, keys, columns);
    add_matrix(message, "value", own, keys, columns);
    if (message->is_lying)
        message->size -= strlen("]");
    message->size += (size_t)sprintf(message->body + message->size, "%s,\"outputs\":[\"context\"]}",
                                     message->is_lying ? ",[]]" : "");
    message->headers[0] = "Content-Type: application/json";
}

/* The same as a file; one that lies says one more row of values than it has. */
static void write_file(struct message *message, float own, int rows, int keys, int columns)
{
    const int said = keys + message->is_lying;
    const int ends[] = { rows * columns * 4, (rows + keys) * columns * 4,
                         (rows + keys + said) * columns * 4 };
    char header[600];
    const int length = snprintf(
        header, sizeof header,
        "{\"__metadata__\":{\"model\":\"sdpa\",\"outputs\":\"[\\\"context\\\"]\"},"
        "\"query\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]},"
        "\"key\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[%d,%d]},"
        "\"value\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[%d,%d]}}",
        rows, columns, ends[0], keys, columns, ends[0], ends[1], said, columns, ends[1], ends[2]);
    const uint64_t size = (uint64_t)length;
    memcpy(message->body, &size, 8);
    memcpy(message->body + 8, header, (size_t)length);
    message->size = 8 + (size_t)length;
    for (int i = 0; i < (rows + 2 * keys) * columns; i++, message->size += sizeof own) {
        const float value = i < (rows + keys) * columns ? own / 1e7F : own;
        memcpy(message->body + message->size, &value, sizeof value);
    }
    message->headers[0] = "Content-Type: application/x-safetensors";
}

static struct http_request write_request(int i)
{
    struct message *message = &messages[i];
    const int rows = 1 + (int)next(40), keys = 1 + (int)next(60), columns = 1 + (int)next(33);
    message->is_lying = next(4) == 0;
    (next(2) ? write_json : write_file)(message, OWN[i], rows, keys, columns);
    message->headers[1] =
        next(2) ? "Accept: application/x-safetensors" : "Accept: application/json";
    message->headers[2] = NULL;
    return (struct http_request){ .path = "/v1/attention",
                                  .body = message->body,
                                  .body_size = message->size,
                                  .headers = message->headers,
                                  .accept_encoding = next(3) == 0 ? "gzip" : NULL };
}

/* ------------------------------------------------------------------ answers -- */

static void expect_own(double value, float own)
{
    if (!(fabs(value - (double)own) <= 1e-5 * (double)own))
        fail_msg("%.9g in the answer to the client of %.9g", value, (double)own);
}

static void expect_own_numbers(const cJSON *value, float own)
{
    const cJSON *item;
    if (cJSON_IsNumber(value))
        expect_own(value->valuedouble, own);
    cJSON_ArrayForEach(item, value)
        expect_own_numbers(item, own);
}

static void expect_own_file(const struct http_response *response, float own)
{
    uint64_t length;
    assert_true(response->body_size > 8);
    memcpy(&length, response->body, sizeof length);
    assert_true(length < response->body_size - 8);
    for (size_t at = 8 + length; at + 4 <= response->body_size; at += 4) {
        float value;
        memcpy(&value, response->body + at, sizeof value);
        expect_own((double)value, own);
    }
}

/* No answer has a number of another client, as text or as a float, good or not. */
static void expect_no_other(const struct http_response *response, int own)
{
    for (int i = 0; i < CLIENTS; i++) {
        char text[24];
        snprintf(text, sizeof text, "%.9g", (double)OWN[i]);
        if (i != own
            && (memmem(response->body, response->body_size, text, strlen(text))
                || memmem(response->body, response->body_size, &OWN[i], sizeof OWN[i])
                || strstr(response->headers, text)))
            fail_msg("the number of client %d in the answer to client %d", i, own);
    }
    static const unsigned char PATTERNS[][4] = { { 0x5a, 0x5a, 0x5a, 0x5a },
                                                 { 0xa5, 0xa5, 0xa5, 0xa5 } };
    for (size_t i = 0; i < COUNT(PATTERNS); i++)
        if (memmem(response->body, response->body_size, PATTERNS[i], sizeof PATTERNS[i]))
            fail_msg("memory that nobody wrote in the answer to client %d", own);
}

static void expect_answer(const struct http_response *response, int i)
{
    char type[64];
    expect_no_other(response, i);
    if (messages[i].is_lying) {
        answer_expect_fault(response, 400, "json|ragged|binary|shape", NULL);
        return;
    }
    if (response->status != 200)
        fail_msg("%ld: %.300s", response->status, response->body);
    assert_non_null(http_response_header(response, "Content-Type", type, sizeof type));
    if (strstr(type, "safetensors")) {
        expect_own_file(response, OWN[i]);
        return;
    }
    cJSON *answer = answer_json(response, 200);
    const cJSON *context = cJSON_GetObjectItem(answer, "context");
    assert_true(cJSON_IsArray(context));
    expect_own_numbers(context, OWN[i]);
    cJSON_Delete(answer);
}

TEST(answers_are_ones_own)
{
    struct http_crowd crowd;
    int good = 0, lying = 0;
    http_crowd_init(&crowd, server.port, CLIENTS);
    for (int round = 0; round < ROUNDS; round++) {
        struct http_request requests[CLIENTS];
        struct http_response responses[CLIENTS];
        for (int i = 0; i < CLIENTS; i++)
            requests[i] = write_request(i);
        http_crowd_send(&crowd, requests, responses);
        for (int i = 0; i < CLIENTS; i++) {
            expect_answer(&responses[i], i);
            http_response_free(&responses[i]);
            good += !messages[i].is_lying;
            lying += messages[i].is_lying;
        }
    }
    assert_true(good > lying && lying > ROUNDS);
    http_crowd_free(&crowd);
}

static int start(void **state)
{
    static const char *const environment[] = { "MALLOC_PERTURB_=165", NULL };
    daemon_start(&server, &(struct daemon_options){ .environment = environment });
    http_client_init(&client, server.port);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
