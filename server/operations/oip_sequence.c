/* SPDX-License-Identifier: Apache-2.0 */
/* oip_sequence.c - requests of a sequence: their parameters, their session, and its end. */
#include "operations/oip.h"
#include "operations/session/session_call.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char POINTER[] = "/parameters/sequence_id";

/* The slots of query, key and value: those of both kinds of models (oip_tensors.c). */
enum { QUERY, KEY, VALUE };

/* -------------------------------------------------------------------- parameters -- */

static bool read_flag(const struct message *parameters, const char *name, bool *flag,
                      struct fault *fault)
{
    const struct value *value = message_member(parameters, name);
    char pointer[48];
    *flag = value && value->kind == VALUE_BOOL && value->flag;
    if (!value || value->kind == VALUE_BOOL)
        return true;
    snprintf(pointer, sizeof pointer, "/parameters/%s", name);
    return fault_set_at(fault, pointer, FAULT_TYPE, "%s is %s; expected true or false", name,
                        value_words(value));
}

/* The id as text. A number beyond 2^53 may have been rounded to that of another sequence. */
static bool id_text(const struct value *value, char *text, size_t size, struct fault *fault)
{
    if (value->kind == VALUE_STRING) {
        snprintf(text, size, "%s", value->string);
        return session_is_id(value->string)
               || fault_set_at(fault, POINTER, FAULT_OPTION,
                               "sequence_id is '%.70s'; expected a number, or 1 to %d of A-Z a-z "
                               "0-9 . _ -, and not '.', '..' or 'attention'",
                               value->string, SESSION_ID_MAX);
    }
    if (value->kind != VALUE_NUMBER)
        return fault_set_at(fault, POINTER, FAULT_TYPE,
                            "sequence_id is %s; expected a number or a string", value_words(value));
    const double number = value->number;
    if (!(number >= 0) || number != floor(number) || number > FIELD_INTEGER_MAX)
        return fault_set_at(fault, POINTER, FAULT_OPTION,
                            "sequence_id is %.17g; expected a whole number of 0 to 2^53; send a "
                            "larger one as a string",
                            number);
    snprintf(text, size, "%.0f", number);
    return true;
}

/* 0 and "" are ids of no sequence. */
static bool is_no_id(const struct value *value)
{
    return !value || (value->kind == VALUE_NUMBER && value->number == 0)
           || (value->kind == VALUE_STRING && !value->string[0]);
}

static struct session_store *store_of(const struct call *call)
{
    return call->service->sessions;
}

/* There is none, or none any more; in Triton's words. One that has moved is told as it is. */
static bool refuse_unknown(const struct oip_call *oip, struct fault *fault)
{
    const struct fault why = *fault;
    if (why.code == FAULT_MOVED)
        return false;
    const bool is_gone = why.code == FAULT_GONE;
    return fault_set_at(fault, POINTER, is_gone ? FAULT_GONE : FAULT_OPTION,
                        "inference request for sequence %s to model '%.80s' must specify the START "
                        "flag on the first request of the sequence%s%s",
                        strrchr(oip->sequence.name, ':') + 1, oip->model->name, is_gone ? "; " : "",
                        is_gone ? why.message : "");
}

/* Finds the session of a sequence that goes on. That of another key's name is none. */
static bool find(struct call *call, struct oip_call *oip, struct fault *fault)
{
    struct oip_sequence *sequence = &oip->sequence;
    const char *own = call->limits.key ? call->limits.key->account->name : "";
    sequence->session =
        session_store_find(store_of(call), sequence->name, own, call->limits.key, fault);
    if (!sequence->session)
        return refuse_unknown(oip, fault);
    if (oip->version[0] && sequence->session->model->version != oip->model->version)
        return fault_set_at(fault, POINTER, FAULT_CONFLICT,
                            "the sequence began with version %" PRId64 " of model '%s', not %s",
                            sequence->session->model->version, oip->model->name, oip->version);
    return true;
}

bool oip_sequence_read(struct call *call, struct fault *fault)
{
    struct oip_call *oip = oip_call_of(call);
    struct oip_sequence *sequence = &oip->sequence;
    const struct value *parameters = message_member(&oip->request.root, "parameters");
    char id[SESSION_ID_MAX + 1];
    if (!parameters || parameters->kind != VALUE_OBJECT)
        return true; /* the format refuses what is no object */
    const struct value *value = message_member(&parameters->inner, "sequence_id");
    if (!read_flag(&parameters->inner, "sequence_start", &sequence->starts, fault)
        || !read_flag(&parameters->inner, "sequence_end", &sequence->ends, fault))
        return false;
    if (is_no_id(value))
        return true;
    if (!id_text(value, id, sizeof id, fault))
        return false;
    if (oip->trace)
        return fault_set_at(fault, POINTER, FAULT_OPTION,
                            "a whole pass keeps no keys and values between requests; sequences "
                            "are of attention, with the input '%s'",
                            oip->model->parameterless ? "Q" : "query");
    sequence->is_of = true;
    snprintf(sequence->name, sizeof sequence->name, "%s:%s", oip->model->name, id);
    return sequence->starts || find(call, oip, fault);
}

/* ------------------------------------------------------------- the request's turn -- */

static void delete_session(const struct call *call, struct session *session)
{
    struct fault has_ended;
    session_store_delete(store_of(call), session, &has_ended);
}

/* Keys and values of sdpa stay in their own datatype. */
static enum attn_dtype dtype_of(const struct oip_call *oip)
{
    const enum attn_dtype key = oip->inputs[KEY].array.dtype;
    const bool is_half = key == ATTN_F16 || key == ATTN_BF16;
    return oip->model->parameterless && is_half && oip->inputs[VALUE].array.dtype == key ? key
                                                                                         : ATTN_F32;
}

static bool begin_sequence(struct call *call, struct oip_call *oip, struct fault *fault)
{
    struct oip_sequence *sequence = &oip->sequence;
    struct model *model = infer_request_of(call)->model;
    struct session *session = session_create(model, NULL, model->layer_count);
    if (!session)
        return fault_no_memory(fault);
    session->dtype = dtype_of(oip);
    session->ttl_ns = SESSION_TTL_DEFAULT_NS;
    sequence->session = session_hold(session);
    sequence->is_begun =
        session_store_replace(store_of(call), session, sequence->name, call->limits.key, fault);
    return sequence->is_begun;
}

/* The request is answered, or it has failed. */
static void leave(struct call *call, bool is_good)
{
    struct oip_sequence *sequence = &oip_call_of(call)->sequence;
    if (sequence->is_begun && !is_good)
        session_store_put_back(store_of(call), sequence->session);
    if (sequence->is_begun && is_good)
        session_store_keep(store_of(call), sequence->session);
    if (sequence->session && is_good && sequence->ends)
        delete_session(call, sequence->session);
    session_release(sequence->session);
    sequence->session = NULL;
    sequence->is_begun = false;
}

static bool is_turn(struct call *call)
{
    return session_call_order.is_turn(call);
}

static bool prepare(struct call *call, struct fault *fault)
{
    const struct oip_sequence *sequence = &oip_call_of(call)->sequence;
    return session_call_order.prepare(call, fault)
           && (!sequence->settle
               || sequence->settle(call, session_call_step(call, 0)->cache.length, fault));
}

static bool check(struct call *call, struct fault *fault)
{
    return session_call_order.check(call, fault);
}

static void end(struct call *call, const struct fault *fault)
{
    session_call_order.end(call, fault);
    leave(call, fault->code == FAULT_NONE);
}

static const struct call_order sequence_order = {
    .is_turn = is_turn, .prepare = prepare, .check = check, .end = end
};

/* Rows of a layer are its query, key and value where the query comes alone. */
static bool settle_item(const struct oip_call *oip, struct infer_item *item,
                        struct session_step *step, struct fault *fault)
{
    static const float NONE;
    const struct oip_input *inputs = oip->inputs;
    for (int slot = KEY; slot <= VALUE && oip->model->parameterless; slot++)
        if (inputs[slot].array.dtype == ATTN_F64)
            return oip_input_fault(&oip->request, slot, fault, FAULT_DTYPE,
                                   "is FP64; a sequence takes FP32, FP16 or BF16");
    if (inputs[VALUE].given && !inputs[KEY].given)
        return oip_input_fault(&oip->request, VALUE, fault, FAULT_FIELD,
                               "came without 'key'; a sequence takes both, or 'query' alone");
    if (inputs[KEY].given && !item->key.data) /* no rows: the query looks */
        item->key.data = &NONE;
    if (inputs[VALUE].given && !item->value.data)
        item->value.data = &NONE;
    item->is_input = !inputs[KEY].given;
    if (item->is_input && !item->has_causal)
        item->has_causal = item->causal = true;
    step->has_layer = message_member(oip->request.parameters, "layer") != NULL;
    step->has_past_len = message_member(oip->request.parameters, "past_len") != NULL;
    step->has_rows = true;
    return true;
}

bool oip_sequence_take(struct call *call, struct fault *fault)
{
    struct oip_call *oip = oip_call_of(call);
    struct oip_sequence *sequence = &oip->sequence;
    struct infer_item *item = infer_request_of(call)->items;
    if (!sequence->is_of)
        return true;
    if (oip->batch != 1)
        return oip_input_fault(&oip->request, QUERY, fault, FAULT_SHAPE,
                               "has a batch of %" PRId64 "; a request of a sequence has one entry",
                               oip->batch);
    if ((sequence->starts && !begin_sequence(call, oip, fault))
        || !session_call_begin(call, session_hold(sequence->session), fault)
        || !session_call_make(call, store_of(call), fault))
        return false;
    call->order = &sequence_order;
    item->model = model_retain(sequence->session->model);
    return settle_item(oip, item, session_call_step(call, 0), fault);
}

void oip_sequence_drop(struct call *call)
{
    session_call_drop(call);
    if (call->state)
        leave(call, false);
    call->state = NULL; /* it lies in the request's arena */
}
