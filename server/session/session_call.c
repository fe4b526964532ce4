/* session_call.c - see session_call.h. */
#include "session/session_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct session_call *of(const struct infer_call *call)
{
    return call->state;
}

/* ------------------------------------------------------------- the steps of a call -- */

static bool open_cache(struct infer_cache *cache, const struct attn_layer *layer, int64_t rows,
                       const struct attn_layer_cache **view, struct fault *fault);

bool session_call_make(struct infer_call *call, struct session_store *store, struct fault *fault)
{
    struct infer_request *request = &call->request;
    struct session_call *own = of(call);
    own->steps = arena_calloc(&request->arena, (size_t)request->item_count, sizeof *own->steps);
    if (!own->steps && request->item_count > 0)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < request->item_count; i++) {
        own->steps[i] = (struct session_step){
            .cache.open = open_cache, .appends = true, .at = SESSION_AT_NONE, .store = store
        };
        request->items[i].cache = &own->steps[i].cache;
    }
    return true;
}

static bool has_ticket(const struct session_turn *turn, const struct session *session)
{
    for (int64_t i = 0; i < turn->count; i++)
        if (turn->tickets[i].session == session)
            return true;
    return false;
}

bool session_call_take_turn(struct infer_call *call, struct fault *fault)
{
    struct session_call *own = of(call);
    struct session_turn *turn = &own->turn;
    const int64_t count = call->request.item_count;
    turn->scheduler = call->base.service->scheduler;
    turn->job = &call->base.job;
    turn->tickets = arena_calloc(&call->request.arena, (size_t)count, sizeof *turn->tickets);
    if (!turn->tickets && count > 0)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < count; i++)
        if (!has_ticket(turn, own->steps[i].session))
            turn->tickets[turn->count++].session = own->steps[i].session;
    session_turn_take(turn);
    return true;
}

void session_call_drop(struct infer_call *call)
{
    struct session_call *own = of(call);
    if (!own)
        return;
    session_turn_leave(&own->turn);
    for (int64_t i = 0; own->steps && i < call->request.item_count; i++) {
        session_release(own->steps[i].session);
        own->steps[i].session = NULL;
    }
}

void session_call_point(const struct infer_call *call, const char *list, struct fault *fault)
{
    char place[64];
    for (int64_t i = 0; i < call->request.item_count; i++)
        if (call->request.items[i].fault.code != FAULT_NONE) {
            snprintf(place, sizeof place, "%s/%" PRId64, list, i);
            fault_prefix_pointer(fault, place);
            return;
        }
}

/* --------------------------------------------------------------- in its turn -- */

static bool is_turn(struct infer_call *call)
{
    return session_turn_has_come(&of(call)->turn);
}

static bool find_layer(struct session_step *step, const struct infer_item *item,
                       struct fault *fault)
{
    step->layer = session_layer_of(step->session, item->layer_index);
    return step->layer
           || fault_set_at(fault, "/layer", FAULT_NOT_FOUND,
                           "layer %" PRId64 " is not one of session '%s'", item->layer_index,
                           step->session->id);
}

/* Each layer once: the rows of one layer belong in one step. */
static bool is_alone(const struct session_call *own, int64_t number, struct fault *fault)
{
    for (int64_t i = 0; i < number; i++)
        if (own->steps[i].layer && own->steps[i].layer == own->steps[number].layer)
            return fault_set_at(fault, "/layer", FAULT_DUPLICATE,
                                "layer %" PRId64 " of session '%s' is in two steps; send its rows "
                                "in one",
                                own->steps[number].layer->number, own->steps[number].session->id);
    return true;
}

static bool prepare_step(struct session_call *own, int64_t number, struct infer_item *item,
                         struct fault *fault)
{
    struct session_step *step = &own->steps[number];
    if (!session_store_check(step->session, fault) || !find_layer(step, item, fault)
        || !is_alone(own, number, fault))
        return false;
    const int64_t length = step->layer->rows.length;
    if (step->at > length)
        return fault_set_at(fault, "/at", FAULT_CONFLICT,
                            "at is %" PRId64 "; layer %" PRId64 " of session '%s' has %" PRId64
                            " keys",
                            step->at, step->layer->number, step->session->id, length);
    step->cache.length = step->at == SESSION_AT_NONE ? length : step->at;
    if (!step->has_past_len)
        item->past_len = step->cache.length;
    return true;
}

static bool prepare(struct infer_call *call, struct fault *fault)
{
    struct infer_request *request = &call->request;
    for (int64_t i = 0; i < request->item_count; i++) {
        struct infer_item *item = &request->items[i];
        if (item->fault.code != FAULT_NONE || prepare_step(of(call), i, item, &item->fault))
            continue;
        if (!request->batch) {
            *fault = item->fault;
            return false;
        }
    }
    return true;
}

/* -------------------------------------------------------------------- the caches -- */

static bool fits_shape(const struct session_step *step, const struct attn_layer *layer,
                       struct fault *fault)
{
    const struct session_shape *shape = &step->layer->rows.shape;
    if (shape->kv_heads == 0
        || (shape->kv_heads == layer->kv_heads && shape->head_dim == layer->head_dim
            && shape->v_head_dim == layer->v_head_dim))
        return true;
    return fault_set_at(fault, "/key", FAULT_SHAPE,
                        "key and value have %" PRId64 " heads of %" PRId64 " and %" PRId64
                        " columns; those of session '%s' have %" PRId64 " of %" PRId64
                        " and %" PRId64,
                        layer->kv_heads, layer->head_dim, layer->v_head_dim, step->session->id,
                        shape->kv_heads, shape->head_dim, shape->v_head_dim);
}

static bool fits_length(const struct session_step *step, int64_t rows, struct fault *fault)
{
    const int64_t most = step->session->kv_len_max;
    if (step->cache.length <= most && rows <= most - step->cache.length)
        return true;
    return fault_set(fault, FAULT_CONFLICT,
                     "%" PRId64 " keys behind %" PRId64 " are more than the kv_len_max %" PRId64
                     " of session '%s'",
                     rows, step->cache.length, most, step->session->id);
}

/* The rows before a place that is filled already, with their end for what is appended there. */
static bool begin_retry(struct session_step *step, int64_t rows, struct fault *fault)
{
    const struct session_rows *there = &step->layer->rows;
    if (step->appends && step->cache.length + rows > there->length)
        return fault_set_at(fault, "/at", FAULT_CONFLICT,
                            "at is %" PRId64 "; layer %" PRId64 " of session '%s' has %" PRId64
                            " keys",
                            step->at, step->layer->number, step->session->id, there->length);
    if (!session_rows_fork(there, &step->retry))
        return fault_no_memory(fault);
    session_rows_truncate(&step->retry, step->cache.length);
    step->rows = &step->retry;
    return true;
}

/* Where memory is short, sessions that were made evictable make room. */
static bool begin_rows(struct session_step *step, int64_t rows, struct fault *fault)
{
    struct session_budget *budget = session_store_budget(step->store);
    while (!session_rows_begin(step->rows, budget, rows, fault))
        if (fault->code != FAULT_MEMORY || !session_store_evict(step->store))
            return false;
    fault->code = FAULT_NONE;
    return true;
}

static bool open_cache(struct infer_cache *cache, const struct attn_layer *layer, int64_t rows,
                       const struct attn_layer_cache **view, struct fault *fault)
{
    struct session_step *step = (struct session_step *)cache;
    if (!fits_shape(step, layer, fault) || (step->appends && !fits_length(step, rows, fault)))
        return false;
    step->rows = &step->layer->rows;
    if (step->rows->shape.kv_heads == 0)
        step->rows->shape = (struct session_shape){ layer->kv_heads, layer->head_dim,
                                                    layer->v_head_dim, step->session->dtype };
    const bool is_behind = step->cache.length < step->layer->rows.length;
    if (is_behind && !begin_retry(step, rows, fault))
        return false;
    if (!begin_rows(step, rows, fault))
        return false;
    *view = &step->rows->cache;
    return true;
}

/* ------------------------------------------------------------------------ the end -- */

/* Whether what a retry appended is what is there. */
static bool is_the_same(const struct session_step *step)
{
    const struct session_rows *there = &step->layer->rows;
    return session_rows_equal(&step->retry, there, step->cache.length,
                              step->cache.length + step->retry.appended);
}

static void end_step(struct session_step *step, bool is_good, struct fault *fault)
{
    const bool is_retry = step->rows == &step->retry;
    if (!step->rows)
        return;
    if (is_retry && step->appends && is_good && !is_the_same(step))
        fault_set_at(fault, "/at", FAULT_CONFLICT,
                     "other keys and values are at %" PRId64 " of layer %" PRId64
                     " of session '%s', which has %" PRId64 " keys",
                     step->at, step->layer->number, step->session->id, step->layer->rows.length);
    session_rows_end(step->rows, is_good && step->appends && !is_retry);
    if (is_retry)
        session_rows_free(&step->retry);
    if (step->layer->rows.length == 0)
        step->layer->rows.shape.kv_heads = 0; /* the next append may have another shape */
    step->rows = NULL;
    step->kv_len = step->layer->rows.length;
    session_layer_show(step->layer);
}

static void end(struct infer_call *call, struct fault *fault)
{
    struct infer_request *request = &call->request;
    struct session_call *own = of(call);
    for (int64_t i = 0; own->steps && i < request->item_count; i++) {
        struct fault *item_fault = request->batch ? &request->items[i].fault : fault;
        const bool is_good = fault->code == FAULT_NONE && item_fault->code == FAULT_NONE;
        end_step(&own->steps[i], is_good, item_fault);
    }
    session_turn_leave(&own->turn);
}

const struct infer_order session_call_order = { is_turn, prepare, end };
