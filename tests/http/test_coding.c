/* SPDX-License-Identifier: Apache-2.0 */
/* test_coding.c - bodies and answers in gzip and deflate.
 *
 * The tests pack bodies with zlib, called as its manual says. They unpack the daemon's answers with
 * libcurl or with zlib. A packed request must get the same answer as the plain one, to the last
 * byte. */
#include "answer.h"
#include "fixture.h"
#include "test.h"

#include <zlib.h>

enum { GZIP = 31, ZLIB = 15, RAW = -15 }; /* the window bits of zlib.h */

struct bytes {
    char *data;
    size_t size;
};

static struct bytes packed(int window_bits, const void *data, size_t size)
{
    z_stream stream = { .next_in = (unsigned char *)data, .avail_in = (uInt)size };
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    struct bytes bytes = { malloc(deflateBound(&stream, (uLong)size)), 0 };
    assert_non_null(bytes.data);
    stream.next_out = (unsigned char *)bytes.data;
    stream.avail_out = (uInt)deflateBound(&stream, (uLong)size);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    bytes.size = stream.total_out;
    deflateEnd(&stream);
    return bytes;
}

static struct bytes unpacked(int window_bits, const void *data, size_t size)
{
    enum { SIZE_MAX_HERE = 4 << 20 };
    struct bytes bytes = { malloc(SIZE_MAX_HERE), 0 };
    z_stream stream = { .next_in = (unsigned char *)data, .avail_in = (uInt)size };
    assert_non_null(bytes.data);
    stream.next_out = (unsigned char *)bytes.data;
    stream.avail_out = SIZE_MAX_HERE;
    assert_int_equal(inflateInit2(&stream, window_bits), Z_OK);
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    bytes.size = stream.total_out;
    inflateEnd(&stream);
    return bytes;
}

/* {"model":"sdpa","query":[[...]]} with so many rows of four numbers. */
static char *long_body(int rows)
{
    char *body = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&body, &size);
    assert_non_null(file);
    fprintf(file, "{\"model\":\"sdpa\",\"outputs\":[\"context\",\"lse\"],\"query\":[");
    for (int i = 0; i < rows; i++)
        fprintf(file, "%s[%d.5,%d,0.25,-%d]", i > 0 ? "," : "", i % 7, i % 3, i % 5);
    fprintf(file, "]}");
    fclose(file);
    return body;
}

static struct http_response send_packed(const char *path, const char *coding, struct bytes bytes,
                                        bool chunked)
{
    char header[64];
    snprintf(header, sizeof header, "Content-Encoding: %s", coding);
    const char *const headers[] = { "Content-Type: application/json", header, NULL };
    return http_client_send(&client, &(struct http_request){ .path = path,
                                                             .body = bytes.data,
                                                             .body_size = bytes.size,
                                                             .headers = headers,
                                                             .chunked = chunked });
}

static const struct {
    const char *name;
    int window_bits;
} CODINGS[] = { { "gzip", GZIP },
                { "x-gzip", GZIP },
                { "GZIP", GZIP },
                { "deflate", ZLIB },
                { "deflate", RAW },
                { "identity, gzip", GZIP },
                { "deflate, identity", ZLIB } };

TEST(packed_requests)
{
    char *body = long_body(200);
    const struct {
        const char *path, *body;
    } requests[] = {
        { "/v1/attention", body },
        { "/v1/attention", "{\"model\":\"demo\",\"query\":[[1,0,0],[0,1,0]]}" },
        { "/v1/attention/batch", "{\"model\":\"demo\",\"requests\":[{\"query\":[[1,2,3]]}]}" },
        { "/v1/attention/gradients",
          "{\"model\":\"demo\",\"query\":[[1,2,3]],\"context_gradient\":[[1,1,1]]}" },
        { "/v1/softmax", "{\"input\":[[1,2,3],[4,5,6]]}" },
        { "/v2/repository/index", "{\"ready\":true}" },
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        struct http_response plain = http_client_post(&client, requests[i].path, requests[i].body);
        assert_int_equal(plain.status, 200);
        for (size_t j = 0; j < sizeof CODINGS / sizeof CODINGS[0]; j++) {
            struct bytes bytes =
                packed(CODINGS[j].window_bits, requests[i].body, strlen(requests[i].body));
            struct http_response response =
                send_packed(requests[i].path, CODINGS[j].name, bytes, j % 2);
            assert_int_equal(response.status, 200);
            assert_int_equal(response.body_size, plain.body_size);
            assert_memory_equal(response.body, plain.body, plain.body_size);
            assert_false(response.on_new_connection);
            http_response_free(&response);
            free(bytes.data);
        }
        http_response_free(&plain);
    }
    free(body);
}

TEST(members_are_one_body)
{
    char *body = long_body(100);
    const size_t half = strlen(body) / 2;
    struct bytes one = packed(GZIP, body, half);
    struct bytes other = packed(GZIP, body + half, strlen(body) - half);
    one.data = realloc(one.data, one.size + other.size);
    assert_non_null(one.data);
    memcpy(one.data + one.size, other.data, other.size);
    one.size += other.size;
    struct http_response response = send_packed("/v1/attention", "gzip", one, false);
    struct http_response plain = http_client_post(&client, "/v1/attention", body);
    assert_int_equal(response.status, 200);
    assert_string_equal(response.body, plain.body);
    http_response_free(&response);
    http_response_free(&plain);
    free(one.data);
    free(other.data);
    free(body);
}

TEST(refused_requests)
{
    static const char BODY[] = JSON({"model":"demo","query":[[1,0,0],[0,1,0]]});
    static const char *const PATHS[] = { "/v1/attention", "/v1/attention/batch", "/v1/softmax",
                                         "/v2/repository/index",
                                         "/v2/repository/models/demo/unload" };
    struct bytes whole = packed(GZIP, BODY, sizeof BODY - 1);
    for (size_t i = 0; i < sizeof PATHS / sizeof PATHS[0]; i++) {
        const struct {
            const char *coding;
            struct bytes bytes;
            long status;
        } cases[] = {
            { "br", whole, 415 },
            { "zstd", whole, 415 },
            { "gzip, gzip", whole, 415 },
            { "deflate", whole, 400 },
            { "gzip", { whole.data, whole.size - 1 }, 400 },
            { "gzip", { whole.data, 5 }, 400 },
            { "gzip", { (char *)BODY, sizeof BODY - 1 }, 400 },
        };
        for (size_t j = 0; j < sizeof cases / sizeof cases[0]; j++) {
            char value[64];
            struct http_response response =
                send_packed(PATHS[i], cases[j].coding, cases[j].bytes, false);
            answer_expect_fault(&response, cases[j].status, "encoding", NULL);
            const char *accepted =
                http_response_header(&response, "Accept-Encoding", value, sizeof value);
            if (cases[j].status == 415)
                assert_string_equal(accepted, "gzip, deflate, identity");
            http_response_free(&response);
        }
    }
    free(whole.data);
}

/* A small body that unpacks to a large one. The daemon applies the limit while it unpacks. */
TEST(bomb)
{
    enum { BODY_MAX = 1 << 20, BOMB = 64 << 20 };
    struct daemon small;
    struct http_client saved = client;
    daemon_start_with(&small, "--body-max", "1MiB", NULL);
    http_client_init(&client, small.port);
    char *spaces = malloc(BOMB);
    assert_non_null(spaces);
    memset(spaces, ' ', BOMB);
    static const char BODY[] = JSON({"model":"demo","query":[[1,0,0]]});
    memcpy(spaces, BODY, sizeof BODY - 1);
    const size_t before = daemon_memory_bytes(&small);
    struct bytes bomb = packed(GZIP, spaces, BOMB);
    assert_in_range(bomb.size, 1000, BODY_MAX / 10);
    for (int i = 0; i < 3; i++) {
        struct http_response response = send_packed("/v1/attention", "gzip", bomb, i == 1);
        answer_expect_fault(&response, 413, "too_large", NULL);
        assert_false(response.on_new_connection && i > 0);
        http_response_free(&response);
    }
    if (daemon_slowness() <= 1) /* sanitizers keep what is freed */
        assert_in_range(daemon_memory_bytes(&small), 0, before + 8 * BODY_MAX);
    struct bytes largest = packed(ZLIB, spaces, BODY_MAX);
    struct http_response response = send_packed("/v1/attention", "deflate", largest, false);
    cJSON_Delete(answer_json(&response, 200));
    http_response_free(&response);
    struct bytes larger = packed(ZLIB, spaces, BODY_MAX + 1);
    response = send_packed("/v1/attention", "deflate", larger, false);
    answer_expect_fault(&response, 413, "too_large", NULL);
    http_response_free(&response);
    response = send_packed("/v2/repository/index", "gzip", bomb, false);
    answer_expect_fault(&response, 413, "too_large", NULL);
    http_response_free(&response);
    free(bomb.data);
    free(largest.data);
    free(larger.data);
    free(spaces);
    http_client_free(&client);
    daemon_stop(&small);
    client = saved;
}

/* ------------------------------------------------------------------ answers -- */

static struct http_response ask(const char *method, const char *path, const char *body,
                                const char *accepted)
{
    char header[128];
    snprintf(header, sizeof header, "Accept-Encoding: %s", accepted ? accepted : "");
    const char *const headers[] = { "Content-Type: application/json", accepted ? header : NULL,
                                    NULL };
    return http_client_send(
        &client,
        &(struct http_request){ .method = method, .path = path, .body = body, .headers = headers });
}

TEST(packed_answers)
{
    static const struct {
        const char *accepted;
        const char *coding; /* NULL: none */
    } CASES[] = {
        { NULL, NULL },
        { "identity", NULL },
        { "br", NULL },
        { "gzip", "gzip" },
        { "x-gzip", "gzip" },
        { "deflate", "deflate" },
        { "gzip, deflate", "gzip" },
        { "gzip;q=0.2, deflate;q=0.3, identity;q=0.1", "deflate" },
        { "gzip;q=0.2, identity;q=0.3", NULL },
        { "*", "gzip" },
        { "*;q=0", NULL },
        { "gzip;q=0, *", "deflate" },
    };
    char *body = long_body(300), value[64];
    struct http_response plain = http_client_post(&client, "/v1/attention", body);
    assert_int_equal(plain.status, 200);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct http_response response = ask(NULL, "/v1/attention", body, CASES[i].accepted);
        const char *coding =
            http_response_header(&response, "Content-Encoding", value, sizeof value);
        assert_int_equal(response.status, 200);
        if (!CASES[i].coding) {
            assert_null(coding);
            assert_string_equal(response.body, plain.body);
        } else {
            assert_string_equal(coding, CASES[i].coding);
            assert_true(response.body_size < plain.body_size * 7 / 10);
            struct bytes bytes = unpacked(strcmp(coding, "gzip") == 0 ? GZIP : ZLIB, response.body,
                                          response.body_size);
            assert_int_equal(bytes.size, plain.body_size);
            assert_memory_equal(bytes.data, plain.body, bytes.size);
            free(bytes.data);
        }
        assert_string_equal(http_response_header(&response, "Vary", value, sizeof value),
                            "Accept-Encoding");
        http_response_free(&response);
    }
    http_response_free(&plain);
    free(body);
}

/* A short answer is not packed, unless the client refuses the plain form. A fault is short too. */
TEST(short_answers)
{
    static const char BODY[] = JSON({"model":"demo","query":[[1,0,0]]});
    static const char *const ACCEPTED[] = { "gzip", "gzip, *;q=0", "deflate, identity;q=0" };
    static const char *const CODINGS_OF[] = { NULL, "gzip", "deflate" };
    struct http_response plain = http_client_post(&client, "/v1/attention", BODY);
    char value[64];
    for (int i = 0; i < 3; i++) {
        struct http_response response = ask(NULL, "/v1/attention", BODY, ACCEPTED[i]);
        const char *coding =
            http_response_header(&response, "Content-Encoding", value, sizeof value);
        assert_int_equal(response.status, 200);
        if (CODINGS_OF[i]) {
            assert_string_equal(coding, CODINGS_OF[i]);
            struct bytes bytes = unpacked(i == 1 ? GZIP : ZLIB, response.body, response.body_size);
            assert_int_equal(bytes.size, plain.body_size);
            assert_memory_equal(bytes.data, plain.body, bytes.size);
            free(bytes.data);
            assert_non_null(http_response_header(&response, "Vary", value, sizeof value));
        } else {
            assert_null(coding);
            assert_null(http_response_header(&response, "Vary", value, sizeof value));
        }
        http_response_free(&response);
    }
    http_response_free(&plain);
    struct http_response response = ask(NULL, "/v1/attention", "{\"query\":", "gzip");
    answer_expect_fault(&response, 400, "json", NULL);
    assert_null(http_response_header(&response, "Content-Encoding", value, sizeof value));
    http_response_free(&response);
}

/* libcurl asks for packed answers and unpacks them itself. Answers that connection threads make are
 * packed as well. */
TEST(by_libcurl)
{
    char *body = long_body(1000), value[64];
    struct http_response plain = http_client_post(&client, "/v1/attention", body);
    static const char *const ACCEPTED[] = { "gzip", "deflate", "gzip, deflate" };
    for (int i = 0; i < 3; i++) {
        struct http_response response = http_client_send(
            &client, &(struct http_request){
                         .path = "/v1/attention", .body = body, .accept_encoding = ACCEPTED[i] });
        assert_int_equal(response.status, 200);
        assert_non_null(http_response_header(&response, "Content-Encoding", value, sizeof value));
        assert_int_equal(response.body_size, plain.body_size);
        assert_memory_equal(response.body, plain.body, plain.body_size);
        http_response_free(&response);
        response = http_client_send(
            &client, &(struct http_request){ .path = "/metrics", .accept_encoding = ACCEPTED[i] });
        assert_int_equal(response.status, 200);
        assert_non_null(http_response_header(&response, "Content-Encoding", value, sizeof value));
        assert_non_null(strstr(response.body, "attnd_requests_active"));
        http_response_free(&response);
    }
    http_response_free(&plain);
    free(body);
}

TEST(head_and_switched_off)
{
    char value[64];
    struct http_response response = ask("HEAD", "/metrics", NULL, "gzip");
    assert_int_equal(response.status, 200);
    assert_int_equal(response.body_size, 0);
    assert_string_equal(http_response_header(&response, "Content-Encoding", value, sizeof value),
                        "gzip");
    http_response_free(&response);

    struct daemon other;
    struct http_client saved = client;
    daemon_start_with(&other, "--compress-min", "1GiB", NULL);
    http_client_init(&client, other.port);
    response = ask(NULL, "/metrics", NULL, "gzip");
    assert_int_equal(response.status, 200);
    assert_null(http_response_header(&response, "Content-Encoding", value, sizeof value));
    http_response_free(&response);
    http_client_free(&client);
    daemon_stop(&other);
    client = saved;
}

/* tritonclient.http.aio asks for gzip with every request, but unpacks only the answers to
 * inferences. */
TEST(of_v2_only_inferences)
{
    static const struct {
        const char *path, *body;
        bool is_packed;
    } CASES[] = {
        { "/v2", NULL, false },
        { "/v2/models", NULL, false },
        { "/v2/models/sdpa", NULL, false },
        { "/v2/models/sdpa/versions/1/config", NULL, false },
        { "/v2/models/stats", NULL, false },
        { "/v2/models/sdpa/stats", NULL, false },
        { "/v2/models/sdpa/ready", NULL, false },
        { "/v2/logging", NULL, false },
        { "/v2/health/ready", NULL, false },
        { "/v2/repository/index", "", false },
        { "/v1/models", NULL, true },
        { "/v2/models/demo/infer",
          "{\"inputs\":[{\"name\":\"query\",\"shape\":[1,4,3],\"datatype\":\"FP32\",\"data\":"
          "[1,0,0,1,0,0,1,0,0,1,0,0]}]}",
          true },
    };
    struct daemon other;
    struct http_client saved = client;
    char value[64];
    daemon_start_with(&other, "--compress-min", "1", NULL);
    http_client_init(&client, other.port);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct http_response response = ask(NULL, CASES[i].path, CASES[i].body, "gzip, deflate");
        const char *coding =
            http_response_header(&response, "Content-Encoding", value, sizeof value);
        assert_int_equal(response.status, 200);
        if ((coding != NULL) != CASES[i].is_packed)
            fail_msg("%s is %s", CASES[i].path, coding ? coding : "not packed");
        http_response_free(&response);
    }
    struct http_response response = ask(NULL, "/v2/models/sdpa/config", NULL, "gzip, identity;q=0");
    assert_string_equal(http_response_header(&response, "Content-Encoding", value, sizeof value),
                        "gzip");
    http_response_free(&response);
    http_client_free(&client);
    daemon_stop(&other);
    client = saved;
}

static int start(void **state)
{
    fixture_serve("--model-control", "explicit");
    return 0;
}

ALL_TESTS(start, fixture_stop);
