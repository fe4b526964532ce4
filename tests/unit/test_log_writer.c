/* SPDX-License-Identifier: Apache-2.0 */
/* test_log_writer.c - lines that go through the log's own thread. While there is room, they are
 * whole, in order, and none is lost. If there is no room, no thread waits; the log counts
 * dropped lines and tells the number. */
#include "telemetry/log.h"
#include "telemetry/log_writer.h"
#include "test.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

enum { THREADS = 4, WAIT_MS = 60000, LOG_BYTES_MAX = 16 << 20 };

/* Diverts standard error. cmocka's messages about a failure would go there too, so tests restore
 * it before they judge. */
struct diverted {
    int saved, end; /* to be read */
};

static void divert(struct diverted *diverted, const int ends[2])
{
    diverted->end = ends[0];
    diverted->saved = dup(STDERR_FILENO);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
}

static void divert_to_pipe(struct diverted *diverted)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    divert(diverted, ends);
}

static void put_back(struct diverted *diverted)
{
    dup2(diverted->saved, STDERR_FILENO);
    close(diverted->saved);
}

/* Everything up to the end. The end comes when no process has the stream as standard error any
 * more. */
static char *read_rest(struct diverted *diverted)
{
    size_t used = 0;
    char *text = calloc(1, LOG_BYTES_MAX);
    if (!text)
        abort();
    for (ssize_t size = 1; size > 0; used += (size_t)(size > 0 ? size : 0))
        size = read(diverted->end, text + used, LOG_BYTES_MAX - used - 1);
    close(diverted->end);
    return text;
}

static void *read_in_background(void *diverted)
{
    return read_rest(diverted);
}

/* Ends the writer while its lines are read. Returns all lines; the caller frees them. */
static char *stop_and_read(struct diverted *diverted)
{
    pthread_t reader;
    void *text;
    const int created = pthread_create(&reader, NULL, read_in_background, diverted);
    log_writer_settle(WAIT_MS);
    log_writer_stop();
    put_back(diverted);
    assert_int_equal(created, 0);
    pthread_join(reader, &text);
    return text;
}

/* ------------------------------------------------------- those who write -- */

struct author {
    pthread_t thread;
    int number, line_count;
    const char *filler;
};

static void *log_lines(void *argument)
{
    const struct author *author = argument;
    for (int i = 0; i < author->line_count; i++)
        log_line(LOG_INFO, "event", LOG_NUMBER("thread", author->number), LOG_NUMBER("line", i),
                 LOG_STRING("filler", author->filler));
    return NULL;
}

/* Logs from all threads at once. Returns when they have logged everything. */
static void log_from_threads(int line_count, const char *filler)
{
    struct author authors[THREADS];
    for (int i = 0; i < THREADS; i++) {
        authors[i] = (struct author){ .number = i, .line_count = line_count, .filler = filler };
        if (pthread_create(&authors[i].thread, NULL, log_lines, &authors[i]) != 0)
            abort();
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(authors[i].thread, NULL);
}

/* --------------------------------------------------------- what was read -- */

struct seen {
    int lines, warnings, urgent;
    double told; /* by warnings, as dropped */
};

/* Every line must be one of ours and whole. The lines of each thread must be in the order in
 * which it logged them. */
static struct seen judge(char *text, const char *filler)
{
    struct seen seen = { 0 };
    int last[THREADS] = { -1, -1, -1, -1 };
    for (char *line = text, *end; *line; line = end + 1) {
        int thread, number, used = 0;
        double count;
        end = strchr(line, '\n');
        assert_non_null(end);
        *end = '\0';
        if (sscanf(line, "%*24s warning log lines dropped count=%lf%n", &count, &used) == 1
            && !line[used]) {
            seen.warnings++;
            seen.told += count;
        } else if (strstr(line, " error urgent n=1")) {
            seen.urgent++;
        } else {
            if (sscanf(line, "%*24s info event thread=%d line=%d filler=%n", &thread, &number,
                       &used)
                    != 2
                || used == 0 || strcmp(line + used, filler) != 0)
                fail_msg("no line of ours: %s", line);
            assert_in_range(thread, 0, THREADS - 1);
            assert_true(number > last[thread]);
            last[thread] = number;
            seen.lines++;
        }
    }
    free(text);
    return seen;
}

/* ----------------------------------------------------------------- tests -- */

/* Nothing reads until all lines are logged. A pipe holds only a twentieth of them. */
TEST(nothing_is_lost_while_there_is_room)
{
    enum { LINES_EACH = 5000 };
    struct diverted diverted;
    const uint64_t dropped = log_writer_dropped();
    divert_to_pipe(&diverted);
    const bool started = log_writer_start(log_dropped);
    log_from_threads(LINES_EACH, "x");
    const struct seen seen = judge(stop_and_read(&diverted), "x");
    assert_true(started);
    assert_int_equal(seen.lines, THREADS * LINES_EACH);
    assert_int_equal(seen.warnings, 0);
    assert_true(log_writer_dropped() == dropped);
}

/* On a datagram socket each write() is one message. Messages consist of whole lines, and there
 * are fewer messages than lines. */
TEST(writes_are_whole_lines)
{
    enum { LINES = 500 };
    int ends[2], messages = 0, lines = 0, broken = 0;
    struct diverted diverted;
    char message[2 * PIPE_BUF];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    divert(&diverted, ends);
    const bool started = log_writer_start(log_dropped);
    log_lines(&(struct author){ .line_count = LINES, .filler = "x" });
    while (started && lines < LINES) {
        const ssize_t size = recv(diverted.end, message, sizeof message, 0);
        if (size <= 0)
            break;
        messages++;
        broken += size > PIPE_BUF || message[size - 1] != '\n' || message[4] != '-';
        for (ssize_t i = 0; i < size; i++)
            lines += message[i] == '\n';
    }
    log_writer_stop();
    put_back(&diverted);
    close(diverted.end);
    assert_int_equal(lines, LINES);
    assert_int_equal(broken, 0);
    assert_true(messages < LINES);
}

/* The test logs twelve megabytes that nothing reads. The threads that log go on. An error line
 * still finds room. */
TEST(nobody_reads)
{
    enum { LINES_EACH = 10000 };
    char filler[250];
    struct diverted diverted;
    const uint64_t before = log_writer_dropped();
    memset(filler, 'x', sizeof filler - 1);
    filler[sizeof filler - 1] = '\0';
    divert_to_pipe(&diverted);
    const bool started = log_writer_start(log_dropped);
    log_from_threads(LINES_EACH, filler);
    const uint64_t dropped = log_writer_dropped() - before;
    log_line(LOG_ERROR, "urgent", LOG_NUMBER("n", 1));
    const struct seen seen = judge(stop_and_read(&diverted), filler);
    assert_true(started);
    assert_in_range(dropped, 1, THREADS * LINES_EACH - 1);
    assert_true(log_writer_dropped() - before == dropped);
    assert_int_equal(seen.lines + (int)dropped, THREADS * LINES_EACH);
    assert_true(seen.warnings >= 1);
    assert_true(seen.told == (double)dropped);
    assert_int_equal(seen.urgent, 1);
}

/* Another program has set the stream so that writes fail at once if there is no room. */
TEST(a_stream_that_does_not_block)
{
    enum { LINES_EACH = 2000 };
    struct diverted diverted;
    const uint64_t dropped = log_writer_dropped();
    divert_to_pipe(&diverted);
    const bool set = fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK) == 0;
    const bool started = log_writer_start(log_dropped);
    log_from_threads(LINES_EACH, "x");
    const struct seen seen = judge(stop_and_read(&diverted), "x");
    assert_true(set && started);
    assert_int_equal(seen.lines, THREADS * LINES_EACH);
    assert_true(log_writer_dropped() == dropped);
}

/* The reader has gone, and the lost lines are counted. A later reader is told the number. */
TEST(a_stream_that_fails)
{
    struct diverted gone, diverted;
    const uint64_t before = log_writer_dropped();
    divert_to_pipe(&gone);
    close(gone.end);
    log_line(LOG_INFO, "at once", LOG_NUMBER("n", 1)); /* no thread yet */
    const uint64_t without_thread = log_writer_dropped() - before;
    const bool started = log_writer_start(log_dropped);
    for (int i = 0; i < 3; i++) {
        log_lines(&(struct author){ .line_count = 2, .filler = "x" });
        log_writer_settle(WAIT_MS);
    }
    const uint64_t with_thread = log_writer_dropped() - before - without_thread;
    divert_to_pipe(&diverted);
    for (int i = 0; i < 2; i++) {
        log_lines(&(struct author){ .number = i, .line_count = 2, .filler = "x" });
        log_writer_settle(WAIT_MS);
    }
    char *text = stop_and_read(&diverted);
    put_back(&gone);
    const struct seen seen = judge(text, "x");
    assert_true(started);
    assert_int_equal(without_thread, 1);
    assert_int_equal(with_thread, 6);
    assert_int_equal(seen.lines, 4);
    assert_int_equal(seen.warnings, 1);
    assert_true(seen.told == 6);
}

/* When the wait is over, all lines so far have been written. After the end, logging works as
 * before the start. */
TEST(settled_and_stopped)
{
    static const char *const EVENTS[] = { "first", "second", "third" };
    struct diverted diverted;
    char text[3][256] = { "", "", "" };
    divert_to_pipe(&diverted);
    const bool started = log_writer_start(log_dropped);
    for (int i = 0; i < 3; i++) {
        log_line(i == 1 ? LOG_WARNING : LOG_INFO, EVENTS[i], LOG_NUMBER("n", i));
        if (i < 2)
            log_writer_settle(WAIT_MS);
        if (i == 1)
            log_writer_stop();
        if (poll(&(struct pollfd){ .fd = diverted.end, .events = POLLIN }, 1, 0) == 1)
            text[i][read(diverted.end, text[i], sizeof text[i] - 1)] = '\0';
    }
    log_writer_stop();
    put_back(&diverted);
    close(diverted.end);
    assert_true(started);
    for (int i = 0; i < 3; i++) {
        char end[32];
        snprintf(end, sizeof end, " %s n=%d\n", EVENTS[i], i);
        const char *found = strstr(text[i], end);
        assert_non_null(found);
        assert_string_equal(found, end);
        assert_ptr_equal(strchr(text[i], '\n'), found + strlen(end) - 1);
    }
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    log_configure(LOG_INFO, LOG_TEXT);
    return test_run(NULL);
}
