/* SPDX-License-Identifier: Apache-2.0 */
/* trace_fields.c - every field of a trace, once: its name, its place in struct trace_item, and what
 * fits. */
#include "host/config_value.h"
#include "operations/attention_fields.h"
#include "operations/trace.h"

#include <math.h>
#include <stddef.h>

/* The longest that a trace may be kept. */
#define KEEP_MAX_NS (INT64_C(24) * 3600 * 1000000000)

#define AT(member) offsetof(struct trace_item, member)

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

/* ----------------------------------------------------- fields of their own -- */

static bool read_special(struct field_reader *reader, const struct value *value, void *into)
{
    struct trace_item *item = into;
    if (value->kind != VALUE_BOOL)
        return field_wrong_type(reader, value, "true or false");
    item->no_special = !value->flag;
    return true;
}

static bool read_append(struct field_reader *reader, const struct value *value, void *into)
{
    struct trace_item *item = into;
    if (value->kind != VALUE_BOOL)
        return field_wrong_type(reader, value, "true or false");
    item->drops_rows = !value->flag;
    return true;
}

#define RANGES "a list of [start, end]"

/* [[start, end], ...], or other pairs that expected names. */
static bool read_ranges(struct field_reader *reader, const struct value *value,
                        const char *expected, const struct attn_map_range **into,
                        int64_t *into_count)
{
    static const struct field ENDS = { .kind = FIELD_INTEGERS };
    const struct json_numbers *numbers = field_read_numbers(reader, value, expected);
    const int64_t *ends;
    int64_t count;
    if (!numbers)
        return false;
    if (numbers->count > 0 && (numbers->rank != 2 || numbers->shape[1] != 2))
        return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE, "%s is not %s",
                            reader->name, expected);
    reader->field = &ENDS;
    struct attn_map_range *ranges =
        arena_calloc(reader->arena, (size_t)numbers->count / 2, sizeof *ranges);
    if (!ranges)
        return fault_no_memory(reader->fault);
    if (!field_copy_integers(reader, numbers, &ends, &count))
        return false;
    for (int64_t i = 0; i < count / 2; i++)
        ranges[i] = (struct attn_map_range){ ends[2 * i], ends[2 * i + 1] };
    *into = ranges;
    *into_count = count / 2;
    return true;
}

static bool read_spans(struct field_reader *reader, const struct value *value, void *into)
{
    struct trace_item *item = into;
    return read_ranges(reader, value, RANGES, &item->spans, &item->span_count);
}

static bool read_row_spans(struct field_reader *reader, const struct value *value, void *into)
{
    struct trace_item *item = into;
    return read_ranges(reader, value, RANGES, &item->row_spans, &item->row_span_count);
}

static bool read_align_heads(struct field_reader *reader, const struct value *value, void *into)
{
    struct trace_item *item = into;
    return read_ranges(reader, value, "a list of [layer, head]", &item->align_heads,
                       &item->align_head_count);
}

/* A matrix, or the name of one beside the model. */
static bool read_head_weights(struct field_reader *reader, const struct value *value, void *into)
{
    static const struct field MATRIX = { .name = "head_weights",
                                         .kind = FIELD_ARRAY,
                                         .flags = FIELD_TENSOR,
                                         .offset = AT(head_weights) };
    struct trace_item *item = into;
    if (value->kind == VALUE_STRING) {
        item->head_weights_name = value->string;
        return true;
    }
    if (value->kind != VALUE_NUMBERS && value->kind != VALUE_TENSOR && value->kind != VALUE_LIST)
        return field_wrong_type(reader, value, "a matrix [layers][heads], or a name");
    reader->field = &MATRIX;
    return field_read_array(reader, value, item);
}

static bool read_span_texts(struct field_reader *reader, const struct value *value, void *into)
{
    struct trace_item *item = into;
    return trace_read_byte_slices(reader, value, &item->span_texts, &item->span_text_count);
}

bool trace_keep_time(const char *text, int64_t *keep_ns)
{
    return config_value_time(text, keep_ns) && *keep_ns > 0 && *keep_ns <= KEEP_MAX_NS;
}

static bool read_keep(struct field_reader *reader, const struct value *value, void *into)
{
    int64_t *keep_ns = &((struct trace_item *)into)->keep_ns;
    if (value->kind != VALUE_STRING)
        return field_wrong_type(reader, value, "a time such as \"5m\"");
    if (trace_keep_time(value->string, keep_ns))
        return true;
    return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                        "keep is '%.40s'; expected a time above 0 and of at most 24h, such as "
                        "\"90s\", \"5m\" or \"1h\"",
                        value->string);
}

/* A row; negative ones count from the end. */
static bool read_position(struct field_reader *reader, const struct value *value, void *into)
{
    struct trace_target *target = into;
    const double number = value->number;
    if (value->kind != VALUE_NUMBER)
        return field_wrong_type(reader, value, "an integer");
    if (!(fabs(number) <= FIELD_INTEGER_MAX) || number != floor(number))
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "%s is %.17g; expected an integer", reader->name, number);
    target->position = (int64_t)number;
    return true;
}

/* An id, or the text of a token as the vocabulary has it. */
static bool read_choice(struct field_reader *reader, const struct value *value,
                        struct trace_choice *choice)
{
    static const struct field ID = { .kind = FIELD_INTEGER,
                                     .flags = FIELD_SATURATES,
                                     .code = FAULT_OPTION };
    choice->has = true;
    if (value->kind == VALUE_STRING) {
        choice->text = value->string;
        return true;
    }
    if (value->kind != VALUE_NUMBER)
        return field_wrong_type(reader, value, "the id or the text of a token");
    reader->field = &ID;
    return field_read_single(reader, value, &choice->id);
}

static bool read_token(struct field_reader *reader, const struct value *value, void *into)
{
    return read_choice(reader, value, &((struct trace_target *)into)->token);
}

static bool read_against(struct field_reader *reader, const struct value *value, void *into)
{
    return read_choice(reader, value, &((struct trace_target *)into)->against);
}

static const struct field TARGET_ROWS[] = {
    { .name = "position",
      .kind = FIELD_OWN,
      .offset = offsetof(struct trace_target, position),
      .has = offsetof(struct trace_target, has_position),
      .own = read_position },
    { .name = "token", .kind = FIELD_OWN, .flags = FIELD_REQUIRED, .own = read_token },
    { .name = "against", .kind = FIELD_OWN, .own = read_against },
};

const struct field_table trace_target_fields = { .rows = TARGET_ROWS,
                                                 .count = COUNT_OF(TARGET_ROWS),
                                                 .policy = FIELDS_LISTED,
                                                 .bytes = sizeof(struct trace_target) };

/* -------------------------------------------------------------------- the rows -- */

static const char *const OUTPUTS[] = {
#define X(NAME, name) #name,
    TRACE_OUTPUT_MAP(X)
#undef X
};

static const char *const PROBES[] = { "repeat" };

static const char *const POOLINGS[] = {
#define X(NAME, name) #name,
    MODEL_POOLING_MAP(X)
#undef X
};

#define BYTES_OF(NAME)                                                                             \
    {                                                                                              \
        .name = #NAME, .kind = FIELD_BYTES, .offset = AT(NAME)                                     \
    }
#define ARRAY_OF(NAME)                                                                             \
    {                                                                                              \
        .name = #NAME, .kind = FIELD_ARRAY, .flags = FIELD_TENSOR, .offset = AT(NAME)              \
    }
#define INTEGERS_OF(NAME, ONE, FLAGS)                                                              \
    {                                                                                              \
        .name = #NAME, .kind = FIELD_INTEGERS, .flags = FIELD_TENSOR | (FLAGS),                    \
        .offset = AT(NAME), .has = AT(has_##NAME), .count = AT(ONE##_count),                       \
        .expected = "a list of integers"                                                           \
    }

/* The first rows are the input, and the first of all is the model. */
enum { INPUT_ROWS = 13 };

static const struct field ROWS[] = {
    { .name = "model", .kind = FIELD_STRING, .offset = AT(model_name) },
    BYTES_OF(text),
    BYTES_OF(pair),
    { .name = "special", .kind = FIELD_OWN, .own = read_special, .has = AT(has_special) },
    INTEGERS_OF(tokens, token, 0),
    INTEGERS_OF(token_types, token_type, 0),
    BYTES_OF(decoder_text),
    INTEGERS_OF(decoder_tokens, decoder_token, 0),
    { .name = "probe",
      .kind = FIELD_ENUM,
      .offset = AT(probe),
      .has = AT(has_probe),
      .names = PROBES,
      .name_count = COUNT_OF(PROBES) },
    ARRAY_OF(pixels),
    ARRAY_OF(features),
    { .name = "sound", .kind = FIELD_OWN, .flags = FIELD_TENSOR, .own = sound_field_read },
    ARRAY_OF(embeddings),
    INTEGERS_OF(layers, layer, 0),
    { .name = "kinds",
      .kind = FIELD_STRINGS,
      .offset = AT(kinds),
      .has = AT(has_kinds),
      .count = AT(kind_count) },
    { .name = "outputs",
      .kind = FIELD_ENUM_SET,
      .offset = AT(outputs),
      .has = AT(has_outputs),
      .names = OUTPUTS,
      .name_count = TRACE_OUTPUT_COUNT },
    { .name = "weight_map",
      .kind = FIELD_OBJECT,
      .offset = AT(weight_map),
      .has = AT(has_weight_map),
      .inner = &weight_map_fields },
    { .name = "spans", .kind = FIELD_OWN, .own = read_spans },
    { .name = "span_texts", .kind = FIELD_OWN, .own = read_span_texts },
    INTEGERS_OF(rows, row, FIELD_NEGATIVE),
    { .name = "row_spans", .kind = FIELD_OWN, .own = read_row_spans, .has = AT(has_row_spans) },
    { .name = "head_weights",
      .kind = FIELD_OWN,
      .flags = FIELD_TENSOR,
      .own = read_head_weights,
      .has = AT(has_head_weights) },
    { .name = "align_heads",
      .kind = FIELD_OWN,
      .own = read_align_heads,
      .has = AT(has_align_heads) },
    { .name = "top_k_tokens",
      .kind = FIELD_INTEGER,
      .offset = AT(top_k_tokens),
      .least = 1,
      .code = FAULT_OPTION },
    INTEGERS_OF(positions, position, FIELD_NEGATIVE),
    { .name = "pooling",
      .kind = FIELD_ENUM,
      .offset = AT(pooling),
      .has = AT(has_pooling),
      .names = POOLINGS,
      .name_count = COUNT_OF(POOLINGS) },
    { .name = "normalize", .kind = FIELD_BOOL, .offset = AT(normalize), .has = AT(has_normalize) },
    { .name = "dimensions",
      .kind = FIELD_INTEGER,
      .offset = AT(dimensions),
      .least = 1,
      .code = FAULT_OPTION },
    { .name = "keep", .kind = FIELD_OWN, .own = read_keep },
    { .name = "compare", .kind = FIELD_BOOL, .offset = AT(compare) },
    { .name = "targets",
      .kind = FIELD_LIST,
      .offset = AT(targets),
      .has = AT(has_targets),
      .count = AT(target_count),
      .inner = &trace_target_fields,
      .expected = "a target, an object" },
    { .name = "states", .kind = FIELD_BOOL, .offset = AT(states) },
    EDITS_ROW(AT(edits), AT(edit_count)),
};

const struct field_table trace_fields = { .rows = ROWS,
                                          .count = COUNT_OF(ROWS),
                                          .policy = FIELDS_LISTED,
                                          .bytes = sizeof(struct trace_item) };
const struct field_table trace_input_fields = {
    .rows = ROWS, .count = INPUT_ROWS, .policy = FIELDS_LISTED, .bytes = sizeof(struct trace_item)
};
const struct field_table trace_other_fields = { .rows = ROWS + 1,
                                                .count = INPUT_ROWS - 1,
                                                .policy = FIELDS_LISTED,
                                                .bytes = sizeof(struct trace_item) };

static const struct field_table trace_batch_fields = { .rows = ROWS,
                                                       .count = COUNT_OF(ROWS),
                                                       .policy = FIELDS_LISTED,
                                                       .list = "requests",
                                                       .items_max = TRACE_ITEMS_MAX,
                                                       .bytes = sizeof(struct trace_item) };

static const struct field SESSION_ROWS[] = {
    { .name = "model", .kind = FIELD_REFUSED, .expected = FIELDS_NO_MODEL },
    { .name = "at", .kind = FIELD_INTEGER, .offset = AT(at), .code = FAULT_LENGTH },
    { .name = "append", .kind = FIELD_OWN, .own = read_append },
};

static const struct field_table trace_session_fields = { .rows = SESSION_ROWS,
                                                         .count = COUNT_OF(SESSION_ROWS) };

bool trace_fields_read(struct call *call, bool batch, struct fault *fault)
{
    struct trace_request *request = trace_request_of(call);
    struct trace_item shared = { .at = -1 };
    struct field_items items = {
        .target = { batch ? &trace_batch_fields : &trace_fields, &shared },
        .more.table = request->is_of_session ? &trace_session_fields : NULL,
        .fault_offset = offsetof(struct trace_item, fault),
    };
    request->batch = batch;
    call->form.nul_is_kept = true;
    if (!operation_read_items(call, &items, fault))
        return false;
    request->items = items.items;
    request->item_count = items.count;
    return true;
}
