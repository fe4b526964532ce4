/* SPDX-License-Identifier: Apache-2.0 */
/* test_transport.c - unusual forms of correct HTTP requests, and some bytes that are not HTTP at
 * all.
 *
 * Most tests use bare sockets, because a client library would never send these bytes. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"

static const char PATH[] = "/v1/attention";
static const char GOOD[] = JSON({"model":"sdpa","query":[[1]]}); /* 30 bytes */

TEST(head_and_options)
{
    struct http_response response =
        http_client_send(&client, &(struct http_request){ .method = "HEAD", .path = "/livez" });
    assert_true(response.status == 200 || response.status == 405);
    assert_int_equal(response.body_size, 0);
    http_response_free(&response);
    response =
        http_client_send(&client, &(struct http_request){ .method = "OPTIONS", .path = PATH });
    if (response.status == 405) {
        char allow[128];
        answer_expect_fault(&response, 405, "method", NULL);
        assert_non_null(http_response_header(&response, "Allow", allow, sizeof(allow)));
        assert_non_null(strstr(allow, "POST"));
    } else {
        assert_true(response.status == 200 || response.status == 204);
    }
    http_response_free(&response);
    /* The connection is in step: the next answer belongs to the next request. */
    response = http_client_post(&client, PATH, GOOD);
    cJSON_Delete(answer_json(&response, 200));
    http_response_free(&response);
}

static void expect_raw(struct http_raw *raw, long status)
{
    struct http_response response = http_raw_receive(raw, 5 * daemon_slowness());
    if (response.status != status)
        fail_msg("expected %ld, not %ld: %s", status, response.status,
                 response.body ? response.body : "");
    http_response_free(&response);
}

TEST(expect_continue)
{
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, "POST /v1/attention HTTP/1.1\r\nHost: x\r\n"
                                         "Content-Length: 30\r\nExpect: 100-continue\r\n\r\n"));
    expect_raw(&raw, 100);
    assert_true(http_raw_send_text(&raw, GOOD));
    expect_raw(&raw, 200);
    http_raw_close(&raw);
}

TEST(chunked)
{
    struct http_response response = http_client_send(
        &client, &(struct http_request){ .path = PATH, .body = GOOD, .chunked = true });
    cJSON_Delete(answer_json(&response, 200));
    http_response_free(&response);
    /* Chunks of one byte each, with an extension and a trailer. */
    struct request_text text = { 0 };
    request_text_add(&text, "POST /v1/attention HTTP/1.1\r\nHost: x\r\n"
                            "Transfer-Encoding: chunked\r\n\r\n");
    for (const char *c = GOOD; *c; c++)
        request_text_add(&text, "1;x=y\r\n%c\r\n", *c);
    request_text_add(&text, "0\r\nX-Trailer: x\r\n\r\n");
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, text.data));
    expect_raw(&raw, 200);
    /* A large body of many chunks. */
    text.used = 0;
    request_text_add(&text, "{\"model\":\"sdpa\",\"outputs\":[\"lse\"],\"query\":");
    request_text_random(&text, 3, 2000, 32);
    request_text_add(&text, "}");
    response = http_client_send(
        &client, &(struct http_request){ .path = PATH, .body = text.data, .chunked = true });
    cJSON_Delete(answer_json(&response, 200));
    http_response_free(&response);
    http_raw_close(&raw);
    free(text.data);
}

/* Several requests in one packet; the answers come in order. */
TEST(pipelined)
{
    enum { COUNT = 50 };
    struct request_text text = { 0 };
    for (int i = 0; i < COUNT; i++) {
        char body[128];
        int size = snprintf(body, sizeof(body),
                            "{\"model\":\"sdpa\",\"query\":[[1]],\"value\":[[%d]]}", i);
        request_text_add(&text,
                         "POST /v1/attention HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s",
                         size, body);
        request_text_add(&text, "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n");
        request_text_add(&text,
                         "POST /v1/attention HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n{");
    }
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, text.data));
    for (int i = 0; i < COUNT; i++) {
        char wanted[32];
        struct http_response response = http_raw_receive(&raw, 5 * daemon_slowness());
        snprintf(wanted, sizeof(wanted), "[[%d]]", i);
        cJSON *answer = answer_json(&response, 200);
        answer_expect(answer, "context", wanted, 0);
        cJSON_Delete(answer);
        http_response_free(&response);
        expect_raw(&raw, 404);
        expect_raw(&raw, 400);
    }
    http_raw_close(&raw);
    free(text.data);
}

/* A request that comes one byte at a time is a request. */
TEST(byte_by_byte)
{
    struct request_text text = { 0 };
    request_text_add(
        &text, "POST /v1/attention HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\n%s", GOOD);
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    for (size_t i = 0; i < text.used; i++) {
        assert_true(http_raw_send(&raw, text.data + i, 1));
        daemon_pause(0.0005);
    }
    expect_raw(&raw, 200);
    http_raw_close(&raw);
    free(text.data);
}

TEST(connection_close)
{
    static const char *const requests[] = {
        "POST /v1/attention HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 30\r\n\r\n",
        "POST /v1/attention HTTP/1.0\r\nContent-Length: 30\r\n\r\n"
    };
    for (int i = 0; i < 2; i++) {
        struct http_raw raw;
        http_raw_connect(&raw, server.port);
        assert_true(http_raw_send_text(&raw, requests[i]));
        assert_true(http_raw_send_text(&raw, GOOD));
        expect_raw(&raw, 200);
        assert_true(http_raw_is_closed(&raw, 5 * daemon_slowness()));
        http_raw_close(&raw);
    }
}

/* Some requests give two ends for their body. One reader may take bytes for the body that another
 * reader takes for the next request. So the daemon refuses such a request whole and reads nothing
 * behind it. */
TEST(two_ends)
{
    static const struct {
        const char *headers, *code, *says;
    } cases[] = {
        { "Content-Length: 30\r\nContent-Length: 4", "duplicate", "Content-Length" },
        { "Content-Length: 30\r\nContent-Length: 30", "duplicate", "Content-Length" },
        { "Content-Length: 30\r\nTransfer-Encoding: chunked", "encoding", "Transfer-Encoding" },
        { "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "duplicate",
          "Transfer-Encoding" },
        { "Transfer-Encoding: gzip, chunked", "encoding", "'gzip, chunked'; expected chunked" },
        { "Content-Length: 30\r\nInference-Header-Content-Length: 30\r\n"
          "inference-header-content-length: 20",
          "duplicate", "Inference-Header-Content-Length" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct request_text text = { 0 };
        request_text_add(&text, "POST /v1/attention HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n%s",
                         cases[i].headers, GOOD);
        request_text_add(&text, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
        struct http_raw raw;
        http_raw_connect(&raw, server.port);
        assert_true(http_raw_send_text(&raw, text.data));
        struct http_response response = http_raw_receive(&raw, 5 * daemon_slowness());
        answer_expect_fault(&response, 400, cases[i].code, "");
        if (!strstr(response.body, cases[i].says))
            fail_msg("%s: %s", cases[i].headers, response.body);
        http_response_free(&response);
        assert_true(http_raw_is_closed(&raw, 5 * daemon_slowness()));
        http_raw_close(&raw);
        free(text.data);
    }
}

/* Bytes that are not HTTP get a 4xx or a closed connection, and no other client notices. */
TEST(not_http)
{
    static const char *const lines[] = {
        "\r\n\r\n\r\n\r\n",
        "words\r\n\r\n",
        "GET\r\n\r\n",
        "GET /livez\r\n\r\n",
        "GET /livez HTTP/9.9\r\nHost: x\r\n\r\n",
        "POST /v1/attention HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ("POST /v1/attention HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
         "fffffffffffffffffff\r\n{"),
        "\x16\x03\x01\x02\x01\x01\xFC\x03\x03",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct http_raw raw;
        http_raw_connect(&raw, server.port);
        http_raw_send_text(&raw, lines[i]);
        struct http_response response = http_raw_receive(&raw, 0.2);
        assert_true(response.status == 0 || response.status >= 400);
        assert_true(response.status != 500);
        http_response_free(&response);
        http_raw_close(&raw);
        cJSON_Delete(answer_post(&client, PATH, GOOD));
    }
    /* Headers that never end. */
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    http_raw_send_text(&raw, "GET /livez HTTP/1.1\r\n");
    bool taken = true;
    const double until = daemon_now() + 30 * daemon_slowness();
    while (taken && daemon_now() < until) /* as fast as the daemon reads them */
        taken =
            http_raw_send_text(&raw, "X-Filler: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n");
    assert_false(taken);
    http_raw_close(&raw);
    cJSON_Delete(answer_post(&client, PATH, GOOD));
}

/* White space behind a header's value is not part of the value (RFC 9110, 5.5). */
TEST(white_space_behind_values)
{
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, "POST /v1/attention HTTP/1.1\r\nHost: x\r\n"
                                         "Content-Type: application/json \r\n"
                                         "Content-Encoding: identity \t\r\n"
                                         "X-Timeout-Ms: 60000 \t\r\n"
                                         "Content-Length: 30\r\n\r\n"));
    assert_true(http_raw_send_text(&raw, GOOD));
    expect_raw(&raw, 200);
    assert_true(http_raw_send_text(&raw, "POST /v2/models/demo/infer HTTP/1.1\r\nHost: x\r\n"
                                         "Inference-Header-Content-Length: 0 \r\n"
                                         "Content-Length: 12\r\n\r\n"));
    assert_true(http_raw_send(&raw, (const char[12]){ 0 }, 12));
    expect_raw(&raw, 200);
    http_raw_close(&raw);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start, fixture_clear);
