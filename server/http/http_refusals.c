/* http_refusals.c - how fast requests are refused.
 *
 * A refusal costs a connection thread about half of what a small answer costs, and a client that
 * does not obey Retry-After sends its next request at once. So a thousand connections that are
 * refused would keep the connection threads from everything else: from bodies that have been let
 * in, from workers that share their CPUs, and from other clients.
 *
 * So refusals wait for their turn, with their bodies unread and their connections suspended:
 *
 * - A key, or where there is none an address, is refused OWNER_PER_S times a second, and
 *   OWNER_AHEAD_MS ahead of that rate. Further refusals get the times that follow, HOLD_MS later at
 *   most.
 * - A connection thread makes TURN_MAX refusals in a turn, the earliest first, and TURN_BUSY_MAX
 *   while bodies that have been let in wait to be read. In between it reads what others send.
 * - In a daemon without keys all clients may have the address of one balancer, and after a burst
 *   the queue is empty the sooner, the faster it is refused what it has no room for. There the
 *   times are an order alone, and no refusal waits for its own.
 *
 * Only refusals wait here, and not those for a deadline, whose clients have little time. The state
 * is bounded: a table of fixed size, in which two owners may share a place, which makes their
 * refusals later, and HELD_MAX refusals of a thread; it refuses at once what comes beyond. */
#include "http/http_internal.h"

#include "base/clock.h"

#include <stdlib.h>

enum {
    OWNER_PER_S = 2000,
    OWNER_AHEAD_MS = 100,
    HOLD_MS = 100,     /* longer ones would take up the connections that clients may have */
    TURN_MAX = 32,     /* twice as many bodies of 64 KiB as are read in turn (http_body_queue.c) */
    TURN_BUSY_MAX = 4, /* while bodies wait to be read: their answers come first */
    HELD_MAX = 1024,   /* of a thread: libmicrohttpd looks at all that are suspended, each time
                          that it resumes one */
    ROOM_FIRST = 64,   /* of the heap */
    BODY_KEPT = 16384, /* a refused request that holds a longer body does not wait */
};

#define MS INT64_C(1000000)

static bool goes_before(const void *left, const void *right)
{
    const struct exchange *a = left, *b = right;
    return a->refused_due_ns < b->refused_due_ns;
}

static int64_t *place(void *exchange)
{
    return &((struct exchange *)exchange)->refused_place;
}

static const struct heap_order by_due = { goes_before, place };

/* ------------------------------------------------------------ when it is due -- */

static _Atomic int64_t *owner_of(const struct exchange *exchange)
{
    struct http *http = exchange->thread->http;
    const uint64_t of_key = (uint64_t)(uintptr_t)exchange_quota(exchange);
    const uint64_t number = of_key ? of_key : http_connection_of(exchange->connection)->peer;
    return &http->refused_paid_ns[number * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

/* Takes the next time of the owner (the generic cell rate algorithm, ITU-T I.371). */
static int64_t take_due_ns(const struct exchange *exchange, int64_t now_ns)
{
    _Atomic int64_t *paid = owner_of(exchange);
    const int64_t earliest_ns = now_ns - OWNER_AHEAD_MS * MS, latest_ns = now_ns + HOLD_MS * MS;
    int64_t paid_ns = atomic_load(paid), due_ns;
    do {
        due_ns = (paid_ns > earliest_ns ? paid_ns : earliest_ns) + 1000 * MS / OWNER_PER_S;
        due_ns = due_ns < latest_ns ? due_ns : latest_ns;
    } while (!atomic_compare_exchange_weak(paid, &paid_ns, due_ns));
    return due_ns;
}

static bool is_due(const struct exchange *exchange, int64_t now_ns)
{
    return exchange->refused_due_ns <= now_ns || !exchange->thread->http->options.keys;
}

/* Whether the thread may make one more refusal in this turn. */
static bool turn_has_room(const struct http_thread *thread)
{
    return thread->refusals.in_turn < (thread->bodies.waiting.count > 0 ? TURN_BUSY_MAX : TURN_MAX);
}

/* ------------------------------------------------------------- one refusal -- */

static bool may_wait(const struct exchange *exchange)
{
    const enum fault_code code = exchange->answered ? exchange->record.fault : exchange->fault.code;
    return !exchange->was_held && http_is_refusal(code) && code != FAULT_DEADLINE
           && !(exchange->body && exchange->body_capacity > BODY_KEPT)
           && !atomic_load(&exchange->thread->http->draining_since_ns);
}

/* False: there are too many. */
static bool put(struct exchange *exchange)
{
    struct heap *held = &exchange->thread->refusals.held;
    if (held->count >= HELD_MAX || !heap_reserve(held, held->count + 1, ROOM_FIRST))
        return false;
    exchange->refused_place = -1;
    heap_put(held, by_due, exchange);
    exchange->is_held = true;
    http_waiting_remove(exchange);
    exchange_leave_quota(exchange); /* its place is free for requests that may be taken */
    return true;
}

bool http_refusals_hold(struct exchange *exchange)
{
    struct http_refusals *refusals = &exchange->thread->refusals;
    if (!may_wait(exchange))
        return false;
    const int64_t now_ns = clock_now_ns();
    exchange->was_held = true;
    exchange->refused_due_ns = take_due_ns(exchange, now_ns);
    if (is_due(exchange, now_ns) && turn_has_room(exchange->thread)) {
        refusals->in_turn++;
        return false;
    }
    if (!put(exchange))
        return false;
    MHD_suspend_connection(exchange->connection);
    return true;
}

/* Has the exchange go on. */
static void resume(struct exchange *exchange)
{
    exchange->called = !exchange->answered;
    exchange->body_deadline_ns = clock_now_ns() + exchange->thread->http->options.body_timeout_ns;
    MHD_resume_connection(exchange->connection);
}

void http_refusals_take(struct exchange *exchange)
{
    exchange->was_held = true;
    exchange->refused_due_ns = take_due_ns(exchange, clock_now_ns());
    if (!put(exchange))
        resume(exchange);
}

void http_refusals_release(struct exchange *exchange)
{
    heap_remove(&exchange->thread->refusals.held, by_due, exchange);
    exchange->is_held = false;
    resume(exchange);
}

/* -------------------------------------------------------------- one thread -- */

void http_refusals_run(struct http_thread *thread)
{
    struct http_refusals *refusals = &thread->refusals;
    refusals->in_turn = 0;
    if (refusals->held.count == 0)
        return;
    const bool drains = atomic_load(&thread->http->draining_since_ns);
    const int64_t now_ns = clock_now_ns();
    for (struct exchange *first; (first = heap_first(&refusals->held))
                                 && (drains || (is_due(first, now_ns) && turn_has_room(thread)));
         refusals->in_turn++)
        http_refusals_release(first);
}

int http_refusals_ms(const struct http_thread *thread, int most_ms)
{
    const struct exchange *first = heap_first(&thread->refusals.held);
    if (!first)
        return most_ms;
    const int64_t now_ns = clock_now_ns(), left_ns = first->refused_due_ns - now_ns;
    if (is_due(first, now_ns) || atomic_load(&thread->http->draining_since_ns))
        return 0;
    return left_ns / MS + 1 < most_ms ? (int)(left_ns / MS + 1) : most_ms;
}

void http_refusals_end(struct http_thread *thread)
{
    for (struct exchange *first; (first = heap_first(&thread->refusals.held));)
        http_refusals_release(first);
    heap_free(&thread->refusals.held);
}
