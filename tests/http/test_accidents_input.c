/* SPDX-License-Identifier: Apache-2.0 */
/* test_accidents_input.c - accidents that other model servers had with the bytes of a request, held
 * against this one: chunks without number under a small stack, headers without number or end, and
 * bodies that unpack to a thousand times their size. SECURITY.md has the list. */
#include "answer.h"
#include "fixture.h"
#include "problem_count.h"
#include "test.h"

#include <sys/resource.h>
#include <zlib.h>

enum { STACK_BYTES = 256 << 10, MIB = 1 << 20 };

/* ------------------------------------------------------------------- memory -- */

/* The daemon still answers, and comes to hold no more memory than before, but for some that any
 * request takes for good. It gives memory back when nothing has been in flight for half a
 * second. */
static void expect_given_back(size_t before)
{
    const double until = daemon_now() + 10 * daemon_slowness();
    cJSON_Delete(answer_get(&client, "/livez"));
    answer_wait_for_metric(&client, "attnd_connections", 1, 1);
    if (daemon_slowness() > 1) /* sanitizers keep what is freed */
        return;
    while (daemon_memory_bytes(&server) > before + 4 * MIB) {
        if (daemon_now() > until)
            fail_msg("%zu KiB, %zu KiB before", daemon_memory_bytes(&server) >> 10, before >> 10);
        daemon_pause(0.05);
    }
}

/* ------------------------------------------------------------------- chunks -- */

/* Sends count chunks of one byte each, the text and then blanks. */
static void send_chunks(struct http_raw *raw, const char *text, long count)
{
    enum { BATCH = 10000 };
    static char batch[BATCH * 6 + 1];
    const long length = (long)strlen(text);
    for (long sent = 0; sent < count;) {
        size_t used = 0;
        for (int i = 0; i < BATCH && sent < count; i++, sent++) {
            memcpy(batch + used, "1\r\nx\r\n", 6);
            batch[used + 3] = sent < length ? text[sent] : ' ';
            used += 6;
        }
        assert_true(http_raw_send(raw, batch, used));
    }
    assert_true(http_raw_send_text(raw, "0\r\n\r\n"));
}

/* A server that kept something on the stack for each chunk ended here. The daemon's stack has 256
 * KiB, and that of each of its threads. */
TEST(chunks_of_one_byte)
{
    static const struct {
        const char *head, *body;
    } CASES[] = {
        { "POST /v1/attention HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n",
          "{\"model\":\"sdpa\",\"query\":[[1]]}" },
        { "POST /v2/models/demo/infer HTTP/1.1\r\nHost: x\r\n",
          "{\"inputs\":[{\"name\":\"query\",\"shape\":[1,3],\"datatype\":\"FP32\","
          "\"data\":[1,2,3]}]}" },
    };
    const long count = (long)problem_count(1000) * 1000;
    const size_t before = daemon_memory_bytes(&server);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct http_raw raw;
        http_raw_connect(&raw, server.port);
        assert_true(http_raw_send_text(&raw, CASES[i].head));
        assert_true(http_raw_send_text(&raw, "Transfer-Encoding: chunked\r\n\r\n"));
        send_chunks(&raw, CASES[i].body, count);
        struct http_response response = http_raw_receive(&raw, 120 * daemon_slowness());
        if (response.status != 200)
            fail_msg("%ld: %s", response.status, response.body);
        http_response_free(&response);
        http_raw_close(&raw);
    }
    expect_given_back(before);
}

/* The same chunks where the request is refused before its end. */
TEST(chunks_of_a_refused_body)
{
    const size_t before = daemon_memory_bytes(&server);
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, "POST /nowhere HTTP/1.1\r\nHost: x\r\n"
                                         "Transfer-Encoding: chunked\r\n\r\n"));
    send_chunks(&raw, "", 100000);
    struct http_response response = http_raw_receive(&raw, 60 * daemon_slowness());
    answer_expect_fault(&response, 404, "not_found", "");
    http_response_free(&response);
    http_raw_close(&raw);
    expect_given_back(before);
}

/* Text that nests as deep as the body is long: a reader that calls itself would run out of
 * stack. */
TEST(nesting)
{
    enum { DEPTH = 4 * MIB };
    static const char *const PATHS[] = { "/v1/attention", "/v1/attention/batch",
                                         "/v1/softmax",   "/v2/models/sdpa/infer",
                                         "/v2/logging",   "/v2/repository/index" };
    static const struct {
        const char *begin, *each;
    } TEXTS[] = { { "", "[" },
                  { "{\"query\":", "[" },
                  { "{\"input\":", "[" },
                  { "{\"inputs\":", "[" },
                  { "", "{\"a\":" } };
    char *body = malloc(DEPTH + 100);
    assert_non_null(body);
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        size_t used = (size_t)sprintf(body, "%s", TEXTS[i].begin);
        for (const size_t step = strlen(TEXTS[i].each); used < DEPTH; used += step)
            memcpy(body + used, TEXTS[i].each, step + 1);
        for (size_t j = 0; j < sizeof PATHS / sizeof PATHS[0]; j++) {
            struct http_response response = http_client_post(&client, PATHS[j], body);
            if (response.status != 400 && response.status != 403 && response.status != 413)
                fail_msg("%s: %ld %s", PATHS[j], response.status, response.body);
            http_response_free(&response);
        }
    }
    free(body);
}

/* ------------------------------------------------------------------ headers -- */

/* A request with this piece again and again in its headers. The daemon may answer before their
 * end. */
static void expect_431(const char *piece, size_t size, int times)
{
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, "GET /v1/models HTTP/1.1\r\nHost: x\r\n"));
    while (times > 0 && http_raw_send(&raw, piece, size))
        times--;
    http_raw_send_text(&raw, "\r\n\r\n");
    struct http_response response = http_raw_receive(&raw, 20 * daemon_slowness());
    if (response.status != 431)
        fail_msg("%ld: %s", response.status, response.body ? response.body : "no answer");
    http_response_free(&response);
    assert_true(http_raw_is_closed(&raw, 20 * daemon_slowness()));
    http_raw_close(&raw);
}

TEST(headers)
{
    enum { LINES = 100000, BATCH = 100 };
    static char lines[BATCH * 16], text[MIB];
    const size_t before = daemon_memory_bytes(&server);
    size_t used = 0;
    for (int i = 0; i < BATCH; i++)
        used += (size_t)sprintf(lines + used, "X-%04d: value\r\n", i);
    memset(text, 'a', sizeof text);
    memcpy(text, "X: ", 3);
    for (int i = 0; i < 8; i++) {
        expect_431(lines, used, LINES / BATCH);
        expect_431(text, sizeof text, 1);
    }
    expect_given_back(before);
}

/* Many clients at once, each with as many headers as are taken: they hold no more than a pool
 * each. */
TEST(headers_of_many)
{
    enum { CLIENTS = 200, LINES = 100 };
    static struct http_raw raws[CLIENTS];
    static char head[LINES * 32];
    const size_t before = daemon_memory_bytes(&server);
    size_t used = (size_t)sprintf(head, "GET /v1/models HTTP/1.1\r\nHost: x\r\n");
    for (int i = 0; i < LINES; i++)
        used += (size_t)sprintf(head + used, "X-%04d: value\r\n", i);
    for (int i = 0; i < CLIENTS; i++) {
        http_raw_connect(&raws[i], server.port);
        assert_true(http_raw_send(&raws[i], head, used));
    }
    answer_wait_for_metric(&client, "attnd_connections", CLIENTS, INFINITY);
    if (daemon_slowness() <= 1)
        assert_in_range(daemon_memory_bytes(&server), 0, before + CLIENTS * 64 * 1024);
    for (int i = 0; i < CLIENTS; i++)
        http_raw_close(&raws[i]);
    expect_given_back(before);
}

/* -------------------------------------------------------------- packed bodies -- */

/* size zero bytes, or blanks, behind the text, as gzip. */
static char *bomb_of(const char *text, size_t size, size_t *packed)
{
    static char blanks[MIB];
    z_stream stream = { .zalloc = NULL };
    char *data = malloc(size / 500 + 1000);
    assert_non_null(data);
    memset(blanks, ' ', sizeof blanks);
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_out = (Bytef *)data;
    stream.avail_out = (uInt)(size / 500 + 1000);
    stream.next_in = (Bytef *)(uintptr_t)text;
    stream.avail_in = (uInt)strlen(text);
    assert_int_equal(deflate(&stream, Z_NO_FLUSH), Z_OK);
    for (size_t i = 0; i < size / sizeof blanks; i++) {
        stream.next_in = (Bytef *)blanks;
        stream.avail_in = sizeof blanks;
        assert_int_equal(deflate(&stream, Z_NO_FLUSH), Z_OK);
    }
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    *packed = stream.total_out;
    deflateEnd(&stream);
    return data;
}

/* A body of 130 KB that unpacks to 128 MiB, twice what a body may have. The daemon refuses it on
 * every path that takes a body, without ever holding as much as that. */
TEST(packed_bodies)
{
    static const char *const PATHS[] = { "/v1/attention", "/v1/softmax", "/v1/attention/merge",
                                         "/v2/models/sdpa/infer", "/v2/repository/index" };
    static const char *const headers[] = { "Content-Type: application/json",
                                           "Content-Encoding: gzip", NULL };
    size_t size;
    char *body = bomb_of(JSON({"model":"sdpa","query":[[1]]}), (size_t)128 * MIB, &size);
    assert_in_range(size, 1, 128 * 1024 * 1.1);
    const size_t before = daemon_memory_bytes(&server);
    for (size_t i = 0; i < sizeof PATHS / sizeof PATHS[0]; i++) {
        struct http_response response = http_client_send(
            &client, &(struct http_request){
                         .path = PATHS[i], .body = body, .body_size = size, .headers = headers });
        answer_expect_fault(&response, 413, "too_large", NULL);
        http_response_free(&response);
    }
    if (daemon_slowness() <= 1)
        assert_in_range(daemon_memory_peak_bytes(&server), 0, before + 96 * MIB);
    expect_given_back(before);
    free(body);
}

/* The stack of the daemon and of its threads is as small as the limit of the process that starts
 * it. */
static int start(void **state)
{
    struct rlimit kept, small;
    assert_int_equal(getrlimit(RLIMIT_STACK, &kept), 0);
    small = kept;
    if (daemon_slowness() <= 1) /* sanitizers need more themselves */
        small.rlim_cur = STACK_BYTES;
    assert_int_equal(setrlimit(RLIMIT_STACK, &small), 0);
    const int result = fixture_start(state);
    assert_int_equal(setrlimit(RLIMIT_STACK, &kept), 0);
    return result;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
