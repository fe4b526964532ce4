/* SPDX-License-Identifier: Apache-2.0 */
/* oip_items.c - what the operations of the protocol share: parameters, batches, faults of a plan.
 *
 * The protocol leaves names of parameters free, so clients send some of their own. An unknown name
 * is ignored, unless it is so near to a known one that it must be a typing error. Options of the
 * model are the rows of attention's table that have a name here (fields/field.h). */
#include "call/infer_results.h"
#include "operations/attention_fields.h"
#include "operations/oip.h"

#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------- parameters -- */

/* What the protocol itself has. */
struct protocol {
    int64_t timeout_us, priority, map_mode;
};

static bool check_map_mode(struct field_reader *reader, const void *value)
{
    const int64_t mode = *(const int64_t *)value;
    return mode <= 3
           || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                           "%s is %" PRId64 "; expected 0 (scores), 1 (softcapped), 2 (masked) "
                           "or 3 (weights)",
                           reader->name, mode);
}

#define ELSEWHERE(NAME)                                                                            \
    {                                                                                              \
        .name = (NAME), .onnx = (NAME), .kind = FIELD_ELSEWHERE, .flags = FIELD_PARAMETER          \
    }
#define INTEGER_OF(NAME, MEMBER)                                                                   \
    {                                                                                              \
        .name = (NAME), .onnx = (NAME), .kind = FIELD_INTEGER, .flags = FIELD_PARAMETER,           \
        .offset = offsetof(struct protocol, MEMBER), .code = FAULT_OPTION                          \
    }

/* The format and oip_sequence.c read those that are not read here. */
static const struct field PROTOCOL_ROWS[] = {
    { .onnx = "qk_matmul_output_mode",
      .kind = FIELD_INTEGER,
      .offset = offsetof(struct protocol, map_mode),
      .code = FAULT_OPTION,
      .check = check_map_mode },
    ELSEWHERE("binary_data_output"),
    INTEGER_OF("timeout", timeout_us),
    INTEGER_OF("priority", priority),
    ELSEWHERE("sequence_id"),
    ELSEWHERE("sequence_end"),
    ELSEWHERE("sequence_start"),
    ELSEWHERE("headers"),
};

static const struct field_table PROTOCOL_TABLE = {
    .rows = PROTOCOL_ROWS, .count = sizeof PROTOCOL_ROWS / sizeof PROTOCOL_ROWS[0]
};

static enum field_naming naming_of(const struct oip_call *oip)
{
    return oip->model->parameterless ? NAMED_AS_ONNX : NAMED_AS_PARAMETERS;
}

/* The parameters without those of Triton's own. None is a list or an object. */
static bool take_single(struct field_reader *reader, const struct message *parameters,
                        struct message *message)
{
    *message = (struct message){
        arena_alloc(reader->arena, (size_t)parameters->count * sizeof *message->values), 0
    };
    if (!message->values)
        return fault_no_memory(reader->fault);
    for (int64_t i = 0; i < parameters->count; i++) {
        const struct value *value = &parameters->values[i];
        field_point_to(reader, reader->prefix, value->name);
        if (value->kind == VALUE_LIST || value->kind == VALUE_NUMBERS
            || value->kind == VALUE_OBJECT)
            return field_wrong_type(reader, value, "a string, a number or a boolean");
        if (strncmp(value->name, "triton_", strlen("triton_")) != 0)
            message->values[message->count++] = *value;
    }
    return true;
}

/* 0 is the default level, and so is one that no int holds. */
static void take_protocol(struct call *call, const struct protocol *protocol)
{
    static const enum attn_output MAPS[] = { ATTN_OUTPUT_SCORES, ATTN_OUTPUT_SOFTCAPPED,
                                             ATTN_OUTPUT_MASKED, ATTN_OUTPUT_WEIGHTS };
    const int64_t most_us = INT64_MAX / 1000 / 2; /* a deadline that no clock will reach */
    const int64_t timeout_us = protocol->timeout_us;
    oip_call_of(call)->map = MAPS[protocol->map_mode];
    call->timeout_ns = (timeout_us < most_us ? timeout_us : most_us) * 1000;
    call->priority = protocol->priority < INT_MAX ? (int)protocol->priority : 0;
}

bool oip_read_parameters(struct call *call, const struct field_table *table, void *into,
                         struct fault *fault)
{
    const struct oip_call *oip = oip_call_of(call);
    struct field_table lenient = *table;
    struct protocol protocol = { 0 };
    struct message message;
    struct field_reader reader = { .arena = call->form.arena,
                                   .nonfinite_allowed = call->form.nonfinite_allowed,
                                   .naming = naming_of(oip),
                                   .prefix = "/parameters",
                                   .is_flat = true,
                                   .fault = fault };
    lenient.policy = FIELDS_LENIENT;
    if (!take_single(&reader, oip->request.parameters, &message)
        || !fields_read(&reader, &message, (struct field_target){ &lenient, into },
                        (struct field_target){ &PROTOCOL_TABLE, &protocol }))
        return false;
    take_protocol(call, &protocol);
    return true;
}

/* ------------------------------------------------------------------ items -- */

struct array oip_entry(const struct array *array, int64_t b)
{
    struct array one = *array;
    size_t size = attn_dtype_size(array->dtype);
    one.rank--;
    for (int i = 0; i < one.rank; i++) {
        one.shape[i] = array->shape[i + 1];
        size *= (size_t)one.shape[i];
    }
    one.data = (const char *)array->data + (size_t)b * size;
    return one;
}

bool oip_make_items(struct call *call, int64_t count, struct fault *fault)
{
    struct infer_request *request = infer_request_of(call);
    const struct oip_request *oip = &oip_call_of(call)->request;
    const size_t most = call->limits.scratch_bytes_max / 2 / sizeof *request->items;
    if ((size_t)count > most)
        return oip_input_fault(oip, 0, fault, FAULT_TOO_LARGE,
                               "has a batch of %" PRId64 "; at most %zu can be computed", count,
                               most);
    request->joined = true;
    request->number_bytes = oip_number_bytes(oip);
    request->items = arena_calloc(request->arena, (size_t)count, sizeof *request->items);
    return request->items || fault_no_memory(fault);
}

void oip_explain(const struct call *call, struct fault *fault)
{
    static const char *const ROWS[] = { "query", "key", "value" }; /* in the slots' order */
    const struct oip_call *oip = oip_call_of(call);
    const struct oip_request *request = &oip->request;
    char pointer[FAULT_POINTER_MAX] = "";
    const char *field = fault->pointer[0] ? fault->pointer + 1 : "";
    const struct field *row = field_find(&attention_fields, NAMED_AS_FIELDS, field);
    const char *parameter = row ? field_name(row, naming_of(oip)) : NULL;
    for (int i = 0; i < request->signature->input_count; i++)
        if (request->inputs[i]
            && (strcmp(request->inputs[i]->name, field) == 0
                || (i < 3 && strcmp(ROWS[i], field) == 0)))
            snprintf(pointer, sizeof pointer, "/inputs/%d", request->input_index[i]);
    if (message_find(request->parameters, parameter))
        snprintf(pointer, sizeof pointer, "/parameters/%s", parameter);
    memcpy(fault->pointer, pointer, sizeof pointer);
}

bool oip_finish(struct call *call, struct fault *fault)
{
    struct infer_request *request = infer_request_of(call);
    struct infer_item *first = request->items;
    return request->item_count == 0
           || infer_convert_results(request, first, first->answer_dtype, fault);
}
