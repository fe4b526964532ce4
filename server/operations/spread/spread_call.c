/* SPDX-License-Identifier: Apache-2.0 */
/* spread_call.c - see spread_call.h: the order of a call, and its steps. spread_steps.h has what
 * each step asks and takes. */
#include "operations/spread/spread_call.h"

#include "base/clock.h"
#include "operations/session/session_store.h"
#include "operations/spread/spread_steps.h"
#include "telemetry/trace_context.h"

#include <inttypes.h>
#include <stdio.h>

static const struct call_order spread_call_order;

struct spread_call *spread_call_of(const struct call *call)
{
    return call->order_state;
}

/* ------------------------------------------------------------------- reading -- */

/* The peers' logs and spans have the request's id and the client's trace. */
static void note_ids(struct spread_call *own, const struct exchange *exchange)
{
    struct trace_context context = { .flags = 0 };
    const char *trace = exchange_header(exchange, HTTP_HEADER_TRACEPARENT);
    int used = snprintf(own->headers, sizeof own->headers, "X-Request-Id: %s\r\n",
                        exchange_request_id(exchange));
    if (trace_context_read(&context, trace))
        snprintf(own->headers + used, sizeof own->headers - (size_t)used, "traceparent: %.55s\r\n",
                 trace);
}

bool spread_call_begin(struct call *call, struct session *session, const struct exchange *exchange,
                       struct fault *fault)
{
    struct spread_call *own = arena_calloc(&call->arena, 1, sizeof *own);
    if (!own) {
        session_release(session);
        return fault_no_memory(fault);
    }
    call->order = &spread_call_order;
    call->order_state = own;
    own->session = session;
    own->at = -1;
    own->ticket.session = session;
    own->wait.lines = spread_home_lines(spread_of(session)->home);
    own->wait.scheduler = call->service->scheduler;
    own->wait.job = &call->job;
    note_ids(own, exchange);
    own->turn = (struct session_turn){ .scheduler = call->service->scheduler,
                                       .job = &call->job,
                                       .tickets = &own->ticket,
                                       .count = 1 };
    session_turn_take(&own->turn);
    return true;
}

/* The heads of rows, from their own axis or as they are said. */
static struct session_shape shape_of(const struct infer_item *item, enum attn_dtype dtype)
{
    const struct array *query = &item->query, *key = &item->key, *value = &item->value;
    const int64_t said = item->kv_heads > 0                ? item->kv_heads
                         : query->data && query->rank == 3 ? query->shape[0]
                         : item->q_heads > 0               ? item->q_heads
                                                           : 1;
    const int64_t heads = key->rank == 3 ? key->shape[0] : said;
    if (heads == 0)
        return (struct session_shape){ .kv_heads = 0 };
    return (struct session_shape){
        .kv_heads = heads,
        .head_dim = key->rank == 3 ? key->shape[2] : key->shape[1] / heads,
        .v_head_dim = value->rank == 3 ? value->shape[2] : value->shape[1] / heads,
        .dtype = dtype,
    };
}

bool spread_call_settle(struct call *call, struct infer_item *item, struct fault *fault)
{
    struct spread_call *own = spread_call_of(call);
    int64_t value_rows = 0;
    item->model = model_retain(own->session->model);
    own->asked = *item;
    if (!item->key.data)
        return true;
    if (item->key.dtype == ATTN_F64 || item->value.dtype == ATTN_F64)
        return fault_set_at(fault, item->key.dtype == ATTN_F64 ? "/key" : "/value", FAULT_DTYPE,
                            "%s is F64; a session takes F32, F16 or BF16",
                            item->key.dtype == ATTN_F64 ? "key" : "value");
    if (!spread_rows_count(&item->key, "key", &own->rows, fault)
        || !spread_rows_count(&item->value, "value", &value_rows, fault))
        return false;
    if (own->rows > 0 && own->rows == value_rows)
        own->shape = shape_of(item, own->session->dtype);
    return own->rows == value_rows
           || fault_set_at(fault, "/value", FAULT_SHAPE,
                           "value has %" PRId64 " rows; key has %" PRId64, value_rows, own->rows);
}

void spread_call_drop(struct call *call)
{
    struct spread_call *own = spread_call_of(call);
    if (!own)
        return;
    spread_steps_leave(call, own);
    session_turn_leave(&own->turn);
    session_release(own->session);
    call->order_state = NULL;
}

/* --------------------------------------------------------------------- the order -- */

static bool call_is_turn(struct call *call)
{
    struct spread_call *own = spread_call_of(call);
    return own->step == SPREAD_TURN ? session_turn_has_come(&own->turn)
                                    : spread_wait_is_over(&own->wait);
}

/* Peers answer a little before the call's own deadline, so that their silence can be said. */
static void set_deadline(struct call *call, struct spread_call *own)
{
    enum { PART = 16, MOST_NS = 500000000 };
    const int64_t now_ns = clock_now_ns(), left_ns = call->job.deadline_ns - now_ns;
    const int64_t margin_ns = left_ns / PART < MOST_NS ? left_ns / PART : MOST_NS;
    own->deadline_ns = call->job.deadline_ns - margin_ns;
}

static bool wrong_place(const struct spread_call *own, struct fault *fault)
{
    return fault_set_at(fault, "/at", FAULT_CONFLICT,
                        "at is %" PRId64 "; layer 0 of session '%s' has %" PRId64 " keys", own->at,
                        own->session->id, spread_of(own->session)->length);
}

/* Each peer checks its own ranges alone. */
static bool fits_shape(const struct spread_call *own, struct fault *fault)
{
    const struct session_shape *one = &own->shape, *there = &spread_of(own->session)->shape;
    if (one->kv_heads == 0 || there->kv_heads == 0
        || (one->kv_heads == there->kv_heads && one->head_dim == there->head_dim
            && one->v_head_dim == there->v_head_dim))
        return true;
    return fault_set_at(fault, "/key", FAULT_SHAPE,
                        "key and value have %" PRId64 " heads of %" PRId64 " and %" PRId64
                        " columns; those of session '%s' have %" PRId64 " of %" PRId64
                        " and %" PRId64,
                        one->kv_heads, one->head_dim, one->v_head_dim, own->session->id,
                        there->kv_heads, there->head_dim, there->v_head_dim);
}

/* In its turn: where the rows go, and which keys the query sees. */
static bool settle_place(struct call *call, struct spread_call *own, struct fault *fault)
{
    const struct session *session = own->session;
    const int64_t length = spread_of(session)->length;
    if (!session_store_check(session, fault))
        return false;
    if (own->at > length)
        return wrong_place(own, fault);
    if (!fits_shape(own, fault))
        return false;
    own->base = own->at < 0 ? length : own->at;
    own->total = own->base + own->rows;
    if (own->base < length && own->rows > 0 && own->total > length)
        return wrong_place(own, fault);
    if (own->total > session->kv_len_max)
        return fault_set_at(fault, "/key", FAULT_CONFLICT,
                            "%" PRId64 " keys behind %" PRId64 " are more than the kv_len_max "
                            "%" PRId64 " of session '%s'",
                            own->rows, own->base, session->kv_len_max, session->id);
    if (!own->has_past_len)
        own->asked.past_len = own->base;
    set_deadline(call, own);
    own->batch = (struct spread_batch){ .spread = spread_of(session),
                                        .asked = &own->asked,
                                        .arena = &call->arena };
    return true;
}

/* False without a fault: peers were asked, and this is called again when they have answered. */
static bool call_prepare(struct call *call, struct fault *fault)
{
    struct spread_call *own = spread_call_of(call);
    const bool is_done = own->step == SPREAD_ASK;
    bool again = false;
    if (!(own->step == SPREAD_TURN ? settle_place(call, own, fault)
                                   : spread_steps_take(call, own, &again, fault)))
        return false;
    if (is_done && !again)
        return spread_steps_merge(call, own, fault);
    spread_steps_send(call, own, fault);
    return false;
}

static bool call_check(struct call *call, struct fault *fault)
{
    const struct spread_call *own = spread_call_of(call);
    struct session_layer *layer = &own->session->layers[0];
    (void)fault;
    layer->kv_len_then =
        own->total > spread_of(own->session)->length ? own->total : spread_of(own->session)->length;
    return true;
}

static void call_end(struct call *call, const struct fault *fault)
{
    struct spread_call *own = spread_call_of(call);
    if (!own)
        return;
    struct spread *spread = spread_of(own->session);
    struct session_layer *layer = &own->session->layers[0];
    spread_steps_leave(call, own);
    for (int64_t i = 0; own->was_asked && fault->code != FAULT_NONE && i < own->piece_count; i++)
        spread_set_unsure(spread, own->pieces[i].range, true);
    if (own->was_asked && fault->code == FAULT_NONE) {
        spread_has(spread, own->total);
        if (own->rows > 0)
            spread->shape = own->shape;
    }
    layer->kv_len_then = spread->length;
    atomic_store(&layer->kv_len, spread->length);
    session_touch(own->session);
    spread_call_drop(call);
}

static const struct call_order spread_call_order = {
    .is_turn = call_is_turn, .prepare = call_prepare, .check = call_check, .end = call_end
};
