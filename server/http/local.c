/* SPDX-License-Identifier: Apache-2.0 */
/* local.c - see local.h. */
#include "http/local.h"

#include "base/clock.h"
#include "http/exchange.h"
#include "json/text.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct local {
    void *context;
    size_t body_bytes_max;
    int metrics_index;
    pthread_mutex_t mutex;
    pthread_cond_t came;
    struct exchange *first, **last; /* under the mutex: answered, by next_answered */
};

struct local *local_create(void *context, size_t body_bytes_max, int metrics_index)
{
    struct local *local = calloc(1, sizeof *local);
    if (!local)
        return NULL;
    local->context = context;
    local->body_bytes_max = body_bytes_max;
    local->metrics_index = metrics_index;
    local->last = &local->first;
    pthread_mutex_init(&local->mutex, NULL);
    clock_init_condition(&local->came);
    return local;
}

void local_free(struct local *local)
{
    if (!local)
        return;
    pthread_cond_destroy(&local->came);
    pthread_mutex_destroy(&local->mutex);
    free(local);
}

static void put_answered(struct exchange *exchange)
{
    struct local *local = exchange->local;
    pthread_mutex_lock(&local->mutex);
    exchange->next_answered = NULL;
    *local->last = exchange;
    local->last = &exchange->next_answered;
    pthread_cond_signal(&local->came);
    pthread_mutex_unlock(&local->mutex);
}

struct exchange *local_open(struct local *local, const struct local_request *request,
                            struct fault *fault)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return NULL;
    exchange->local = local;
    exchange->local_answered = put_answered;
    exchange->local_owner = request->owner;
    exchange->context = local->context;
    exchange->record.route = local->metrics_index;
    exchange->started_ns = clock_now_ns();
    exchange->headers.values[HTTP_HEADER_CONTENT_TYPE] = "application/json";
    exchange->headers.values[HTTP_HEADER_ACCEPT] = request->accept;
    text_copy(exchange->method, sizeof exchange->method, request->method);
    text_copy(exchange->path, sizeof exchange->path, request->path);
    exchange_set_request_id(exchange, request->id);
    if (strcmp(exchange->request_id, request->id) != 0)
        exchange_set_request_id(exchange, request->other_id);
    exchange->body_announced = request->body.size;
    if (request->body.size > 0)
        exchange_receive(exchange, request->body.data, request->body.size, local->body_bytes_max);
    memory_body_is_whole(&exchange->memory);
    *fault = exchange->fault;
    return exchange;
}

/* One that its handler has parked has its answer put there when it comes. */
void local_handled(struct exchange *exchange)
{
    if (!exchange->parked)
        put_answered(exchange);
}

bool local_next(struct local *local, int64_t deadline_ns, struct local_answer *answer)
{
    const struct timespec until = clock_timespec(deadline_ns);
    int error = 0;
    pthread_mutex_lock(&local->mutex);
    while (!local->first && error == 0)
        error = pthread_cond_timedwait(&local->came, &local->mutex, &until);
    struct exchange *exchange = local->first;
    if (exchange)
        local->first = exchange->next_answered;
    if (!local->first)
        local->last = &local->first;
    pthread_mutex_unlock(&local->mutex);
    if (!exchange)
        return false;
    const struct exchange_answer *given = &exchange->answer;
    exchange->local_whole = (struct byte_slice){ given->data, given->size };
    *answer = (struct local_answer){
        .exchange = exchange,
        .owner = exchange->local_owner,
        .status = given->status,
        .code = exchange->record.fault,
        .content_type = given->content_type,
        .request_id = exchange->request_id,
        .parts = given->parts ? given->parts : &exchange->local_whole,
        .part_count = given->parts ? given->part_count : 1,
    };
    return true;
}

void local_end(const struct local_answer *answer)
{
    exchange_settle(answer->exchange, true);
    exchange_free(answer->exchange);
}
