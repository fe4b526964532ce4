/* SPDX-License-Identifier: Apache-2.0 */
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
 * - A connection that is refused CONNECTION_AHEAD times without a pause rests from then on: it is
 *   refused again REST_MS after the time before, and nothing of it is read meanwhile. So a client
 *   that tries again at once, on one connection after each answer, takes next to nothing from
 *   others, and a client that obeys Retry-After never waits for this.
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
    HOLD_MS = 100,         /* longer ones would take up the connections that clients may have */
    REST_MS = 10,          /* of a connection, for each refusal */
    CONNECTION_AHEAD = 16, /* refusals of a connection that has not been refused for a while */
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

static bool rests_shorter(const void *left, const void *right)
{
    const struct exchange *a = left, *b = right;
    return a->rests_until_ns < b->rests_until_ns;
}

static const struct heap_order by_rest = { rests_shorter, place };

/* ------------------------------------------------------------ when it is due -- */

static _Atomic int64_t *owner_of(const struct exchange *exchange)
{
    struct http *http = exchange->thread->http;
    const uint64_t of_key = (uint64_t)(uintptr_t)exchange_quota(exchange);
    const uint64_t number = of_key ? of_key : http_connection_of(exchange->connection)->peer;
    return &http->refused_paid_ns[number * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

/* Takes the next time of the connection, up to which it rests (the generic cell rate algorithm,
 * ITU-T I.371). */
static int64_t take_rest_ns(const struct exchange *exchange, int64_t now_ns)
{
    int64_t *paid_ns = &http_connection_of(exchange->connection)->refused_paid_ns;
    const int64_t earliest_ns = now_ns - (int64_t)CONNECTION_AHEAD * REST_MS * MS;
    *paid_ns = (*paid_ns > earliest_ns ? *paid_ns : earliest_ns) + REST_MS * MS;
    return *paid_ns;
}

/* The same of the owner. */
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

/* Both heaps have room for all that wait, so that an exchange can go from one to the other. False:
 * there are too many. */
static bool put(struct exchange *exchange, int64_t now_ns)
{
    struct http_refusals *refusals = &exchange->thread->refusals;
    const int64_t count = refusals->held.count + refusals->resting.count;
    if (count >= HELD_MAX || !heap_reserve(&refusals->held, count + 1, ROOM_FIRST)
        || !heap_reserve(&refusals->resting, count + 1, ROOM_FIRST))
        return false;
    exchange->refused_place = -1;
    exchange->rests = exchange->rests_until_ns > now_ns;
    if (exchange->rests)
        heap_put(&refusals->resting, by_rest, exchange);
    else
        heap_put(&refusals->held, by_due, exchange);
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
    exchange->rests_until_ns = take_rest_ns(exchange, now_ns);
    if (exchange->rests_until_ns <= now_ns && is_due(exchange, now_ns)
        && turn_has_room(exchange->thread)) {
        refusals->in_turn++;
        return false;
    }
    if (!put(exchange, now_ns))
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
    const int64_t now_ns = clock_now_ns();
    exchange->was_held = true;
    exchange->refused_due_ns = take_due_ns(exchange, now_ns);
    if (!put(exchange, now_ns))
        resume(exchange);
}

void http_refusals_release(struct exchange *exchange)
{
    struct http_refusals *refusals = &exchange->thread->refusals;
    if (exchange->rests)
        heap_remove(&refusals->resting, by_rest, exchange);
    else
        heap_remove(&refusals->held, by_due, exchange);
    exchange->is_held = false;
    resume(exchange);
}

/* -------------------------------------------------------------- one thread -- */

/* Those that have rested wait for their turn. */
static void end_rests(struct http_refusals *refusals, bool all, int64_t now_ns)
{
    for (struct exchange *first;
         (first = heap_first(&refusals->resting)) && (all || first->rests_until_ns <= now_ns);) {
        heap_remove(&refusals->resting, by_rest, first);
        first->rests = false;
        heap_put(&refusals->held, by_due, first);
    }
}

void http_refusals_run(struct http_thread *thread)
{
    struct http_refusals *refusals = &thread->refusals;
    refusals->in_turn = 0;
    if (refusals->held.count + refusals->resting.count == 0)
        return;
    const bool drains = atomic_load(&thread->http->draining_since_ns);
    const int64_t now_ns = clock_now_ns();
    end_rests(refusals, drains, now_ns);
    for (struct exchange *first; (first = heap_first(&refusals->held))
                                 && (drains || (is_due(first, now_ns) && turn_has_room(thread)));
         refusals->in_turn++)
        http_refusals_release(first);
}

/* Until a time, of most_ms. */
static int wait_ms(int64_t until_ns, int64_t now_ns, int most_ms)
{
    const int64_t left_ms = until_ns > now_ns ? (until_ns - now_ns) / MS + 1 : 0;
    return left_ms < most_ms ? (int)left_ms : most_ms;
}

int http_refusals_ms(const struct http_thread *thread, int most_ms)
{
    const struct exchange *rested = heap_first(&thread->refusals.resting);
    const struct exchange *held = heap_first(&thread->refusals.held);
    if (!rested && !held)
        return most_ms;
    const int64_t now_ns = clock_now_ns();
    if ((held && is_due(held, now_ns)) || atomic_load(&thread->http->draining_since_ns))
        return 0;
    if (rested)
        most_ms = wait_ms(rested->rests_until_ns, now_ns, most_ms);
    return held ? wait_ms(held->refused_due_ns, now_ns, most_ms) : most_ms;
}

void http_refusals_end(struct http_thread *thread)
{
    end_rests(&thread->refusals, true, 0);
    for (struct exchange *first; (first = heap_first(&thread->refusals.held));)
        http_refusals_release(first);
    heap_free(&thread->refusals.held);
    heap_free(&thread->refusals.resting);
}
