/* test_collector_answer.c - what a collector may answer: whole, in pieces, too long, nonsense. */
#include "telemetry/collector.h"
#include "test.h"

#define OK "HTTP/1.1 200 OK\r\n"

/* Every shorter part of a whole answer is not yet one. */
static struct collector_answer read_whole(const char *text)
{
    struct collector_answer answer = { .status = 0 };
    const size_t size = strlen(text);
    for (size_t part = 0; part < size; part++)
        if (collector_answer_read(&answer, text, part) != COLLECTOR_MORE)
            fail_msg("%zu bytes are enough of: %s", part, text);
    if (collector_answer_read(&answer, text, size) != COLLECTOR_DONE)
        fail_msg("not done: %s", text);
    return answer;
}

TEST(whole)
{
    struct collector_answer answer = read_whole(OK "content-length: 2\r\nX: y\r\n\r\n{}");
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body_size, 2);
    assert_int_equal(answer.body_at, sizeof(OK "content-length: 2\r\nX: y\r\n\r\n") - 1);
    assert_int_equal(answer.retry_after_s, 0);
    assert_false(answer.closes);
    answer = read_whole("HTTP/1.1 429 Too Many Requests\r\nRetry-After:  7 \r\n"
                        "Connection: Keep-Alive\r\nContent-Length:0\r\n\r\n");
    assert_int_equal(answer.status, 429);
    assert_int_equal(answer.retry_after_s, 7);
    assert_false(answer.closes);
    answer = read_whole("HTTP/1.1 503\r\nRetry-After: 99999\r\nContent-Length: 0\r\n\r\n");
    assert_int_equal(answer.retry_after_s, COLLECTOR_RETRY_AFTER_MAX_S);
    answer = read_whole("HTTP/1.1 503\r\nRetry-After: 99999999999999999999\r\n"
                        "Content-Length: 0\r\n\r\n");
    assert_int_equal(answer.retry_after_s, COLLECTOR_RETRY_AFTER_MAX_S);
    answer = read_whole("HTTP/1.1 503\r\nRetry-After: 9999999999x\r\nContent-Length: 0\r\n\r\n");
    assert_int_equal(answer.retry_after_s, 0);
    answer = read_whole("HTTP/1.1 204 No Content\r\n\r\n");
    assert_int_equal(answer.body_size, 0);
    assert_false(answer.closes);
}

/* Nothing of a head that goes before the answer counts for the answer. */
TEST(interim)
{
    static const char HEADS[] = "HTTP/1.1 103 Early Hints\r\nConnection: close\r\nno colon\r\n"
                                "Retry-After: 7\r\nContent-Length: 9\r\n\r\n"
                                "HTTP/1.0 100 Continue\r\n\r\n" OK "Content-Length: 2\r\n\r\n";
    char text[sizeof HEADS + 2];
    snprintf(text, sizeof text, "%s{}", HEADS);
    const struct collector_answer answer = read_whole(text);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body_at, sizeof HEADS - 1);
    assert_int_equal(answer.body_size, 2);
    assert_int_equal(answer.retry_after_s, 0);
    assert_false(answer.closes);
    static char endless[COLLECTOR_ANSWER_BYTES_MAX];
    static const char AGAIN[] = "HTTP/1.1 100 \r\n\r\n";
    struct collector_answer none;
    for (size_t at = 0; at < sizeof endless; at++)
        endless[at] = AGAIN[at % (sizeof AGAIN - 1)];
    assert_int_equal(collector_answer_read(&none, endless, sizeof endless - 1), COLLECTOR_MORE);
    assert_int_equal(collector_answer_read(&none, endless, sizeof endless), COLLECTOR_BAD);
}

/* These count by their status, and nothing more is read on their connection. */
TEST(closes)
{
    static const char *const HEADS[] = {
        OK "Connection: close\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        OK "\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\n",
        OK "Content-Length: 0\r\nContent-Length: 1\r\n\r\n",
        OK "Content-Length: -1\r\n\r\n",
        OK "Content-Length: 1x\r\n\r\n",
        OK "Content-Length: 99999\r\n\r\n",
        OK "Content-Length: 99999999999999999999\r\n\r\n",
        OK "no colon\r\nContent-Length: 0\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof HEADS / sizeof HEADS[0]; i++) {
        const struct collector_answer answer = read_whole(HEADS[i]);
        if (!answer.closes || answer.status != 200 || answer.body_size != 0)
            fail_msg("%s", HEADS[i]);
    }
    struct collector_answer answer;
    static const char MORE[] = OK "Content-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n";
    assert_int_equal(collector_answer_read(&answer, MORE, sizeof MORE - 1), COLLECTOR_DONE);
    assert_true(answer.closes);
    answer = read_whole(OK "Retry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\n"
                           "Content-Length: 0\r\n\r\n");
    assert_int_equal(answer.retry_after_s, 0);
}

TEST(nonsense)
{
    static const char *const TEXTS[] = {
        "\r\n\r\n",
        "SSH-2.0-x\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 20\r\n\r\n",
        "HTTP/1.1 2000\r\n\r\n",
        "HTTP/1.1  200\r\n\r\n",
        "HTTP/1.1 -20 x\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 099 x\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/2 200\r\n\r\n",
        "HTTP/1.1 600 x\r\n\r\n",
        "HTTP/1.2 200 OK\r\n\r\n",
    };
    struct collector_answer answer;
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++)
        if (collector_answer_read(&answer, TEXTS[i], strlen(TEXTS[i])) != COLLECTOR_BAD)
            fail_msg("%s", TEXTS[i]);
    static char endless[COLLECTOR_ANSWER_BYTES_MAX];
    memset(endless, 'x', sizeof endless);
    assert_int_equal(collector_answer_read(&answer, endless, sizeof endless - 1), COLLECTOR_MORE);
    assert_int_equal(collector_answer_read(&answer, endless, sizeof endless), COLLECTOR_BAD);
}

static void expect_rejected(const char *body, uint64_t count, const char *want)
{
    char message[COLLECTOR_MESSAGE_MAX];
    assert_int_equal(collector_answer_rejected(body, strlen(body), message), count);
    assert_string_equal(message, want);
}

TEST(partial_success)
{
    expect_rejected("{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"late\"}}", 3,
                    "late");
    expect_rejected(JSON({"partialSuccess":{"rejectedSpans":12}}), 12, "");
    expect_rejected(JSON({"partialSuccess":{"errorMessage":"a warning"}}), 0, "a warning");
    expect_rejected(JSON({"partialSuccess":{}}), 0, "");
    expect_rejected(JSON({"partialSuccess":null}), 0, "");
    expect_rejected(JSON({"partialSuccess":{"rejectedSpans":-1}}), 0, "");
    expect_rejected(JSON({"partialSuccess":{"rejectedSpans":"x","errorMessage":1}}), 0, "");
    expect_rejected(JSON({"partialSuccess":[3]}), 0, "");
    expect_rejected("{}", 0, "");
    expect_rejected("[]", 0, "");
    expect_rejected("3", 0, "");
    expect_rejected("", 0, "");
    expect_rejected("{\"partialSuccess\":{\"rejectedSpans\":\"3\"}", 0, "");
    expect_rejected("\n\x08\x01", 0, ""); /* protobuf */
}

TEST(statuses)
{
    for (int status = 200; status < 600; status++) {
        const bool again = status == 429 || status == 502 || status == 503 || status == 504;
        assert_int_equal(collector_answer_is_again(status), again);
        assert_int_equal(collector_answer_is_taken(status), status < 300);
    }
}
