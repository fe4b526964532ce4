/* SPDX-License-Identifier: Apache-2.0 */
/* test_early_answers.c - the daemon refuses long headers, and bodies over the limit, before the
 * client has sent everything.
 *
 * A client that sends everything before it reads must find its answer too, and not a reset
 * connection (RFC 9112, 9.6). For that the daemon reads on for a while, with bounds on the time,
 * the bytes and the number of connections. */
#include "answer.h"
#include "fixture.h"
#include "test.h"

enum { BODY_MAX = 1 << 20, LONG = 64 << 20 };

static char *filler;    /* LONG blanks */
static int descriptors; /* of the daemon while one client is connected */

static int start(void **state)
{
    filler = malloc(LONG);
    assert_non_null(filler);
    memset(filler, ' ', LONG);
    fixture_serve("--body-max", "1MiB", "--connections-max", "200");
    cJSON_Delete(answer_get(&client, "/livez"));
    answer_wait_for_metric(&client, "attnd_connections", 1, 1);
    descriptors = daemon_descriptor_count(&server);
    return 0;
}

static int clear(void **state)
{
    free(filler);
    return fixture_clear(state);
}

static void connect_and_announce(struct http_raw *raw, size_t body_bytes)
{
    char head[200];
    snprintf(head, sizeof(head),
             "POST /v1/attention HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", body_bytes);
    http_raw_connect(raw, server.port);
    assert_true(http_raw_send_text(raw, head));
}

static void expect_answer(struct http_raw *raw, long status, const char *code)
{
    struct http_response response = http_raw_receive(raw, 10 * daemon_slowness());
    answer_expect_fault(&response, status, code, "");
    http_response_free(&response);
    assert_true(http_raw_is_closed(raw, 10 * daemon_slowness()));
    http_raw_close(raw);
}

/* Only the descriptors of the daemon itself and of the test's client are open. */
static void expect_given_back(void)
{
    const double until = daemon_now() + 10 * daemon_slowness();
    while (daemon_descriptor_count(&server) > descriptors && daemon_now() < until)
        daemon_pause(0.01);
    assert_int_equal(daemon_descriptor_count(&server), descriptors);
}

/* ------------------------------------------------------------------------ bodies -- */

TEST(body_sent_before_reading)
{
    static const size_t sizes[] = { BODY_MAX + 1, BODY_MAX * 3 / 2, 2 * BODY_MAX };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct http_raw raw;
        connect_and_announce(&raw, sizes[i]);
        assert_true(http_raw_send(&raw, filler, sizes[i]));
        expect_answer(&raw, 413, "too_large");
    }
    expect_given_back();
}

TEST(body_in_pieces)
{
    enum { PIECE = BODY_MAX / 40 };
    struct http_raw raw;
    connect_and_announce(&raw, 50 * PIECE);
    for (int i = 0; i < 50; i++) {
        assert_true(http_raw_send(&raw, filler, PIECE));
        daemon_pause(0.01);
    }
    expect_answer(&raw, 413, "too_large");
}

/* Sends a request, of this line, whose body has no declared length and is one chunk of three times
 * the limit. */
static void send_long_chunk(struct http_raw *raw, const char *line)
{
    char head[200];
    snprintf(head, sizeof(head), "%s\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", line,
             3 * BODY_MAX);
    http_raw_connect(raw, server.port);
    assert_true(http_raw_send_text(raw, head));
    assert_true(http_raw_send(raw, filler, 3 * BODY_MAX));
}

/* The daemon reads and drops a body without a declared length, up to twice the limit. If the body
 * is longer, the daemon refuses it then. */
TEST(chunked_body)
{
    struct http_raw raw;
    send_long_chunk(&raw, "POST /v1/attention HTTP/1.1");
    expect_answer(&raw, 413, "too_large");
}

/* The answer is JSON, whatever characters the path has. */
TEST(unknown_path_with_a_long_body)
{
    struct http_raw raw;
    send_long_chunk(&raw, "POST /v1/\"\\%22%5C%0A HTTP/1.1");
    expect_answer(&raw, 404, "not_found");
}

/* The answer to a request that is itself malformed is not lost either. */
TEST(refused_request_with_a_body)
{
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, "POST /v1/attention HTTP/1.1\r\nHost: x\r\n"
                                         "Content-Length : 1048576\r\n\r\n"));
    assert_true(http_raw_send(&raw, filler, BODY_MAX));
    expect_answer(&raw, 400, "http");
}

/* ------------------------------------------------------------------------ bounds -- */

TEST(endless_body)
{
    struct http_raw raw;
    connect_and_announce(&raw, (size_t)LONG * 2);
    assert_false(http_raw_send(&raw, filler, LONG));
    http_raw_close(&raw);
    expect_given_back();
}

/* The daemon does not wait for a client that reads its answer and stays, nor for one that never
 * reads its answer. It does not wait for many such clients either. */
TEST(silent_clients)
{
    enum { COUNT = 100, KEPT_MAX = 32 };
    struct http_raw raw[COUNT];
    for (int i = 0; i < COUNT; i++)
        connect_and_announce(&raw[i], 2 * BODY_MAX);
    answer_wait_for_metric(&client, "attnd_connections", 1, 1);
    const double until = daemon_now() + 10 * daemon_slowness();
    while (daemon_descriptor_count(&server) > descriptors + KEPT_MAX && daemon_now() < until)
        daemon_pause(0.01);
    assert_true(daemon_descriptor_count(&server) <= descriptors + KEPT_MAX);
    expect_given_back();
    for (int i = 0; i < COUNT; i++)
        http_raw_close(&raw[i]);
    cJSON_Delete(answer_get(&client, "/livez"));
}

/* ----------------------------------------------------------------------- headers -- */

/* The status of the answer to a request with size bytes of filling between the two texts. */
static long status_of(const char *before, char fill, int size, const char *behind)
{
    struct http_raw raw;
    char *text = malloc((size_t)size);
    assert_non_null(text);
    for (int i = 0; i < size; i++)
        text[i] = fill == '&' && i % 2 == 0 ? 'a' : fill;
    http_raw_connect(&raw, server.port);
    http_raw_send_text(&raw, before);
    http_raw_send(&raw, text, (size_t)size);
    http_raw_send_text(&raw, behind);
    free(text);
    struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
    const long status = response.status;
    http_response_free(&response);
    if (status >= 400 && status != 404)
        assert_true(http_raw_is_closed(&raw, 10 * daemon_slowness()));
    http_raw_close(&raw);
    return status;
}

/* A request of any length gets an answer: the resource's answer, or that the request is
 * too long. */
TEST(headers_of_all_lengths)
{
    for (int size = 100; size < 40000; size += size < 14000 || size > 17000 ? 971 : 37) {
        const long header =
            status_of("GET /livez HTTP/1.1\r\nHost: x\r\nX-A: ", 'a', size, "\r\n\r\n");
        const long query = status_of("GET /livez?", '&', size, " HTTP/1.1\r\nHost: x\r\n\r\n");
        const long target = status_of("GET /x", 'a', size, " HTTP/1.1\r\nHost: x\r\n\r\n");
        const bool fits = size < 14000;
        if (fits ? header != 200 : header != 431 && header != 200)
            fail_msg("a header of %d bytes: %ld", size, header);
        if (fits ? query != 200 : query != 431 && query != 414 && query != 200)
            fail_msg("a query of %d bytes: %ld", size, query);
        if (fits ? target != 404 : target != 431 && target != 414 && target != 404)
            fail_msg("a target of %d bytes: %ld", size, target);
    }
}

TEST(many_headers)
{
    char many[400 * 6 + 1] = "";
    for (int count = 20; count <= 400; count += 20) {
        for (int i = 0; i < count; i++)
            memcpy(many + (size_t)i * 6, "a: b\r\n", 7);
        struct http_raw raw;
        http_raw_connect(&raw, server.port);
        assert_true(http_raw_send_text(&raw, "GET /livez HTTP/1.1\r\nHost: x\r\n"));
        assert_true(http_raw_send_text(&raw, many));
        assert_true(http_raw_send_text(&raw, "\r\n"));
        struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
        assert_int_equal(response.status, count <= 200 ? 200 : 431);
        http_response_free(&response);
        http_raw_close(&raw);
    }
}

/* The daemon reads a body through the memory that the headers leave free. Reading the body costs
 * the same as with short headers, or the daemon refuses the request. */
TEST(body_behind_headers)
{
    static const struct {
        int header_bytes;
        bool taken;
    } cases[] = { { 100, true }, { 7000, true }, { 12000, false }, { 15700, false } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct http_raw raw;
        char *head = malloc(20000);
        assert_non_null(head);
        snprintf(head, 20000,
                 "POST /v1/softmax HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nX-A: %0*d\r\n\r\n",
                 BODY_MAX, cases[i].header_bytes, 0);
        http_raw_connect(&raw, server.port);
        assert_true(http_raw_send_text(&raw, head));
        free(head);
        assert_true(http_raw_send(&raw, filler, BODY_MAX));
        if (cases[i].taken) {
            struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
            answer_expect_fault(&response, 400, "json", NULL); /* the daemon has read the body */
            http_response_free(&response);
            http_raw_close(&raw);
        } else {
            expect_answer(&raw, 431, "headers");
        }
    }
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, clear);
