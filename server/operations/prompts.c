/* SPDX-License-Identifier: Apache-2.0 */
/* prompts.c - see prompts.h. */
#include "operations/prompts.h"

#include "operations/trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static bool make_prompts(struct field_reader *reader, struct prompts *prompts, int64_t count)
{
    if (count < 1 || count > PROMPTS_MAX)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "%s has %" PRId64 " members; expected 1 to %d", reader->name, count,
                            PROMPTS_MAX);
    prompts->list = arena_calloc(reader->arena, (size_t)count, sizeof *prompts->list);
    prompts->count = count;
    return prompts->list || fault_no_memory(reader->fault);
}

static bool wrong_prompt(struct field_reader *reader, const struct value *value)
{
    return field_wrong_type(reader, value,
                            "a string, a list of strings, of ids, or of lists of ids");
}

static bool read_texts(struct field_reader *reader, const struct value *value,
                       struct prompts *prompts)
{
    const struct byte_slice *texts;
    int64_t count;
    if (!make_prompts(reader, prompts, value->inner.count)
        || !trace_read_byte_slices(reader, value, &texts, &count))
        return false;
    prompts->is_list = true;
    for (int64_t i = 0; i < count; i++)
        prompts->list[i].text = texts[i];
    return true;
}

/* One prompt of ids, which lie behind one another as floats. */
static bool read_ids(struct field_reader *reader, const float *values, int64_t count,
                     const char *pointer, struct prompt *prompt)
{
    int64_t *ids = arena_calloc(reader->arena, (size_t)count, sizeof *ids);
    if (!ids)
        return fault_no_memory(reader->fault);
    for (int64_t i = 0; i < count; i++) {
        char at[FAULT_POINTER_MAX];
        snprintf(at, sizeof at, "%s/%" PRId64, pointer, i);
        if (!(values[i] >= 0 && values[i] <= (1 << 24)) || values[i] != floorf(values[i]))
            return fault_set_at(reader->fault, at, FAULT_OPTION,
                                "a token of %s is %.9g; expected the id of a token", reader->name,
                                (double)values[i]);
        ids[i] = (int64_t)values[i];
    }
    *prompt = (struct prompt){ .ids = ids, .id_count = count };
    return true;
}

/* Whether all children are lists, *are_lists, or all are numbers. */
static bool expect_one_kind(struct field_reader *reader, const int64_t *sizes, int64_t count,
                            bool *are_lists)
{
    *are_lists = count > 0 && sizes[0] >= 0;
    for (int64_t i = 1; i < count; i++)
        if ((sizes[i] >= 0) != *are_lists)
            return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                                "%s has ids and lists of ids; expected one of both", reader->name);
    return true;
}

static bool read_lists(struct field_reader *reader, const struct value *value,
                       struct prompts *prompts)
{
    const struct json_numbers *numbers = value->numbers;
    const bool is_empty = numbers->count == 0; /* [] or [[], []] */
    const int64_t count = !is_empty           ? json_numbers_children(numbers, NULL)
                          : numbers->rank > 1 ? numbers->shape[0]
                                              : 0;
    int64_t *sizes = arena_calloc(reader->arena, count > 0 ? (size_t)count : 1, sizeof *sizes);
    char pointer[FAULT_POINTER_MAX + 24];
    bool are_lists;
    if (numbers->has_bool || numbers->has_null || count < 0)
        return wrong_prompt(reader, value);
    if (!sizes)
        return fault_no_memory(reader->fault);
    if (!is_empty)
        json_numbers_children(numbers, sizes);
    if (!expect_one_kind(reader, sizes, count, &are_lists)
        || !make_prompts(reader, prompts, are_lists || count == 0 ? count : 1))
        return false;
    prompts->is_list = are_lists;
    if (!are_lists)
        return read_ids(reader, numbers->values, count, reader->pointer, &prompts->list[0]);
    const float *values = numbers->values;
    for (int64_t i = 0; i < count; values += sizes[i++]) {
        snprintf(pointer, sizeof pointer, "%s/%" PRId64, reader->pointer, i);
        if (!read_ids(reader, values, sizes[i], pointer, &prompts->list[i]))
            return false;
    }
    return true;
}

bool prompts_read(struct field_reader *reader, const struct value *value, struct prompts *prompts)
{
    if (value->kind == VALUE_STRING)
        return make_prompts(reader, prompts, 1)
               && field_read_bytes(reader, value, &prompts->list[0].text);
    if (value->kind == VALUE_LIST)
        return read_texts(reader, value, prompts);
    return value->kind == VALUE_NUMBERS ? read_lists(reader, value, prompts)
                                        : wrong_prompt(reader, value);
}
