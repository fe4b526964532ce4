/* oip_parameters.c - the parameters of an inference request.
 *
 * The protocol leaves names free, so clients send parameters of their own. An unknown name is
 * ignored, unless it is so near to a known one that it must be a typing error. Options of the model
 * are the rows of attention's table that have a name here (fields/field.h). */
#include "formats/format.h"
#include "operations/attention_fields.h"
#include "wire/wire_oip.h"

#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

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
        .name = NAME, .onnx = NAME, .kind = FIELD_ELSEWHERE, .flags = FIELD_PARAMETER              \
    }
#define INTEGER_OF(NAME, MEMBER)                                                                   \
    {                                                                                              \
        .name = NAME, .onnx = NAME, .kind = FIELD_INTEGER, .flags = FIELD_PARAMETER,               \
        .offset = offsetof(struct protocol, MEMBER), .code = FAULT_OPTION                          \
    }

/* oip_envelope.c and oip_sequence.c read those that are not read here. */
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

static enum field_naming naming_of(const struct oip *oip)
{
    return oip->model->parameterless ? NAMED_AS_ONNX : NAMED_AS_PARAMETERS;
}

/* A whole pass has no options. */
const char *oip_parameter_of(const struct oip *oip, const char *field)
{
    const struct field *row = field_find(&attention_fields, NAMED_AS_FIELDS, field);
    const char *name = row && !oip->trace ? field_name(row, naming_of(oip)) : NULL;
    return name && cJSON_GetObjectItemCaseSensitive(oip->parameters, name) ? name : NULL;
}

/* The parameters as a message, without those of Triton's own. */
static bool make_message(struct infer_call *call, struct field_reader *reader,
                         const cJSON *parameters, struct message *message)
{
    int64_t used = 0;
    *message = (struct message){ .count = 0 };
    if (!parameters)
        return true;
    if (!format_json_message(&call->base.document, parameters, reader->arena, message,
                             reader->fault))
        return false;
    for (int64_t i = 0; i < message->count; i++) {
        const struct value *value = &message->values[i];
        field_point_to(reader, reader->prefix, value->name);
        if (value->kind == VALUE_LIST || value->kind == VALUE_NUMBERS
            || value->kind == VALUE_OBJECT)
            return field_wrong_type(reader, value, "a string, a number or a boolean");
        if (strncmp(value->name, "triton_", strlen("triton_")) != 0)
            message->values[used++] = *value;
    }
    message->count = used;
    return true;
}

/* 0 is the default level, and so is one that no int holds. */
static void take_protocol(struct infer_call *call, struct oip *oip, const struct protocol *protocol)
{
    static const enum attn_output MAPS[] = { ATTN_OUTPUT_SCORES, ATTN_OUTPUT_SOFTCAPPED,
                                             ATTN_OUTPUT_MASKED, ATTN_OUTPUT_WEIGHTS };
    const int64_t most_us = INT64_MAX / 1000 / 2; /* a deadline that no clock will reach */
    const int64_t timeout_us = protocol->timeout_us;
    oip->map = MAPS[protocol->map_mode];
    call->base.timeout_ns = (timeout_us < most_us ? timeout_us : most_us) * 1000;
    call->base.priority = protocol->priority < INT_MAX ? (int)protocol->priority : 0;
}

bool oip_read_parameters(struct infer_call *call, struct oip *oip, struct infer_item *item,
                         struct fault *fault)
{
    static const struct field_table NO_OPTIONS = { .policy = FIELDS_LENIENT };
    struct field_table options = oip->trace ? NO_OPTIONS : attention_fields;
    struct protocol protocol = { 0 };
    struct message message;
    struct field_reader reader = { .arena = &call->request.arena,
                                   .nonfinite_allowed = call->request.nonfinite_allowed,
                                   .naming = naming_of(oip),
                                   .prefix = "/parameters",
                                   .is_flat = true,
                                   .fault = fault };
    options.policy = FIELDS_LENIENT;
    if (!make_message(call, &reader, oip->parameters, &message)
        || !fields_read(&reader, &message, (struct field_target){ &options, item },
                        (struct field_target){ &PROTOCOL_TABLE, &protocol }))
        return false;
    take_protocol(call, oip, &protocol);
    return true;
}
