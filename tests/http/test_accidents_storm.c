/* SPDX-License-Identifier: Apache-2.0 */
/* test_accidents_storm.c - accidents of HTTP libraries with connections that are suspended and
 * resumed: an answer that goes to another request, one that never comes, a connection that is used
 * after its end.
 *
 * In each round many clients send at once. Their requests wait for their bodies' turn, are computed
 * by workers, run out of time, come two at a time on one connection, or lose their client at any of
 * these points. Every client that stays gets the answer to its own request, and at the end nothing
 * is left. The suite runs this against daemons with AddressSanitizer and ThreadSanitizer, too. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"

#include <sys/socket.h>

enum { CLIENTS = 48, ROUNDS = 12, LONG_BYTES = 100000 };

enum kind {
    SMALL,         /* one small request */
    SLOW,          /* one that workers compute */
    SHORT_OF_TIME, /* the same, with too little time */
    LONG,          /* a long body, which waits for its turn and comes in two parts */
    CONTINUED,     /* the same, and the client waits to be told to go on */
    TWO,           /* a slow request, and a small one right behind it */
    HALF_CLOSED,   /* the client has closed its end behind its request */
    LEAVES,        /* before its answer */
    LEAVES_EARLY,  /* in the middle of its body */
    KIND_COUNT
};

struct caller {
    enum kind kind;
    struct http_raw raw;
    int expected; /* answers, but those of 100 */
};

static const char GOOD[] = JSON({"model":"sdpa","query":[[1]]});
static char *slow, *long_body;

static void send_head(struct caller *caller, int id, int part, const char *more, size_t size)
{
    char head[400];
    snprintf(head, sizeof head,
             "POST /v1/attention HTTP/1.1\r\nHost: x\r\nX-Request-Id: caller-%d-%d\r\n%s"
             "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
             id, part, more, size);
    http_raw_send_text(&caller->raw, head);
}

/* Sends what a kind sends at first. */
static void begin(struct caller *caller, int id)
{
    const bool is_long = caller->kind == LONG || caller->kind == CONTINUED;
    const char *body = caller->kind == SMALL ? GOOD : slow;
    const char *more = caller->kind == SHORT_OF_TIME ? "X-Timeout-Ms: 3\r\n"
                       : caller->kind == CONTINUED   ? "Expect: 100-continue\r\n"
                                                     : "";
    caller->expected = caller->kind == TWO ? 2 : 1;
    http_raw_connect(&caller->raw, server.port);
    if (is_long || caller->kind == LEAVES_EARLY) {
        send_head(caller, id, 0, more, LONG_BYTES);
        if (caller->kind != CONTINUED)
            http_raw_send(&caller->raw, long_body, LONG_BYTES / 3);
        return;
    }
    send_head(caller, id, 0, more, strlen(body));
    http_raw_send_text(&caller->raw, body);
    if (caller->kind == TWO) {
        send_head(caller, id, 1, "", strlen(GOOD));
        http_raw_send_text(&caller->raw, GOOD);
    }
    if (caller->kind == HALF_CLOSED)
        shutdown(caller->raw.socket, SHUT_WR);
}

/* Sends the rest, or leaves. */
static void go_on(struct caller *caller)
{
    const size_t sent = caller->kind == CONTINUED ? 0 : LONG_BYTES / 3;
    if (caller->kind == LEAVES || caller->kind == LEAVES_EARLY)
        http_raw_close(&caller->raw);
    else if (caller->kind == LONG || caller->kind == CONTINUED)
        http_raw_send(&caller->raw, long_body + sent, LONG_BYTES - sent);
}

/* The answers must be those of this caller's requests, in their order. */
static void receive(struct caller *caller, int id)
{
    if (caller->kind == LEAVES || caller->kind == LEAVES_EARLY)
        return;
    for (int part = 0; part < caller->expected;) {
        char want[60], got[200] = "";
        struct http_response response = http_raw_receive(&caller->raw, 60 * daemon_slowness());
        const long status = response.status;
        if (status == 0 && caller->kind == HALF_CLOSED)
            break; /* the daemon takes it for gone */
        snprintf(want, sizeof want, "caller-%d-%d", id, part);
        if (status != 100) {
            http_response_header(&response, "X-Request-Id", got, sizeof got);
            if (strcmp(got, want) != 0
                || (status != 200 && status != 429 && status != 503 && status != 504))
                fail_msg("%ld for %s, and not %s, of kind %d", status, got, want, caller->kind);
            part++;
        }
        const char *end = http_response_header(&response, "Connection", got, sizeof got);
        const bool is_last = end && strcmp(end, "close") == 0;
        http_response_free(&response);
        if (is_last)
            break; /* a refusal before the body ends the connection */
    }
    http_raw_close(&caller->raw);
}

TEST(storm)
{
    static struct caller callers[CLIENTS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CLIENTS; i++) {
            callers[i].kind = (enum kind)((i * 5 + round) % KIND_COUNT);
            begin(&callers[i], i);
        }
        daemon_pause(0.002 * round); /* rounds go on at other moments of the requests */
        for (int i = 0; i < CLIENTS; i++)
            go_on(&callers[(i * 7) % CLIENTS]);
        for (int i = 0; i < CLIENTS; i++)
            receive(&callers[i], i);
    }
    answer_wait_for_active(&client, 0);
    answer_wait_for_metric(&client, "attnd_connections", 1, 1);
    answer_wait_for_metric(&client, "attnd_bodies_waiting", 0, 0);
    answer_wait_for_metric(&client, "attnd_queue_jobs", 0, 0);
    cJSON_Delete(answer_post(&client, "/v1/attention", GOOD));
}

static int start(void **state)
{
    fixture_start(state);
    slow = request_text_slow(&client, 0.01, "");
    long_body = malloc(LONG_BYTES);
    assert_non_null(long_body);
    memset(long_body, ' ', LONG_BYTES);
    memcpy(long_body, GOOD, strlen(GOOD));
    return 0;
}

static int clear(void **state)
{
    free(slow);
    free(long_body);
    return fixture_clear(state);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, clear);
