/* v1_fields.c - see v1_fields.h.
 *
 * One table holds every field: its name and how it is read. */
#include "wire/v1_fields.h"

#include "base/precision.h"
#include "wire/v1_weight_map.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --------------------------------------------------------------- arrays -- */

static bool read_query(struct v1_reader *reader, const cJSON *node)
{
    return v1_read_array(reader, node, false, &reader->item->query);
}

static bool read_key(struct v1_reader *reader, const cJSON *node)
{
    return v1_read_array(reader, node, false, &reader->item->key);
}

static bool read_value(struct v1_reader *reader, const cJSON *node)
{
    return v1_read_array(reader, node, false, &reader->item->value);
}

static bool read_context_gradient(struct v1_reader *reader, const cJSON *node)
{
    return v1_read_array(reader, node, false, &reader->item->context_gradient);
}

/* The index of the first number or null. */
static int64_t first_added(const struct json_numbers *numbers)
{
    if (!numbers->has_number)
        return numbers->first_null;
    return numbers->has_null && numbers->first_null < numbers->first_number ? numbers->first_null
                                                                            : numbers->first_number;
}

/* Whether all numbers are 0 or 1 and one is 1: what tokenizers call an attention mask. */
static bool is_tokenizer_mask(const struct json_numbers *numbers)
{
    bool has_one = false;
    for (int64_t i = 0; i < numbers->count; i++) {
        if (numbers->values[i] != 0.0f && numbers->values[i] != 1.0f)
            return false;
        has_one = has_one || numbers->values[i] == 1.0f;
    }
    return has_one;
}

/* A mask is of booleans or of numbers. A tokenizer's mask is refused: added to the scores, 0 and 1
 * would hide nothing, and its client most likely means to hide keys. */
static bool expect_one_kind(struct v1_reader *reader, const struct json_numbers *numbers)
{
    const bool is_mixed = numbers->has_bool && (numbers->has_number || numbers->has_null);
    if (is_mixed) {
        const int64_t added = first_added(numbers);
        const bool is_bool = numbers->first_bool > added;
        const struct json_place place = v1_place(reader);
        const struct json_element element =
            json_element_at(numbers, is_bool ? numbers->first_bool : added);
        return json_element_fault(&place, &element, FAULT_TYPE,
                                  "is %s after %s; expected one or the other", element.kind,
                                  is_bool ? "numbers" : "booleans");
    }
    if (!numbers->has_bool && is_tokenizer_mask(numbers))
        return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                            "%s is nothing but the numbers 0 and 1; expected true and false where "
                            "it says which keys may be attended to. To add 0 and 1 to the scores, "
                            "send it as an F32 tensor (safetensors, or FP32 under /v2)",
                            reader->name);
    return true;
}

/* Booleans become numbers to add to the scores: 0 for true, -INFINITY for false. Each array of a
 * document is read once, so the numbers are changed in place. */
static bool read_mask(struct v1_reader *reader, const cJSON *node)
{
    const struct json_numbers *numbers =
        v1_read_numbers(reader, node, "an array of booleans or of numbers");
    if (!numbers)
        return false;
    if (!expect_one_kind(reader, numbers))
        return false;
    if (numbers->has_bool)
        for (int64_t i = 0; i < numbers->count; i++)
            numbers->values[i] = numbers->values[i] != 0.0f ? 0.0f : -INFINITY;
    v1_take_array(&reader->item->mask, numbers);
    reader->item->mask_is_bool = numbers->has_bool;
    return true;
}

/* Reads a number, or an array with a number for each query row. */
static bool read_kv_len(struct v1_reader *reader, const cJSON *node)
{
    struct infer_item *item = reader->item;
    item->kv_len_rows = cJSON_IsArray(node);
    if (item->kv_len_rows) {
        const struct json_numbers *numbers =
            v1_read_numbers(reader, node, "a number, or an array of them");
        if (!numbers)
            return false;
        if (!v1_expect_numbers(reader, numbers, false))
            return false;
        if (numbers->rank != 1)
            return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                                "kv_len is not a list of numbers; expected one for each query row");
        item->kv_len_count = numbers->count;
        return v1_integers_of(reader, numbers, FAULT_LENGTH, &item->kv_len);
    }
    item->kv_len_count = 1;
    item->kv_len = arena_calloc(reader->arena, 1, sizeof *item->kv_len);
    if (!item->kv_len)
        return fault_no_memory(reader->fault);
    return v1_read_integer(reader, node, 0, FAULT_LENGTH, item->kv_len);
}

/* --------------------------------------------------------- other fields -- */

bool v1_read_model(struct v1_reader *reader, const cJSON *node)
{
    if (!cJSON_IsString(node))
        return v1_wrong_type(reader, node, "a string");
    reader->item->model_name = node->valuestring;
    return true;
}

bool v1_read_layer(struct v1_reader *reader, const cJSON *node)
{
    if (cJSON_IsNumber(node) && node->valuedouble > V1_INTEGER_MAX) {
        reader->item->layer_index = INT64_MAX; /* no model has such a layer: not found */
        return true;
    }
    return v1_read_integer(reader, node, 0, FAULT_OPTION, &reader->item->layer_index);
}

static bool read_causal(struct v1_reader *reader, const cJSON *node)
{
    reader->item->has_causal = true;
    return v1_read_bool(reader, node, &reader->item->causal);
}

static bool read_window_left(struct v1_reader *reader, const cJSON *node)
{
    reader->item->has_window_left = true;
    return v1_read_integer(reader, node, -1, FAULT_OPTION, &reader->item->window_left);
}

static bool read_window_right(struct v1_reader *reader, const cJSON *node)
{
    reader->item->has_window_right = true;
    return v1_read_integer(reader, node, -1, FAULT_OPTION, &reader->item->window_right);
}

static bool read_past_len(struct v1_reader *reader, const cJSON *node)
{
    return v1_read_integer(reader, node, 0, FAULT_LENGTH, &reader->item->past_len);
}

static bool read_kv_offset(struct v1_reader *reader, const cJSON *node)
{
    return v1_read_integer(reader, node, 0, FAULT_LENGTH, &reader->item->masking.kv_offset);
}

/* read_alibi_slopes and the like. In JSON null stands for -INFINITY. */
#define X(NAME, name, may_be_none)                                                                 \
    static bool read_##name(struct v1_reader *reader, const cJSON *node)                           \
    {                                                                                              \
        return v1_read_array(reader, node, may_be_none,                                            \
                             &reader->item->per_head[ATTN_PER_HEAD_##NAME]);                       \
    }
ATTN_PER_HEAD_MAP(X)
#undef X

static bool read_partial(struct v1_reader *reader, const cJSON *node)
{
    return v1_read_bool(reader, node, &reader->item->partial);
}

static bool read_scale(struct v1_reader *reader, const cJSON *node)
{
    reader->item->has_scale = true;
    return v1_read_number(reader, node, &reader->item->scale);
}

static bool read_softcap(struct v1_reader *reader, const cJSON *node)
{
    reader->item->has_softcap = true;
    if (!v1_read_number(reader, node, &reader->item->softcap))
        return false;
    const double softcap = reader->item->softcap;
    if (softcap < 0 || (softcap > 0 && (float)softcap == 0))
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "softcap is %.9g; expected 0 (off) or more, as a 32-bit float",
                            softcap);
    return true;
}

static bool read_dropout(struct v1_reader *reader, const cJSON *node)
{
    float *dropout = &reader->item->dropout;
    if (!v1_read_float(reader, node, dropout))
        return false;
    if (!(*dropout >= 0 && *dropout < 1))
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "dropout is %.9g; expected 0 (off) or more, and less than 1",
                            (double)*dropout);
    return true;
}

static bool read_seed(struct v1_reader *reader, const cJSON *node)
{
    int64_t seed = 0;
    if (!v1_read_integer(reader, node, 0, FAULT_OPTION, &seed))
        return false;
    reader->item->seed = (uint64_t)seed;
    return true;
}

static bool read_normalizer(struct v1_reader *reader, const cJSON *node)
{
    if (!cJSON_IsString(node))
        return v1_wrong_type(reader, node, "\"softmax\" or \"sparsemax\"");
    const bool is_sparse = strcmp(node->valuestring, "sparsemax") == 0;
    if (!is_sparse && strcmp(node->valuestring, "softmax") != 0)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "there is no normalizer '%.60s'; expected softmax or sparsemax",
                            node->valuestring);
    reader->item->normalizer = is_sparse ? ATTN_SPARSEMAX : ATTN_SOFTMAX;
    return true;
}

static bool read_precision(struct v1_reader *reader, const cJSON *node)
{
    struct infer_item *item = reader->item;
    if (!cJSON_IsString(node))
        return v1_wrong_type(reader, node, PRECISION_NAMES);
    item->has_precision = precision_find(node->valuestring, &item->precision);
    return item->has_precision
           || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                           "there is no precision '%.60s'; expected " PRECISION_NAMES,
                           node->valuestring);
}

static bool read_heads(struct v1_reader *reader, const cJSON *node, int64_t *heads)
{
    const int64_t heads_max = 1 << 20;
    if (!v1_read_integer(reader, node, 1, FAULT_OPTION, heads))
        return false;
    if (*heads > heads_max)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "%s is %" PRId64 "; expected at most %" PRId64, reader->name, *heads,
                            heads_max);
    return true;
}

static bool read_q_heads(struct v1_reader *reader, const cJSON *node)
{
    return read_heads(reader, node, &reader->item->q_heads);
}

static bool read_kv_heads(struct v1_reader *reader, const cJSON *node)
{
    return read_heads(reader, node, &reader->item->kv_heads);
}

/* Each name with a comma and a space before it. */
#define X(NAME, name, columns, step) ", " #name
static const char output_names[] = ATTN_OUTPUT_MAP(X);
#undef X

bool v1_read_outputs(struct v1_reader *reader, const cJSON *node)
{
    if (reader->request->gradients)
        return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                            "outputs is not a field of gradients; all of them are answered");
    memset(reader->item->outputs, 0, sizeof reader->item->outputs);
    if (!cJSON_IsArray(node)
        || (cJSON_GetArraySize(node) && json_numbers_of(reader->document, node)))
        return v1_wrong_type(reader, node, "an array of names");
    const cJSON *name;
    cJSON_ArrayForEach(name, node)
    {
        int output = 0;
        if (!cJSON_IsString(name))
            return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                                "outputs holds %s; expected names",
                                json_kind(reader->document, name));
        while (output < ATTN_OUTPUT_COUNT
               && strcmp(infer_output_names[output], name->valuestring) != 0)
            output++;
        if (output == ATTN_OUTPUT_COUNT)
            return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                                "there is no output '%.60s'; expected any of %s", name->valuestring,
                                output_names + 2);
        reader->item->outputs[output] = true;
    }
    return true;
}

#define PER_HEAD_FIELD(NAME, name, may_be_none) { #name, read_##name },

static const struct v1_field fields[] = {
    { "model", v1_read_model },
    { "layer", v1_read_layer },
    { "query", read_query },
    { "key", read_key },
    { "value", read_value },
    { "mask", read_mask },
    { "causal", read_causal },
    { "kv_len", read_kv_len },
    { "window_left", read_window_left },
    { "window_right", read_window_right },
    { "past_len", read_past_len },
    { "scale", read_scale },
    { "softcap", read_softcap },
    { "q_heads", read_q_heads },
    { "kv_heads", read_kv_heads },
    { "outputs", v1_read_outputs },
    /* clang-format off */
    ATTN_PER_HEAD_MAP(PER_HEAD_FIELD)
    /* clang-format on */
    { "weight_map", v1_read_weight_map },
    { "normalizer", read_normalizer },
    { "precision", read_precision },
    { "dropout", read_dropout },
    { "seed", read_seed },
    { "partial", read_partial },
    { "kv_offset", read_kv_offset },
    { "context_gradient", read_context_gradient }, /* for gradients alone, so it is the last */
};

enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

/* How many fields of the table, counted from its start, the request may have. */
static int field_count(const struct v1_reader *reader)
{
    return reader->request->gradients ? FIELD_COUNT : FIELD_COUNT - 1;
}

bool v1_read_option(struct v1_reader *reader, const char *field, const cJSON *node)
{
    int i = 0;
    while (strcmp(fields[i].name, field) != 0)
        i++;
    return fields[i].read(reader, node);
}

/* -------------------------------------------------------------- objects -- */

static bool unknown_field(struct v1_reader *reader, const char *name, const char *list)
{
    const char *known[FIELD_COUNT + V1_MORE_MAX + 1];
    int count = field_count(reader);
    for (int i = 0; i < count; i++)
        known[i] = fields[i].name;
    for (int i = 0; reader->more && i < reader->more->field_count; i++)
        known[count++] = reader->more->fields[i].name;
    if (list)
        known[count++] = list;
    return v1_unknown_field(reader, name, known, count);
}

bool v1_read_object(struct v1_reader *reader, const cJSON *object, const char *list)
{
    const struct v1_more *more = reader->more;
    const cJSON *node;
    cJSON_ArrayForEach(node, object)
    {
        if (list && strcmp(node->string, list) == 0)
            continue;
        const struct v1_field *field =
            more ? v1_find_field(more->fields, more->field_count, node->string) : NULL;
        if (!field)
            field = v1_find_field(fields, field_count(reader), node->string);
        v1_point_to(reader, node->string);
        if (!field)
            return unknown_field(reader, node->string, list);
        if (!cJSON_IsNull(node) && !field->read(reader, node))
            return false;
    }
    return true;
}
