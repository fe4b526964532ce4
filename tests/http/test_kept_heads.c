/* SPDX-License-Identifier: Apache-2.0 */
/* test_kept_heads.c - head=all: one answer with the same piece of every head of a layer, each equal
 * to the bit to the piece that is asked for alone. */
#include "answer.h"
#include "fixture.h"
#include "test.h"

enum { HEADS = 8 }; /* of stories260K */

static char id[65];

static void keep(struct http_client *who)
{
    cJSON *answer =
        answer_post(who, "/v1/trace",
                    "{\"model\":\"stories260K\",\"text\":\"Once upon a time there was a "
                    "little girl named Lily. She loved to play outside.\","
                    "\"outputs\":[],\"keep\":\"1h\"}");
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(answer, "trace");
    assert_non_null(name);
    snprintf(id, sizeof id, "%s", name->valuestring);
    cJSON_Delete(answer);
}

static struct http_response get(struct http_client *who, const char *head, const char *more,
                                const char *header)
{
    char path[300];
    const char *const headers[] = { header, NULL };
    snprintf(path, sizeof path, "/v1/traces/%s/weights?layer=2&head=%s%s", id, head, more);
    return http_client_send(who, &(struct http_request){ .path = path, .headers = headers });
}

static double number_in(const struct http_response *response, const char *name)
{
    char value[64];
    assert_non_null(http_response_header(response, name, value, sizeof value));
    return strtod(value, NULL);
}

static void expect_shape(const struct http_response *all, const struct http_response *one)
{
    char shape[64], own[64], wanted[80];
    assert_non_null(http_response_header(all, "X-Tile-Shape", shape, sizeof shape));
    assert_non_null(http_response_header(one, "X-Tile-Shape", own, sizeof own));
    snprintf(wanted, sizeof wanted, "%dx%s", HEADS, own);
    assert_string_equal(shape, wanted);
}

TEST(equal_bits)
{
    static const char *const MORE[] = { "",
                                        "&cells=5x7",
                                        "&rows=3:17&keys=2:9&cells=4x4",
                                        "&reduce=mean&cells=6x6",
                                        "&dtype=f16&scale=sqrt",
                                        "&scale=log&cells=1x1" };
    for (size_t i = 0; i < sizeof MORE / sizeof MORE[0]; i++) {
        double least = INFINITY, most = 0;
        struct http_response all = get(&client, "all", MORE[i], NULL);
        assert_int_equal(all.status, 200);
        for (int h = 0; h < HEADS; h++) {
            char head[8];
            snprintf(head, sizeof head, "%d", h);
            struct http_response one = get(&client, head, MORE[i], NULL);
            assert_int_equal(all.body_size, HEADS * one.body_size);
            assert_memory_equal(all.body + (size_t)h * one.body_size, one.body, one.body_size);
            expect_shape(&all, &one);
            least = fmin(least, number_in(&one, "X-Tile-Min"));
            most = fmax(most, number_in(&one, "X-Tile-Max"));
            http_response_free(&one);
        }
        assert_true(number_in(&all, "X-Tile-Min") == least);
        assert_true(number_in(&all, "X-Tile-Max") == most);
        http_response_free(&all);
    }
}

/* Bytes are over the range of all heads. */
TEST(bytes)
{
    struct http_response floats = get(&client, "all", "", NULL);
    struct http_response bytes = get(&client, "all", "&dtype=u8", NULL);
    const float *weights = (const float *)(const void *)floats.body;
    const double low = number_in(&bytes, "X-Tile-Min"), high = number_in(&bytes, "X-Tile-Max");
    assert_int_equal(floats.body_size, 4 * bytes.body_size);
    for (size_t i = 0; i < bytes.body_size; i++)
        assert_true(
            fabs((unsigned char)bytes.body[i] - 255 * ((double)weights[i] - low) / (high - low))
            <= 0.51);
    http_response_free(&floats);
    http_response_free(&bytes);
}

/* The answer of all heads is another than that of one, and is kept by its own tag. */
TEST(tag)
{
    char tag[64], other[64], header[100];
    struct http_response all = get(&client, "all", "", NULL), one = get(&client, "0", "", NULL);
    assert_non_null(http_response_header(&all, "ETag", tag, sizeof tag));
    assert_non_null(http_response_header(&one, "ETag", other, sizeof other));
    assert_string_not_equal(tag, other);
    http_response_free(&all);
    http_response_free(&one);
    snprintf(header, sizeof header, "If-None-Match: %s", tag);
    all = get(&client, "all", "", header);
    one = get(&client, "0", "", header);
    assert_int_equal(all.status, 304);
    assert_int_equal(one.status, 200);
    http_response_free(&all);
    http_response_free(&one);
}

static void expect_refused(const char *path, long status, const char *code, const char *says)
{
    char whole[300];
    snprintf(whole, sizeof whole, "/v1/traces/%s/%s", id, path);
    struct http_response response = http_client_get(&client, whole);
    if (response.status != status || !strstr(response.body, says))
        fail_msg("%s: %ld %s", path, response.status, response.body);
    answer_expect_fault(&response, status, code, "");
    http_response_free(&response);
}

TEST(faults)
{
    expect_refused("weights?layer=2&head=every", 400, "option",
                   "expected all or a whole number from 0 to 7");
    expect_refused("weights?layer=2&head=8", 400, "option", "expected all or a whole number");
    expect_refused("weights?layer=2", 400, "field", "?head=N or ?head=all");
    expect_refused("weights?layer=all&head=all", 400, "option", "layer is 'all'");
    expect_refused("weights?layer=2&head=all&cells=4097x1", 400, "option", "cells is");
    expect_refused("pair?layer=2&head=all&row=0&key=0", 400, "option", "head is 'all'");
}

/* The bound on an answer holds for all heads together. */
TEST(limit)
{
    struct daemon other;
    struct http_client own;
    daemon_start_with(&other, "--models", "examples/models", "--answer-max", "8KiB", NULL);
    http_client_init(&own, other.port);
    keep(&own);
    struct http_response one = get(&own, "0", "", NULL);
    struct http_response all = get(&own, "all", "", NULL);
    struct http_response few = get(&own, "all", "&cells=16x16", NULL);
    assert_int_equal(one.status, 200);
    answer_expect_fault(&all, 413, "answer_too_large", "");
    assert_int_equal(few.status, 200);
    http_response_free(&one);
    http_response_free(&all);
    http_response_free(&few);
    http_client_free(&own);
    daemon_stop(&other);
}

static int start(void **state)
{
    if (fixture_start_with_examples(state) != 0)
        return -1;
    keep(&client);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
