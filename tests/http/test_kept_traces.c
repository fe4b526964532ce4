/* SPDX-License-Identifier: Apache-2.0 */
/* test_kept_traces.c - kept traces: every piece of a map is what POST /v1/trace answers for it,
 * what heads do and why a pair has its weight is computed here again, and traces end. */
#include "answer.h"
#include "fixture.h"
#include "test.h"
#include "word_model.h"

#include <inttypes.h>

/* As many keys as an answer may have. */
#define THIRTY_TWO                                                                                 \
    "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32"

enum { WORDS = 90, HEADS = 2, LAYERS = WORD_MODEL_LAYERS };

static char id[65];
static double *maps[LAYERS]; /* [HEADS][length][length] */
static int64_t length;

static cJSON *trace(const char *more)
{
    char *body = word_model_request(WORDS, more);
    cJSON *answer = answer_post(&client, "/v1/trace", body);
    free(body);
    return answer;
}

static void keep(const char *more)
{
    cJSON *answer = trace(more);
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(answer, "trace");
    if (!name)
        fail_msg("%s", cJSON_Print(answer));
    assert_int_equal(strlen(name->valuestring), 32);
    snprintf(id, sizeof id, "%s", name->valuestring);
    cJSON_Delete(answer);
}

/* The whole maps, from a trace that is not kept. */
static void take_maps(void)
{
    cJSON *answer = trace("");
    length = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(answer, "tokens"));
    assert_null(cJSON_GetObjectItemCaseSensitive(answer, "trace"));
    for (int l = 0; l < LAYERS; l++) {
        cJSON *layer = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(answer, "layers"), l);
        const int64_t shape[] = { HEADS, length, length };
        maps[l] = answer_numbers(layer, "weights", 3, shape);
    }
    cJSON_Delete(answer);
}

static double weight_of(int layer, int64_t head, int64_t row, int64_t key)
{
    return maps[layer][(head * length + row) * length + key];
}

static struct http_response get(const char *query)
{
    char path[512];
    snprintf(path, sizeof path, "/v1/traces/%s%s", id, query);
    return http_client_get(&client, path);
}

static double header_number(const struct http_response *response, const char *name)
{
    char value[64];
    assert_non_null(http_response_header(response, name, value, sizeof value));
    return strtod(value, NULL);
}

/* ---------------------------------------------------------------------- pieces -- */

struct piece {
    int layer;
    int64_t head, rows[2], keys[2], cells[2];
    bool is_mean;
};

static double reduced(const struct piece *piece, int64_t row, int64_t column, const int64_t n[2])
{
    const int64_t rows = piece->rows[1] - piece->rows[0], keys = piece->keys[1] - piece->keys[0];
    double most = 0, sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; i * n[0] / rows == row && j < keys; j++) {
            if (j * n[1] / keys != column)
                continue;
            const double weight =
                weight_of(piece->layer, piece->head, piece->rows[0] + i, piece->keys[0] + j);
            most = fmax(most, weight);
            sum += weight;
            count++;
        }
    return piece->is_mean ? sum / (double)count : most;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct http_response get_piece(const struct piece *piece, const char *more)
{
    char query[256];
    snprintf(query, sizeof query,
             "/weights?layer=%d&head=%" PRId64 "&rows=%" PRId64 ":%" PRId64 "&keys=%" PRId64
             "%%3A%" PRId64 "&cells=%" PRId64 "x%" PRId64 "&reduce=%s%s",
             piece->layer, piece->head, piece->rows[0], piece->rows[1], piece->keys[0],
             piece->keys[1], piece->cells[0], piece->cells[1], piece->is_mean ? "mean" : "max",
             more);
    struct http_response response = get(query);
    if (response.status != 200)
        fail_msg("%s: %ld %s", query, response.status, response.body);
    return response;
}

static void expect_shape(const struct http_response *response, const int64_t n[2])
{
    char value[64], wanted[64];
    snprintf(wanted, sizeof wanted, "%" PRId64 "x%" PRId64, n[0], n[1]);
    assert_string_equal(http_response_header(response, "X-Tile-Shape", value, sizeof value),
                        wanted);
}

static void expect_piece(const struct piece *piece)
{
    const int64_t n[2] = { least(piece->cells[0], piece->rows[1] - piece->rows[0]),
                           least(piece->cells[1], piece->keys[1] - piece->keys[0]) };
    struct http_response floats = get_piece(piece, ""), roots = get_piece(piece, "&scale=sqrt"),
                         logs = get_piece(piece, "&scale=log&dtype=f32"),
                         bytes = get_piece(piece, "&dtype=u8&scale=sqrt");
    const float *values = (const float *)(const void *)floats.body;
    const float *root = (const float *)(const void *)roots.body;
    const float *logarithm = (const float *)(const void *)logs.body;
    const double low = header_number(&bytes, "X-Tile-Min");
    const double high = header_number(&bytes, "X-Tile-Max");
    expect_shape(&floats, n);
    assert_int_equal(floats.body_size, 4 * n[0] * n[1]);
    assert_int_equal(bytes.body_size, n[0] * n[1]);
    for (int64_t c = 0; c < n[0] * n[1]; c++) {
        const double want = reduced(piece, c / n[1], c % n[1], n), value = (double)values[c];
        const double v = high > low ? (value - low) / (high - low) : high > 0;
        assert_true(fabs(value - want) <= 1e-5 * want + 1e-9);
        assert_true(fabs((double)root[c] - sqrt(value)) <= 1e-6);
        assert_true(value > 0 ? fabs((double)logarithm[c] - log(value)) <= 1e-5
                              : isinf(logarithm[c]));
        assert_true(fabs((double)(unsigned char)bytes.body[c] - 255 * sqrt(v)) <= 0.51);
    }
    http_response_free(&floats);
    http_response_free(&roots);
    http_response_free(&logs);
    http_response_free(&bytes);
}

/* ------------------------------------------------------------------- statistics -- */

static double member_of(const cJSON *layer, const char *name, int64_t head)
{
    const cJSON *heads = cJSON_GetObjectItemCaseSensitive(layer, name);
    assert_int_equal(cJSON_GetArraySize(heads), HEADS);
    return cJSON_GetArrayItem(heads, (int)head)->valuedouble;
}

static void expect_head(const cJSON *layer, int number, int64_t head)
{
    double entropy = 0, distance = 0, first = 0, previous = 0, self = 0, delimiters = 0;
    for (int64_t i = 0; i < length; i++)
        for (int64_t j = 0; j < length; j++) {
            const double w = weight_of(number, head, i, j) / (double)length;
            const double whole = weight_of(number, head, i, j);
            entropy -= whole > 0 ? w * log(whole) : 0;
            distance += w * fabs((double)(i - j));
            first += j == 0 ? w : 0;
            previous += j == i - 1 ? w : 0;
            self += j == i ? w : 0;
            delimiters += j == 0 || j == length - 1 ? w : 0; /* [CLS] and [SEP] */
        }
    assert_true(fabs(member_of(layer, "entropy", head) - entropy) < 1e-4);
    assert_true(fabs(member_of(layer, "distance", head) - distance) < 1e-4 * distance);
    assert_true(fabs(member_of(layer, "first", head) - first) < 1e-5);
    assert_true(fabs(member_of(layer, "previous", head) - previous) < 1e-5);
    assert_true(fabs(member_of(layer, "self", head) - self) < 1e-5);
    assert_true(fabs(member_of(layer, "delimiters", head) - delimiters) < 1e-5);
}

/* ------------------------------------------------------------------------ pairs -- */

static double number_of(const cJSON *answer, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(answer, name)->valuedouble;
}

static void expect_pair(int layer, int64_t head, int64_t row, int64_t key)
{
    char query[128];
    snprintf(query, sizeof query, "/pair?layer=%d&head=%" PRId64 "&row=%" PRId64 "&key=%" PRId64,
             layer, head, row, key);
    struct http_response response = get(query);
    cJSON *answer = answer_json(&response, 200);
    const cJSON *product;
    double sum = 0;
    cJSON_ArrayForEach(product, cJSON_GetObjectItemCaseSensitive(answer, "products"))
        sum += product->valuedouble;
    const double score = sum * number_of(answer, "scale");
    const double masked = number_of(answer, "masked"), lse = number_of(answer, "lse");
    assert_true(fabs(number_of(answer, "score") - score) < 1e-5 * (1 + fabs(score)));
    assert_true(fabs(number_of(answer, "weight") - weight_of(layer, head, row, key)) < 1e-6);
    if (key > row)
        assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(answer, "masked")));
    else
        assert_true(fabs(exp(masked - lse) - number_of(answer, "weight")) < 1e-6);
    cJSON_Delete(answer);
    http_response_free(&response);
}

/* The answer for several keys has of each what the answer for it alone has. */
static void expect_pairs(int layer, int64_t head, int64_t row, const char *keys)
{
    static const char *const OF_KEY[] = { "key",        "key_vector", "products", "score",
                                          "softcapped", "masked",     "weight" };
    static const char *const OF_ROW[] = { "layer", "head", "row", "query_vector", "scale", "lse" };
    char query[128];
    snprintf(query, sizeof query, "/pairs?layer=%d&head=%" PRId64 "&row=%" PRId64 "&keys=%s", layer,
             head, row, keys);
    struct http_response response = get(query);
    cJSON *answer = answer_json(&response, 200);
    const cJSON *given;
    answer_expect_members(answer, "layer,head,row,query_vector,scale,lse,keys");
    cJSON_ArrayForEach(given, cJSON_GetObjectItemCaseSensitive(answer, "keys")) {
        assert_int_equal(number_of(given, "key"), strtol(keys, (char **)&keys, 10));
        keys += *keys == ',';
        snprintf(query, sizeof query, "/pair?layer=%d&head=%" PRId64 "&row=%" PRId64 "&key=%g",
                 layer, head, row, number_of(given, "key"));
        struct http_response other = get(query);
        cJSON *one = answer_json(&other, 200);
        answer_expect_members(given, "key,key_vector,products,score,softcapped,masked,weight");
        for (size_t i = 0; i < sizeof OF_KEY / sizeof *OF_KEY; i++)
            assert_true(cJSON_Compare(cJSON_GetObjectItem(given, OF_KEY[i]),
                                      cJSON_GetObjectItem(one, OF_KEY[i]), true));
        for (size_t i = 0; i < sizeof OF_ROW / sizeof *OF_ROW; i++)
            assert_true(cJSON_Compare(cJSON_GetObjectItem(answer, OF_ROW[i]),
                                      cJSON_GetObjectItem(one, OF_ROW[i]), true));
        cJSON_Delete(one);
        http_response_free(&other);
    }
    assert_int_equal(*keys, 0);
    cJSON_Delete(answer);
    http_response_free(&response);
}

/* ------------------------------------------------------------------- what is kept -- */

TEST(kept)
{
    struct http_response response = get("");
    cJSON *answer = answer_json(&response, 200);
    answer_expect_members(answer, "trace,model,expires,expires_in_ms,bytes,tokens,layers");
    assert_string_equal(cJSON_GetObjectItem(answer, "trace")->valuestring, id);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "tokens")), length);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "layers")), LAYERS);
    assert_true(number_of(answer, "expires_in_ms") > 3000000);
    assert_true(number_of(answer, "bytes") >= (double)(LAYERS * 2 * length * 8 * 4));
    cJSON_Delete(answer);
    http_response_free(&response);
}

TEST(pieces)
{
    const struct piece pieces[] = {
        { 0, 0, { 0, length }, { 0, length }, { 4096, 4096 }, false },
        { 1, 1, { 0, length }, { 0, length }, { 7, 9 }, false },
        { 1, 0, { 5, 80 }, { 11, 60 }, { 20, 20 }, true },
        { 0, 1, { 40, 41 }, { 0, 1 }, { 1, 1 }, false },
    };
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
        expect_piece(&pieces[i]);
}

/* Without parameters: all of the map in at most 256 x 256 cells. */
TEST(defaults)
{
    struct http_response response = get("/weights?layer=1&head=1");
    char value[64];
    assert_int_equal(response.status, 200);
    assert_int_equal(response.body_size, 4 * length * length);
    assert_string_equal(http_response_header(&response, "Content-Type", value, sizeof value),
                        "application/octet-stream");
    assert_non_null(http_response_header(&response, "ETag", value, sizeof value));
    assert_non_null(http_response_header(&response, "Cache-Control", value, sizeof value));
    assert_non_null(strstr(value, "private"));
    http_response_free(&response);
}

/* A number may have many digits: none is cut off. */
TEST(long_numbers)
{
    struct http_response plain = get("/weights?layer=1&head=1&rows=0:1");
    struct http_response same = get("/weights?layer=00000000000000000000000000000000000000001"
                                    "&head=00000000000000000000000000000000000000000000000000001"
                                    "&rows=0:000000000000000000000000000000000000000000000000000"
                                    "00000000000000000000000000000000000000000000000000000000001");
    assert_int_equal(plain.status, 200);
    assert_int_equal(same.status, 200);
    assert_int_equal(plain.body_size, same.body_size);
    assert_memory_equal(plain.body, same.body, plain.body_size);
    http_response_free(&plain);
    http_response_free(&same);
}

/* A client that has a piece, packed or not, is told so, with all that its cache keeps of it. */
TEST(not_modified)
{
    char path[128], tag[64], value[64], header[128];
    const char *const headers[] = { header, NULL };
    snprintf(path, sizeof path, "/v1/traces/%s/weights?layer=1&head=1", id);
    struct http_request request = { .path = path, .accept_encoding = "gzip" };
    struct http_response response = http_client_send(&client, &request);
    assert_non_null(http_response_header(&response, "ETag", tag, sizeof tag));
    assert_int_equal(strncmp(tag, "W/\"", 3), 0);
    http_response_free(&response);
    request = (struct http_request){ .path = path, .headers = headers };
    for (size_t skip = 0; skip <= 2; skip += 2) { /* a weak tag equals the strong one */
        snprintf(header, sizeof header, "If-None-Match: \"0\", %s", tag + skip);
        response = http_client_send(&client, &request);
        assert_int_equal(response.status, 304);
        assert_int_equal(response.body_size, 0);
        assert_string_equal(http_response_header(&response, "ETag", value, sizeof value), tag);
        assert_non_null(http_response_header(&response, "Cache-Control", value, sizeof value));
        assert_non_null(strstr(value, "private"));
        assert_string_equal(http_response_header(&response, "Vary", value, sizeof value),
                            "Accept-Encoding");
        http_response_free(&response);
    }
    snprintf(header, sizeof header, "If-None-Match: \"0\"");
    response = http_client_send(&client, &request);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
}

TEST(statistics)
{
    for (int again = 0; again < 2; again++) {
        struct http_response response = get("/statistics");
        cJSON *answer = answer_json(&response, 200);
        const cJSON *layers = cJSON_GetObjectItemCaseSensitive(answer, "layers");
        assert_int_equal(cJSON_GetArraySize(layers), LAYERS);
        for (int l = 0; l < LAYERS; l++)
            for (int64_t h = 0; h < HEADS; h++)
                expect_head(cJSON_GetArrayItem(layers, l), l, h);
        cJSON_Delete(answer);
        http_response_free(&response);
    }
}

TEST(pairs)
{
    expect_pair(0, 0, 50, 20);
    expect_pair(1, 1, 5, 5);
    expect_pair(1, 0, 3, 70);
    expect_pairs(1, 0, 40, "20");
    expect_pairs(0, 1, 5, "70,5,0,5");
    expect_pairs(1, 1, 50, THIRTY_TWO);
}

static void expect_fault(const char *query, long status, const char *code, const char *words)
{
    struct http_response response = get(query);
    if (response.status != status || !strstr(response.body, code) || !strstr(response.body, words))
        fail_msg("%s: %ld %s", query, response.status, response.body);
    http_response_free(&response);
}

TEST(faults)
{
    expect_fault("/weights", 400, "field", "layer is missing");
    expect_fault("/weights?layer=1", 400, "field", "head is missing");
    expect_fault("/weights?layer=2&head=0", 400, "option", "layer is '2'");
    expect_fault("/weights?layer=1&head=2", 400, "option", "head is '2'");
    expect_fault("/weights?layer=1&head=-1", 400, "option", "head is '-1'");
    expect_fault("/weights?layer=1&head=", 400, "option", "head is ''");
    expect_fault("/weights?layer=1&head=0&head=1", 400, "duplicate", "head twice");
    expect_fault("/weights?layer=1&head=0&row=1", 400, "field", "unknown parameter 'row'");
    expect_fault("/weights?layer=1&head=0&rows=5:5", 400, "option", "rows is '5:5'");
    expect_fault("/weights?layer=1&head=0&rows=0:9999", 400, "option", "rows is");
    expect_fault("/weights?layer=1&head=0&keys=0-5", 400, "option", "keys is");
    expect_fault("/weights?layer=1&head=0&keys=1:99999999999999999999", 400, "option", "keys is");
    expect_fault("/weights?layer=1&head=0&cells=0x5", 400, "option", "cells is");
    expect_fault("/weights?layer=1&head=0&cells=5000x5", 400, "option", "cells is");
    expect_fault("/weights?layer=1&head=0&dtype=f64", 400, "option", "f32, f16 or u8");
    expect_fault("/weights?layer=1&head=0&reduce=min", 400, "option", "max or mean");
    expect_fault("/weights?layer=1&head=0&scale=%zz", 400, "option", "broken escape");
    expect_fault("/pair?layer=1&head=0&row=0", 400, "field", "key is missing");
    expect_fault("/pairs?layer=1&head=0&row=0", 400, "field", "keys is missing");
    expect_fault("/pairs?layer=1&head=0&row=0&key=0", 400, "field", "unknown parameter 'key'");
    expect_fault("/pairs?layer=1&head=0&row=0&keys=", 400, "option", "keys is ''");
    expect_fault("/pairs?layer=1&head=0&row=0&keys=1,", 400, "option", "keys is '1,'");
    expect_fault("/pairs?layer=1&head=0&row=0&keys=1,,2", 400, "option", "keys is");
    expect_fault("/pairs?layer=1&head=0&row=0&keys=0:2", 400, "option", "keys is");
    expect_fault("/pairs?layer=1&head=0&row=0&keys=-1", 400, "option", "keys is");
    expect_fault("/pairs?layer=1&head=0&row=0&keys=99999999999999999999", 400, "option", "keys is");
    expect_fault("/pairs?layer=1&head=0&row=0&keys=" THIRTY_TWO ",1", 400, "option", "1 to 32");
    expect_fault("/statistics?all=1", 400, "field", "unknown parameter");
    expect_fault("/maps", 404, "not_found", "nothing at");
}

static void expect_keep_fault(const char *more, long status, const char *code, const char *words)
{
    char *body = word_model_request(WORDS, more);
    struct http_response response = http_client_post(&client, "/v1/trace", body);
    if (response.status != status || !strstr(response.body, code) || !strstr(response.body, words)
        || !strstr(response.body, "\"/keep\""))
        fail_msg("%s: %ld %s", more, response.status, response.body);
    http_response_free(&response);
    free(body);
}

TEST(keep_is_a_time)
{
    expect_keep_fault(",\"keep\":300", 400, "type", "5m");
    expect_keep_fault(",\"keep\":\"5 minutes\"", 400, "option", "5m");
    expect_keep_fault(",\"keep\":\"0\"", 400, "option", "above 0");
    expect_keep_fault(",\"keep\":\"25h\"", 400, "option", "24h");
}

/* Only the layers that were asked for. */
TEST(some_layers)
{
    char before[65];
    strcpy(before, id);
    keep(",\"layers\":[1],\"outputs\":[],\"keep\":\"1m\"");
    expect_fault("/weights?layer=0&head=0", 404, "not_found", "layer 0 is not kept");
    struct http_response response = get("/weights?layer=1&head=0&cells=3x3");
    assert_int_equal(response.status, 200);
    assert_int_equal(response.body_size, 36);
    http_response_free(&response);
    strcpy(id, before);
}

/* ---------------------------------------------------------------------- the end -- */

TEST(ends_by_itself)
{
    char before[65];
    strcpy(before, id);
    keep(",\"outputs\":[],\"keep\":\"1ms\"");
    daemon_pause(0.01);
    expect_fault("", 410, "gone", "has ended");
    expect_fault("/weights?layer=0&head=0", 410, "gone", "has ended");
    strcpy(id, before);
}

/* PATCH with ?keep= lets a trace live from now on: longer or shorter than before. */
TEST(renewed)
{
    static const char *const BAD[] = { "", "?keep=", "?keep=0s", "?keep=25h", "?keep=5m&x=1" };
    char before[65], path[160];
    const struct http_request renew = { .method = "PATCH", .path = path };
    strcpy(before, id);
    keep(",\"outputs\":[],\"keep\":\"1h\"");
    snprintf(path, sizeof path, "/v1/traces/%s?keep=20h", id);
    struct http_response response = http_client_send(&client, &renew);
    assert_int_equal(response.status, 200);
    cJSON *answer = cJSON_Parse(response.body);
    assert_string_equal(cJSON_GetObjectItem(answer, "trace")->valuestring, id);
    assert_in_range(cJSON_GetObjectItem(answer, "expires_in_ms")->valuedouble, 19 * 3600000,
                    20 * 3600000);
    cJSON_Delete(answer);
    http_response_free(&response);
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        snprintf(path, sizeof path, "/v1/traces/%s%s", id, BAD[i]);
        response = http_client_send(&client, &renew);
        assert_int_equal(response.status, 400);
        http_response_free(&response);
    }
    snprintf(path, sizeof path, "/v1/traces/%s?keep=1ms", id);
    response = http_client_send(&client, &renew);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    daemon_pause(0.01);
    expect_fault("", 410, "gone", "has ended");
    response = http_client_send(&client, &renew);
    assert_int_equal(response.status, 410);
    http_response_free(&response);
    strcpy(id, before);
}

TEST(deleted)
{
    char path[128];
    snprintf(path, sizeof path, "/v1/traces/%s", id);
    const struct http_request request = { .method = "DELETE", .path = path };
    struct http_response response = http_client_send(&client, &request);
    assert_int_equal(response.status, 204);
    http_response_free(&response);
    expect_fault("/statistics", 410, "gone", "has ended");
    response = http_client_send(&client, &request);
    assert_int_equal(response.status, 410);
    http_response_free(&response);
}

/* A client that leaves before it has its answer knows no id, so nobody would end the trace: it goes
 * with the client. The answer is longer than what lies between the daemon and a client that reads
 * nothing. */
TEST(answer_that_is_not_delivered)
{
    static const char KEPT[] = "attnd_traces_kept";
    const double before = answer_metric(&client, KEPT);
    char *body = word_model_request(900, ",\"keep\":\"1h\""), head[256];
    snprintf(head, sizeof head,
             "POST /v1/trace HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n"
             "Content-Type: application/json\r\n\r\n",
             strlen(body));
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, head));
    assert_true(http_raw_send_text(&raw, body));
    answer_wait_for_metric(&client, KEPT, before + 1, before + 1);
    answer_wait_for_metric(&client, "attnd_queue_jobs", 0, 0); /* it is on its way */
    http_raw_close(&raw);
    answer_wait_for_metric(&client, KEPT, before, before);
    free(body);
}

static int start(void **state)
{
    fixture_make_directory(state);
    word_model_make(fixture_path("words"), word_model_tokenizer);
    fixture_serve("--models", directory);
    take_maps();
    keep(",\"outputs\":[\"weights\"],\"keep\":\"1h\"");
    return 0;
}

static int stop(void **state)
{
    for (int l = 0; l < LAYERS; l++)
        free(maps[l]);
    return fixture_clear(state);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, stop);
