/* SPDX-License-Identifier: Apache-2.0 */
/* http_body_queue.c - whether the body of a request is read, and when.
 *
 * Refusals. libmicrohttpd can only close a connection whose request body it has not read, and the
 * client's next request then needs a new connection. To end one and make another costs more than to
 * read a short body that lies in the kernel's buffer already, and to drop it. So a refused request
 * with such a body has it read, beside all other bodies, and the client gets its answer on a
 * connection that stays open. The daemon does not wait for a refused body that is longer, or of
 * which the greater part has still to come.
 *
 * Turns. libmicrohttpd reads a piece of every body at hand, in turn. So the bodies of many clients
 * end late and all at once, even those whose clients have given up meanwhile, and no estimate
 * counts them before they end. Here each connection thread reads a few long bodies at a time. The
 * others wait in the order in which they came, unread in the kernel's buffers, and take none of the
 * daemon's memory. Bodies that wait or are being read count as work to come (struct body_outlook),
 * so that a client whose request cannot be done in its time is told at once. The route is asked
 * again when the turn of the body has come, for the time may be too short by then.
 *
 * Overload. Where more comes than can be done, a queue in the order of arrival makes every client
 * wait, until the answers are of no use to anybody, and it stays so long after a burst. So where
 * the queue is full, the newest body takes the place of the oldest, if that one has waited for
 * LATE_MS. Without keys, from then on until the oldest is not late, the newest body goes first, and
 * a body that has waited for WAIT_MS is refused: the queue is bounded by age (adaptive LIFO and
 * controlled delay: Maurer, "Fail at Scale", ACM Queue 13:8, 2015). With keys the order stays,
 * since the newest bodies could all be those of one key.
 *
 * A client that sends slowly, or very much, holds up no other. A body gives its place up when
 * nothing of it came for a while, or when it is not whole after a longer while; from then on it is
 * read beside the others. */
#include "http/http_internal.h"

#include "access/access_key.h"
#include "base/clock.h"
#include "telemetry/metrics.h"

#include <limits.h>
#include <sys/socket.h>

enum {
    DROPPED_BYTES_MAX = 128 * 1024, /* to read more takes as long as to make a connection */
    BUFFER_BYTES = 8 * 1024,        /* that libmicrohttpd may have read of a body by now */
};

enum {
    LONG_BYTES = 16 * 1024,    /* a shorter body comes with its headers, or soon after */
    ROOM_BYTES = 1024 * 1024,  /* a body gets a place while fewer bytes than this have one */
    UNKNOWN_BYTES = 64 * 1024, /* that a chunked body counts for */
    WINDOW_BYTES = 64 * 1024,  /* that the kernel takes of a new connection before any is read */
    PLACE_MS = 20,             /* that a body keeps its place at most */
    SILENCE_MS = 1,            /* a body loses its place when nothing came for this time */
    SILENCE_ROUNDS = 2,        /* and in more than so many runs of its thread */
};

enum {
    LATE_MS = 100,  /* from which on the oldest body gives its place to the newest */
    WAIT_MS = 1000, /* the longest wait of a body while the newest goes first */
    LOOKS_MAX = 16, /* bodies that are looked at for one that gives its place */
};

#define MS INT64_C(1000000)

/* --------------------------------------------------------------- refusals -- */

bool http_is_refused_by_key(const struct exchange *exchange)
{
    const enum fault_code code = exchange->fault.code;
    return code == FAULT_KEY || code == FAULT_SCOPE || code == FAULT_QUOTA;
}

bool http_is_refusal(enum fault_code code)
{
    switch (code) {
    case FAULT_FORBIDDEN:
    case FAULT_MEMORY:
    case FAULT_OVERLOADED:
    case FAULT_DEADLINE:
    case FAULT_KEY:
    case FAULT_SCOPE:
    case FAULT_QUOTA:
        return true;
    default:
        return false;
    }
}

bool http_is_refused(const struct exchange *exchange)
{
    return http_is_refusal(exchange->fault.code);
}

/* Whether three quarters of the body lie in the buffers of the kernel, of GnuTLS and of
 * libmicrohttpd. Three quarters are enough: the kernel takes 63 KB of a new connection before
 * anything is read, and then the rest of the body waits only for the first bytes to be read. */
static bool has_come(const struct exchange *exchange)
{
    size_t waiting_bytes = 0;
    if (exchange_header(exchange, HTTP_HEADER_EXPECT)
        || !http_connection_unread(http_connection_of(exchange->connection), &waiting_bytes))
        return false;
    return exchange->body_announced / 4 * 3 <= waiting_bytes + BUFFER_BYTES;
}

bool http_is_before_body(const struct exchange *exchange)
{
    if (http_is_refused(exchange))
        return exchange->is_chunked || exchange->body_announced > DROPPED_BYTES_MAX
               || !has_come(exchange);
    switch (exchange->fault.code) {
    case FAULT_TOO_LARGE:
        return true;
    case FAULT_DRAINING:
        return exchange->body_announced > 0;
    default:
        return !exchange->is_framed;
    }
}

/* ------------------------------------------------------------------ queues -- */

static size_t bytes_of(const struct exchange *exchange)
{
    return exchange->is_chunked ? UNKNOWN_BYTES : exchange->body_announced;
}

static bool has_room(const struct http_body_queue *bodies)
{
    return bodies->reading.bytes < ROOM_BYTES;
}

static void append(struct http_queue *queue, struct exchange *exchange)
{
    LIST_APPEND(&queue->list, exchange, in_body_queue);
    queue->count++;
    queue->bytes += bytes_of(exchange);
}

static void take_out(struct http_queue *queue, struct exchange *exchange)
{
    LIST_TAKE_OUT(&queue->list, exchange, in_body_queue);
    queue->count--;
    queue->bytes -= bytes_of(exchange);
}

/* Adds a body to the sums of all threads and of its share (sign 1) or takes it out (-1). It counts
 * there while it waits or has a place. */
static void count(struct exchange *exchange, int sign)
{
    struct http *http = exchange->thread->http;
    atomic_fetch_add(&http->coming_count, sign);
    atomic_fetch_add(&http->coming_cost_ns, sign * exchange->body_cost_ns);
    struct job_share *share = access_key_share(exchange->key);
    if (!share)
        return;
    atomic_fetch_add(&share->coming_count, sign);
    atomic_fetch_add(&share->coming_cost_ns, sign * exchange->body_cost_ns);
}

static void take_place(struct exchange *exchange)
{
    exchange->body_state = HTTP_BODY_PLACE;
    exchange->body_since_ns = exchange->flowed_ns = clock_now_ns();
    exchange->silent_rounds = 0;
    append(&exchange->thread->bodies.reading, exchange);
}

static void stop_waiting(struct exchange *exchange)
{
    take_out(&exchange->thread->bodies.waiting, exchange);
    metrics_gauge_add(METRICS_BODIES_WAITING, -1);
}

/* ---------------------------------------------------------------- overload -- */

static int64_t oldest_wait_ns(const struct http_body_queue *bodies, int64_t now_ns)
{
    const struct exchange *oldest = bodies->waiting.list.first;
    return oldest ? now_ns - oldest->body_since_ns : 0;
}

/* Whether the newest body goes first: the queue was full, and the oldest is late ever since. */
static bool newest_goes_first(const struct http_body_queue *bodies, int64_t now_ns)
{
    return bodies->full.code != FAULT_NONE && oldest_wait_ns(bodies, now_ns) > LATE_MS * MS;
}

/* Takes a waiting body from the body queue, with the fault that refuses it. */
static struct exchange *refuse(struct exchange *exchange, const struct fault *fault)
{
    exchange->fault = *fault;
    http_body_queue_leave(exchange);
    return exchange;
}

/* The first of the oldest bodies that may give its place to this one: it is of the same key, and
 * its place is not much too small. */
static struct exchange *find_late(const struct exchange *newest, int64_t now_ns)
{
    struct exchange *oldest = newest->thread->bodies.waiting.list.first;
    for (int looks = 0; oldest && looks < LOOKS_MAX; looks++, oldest = oldest->in_body_queue.next) {
        if (now_ns - oldest->body_since_ns <= LATE_MS * MS)
            return NULL;
        if (oldest->key == newest->key && oldest->body_cost_ns >= newest->outlook.cost_ns / 2)
            return oldest;
    }
    return NULL;
}

struct exchange *http_body_queue_displace(struct exchange *newest)
{
    struct http_body_queue *bodies = &newest->thread->bodies;
    const int64_t now_ns = clock_now_ns();
    if (newest->fault.code != FAULT_OVERLOADED)
        return NULL;
    if (!newest->thread->http->options.keys)
        bodies->full = newest->fault;
    struct exchange *oldest = find_late(newest, now_ns);
    if (!oldest)
        return NULL;
    refuse(oldest, &newest->fault);
    newest->fault.code = FAULT_NONE;
    return oldest;
}

struct exchange *http_body_queue_expire(struct http_thread *thread)
{
    struct http_body_queue *bodies = &thread->bodies;
    const int64_t now_ns = clock_now_ns();
    if (!newest_goes_first(bodies, now_ns))
        bodies->full.code = FAULT_NONE;
    if (bodies->full.code == FAULT_NONE || oldest_wait_ns(bodies, now_ns) <= WAIT_MS * MS)
        return NULL;
    metrics_refused("overloaded");
    return refuse(bodies->waiting.list.first, &bodies->full);
}

/* --------------------------------------------------------------- one body -- */

/* Takes the places of bodies of which nothing comes any more, and of those that have had theirs for
 * long: they are read all the same, but do not count as work to come. */
static void end_idle_places(struct http_body_queue *bodies)
{
    const int64_t now_ns = clock_now_ns();
    for (struct exchange *exchange = bodies->reading.list.first, *next; exchange; exchange = next) {
        next = exchange->in_body_queue.next;
        if (now_ns - exchange->flowed_ns > PLACE_MS * MS
            || now_ns - exchange->body_since_ns > WAIT_MS * MS)
            http_body_queue_leave(exchange);
    }
}

void http_body_queue_look(struct exchange *exchange)
{
    const struct http_thread *thread = exchange->thread;
    struct http_body_queue *bodies = &exchange->thread->bodies;
    struct body_outlook *outlook = &exchange->outlook;
    const bool is_known = exchange->body_state != HTTP_BODY_NONE;
    outlook->bytes = bytes_of(exchange);
    if (outlook->bytes > LONG_BYTES && !is_known)
        end_idle_places(bodies);
    outlook->is_counted = is_known;
    outlook->others_count = is_known ? 0 : atomic_load(&thread->http->coming_count);
    outlook->others_cost_ns = is_known ? 0 : atomic_load(&thread->http->coming_cost_ns);
    const struct job_share *share = is_known ? NULL : access_key_share(exchange->key);
    outlook->own_count = share ? atomic_load(&share->coming_count) : 0;
    outlook->own_cost_ns = share ? atomic_load(&share->coming_cost_ns) : 0;
    const int64_t now_ns = clock_now_ns();
    outlook->wait_ns =
        is_known || newest_goes_first(bodies, now_ns) ? 0 : oldest_wait_ns(bodies, now_ns);
}

bool http_body_queue_enter(struct exchange *exchange)
{
    struct http_body_queue *bodies = &exchange->thread->bodies;
    if (exchange->body_announced <= LONG_BYTES && !exchange->is_chunked)
        return true;
    exchange->body_cost_ns = exchange->outlook.cost_ns;
    count(exchange, 1);
    if (bodies->waiting.count == 0 && has_room(bodies)) {
        take_place(exchange);
        return true;
    }
    exchange->body_state = HTTP_BODY_WAITS;
    exchange->body_since_ns = clock_now_ns();
    append(&bodies->waiting, exchange);
    metrics_gauge_add(METRICS_BODIES_WAITING, 1);
    MHD_suspend_connection(exchange->connection);
    return false;
}

void http_body_queue_call(struct exchange *exchange)
{
    struct http_thread *thread = exchange->thread;
    stop_waiting(exchange);
    take_place(exchange);
    exchange->body_deadline_ns = exchange->body_since_ns + thread->http->options.body_timeout_ns;
    exchange->called = thread->bodies.called = true;
    MHD_resume_connection(exchange->connection);
}

/* The kernel begins a connection with a receive window of 64 KB and opens it step by step as the
 * bytes are read. SO_RCVLOWAT, the least number of bytes that wakes a reader (tcp(7)), makes the
 * kernel open the window at once, as far as it ever would. The window stays open when the option is
 * set back to one byte. */
void http_body_queue_open_window(const struct exchange *exchange)
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

void http_body_queue_flow(struct exchange *exchange)
{
    if (exchange->body_state != HTTP_BODY_PLACE)
        return;
    exchange->flowed_ns = clock_now_ns();
    exchange->silent_rounds = 0;
}

void http_body_queue_leave(struct exchange *exchange)
{
    if (exchange->body_state == HTTP_BODY_NONE)
        return;
    if (exchange->body_state == HTTP_BODY_WAITS)
        stop_waiting(exchange);
    else
        take_out(&exchange->thread->bodies.reading, exchange);
    count(exchange, -1);
    exchange->body_state = HTTP_BODY_NONE;
}

/* -------------------------------------------------------------- one thread -- */

static bool loses_place(struct exchange *exchange, int64_t now_ns)
{
    const bool is_silent = ++exchange->silent_rounds > SILENCE_ROUNDS
                           && now_ns - exchange->flowed_ns > SILENCE_MS * MS;
    return is_silent || now_ns - exchange->body_since_ns > PLACE_MS * MS;
}

void http_body_queue_run(struct http_thread *thread)
{
    struct http_body_queue *bodies = &thread->bodies;
    bodies->called = false; /* exchanges called before this run go on in it */
    if (bodies->waiting.count == 0)
        return;
    const int64_t now_ns = clock_now_ns();
    for (struct exchange *exchange = bodies->reading.list.first, *next;
         exchange && bodies->waiting.count > 0; exchange = next) {
        next = exchange->in_body_queue.next;
        if (loses_place(exchange, now_ns))
            http_body_queue_leave(exchange);
    }
    while (bodies->waiting.count > 0 && has_room(bodies))
        http_body_queue_call(newest_goes_first(bodies, now_ns) ? bodies->waiting.list.last
                                                               : bodies->waiting.list.first);
    bodies->called = false;
}

int http_body_queue_ms(const struct http_thread *thread, int most_ms)
{
    const struct http_body_queue *bodies = &thread->bodies;
    if (bodies->called || (bodies->waiting.count > 0 && has_room(bodies)))
        return 0;
    if (bodies->waiting.count == 0)
        return most_ms;
    return most_ms < SILENCE_MS ? most_ms : SILENCE_MS;
}

void http_body_queue_end(struct http_thread *thread)
{
    while (thread->bodies.waiting.count > 0)
        http_body_queue_call(thread->bodies.waiting.list.first);
}
