/* SPDX-License-Identifier: Apache-2.0 */
/* test_oip_binary.c - the binary tensor data extension: tensors as bytes behind the JSON, in both
 * directions, and the raw binary request.
 *
 * A call in bytes must give the same numbers as the same call in JSON. The layout is tritonclient's
 * (oip_client.h). */
#include "fill.h"
#include "fixture.h"
#include "oip_client.h"
#include "test.h"

#include <sys/socket.h>
#include <zlib.h>

static const float WORDS[12] = { 1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1 };
static const char WORDS_TEXT[] = "[1,0,0, 0,1,0, 1,1,0, 0,0,1]";

static struct oip_answer ask_in_json(const char *shape, const char *extra_name,
                                     const char *extra_datatype, const char *extra_shape,
                                     const char *extra)
{
    struct oip_request request = { 0 };
    oip_add_json(&request, "query", "FP32", shape, WORDS_TEXT);
    if (extra_name)
        oip_add_json(&request, extra_name, extra_datatype, extra_shape, extra);
    struct oip_answer answer = oip_post(&client, "demo", &request);
    oip_request_free(&request);
    return answer;
}

static void expect_same(const struct oip_answer *one, const struct oip_answer *other,
                        const char *name)
{
    const struct oip_tensor_answer a = oip_output_of(one, name), b = oip_output_of(other, name);
    double *x = oip_numbers(&a), *y = oip_numbers(&b);
    assert_string_equal(a.datatype, b.datatype);
    assert_int_equal(a.rank, b.rank);
    assert_memory_equal(a.shape, b.shape, sizeof a.shape);
    for (int64_t i = 0; i < a.count; i++)
        assert_true((float)x[i] == (float)y[i]); /* JSON has the shortest text of the float */
    free(x);
    free(y);
}

/* tritonclient asks like this if its user names no outputs: with binary_data_output. */
TEST(bytes_are_the_numbers)
{
    static const int64_t shape[] = { 2, 2, 3 };
    struct oip_answer want = ask_in_json("[2,2,3]", NULL, NULL, NULL, NULL);
    struct oip_request request = { .parameters = "\"binary_data_output\":true" };
    oip_add_binary(&request, "query", "FP32", 3, shape, WORDS, sizeof WORDS);
    struct oip_answer answer = oip_post(&client, "demo", &request);
    assert_non_null(oip_output_of(&answer, "context").bytes);
    assert_int_equal(answer.tail_size, (12 + 8) * sizeof(float));
    expect_same(&answer, &want, "context");
    expect_same(&answer, &want, "weights");
    oip_answer_free(&answer);
    oip_request_free(&request);
    oip_answer_free(&want);
}

/* Every form of answer for every output, from either kind of input. */
TEST(inputs_and_outputs_mix)
{
    static const int64_t shape[] = { 4, 3 }, lengths[] = { 2 }, one[] = { 1 };
    struct oip_answer want = ask_in_json("[4,3]", "kv_len", "INT64", "[1]", "[2]");
    static const struct {
        const char *parameters, *context, *weights;
        bool context_is_binary, weights_is_binary;
    } wishes[] = {
        { NULL, "\"binary_data\":true", NULL, true, false },
        { NULL, NULL, "\"binary_data\":true", false, true },
        { "\"binary_data_output\":true", "\"binary_data\":false", NULL, false, true },
        { "\"binary_data_output\":false", "\"binary_data\":false", NULL, false, false },
        { "\"binary_data_output\":true", NULL, NULL, true, true },
    };
    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++)
        for (int inputs = 0; inputs < 4; inputs++) {
            struct oip_request request = { .parameters = wishes[i].parameters };
            if (inputs & 1)
                oip_add_binary(&request, "kv_len", "INT64", 1, one, lengths, sizeof lengths);
            else
                oip_add_json(&request, "kv_len", "INT64", "[1]", "[2]");
            if (inputs & 2)
                oip_add_binary(&request, "query", "FP32", 2, shape, WORDS, sizeof WORDS);
            else
                oip_add_json(&request, "query", "FP32", "[4,3]", WORDS_TEXT);
            oip_ask(&request, "weights", wishes[i].weights);
            oip_ask(&request, "context", wishes[i].context);
            struct oip_answer answer = oip_post(&client, "demo", &request);
            assert_int_equal(oip_output_of(&answer, "context").bytes != NULL,
                             wishes[i].context_is_binary);
            assert_int_equal(oip_output_of(&answer, "weights").bytes != NULL,
                             wishes[i].weights_is_binary);
            expect_same(&answer, &want, "context");
            expect_same(&answer, &want, "weights");
            oip_answer_free(&answer);
            oip_request_free(&request);
        }
    oip_answer_free(&want);
}

/* The tail may begin at any byte, and so may each tensor in it. */
TEST(every_alignment)
{
    static const int64_t rows[] = { 4, 3 }, square[] = { 4, 4 };
    static const unsigned char mask[16] = { 1, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1 };
    struct oip_answer want = ask_in_json(
        "[4,3]", "mask", "BOOL", "[4,4]",
        "[true,false,true,true,true,true,true,true,false,false,false,false,false,true,true,true]");
    for (int padding = 0; padding < 17; padding++) {
        char id[32];
        struct oip_request request = { .id = id, .parameters = "\"binary_data_output\":true" };
        snprintf(id, sizeof id, "%.*s", padding, "aaaaaaaaaaaaaaaaaaaaaaa");
        oip_add_binary(&request, "mask", "BOOL", 2, square, mask, sizeof mask);
        oip_add_binary(&request, "query", "FP32", 2, rows, WORDS, sizeof WORDS);
        struct oip_answer answer = oip_post(&client, "demo", &request);
        expect_same(&answer, &want, "context");
        expect_same(&answer, &want, "weights");
        oip_answer_free(&answer);
        oip_request_free(&request);
    }
    oip_answer_free(&want);
    /* An odd number of bytes comes before a tensor of 4-byte numbers. */
    static const int64_t one_row[] = { 1, 3 }, one_by_three[] = { 1, 3 };
    static const unsigned char open[3] = { 1, 0, 1 };
    struct oip_request request = { 0 };
    oip_add_binary(&request, "mask", "BOOL", 2, one_by_three, open, sizeof open);
    oip_add_binary(&request, "query", "FP32", 2, one_row, WORDS, 3 * sizeof(float));
    oip_add_binary(&request, "key", "FP32", 2, (const int64_t[]){ 3, 3 }, WORDS, 9 * sizeof(float));
    struct oip_answer answer = oip_post(&client, "demo", &request);
    cJSON *native = answer_post(&client, "/v1/attention",
                                "{\"model\":\"demo\",\"query\":[[1,0,0]],\"key\":[[1,0,0],[0,1,0],"
                                "[1,1,0]],\"mask\":[[true,false,true]]}");
    const struct oip_tensor_answer context = oip_output_of(&answer, "context");
    double *got = oip_numbers(&context);
    double *wanted = answer_numbers(native, "context", 2, one_row);
    for (int i = 0; i < 3; i++)
        assert_true((float)got[i] == (float)wanted[i]);
    free(got);
    free(wanted);
    cJSON_Delete(native);
    oip_answer_free(&answer);
    oip_request_free(&request);
}

/* The answer has the F16 and BF16 nearest to the FP32 answer for the same numbers; these datatypes
 * have two bytes each, and lse beside them four. */
TEST(narrow_and_wide_datatypes)
{
    static const uint16_t f16[12] = { 0x3C00, 0, 0, 0, 0x3C00, 0, 0x3C00, 0x3C00, 0, 0, 0, 0x3C00 };
    static const uint16_t bf16[12] = {
        0x3F80, 0, 0, 0, 0x3F80, 0, 0x3F80, 0x3F80, 0, 0, 0, 0x3F80
    };
    static const double f64[12] = { 1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1 };
    static const int64_t shape[] = { 4, 3 };
    static const struct {
        const char *datatype;
        const void *bytes;
        size_t size;
        double unit; /* tolerance: half a unit in the last place of 1 */
    } kinds[] = { { "FP16", f16, sizeof f16, 0x1p-11 },
                  { "BF16", bf16, sizeof bf16, 0x1p-8 },
                  { "FP64", f64, sizeof f64, 1e-6 } };
    struct oip_answer exact = ask_in_json("[4,3]", NULL, NULL, NULL, NULL);
    const struct oip_tensor_answer wanted = oip_output_of(&exact, "context");
    double *want = oip_numbers(&wanted);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct oip_request request = { .parameters = "\"binary_data_output\":true" };
        oip_add_binary(&request, "query", kinds[i].datatype, 2, shape, kinds[i].bytes,
                       kinds[i].size);
        oip_ask(&request, "context", NULL);
        oip_ask(&request, "lse", NULL);
        struct oip_answer answer = oip_post(&client, "demo", &request);
        const struct oip_tensor_answer context = oip_output_of(&answer, "context");
        const struct oip_tensor_answer lse = oip_output_of(&answer, "lse");
        assert_string_equal(lse.datatype, i == 2 ? "FP64" : "FP32");
        assert_int_equal(lse.size, 4 * (i == 2 ? sizeof(double) : sizeof(float)));
        assert_string_equal(context.datatype, kinds[i].datatype);
        assert_int_equal(context.size, kinds[i].size);
        double *got = oip_numbers(&context);
        for (int j = 0; j < 12; j++)
            assert_true(fabs(got[j] - want[j]) <= kinds[i].unit * fmax(1, fabs(want[j])));
        free(got);
        oip_answer_free(&answer);
        oip_request_free(&request);
    }
    free(want);
    oip_answer_free(&exact);
}

TEST(raw_request)
{
    static const char *const binary[] = { "Inference-Header-Content-Length: 0",
                                          "Content-Type: application/octet-stream", NULL };
    static const char *const json[] = { "Inference-Header-Content-Length: 0",
                                        "Content-Type: application/octet-stream",
                                        "Accept: application/json", NULL };
    static const char *const refused[] = { "Inference-Header-Content-Length: 0",
                                           "Content-Type: application/octet-stream",
                                           "Accept: application/octet-stream;q=0, */*", NULL };
    static const char *const second[] = { "Inference-Header-Content-Length: 0",
                                          "Content-Type: application/octet-stream",
                                          "Accept: application/json;q=0.5, */*;q=0.9", NULL };
    static const struct {
        const char *const *headers;
        bool is_binary;
    } forms[] = { { binary, true }, { json, false }, { refused, false }, { second, true } };
    struct oip_answer want = ask_in_json("[1,4,3]", NULL, NULL, NULL, NULL);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const struct http_request request = {
            .path = "/v2/models/demo/infer",
            .body = (const char *)WORDS,
            .body_size = sizeof WORDS,
            .headers = forms[i].headers,
        };
        struct oip_answer answer = oip_answer_of(http_client_send(&client, &request));
        assert_int_equal(oip_output_of(&answer, "context").bytes != NULL, forms[i].is_binary);
        expect_same(&answer, &want, "context");
        expect_same(&answer, &want, "weights");
        oip_answer_free(&answer);
    }
    oip_answer_free(&want);
}

/* Strings as bytes: four bytes with the length come before each. */
TEST(classification_as_bytes)
{
    struct oip_request request = { 0 };
    oip_add_json(&request, "query", "FP32", "[4,3]", WORDS_TEXT);
    oip_ask(&request, "weights", JSON("classification":1,"binary_data":true));
    struct oip_answer answer = oip_post(&client, "demo", &request);
    const struct oip_tensor_answer weights = oip_output_of(&answer, "weights");
    static const struct {
        double value;
        int index;
    } wanted[] = { { 0.74913037, 2 }, { 0.4548263, 0 }, { 0.75923723, 2 }, { 0.9056538, 2 } };
    const unsigned char *p = weights.bytes;
    assert_string_equal(weights.datatype, "BYTES");
    for (int i = 0; i < 4; i++) {
        const size_t length = p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
        char text[32];
        assert_in_range(length, 1, sizeof(text) - 1);
        snprintf(text, sizeof(text), "%.*s", (int)length, (const char *)p + 4);
        assert_int_equal(strlen(text), length);
        oip_expect_class(text, wanted[i].value, wanted[i].index);
        p += 4 + length;
    }
    assert_ptr_equal(p, (const unsigned char *)weights.bytes + weights.size);
    oip_answer_free(&answer);
    oip_request_free(&request);
}

/* An output of no bytes is still an output. */
TEST(empty_tensors)
{
    static const int64_t shape[] = { 2, 0, 3 };
    struct oip_request request = { .parameters = "\"binary_data_output\":true" };
    oip_add_binary(&request, "query", "FP32", 3, shape, NULL, 0);
    struct oip_answer answer = oip_post(&client, "demo", &request);
    assert_int_equal(oip_output_of(&answer, "context").size, 0);
    assert_int_equal(oip_output_of(&answer, "weights").size, 0);
    assert_int_equal(answer.tail_size, 0);
    oip_answer_free(&answer);
    oip_request_free(&request);
}

/* Keys and values without a past are views of the request's body. The daemon answers them as they
 * came, so the body must still be there when it sends them. They are large enough for many
 * writes. */
TEST(present_is_what_came)
{
    enum { LENGTH = 4096, WIDTH = 64 };
    static const int64_t query[] = { 1, 1, 1, WIDTH }, keys[] = { 1, 1, LENGTH, WIDTH };
    const size_t size = (size_t)LENGTH * WIDTH * sizeof(float);
    struct fill fill = { 3 };
    float *key = malloc(size), *value = malloc(size);
    assert_non_null(key);
    assert_non_null(value);
    fill_floats(&fill, key, LENGTH * WIDTH, -1, 1);
    fill_floats(&fill, value, LENGTH * WIDTH, -1, 1);
    for (int twice = 0; twice < 2; twice++) {
        struct oip_request request = { .parameters = "\"binary_data_output\":true" };
        oip_add_binary(&request, "Q", "FP32", 4, query, key, WIDTH * sizeof(float));
        oip_add_binary(&request, "K", "FP32", 4, keys, key, size);
        oip_add_binary(&request, "V", "FP32", 4, keys, value, size);
        oip_ask(&request, "present_value", NULL);
        oip_ask(&request, "present_key", NULL);
        struct oip_answer answer = oip_post(&client, "sdpa", &request);
        const struct oip_tensor_answer k = oip_output_of(&answer, "present_key");
        const struct oip_tensor_answer v = oip_output_of(&answer, "present_value");
        assert_int_equal(k.size, size);
        assert_memory_equal(k.bytes, key, size);
        assert_memory_equal(v.bytes, value, size);
        oip_answer_free(&answer);
        oip_request_free(&request);
    }
    free(key);
    free(value);
}

static char *pack(const void *data, size_t size, size_t *packed_size)
{
    enum { GZIP = 15 + 16 };
    z_stream stream = { .next_in = (unsigned char *)data, .avail_in = (uInt)size };
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY), Z_OK);
    char *bytes = malloc(deflateBound(&stream, (uLong)size));
    assert_non_null(bytes);
    stream.next_out = (unsigned char *)bytes;
    stream.avail_out = (uInt)deflateBound(&stream, (uLong)size);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    *packed_size = stream.total_out;
    deflateEnd(&stream);
    return bytes;
}

static void unpack(struct http_response *response)
{
    enum { ROOM = 1 << 20, GZIP = 15 + 16 };
    z_stream stream = { .next_in = (unsigned char *)response->body,
                        .avail_in = (uInt)response->body_size };
    char *bytes = malloc(ROOM);
    assert_non_null(bytes);
    stream.next_out = (unsigned char *)bytes;
    stream.avail_out = ROOM - 1;
    assert_int_equal(inflateInit2(&stream, GZIP), Z_OK);
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    free(response->body);
    response->body = bytes;
    response->body_size = stream.total_out;
    inflateEnd(&stream);
}

/* Inference-Header-Content-Length is the length of the JSON before it is packed, as tritonclient
 * counts. */
TEST(packed_both_ways)
{
    enum { ROWS = 4000 };
    static float rows[ROWS * 3];
    char json[256], length[64], value[32];
    const char *const headers[] = { length, "Content-Type: application/octet-stream",
                                    "Content-Encoding: gzip", "Accept-Encoding: gzip", NULL };
    for (int i = 0; i < ROWS; i++)
        rows[3 * i + i % 3] = 1;
    const int json_size = snprintf(
        json, sizeof json,
        "{\"parameters\":{\"binary_data_output\":true},\"outputs\":[{\"name\":\"context\"}],"
        "\"inputs\":[{\"name\":\"query\",\"shape\":[%d,1,3],\"datatype\":\"FP32\","
        "\"parameters\":{\"binary_data_size\":%zu}}]}",
        ROWS, sizeof rows);
    snprintf(length, sizeof length, "Inference-Header-Content-Length: %d", json_size);
    const size_t size = (size_t)json_size + sizeof rows;
    char *whole = malloc(size);
    assert_non_null(whole);
    memcpy(whole, json, (size_t)json_size);
    memcpy(whole + json_size, rows, sizeof rows);
    size_t packed_size;
    char *packed = pack(whole, size, &packed_size);
    const struct http_request request = {
        .path = "/v2/models/demo/infer",
        .body = packed,
        .body_size = packed_size,
        .headers = headers,
    };
    struct http_response response = http_client_send(&client, &request);
    assert_int_equal(response.status, 200);
    assert_string_equal(http_response_header(&response, "Content-Encoding", value, sizeof value),
                        "gzip");
    unpack(&response);
    struct oip_answer answer = oip_answer_of(response);
    const struct oip_tensor_answer context = oip_output_of(&answer, "context");
    const float *got = context.bytes;
    /* The values of the model's three rows: a single word attends to nothing but itself. */
    static const float values[3][3] = { { 1, 1, 0 }, { 0, 1, 1 }, { 0, 0, 0 } };
    assert_int_equal(context.size, sizeof rows);
    for (int i = 0; i < ROWS; i++) {
        float row[3];
        memcpy(row, (const char *)got + sizeof row * (size_t)i, sizeof row);
        for (int j = 0; j < 3; j++)
            assert_true(row[j] == values[i % 3][j]);
    }
    oip_answer_free(&answer);
    free(packed);
    free(whole);
}

/* A client may leave before or during an answer in parts; the answer is freed with its connection.
 * Under a sanitizer, the end of the daemon shows whether all of it was freed. */
TEST(clients_that_leave)
{
    enum { LENGTH = 16384, WIDTH = 32 };
    const size_t size = (size_t)LENGTH * WIDTH * sizeof(float);
    char json[512], head[256], some[1000];
    const int descriptors = daemon_descriptor_count(&server);
    unsigned char *zeros = calloc(size + WIDTH * sizeof(float), 1);
    assert_non_null(zeros);
    const int json_size = snprintf(
        json, sizeof json,
        "{\"parameters\":{\"binary_data_output\":true},\"outputs\":[{\"name\":\"present_key\"}],"
        "\"inputs\":[{\"name\":\"Q\",\"shape\":[1,1,1,%d],\"datatype\":\"FP32\",\"parameters\":{"
        "\"binary_data_size\":%d}},{\"name\":\"K\",\"shape\":[1,1,%d,%d],\"datatype\":\"FP32\","
        "\"parameters\":{\"binary_data_size\":%zu}},{\"name\":\"V\",\"shape\":[1,1,%d,1],"
        "\"datatype\":\"FP32\",\"parameters\":{\"binary_data_size\":%d}}]}",
        WIDTH, WIDTH * 4, LENGTH, WIDTH, size, LENGTH, LENGTH * 4);
    const size_t tail = WIDTH * 4 + size;
    snprintf(head, sizeof head,
             "POST /v2/models/sdpa/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n"
             "Inference-Header-Content-Length: %d\r\n\r\n",
             (size_t)json_size + tail + LENGTH * 4, json_size);
    for (int i = 0; i < 12; i++) {
        struct http_raw raw;
        http_raw_connect(&raw, server.port);
        assert_true(http_raw_send_text(&raw, head));
        assert_true(http_raw_send(&raw, json, (size_t)json_size));
        assert_true(http_raw_send(&raw, zeros, tail));
        if (i % 3 > 0)
            assert_true(http_raw_send(&raw, zeros, LENGTH * 4));
        if (i % 3 > 1) /* reads some of the answer, and no more */
            assert_true(recv(raw.socket, some, sizeof some, 0) > 0);
        http_raw_close(&raw);
    }
    free(zeros);
    for (double until = daemon_now() + 10 * daemon_slowness();; daemon_pause(0.005)) {
        if (daemon_descriptor_count(&server) <= descriptors)
            break;
        assert_true(daemon_now() < until);
    }
}

ALL_TESTS(fixture_start, fixture_stop);
