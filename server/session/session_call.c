/* session_call.c - the steps of a call over sessions, in their turn. */
#include "session/session_call.h"

static struct session_call *of(const struct call *call)
{
    return call->order_state;
}

struct session_step *session_call_step(const struct call *call, int64_t number)
{
    return &of(call)->steps[number];
}

/* ------------------------------------------------------------- the steps of a call -- */

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
    struct session_call *own = arena_calloc(&infer_request_of(call)->arena, 1, sizeof *own);
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
        arena_calloc(&request->arena, (size_t)request->item_count, sizeof *steps);
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
        arena_calloc(&infer_request_of(call)->arena, (size_t)count, sizeof *tickets);
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

/* --------------------------------------------------------------- in its turn -- */

static bool is_turn(struct call *call)
{
    return session_turn_has_come(&of(call)->turn);
}

static bool prepare(struct call *call, struct fault *fault)
{
    struct infer_request *request = infer_request_of(call);
    for (int64_t i = 0; i < request->item_count; i++) {
        struct infer_item *item = &request->items[i];
        if (item->fault.code != FAULT_NONE
            || session_step_prepare(session_call_step(call, i), item, &item->fault)
            || request->batch)
            continue;
        *fault = item->fault;
        if (call->operation->explain)
            call->operation->explain(call, fault);
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------------ the end -- */

static bool check(struct call *call, struct fault *fault)
{
    struct infer_request *request = infer_request_of(call);
    for (int64_t i = 0; i < request->item_count; i++) {
        const struct session_step *step = session_call_step(call, i);
        struct fault *own = &request->items[i].fault;
        if (own->code != FAULT_NONE || session_step_check(step, own) || request->batch)
            continue;
        *fault = *own;
        if (call->operation->explain)
            call->operation->explain(call, fault);
        return false;
    }
    return true;
}

static void end(struct call *call, const struct fault *fault)
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
    .is_turn = is_turn, .prepare = prepare, .check = check, .end = end
};
