/* SPDX-License-Identifier: Apache-2.0 */
/* test_log_stall.c - a log that nobody reads stops nothing. The daemon answers every request,
 * counts the lines for which there was no room, and ends in time. The last lines before a crash are
 * in the log. */
#include "answer.h"
#include "daemon.h"
#include "request_text.h"
#include "test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

enum { BURST = 200, REQUESTS_MAX = 100 * BURST };

static const char DROPPED[] = "attnd_log_lines_dropped_total";

static struct daemon server;
static struct http_client client;

/* Starts a daemon that writes its log into a pipe, and returns the reading end of the pipe. */
static int start_into_pipe(void)
{
    int ends[2];
    char listen[32];
    const int port = daemon_free_port();
    snprintf(listen, sizeof listen, "127.0.0.1:%d", port);
    const char *const arguments[] = { "--listen", listen, NULL };
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    daemon_start(&server,
                 &(struct daemon_options){
                     .arguments = arguments, .listen_count = 1, .output = ends[1], .port = port });
    close(ends[1]);
    http_client_init(&client, port);
    return ends[0];
}

/* Sends requests with long lines, one burst after the other, until the daemon has dropped lines.
 * Returns the number of requests. */
static int send_until_lines_are_dropped(void)
{
    struct request_text burst = { 0 };
    struct http_raw raw;
    int sent = 0;
    char filler[500];
    memset(filler, '"', sizeof filler - 1); /* takes two characters each in the log */
    filler[sizeof filler - 1] = '\0';
    for (int i = 0; i < BURST; i++)
        request_text_add(&burst, "GET /%s HTTP/1.1\r\nHost: x\r\n\r\n", filler);
    http_raw_connect(&raw, server.port);
    while (sent < REQUESTS_MAX && answer_metric(&client, DROPPED) == 0) {
        assert_true(http_raw_send_text(&raw, burst.data));
        for (int i = 0; i < BURST; i++, sent++) {
            struct http_response response = http_raw_receive(&raw, 20 * daemon_slowness());
            assert_int_equal(response.status, 404);
            http_response_free(&response);
        }
    }
    answer_wait_for_active(&client, 0); /* the log line may come after the answer of its request */
    http_raw_close(&raw);
    free(burst.data);
    assert_true(answer_metric(&client, DROPPED) > 0);
    return sent;
}

static int count_of(const char *text, const char *what)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, what)); at++)
        count++;
    return count;
}

/* Reads the pipe until text has come and the log ends with a whole line. */
static char *read_with(int pipe_end, const char *text)
{
    const double until = daemon_now() + 20 * daemon_slowness();
    size_t used = 0, capacity = 16 << 20;
    char *log = calloc(1, capacity);
    assert_non_null(log);
    while (!strstr(log, text) || log[used - 1] != '\n') {
        if (daemon_now() > until || used == capacity - 1)
            fail_msg("no %s in %zu bytes of log", text, used);
        if (poll(&(struct pollfd){ .fd = pipe_end, .events = POLLIN }, 1, 10) != 1)
            continue;
        const ssize_t size = read(pipe_end, log + used, capacity - 1 - used);
        assert_true(size > 0);
        used += (size_t)size;
    }
    return log;
}

/* Each request has a log line or is counted as dropped. The warnings give the same count. */
TEST(requests_do_not_wait_for_the_log)
{
    const int pipe_end = start_into_pipe();
    const int sent = send_until_lines_are_dropped();
    char *log = read_with(pipe_end, "log lines dropped");
    /* The count is read only now, because the line of the last request comes after its answer. */
    const int dropped = (int)answer_metric(&client, DROPPED);
    double told = 0;
    int lines = 0;
    for (char *line = log, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (line[4] != '-' || line[23] != 'Z')
            fail_msg("no whole line: %s", line);
        const char *warning = strstr(line, " warning log lines dropped count=");
        if (warning)
            told += strtod(strchr(warning, '=') + 1, NULL);
        lines += count_of(line, " info request ") == 1 && strstr(line, "status=404");
    }
    assert_true(told > 0);
    assert_int_equal(lines + dropped, sent);
    assert_int_equal((int)told, dropped);
    free(log);
    /* The log flows again. */
    struct http_response response = http_client_get(&client, "/flows-again");
    assert_int_equal(response.status, 404);
    http_response_free(&response);
    free(read_with(pipe_end, "path=/flows-again"));
    assert_int_equal((int)answer_metric(&client, DROPPED), dropped);
    daemon_stop(&server);
    free(read_with(pipe_end, " info stopped status=0"));
    close(pipe_end);
}

TEST(the_end_does_not_wait_for_the_log)
{
    const int pipe_end = start_into_pipe();
    send_until_lines_are_dropped();
    const double start = daemon_now();
    kill(server.pid, SIGTERM);
    assert_int_equal(daemon_wait(&server, 20 * daemon_slowness()), 0);
    print_message("the end took %.2f s\n", daemon_now() - start);
    close(pipe_end);
}

TEST(the_reader_leaves)
{
    close(start_into_pipe());
    for (int i = 0; i < 100; i++)
        cJSON_Delete(
            answer_post(&client, "/v1/attention", "{\"model\":\"demo\",\"query\":[1,0,0]}"));
    answer_wait_for_metric(&client, DROPPED, 100, 1e6);
    daemon_stop(&server);
}

/* The daemon writes a line some milliseconds after it logs the line, and a crash waits for that.
 * The line of a request is there before the daemon looks at the next request of the same
 * connection. */
TEST(the_last_lines_before_a_crash)
{
    enum { REQUESTS = 10 };
    for (int i = 0; i < 5; i++) {
        struct http_raw raw;
        daemon_start(&server, NULL);
        http_raw_connect(&raw, server.port);
        for (int j = 0; j < REQUESTS; j++)
            http_raw_send_text(&raw, "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n");
        for (int j = 0; j < REQUESTS; j++) {
            struct http_response response = http_raw_receive(&raw, 20 * daemon_slowness());
            assert_int_equal(response.status, 404);
            http_response_free(&response);
        }
        kill(server.pid, SIGABRT);
        http_raw_close(&raw);
        assert_int_equal(daemon_wait(&server, 20 * daemon_slowness()), 128 + SIGABRT);
        char *log = daemon_log(&server);
        assert_in_range(count_of(log, "path=/nowhere"), REQUESTS - 1, REQUESTS);
        free(log);
        daemon_kill(&server);
    }
}

static int clear(void **state)
{
    if (client.curl)
        http_client_free(&client);
    client = (struct http_client){ 0 };
    daemon_kill(&server);
    return 0;
}

EACH_TEST(NULL, clear);
