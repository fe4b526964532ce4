/* SPDX-License-Identifier: Apache-2.0 */
/* edit_fields.c - every field of an edit of a pass, once: its name, its place in struct trace_edit,
 * and what fits by itself. What fits the model is in pass/edit_plan.c. */
#include "operations/trace.h"

#include "operations/trace/edit.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define AT(member) offsetof(struct trace_edit, member)

/* -------------------------------------------------------- numbers and ranges -- */

enum list_of { OF_NUMBERS = 1, OF_RANGES = 2, OF_BOTH = OF_NUMBERS | OF_RANGES };

static const struct {
    const char *one, *all;
} LIST_WORDS[] = {
    [OF_NUMBERS] = { "an integer", "integers" },
    [OF_RANGES] = { "a range [first, end)", "ranges [first, end)" },
    [OF_BOTH] = { "an integer or a range [first, end)", "integers and ranges [first, end)" },
};

/* A whole number that a float holds exactly. */
static bool read_whole(float number, int64_t *into)
{
    const float exact_max = 16777216.0f;
    *into = number >= -exact_max && number <= exact_max ? (int64_t)number : 0;
    return (float)*into == number;
}

/* The fault of child number i, which read_child() does not take. */
static bool refuse_child(struct field_reader *reader, int64_t i, const float *values, int64_t size,
                         enum list_of of)
{
    char pointer[FAULT_POINTER_MAX], index[24], came[64];
    memcpy(pointer, reader->pointer, sizeof pointer);
    snprintf(index, sizeof index, "%" PRId64, i);
    fault_pointer_append(pointer, strlen(pointer), index);
    if (size < 0)
        snprintf(came, sizeof came, "%.9g", (double)values[0]);
    else if (size == 2)
        snprintf(came, sizeof came, "[%.9g, %.9g]", (double)values[0], (double)values[1]);
    else
        snprintf(came, sizeof came, "a list of %" PRId64 " numbers", size);
    return fault_set_at(reader->fault, pointer, FAULT_OPTION,
                        "%s[%" PRId64 "] is %s; expected %s up to 16777216", reader->name, i, came,
                        LIST_WORDS[of].one);
}

/* Child number i, whose numbers are values[size], or the number *values where size is -1. */
static bool read_child(struct field_reader *reader, int64_t i, const float *values, int64_t size,
                       enum list_of of, struct edit_range *range)
{
    const bool is_number = size < 0;
    range->is_number = is_number;
    if ((is_number ? of & OF_NUMBERS : of & OF_RANGES && size == 2)
        && read_whole(values[0], &range->begin)
        && (is_number || read_whole(values[1], &range->end)))
        return true;
    return refuse_child(reader, i, values, size, of);
}

static bool read_list_of(struct field_reader *reader, const struct value *value, enum list_of of,
                         struct edit_list *list)
{
    const bool may_be_all = of & OF_NUMBERS;
    if (may_be_all && value->kind == VALUE_STRING && strcmp(value->string, "all") == 0)
        return true;
    if (value->kind != VALUE_NUMBERS || value->numbers->has_bool || value->numbers->has_null)
        return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                            "%s is %s; expected a list of %s%s", reader->name, value_words(value),
                            LIST_WORDS[of].all, may_be_all ? ", or \"all\"" : "");
    const int64_t count =
        value->numbers->count > 0 ? json_numbers_children(value->numbers, NULL) : 0;
    if (count < 0)
        return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                            "%s has lists in lists; expected a list of %s", reader->name,
                            LIST_WORDS[of].all);
    int64_t *sizes = arena_calloc(reader->arena, (size_t)count, sizeof *sizes);
    list->ranges = arena_calloc(reader->arena, (size_t)count, sizeof *list->ranges);
    if (!sizes || !list->ranges)
        return fault_no_memory(reader->fault);
    if (count > 0)
        json_numbers_children(value->numbers, sizes);
    list->has = true;
    list->count = count;
    const float *values = value->numbers->values;
    for (int64_t i = 0; i < count; values += sizes[i] < 0 ? 1 : sizes[i], i++)
        if (!read_child(reader, i, values, sizes[i], of, &list->ranges[i]))
            return false;
    return true;
}

static bool read_layers(struct field_reader *reader, const struct value *value, void *into)
{
    return read_list_of(reader, value, OF_NUMBERS, &((struct trace_edit *)into)->layers);
}

static bool read_heads(struct field_reader *reader, const struct value *value, void *into)
{
    return read_list_of(reader, value, OF_NUMBERS, &((struct trace_edit *)into)->heads);
}

static bool read_rows(struct field_reader *reader, const struct value *value, void *into)
{
    return read_list_of(reader, value, OF_BOTH, &((struct trace_edit *)into)->rows);
}

static bool read_hide(struct field_reader *reader, const struct value *value, void *into)
{
    return read_list_of(reader, value, OF_RANGES, &((struct trace_edit *)into)->hide);
}

static bool read_from_rows(struct field_reader *reader, const struct value *value, void *into)
{
    return read_list_of(reader, value, OF_BOTH, &((struct trace_edit *)into)->from_rows);
}

/* ------------------------------------------------------- fields of their own -- */

/* A name, or a matrix. */
static bool read_weights(struct field_reader *reader, const struct value *value, void *into)
{
    static const char *const PATTERNS[] = { "uniform", "first", "self", "previous" };
    static const struct field NAME = { .name = "weights",
                                       .kind = FIELD_ENUM,
                                       .names = PATTERNS,
                                       .name_count = EDIT_MATRIX,
                                       .expected =
                                           "a matrix, or uniform, first, self or previous" };
    static const struct field MATRIX = {
        .name = "weights", .kind = FIELD_ARRAY, .flags = FIELD_TENSOR, .offset = AT(matrix)
    };
    struct trace_edit *edit = into;
    const bool is_array = value->kind == VALUE_NUMBERS || value->kind == VALUE_TENSOR;
    reader->field = is_array ? &MATRIX : &NAME;
    edit->pattern = EDIT_MATRIX;
    return is_array ? field_read_array(reader, value, edit)
                    : field_read_single(reader, value, &edit->pattern);
}

bool trace_read_byte_slices(struct field_reader *reader, const struct value *value,
                            const struct byte_slice **into, int64_t *count)
{
    const struct message *strings;
    if (!value_is_list(value, &strings))
        return field_wrong_type(reader, value, "an array of strings");
    struct byte_slice *texts = arena_calloc(reader->arena, (size_t)strings->count, sizeof *texts);
    if (!texts)
        return fault_no_memory(reader->fault);
    for (int64_t i = 0; i < strings->count; i++) {
        if (strings->values[i].kind != VALUE_STRING)
            return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                                "%s holds %s; expected strings", reader->name,
                                value_words(&strings->values[i]));
        if (!field_read_bytes(reader, &strings->values[i], &texts[i]))
            return false;
    }
    *into = texts;
    *count = strings->count;
    return true;
}

static bool read_hide_texts(struct field_reader *reader, const struct value *value, void *into)
{
    struct trace_edit *edit = into;
    return trace_read_byte_slices(reader, value, &edit->hide_texts, &edit->hide_text_count);
}

/* ---------------------------------------------------------------------- rows -- */

static const struct field FROM_ROWS[] = {
    { .name = "trace", .kind = FIELD_STRING, .offset = AT(from_trace) },
    { .name = "layer",
      .kind = FIELD_INTEGER,
      .flags = FIELD_SATURATES,
      .offset = AT(from_layer),
      .has = AT(has_from_layer),
      .code = FAULT_OPTION },
    { .name = "rows", .kind = FIELD_OWN, .own = read_from_rows },
};

static const struct field_table from_fields = { .rows = FROM_ROWS,
                                                .count = sizeof FROM_ROWS / sizeof FROM_ROWS[0],
                                                .policy = FIELDS_LISTED };

/* Its members go into the edit itself. */
static bool read_from(struct field_reader *reader, const struct value *value, void *into)
{
    char prefix[FAULT_POINTER_MAX];
    if (value->kind != VALUE_OBJECT)
        return field_wrong_type(reader, value, "an object");
    memcpy(prefix, reader->pointer, sizeof prefix);
    struct field_reader inner = *reader;
    inner.prefix = prefix;
    return fields_read(&inner, &value->inner, (struct field_target){ &from_fields, into },
                       (struct field_target){ NULL, NULL });
}

#define ARRAY_OF(NAME)                                                                             \
    {                                                                                              \
        .name = #NAME, .kind = FIELD_ARRAY, .flags = FIELD_TENSOR, .offset = AT(NAME)              \
    }

static const struct field ROWS[] = {
    { .name = "kind", .kind = FIELD_STRING, .offset = AT(kind) },
    { .name = "layers", .kind = FIELD_OWN, .own = read_layers },
    { .name = "heads", .kind = FIELD_OWN, .own = read_heads },
    { .name = "rows", .kind = FIELD_OWN, .own = read_rows },
    { .name = "at",
      .kind = FIELD_ENUM,
      .offset = AT(at),
      .names = edit_place_names,
      .name_count = EDIT_PLACE_COUNT },
    { .name = "hide", .kind = FIELD_OWN, .own = read_hide },
    { .name = "hide_texts", .kind = FIELD_OWN, .own = read_hide_texts },
    { .name = "weights",
      .kind = FIELD_OWN,
      .flags = FIELD_TENSOR,
      .own = read_weights,
      .has = AT(has_weights) },
    { .name = "scale", .kind = FIELD_NUMBER, .offset = AT(scale), .has = AT(has_scale) },
    ARRAY_OF(add),
    { .name = "times",
      .kind = FIELD_NUMBER,
      .offset = AT(times),
      .has = AT(has_times),
      .code = FAULT_OPTION },
    ARRAY_OF(set),
    { .name = "mean", .kind = FIELD_BOOL, .offset = AT(mean) },
    { .name = "from", .kind = FIELD_OWN, .own = read_from, .has = AT(has_from) },
};

const struct field_table edit_fields = { .rows = ROWS,
                                         .count = sizeof ROWS / sizeof ROWS[0],
                                         .policy = FIELDS_LISTED,
                                         .bytes = sizeof(struct trace_edit) };
