/* oip_parameters.c - the parameters of an inference request.
 *
 * The protocol leaves names free, so clients send parameters of their own: what is nobody's is
 * passed over, unless it is so near to one of ours that it must be a slip. An option goes to the
 * reader of the native API's field. */
#include "nearest.h"
#include "v1_fields.h"
#include "wire_oip.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parameter {
    const char *name;
    const char *field; /* of the native API; NULL: read here, or passed over */
};

/* The protocol's. priority is checked and without effect; a sequence means nothing to a model
 * without state. */
static const char *const RESERVED[] = {
    "binary_data_output", "timeout",        "priority", "sequence_id",
    "sequence_end",       "sequence_start", "headers"
};

static const struct parameter OF_MODELS[] = {
    { "layer", "layer" },
    { "causal", "causal" },
    { "scale", "scale" },
    { "softcap", "softcap" },
    { "window_left", "window_left" },
    { "window_right", "window_right" },
    { "past_len", "past_len" },
    { "kv_offset", "kv_offset" },
    { "q_heads", "q_heads" },
    { "kv_heads", "kv_heads" },
    { "normalizer", "normalizer" },
    { "dropout", "dropout" },
    { "seed", "seed" },
    { "alibi_slopes", NULL },
    { "sinks", NULL },
};

static const struct parameter OF_SDPA[] = {
    { "is_causal", "causal" },
    { "scale", "scale" },
    { "softcap", "softcap" },
    { "q_num_heads", "q_heads" },
    { "kv_num_heads", "kv_heads" },
    { "left_window_size", "window_left" },
    { "right_window_size", "window_right" },
    { "qk_matmul_output_mode", NULL },
    { "softmax_precision", NULL },
};

enum {
    RESERVED_COUNT = sizeof RESERVED / sizeof RESERVED[0],
    OF_MODELS_COUNT = sizeof OF_MODELS / sizeof OF_MODELS[0],
    OF_SDPA_COUNT = sizeof OF_SDPA / sizeof OF_SDPA[0],
    KNOWN_MAX = RESERVED_COUNT + OF_MODELS_COUNT,
};

static const struct parameter *own_parameters(const struct oip *oip, int *count)
{
    *count = oip->model->parameterless ? OF_SDPA_COUNT : OF_MODELS_COUNT;
    return oip->model->parameterless ? OF_SDPA : OF_MODELS;
}

const char *oip_parameter_of(const struct oip *oip, const char *field)
{
    int count;
    const struct parameter *own = own_parameters(oip, &count);
    for (int i = 0; i < count; i++)
        if (strcmp(own[i].field ? own[i].field : own[i].name, field) == 0
            && cJSON_GetObjectItemCaseSensitive(oip->parameters, own[i].name))
            return own[i].name;
    return NULL;
}

/* ---------------------------------------------------------------- values -- */

/* Numbers between commas: the values of parameters may not be arrays. */
static bool read_list(struct infer_call *call, struct v1_reader *reader, const cJSON *node,
                      struct infer_array *array)
{
    if (!cJSON_IsString(node))
        return v1_wrong_type(reader, node, "a string of numbers between commas");
    const char *p = node->valuestring;
    int64_t count = 1;
    for (const char *c = p; *c; c++)
        count += *c == ',';
    float *values = arena_calloc(&call->request.arena, (size_t)count, sizeof *values);
    if (!values)
        return fault_no_memory(reader->fault);
    for (int64_t i = 0; i < count; i++) {
        char *end;
        values[i] = strtof(p, &end);
        if (end == p || (*end != ',' && *end != '\0'))
            return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                                "%s is '%.60s'; expected numbers between commas", reader->name,
                                node->valuestring);
        p = end + (*end == ',');
    }
    *array = (struct infer_array){ values, ATTN_F32, 1, { count } };
    return true;
}

/* ONNX writes its flags as 0 and 1. */
static bool read_flag(struct v1_reader *reader, const char *field, const cJSON *node)
{
    const bool is_number =
        cJSON_IsNumber(node) && (node->valuedouble == 0 || node->valuedouble == 1);
    const cJSON flag = { .type = node->valuedouble != 0 ? cJSON_True : cJSON_False };
    return v1_read_option(reader, field, is_number ? &flag : node);
}

static bool read_map(struct oip *oip, struct v1_reader *reader, const cJSON *node)
{
    static const enum infer_output maps[] = { INFER_SCORES, INFER_SOFTCAPPED, INFER_MASKED,
                                              INFER_WEIGHTS };
    int64_t mode;
    if (!v1_read_integer(reader, node, 0, FAULT_OPTION, &mode))
        return false;
    if (mode > 3)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "%s is %d; expected 0 (scores), 1 (softcapped), 2 (masked) or 3 "
                            "(weights)",
                            reader->name, (int)(mode > 1000 ? 1000 : mode));
    oip->map = maps[mode];
    return true;
}

/* The number of an ONNX datatype. Of what is narrower than a float nothing is taken away. */
static bool read_precision(struct v1_reader *reader, const cJSON *node)
{
    int64_t precision;
    if (!v1_read_integer(reader, node, 0, FAULT_OPTION, &precision))
        return false;
    if (precision != 1 && precision != 10 && precision != 16)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "%s is %.17g; expected 1 (float), 10 (float16) or 16 (bfloat16)",
                            reader->name, (double)precision);
    return true;
}

static bool read_timeout(struct infer_call *call, struct v1_reader *reader, const cJSON *node)
{
    int64_t timeout_us;
    if (!v1_read_integer(reader, node, 0, FAULT_OPTION, &timeout_us))
        return false;
    const int64_t most_us = INT64_MAX / 1000 / 2; /* no deadline that any clock will see */
    call->timeout_ns = (timeout_us < most_us ? timeout_us : most_us) * 1000;
    return true;
}

/* ----------------------------------------------------------------- names -- */

static bool is_reserved(const char *name)
{
    for (int i = 0; i < RESERVED_COUNT; i++)
        if (strcmp(RESERVED[i], name) == 0)
            return true;
    return strncmp(name, "triton_", strlen("triton_")) == 0;
}

static bool read_reserved(struct infer_call *call, struct v1_reader *reader, const cJSON *node)
{
    int64_t priority;
    if (strcmp(node->string, "timeout") == 0)
        return read_timeout(call, reader, node);
    if (strcmp(node->string, "priority") == 0)
        return v1_read_integer(reader, node, 0, FAULT_OPTION, &priority);
    return true;
}

static bool read_own(struct infer_call *call, struct oip *oip, struct v1_reader *reader,
                     const struct parameter *parameter, const cJSON *node)
{
    if (!parameter->field)
        return strcmp(parameter->name, "alibi_slopes") == 0
                   ? read_list(call, reader, node, &reader->item->alibi_slopes)
               : strcmp(parameter->name, "sinks") == 0
                   ? read_list(call, reader, node, &reader->item->sinks)
               : strcmp(parameter->name, "softmax_precision") == 0 ? read_precision(reader, node)
                                                                   : read_map(oip, reader, node);
    return strcmp(parameter->field, "causal") == 0 ? read_flag(reader, parameter->field, node)
                                                   : v1_read_option(reader, parameter->field, node);
}

/* A name that nobody knows. */
static bool pass_over(const struct oip *oip, struct v1_reader *reader)
{
    const char *known[KNOWN_MAX];
    int count;
    const struct parameter *own = own_parameters(oip, &count);
    for (int i = 0; i < count; i++)
        known[i] = own[i].name;
    for (int i = 0; i < RESERVED_COUNT; i++)
        known[count++] = RESERVED[i];
    const char *nearest = nearest_name(reader->name, known, count);
    return !nearest
           || fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                           "there is no parameter '%.60s'; did you mean '%s'?", reader->name,
                           nearest);
}

static bool read_parameter(struct infer_call *call, struct oip *oip, struct v1_reader *reader,
                           const cJSON *node)
{
    int count, i = 0;
    const struct parameter *own = own_parameters(oip, &count);
    char prefixed[FAULT_POINTER_MAX];
    v1_turn_to(reader, node->string);
    snprintf(prefixed, sizeof prefixed, "/parameters%.*s",
             (int)(sizeof prefixed - sizeof "/parameters"), reader->pointer);
    memcpy(reader->pointer, prefixed, sizeof prefixed);
    if (cJSON_IsObject(node) || cJSON_IsArray(node))
        return v1_wrong_type(reader, node, "a string, a number or a boolean");
    if (is_reserved(node->string))
        return read_reserved(call, reader, node);
    while (i < count && strcmp(own[i].name, node->string) != 0)
        i++;
    return i < count ? read_own(call, oip, reader, &own[i], node) : pass_over(oip, reader);
}

bool oip_read_parameters(struct infer_call *call, struct oip *oip, struct infer_item *item,
                         struct fault *fault)
{
    struct v1_reader reader = {
        .document = &call->document,
        .request = &call->request,
        .item = item,
        .fault = fault,
    };
    const cJSON *node;
    oip->map = INFER_SCORES;
    cJSON_ArrayForEach(node, oip->parameters)
    {
        if (!cJSON_IsNull(node) && !read_parameter(call, oip, &reader, node))
            return false;
    }
    return true;
}
