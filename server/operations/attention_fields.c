/* SPDX-License-Identifier: Apache-2.0 */
/* attention_fields.c - every field of attention, once: its name in JSON, in files and under /v2,
 * its place in struct infer_item, and what fits. */
#include "operations/attention_fields.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* The offset of a member of the item. has_ flags are behind other members, so none is 0. */
#define AT(member) offsetof(struct infer_item, member)

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

#define ARRAY_OF(NAME)                                                                             \
    {                                                                                              \
        .name = #NAME, .kind = FIELD_ARRAY, .flags = FIELD_TENSOR, .offset = AT(NAME)              \
    }
#define INTEGER_OF(NAME, MEMBER, LEAST, CODE, ...)                                                 \
    {                                                                                              \
        .name = #NAME, .kind = FIELD_INTEGER, .offset = AT(MEMBER), .least = LEAST,                \
        .code = FAULT_##CODE, __VA_ARGS__                                                          \
    }

/* ------------------------------------------------------- rules of one field -- */

static bool check_softcap(struct field_reader *reader, const void *value)
{
    const double softcap = *(const double *)value;
    return (softcap >= 0 && (softcap == 0 || (float)softcap != 0))
           || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                           "%s is %.9g; expected 0 (off) or more, as a 32-bit float", reader->name,
                           softcap);
}

static bool check_dropout(struct field_reader *reader, const void *value)
{
    const float dropout = *(const float *)value;
    return (dropout >= 0 && dropout < 1)
           || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                           "%s is %.9g; expected 0 (off) or more, and less than 1", reader->name,
                           (double)dropout);
}

static bool read_map_heads(struct field_reader *reader, const struct value *value, void *into)
{
    static const char *const NAMES[] = {
        [ATTN_MAP_EACH] = "all", [ATTN_MAP_MEAN] = "mean", [ATTN_MAP_MAX] = "max"
    };
    const char *expected = "\"all\", \"mean\", \"max\" or an array of head numbers";
    struct attn_weight_map *map = into;
    if (value->kind != VALUE_STRING)
        return field_read_integers(reader, value, expected, &map->head_list, &map->head_count);
    for (int i = 0; i < COUNT_OF(NAMES); i++)
        if (strcmp(value->string, NAMES[i]) == 0) {
            map->heads = (enum attn_map_heads)i;
            return true;
        }
    return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                        "heads is '%.60s'; expected %s", value->string, expected);
}

/* The number of an ONNX datatype. */
static bool read_softmax_precision(struct field_reader *reader, const struct value *value,
                                   void *into)
{
    static const struct field NUMBER = { .kind = FIELD_INTEGER, .code = FAULT_OPTION };
    struct infer_item *item = into;
    int64_t type = 0;
    reader->field = &NUMBER;
    if (!field_read_single(reader, value, &type))
        return false;
    if (type != 1 && type != 10 && type != 11 && type != 16)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "%s is %" PRId64 "; expected 1 (float), 10 (float16), 11 (double) or "
                            "16 (bfloat16)",
                            reader->name, type);
    item->softmax_precision = type == 11 ? ATTN_F64 : ATTN_F32;
    return true;
}

/* ------------------------------------------------------------------ weight_map -- */

#define MAP_AT(member) offsetof(struct attn_weight_map, member)

#define RANGE_OF(NAME, MEMBER)                                                                     \
    {                                                                                              \
        .name = (NAME), .kind = FIELD_PAIR, .flags = FIELD_RANGE, .offset = MAP_AT(MEMBER),        \
        .expected = "[begin, end]"                                                                 \
    }

static_assert(sizeof(struct attn_map_range) == 2 * sizeof(int64_t), "a range is a pair");
static_assert(MAP_AT(pool_columns) == MAP_AT(pool_rows) + sizeof(int64_t), "pool is a pair");

static const struct field REGION_ROWS[] = {
    RANGE_OF("rows", region_rows),
    RANGE_OF("keys", region_keys),
};

/* Its place is the map itself, too: bytes 0 leaves what other members have set. */
static const struct field_table REGION_TABLE = { .rows = REGION_ROWS,
                                                 .count = COUNT_OF(REGION_ROWS) };

static const struct field MAP_ROWS[] = {
    { .name = "heads", .kind = FIELD_OWN, .own = read_map_heads },
    { .name = "rows",
      .kind = FIELD_INDICES,
      .offset = MAP_AT(row_list),
      .count = MAP_AT(row_count),
      .expected = "an array of row numbers" },
    { .name = "region", .kind = FIELD_OBJECT, .inner = &REGION_TABLE },
    { .name = "top_k",
      .kind = FIELD_INTEGER,
      .offset = MAP_AT(top_k),
      .least = 1,
      .code = FAULT_OPTION },
    { .name = "pool",
      .kind = FIELD_PAIR,
      .offset = MAP_AT(pool_rows),
      .least = 1,
      .expected = "[rows, columns]" },
};

const struct field_table weight_map_fields = { .rows = MAP_ROWS,
                                               .count = COUNT_OF(MAP_ROWS),
                                               .bytes = sizeof(struct attn_weight_map) };

/* ------------------------------------------------------------------- the rows -- */

static const char *const OUTPUTS[] = {
#define X(NAME, name, columns, step) #name,
    ATTN_OUTPUT_MAP(X)
#undef X
};
static const char *const NORMALIZERS[] = {
    [ATTN_SOFTMAX] = "softmax", [ATTN_SPARSEMAX] = "sparsemax"
};
static const char *const PRECISIONS[] = { [ATTN_PRECISION_HIGHEST] = "highest",
                                          [ATTN_PRECISION_HIGH] = "high",
                                          [ATTN_PRECISION_MEDIUM] = "medium" };

static_assert(sizeof(enum attn_normalizer) == sizeof(int), "FIELD_ENUM stores an int");
static_assert(sizeof PRECISIONS / sizeof PRECISIONS[0] == ATTN_PRECISION_COUNT, "one name each");

#define PER_HEAD_ROW(NAME, NAME_, may_be_none)                                                     \
    { .name = #NAME_,                                                                              \
      .kind = FIELD_ARRAY,                                                                         \
      .flags = FIELD_TENSOR | FIELD_PARAMETER | ((may_be_none) ? FIELD_NULLS : 0),                 \
      .offset = AT(per_head[ATTN_PER_HEAD_##NAME]) },

static const struct field ROWS[] = {
    { .name = "model", .kind = FIELD_STRING, .flags = FIELD_ADDRESS, .offset = AT(model_name) },
    INTEGER_OF(layer, layer_index, 0, OPTION,
               .flags = FIELD_SATURATES | FIELD_PARAMETER | FIELD_ADDRESS, .has = AT(has_layer)),
    ARRAY_OF(query),
    ARRAY_OF(key),
    ARRAY_OF(value),
    { .name = "mask",
      .kind = FIELD_MASK,
      .flags = FIELD_TENSOR,
      .offset = AT(mask),
      .has = AT(mask_is_bool) },
    { .name = "causal",
      .onnx = "is_causal",
      .kind = FIELD_BOOL,
      .flags = FIELD_PARAMETER | FIELD_ADDRESS,
      .offset = AT(causal),
      .has = AT(has_causal) },
    { .name = "kv_len",
      .kind = FIELD_LENGTHS,
      .flags = FIELD_TENSOR | FIELD_ADDRESS,
      .offset = AT(kv_len),
      .code = FAULT_LENGTH },
    INTEGER_OF(window_left, window_left, -1, OPTION, .flags = FIELD_PARAMETER | FIELD_ADDRESS,
               .onnx = "left_window_size", .has = AT(has_window_left)),
    INTEGER_OF(window_right, window_right, -1, OPTION, .flags = FIELD_PARAMETER | FIELD_ADDRESS,
               .onnx = "right_window_size", .has = AT(has_window_right)),
    INTEGER_OF(past_len, past_len, 0, LENGTH, .flags = FIELD_PARAMETER | FIELD_ADDRESS,
               .has = AT(has_past_len)),
    { .name = "scale",
      .onnx = "scale",
      .kind = FIELD_NUMBER,
      .flags = FIELD_PARAMETER | FIELD_ADDRESS,
      .offset = AT(scale),
      .has = AT(has_scale) },
    { .name = "softcap",
      .onnx = "softcap",
      .kind = FIELD_NUMBER,
      .flags = FIELD_PARAMETER | FIELD_ADDRESS,
      .offset = AT(softcap),
      .has = AT(has_softcap),
      .check = check_softcap },
    INTEGER_OF(q_heads, q_heads, 1, OPTION, .most = 1 << 20,
               .flags = FIELD_PARAMETER | FIELD_ADDRESS, .onnx = "q_num_heads"),
    INTEGER_OF(kv_heads, kv_heads, 1, OPTION, .most = 1 << 20,
               .flags = FIELD_PARAMETER | FIELD_ADDRESS, .onnx = "kv_num_heads"),
    { .name = "outputs",
      .kind = FIELD_ENUM_SET,
      .flags = FIELD_ADDRESS,
      .offset = AT(outputs),
      .has = AT(has_outputs),
      .names = OUTPUTS,
      .name_count = ATTN_OUTPUT_COUNT },
    /* clang-format off */
    ATTN_PER_HEAD_MAP(PER_HEAD_ROW)
    /* clang-format on */
    { .name = "weight_map",
      .kind = FIELD_OBJECT,
      .offset = AT(weight_map),
      .has = AT(has_weight_map),
      .inner = &weight_map_fields },
    { .name = "normalizer",
      .kind = FIELD_ENUM,
      .flags = FIELD_PARAMETER | FIELD_ADDRESS,
      .offset = AT(normalizer),
      .names = NORMALIZERS,
      .name_count = COUNT_OF(NORMALIZERS),
      .expected = "\"softmax\" or \"sparsemax\"" },
    { .name = "precision",
      .onnx = "precision",
      .kind = FIELD_ENUM,
      .flags = FIELD_PARAMETER | FIELD_ADDRESS,
      .offset = AT(precision),
      .has = AT(has_precision),
      .names = PRECISIONS,
      .name_count = ATTN_PRECISION_COUNT },
    { .name = "dropout",
      .kind = FIELD_FLOAT,
      .flags = FIELD_PARAMETER,
      .offset = AT(dropout),
      .check = check_dropout },
    INTEGER_OF(seed, seed, 0, OPTION, .flags = FIELD_PARAMETER),
    { .name = "partial", .kind = FIELD_BOOL, .offset = AT(partial) },
    INTEGER_OF(kv_offset, masking.kv_offset, 0, LENGTH, .flags = FIELD_PARAMETER | FIELD_ADDRESS),
    { .onnx = "softmax_precision", .kind = FIELD_OWN, .own = read_softmax_precision },
};

const struct field_table attention_fields = {
    .rows = ROWS, .count = COUNT_OF(ROWS), .nameless = "query", .bytes = sizeof(struct infer_item)
};

const struct field_table attention_batch_fields = { .rows = ROWS,
                                                    .count = COUNT_OF(ROWS),
                                                    .list = "requests",
                                                    .items_max = INFER_ITEMS_MAX,
                                                    .bytes = sizeof(struct infer_item) };

const struct field_table attention_step_fields = { .rows = ROWS,
                                                   .count = COUNT_OF(ROWS),
                                                   .list = "steps",
                                                   .items_max = INFER_ITEMS_MAX,
                                                   .bytes = sizeof(struct infer_item) };

/* --------------------------------------------------------------- gradients -- */

static const struct field GRADIENT_ROWS[] = {
    ARRAY_OF(context_gradient),
    { .name = "outputs",
      .kind = FIELD_REFUSED,
      .expected = "outputs is not a field of gradients; all of them are answered" },
};

const struct field_table gradient_fields = { .rows = GRADIENT_ROWS,
                                             .count = COUNT_OF(GRADIENT_ROWS) };

/* -------------------------------------------------------------------- merge -- */

static const struct field PART_ROWS[] = {
    { .name = "context",
      .kind = FIELD_ARRAY,
      .flags = FIELD_TENSOR | FIELD_REQUIRED,
      .offset = offsetof(struct infer_part, context) },
    { .name = "lse",
      .kind = FIELD_ARRAY,
      .flags = FIELD_TENSOR | FIELD_REQUIRED | FIELD_NULLS,
      .offset = offsetof(struct infer_part, lse) },
};

static const struct field_table PART_TABLE = { .rows = PART_ROWS,
                                               .count = COUNT_OF(PART_ROWS),
                                               .bytes = sizeof(struct infer_part) };

static const struct field MERGE_ROWS[] = {
    { .name = "model", .kind = FIELD_STRING, .offset = AT(model_name) },
    INTEGER_OF(layer, layer_index, 0, OPTION, .flags = FIELD_SATURATES),
    { .name = "parts",
      .kind = FIELD_LIST,
      .flags = FIELD_TENSOR,
      .offset = AT(parts),
      .count = AT(part_count),
      .inner = &PART_TABLE,
      .expected = "an object of context and lse" },
};

const struct field_table merge_fields = { .rows = MERGE_ROWS,
                                          .count = COUNT_OF(MERGE_ROWS),
                                          .bytes = sizeof(struct infer_item) };

/* ----------------------------------------------------------------- sessions -- */

#define ASKED_AT(member) offsetof(struct session_asked, member)

/* The one member of select. */
static bool read_select(struct field_reader *reader, const struct value *value, void *into)
{
    struct session_asked *asked = into;
    const struct value *epsilon = value->kind == VALUE_OBJECT ? value->inner.values : NULL;
    if (!epsilon)
        return field_wrong_type(reader, value, "an object such as {\"epsilon\": 1e-3}");
    if (value->inner.count != 1 || strcmp(epsilon->name, "epsilon") != 0
        || epsilon->kind != VALUE_NUMBER)
        return fault_set_at(reader->fault, "/select", FAULT_TYPE,
                            "select has no number epsilon, or more than that; expected an object "
                            "such as {\"epsilon\": 1e-3}");
    asked->epsilon = epsilon->number;
    return (asked->epsilon >= 0 && asked->epsilon < 1)
           || fault_set_at(reader->fault, "/select/epsilon", FAULT_OPTION,
                           "epsilon is %g; expected the share of the softmax that may be left, "
                           "from 0 to below 1",
                           asked->epsilon);
}

static const struct field SESSION_ROWS[] = {
    { .name = "model", .kind = FIELD_REFUSED, .expected = FIELDS_NO_MODEL },
    { .name = "input", .kind = FIELD_ARRAY, .flags = FIELD_TENSOR, .offset = ASKED_AT(input) },
    { .name = "at", .kind = FIELD_INTEGER, .offset = ASKED_AT(at), .code = FAULT_LENGTH },
    { .name = "append",
      .kind = FIELD_BOOL,
      .offset = ASKED_AT(append),
      .has = ASKED_AT(has_append) },
    { .name = "select", .kind = FIELD_OWN, .own = read_select, .has = ASKED_AT(has_selection) },
    { .name = "session", /* of items alone, so these are the last */
      .kind = FIELD_STRING,
      .offset = ASKED_AT(id),
      .expected = "the id of a session, a string" },
    { .name = "owner",
      .kind = FIELD_STRING,
      .offset = ASKED_AT(owner),
      .expected = "the name of a key, a string" },
};

const struct field_table session_path_fields = { .rows = SESSION_ROWS,
                                                 .count = COUNT_OF(SESSION_ROWS) - 2,
                                                 .bytes = sizeof(struct session_asked) };
const struct field_table session_item_fields = { .rows = SESSION_ROWS,
                                                 .count = COUNT_OF(SESSION_ROWS),
                                                 .bytes = sizeof(struct session_asked) };
