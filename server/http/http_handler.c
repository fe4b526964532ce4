/* SPDX-License-Identifier: Apache-2.0 */
/* http_handler.c - the handler of a request: run on the connection thread, and its answer taken.
 *
 * A handler replies before it returns, or it parks the exchange and some thread replies later. A
 * reply to a parked exchange goes through a list of its connection thread, under the mutex of that
 * thread, and the eventfd wakes the thread. */
#include "http/http_internal.h"

/* The exchange whose handler this thread runs; NULL between handlers. */
static _Thread_local const struct exchange *handled;

void http_exchange_answered(struct exchange *exchange)
{
    struct http_thread *thread = exchange->thread;
    if (!thread) {
        exchange->local_answered(exchange);
        return;
    }
    if (exchange == handled) {
        exchange->answered = true;
        return;
    }
    pthread_mutex_lock(&thread->mutex);
    const bool first = !thread->answered;
    exchange->next_answered = thread->answered;
    thread->answered = exchange;
    pthread_mutex_unlock(&thread->mutex);
    if (first)
        http_wake(thread);
}

/* Tells the owner of a parked exchange that no call of end() can come any more. */
static void release_owner(struct exchange *exchange)
{
    exchange->release(exchange->owner);
    exchange->release = NULL;
}

void http_resume_answered(struct http_thread *thread)
{
    pthread_mutex_lock(&thread->mutex);
    struct exchange *exchange = thread->answered;
    thread->answered = NULL;
    pthread_mutex_unlock(&thread->mutex);
    while (exchange) {
        struct exchange *next = exchange->next_answered;
        http_waiting_remove(exchange);
        release_owner(exchange);
        exchange->answered = true;
        MHD_resume_connection(exchange->connection);
        exchange = next;
    }
}

/* A parked exchange that was answered before its handler returned need not be suspended. Only the
 * connection thread reads and writes exchange->answered: other threads use the list. */
void http_handle(struct exchange *exchange)
{
    handled = exchange;
    exchange->route->handle(exchange);
    handled = NULL;
    exchange->thread->handled_count++;
    if (exchange->answered && exchange->parked) {
        exchange->parked = false;
        release_owner(exchange);
    }
}

/* What comes from no connection has no connection thread, and no turn. */

bool exchange_is_first(const struct exchange *exchange)
{
    return exchange->thread && exchange->thread->handled_count == 0;
}

int64_t exchange_turn_cost_ns(const struct exchange *exchange)
{
    return exchange->thread ? exchange->thread->turn_cost_ns : 0;
}

void exchange_add_turn_cost(const struct exchange *exchange, int64_t ns)
{
    if (exchange->thread)
        exchange->thread->turn_cost_ns += ns;
}

int exchange_thread_count(const struct exchange *exchange)
{
    return exchange->thread ? exchange->thread->http->thread_count : 0;
}
