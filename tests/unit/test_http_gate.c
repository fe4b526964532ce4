/* The order of long bodies, the room that they have, and which of them loses it. The test itself
 * plays the clock and the part of libmicrohttpd. */
#include "http/http_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNT = 8, LARGE = 1 << 20, SHORT = 16 * 1024, HALF = LARGE / 2 };

#define MS INT64_C(1000000)

static struct http *http;
static struct http_thread *thread;
static struct exchange *exchanges[COUNT];
static bool suspended[COUNT];
static int resumed[COUNT], resumed_count;

/* A connection is a pointer to the number of its exchange. */
static int numbers[COUNT];

static int64_t now_ns;

int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
    (void)clock_id;
    *tp = (struct timespec){ .tv_sec = now_ns / 1000000000, .tv_nsec = now_ns % 1000000000 };
    return 0;
}

static int number_of(const struct MHD_Connection *connection)
{
    return *(const int *)(const void *)connection;
}

void MHD_suspend_connection(struct MHD_Connection *connection)
{
    assert_false(suspended[number_of(connection)]);
    suspended[number_of(connection)] = true;
}

void MHD_resume_connection(struct MHD_Connection *connection)
{
    assert_true(suspended[number_of(connection)]);
    suspended[number_of(connection)] = false;
    resumed[resumed_count++] = number_of(connection);
}

static int setup(void **state)
{
    (void)state;
    http = calloc(1, sizeof *http + sizeof http->threads[0]);
    assert_non_null(http);
    http->options.body_timeout_ns = INT64_C(5) * 1000 * MS;
    thread = &http->threads[0];
    thread->http = http;
    memset(suspended, 0, sizeof suspended);
    resumed_count = 0;
    now_ns = 1000 * MS;
    for (int i = 0; i < COUNT; i++) {
        exchanges[i] = calloc(1, sizeof *exchanges[i]);
        assert_non_null(exchanges[i]);
        numbers[i] = i;
        exchanges[i]->connection = &numbers[i];
        exchanges[i]->thread = thread;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        http_gate_leave(exchanges[i]);
        free(exchanges[i]);
    }
    assert_int_equal(atomic_load(&http->coming_count), 0);
    assert_int_equal(atomic_load(&http->coming_cost_ns), 0);
    assert_int_equal(thread->gate.waiting.count + thread->gate.reading.count, 0);
    assert_int_equal(thread->gate.waiting.bytes + thread->gate.reading.bytes, 0);
    free(http);
    return 0;
}

static bool enter(int i, size_t bytes)
{
    exchanges[i]->body_announced = bytes;
    exchanges[i]->outlook.cost_ns = INT64_C(1000) * (i + 1);
    const bool is_in = http_gate_enter(exchanges[i]);
    assert_int_equal(is_in, !suspended[i]);
    return is_in;
}

static void test_short_bodies_pass(void **state)
{
    (void)state;
    assert_true(enter(0, LARGE));
    assert_false(enter(1, LARGE));
    assert_true(enter(2, 0));
    assert_true(enter(3, SHORT));
    assert_false(enter(4, SHORT + 1));
    exchanges[5]->is_chunked = true;
    assert_false(enter(5, 0));
    assert_int_equal(atomic_load(&http->coming_count), 4);
    assert_int_equal(atomic_load(&http->coming_cost_ns), 1000 * (1 + 2 + 5 + 6));
}

static void test_turns_come_in_order(void **state)
{
    (void)state;
    assert_true(enter(0, HALF));
    assert_true(enter(1, HALF));
    assert_false(enter(2, LARGE));
    assert_false(enter(3, SHORT + 1));
    assert_false(enter(4, HALF));
    assert_int_equal(http_gate_ms(thread, 1000), 1);
    http_gate_run(thread);
    assert_int_equal(resumed_count, 0);
    http_gate_leave(exchanges[1]);
    assert_int_equal(http_gate_ms(thread, 1000), 0);
    http_gate_run(thread);
    assert_int_equal(resumed_count, 1);
    assert_int_equal(resumed[0], 2);
    assert_true(exchanges[2]->called && exchanges[2]->gate == HTTP_GATE_PLACE);
    assert_true(exchanges[2]->body_deadline_ns == now_ns + http->options.body_timeout_ns);
    /* Half a place of room is not enough for the next body: the whole length of a body counts
     * while it is read. */
    http_gate_leave(exchanges[0]);
    http_gate_run(thread);
    assert_int_equal(resumed_count, 1);
    assert_false(enter(5, SHORT + 1)); /* nobody passes those that wait */
    http_gate_leave(exchanges[2]);
    http_gate_run(thread);
    assert_int_equal(resumed_count, 4);
    for (int i = 1; i < 4; i++)
        assert_int_equal(resumed[i], i + 2);
    assert_int_equal(http_gate_ms(thread, 1000), 1000);
}

static void test_outlook(void **state)
{
    (void)state;
    exchanges[0]->body_announced = LARGE;
    http_gate_look(exchanges[0]);
    assert_int_equal(exchanges[0]->outlook.bytes, LARGE);
    assert_int_equal(exchanges[0]->outlook.wait_ns, 0);
    assert_int_equal(exchanges[0]->outlook.others_count, 0);
    assert_true(enter(0, LARGE));
    assert_false(enter(1, LARGE));
    now_ns += 3 * MS;
    http_gate_look(exchanges[2]);
    assert_true(exchanges[2]->outlook.wait_ns == 3 * MS);
    assert_int_equal(exchanges[2]->outlook.others_count, 2);
    assert_int_equal(exchanges[2]->outlook.others_cost_ns, 3000);
    assert_false(exchanges[2]->outlook.is_counted);
    http_gate_call(exchanges[1]);
    http_gate_look(exchanges[1]);
    assert_true(exchanges[1]->outlook.is_counted);
    assert_int_equal(exchanges[1]->outlook.others_count, 0);
    assert_int_equal(exchanges[1]->outlook.wait_ns, 0);
}

/* A body that sends nothing loses its room, but only if the gate looked at it meanwhile. */
static void test_silent_bodies(void **state)
{
    (void)state;
    assert_true(enter(0, LARGE));
    assert_false(enter(1, LARGE));
    now_ns += 2 * MS;
    http_gate_run(thread);
    assert_int_equal(resumed_count, 0);
    http_gate_flow(exchanges[0]);
    now_ns += 2 * MS;
    http_gate_run(thread);
    http_gate_run(thread);
    assert_int_equal(resumed_count, 0);
    http_gate_run(thread);
    assert_int_equal(resumed_count, 1);
    assert_int_equal(exchanges[0]->gate, HTTP_GATE_NONE);
    assert_int_equal(atomic_load(&http->coming_count), 1);
    http_gate_flow(exchanges[0]); /* is read all the same */
    assert_int_equal(exchanges[0]->gate, HTTP_GATE_NONE);
}

static void test_endless_bodies(void **state)
{
    (void)state;
    assert_true(enter(0, LARGE));
    assert_false(enter(1, LARGE));
    for (int i = 0; i < 20; i++) {
        now_ns += MS;
        http_gate_flow(exchanges[0]);
        http_gate_run(thread);
    }
    assert_int_equal(resumed_count, 0);
    now_ns += 1;
    http_gate_run(thread);
    assert_int_equal(resumed_count, 1);
    assert_int_equal(exchanges[0]->gate, HTTP_GATE_NONE);
}

/* Exchanges are called or leave out of turn, and leave without ever being called. */
static void test_leaving(void **state)
{
    (void)state;
    assert_true(enter(0, LARGE));
    for (int i = 1; i < 5; i++)
        assert_false(enter(i, LARGE));
    http_gate_call(exchanges[3]);
    assert_int_equal(http_gate_ms(thread, 1000), 0);
    assert_int_equal(resumed[0], 3);
    http_gate_leave(exchanges[2]);
    http_gate_leave(exchanges[0]);
    http_gate_leave(exchanges[3]);
    http_gate_leave(exchanges[3]);
    assert_int_equal(atomic_load(&http->coming_count), 2);
    http_gate_run(thread);
    assert_int_equal(resumed_count, 2);
    assert_int_equal(resumed[1], 1);
    http_gate_end(thread);
    assert_int_equal(resumed_count, 3);
    assert_int_equal(resumed[2], 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_short_bodies_pass, setup, teardown),
        cmocka_unit_test_setup_teardown(test_turns_come_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_outlook, setup, teardown),
        cmocka_unit_test_setup_teardown(test_silent_bodies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_endless_bodies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leaving, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
