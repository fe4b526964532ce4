/* SPDX-License-Identifier: Apache-2.0 */
/* spread_attention.c - see spread_attention.h. The fields are those of a session that is here; what
 * the merge of parts cannot have is refused. */
#include "operations/spread_attention.h"

#include "call/infer_results.h"
#include "operations/attention.h"
#include "operations/session/session_call.h"
#include "operations/spread/spread_call.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------- reading -- */

/* The first field that came and is not offered; NULL: there is none. */
static const char *field_not_offered(const struct infer_item *item,
                                     const struct session_asked *asked)
{
    static const char *const PER_HEAD[] = {
#define X(NAME, name, may_be_none) #name,
        ATTN_PER_HEAD_MAP(X)
#undef X
    };
    for (int i = 0; i < ATTN_PER_HEAD_COUNT; i++)
        if (item->per_head[i].data)
            return PER_HEAD[i];
    return asked->input.data                     ? "input"
           : asked->has_selection                ? "select"
           : asked->has_append && !asked->append ? "append"
           : item->mask.data                     ? "mask"
           : item->kv_len.values                 ? "kv_len"
           : item->masking.kv_offset != 0        ? "kv_offset"
           : item->partial                       ? "partial"
           : item->has_weight_map                ? "weight_map"
           : item->has_precision                 ? "precision"
           : item->dropout > 0                   ? "dropout"
           : item->normalizer != ATTN_SOFTMAX    ? "normalizer"
                                                 : NULL;
}

/* Context and lse alone can be merged. */
static bool settle_outputs(struct infer_item *item, struct fault *fault)
{
    if (!item->has_outputs)
        item->outputs[ATTN_OUTPUT_WEIGHTS] = false;
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        if (item->outputs[i] && i != ATTN_OUTPUT_CONTEXT && i != ATTN_OUTPUT_LSE)
            return fault_set_at(fault, "/outputs", FAULT_OPTION,
                                "outputs has '%s'; a session that is spread answers context and "
                                "lse",
                                infer_output_names[i]);
    return true;
}

static bool settle_rows(struct infer_item *item, const struct session_asked *asked,
                        struct fault *fault)
{
    if (!item->query.data && !item->key.data)
        return fault_set_at(fault, "/query", FAULT_FIELD,
                            "query is missing; expected query, or key and value with or without "
                            "it");
    if (!item->key.data != !item->value.data)
        return fault_set_at(fault, item->key.data ? "/value" : "/key", FAULT_FIELD,
                            "%s is missing; expected key and value, or none of both",
                            item->key.data ? "value" : "key");
    if (asked->has_append && !item->key.data)
        return fault_set_at(fault, "/append", FAULT_OPTION, "append is true, but no key came");
    for (int i = 0; i < ATTN_OUTPUT_COUNT && !item->query.data; i++)
        item->outputs[i] = false;
    return true;
}

static bool not_offered(const struct call *call, const char *field, const char *what,
                        struct fault *fault)
{
    session_check_here(spread_call_of(call)->session, what, fault);
    snprintf(fault->pointer, sizeof fault->pointer, "/%s", field);
    return false;
}

static bool settle(struct call *call, const struct session_asked *asked, struct fault *fault)
{
    struct infer_item *item = &infer_request_of(call)->items[0];
    struct spread_call *own = spread_call_of(call);
    const char *refused = field_not_offered(item, asked);
    if (refused)
        return not_offered(call, refused, refused, fault);
    if (item->layer_index != 0)
        return fault_set_at(fault, "/layer", FAULT_NOT_FOUND,
                            "layer %lld is not one of session '%s'", (long long)item->layer_index,
                            own->session->id);
    own->at = asked->at;
    own->has_past_len = item->has_past_len;
    own->has_query = item->query.data != NULL;
    return settle_rows(item, asked, fault) && settle_outputs(item, fault)
           && spread_call_settle(call, item, fault);
}

static bool read(struct call *call, struct fault *fault)
{
    struct session_asked asked = { .at = SESSION_AT_NONE };
    struct field_items items = { .target.table = &attention_step_fields,
                                 .more = { &session_path_fields, &asked },
                                 .list_may_lack = true };
    if (!attention_read(call, &items, fault))
        return false;
    if (items.is_list)
        return not_offered(call, "steps", "a list of steps", fault);
    return settle(call, items.more_items, fault);
}

/* ------------------------------------------------------------------- answers -- */

/* Parts are F32; the answer of a file has the dtype of the query, as of a session that is here. */
static bool finish(struct call *call, struct fault *fault)
{
    struct infer_request *request = infer_request_of(call);
    const struct array *query = &spread_call_of(call)->asked.query;
    const bool keeps_dtype = operation_answer(call)->writer->keeps_dtype && query->data;
    return infer_convert_results(request, &request->items[0], keeps_dtype ? query->dtype : ATTN_F32,
                                 fault);
}

/* The cut of this call: what the bits of the merge depend on. */
static void say_ranges(const struct spread_call *own, struct writer *writer)
{
    const struct spread_batch *batch = &own->batch;
    const struct spread_peers *peers = spread_lines_peers(own->wait.lines);
    writer->kind->list(writer, "ranges");
    for (int64_t i = 0; i < batch->count; i++) {
        const struct spread_item *item = &batch->items[i];
        writer->kind->object(writer, NULL);
        writer->kind->string(writer, "peer", peers->peers[item->peer].name);
        writer->kind->integer(writer, "first", batch->spread->ranges[item->range].first);
        writer->kind->integer(writer, "kv_len", item->at + item->rows);
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

static void say(const struct call *call, struct writer *writer)
{
    const struct spread_call *own = spread_call_of(call);
    const struct infer_item *item = &infer_request_of(call)->items[0];
    writer->kind->string(writer, "session", own->session->id);
    writer->kind->integer(writer, "kv_len", own->session->layers[0].kv_len_then);
    writer->kind->string(writer, "model", item->model->name);
    writer->kind->integer(writer, "layer", 0);
    writer->kind->integer(writer, "layer_kv_len", own->session->layers[0].kv_len_then);
    say_ranges(own, writer);
    attention_say_results(writer, item);
}

static const struct operation spread_attention = { .kind = &infer_kind,
                                                   .formats = operation_formats_tensors,
                                                   .read = read,
                                                   .finish = finish,
                                                   .say = say,
                                                   .drop = spread_call_drop };

bool spread_attention_begin(struct call *call, struct session *session,
                            const struct exchange *exchange, struct fault *fault)
{
    call->operation = &spread_attention;
    return spread_call_begin(call, session, exchange, fault);
}
