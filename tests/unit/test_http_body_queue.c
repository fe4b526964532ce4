/* SPDX-License-Identifier: Apache-2.0 */
/* The order of long bodies, the room that they have, and which of them loses it. The test itself
 * plays the clock and the part of libmicrohttpd. */
#include "access/access_account.h"
#include "http/http_internal.h"
#include "test.h"

#include <time.h>

enum { COUNT = 2048, LARGE = 1 << 20, SHORT = 16 * 1024, HALF = LARGE / 2 };

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
    resumed[resumed_count++ % COUNT] = number_of(connection);
}

static int setup(void **state)
{
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
    for (int i = 0; i < COUNT; i++) {
        http_body_queue_leave(exchanges[i]);
        free(exchanges[i]);
    }
    assert_int_equal(atomic_load(&http->coming_count), 0);
    assert_int_equal(atomic_load(&http->coming_cost_ns), 0);
    assert_int_equal(thread->bodies.waiting.count + thread->bodies.reading.count, 0);
    assert_int_equal(thread->bodies.waiting.bytes + thread->bodies.reading.bytes, 0);
    free(http);
    return 0;
}

static bool enter(int i, size_t bytes)
{
    exchanges[i]->body_announced = bytes;
    exchanges[i]->outlook.cost_ns = INT64_C(1000) * (i + 1);
    const bool is_in = http_body_queue_enter(exchanges[i]);
    assert_int_equal(is_in, !suspended[i]);
    return is_in;
}

TEST(short_bodies_pass)
{
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

TEST(turns_come_in_order)
{
    assert_true(enter(0, HALF));
    assert_true(enter(1, HALF));
    assert_false(enter(2, LARGE));
    assert_false(enter(3, SHORT + 1));
    assert_false(enter(4, HALF));
    assert_int_equal(http_body_queue_ms(thread, 1000), 1);
    http_body_queue_run(thread);
    assert_int_equal(resumed_count, 0);
    http_body_queue_leave(exchanges[1]);
    assert_int_equal(http_body_queue_ms(thread, 1000), 0);
    http_body_queue_run(thread);
    assert_int_equal(resumed_count, 1);
    assert_int_equal(resumed[0], 2);
    assert_true(exchanges[2]->called && exchanges[2]->body_state == HTTP_BODY_PLACE);
    assert_true(exchanges[2]->body_deadline_ns == now_ns + http->options.body_timeout_ns);
    /* Half a place of room is not enough for the next body: the whole length of a body counts
     * while it is read. */
    http_body_queue_leave(exchanges[0]);
    http_body_queue_run(thread);
    assert_int_equal(resumed_count, 1);
    assert_false(enter(5, SHORT + 1)); /* nobody passes those that wait */
    http_body_queue_leave(exchanges[2]);
    http_body_queue_run(thread);
    assert_int_equal(resumed_count, 4);
    for (int i = 1; i < 4; i++)
        assert_int_equal(resumed[i], i + 2);
    assert_int_equal(http_body_queue_ms(thread, 1000), 1000);
}

TEST(outlook)
{
    exchanges[0]->body_announced = LARGE;
    http_body_queue_look(exchanges[0]);
    assert_int_equal(exchanges[0]->outlook.bytes, LARGE);
    assert_int_equal(exchanges[0]->outlook.wait_ns, 0);
    assert_int_equal(exchanges[0]->outlook.others_count, 0);
    assert_true(enter(0, LARGE));
    assert_false(enter(1, LARGE));
    now_ns += 3 * MS;
    http_body_queue_look(exchanges[2]);
    assert_true(exchanges[2]->outlook.wait_ns == 3 * MS);
    assert_int_equal(exchanges[2]->outlook.others_count, 2);
    assert_int_equal(exchanges[2]->outlook.others_cost_ns, 3000);
    assert_false(exchanges[2]->outlook.is_counted);
    http_body_queue_call(exchanges[1]);
    exchanges[1]->called = false; /* as it is when it goes on */
    http_body_queue_look(exchanges[1]);
    assert_true(exchanges[1]->outlook.is_counted);
    assert_int_equal(exchanges[1]->outlook.others_count, 0);
    assert_int_equal(exchanges[1]->outlook.wait_ns, 0);
    http_body_queue_leave(exchanges[1]); /* it counts no more, so it sees others as they are */
    http_body_queue_look(exchanges[1]);
    assert_false(exchanges[1]->outlook.is_counted);
    assert_int_equal(exchanges[1]->outlook.others_count, 1);
}

/* A body that sends nothing loses its room, but only if the body queue looked at it meanwhile. */
TEST(silent_bodies)
{
    assert_true(enter(0, LARGE));
    assert_false(enter(1, LARGE));
    now_ns += 2 * MS;
    http_body_queue_run(thread);
    assert_int_equal(resumed_count, 0);
    http_body_queue_flow(exchanges[0]);
    now_ns += 2 * MS;
    http_body_queue_run(thread);
    http_body_queue_run(thread);
    assert_int_equal(resumed_count, 0);
    http_body_queue_run(thread);
    assert_int_equal(resumed_count, 1);
    assert_int_equal(exchanges[0]->body_state, HTTP_BODY_NONE);
    assert_int_equal(atomic_load(&http->coming_count), 1);
    http_body_queue_flow(exchanges[0]); /* is read all the same */
    assert_int_equal(exchanges[0]->body_state, HTTP_BODY_NONE);
}

TEST(endless_bodies)
{
    assert_true(enter(0, LARGE));
    assert_false(enter(1, LARGE));
    for (int i = 0; i < 20; i++) {
        now_ns += MS;
        http_body_queue_flow(exchanges[0]);
        http_body_queue_run(thread);
    }
    assert_int_equal(resumed_count, 0);
    now_ns += 1;
    http_body_queue_run(thread);
    assert_int_equal(resumed_count, 1);
    assert_int_equal(exchanges[0]->body_state, HTTP_BODY_NONE);
}

/* Exchanges are called or leave out of turn, and leave without ever being called. */
TEST(leaving)
{
    assert_true(enter(0, LARGE));
    for (int i = 1; i < 5; i++)
        assert_false(enter(i, LARGE));
    http_body_queue_call(exchanges[3]);
    assert_int_equal(http_body_queue_ms(thread, 1000), 0);
    assert_int_equal(resumed[0], 3);
    http_body_queue_leave(exchanges[2]);
    http_body_queue_leave(exchanges[0]);
    http_body_queue_leave(exchanges[3]);
    http_body_queue_leave(exchanges[3]);
    assert_int_equal(atomic_load(&http->coming_count), 2);
    http_body_queue_run(thread);
    assert_int_equal(resumed_count, 2);
    assert_int_equal(resumed[1], 1);
    http_body_queue_end(thread);
    assert_int_equal(resumed_count, 3);
    assert_int_equal(resumed[2], 4);
}

/* Bodies of which nothing comes do not count beside one that comes, also where none waits; nor do
 * those that come for long. */
TEST(idle_bodies_do_not_count)
{
    for (int i = 0; i < 4; i++)
        assert_true(enter(i, SHORT + 1));
    exchanges[5]->body_announced = LARGE;
    exchanges[6]->body_announced = SHORT;
    now_ns += 20 * MS;
    http_body_queue_look(exchanges[5]);
    assert_int_equal(exchanges[5]->outlook.others_count, 4);
    now_ns += 1;
    http_body_queue_flow(exchanges[2]);
    http_body_queue_look(exchanges[6]); /* a short body is not judged by others */
    assert_int_equal(exchanges[6]->outlook.others_count, 4);
    http_body_queue_look(exchanges[5]);
    assert_int_equal(exchanges[5]->outlook.others_count, 1);
    for (int i = 0; i < 100; i++) {
        now_ns += 10 * MS;
        http_body_queue_flow(exchanges[2]);
    }
    http_body_queue_look(exchanges[5]);
    assert_int_equal(exchanges[5]->outlook.others_count, 0);
}

/* A chunked body is judged as one of 64 KiB. */
TEST(chunked_bodies_count)
{
    exchanges[0]->is_chunked = true;
    http_body_queue_look(exchanges[0]);
    assert_int_equal(exchanges[0]->outlook.bytes, 64 * 1024);
    assert_true(enter(0, 0));
    assert_int_equal(thread->bodies.reading.bytes, 64 * 1024);
    http_body_queue_look(exchanges[1]);
    assert_int_equal(exchanges[1]->outlook.bytes, 0);
    assert_int_equal(exchanges[1]->outlook.others_count, 1);
}

/* ---------------------------------------------------------------- overload -- */

/* Exchange i finds the queue full. Returns the number of the one that gives it its place, or -1. */
static int displace(int i)
{
    exchanges[i]->outlook.cost_ns = INT64_C(1000) * (i + 1);
    fault_set(&exchanges[i]->fault, FAULT_OVERLOADED, "full");
    const struct exchange *oldest = http_body_queue_displace(exchanges[i]);
    assert_int_equal(exchanges[i]->fault.code, oldest ? FAULT_NONE : FAULT_OVERLOADED);
    if (!oldest)
        return -1;
    assert_int_equal(oldest->fault.code, FAULT_OVERLOADED);
    assert_string_equal(oldest->fault.message, "full");
    assert_int_equal(oldest->body_state, HTTP_BODY_NONE);
    assert_true(suspended[number_of(oldest->connection)]);
    return number_of(oldest->connection);
}

TEST(newest_takes_place_of_oldest)
{
    assert_true(enter(0, LARGE));
    for (int i = 1; i < 5; i++)
        assert_false(enter(i, LARGE));
    now_ns += 100 * MS;
    assert_int_equal(displace(5), -1); /* none is late yet */
    now_ns += 1;
    assert_int_equal(displace(6), 3); /* those before are too small: the costs are i + 1 */
    assert_int_equal(displace(7), 4);
    assert_int_equal(displace(8), -1); /* too large for any */
    assert_int_equal(atomic_load(&http->coming_count), 3);
    fault_set(&exchanges[7]->fault, FAULT_MEMORY, "another fault");
    assert_null(http_body_queue_displace(exchanges[7]));
}

/* With keys a body takes the place of one of its own key, and the order stays. */
TEST(places_with_keys)
{
    static int keys;
    static struct access_account *account;
    static struct access_key key;
    http->options.keys = (struct access_keys *)&keys; /* not looked into */
    key.account = account = calloc(1, sizeof *account);
    assert_non_null(account);
    exchanges[2]->key = exchanges[4]->key = &key;
    assert_true(enter(0, LARGE));
    for (int i = 1; i < 4; i++)
        assert_false(enter(i, LARGE));
    now_ns += 2000 * MS;
    assert_int_equal(displace(4), 2);
    assert_null(http_body_queue_expire(thread));
    http_body_queue_leave(exchanges[0]);
    http_body_queue_run(thread);
    assert_int_equal(resumed[0], 1);
    exchanges[2]->key = exchanges[4]->key = NULL;
    free(account);
}

TEST(newest_goes_first)
{
    assert_true(enter(0, LARGE));
    for (int i = 1; i < 6; i++)
        assert_false(enter(i, LARGE));
    now_ns += 101 * MS;
    assert_int_equal(displace(9), 4);
    assert_null(http_body_queue_expire(thread));
    http_body_queue_look(exchanges[7]);
    assert_true(exchanges[7]->outlook.wait_ns == 0);
    http_body_queue_leave(exchanges[0]);
    http_body_queue_run(thread);
    http_body_queue_leave(exchanges[5]);
    http_body_queue_run(thread);
    assert_int_equal(resumed[0], 5);
    assert_int_equal(resumed[1], 3);
    now_ns += 900 * MS;
    assert_ptr_equal(http_body_queue_expire(thread), exchanges[1]);
    assert_ptr_equal(http_body_queue_expire(thread), exchanges[2]);
    assert_int_equal(exchanges[2]->fault.code, FAULT_OVERLOADED);
    assert_null(http_body_queue_expire(thread));
    /* The overload is over. */
    assert_false(enter(6, LARGE));
    assert_false(enter(7, LARGE));
    now_ns += 1001 * MS;
    assert_null(http_body_queue_expire(thread));
    http_body_queue_leave(exchanges[3]);
    http_body_queue_run(thread);
    assert_int_equal(resumed[2], 6);
}

/* A second of three times as many bodies as are read, and then four of four fifths of that. The
 * queue takes so many that to read them takes a second. */
enum { BURST_MS = 1000, CALM_MS = 4000, QUEUE_MAX = 1000 };

static int free_ones[COUNT], free_count;
static int64_t came_ms[COUNT];
static int good_of[BURST_MS + CALM_MS], came_in[BURST_MS + CALM_MS];

static void arrive(int ms)
{
    assert_true(free_count > 0);
    const int i = free_ones[--free_count];
    came_in[ms]++;
    came_ms[i] = ms;
    exchanges[i]->fault.code = FAULT_NONE;
    int full = -1;
    if (atomic_load(&http->coming_count) >= QUEUE_MAX) {
        fault_set(&exchanges[i]->fault, FAULT_OVERLOADED, "full");
        struct exchange *oldest = http_body_queue_displace(exchanges[i]);
        full = oldest ? number_of(oldest->connection) : i;
    }
    if (full != i) {
        exchanges[i]->body_announced = LARGE;
        good_of[ms] += http_body_queue_enter(exchanges[i]);
    }
    if (full >= 0) {
        suspended[full] = false;
        free_ones[free_count++] = full;
    }
}

/* Ends the body that is read, and calls the next. Returns how long that one waited. */
static int64_t read_one(void)
{
    for (struct exchange *expired; (expired = http_body_queue_expire(thread));) {
        suspended[number_of(expired->connection)] = false;
        free_ones[free_count++] = number_of(expired->connection);
    }
    struct exchange *reading = thread->bodies.reading.list.first;
    if (reading) {
        http_body_queue_leave(reading);
        free_ones[free_count++] = number_of(reading->connection);
    }
    resumed_count = 0;
    http_body_queue_run(thread);
    const struct exchange *next = thread->bodies.reading.list.first;
    const int64_t ms = now_ns / MS - 1000;
    if (!next)
        return 0;
    const int64_t wait_ms = ms - came_ms[number_of(next->connection)];
    good_of[came_ms[number_of(next->connection)]] += wait_ms <= 100;
    return wait_ms;
}

TEST(burst_is_over_soon)
{
    free_count = 0;
    for (int i = COUNT - 1; i >= 0; i--)
        free_ones[free_count++] = i;
    for (int ms = 0; ms < BURST_MS + CALM_MS; ms++, now_ns += MS) {
        const int count = ms < BURST_MS ? 3 : ms % 5 != 0;
        for (int i = 0; i < count; i++)
            arrive(ms);
        assert_in_range(read_one(), 0, 1001);
    }
    int came = 0, good = 0;
    for (int ms = BURST_MS; ms < BURST_MS + CALM_MS - 100; ms++) {
        came += came_in[ms];
        good += good_of[ms];
    }
    assert_true(good * 100 >= came * 95);
}

EACH_TEST(setup, teardown);

int main(void)
{
    return test_run(NULL);
}
