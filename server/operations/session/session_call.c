/* SPDX-License-Identifier: Apache-2.0 */
/* session_call.c - rows of a session in a call: the layer and its cache, then the order of the
 * call. */
#include "operations/session/session_call.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

static bool open_cache(struct infer_cache *cache, const struct attn_layer *layer, int64_t rows,
                       const struct attn_layer_cache **view, struct fault *fault);
static bool open_state(struct infer_cache *cache, int64_t numbers, int64_t rows,
                       const float **before, float **after, struct fault *fault);

void session_step_init(struct session_step *step, struct session *session,
                       struct session_store *store)
{
    *step = (struct session_step){ .cache = { .open = open_cache, .open_state = open_state },
                                   .session = session ? session_hold(session) : NULL,
                                   .appends = true,
                                   .at = SESSION_AT_NONE,
                                   .store = store };
}

/* --------------------------------------------------------------- in its turn -- */

/* A layer is in one step of a call: its rows belong in one. */
static bool take_layer(struct session_step *step, struct infer_item *item, struct fault *fault)
{
    struct session *session = step->session;
    if (!step->has_layer && session->layer_count == 1)
        item->layer_index = session->layers[0].number;
    else if (!step->has_layer)
        return fault_set_at(fault, "/layer", FAULT_FIELD,
                            "layer is missing; session '%s' has %" PRId64 " layers", session->id,
                            session->layer_count);
    struct session_layer *layer = session_layer_of(session, item->layer_index);
    if (!layer)
        return fault_set_at(fault, "/layer", FAULT_NOT_FOUND,
                            "layer %" PRId64 " is not one of session '%s'", item->layer_index,
                            session->id);
    if (layer->shares && step->has_rows)
        return fault_set_at(fault, item->is_input ? "/input" : "/key", FAULT_OPTION,
                            "layer %" PRId64 " has the keys and values of layer %" PRId64
                            " of session '%s'; send a query alone",
                            layer->number, session->model->layers[layer->number].keys_of,
                            session->id);
    layer = session_layer_read(session, layer);
    if (layer->in_step)
        return fault_set_at(fault, "/layer", FAULT_DUPLICATE,
                            "layer %" PRId64
                            " of session '%s' is in two items of this call; send its "
                            "rows in one",
                            layer->number, session->id);
    layer->in_step = true;
    step->layer = layer;
    return true;
}

static bool wrong_place(const struct session_step *step, struct fault *fault)
{
    return fault_set_at(fault, "/at", FAULT_CONFLICT,
                        "at is %" PRId64 "; layer %" PRId64 " of session '%s' has %" PRId64 " keys",
                        step->at, step->layer->number, step->session->id, step->layer->rows.length);
}

/* A step without keys gets empty ones, in the heads of the session where they are not the model's
 * and are known. */
static void set_no_rows(const struct session_step *step, struct infer_item *item)
{
    static const float NONE;
    const struct session_shape *shape = &step->layer->rows.shape;
    item->key = item->value =
        (struct array){ .data = &NONE, .dtype = ATTN_F32, .rank = 1, .shape = { 0 } };
    if (!item->model->parameterless || shape->kv_heads == 0)
        return;
    item->key.rank = item->value.rank = 3;
    item->key.shape[0] = item->value.shape[0] = shape->kv_heads;
    item->key.shape[1] = item->value.shape[1] = 0;
    item->key.shape[2] = shape->head_dim;
    item->value.shape[2] = shape->v_head_dim;
}

/* What projections do not make floats of has to have a dtype of a cache. */
static bool takes_dtypes(const struct session_step *step, const struct infer_item *item,
                         struct fault *fault)
{
    const char *name = item->is_input ? "input" : item->key.data ? "key" : "query";
    enum attn_dtype dtype = item->key.data ? item->key.dtype : item->query.dtype;
    if (!step->has_rows || !item->model->parameterless)
        return true;
    if (dtype != ATTN_F64 && item->value.data) {
        name = "value";
        dtype = item->value.dtype;
    }
    char pointer[16];
    snprintf(pointer, sizeof pointer, "/%s", name);
    return dtype != ATTN_F64
           || fault_set_at(fault, pointer, FAULT_DTYPE,
                           "%s is F64; a session takes F32, F16 or BF16", name);
}

/* Keys that a session's window hides from the rows of the item. */
static bool hide(struct infer_cache *cache, const struct infer_item *item,
                 struct attn_masking *masking, struct fault *fault)
{
    const struct session_step *step = (const struct session_step *)cache;
    const int64_t past = item->past_len - item->masking.kv_offset;
    if (item->mask.data || item->has_selection)
        return fault_set_at(fault, item->has_selection ? "/select" : "/mask", FAULT_OPTION,
                            "session '%s' has a window, which does not go with %s",
                            step->session->id, item->has_selection ? "select" : "a mask");
    masking->first_keys = step->session->first_keys;
    masking->last_keys = step->session->window;
    return session_window_check(step->session, step->layer, step->rows, past,
                                step->has_past_len ? "/past_len" : "/at", fault);
}

bool session_step_prepare(struct session_step *step, struct infer_item *item, struct fault *fault)
{
    if (!session_store_check(step->session, fault) || !take_layer(step, item, fault))
        return false;
    const int64_t length = step->layer->rows.length;
    if (step->session->window > 0)
        step->cache.hide = hide;
    if (step->at > length)
        return wrong_place(step, fault);
    step->cache.length = step->at == SESSION_AT_NONE ? length : step->at;
    if (!step->has_past_len)
        item->past_len = step->cache.length;
    step->rows_pointer = item->is_input ? "/input" : item->key.data ? "/key" : "";
    if (!step->has_rows)
        set_no_rows(step, item);
    return takes_dtypes(step, item, fault);
}

/* --------------------------------------------------------------------- the cache -- */

static bool fits_shape(const struct session_step *step, const struct attn_layer *layer,
                       struct fault *fault)
{
    const struct session_shape *shape = &step->layer->rows.shape;
    if (shape->kv_heads == 0
        || (shape->kv_heads == layer->kv_heads && shape->head_dim == layer->head_dim
            && shape->v_head_dim == session_value_columns(layer, shape->dtype)))
        return true;
    return fault_set_at(
        fault, "/key", FAULT_SHAPE,
        "key and value have %" PRId64 " heads of %" PRId64 " and %" PRId64
        " columns; those of session '%s' have %" PRId64 " of %" PRId64 " and %" PRId64,
        layer->kv_heads, layer->head_dim, session_value_columns(layer, shape->dtype),
        step->session->id, shape->kv_heads, shape->head_dim, shape->v_head_dim);
}

static bool fits_length(const struct session_step *step, int64_t rows, struct fault *fault)
{
    const int64_t most = step->session->kv_len_max;
    if (step->cache.length <= most && rows <= most - step->cache.length)
        return true;
    return fault_set_at(fault, step->rows_pointer, FAULT_CONFLICT,
                        "%" PRId64 " keys behind %" PRId64 " are more than the kv_len_max %" PRId64
                        " of session '%s'",
                        rows, step->cache.length, most, step->session->id);
}

/* The rows before a place that is filled already, with their end for what is appended there. */
static bool begin_retry(struct session_step *step, int64_t rows, struct fault *fault)
{
    const struct session_rows *there = &step->layer->rows;
    if (step->appends && rows > there->length - step->cache.length)
        return wrong_place(step, fault);
    if (step->appends
        && !session_window_check_there(step->session, step->layer, step->cache.length, rows, "/at",
                                       fault))
        return false;
    if (!session_rows_fork(there, &step->retry))
        return fault_no_memory(fault);
    session_rows_truncate(&step->retry, step->cache.length);
    step->rows = &step->retry;
    return true;
}

static bool is_kept(const struct session_step *step)
{
    return step->rows && step->rows != &step->retry && step->appends;
}

/* What the append of a layer takes at the least. A page that its earlier rows moved to stays, and
 * is not counted as taken. */
static size_t append_bytes(const struct session_rows *rows, size_t taken)
{
    const size_t own = rows->is_state ? 0 : session_shape_bytes(&rows->shape, rows->appended);
    return own > taken ? own : taken;
}

/* An append to several layers that has no room where all else is gone never has any. */
static void explain_full(const struct session_step *step, struct fault *fault)
{
    const struct session_budget *budget = session_store_budget(step->store);
    size_t bytes = step->rows->bytes_wanted;
    for (int64_t i = 0; i < step->session->layer_count; i++) {
        const struct session_layer *other = &step->session->layers[i];
        if (other != step->layer && other->in_step && other->rows.is_appending)
            bytes += append_bytes(&other->rows, other->rows.bytes_taken);
    }
    if (fault->code == FAULT_FULL && bytes > budget->bytes_max)
        session_budget_check(budget, bytes, fault);
}

/* For rows that stay, sessions that were made evictable make room; for others nobody's ends. */
static bool begin_rows(struct session_step *step, int64_t count, struct fault *fault)
{
    if (is_kept(step) && count > 0
            ? session_store_begin_rows(step->store, step->rows, count, fault)
            : session_rows_begin(step->rows, session_store_budget(step->store), count, fault))
        return true;
    explain_full(step, fault);
    return false;
}

static bool open_cache(struct infer_cache *cache, const struct attn_layer *layer, int64_t rows,
                       const struct attn_layer_cache **view, struct fault *fault)
{
    struct session_step *step = (struct session_step *)cache;
    if (step->rows && step->rows->is_appending) { /* the item is planned again */
        *view = &step->rows->cache;
        return true;
    }
    if (!fits_shape(step, layer, fault) || (step->appends && !fits_length(step, rows, fault)))
        return false;
    step->rows = &step->layer->rows;
    if (step->rows->shape.kv_heads == 0)
        step->rows->shape =
            (struct session_shape){ layer->kv_heads, layer->head_dim,
                                    session_value_columns(layer, step->session->dtype),
                                    step->session->dtype };
    const bool is_behind = step->cache.length < step->layer->rows.length;
    if (is_behind && !begin_retry(step, rows, fault))
        return false;
    step->rows->account = step->session->account;
    step->rows->page_rows_max = session_window_page_rows(step->session);
    if (is_kept(step) && rows > 0)
        session_window_move(step->session, step->rows);
    if (!begin_rows(step, rows, fault))
        return false;
    if (cache->wants_bounds) {
        session_rows_make_bounds(step->rows);
        cache->bounds = step->rows->bounds;
        cache->bounds_count = step->rows->bounds_count;
    }
    *view = &step->rows->cache;
    return true;
}

/* The keys of another step, with those that it appends. */
static bool open_shared(struct infer_cache *cache, const struct attn_layer *layer, int64_t rows,
                        const struct attn_layer_cache **view, struct fault *fault)
{
    struct session_step *step = (struct session_step *)cache;
    const struct session_rows *opened = step->shared->rows;
    (void)layer;
    (void)fault;
    assert(rows == 0 && opened && opened->cache.length + opened->appended == cache->length);
    step->view = opened->cache;
    step->view.length = cache->length;
    *view = &step->view;
    return true;
}

static bool hide_shared(struct infer_cache *cache, const struct infer_item *item,
                        struct attn_masking *masking, struct fault *fault)
{
    const struct session_step *of = ((const struct session_step *)cache)->shared;
    return hide((struct infer_cache *)&of->cache, item, masking, fault);
}

void session_step_share(struct session_step *step, const struct session_step *of)
{
    step->shared = of;
    step->cache.open = open_shared;
    step->cache.hide = of->cache.hide ? hide_shared : NULL;
}

/* What comes before a place that is filled already is one of the states that are there. */
static bool begin_state_retry(struct session_step *step, int64_t rows, struct fault *fault)
{
    return session_state_check_cut(step->session, step->layer, step->cache.length, "/at", fault)
           && begin_retry(step, rows, fault);
}

static bool open_state(struct infer_cache *cache, int64_t numbers, int64_t rows,
                       const float **before, float **after, struct fault *fault)
{
    struct session_step *step = (struct session_step *)cache;
    if (!step->rows || !step->rows->is_appending) {
        if (step->appends && !fits_length(step, rows, fault))
            return false;
        step->rows = &step->layer->rows;
        step->rows->shape = (struct session_shape){ 1, numbers, 0, ATTN_F32 };
        const bool is_behind = step->cache.length < step->layer->rows.length;
        if (is_behind && !begin_state_retry(step, rows, fault))
            return false;
        step->rows->account = step->session->account;
        if (!begin_rows(step, rows, fault))
            return false;
    }
    *before = session_state_before(step->rows);
    *after = session_state_after(step->rows);
    return true;
}

/* ------------------------------------------------------------------------ the end -- */

bool session_step_check(const struct session_step *step, struct fault *fault)
{
    const struct session_rows *there = &step->layer->rows;
    if (step->rows && step->appends && !session_rows_check_finite(step->rows, fault))
        return false;
    if (is_kept(step) && step->rows->appended > 0
        && !session_store_remove_file(step->session, fault))
        return false;
    if (step->rows != &step->retry || !step->appends) {
        step->layer->kv_len_then += is_kept(step) ? step->rows->appended : 0;
        return true;
    }
    if (session_rows_equal(&step->retry, there, step->cache.length,
                           step->cache.length + step->retry.appended))
        return true;
    return fault_set_at(fault, "/at", FAULT_CONFLICT,
                        "other keys and values are at %" PRId64 " of layer %" PRId64
                        " of session '%s', which has %" PRId64 " keys",
                        step->at, step->layer->number, step->session->id, there->length);
}

void session_step_end(struct session_step *step, bool is_good)
{
    struct session_layer *layer = step->layer;
    if (!layer)
        return;
    if (step->rows)
        session_rows_end(step->rows, is_good && is_kept(step));
    session_rows_free(&step->retry);
    if (layer->rows.length == 0)
        layer->rows.shape.kv_heads = 0; /* the next append may have another shape */
    layer->in_step = false;
    session_layer_show(layer);
    step->rows = NULL;
    step->layer = NULL;
}

/* ---------------------------------------------------------------- a call of steps -- */

static struct session_call *of(const struct call *call)
{
    return call->order_state;
}

struct session_step *session_call_step(const struct call *call, int64_t number)
{
    return &of(call)->steps[number];
}

static void take_turn(struct call *call, struct session_ticket *tickets, int64_t count)
{
    struct session_turn *turn = &of(call)->turn;
    turn->scheduler = call->service->scheduler;
    turn->job = &call->job;
    turn->tickets = tickets;
    turn->count = count;
    session_turn_take(turn);
}

bool session_call_begin(struct call *call, struct session *session, struct fault *fault)
{
    struct session_call *own = arena_calloc(infer_request_of(call)->arena, 1, sizeof *own);
    if (!own) {
        session_release(session);
        return fault_no_memory(fault);
    }
    call->order = &session_call_order;
    call->order_state = own;
    own->session = session;
    own->ticket.session = session;
    if (session)
        take_turn(call, &own->ticket, 1);
    return true;
}

bool session_call_make(struct call *call, struct session_store *store, struct fault *fault)
{
    struct infer_request *request = infer_request_of(call);
    struct session_call *own = of(call);
    struct session_step *steps =
        arena_calloc(request->arena, (size_t)request->item_count, sizeof *steps);
    if (!steps && request->item_count > 0)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < request->item_count; i++) {
        session_step_init(&steps[i], own->session, store);
        request->items[i].cache = &steps[i].cache;
    }
    own->steps = steps;
    return true;
}

bool session_call_take_turns(struct call *call, struct fault *fault)
{
    const struct session_call *own = of(call);
    const int64_t count = infer_request_of(call)->item_count;
    int64_t used = 0;
    struct session_ticket *tickets =
        arena_calloc(infer_request_of(call)->arena, (size_t)count, sizeof *tickets);
    if (!tickets && count > 0)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < count; i++)
        if (own->steps[i].session)
            tickets[used++].session = own->steps[i].session;
    take_turn(call, tickets, used);
    return true;
}

void session_call_drop(struct call *call)
{
    struct session_call *own = of(call);
    if (!own)
        return;
    session_turn_leave(&own->turn);
    for (int64_t i = 0; own->steps && i < infer_request_of(call)->item_count; i++)
        session_release(own->steps[i].session);
    session_release(own->session);
    call->order_state = NULL;
}

static bool call_is_turn(struct call *call)
{
    return session_turn_has_come(&of(call)->turn);
}

static bool step_check(struct session_step *step, struct infer_item *item, struct fault *fault)
{
    (void)item;
    return session_step_check(step, fault);
}

/* Does this for each item without a fault. A fault is its item's where the call is a batch; else it
 * is the call's, and false is returned. */
static bool for_each_step(struct call *call,
                          bool (*run)(struct session_step *step, struct infer_item *item,
                                      struct fault *fault),
                          struct fault *fault)
{
    for (int64_t i = 0; i < infer_request_of(call)->item_count; i++) {
        struct infer_item *item = &infer_request_of(call)->items[i];
        if (item->fault.code != FAULT_NONE || run(session_call_step(call, i), item, &item->fault)
            || infer_request_of(call)->batch)
            continue;
        *fault = item->fault;
        if (call->operation->explain)
            call->operation->explain(call, fault);
        return false;
    }
    return true;
}

static bool call_prepare(struct call *call, struct fault *fault)
{
    return for_each_step(call, session_step_prepare, fault);
}

static bool call_check(struct call *call, struct fault *fault)
{
    return for_each_step(call, step_check, fault);
}

static void call_end(struct call *call, const struct fault *fault)
{
    const struct infer_request *request = infer_request_of(call);
    const struct session_call *own = of(call);
    for (int64_t i = 0; own->steps && i < request->item_count; i++) {
        const struct infer_item *item = &request->items[i];
        session_step_end(&own->steps[i],
                         fault->code == FAULT_NONE && item->fault.code == FAULT_NONE);
        if (own->steps[i].session)
            session_touch(own->steps[i].session);
    }
    session_call_drop(call);
}

const struct call_order session_call_order = {
    .is_turn = call_is_turn, .prepare = call_prepare, .check = call_check, .end = call_end
};
