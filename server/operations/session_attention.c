/* SPDX-License-Identifier: Apache-2.0 */
/* session_attention.c - reads steps and items over sessions, and says what they computed. */
#include "operations/session_attention.h"

#include "operations/say.h"
#include "operations/session/session_path.h"
#include "operations/spread_attention.h"

#include <inttypes.h>
#include <stdio.h>

/* ------------------------------------------------------- what is asked means -- */

/* Rows that enter a layer are its query, key and value, and see what is before them. */
static bool settle_input(const struct session_asked *asked, struct infer_item *item,
                         struct fault *fault)
{
    const char *other = item->query.data   ? "query"
                        : item->key.data   ? "key"
                        : item->value.data ? "value"
                                           : NULL;
    if (other)
        return fault_set_at(fault, "/input", FAULT_FIELD,
                            "input and %s both came; input is query, key and value in one", other);
    item->query = asked->input;
    item->is_input = true;
    if (!item->has_causal)
        item->has_causal = item->causal = true;
    return true;
}

/* Keys without a query are appended, and nothing is attended to: a query of no rows, in as many
 * heads as the keys have. */
static void settle_no_query(struct infer_item *item)
{
    static const float NONE;
    item->query = (struct array){ .data = &NONE, .dtype = ATTN_F32, .rank = 1, .shape = { 0 } };
    if (item->q_heads == 0)
        item->q_heads = item->key.rank == 3 ? item->key.shape[0] : item->kv_heads;
    for (int i = 0; i < ATTN_OUTPUT_COUNT && !item->has_outputs; i++)
        item->outputs[i] = false;
}

static void settle_selection(const struct session_asked *asked, struct infer_item *item,
                             struct session_step *step)
{
    item->has_selection = asked->has_selection;
    item->selection.epsilon = asked->epsilon;
    step->cache.wants_bounds = item->has_selection && item->selection.epsilon > 0;
    if (item->has_selection && !item->has_outputs)
        item->outputs[ATTN_OUTPUT_WEIGHTS] = false;
}

bool session_attention_settle(const struct session_asked *asked, struct infer_item *item,
                              struct session_step *step, struct fault *fault)
{
    step->has_layer = item->has_layer;
    step->has_past_len = item->has_past_len;
    step->at = asked->at;
    step->appends = !asked->has_append || asked->append;
    if (asked->input.data && !settle_input(asked, item, fault))
        return false;
    if (!item->query.data && item->key.data)
        settle_no_query(item);
    if (!item->query.data)
        return fault_set_at(fault, "/query", FAULT_FIELD,
                            "query is missing; expected input, query, or key and value with or "
                            "without it");
    if (item->value.data && !item->key.data)
        return fault_set_at(fault, "/key", FAULT_FIELD,
                            "key is missing; value came. Without both nothing is appended");
    step->has_rows = item->key.data || item->is_input;
    settle_selection(asked, item, step);
    return step->has_rows || !asked->has_append || !asked->append
           || fault_set_at(fault, "/append", FAULT_OPTION,
                           "append is true, but neither input nor key came");
}

/* ------------------------------------------------------------------- reading -- */

static bool begin_of_path(struct call *call, const struct exchange *exchange, struct fault *fault)
{
    struct session *session = session_path_find_to_call(exchange, call->service->sessions, fault);
    if (session && session->elsewhere)
        return spread_attention_begin(call, session, exchange, fault);
    return session && session_call_begin(call, session, fault);
}

static bool begin_of_items(struct call *call, const struct exchange *exchange, struct fault *fault)
{
    (void)exchange;
    return session_call_begin(call, NULL, fault);
}

static bool take_step(struct call *call, const struct session_asked *asked, int64_t number)
{
    struct infer_item *item = &infer_request_of(call)->items[number];
    struct session_step *step = session_call_step(call, number);
    if (item->fault.code != FAULT_NONE)
        return false;
    if (!step->session && !asked->id)
        return fault_set_at(&item->fault, "/session", FAULT_FIELD, "session is missing");
    if (!step->session)
        step->session = session_store_find_to_call(call->service->sessions, asked->id, asked->owner,
                                                   call->limits.key, &item->fault);
    if (!step->session) {
        fault_pointer_append(item->fault.pointer, 0, "session");
        return false;
    }
    item->model = model_retain(step->session->model);
    if (!session_check_here(step->session, "a batch over sessions", &item->fault))
        return false;
    return session_attention_settle(asked, item, step, &item->fault);
}

static const struct session_call *own_of(const struct call *call)
{
    return call->order_state;
}

/* A fault of one of several steps: says which. */
static void explain(const struct call *call, struct fault *fault)
{
    char place[64];
    for (int64_t i = 0; own_of(call)->is_list && i < infer_request_of(call)->item_count; i++)
        if (infer_request_of(call)->items[i].fault.code != FAULT_NONE) {
            snprintf(place, sizeof place, "/steps/%" PRId64, i);
            fault_prefix_pointer(fault, place);
            return;
        }
}

static bool take_steps(struct call *call, const struct session_asked *asked, struct fault *fault)
{
    struct infer_request *request = infer_request_of(call);
    if (!session_call_make(call, call->service->sessions, fault))
        return false;
    for (int64_t i = 0; i < request->item_count; i++) {
        if (take_step(call, &asked[i], i) || request->batch)
            continue;
        *fault = request->items[i].fault;
        explain(call, fault);
        return false;
    }
    return true;
}

static bool read_of_path(struct call *call, struct fault *fault)
{
    struct session_asked asked = { .at = SESSION_AT_NONE };
    struct field_items items = { .target.table = &attention_step_fields,
                                 .more = { &session_path_fields, &asked },
                                 .list_may_lack = true };
    struct session_call *own = call->order_state;
    if (!attention_read(call, &items, fault))
        return false;
    own->is_list = items.is_list;
    return take_steps(call, items.more_items, fault);
}

static bool read_of_items(struct call *call, struct fault *fault)
{
    struct session_asked asked = { .at = SESSION_AT_NONE };
    struct field_items items = { .target.table = &attention_batch_fields,
                                 .more = { &session_item_fields, &asked } };
    infer_request_of(call)->batch = true;
    return attention_read(call, &items, fault) && take_steps(call, items.more_items, fault)
           && session_call_take_turns(call, fault);
}

/* ------------------------------------------------------------------- answers -- */

static void say_length(struct writer *writer, const struct session *session)
{
    writer->kind->string(writer, "session", session->id);
    writer->kind->integer(writer, "kv_len", session_kv_len_then(session));
}

static void say_step(const struct call *call, struct writer *writer, int64_t number)
{
    const struct infer_item *item = &infer_request_of(call)->items[number];
    writer->kind->string(writer, "model", item->model->name);
    writer->kind->integer(writer, "layer", item->layer_index);
    writer->kind->integer(writer, "layer_kv_len",
                          session_call_step(call, number)->layer->kv_len_then);
    attention_say_results(writer, item);
}

static void say_of_path(const struct call *call, struct writer *writer)
{
    say_length(writer, own_of(call)->session);
    if (!own_of(call)->is_list) {
        say_step(call, writer, 0);
        return;
    }
    writer->kind->list(writer, "steps");
    for (int64_t i = 0; i < infer_request_of(call)->item_count; i++) {
        writer->kind->object(writer, NULL);
        say_step(call, writer, i);
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

static void say_of_items(const struct call *call, struct writer *writer)
{
    writer->kind->list(writer, "results");
    for (int64_t i = 0; i < infer_request_of(call)->item_count; i++) {
        const struct infer_item *item = &infer_request_of(call)->items[i];
        writer->kind->object(writer, NULL);
        if (item->fault.code != FAULT_NONE) {
            say_fault(writer, &item->fault, i);
        } else {
            say_length(writer, session_call_step(call, i)->session);
            say_step(call, writer, i);
        }
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

const struct operation session_attention_of_path = { .kind = &infer_kind,
                                                     .formats = operation_formats_tensors,
                                                     .begin = begin_of_path,
                                                     .read = read_of_path,
                                                     .explain = explain,
                                                     .finish = attention_finish,
                                                     .say = say_of_path,
                                                     .drop = session_call_drop };
const struct operation session_attention_of_items = { .kind = &infer_kind,
                                                      .formats = operation_formats_tensors,
                                                      .begin = begin_of_items,
                                                      .read = read_of_items,
                                                      .finish = attention_finish,
                                                      .say = say_of_items,
                                                      .drop = session_call_drop };
