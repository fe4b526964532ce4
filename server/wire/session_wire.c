/* session_wire.c - see session_wire.h. */
#include "wire/session_wire.h"

#include "infer/infer_results.h"
#include "infer/infer_selection.h"
#include "session/session_call.h"
#include "session/session_path.h"
#include "wire/session_fields.h"
#include "wire/session_text.h"
#include "wire/v1_fault.h"
#include "wire/wire_safetensors.h"

#include <inttypes.h>
#include <stdio.h>

static const char STEPS[] = "steps";

/* ----------------------------------------------------------------------- reading -- */

static bool begin_of_path(struct infer_call *call, const struct exchange *exchange,
                          struct fault *fault)
{
    if (!wire_safetensors_begin(call, exchange, fault))
        return false;
    struct session *session =
        session_path_find_to_call(exchange, call->base.service->sessions, fault);
    return session && session_call_begin(call, session, fault);
}

static bool begin_of_items(struct infer_call *call, const struct exchange *exchange,
                           struct fault *fault)
{
    return wire_safetensors_begin(call, exchange, fault) && session_call_begin(call, NULL, fault);
}

static bool read_body(struct infer_call *call, struct wire_v1_form *form, struct fault *fault)
{
    if (wire_safetensors_is_answer(call))
        call->request.number_bytes = sizeof(double);
    if (wire_safetensors_is_body(call))
        return wire_safetensors_read_form(call, form, fault);
    const bool read = infer_wire_read_json(call, call->base.body.data, call->base.body.size, fault);
    call_drop_body(&call->base);
    return read && wire_v1_read_form(&call->request, form, &call->base.document, fault);
}

static bool take_step(struct infer_call *call, const struct session_asked *asked, int64_t number)
{
    struct infer_item *item = &call->request.items[number];
    struct session_step *step = session_call_step(call, number);
    if (item->fault.code != FAULT_NONE)
        return false;
    if (!step->session && !asked->id)
        return fault_set_at(&item->fault, "/session", FAULT_FIELD, "session is missing");
    if (!step->session)
        step->session = session_store_find_to_call(call->base.service->sessions, asked->id,
                                                   asked->owner, call->limits.key, &item->fault);
    if (!step->session) {
        fault_pointer_append(item->fault.pointer, 0, "session");
        return false;
    }
    item->model = model_retain(step->session->model);
    return session_fields_settle(asked, item, step, &item->fault);
}

static const struct session_call *own_of(const struct infer_call *call)
{
    return call->base.order_state;
}

/* A fault of one of several steps: says which. */
static void explain(const struct infer_call *call, struct fault *fault)
{
    char place[64];
    for (int64_t i = 0; own_of(call)->is_list && i < call->request.item_count; i++)
        if (call->request.items[i].fault.code != FAULT_NONE) {
            snprintf(place, sizeof place, "/%s/%" PRId64, STEPS, i);
            fault_prefix_pointer(fault, place);
            return;
        }
}

static bool take_steps(struct infer_call *call, const struct session_asked *asked,
                       struct fault *fault)
{
    struct infer_request *request = &call->request;
    if (!session_call_make(call, call->base.service->sessions, fault))
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

static bool read_of_path(struct infer_call *call, struct fault *fault)
{
    struct session_asked asked = { .at = SESSION_AT_NONE };
    struct wire_v1_form form = { STEPS, true, &session_fields_of_path, &asked };
    struct session_call *own = call->base.order_state;
    if (!read_body(call, &form, fault))
        return false;
    own->is_list = form.asked != &asked;
    return take_steps(call, form.asked, fault);
}

static bool read_of_items(struct infer_call *call, struct fault *fault)
{
    struct session_asked asked = { .at = SESSION_AT_NONE };
    struct wire_v1_form form = { "requests", false, &session_fields_of_items, &asked };
    call->request.batch = true;
    return read_body(call, &form, fault) && take_steps(call, form.asked, fault)
           && session_call_take_turns(call, fault);
}

/* ----------------------------------------------------------------------- answers -- */

/* The members of one step; in a file its tensors are elsewhere. */
static void write_step(const struct infer_call *call, int64_t number, struct text *text)
{
    const struct infer_item *item = &call->request.items[number];
    text_raw(text, "\"model\":");
    text_string(text, item->model->name);
    text_raw(text, ",\"layer\":");
    text_integer(text, item->layer_index);
    text_raw(text, ",\"layer_kv_len\":");
    text_integer(text, session_call_step(call, number)->layer->kv_len_then);
    if (wire_safetensors_is_answer(call))
        wire_v1_write_beside_tensors(item, text);
    else
        wire_v1_write_outputs(item, text);
}

static void write_steps(const struct infer_call *call, struct text *text)
{
    text_raw(text, "[");
    for (int64_t i = 0; i < call->request.item_count; i++) {
        text_raw(text, i > 0 ? ",{" : "{");
        write_step(call, i, text);
        text_raw(text, "}");
    }
    text_raw(text, "]");
}

static void write_results(const struct infer_call *call, struct text *text)
{
    text_raw(text, "[");
    for (int64_t i = 0; i < call->request.item_count; i++) {
        const struct infer_item *item = &call->request.items[i];
        text_raw(text, i > 0 ? "," : "");
        if (item->fault.code != FAULT_NONE) {
            v1_fault_write(&item->fault, i, text);
            continue;
        }
        text_raw(text, "{");
        session_text_write_length(session_call_step(call, i)->session, text);
        text_raw(text, ",");
        write_step(call, i, text);
        text_raw(text, "}");
    }
    text_raw(text, "]");
}

static bool convert(struct infer_call *call, struct fault *fault)
{
    struct infer_request *request = &call->request;
    for (int64_t i = 0; i < request->item_count; i++)
        if (request->items[i].fault.code == FAULT_NONE
            && !infer_convert_results(request, &request->items[i], ATTN_F32, fault))
            return false;
    return true;
}

/* One step as a file. */
static bool write_step_file(struct infer_call *call, struct fault *fault)
{
    const struct session_step *step = session_call_step(call, 0);
    const struct infer_item *item = &call->request.items[0];
    char kv_len[24], layer_kv_len[24], keys_read[24], keys_seen[24];
    int64_t read = 0, seen = 0;
    if (item->has_selection)
        infer_selection_keys(item, &read, &seen);
    snprintf(kv_len, sizeof kv_len, "%" PRId64, session_kv_len_then(step->session));
    snprintf(layer_kv_len, sizeof layer_kv_len, "%" PRId64, step->layer->kv_len_then);
    snprintf(keys_read, sizeof keys_read, "%" PRId64, read);
    snprintf(keys_seen, sizeof keys_seen, "%" PRId64, seen);
    const struct safetensors_pair more[] = {
        { .key = "session", .value = step->session->id },
        { .key = "kv_len", .value = kv_len },
        { .key = "layer_kv_len", .value = layer_kv_len },
        { .key = "keys_read", .value = keys_read },
        { .key = "keys_seen", .value = keys_seen },
    };
    return wire_safetensors_write_with(call, more, item->has_selection ? 5 : 3, fault);
}

/* A list as a file: write gives what is no tensor, as JSON for the metadata. */
static bool write_list_file(struct infer_call *call, const char *list,
                            void (*write)(const struct infer_call *call, struct text *text),
                            struct fault *fault)
{
    const struct session *session = own_of(call)->session;
    struct safetensors_pair metadata[3];
    struct text text;
    char kv_len[24];
    int count = 0;
    text_init(&text, call->limits.answer_bytes_max);
    text.memory = call->base.memory;
    write(call, &text);
    text_bytes(&text, "", 1); /* the NUL that ends it */
    if (session) {
        snprintf(kv_len, sizeof kv_len, "%" PRId64, session_kv_len_then(session));
        metadata[count++] = (struct safetensors_pair){ .key = "session", .value = session->id };
        metadata[count++] = (struct safetensors_pair){ .key = "kv_len", .value = kv_len };
    }
    metadata[count++] = (struct safetensors_pair){ .key = list, .value = text.data };
    const bool good = text_finish(&text, fault)
                      && wire_safetensors_write_list(call, list, metadata, count, fault);
    text_free(&text);
    return good;
}

static bool write_of_path(struct infer_call *call, struct fault *fault)
{
    struct text *text = &call->base.text;
    if (wire_safetensors_is_answer(call))
        return own_of(call)->is_list ? write_list_file(call, STEPS, write_steps, fault)
                                     : write_step_file(call, fault);
    if (!convert(call, fault))
        return false;
    text_raw(text, "{");
    session_text_write_length(own_of(call)->session, text);
    text_raw(text, own_of(call)->is_list ? ",\"steps\":" : ",");
    if (own_of(call)->is_list)
        write_steps(call, text);
    else
        write_step(call, 0, text);
    text_raw(text, "}\n");
    return true;
}

static bool write_of_items(struct infer_call *call, struct fault *fault)
{
    struct text *text = &call->base.text;
    if (wire_safetensors_is_answer(call))
        return write_list_file(call, "results", write_results, fault);
    if (!convert(call, fault))
        return false;
    text_raw(text, "{\"results\":");
    write_results(call, text);
    text_raw(text, "}\n");
    return true;
}

const struct infer_wire session_wire_of_path = { .begin = begin_of_path,
                                                 .read = read_of_path,
                                                 .explain = explain,
                                                 .write = write_of_path,
                                                 .drop = session_call_drop };
const struct infer_wire session_wire_of_items = { .begin = begin_of_items,
                                                  .read = read_of_items,
                                                  .write = write_of_items,
                                                  .drop = session_call_drop };
