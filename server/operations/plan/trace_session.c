/* SPDX-License-Identifier: Apache-2.0 */
/* trace_session.c - the turn and the steps of a trace over a session.
 *
 * Each layer of the model is a step (session_call.h), whose cache the layer's attention opens when
 * the pass is planned. A pass is planned more than once; its caches are opened once. */
#include "operations/plan/trace_job.h"

#include "models/model/model_continue.h"
#include "operations/session/session_call.h"
#include "operations/session/session_turn.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct trace_session {
    struct session *session; /* held */
    struct session_turn turn;
    struct session_ticket ticket;
    struct session_step *steps; /* [step_count], one for each layer */
    int64_t step_count;
    struct trace_past past;
};

static struct trace_session *session_state(const struct call *call)
{
    return call->order_state;
}

const struct session *trace_session_of(const struct call *call)
{
    return session_state(call)->session;
}

/* ---------------------------------------------------------------- what was asked -- */

/* Fields of a trace that a session has no use for. */
static bool check_session_fields(const struct trace_item *item, struct fault *fault)
{
    const struct {
        const char *pointer;
        bool is_given;
        const char *why;
    } refused[] = {
        { "/pair", item->pair.data, "a session takes one text after the other" },
        { "/token_types", item->has_token_types, "a model that goes on with a text has none" },
        { "/spans", item->span_count > 0, "the tokens before those of the request are not known" },
        { "/span_texts", item->span_text_count > 0,
          "the tokens before those of the request are not known" },
        { "/keep", item->keep_ns > 0, "the session keeps keys and values; ask for the outputs" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (refused[i].is_given)
            return fault_set_at(fault, refused[i].pointer, FAULT_FIELD,
                                "%s is no field of a trace over a session: %s",
                                refused[i].pointer + 1, refused[i].why);
    if (item->outputs[TRACE_OUTPUT_ROLLOUT])
        return fault_set_at(fault, "/outputs", FAULT_OPTION,
                            "a rollout begins with the first layer's rows of all tokens, and those "
                            "before the request's are not there");
    if (item->outputs[TRACE_OUTPUT_NORMS])
        return fault_set_at(fault, "/outputs", FAULT_OPTION,
                            "norms are those of all values, and a session has those before the "
                            "request's as its dtype rounds them");
    if (item->compare)
        return fault_set_at(fault, "/compare", FAULT_OPTION,
                            "a trace over a session has nothing to compare to: it appends the rows "
                            "of one pass");
    return true;
}

static bool check_model(const struct session *session, struct fault *fault)
{
    const struct model *model = session->model;
    const char *reason = model_continue_reason(model);
    if (reason)
        return fault_set(fault, FAULT_OPTION,
                         "a trace of model '%s' cannot go on from session '%s': %s", model->name,
                         session->id, reason);
    if (session->layer_count != model->layer_count)
        return fault_set(fault, FAULT_OPTION,
                         "session '%s' has %" PRId64 " of the %" PRId64 " layers of model '%s'; a "
                         "trace goes through all",
                         session->id, session->layer_count, model->layer_count, model->name);
    return true;
}

/* ------------------------------------------------------------------ in its turn -- */

static bool is_session_turn(struct call *call)
{
    return session_turn_has_come(&session_state(call)->turn);
}

/* The first layer that keeps something; one of attention does. */
static int64_t first_kept(const struct trace_session *own)
{
    int64_t first = 0;
    while (first + 1 < own->step_count && own->session->layers[first].keeps_nothing)
        first++;
    return first;
}

/* All layers have to go on from the same length. */
static bool check_lengths(const struct trace_session *own, struct fault *fault)
{
    const struct session_layer *layers = own->session->layers;
    const int64_t first = first_kept(own);
    for (int64_t i = first + 1; i < own->step_count; i++)
        if (!layers[i].keeps_nothing && layers[i].rows.length != layers[first].rows.length)
            return fault_set(
                fault, FAULT_CONFLICT,
                "layer %" PRId64 " of session '%s' has %" PRId64 " keys, layer %" PRId64
                " has %" PRId64 "; a trace goes on from one length",
                first, own->session->id, layers[first].rows.length, i, layers[i].rows.length);
    return true;
}

static bool prepare_step(struct trace_session *own, const struct trace_item *asked, int64_t layer,
                         struct fault *fault)
{
    struct infer_item item = { .layer_index = layer, .model = own->session->model };
    struct session_step *step = &own->steps[layer];
    step->has_layer = true;
    step->has_rows = true;
    step->at = asked->at;
    step->appends = !asked->drops_rows;
    own->past.caches[layer] = &step->cache;
    return session_step_prepare(step, &item, fault);
}

static void share_step(struct trace_session *own, int64_t layer)
{
    struct session_step *step = &own->steps[layer];
    session_step_share(step, &own->steps[own->session->model->layers[layer].keys_of]);
    own->past.caches[layer] = &step->cache;
}

static bool prepare_steps(struct call *call, struct fault *fault)
{
    struct trace_session *own = session_state(call);
    struct trace_item *item = &trace_request_of(call)->items[0];
    if (!check_lengths(own, fault))
        return false;
    for (int64_t i = 0; i < own->step_count; i++) {
        if (own->session->layers[i].shares)
            share_step(own, i);
        else if (!own->session->layers[i].keeps_nothing && !prepare_step(own, item, i, fault))
            return false;
    }
    own->past.length = own->steps[first_kept(own)].cache.length;
    item->past = &own->past;
    if (own->past.length > 0 && !item->has_special)
        item->no_special = true; /* the text continues: it has its first tokens already */
    return true;
}

static bool check_steps(struct call *call, struct fault *fault)
{
    const struct trace_session *own = session_state(call);
    for (int64_t i = 0; i < own->step_count; i++)
        if (!own->session->layers[i].keeps_nothing && !session_step_check(&own->steps[i], fault))
            return false;
    return true;
}

static void end_steps(struct call *call, const struct fault *fault)
{
    struct trace_session *own = session_state(call);
    for (int64_t i = 0; i < own->step_count; i++)
        session_step_end(&own->steps[i], fault->code == FAULT_NONE);
    session_touch(own->session);
    trace_session_drop(call);
}

static const struct call_order order = {
    .is_turn = is_session_turn, .prepare = prepare_steps, .check = check_steps, .end = end_steps
};

/* ------------------------------------------------------------- begin and drop -- */

bool trace_session_begin(struct call *call, struct session *session, struct fault *fault)
{
    struct trace_session *own = arena_calloc(trace_request_of(call)->arena, 1, sizeof *own);
    if (!own) {
        session_release(session);
        return fault_no_memory(fault);
    }
    own->session = session;
    own->ticket.session = session;
    own->turn = (struct session_turn){ .scheduler = call->service->scheduler,
                                       .job = &call->job,
                                       .tickets = &own->ticket,
                                       .count = 1 };
    call->order = &order;
    call->order_state = own;
    trace_request_of(call)->is_of_session = true;
    session_turn_take(&own->turn);
    return true;
}

bool trace_session_take(struct call *call, struct fault *fault)
{
    struct trace_session *own = session_state(call);
    struct session *session = own->session;
    struct trace_item *item = &trace_request_of(call)->items[0];
    struct arena *arena = trace_request_of(call)->arena;
    const int64_t count = session->layer_count;
    item->model_name = session->model->name;
    item->model = model_retain(session->model);
    if (!check_session_fields(item, fault) || !check_model(session, fault))
        return false;
    own->steps = arena_calloc(arena, (size_t)count, sizeof *own->steps);
    own->past.caches = arena_calloc(arena, (size_t)count, sizeof(struct infer_cache *));
    if (!own->steps || !own->past.caches)
        return fault_no_memory(fault);
    for (; own->step_count < count; own->step_count++)
        session_step_init(&own->steps[own->step_count], session, call->service->sessions);
    return true;
}

void trace_session_drop(struct call *call)
{
    struct trace_session *own = session_state(call);
    if (!own)
        return;
    session_turn_leave(&own->turn);
    for (int64_t i = 0; i < own->step_count; i++)
        session_release(own->steps[i].session);
    session_release(own->session);
    call->order_state = NULL;
}
