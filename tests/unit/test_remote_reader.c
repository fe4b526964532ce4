/* SPDX-License-Identifier: Apache-2.0 */
/* test_remote_reader.c - what another server may answer: by length, in chunks, until its end;
 * whole, in pieces, too long, nonsense. */
#include "remote/remote_reader.h"
#include "test.h"

#define OK "HTTP/1.1 200 OK\r\n"

enum { BYTES_MAX = 64 };

static struct remote_reader reader;

/* In pieces of that size; the end of the connection comes behind the last one. */
static enum remote_reading read_pieces(const char *text, size_t size, size_t piece)
{
    remote_reader_begin(&reader, BYTES_MAX);
    for (size_t at = 0; at < size; at += piece) {
        const size_t some = size - at < piece ? size - at : piece;
        char *copy = malloc(some);
        assert_non_null(copy);
        memcpy(copy, text + at, some);
        const enum remote_reading reading = remote_reader_take(&reader, copy, some);
        free(copy);
        if (reading != REMOTE_MORE)
            return reading;
    }
    return remote_reader_end(&reader);
}

static void expect(const char *text, int status, const char *body, bool closes)
{
    const size_t size = strlen(text);
    for (size_t piece = 1; piece <= size; piece++) {
        if (read_pieces(text, size, piece) != REMOTE_DONE)
            fail_msg("in pieces of %zu it is not done: %s", piece, text);
        assert_int_equal(reader.status, status);
        assert_string_equal(reader.body, body);
        assert_int_equal(reader.size, strlen(body));
        assert_int_equal(reader.closes, closes);
    }
}

static void expect_none(const char *text, enum remote_reading wanted)
{
    const size_t size = strlen(text);
    for (size_t piece = 1; piece <= size; piece++) {
        if (read_pieces(text, size, piece) != wanted)
            fail_msg("in pieces of %zu it is not %d: %s", piece, (int)wanted, text);
        assert_true(reader.closes);
    }
}

TEST(by_length)
{
    expect(OK "content-length: 2\r\nX: y\r\n\r\n{}", 200, "{}", false);
    expect(OK "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 200, "{}", false);
    expect("HTTP/1.1 503\r\nRetry-After:  7 \r\nConnection: Keep-Alive\r\nContent-Length:0\r\n\r\n",
           503, "", false);
    assert_int_equal(reader.retry_after_s, 7);
    expect("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x", true);
    expect(OK "Connection: close\r\nContent-Length: 1\r\n\r\nx", 200, "x", true);
    expect("HTTP/1.1 204 No Content\r\n\r\n", 204, "", false);
    expect(OK "Attnd-Replica: attnd-1\r\nContent-Length: 0\r\n\r\n", 200, "", false);
    assert_string_equal(reader.replica, "attnd-1");
}

/* The name goes into a header of answers and into messages. */
TEST(names_that_are_none)
{
    static const char *const NAMES[] = { "a\rSet-Cookie: b", "a b", "a\tb", "a\x7f", "\xc3\xa4" };
    char text[128];
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        snprintf(text, sizeof text, OK "Attnd-Replica: %s\r\nContent-Length: 0\r\n\r\n", NAMES[i]);
        expect(text, 200, "", false);
        assert_string_equal(reader.replica, "");
    }
}

TEST(in_chunks)
{
    expect(OK "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", 200,
           "abc0123456789", false);
    expect(OK "Transfer-Encoding: Chunked\r\n\r\n0\r\nTrailer: x\r\n\r\n", 200, "", false);
}

TEST(until_the_end)
{
    expect(OK "\r\nall of it", 200, "all of it", true);
    expect(OK "\r\n", 200, "", true);
}

/* Nothing of a head that goes before the answer counts for the answer. */
TEST(interim)
{
    expect(
        "HTTP/1.1 103 Early Hints\r\nConnection: close\r\nRetry-After: 7\r\nContent-Length: 9\r\n"
        "\r\nHTTP/1.0 100 Continue\r\n\r\n" OK "Content-Length: 2\r\n\r\n{}",
        200, "{}", false);
    assert_int_equal(reader.retry_after_s, 0);
}

TEST(bytes_behind_the_answer)
{
    static const char TEXT[] = OK "Content-Length: 2\r\n\r\n{}" OK;
    assert_int_equal(read_pieces(TEXT, sizeof TEXT - 1, sizeof TEXT), REMOTE_DONE);
    assert_string_equal(reader.body, "{}");
    assert_true(reader.closes);
}

TEST(bad)
{
    static const char *const TEXTS[] = {
        "x",
        "HTTP/1.1 2000 OK\r\n",
        "HTTP/1.1 600 No\r\n",
        "HTTP/1.1 099 No\r\n",
        "HTTP/2.0 200 OK\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n",
        "HTTP/1.1 200 OK\n",
        OK "no colon\r\n",
        OK ": no name\r\n",
        OK "A: b\r\n folded\r\n",
        OK "A: b\r\n",
        OK "Content-Length: 2\r\nContent-Length: 3\r\n",
        OK "Content-Length: -1\r\n",
        OK "Content-Length: 0x1\r\n",
        OK "Content-Length: 1111111111111111111111\r\n",
        OK "Content-Length: 2\r\n\r\n{",
        OK "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        OK "Transfer-Encoding: gzip, chunked\r\n",
        OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\nx\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\n\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n",
    };
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++)
        expect_none(TEXTS[i], REMOTE_BAD);
    assert_int_equal(read_pieces(OK "A: \0\r\n", sizeof OK + 5, 1), REMOTE_BAD);
    assert_int_equal(read_pieces("", 0, 1), REMOTE_BAD);
}

TEST(too_long)
{
    expect_none(OK "Content-Length: 65\r\n\r\n", REMOTE_TOO_LONG);
    expect_none(OK "Transfer-Encoding: chunked\r\n\r\n40\r\n"
                   "0123456789012345678901234567890123456789012345678901234567890123\r\n1\r\n",
                REMOTE_TOO_LONG);
    expect_none(OK "\r\n01234567890123456789012345678901234567890123456789012345678901234",
                REMOTE_TOO_LONG);
    expect_none(OK "Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n", REMOTE_TOO_LONG);
}

/* Neither a line nor a head nor interim heads go on for ever. */
TEST(endless)
{
    static const struct {
        const char *begin, *again;
    } SENT[] = { { OK "A: ", "x" },
                 { OK, "A: b\r\n" },
                 { "", "HTTP/1.1 100 \r\n\r\n" },
                 { OK "Transfer-Encoding: chunked\r\n\r\n1;", "x" },
                 { OK "Transfer-Encoding: chunked\r\n\r\n0\r\n", "A: b\r\n" } };
    for (size_t i = 0; i < sizeof SENT / sizeof SENT[0]; i++) {
        remote_reader_begin(&reader, BYTES_MAX);
        enum remote_reading reading =
            remote_reader_take(&reader, SENT[i].begin, strlen(SENT[i].begin));
        size_t sent = 0;
        while (reading == REMOTE_MORE && sent < 2 * REMOTE_HEAD_MAX) {
            reading = remote_reader_take(&reader, SENT[i].again, strlen(SENT[i].again));
            sent += strlen(SENT[i].again);
        }
        assert_int_equal(reading, REMOTE_BAD);
    }
}

static int stop(void **state)
{
    (void)state;
    remote_reader_free(&reader);
    return 0;
}

ALL_TESTS(NULL, stop);
