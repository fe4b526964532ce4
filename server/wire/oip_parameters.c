/* oip_parameters.c - the parameters of an inference request.
 *
 * The protocol leaves names free, so clients send parameters of their own. An unknown name is
 * ignored, unless it is so near to a known one that it must be a typing error. An option is read by
 * the function that reads the native API's field. */
#include "base/names.h"
#include "wire/v1_fields.h"
#include "wire/wire_oip.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What parameters are read into: an item, and what this protocol alone has. */
struct target {
    struct infer_call *call;
    struct oip *oip;
    struct v1_reader v1;
};

struct parameter {
    const char *name;
    const char *field; /* the name of the native API; "" where that has no such field */
    bool (*read)(struct target *target, const char *field,
                 const cJSON *node); /* NULL: as the native API reads the field */
};

static bool read_flag(struct target *target, const char *field, const cJSON *node);
static bool read_list(struct target *target, const char *field, const cJSON *node);
static bool read_map(struct target *target, const char *field, const cJSON *node);
static bool read_precision(struct target *target, const char *field, const cJSON *node);

/* The names of the protocol itself; oip_envelope.c and oip_sequence.c read those that are not read
 * here. */
static const char *const RESERVED[] = {
    "binary_data_output", "timeout",        "priority", "sequence_id",
    "sequence_end",       "sequence_start", "headers"
};

#define PER_HEAD_ROW(NAME, name, may_be_none) { #name, #name, read_list },

static const struct parameter OF_MODELS[] = {
    { "layer", "layer", NULL },
    { "causal", "causal", read_flag },
    { "scale", "scale", NULL },
    { "softcap", "softcap", NULL },
    { "window_left", "window_left", NULL },
    { "window_right", "window_right", NULL },
    { "past_len", "past_len", NULL },
    { "kv_offset", "kv_offset", NULL },
    { "q_heads", "q_heads", NULL },
    { "kv_heads", "kv_heads", NULL },
    { "normalizer", "normalizer", NULL },
    { "precision", "precision", NULL },
    { "dropout", "dropout", NULL },
    { "seed", "seed", NULL },
    /* clang-format off */
    ATTN_PER_HEAD_MAP(PER_HEAD_ROW)
    /* clang-format on */
};

static const struct parameter OF_SDPA[] = {
    { "is_causal", "causal", read_flag },
    { "scale", "scale", NULL },
    { "softcap", "softcap", NULL },
    { "q_num_heads", "q_heads", NULL },
    { "kv_num_heads", "kv_heads", NULL },
    { "left_window_size", "window_left", NULL },
    { "right_window_size", "window_right", NULL },
    { "qk_matmul_output_mode", "", read_map },
    { "softmax_precision", "", read_precision },
    { "precision", "precision", NULL },
};

enum {
    RESERVED_COUNT = sizeof RESERVED / sizeof RESERVED[0],
    OF_MODELS_COUNT = sizeof OF_MODELS / sizeof OF_MODELS[0],
    OF_SDPA_COUNT = sizeof OF_SDPA / sizeof OF_SDPA[0],
    KNOWN_MAX = RESERVED_COUNT + OF_MODELS_COUNT,
};

/* A whole pass has no options. */
static const struct parameter *own_parameters(const struct oip *oip, int *count)
{
    if (oip->trace) {
        *count = 0;
        return OF_MODELS;
    }
    *count = oip->model->parameterless ? OF_SDPA_COUNT : OF_MODELS_COUNT;
    return oip->model->parameterless ? OF_SDPA : OF_MODELS;
}

const char *oip_parameter_of(const struct oip *oip, const char *field)
{
    int count;
    const struct parameter *own = own_parameters(oip, &count);
    for (int i = 0; i < count; i++)
        if (field[0] && strcmp(own[i].field, field) == 0
            && cJSON_GetObjectItemCaseSensitive(oip->parameters, own[i].name))
            return own[i].name;
    return NULL;
}

/* ---------------------------------------------------------------- values -- */

/* Whether strtof() read a decimal number that a float holds. -inf, where may_be_none, is a head
 * without a sink. */
static bool is_number(const char *text, const char *end, bool may_be_none, float value)
{
    const bool is_decimal = text + strspn(text, " +-.0123456789eE") == end;
    return is_decimal ? isfinite(value) : may_be_none && value == -INFINITY;
}

/* Reads numbers between commas out of a string: parameters may not be arrays. */
static bool read_list(struct target *target, const char *field, const cJSON *node)
{
    struct v1_reader *v1 = &target->v1;
    if (!cJSON_IsString(node))
        return v1_wrong_type(v1, node, "a string of numbers between commas");
    const char *p = node->valuestring;
    int64_t count = 1;
    for (const char *c = p; *c; c++)
        count += *c == ',';
    int which = 0;
    while (strcmp(attn_per_head_fields[which].name, field) != 0)
        which++;
    const bool may_be_none = attn_per_head_fields[which].may_be_none;
    float *values = arena_calloc(&target->call->request.arena, (size_t)count, sizeof *values);
    if (!values)
        return fault_no_memory(v1->fault);
    for (int64_t i = 0; i < count; i++) {
        char *end;
        values[i] = strtof(p, &end);
        if (end == p || (*end != ',' && *end != '\0') || !is_number(p, end, may_be_none, values[i]))
            return fault_set_at(
                v1->fault, v1->pointer, FAULT_TYPE, "%s is '%.60s'; expected %s between commas",
                v1->name, node->valuestring,
                may_be_none ? "numbers of a 32-bit float, or -inf," : "numbers of a 32-bit float");
        p = end + (*end == ',');
    }
    v1->item->per_head[which] = (struct infer_array){ values, ATTN_F32, 1, { count } };
    return true;
}

/* Reads a boolean, also as ONNX writes its flags: 0 or 1. */
static bool read_flag(struct target *target, const char *field, const cJSON *node)
{
    const bool is_number =
        cJSON_IsNumber(node) && (node->valuedouble == 0 || node->valuedouble == 1);
    const cJSON flag = { .type = node->valuedouble != 0 ? cJSON_True : cJSON_False };
    return v1_read_option(&target->v1, field, is_number ? &flag : node);
}

static bool read_map(struct target *target, const char *field, const cJSON *node)
{
    static const enum attn_output maps[] = { ATTN_OUTPUT_SCORES, ATTN_OUTPUT_SOFTCAPPED,
                                             ATTN_OUTPUT_MASKED, ATTN_OUTPUT_WEIGHTS };
    struct v1_reader *v1 = &target->v1;
    int64_t mode;
    (void)field;
    if (!v1_read_integer(v1, node, 0, FAULT_OPTION, &mode))
        return false;
    if (mode > 3)
        return fault_set_at(v1->fault, v1->pointer, FAULT_OPTION,
                            "%s is %" PRId64 "; expected 0 (scores), 1 (softcapped), 2 (masked) "
                            "or 3 (weights)",
                            v1->name, mode);
    target->oip->map = maps[mode];
    return true;
}

/* Reads the number of an ONNX datatype. */
static bool read_precision(struct target *target, const char *field, const cJSON *node)
{
    struct v1_reader *v1 = &target->v1;
    int64_t precision;
    (void)field;
    if (!v1_read_integer(v1, node, 0, FAULT_OPTION, &precision))
        return false;
    if (precision != 1 && precision != 10 && precision != 11 && precision != 16)
        return fault_set_at(v1->fault, v1->pointer, FAULT_OPTION,
                            "%s is %" PRId64 "; expected 1 (float), 10 (float16), 11 (double) or "
                            "16 (bfloat16)",
                            v1->name, precision);
    v1->item->softmax_precision = precision == 11 ? ATTN_F64 : ATTN_F32;
    return true;
}

static bool read_timeout(struct target *target, const cJSON *node)
{
    int64_t timeout_us;
    if (!v1_read_integer(&target->v1, node, 0, FAULT_OPTION, &timeout_us))
        return false;
    const int64_t most_us = INT64_MAX / 1000 / 2; /* a deadline that no clock will reach */
    target->call->base.timeout_ns = (timeout_us < most_us ? timeout_us : most_us) * 1000;
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

/* 0 is the default level, and so is one that no int holds. */
static bool read_priority(struct target *target, const cJSON *node)
{
    int64_t priority;
    if (!v1_read_integer(&target->v1, node, 0, FAULT_OPTION, &priority))
        return false;
    target->call->base.priority = priority < INT_MAX ? (int)priority : 0;
    return true;
}

static bool read_reserved(struct target *target, const cJSON *node)
{
    if (strcmp(node->string, "timeout") == 0)
        return read_timeout(target, node);
    if (strcmp(node->string, "priority") == 0)
        return read_priority(target, node);
    return true;
}

/* Ignores an unknown name, or refuses it where a known one is near. */
static bool pass_over(const struct oip *oip, const struct v1_reader *v1)
{
    const char *known[KNOWN_MAX];
    int count;
    const struct parameter *own = own_parameters(oip, &count);
    for (int i = 0; i < count; i++)
        known[i] = own[i].name;
    for (int i = 0; i < RESERVED_COUNT; i++)
        known[count++] = RESERVED[i];
    const char *nearest = nearest_name(v1->name, known, count);
    return !nearest
           || fault_set_at(v1->fault, v1->pointer, FAULT_FIELD,
                           "there is no parameter '%.60s'; did you mean '%s'?", v1->name, nearest);
}

static void point_to(struct v1_reader *v1, const char *name)
{
    char pointer[FAULT_POINTER_MAX];
    v1_point_to(v1, name);
    snprintf(pointer, sizeof pointer, "/parameters%.*s",
             (int)(sizeof pointer - sizeof "/parameters"), v1->pointer);
    memcpy(v1->pointer, pointer, sizeof pointer);
}

static bool read_parameter(struct target *target, const cJSON *node)
{
    struct v1_reader *v1 = &target->v1;
    int count, i = 0;
    const struct parameter *own = own_parameters(target->oip, &count);
    point_to(v1, node->string);
    if (cJSON_IsObject(node) || cJSON_IsArray(node))
        return v1_wrong_type(v1, node, "a string, a number or a boolean");
    if (is_reserved(node->string))
        return read_reserved(target, node);
    while (i < count && strcmp(own[i].name, node->string) != 0)
        i++;
    if (i == count)
        return pass_over(target->oip, v1);
    return own[i].read ? own[i].read(target, own[i].field, node)
                       : v1_read_option(v1, own[i].field, node);
}

bool oip_read_parameters(struct infer_call *call, struct oip *oip, struct infer_item *item,
                         struct fault *fault)
{
    struct target target = {
        .call = call,
        .oip = oip,
        .v1 = { .document = &call->base.document,
                .arena = &call->request.arena,
                .nonfinite_allowed = call->request.nonfinite_allowed,
                .request = &call->request,
                .item = item,
                .fault = fault },
    };
    const cJSON *node;
    oip->map = ATTN_OUTPUT_SCORES;
    cJSON_ArrayForEach(node, oip->parameters)
    {
        if (!cJSON_IsNull(node) && !read_parameter(&target, node))
            return false;
    }
    return true;
}
