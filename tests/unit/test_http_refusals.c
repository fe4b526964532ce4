/* SPDX-License-Identifier: Apache-2.0 */
/* How often one client is refused, and which refusals wait. The test itself plays the clock and the
 * part of libmicrohttpd. */
#include "http/http_internal.h"
#include "test.h"

#include <time.h>

enum {
    HEAVY = 900,
    COUNT = HEAVY + 1,
    LIGHT = HEAVY,
    AHEAD = 200,
    TURN = 32,
    TURN_BUSY = 4,
    HELD = 1024
};

#define MS INT64_C(1000000)

static struct http *http;
static struct http_thread *thread;
static struct exchange exchanges[COUNT];
static struct http_connection connections[COUNT];
static union MHD_ConnectionInfo infos[COUNT];
static bool is_suspended[COUNT];
static int64_t now_ns;
static int keys;

int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
    (void)clock_id;
    *tp = (struct timespec){ .tv_sec = now_ns / 1000000000, .tv_nsec = now_ns % 1000000000 };
    return 0;
}

/* A connection is its place in infos. */
static int number_of(struct MHD_Connection *connection)
{
    return (int)((union MHD_ConnectionInfo *)(void *)connection - infos);
}

const union MHD_ConnectionInfo *MHD_get_connection_info(struct MHD_Connection *connection,
                                                        enum MHD_ConnectionInfoType type, ...)
{
    assert_int_equal(type, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return &infos[number_of(connection)];
}

void MHD_suspend_connection(struct MHD_Connection *connection)
{
    assert_false(is_suspended[number_of(connection)]);
    is_suspended[number_of(connection)] = true;
}

void MHD_resume_connection(struct MHD_Connection *connection)
{
    assert_true(is_suspended[number_of(connection)]);
    is_suspended[number_of(connection)] = false;
}

static void begin(int i, enum fault_code code)
{
    exchanges[i] =
        (struct exchange){ .thread = thread, .connection = &infos[i], .fault = { .code = code } };
}

static int setup(void **state)
{
    http = calloc(1, sizeof *http + sizeof http->threads[0]);
    assert_non_null(http);
    http->thread_count = 1;
    http->options.keys = (struct access_keys *)&keys; /* not looked into */
    thread = &http->threads[0];
    thread->http = http;
    now_ns = 1000000 * MS;
    memset(is_suspended, 0, sizeof is_suspended);
    memset(connections, 0, sizeof connections);
    for (int i = 0; i < COUNT; i++) {
        connections[i].peer = i == LIGHT ? 7 : 8;
        infos[i].socket_context = &connections[i];
        begin(i, FAULT_OVERLOADED);
    }
    return 0;
}

static int teardown(void **state)
{
    http_refusals_end(thread);
    for (int i = 0; i < COUNT; i++)
        assert_false(is_suspended[i]);
    free(http);
    return 0;
}

/* All connections of the heavy client that do not wait ask, and ask again once they are refused.
 * Returns how many were refused in this turn of the thread. */
static int turn(bool *asked)
{
    int refused = 0;
    http_refusals_run(thread);
    for (int i = 0; i < HEAVY; i++) {
        if (asked[i] && !is_suspended[i]) { /* it has waited */
            refused++;
            begin(i, FAULT_OVERLOADED);
        }
        asked[i] = true;
        if (!is_suspended[i] && !http_refusals_hold(&exchanges[i])) {
            refused++;
            asked[i] = false;
            begin(i, FAULT_OVERLOADED);
        }
    }
    return refused;
}

/* Turns come as fast as a thread makes them; the client asks again at once, and is refused no
 * oftener for it. In between, another client is refused at once. */
TEST(flood)
{
    static bool asked[HEAVY];
    int refused = 0, turns = 0;
    memset(asked, 0, sizeof asked);
    for (const int64_t end_ns = now_ns + 1000 * MS; now_ns < end_ns; now_ns += MS / 10, turns++) {
        const int in_turn = turn(asked);
        assert_in_range(in_turn, 0, TURN);
        refused += in_turn;
        if (turns % 100 == 99) {
            begin(LIGHT, FAULT_OVERLOADED);
            if (http_refusals_hold(&exchanges[LIGHT])) { /* the turn is full: in the next one */
                now_ns += MS / 10;
                http_refusals_run(thread);
            }
            assert_false(is_suspended[LIGHT]);
        }
    }
    /* Each connection once in 100 ms, and those ahead of the rate. */
    assert_in_range(refused, 2000, 10 * HEAVY + AHEAD + HEAVY);
}

/* Without keys a refusal waits for its turn alone, and that of another address goes first. */
TEST(without_keys)
{
    http->options.keys = NULL;
    http_refusals_run(thread);
    for (int i = 0; i < HEAVY; i++)
        assert_int_equal(http_refusals_hold(&exchanges[i]), i >= TURN);
    assert_true(http_refusals_hold(&exchanges[LIGHT]));
    assert_int_equal(http_refusals_ms(thread, 1000), 0);
    http_refusals_run(thread);
    assert_false(is_suspended[LIGHT]);
    for (int waiting = HEAVY - 2 * TURN + 1; waiting > 0; waiting -= TURN) {
        assert_int_equal(thread->refusals.held.count, waiting);
        http_refusals_run(thread);
    }
    assert_int_equal(http_refusals_ms(thread, 1000), 1000);
}

/* While bodies wait to be read, fewer are refused in a turn. */
TEST(beside_bodies)
{
    http->options.keys = NULL;
    thread->bodies.waiting.count = 1;
    http_refusals_run(thread);
    for (int i = 0; i < 3 * TURN; i++)
        assert_int_equal(http_refusals_hold(&exchanges[i]), i >= TURN_BUSY);
    http_refusals_run(thread);
    assert_int_equal(thread->refusals.held.count, 3 * TURN - 2 * TURN_BUSY);
    thread->bodies.waiting.count = 0;
    http_refusals_run(thread);
    assert_int_equal(thread->refusals.held.count, 2 * TURN - 2 * TURN_BUSY);
}

/* An exchange that waited at the gate waits on as a refusal, or goes on where too many do. */
TEST(take)
{
    static struct exchange more[HELD];
    is_suspended[LIGHT] = true;
    http_refusals_take(&exchanges[LIGHT]);
    assert_true(exchanges[LIGHT].is_held);
    assert_true(exchanges[LIGHT].was_held);
    assert_int_equal(thread->refusals.held.count, 1);
    http_refusals_release(&exchanges[LIGHT]);
    assert_true(exchanges[LIGHT].called);

    begin(LIGHT, FAULT_OVERLOADED);
    is_suspended[LIGHT] = true;
    for (int i = 0; i < HELD; i++) {
        more[i] = exchanges[LIGHT];
        http_refusals_take(&more[i]);
    }
    assert_true(is_suspended[LIGHT]);
    http_refusals_take(&exchanges[LIGHT]);
    assert_false(is_suspended[LIGHT]);
    assert_true(exchanges[LIGHT].called && !exchanges[LIGHT].is_held);
    heap_free(&thread->refusals.held);
    thread->refusals.held = (struct heap){ 0 };
}

/* A client that is refused now and then never waits, on a connection once in 10 ms. */
TEST(few_refusals)
{
    for (int i = 0; i < 1000; i++, now_ns += MS) {
        begin(i % 10, FAULT_QUOTA);
        http_refusals_run(thread);
        assert_false(http_refusals_hold(&exchanges[i % 10]));
    }
}

/* A connection that asks again at once rests, behind what it has ahead, 10 ms for each refusal; one
 * beside it of the same client does not. */
TEST(one_connection)
{
    int refused = 0, ms = 0;
    for (; ms < 1000; ms++, now_ns += MS) {
        http_refusals_run(thread);
        if (is_suspended[0])
            continue;
        begin(0, FAULT_QUOTA);
        refused++;
        assert_int_equal(http_refusals_hold(&exchanges[0]), refused > ms / 10 + 16);
    }
    assert_in_range(refused, 100 + 16, 100 + 18);
    begin(1, FAULT_QUOTA);
    assert_false(http_refusals_hold(&exchanges[1]));
    assert_in_range(http_refusals_ms(thread, 1000), 0, 11);
}

/* Suspends one exchange of the heavy client. */
static struct exchange *hold_one(enum fault_code code)
{
    for (int i = 0; i < HEAVY; i++) {
        begin(i, code);
        if (i % TURN == 0)
            http_refusals_run(thread);
        if (http_refusals_hold(&exchanges[i]))
            return &exchanges[i];
    }
    return NULL;
}

TEST(what_waits)
{
    static const enum fault_code never[] = { FAULT_NONE, FAULT_JSON, FAULT_TOO_LARGE,
                                             FAULT_DEADLINE, FAULT_LOADING };
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        assert_null(hold_one(never[i]));
    assert_non_null(hold_one(FAULT_KEY));
}

/* It goes on by its end: once, with its answer where it has one. */
TEST(release)
{
    struct exchange *exchange = hold_one(FAULT_OVERLOADED);
    assert_non_null(exchange);
    assert_in_range(http_refusals_ms(thread, 1000), 0, 2);
    http_refusals_release(exchange); /* its client has left */
    assert_true(exchange->called);
    assert_false(http_refusals_hold(exchange));
    assert_int_equal(http_refusals_ms(thread, 1000), 1000);

    exchange = hold_one(FAULT_OVERLOADED);
    assert_non_null(exchange);
    exchange->answered = true;
    now_ns += 1000 * MS;
    http_refusals_run(thread);
    assert_false(exchange->called);
    assert_false(exchange->is_held);
}

TEST(drain)
{
    static bool asked[HEAVY];
    memset(asked, 0, sizeof asked);
    turn(asked);
    atomic_store(&http->draining_since_ns, now_ns);
    http_refusals_run(thread);
    for (int i = 0; i < HEAVY; i++)
        assert_false(is_suspended[i]);
    assert_null(hold_one(FAULT_OVERLOADED));
}

EACH_TEST(setup, teardown);

int main(void)
{
    return test_run(NULL);
}
