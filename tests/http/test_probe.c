/* SPDX-License-Identifier: Apache-2.0 */
/* test_probe.c - the cases of Http11Probe, a public test of servers (probe_messages.txt), against
 * the daemon, and for comparison against nginx and haproxy as Debian has them.
 *
 * Those servers answer every request with 200. The daemon has routes: 404 and 405 of a message that
 * it has read stand for that. All messages go out at once, each over its own connection; when
 * nothing has come on any of them for WAIT_S, no more is waited for. The table of SECURITY.md is
 * what this test counts, and lines of it of other versions than those that are installed are not
 * looked at. */
#include "balancer.h"
#include "fixture.h"
#include "framing_message.h"
#include "manifest.h"
#include "request_text.h"
#include "test.h"

#include <poll.h>
#include <strings.h>
#include <sys/socket.h>

static const double WAIT_S = 2.0;

enum verdict { PASSED, WARNED, FAILED, VERDICTS };

static const char *const LEVELS[] = { "must", "should", "may", "none" };
enum { LEVEL_COUNT = sizeof LEVELS / sizeof LEVELS[0] };

struct probe_counts {
    int of[LEVEL_COUNT][VERDICTS];
};

struct probe_answer {
    char *text; /* what came, with a NUL behind it */
    size_t size;
    bool is_closed;
};

static struct framing_messages messages;

static int start(void **state)
{
    framing_messages_read_file(&messages, "tests/http/probe_messages.txt");
    assert_true(messages.count >= 170);
    return fixture_start(state);
}

static int clear(void **state)
{
    framing_messages_free(&messages);
    return fixture_clear(state);
}

/* ------------------------------------------------------------------ answers -- */

/* Takes what has come by now. */
static void take_bytes(struct http_raw *raw, struct probe_answer *answer)
{
    char bytes[4096];
    const ssize_t size = recv(raw->socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (size <= 0) {
        answer->is_closed = true;
        return;
    }
    answer->text = realloc(answer->text, answer->size + (size_t)size + 1);
    assert_non_null(answer->text);
    memcpy(answer->text + answer->size, bytes, (size_t)size);
    answer->size += (size_t)size;
    answer->text[answer->size] = '\0';
}

static struct probe_answer *ask_all(int port)
{
    const nfds_t count = (nfds_t)messages.count;
    struct http_raw *raw = calloc(count, sizeof *raw);
    struct probe_answer *answers = calloc(count, sizeof *answers);
    struct pollfd *polled = calloc(count, sizeof *polled);
    assert_true(raw && answers && polled);
    for (nfds_t i = 0; i < count; i++) {
        http_raw_connect(&raw[i], port);
        http_raw_send(&raw[i], messages.items[i].bytes, messages.items[i].size);
    }
    for (double until = daemon_now() + WAIT_S; daemon_now() < until;) {
        for (nfds_t i = 0; i < count; i++)
            polled[i] = (struct pollfd){ answers[i].is_closed ? -1 : raw[i].socket, POLLIN, 0 };
        if (poll(polled, count, 100) > 0)
            until = daemon_now() + WAIT_S * daemon_slowness();
        for (nfds_t i = 0; i < count; i++)
            if (polled[i].revents)
                take_bytes(&raw[i], &answers[i]);
    }
    for (nfds_t i = 0; i < count; i++)
        http_raw_close(&raw[i]);
    free(raw);
    free(polled);
    return answers;
}

/* The status of the first answer, or of the first behind those of 100; 0: none came. */
static int status_of(const struct probe_answer *answer, bool is_first)
{
    int status = 0;
    for (const char *at = answer->text; at; at = strstr(at, "\r\n\r\n"), at = at ? at + 4 : NULL)
        if (sscanf(at, "HTTP/1.%*d %3d", &status) != 1 || is_first || status != 100)
            break;
    return status;
}

static bool has_header(const struct probe_answer *answer, const char *name, size_t size)
{
    const char *end = answer->text ? strstr(answer->text, "\r\n\r\n") : NULL;
    for (const char *at = answer->text; end && at && at < end; at = strstr(at + 1, "\r\n"))
        if (strncasecmp(at + 2, name, size) == 0 && at[2 + size] == ':')
            return true;
    return false;
}

/* ----------------------------------------------------------------- verdicts -- */

/* Whether one of the words that probe_messages.txt explains fits, without a '-' before it. */
static bool word_fits(const char *word, size_t size, const struct probe_answer *answer)
{
    const int status = status_of(answer, word[0] == '1');
    if (size == 5 && memcmp(word, "close", 5) == 0)
        return status == 0 && answer->is_closed;
    if (size == 7 && memcmp(word, "silence", 7) == 0)
        return status == 0 && !answer->is_closed;
    if (size == 3 && memcmp(word, "any", 3) == 0)
        return status != 0;
    if (size < 3 || !memchr("12345", word[0], 5))
        fail_msg("'%.*s' is no word of probe_messages.txt", (int)size, word);
    const bool is_class = word[1] == 'x';
    const bool is_same = is_class ? status / 100 == word[0] - '0'
                                        || (word[0] == '2' && (status == 404 || status == 405))
                                  : status == atoi(word);
    if (!is_same || size == 3)
        return is_same;
    return word[3] == '!' ? answer->is_closed : has_header(answer, word + 4, size - 4);
}

static enum verdict judge(const struct framing_message *message, const struct probe_answer *answer)
{
    enum verdict verdict = PASSED;
    for (const char *word = message->made_of_it; *word;) {
        const size_t size = strcspn(word, ",/");
        const bool is_never = word[0] == '-';
        if (size > 0 && word_fits(word + is_never, size - is_never, answer))
            return is_never ? FAILED : verdict;
        verdict = word[size] == '/' ? WARNED : verdict;
        word += size + (word[size] != '\0');
    }
    return FAILED;
}

/* Counts, and adds a line for each that a server must do and does not. */
static struct probe_counts probe(int port, struct request_text *failures)
{
    struct probe_counts counts = { 0 };
    struct probe_answer *answers = ask_all(port);
    for (int i = 0; i < messages.count; i++) {
        const struct framing_message *message = &messages.items[i];
        const enum verdict verdict = judge(message, &answers[i]);
        int level = 0;
        while (level < LEVEL_COUNT && strcmp(LEVELS[level], message->section) != 0)
            level++;
        assert_true(level < LEVEL_COUNT);
        counts.of[level][verdict]++;
        if (verdict == FAILED)
            request_text_add(failures, "%s %s: %d%s, not %s\n", message->section, message->name,
                             status_of(&answers[i], false), answers[i].is_closed ? ", closed" : "",
                             message->made_of_it);
        free(answers[i].text);
    }
    free(answers);
    return counts;
}

/* The line of the table in SECURITY.md has to say what was counted. */
static void expect_line(const char *name, const struct probe_counts *counts)
{
    struct request_text line = { 0 };
    request_text_add(&line, "| %s |", name);
    for (int level = 0; level < LEVEL_COUNT; level++)
        request_text_add(&line, " %d, %d, %d |", counts->of[level][PASSED],
                         counts->of[level][WARNED], counts->of[level][FAILED]);
    char *page = manifest_file_text("SECURITY.md");
    if (!strstr(page, line.data))
        fail_msg("SECURITY.md has no line\n%s", line.data);
    free(page);
    free(line.data);
}

/* SECURITY.md names what fails, with the reason. */
static void expect_named(char *failures)
{
    char *page = manifest_file_text("SECURITY.md"), *rest = failures;
    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        char level[16], name[64];
        assert_int_equal(sscanf(line, "%15s %63[^:]", level, name), 2);
        if (!strstr(page, name))
            fail_msg("SECURITY.md does not name what fails: %s", line);
    }
    free(page);
}

TEST(attnd)
{
    struct request_text failures = { 0 };
    request_text_add(&failures, "%s", "");
    const struct probe_counts counts = probe(server.port, &failures);
    expect_line("attnd", &counts);
    expect_named(failures.data);
    free(failures.data);
}

/* ------------------------------------------------------------ other servers -- */

static void probe_other(enum balancer_kind kind, const char *version_command, const char *name,
                        const char *form)
{
    balancer_need(kind);
    char text[512], version[64] = "", server_name[128];
    struct request_text failures = { 0 };
    struct balancer balancer;
    FILE *program = popen(version_command, "r");
    assert_non_null(program);
    assert_int_equal(fscanf(program, "%63s", version), 1);
    pclose(program);
    const int port = daemon_free_port();
    snprintf(text, sizeof text, form, port);
    balancer_prepare_text(&balancer, kind, port, text);
    balancer_start(&balancer, kind);
    daemon_pause(0.5 * daemon_slowness());
    const struct probe_counts counts = probe(port, &failures);
    balancer_stop(&balancer);
    snprintf(server_name, sizeof server_name, "%s %s", name, version);
    char *page = manifest_file_text("SECURITY.md");
    const bool is_named = strstr(page, server_name) != NULL;
    free(page);
    free(failures.data);
    if (!is_named)
        skip();
    expect_line(server_name, &counts);
}

TEST(nginx)
{
    probe_other(BALANCER_NGINX, "/usr/sbin/nginx -v 2>&1 | sed 's,.*nginx/,,'", "nginx",
                "server { listen 127.0.0.1:%d; location / { return 200 OK; } }\n");
}

TEST(haproxy)
{
    probe_other(BALANCER_HAPROXY,
                "/usr/sbin/haproxy -v | sed -n '1s/HAProxy version \\([0-9.]*\\).*/\\1/p'",
                "haproxy",
                "defaults\n  mode http\n  timeout connect 5s\n  timeout client 100s\n"
                "  timeout server 100s\nfrontend front\n  bind 127.0.0.1:%d\n"
                "  http-request return status 200 content-type text/plain string OK\n");
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, clear);
