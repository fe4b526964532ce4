/* SPDX-License-Identifier: Apache-2.0 */
/* test_log.c - lines of the log: their form; that no value can forge a second line; that each
 * line is one write; and that no line is lost or mixed with others when several threads log. */
#include "capture.h"
#include "telemetry/log.h"
#include "test.h"

#include <ctype.h>
#include <limits.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char TIME_FORM[] = "0000-00-00T00:00:00.000Z"; /* 0 is any digit */

/* Logs fields as one event, which must be one line. The caller frees it. */
static char *line_of(const struct log_field *fields, size_t field_count)
{
    struct capture capture;
    size_t size;
    capture_begin(&capture, STDERR_FILENO);
    log_event(LOG_INFO, "event", fields, field_count);
    char *line = capture_end(&capture, &size);
    assert_int_equal(strlen(line), size);
    assert_ptr_equal(strchr(line, '\n'), line + size - 1);
    assert_true(size <= PIPE_BUF);
    return line;
}

static void assert_time(const char *text)
{
    for (size_t i = 0; TIME_FORM[i]; i++)
        if (TIME_FORM[i] == '0')
            assert_true(isdigit((unsigned char)text[i]));
        else
            assert_int_equal(text[i], TIME_FORM[i]);
}

/* Checks the line behind its time. The time is checked elsewhere. */
static void assert_text(const struct log_field *fields, size_t field_count, const char *expected)
{
    char *line = line_of(fields, field_count);
    assert_time(line);
    assert_string_equal(line + strlen(TIME_FORM), expected);
    free(line);
}

static void assert_json(const struct log_field *fields, size_t field_count, const char *expected)
{
    static const char HEAD[] = "{\"time\":\"";
    char *line = line_of(fields, field_count);
    assert_memory_equal(line, HEAD, strlen(HEAD));
    assert_time(line + strlen(HEAD));
    assert_string_equal(line + strlen(HEAD) + strlen(TIME_FORM), expected);
    free(line);
}

TEST(text_lines)
{
    log_configure(LOG_INFO, LOG_TEXT);
    const struct log_field listening = LOG_STRING("address", "127.0.0.1:8080");
    assert_text(&listening, 1, " info event address=127.0.0.1:8080\n");
    const struct log_field numbers[] = {
        LOG_NUMBER("a", 200),      LOG_NUMBER("b", -3),        LOG_NUMBER("c", 0.25),
        LOG_NUMBER("d", 1e15),     LOG_NUMBER("e", 1.0 / 3.0), LOG_NUMBER("f", 1e300),
        LOG_NUMBER("g", INFINITY), LOG_NUMBER("h", 67108864),  LOG_NUMBER("i", -0.0),
    };
    assert_text(numbers, sizeof numbers / sizeof numbers[0],
                " info event a=200 b=-3 c=0.25 d=1000000000000000 e=0.333333 f=1e+300 g=inf "
                "h=67108864 i=0\n");
    const struct log_field words[] = {
        LOG_STRING("a", "two words"), LOG_STRING("b", ""),
        LOG_STRING("c", "x=y"),       LOG_STRING("d", "\"q\""),
        LOG_STRING("e", "\\"),        LOG_STRING("f", "gr\xC3\xBC\xC3\x9F"),
        LOG_STRING("g", "\t"),        LOG_STRING("h", "a/b?c&d"),
        LOG_STRING("i", NULL),
    };
    assert_text(words, sizeof words / sizeof words[0],
                " info event a=\"two words\" b=\"\" c=\"x=y\" d=\"\\\"q\\\"\" e=\"\\\\\" "
                "f=\"gr\xC3\xBC\xC3\x9F\" g=\"\\t\" h=a/b?c&d i=\"\"\n");
}

TEST(json_lines)
{
    log_configure(LOG_INFO, LOG_JSON);
    const struct log_field fields[] = {
        LOG_STRING("address", "[::1]:8080"),
        LOG_STRING("odd", "a\"b\\c\nd\x01"),
        LOG_NUMBER("status", 404),
        LOG_NUMBER("ms", 1.5),
        LOG_NUMBER("nothing", NAN),
        LOG_MS("short", 1),
        LOG_MS("long", INT64_C(3600000000001)),
    };
    assert_json(fields, sizeof fields / sizeof fields[0],
                "\",\"level\":\"info\",\"event\":\"event\",\"address\":\"[::1]:8080\","
                "\"odd\":\"a\\\"b\\\\c\\nd\\u0001\",\"status\":404,\"ms\":1.5,\"nothing\":null,"
                "\"short\":0.000001,\"long\":3600000.000001}\n");
}

TEST(the_time_is_now)
{
    log_configure(LOG_INFO, LOG_TEXT);
    const struct log_field field = LOG_NUMBER("n", 1);
    /* time() may be behind this clock by one tick of the kernel. */
    struct timespec before, after;
    struct tm utc = { 0 };
    clock_gettime(CLOCK_REALTIME, &before);
    char *line = line_of(&field, 1);
    clock_gettime(CLOCK_REALTIME, &after);
    assert_non_null(strptime(line, "%Y-%m-%dT%H:%M:%S", &utc));
    const time_t logged = timegm(&utc);
    assert_true(logged >= before.tv_sec && logged <= after.tv_sec);
    free(line);
}

/* No value, whatever its bytes, ends a line or gives a command to a terminal. */
TEST(no_forged_lines)
{
    static const char *const VALUES[] = {
        "x\n2026-01-01T00:00:00.000Z info forged a=b",
        "x\r\nforged",
        "\x1b[2J",
        "\x7f",
        "\xC2\x9B"
        "2J", /* the C1 control sequence introducer */
        "a\xE2\x80\xA8"
        "b\xE2\x80\xA9",    /* line and paragraph separator */
        "\xFF\xFE\xC0\x80", /* not UTF-8 */
        "\xED\xA0\x80",     /* a surrogate */
        "x\",\"level\":\"error",
    };
    for (size_t i = 0; i < sizeof VALUES / sizeof VALUES[0]; i++)
        for (int format = LOG_TEXT; format <= LOG_JSON; format++) {
            log_configure(LOG_INFO, (enum log_format)format);
            const struct log_field field = LOG_STRING("v", VALUES[i]);
            char *line = line_of(&field, 1);
            for (const char *p = line; *p && p[1]; p++)
                assert_true((unsigned char)*p >= ' ' && *p != 0x7f);
            assert_null(strstr(line, "\xC2\x9B"));
            assert_null(strstr(line, "\xE2\x80\xA8"));
            assert_null(strstr(line, "\xE2\x80\xA9"));
            assert_null(strchr(line, '\xFF'));
            assert_null(strstr(line, "\",\"level\":\"error"));
            free(line);
        }
}

TEST(long_values)
{
    char longest[20000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    log_configure(LOG_INFO, LOG_JSON);
    const struct log_field two[] = { LOG_STRING("path", longest), LOG_NUMBER("status", 200) };
    char *line = line_of(two, 2);
    assert_non_null(strstr(line, "aaa...\",\"status\":200}\n"));
    assert_null(strstr(line, "truncated"));
    free(line);
    /* Each of these strings becomes six times as long. The second one does not fit, but the
     * field after it does. */
    memset(longest, 1, sizeof longest - 1);
    const struct log_field many[] = { LOG_STRING("a", longest), LOG_STRING("b", longest),
                                      LOG_NUMBER("status", 200) };
    line = line_of(many, 3);
    assert_non_null(strstr(line, ",\"a\":\"\\u0001"));
    assert_null(strstr(line, ",\"b\":"));
    assert_non_null(strstr(line, ",\"status\":200,\"truncated\":true}\n"));
    free(line);
    log_configure(LOG_INFO, LOG_TEXT);
    line = line_of(many, 3);
    assert_non_null(strstr(line, " status=200 truncated=true\n"));
    free(line);
    /* A character of two bytes is never cut in half. */
    for (size_t i = 0; i + 2 < sizeof longest; i += 2)
        memcpy(longest + i, "\xC3\xBC", 2);
    for (int shift = 0; shift < 2; shift++) {
        const struct log_field field = LOG_STRING("v", longest + shift);
        line = line_of(&field, 1);
        assert_non_null(strstr(line, "\xC3\xBC...\"\n"));
        free(line);
    }
}

TEST(levels)
{
    struct capture capture;
    for (int least = LOG_DEBUG; least <= LOG_ERROR; least++) {
        size_t size, lines = 0;
        log_configure((enum log_level)least, LOG_TEXT);
        capture_begin(&capture, STDERR_FILENO);
        for (int level = LOG_DEBUG; level <= LOG_ERROR; level++)
            log_line((enum log_level)level, "event", LOG_NUMBER("level", level));
        char *written = capture_end(&capture, &size);
        for (size_t i = 0; i < size; i++)
            lines += written[i] == '\n';
        assert_int_equal(lines, LOG_ERROR - least + 1);
        assert_int_equal(log_enabled(LOG_DEBUG), least == LOG_DEBUG);
        assert_true(log_enabled(LOG_ERROR));
        if (least == LOG_DEBUG) {
            assert_non_null(strstr(written, " debug event level=0\n"));
            assert_non_null(strstr(written, " warning event level=2\n"));
            assert_non_null(strstr(written, " error event level=3\n"));
        }
        free(written);
    }
}

enum { THREADS = 4, LINES_EACH = 200 };

static void *log_lines(void *argument)
{
    for (int i = 0; i < LINES_EACH; i++)
        log_line(LOG_INFO, "event", LOG_NUMBER("thread", *(const int *)argument),
                 LOG_NUMBER("line", i));
    return NULL;
}

/* On a datagram socket each write() is one message. There must be as many messages as lines,
 * each a whole line. */
TEST(a_line_is_one_write)
{
    int ends[2], numbers[THREADS], seen[THREADS] = { 0 };
    pthread_t threads[THREADS];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    log_configure(LOG_INFO, LOG_TEXT);
    const int saved = dup(STDERR_FILENO);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, log_lines, &numbers[i]), 0);
    }
    int whole = 0;
    for (int i = 0; i < THREADS * LINES_EACH; i++) {
        char line[256];
        int thread, number, end = 0;
        const ssize_t size = recv(ends[0], line, sizeof line - 1, 0);
        line[size > 0 ? size : 0] = '\0';
        if (sscanf(line, "%*24s info event thread=%d line=%d%n", &thread, &number, &end) == 2
            && strcmp(line + end, "\n") == 0 && thread >= 0 && thread < THREADS
            && number == seen[thread]++)
            whole++;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    dup2(saved, STDERR_FILENO);
    close(saved);
    char rest;
    assert_int_equal(recv(ends[0], &rest, 1, 0), 0);
    close(ends[0]);
    assert_int_equal(whole, THREADS * LINES_EACH);
}
