/* http_gate.c - long bodies one after another.
 *
 * libmicrohttpd reads a piece of every body that there is, in turn. So the bodies of many clients
 * end late and all at once, those too whose clients give up meanwhile, and nothing counts them
 * before. Here each connection thread reads a few at a time, and the others wait in the order in
 * which they came, unread in the kernel's buffers, with no memory of ours. What waits or is read
 * counts with what has been read (struct body_outlook), so that a client whose request could not be
 * done in its time is told at once; and whether it still can is asked again when its turn has come.
 *
 * Who sends slowly, or very much, holds up nobody: a body of which nothing came for a while, or
 * that is not there after a longer one, gives its place up, and is read beside the others from then
 * on. */
#include "http/http_internal.h"

#include "base/clock.h"
#include "watch/metrics.h"

#include <limits.h>
#include <sys/socket.h>

enum {
    LONG_BYTES = 16 * 1024,    /* what is no longer comes with its headers, or nearly so */
    ROOM_BYTES = 1024 * 1024,  /* of bodies that are read; one is, whatever its length */
    UNKNOWN_BYTES = 64 * 1024, /* one without a Content-Length counts as this */
    WINDOW_BYTES = 64 * 1024,  /* that the kernel takes of a new connection before any is read */
    PLACE_MS = 20,             /* for which a body has a place at the most */
    SILENCE_MS = 1,            /* after which, */
    SILENCE_ROUNDS = 2, /* and so many vain attempts to read it, a body has no place any more */
};

#define MS INT64_C(1000000)

/* ------------------------------------------------------------------ queues -- */

static size_t bytes_of(const struct exchange *exchange)
{
    return exchange->body_announced ? exchange->body_announced : UNKNOWN_BYTES;
}

static bool has_room(const struct http_gate *gate)
{
    return gate->reading.bytes < ROOM_BYTES;
}

static void append(struct http_queue *queue, struct exchange *exchange)
{
    LIST_APPEND(&queue->list, exchange, at_gate);
    queue->count++;
    queue->bytes += bytes_of(exchange);
}

static void take_out(struct http_queue *queue, struct exchange *exchange)
{
    LIST_TAKE_OUT(&queue->list, exchange, at_gate);
    queue->count--;
    queue->bytes -= bytes_of(exchange);
}

/* In the sums of all threads, while it waits or has a place. */
static void count(struct exchange *exchange, int sign)
{
    struct http *http = exchange->thread->http;
    atomic_fetch_add(&http->coming_count, sign);
    atomic_fetch_add(&http->coming_cost_ns, sign * exchange->gate_cost_ns);
}

static void take_place(struct exchange *exchange)
{
    exchange->gate = HTTP_GATE_PLACE;
    exchange->gate_since_ns = exchange->flowed_ns = clock_now_ns();
    exchange->silent_rounds = 0;
    append(&exchange->thread->gate.reading, exchange);
}

static void stop_waiting(struct exchange *exchange)
{
    take_out(&exchange->thread->gate.waiting, exchange);
    metrics_gauge_add(METRICS_BODIES_WAITING, -1);
}

/* --------------------------------------------------------------- one body -- */

void http_gate_look(struct exchange *exchange)
{
    const struct http_thread *thread = exchange->thread;
    const struct http_gate *gate = &thread->gate;
    struct body_outlook *outlook = &exchange->outlook;
    const bool is_known = exchange->called;
    outlook->bytes = exchange->body_announced;
    outlook->is_counted = is_known;
    outlook->others_count = is_known ? 0 : atomic_load(&thread->http->coming_count);
    outlook->others_cost_ns = is_known ? 0 : atomic_load(&thread->http->coming_cost_ns);
    const struct exchange *first = gate->waiting.list.first;
    outlook->wait_ns = first && !is_known ? clock_now_ns() - first->gate_since_ns : 0;
}

bool http_gate_enter(struct exchange *exchange)
{
    struct http_gate *gate = &exchange->thread->gate;
    if (exchange->body_announced <= LONG_BYTES && !exchange->is_chunked)
        return true;
    exchange->gate_cost_ns = exchange->outlook.cost_ns;
    count(exchange, 1);
    if (gate->waiting.count == 0 && has_room(gate)) {
        take_place(exchange);
        return true;
    }
    exchange->gate = HTTP_GATE_WAITS;
    exchange->gate_since_ns = clock_now_ns();
    append(&gate->waiting, exchange);
    metrics_gauge_add(METRICS_BODIES_WAITING, 1);
    MHD_suspend_connection(exchange->connection);
    return false;
}

void http_gate_call(struct exchange *exchange)
{
    struct http_thread *thread = exchange->thread;
    stop_waiting(exchange);
    take_place(exchange);
    exchange->body_deadline_ns = exchange->gate_since_ns + thread->http->options.body_timeout_ns;
    exchange->called = thread->gate.called = true;
    MHD_resume_connection(exchange->connection);
}

/* The kernel begins a connection with a window of 64 KB and opens it step by step as that is read.
 * A bound below which nobody is woken makes it open the window at once, as far as it would ever
 * (tcp(7), SO_RCVLOWAT), and does not close it again when it is taken back. */
void http_gate_open_window(const struct exchange *exchange)
{
    struct http_connection *connection = http_connection_of(exchange->connection);
    const size_t bytes = exchange->body_announced;
    const int wanted = bytes < INT_MAX ? (int)bytes : INT_MAX, one = 1;
    if (bytes <= WINDOW_BYTES || bytes <= connection->window_bytes)
        return;
    connection->window_bytes = bytes;
    setsockopt(connection->socket, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted);
    setsockopt(connection->socket, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
}

void http_gate_flow(struct exchange *exchange)
{
    if (exchange->gate != HTTP_GATE_PLACE)
        return;
    exchange->flowed_ns = clock_now_ns();
    exchange->silent_rounds = 0;
}

void http_gate_leave(struct exchange *exchange)
{
    if (exchange->gate == HTTP_GATE_NONE)
        return;
    if (exchange->gate == HTTP_GATE_WAITS)
        stop_waiting(exchange);
    else
        take_out(&exchange->thread->gate.reading, exchange);
    count(exchange, -1);
    exchange->gate = HTTP_GATE_NONE;
}

/* -------------------------------------------------------------- one thread -- */

static bool loses_place(struct exchange *exchange, int64_t now_ns)
{
    const bool is_silent = ++exchange->silent_rounds > SILENCE_ROUNDS
                           && now_ns - exchange->flowed_ns > SILENCE_MS * MS;
    return is_silent || now_ns - exchange->gate_since_ns > PLACE_MS * MS;
}

void http_gate_run(struct http_thread *thread)
{
    struct http_gate *gate = &thread->gate;
    gate->called = false; /* who has been, goes on now */
    if (gate->waiting.count == 0)
        return;
    const int64_t now_ns = clock_now_ns();
    for (struct exchange *exchange = gate->reading.list.first, *next;
         exchange && gate->waiting.count > 0; exchange = next) {
        next = exchange->at_gate.next;
        if (loses_place(exchange, now_ns))
            http_gate_leave(exchange);
    }
    while (gate->waiting.count > 0 && has_room(gate))
        http_gate_call(gate->waiting.list.first);
    gate->called = false;
}

int http_gate_ms(const struct http_thread *thread, int most_ms)
{
    const struct http_gate *gate = &thread->gate;
    if (gate->called || (gate->waiting.count > 0 && has_room(gate)))
        return 0;
    if (gate->waiting.count == 0)
        return most_ms;
    return most_ms < SILENCE_MS ? most_ms : SILENCE_MS;
}

void http_gate_end(struct http_thread *thread)
{
    while (thread->gate.waiting.count > 0)
        http_gate_call(thread->gate.waiting.list.first);
}
