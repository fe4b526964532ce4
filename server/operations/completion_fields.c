/* completion_fields.c - every field of a completion, once: those of OpenAI's, of which some are
 * taken only where they ask for what is done anyway. */
#include "operations/completion.h"

#include "operations/trace.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#define AT(member)      offsetof(struct completion_asked, member)
#define COUNT_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

/* ------------------------------------------------------------------- prompts -- */

static bool make_prompts(struct field_reader *reader, struct completion_asked *asked, int64_t count)
{
    if (count < 1 || count > COMPLETION_PROMPTS_MAX)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "there are %" PRId64 " prompts; expected 1 to %d", count,
                            COMPLETION_PROMPTS_MAX);
    asked->prompts = arena_calloc(reader->arena, (size_t)count, sizeof *asked->prompts);
    asked->prompt_count = count;
    asked->has_prompt = true;
    return asked->prompts || fault_no_memory(reader->fault);
}

static bool wrong_prompt(struct field_reader *reader, const struct value *value)
{
    return field_wrong_type(reader, value,
                            "a string, a list of strings, of ids, or of lists of ids");
}

static bool read_texts(struct field_reader *reader, const struct value *value,
                       struct completion_asked *asked)
{
    const struct byte_slice *texts;
    int64_t count;
    if (!make_prompts(reader, asked, value->inner.count)
        || !trace_read_byte_slices(reader, value, &texts, &count))
        return false;
    asked->is_list = true;
    for (int64_t i = 0; i < count; i++)
        asked->prompts[i].text = texts[i];
    return true;
}

/* One prompt of ids, which lie behind one another as floats. */
static bool read_ids(struct field_reader *reader, const float *values, int64_t count,
                     const char *pointer, struct completion_prompt *prompt)
{
    int64_t *ids = arena_calloc(reader->arena, (size_t)count, sizeof *ids);
    if (!ids)
        return fault_no_memory(reader->fault);
    for (int64_t i = 0; i < count; i++) {
        char at[FAULT_POINTER_MAX];
        snprintf(at, sizeof at, "%s/%" PRId64, pointer, i);
        if (!(values[i] >= 0 && values[i] <= (1 << 24)) || values[i] != floorf(values[i]))
            return fault_set_at(reader->fault, at, FAULT_OPTION,
                                "a token of prompt is %.9g; expected the id of a token",
                                (double)values[i]);
        ids[i] = (int64_t)values[i];
    }
    *prompt = (struct completion_prompt){ .ids = ids, .id_count = count };
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
                                "prompt has ids and lists of ids; expected one of both");
    return true;
}

static bool read_lists(struct field_reader *reader, const struct value *value,
                       struct completion_asked *asked)
{
    const struct json_numbers *numbers = value->numbers;
    const bool is_empty = numbers->count == 0; /* [] or [[], []] */
    const int64_t count = !is_empty           ? json_numbers_children(numbers, NULL)
                          : numbers->rank > 1 ? numbers->shape[0]
                                              : 0;
    int64_t *sizes = arena_calloc(reader->arena, count > 0 ? (size_t)count : 1, sizeof *sizes);
    char pointer[FAULT_POINTER_MAX];
    bool are_lists;
    if (numbers->has_bool || numbers->has_null || count < 0)
        return wrong_prompt(reader, value);
    if (!sizes)
        return fault_no_memory(reader->fault);
    if (!is_empty)
        json_numbers_children(numbers, sizes);
    if (!expect_one_kind(reader, sizes, count, &are_lists)
        || !make_prompts(reader, asked, are_lists || count == 0 ? count : 1))
        return false;
    asked->is_list = are_lists;
    if (!are_lists)
        return read_ids(reader, numbers->values, count, "/prompt", &asked->prompts[0]);
    const float *values = numbers->values;
    for (int64_t i = 0; i < count; values += sizes[i++]) {
        snprintf(pointer, sizeof pointer, "/prompt/%" PRId64, i);
        if (!read_ids(reader, values, sizes[i], pointer, &asked->prompts[i]))
            return false;
    }
    return true;
}

static bool read_prompt(struct field_reader *reader, const struct value *value, void *into)
{
    struct completion_asked *asked = into;
    if (value->kind == VALUE_STRING)
        return make_prompts(reader, asked, 1)
               && field_read_bytes(reader, value, &asked->prompts[0].text);
    if (value->kind == VALUE_LIST)
        return read_texts(reader, value, asked);
    return value->kind == VALUE_NUMBERS ? read_lists(reader, value, asked)
                                        : wrong_prompt(reader, value);
}

/* ------------------------------------------------------------- other fields -- */

static bool read_between(struct field_reader *reader, const struct value *value, double least,
                         double most, bool is_above, double *into)
{
    if (value->kind != VALUE_NUMBER)
        return field_wrong_type(reader, value, "a number");
    *into = value->number;
    return (*into <= most && (is_above ? *into > least : *into >= least))
           || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                           "%s is %.9g; expected %s%g to %g", reader->name, *into,
                           is_above ? "above " : "", least, most);
}

static bool read_temperature(struct field_reader *reader, const struct value *value, void *into)
{
    return read_between(reader, value, 0, 2, false,
                        &((struct completion_asked *)into)->temperature);
}

static bool read_top_p(struct field_reader *reader, const struct value *value, void *into)
{
    return read_between(reader, value, 0, 1, true, &((struct completion_asked *)into)->top_p);
}

static bool read_seed(struct field_reader *reader, const struct value *value, void *into)
{
    double *seed = &((struct completion_asked *)into)->seed;
    if (value->kind != VALUE_NUMBER)
        return field_wrong_type(reader, value, "an integer");
    *seed = value->number;
    return (fabs(*seed) <= FIELD_INTEGER_MAX && *seed == floor(*seed))
           || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                           "seed is %.17g; expected an integer from -2^53 to 2^53", *seed);
}

static bool check_stop(struct field_reader *reader, struct byte_slice stop)
{
    return stop.size > 0
           || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                           "stop has an empty string, which is everywhere");
}

static bool read_stop(struct field_reader *reader, const struct value *value, void *into)
{
    struct completion_asked *asked = into;
    const struct byte_slice *stops;
    if (value->kind == VALUE_STRING) {
        asked->stops = arena_calloc(reader->arena, 1, sizeof *asked->stops);
        asked->stop_count = 1;
        return asked->stops ? field_read_bytes(reader, value, asked->stops)
                                  && check_stop(reader, asked->stops[0])
                            : fault_no_memory(reader->fault);
    }
    if (!trace_read_byte_slices(reader, value, &stops, &asked->stop_count))
        return false;
    if (asked->stop_count > COMPLETION_STOPS_MAX)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "stop has %" PRId64 " strings; expected at most %d", asked->stop_count,
                            COMPLETION_STOPS_MAX);
    asked->stops = (struct byte_slice *)stops;
    for (int64_t i = 0; i < asked->stop_count; i++)
        if (!check_stop(reader, stops[i]))
            return false;
    return true;
}

/* ------------------------------------------------ fields of one value alone -- */

static bool refuse(struct field_reader *reader, const char *expected)
{
    return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                        "%s is not supported; expected %s", reader->name, expected);
}

static bool read_one(struct field_reader *reader, const struct value *value, void *into)
{
    (void)into;
    return (value->kind == VALUE_NUMBER && value->number == 1)
           || refuse(reader, "1, or send several requests");
}

static bool read_false(struct field_reader *reader, const struct value *value, void *into)
{
    (void)into;
    return (value->kind == VALUE_BOOL && !value->flag)
           || refuse(reader, "false: the answer comes whole");
}

static bool read_zero(struct field_reader *reader, const struct value *value, void *into)
{
    (void)into;
    return (value->kind == VALUE_NUMBER && value->number == 0) || refuse(reader, "0");
}

static bool read_no_bias(struct field_reader *reader, const struct value *value, void *into)
{
    (void)into;
    return (value->kind == VALUE_OBJECT && value->inner.count == 0)
           || refuse(reader, "an empty object");
}

static bool read_nothing(struct field_reader *reader, const struct value *value, void *into)
{
    (void)value;
    (void)into;
    return refuse(reader, "a request without it");
}

/* ------------------------------------------------------------------ the rows -- */

#define OWN(NAME, READ)                                                                            \
    {                                                                                              \
        .name = #NAME, .kind = FIELD_OWN, .own = (READ)                                            \
    }
#define COUNT_UP_TO(NAME, MOST)                                                                    \
    {                                                                                              \
        .name = #NAME, .kind = FIELD_INTEGER, .offset = AT(NAME), .has = AT(has_##NAME),           \
        .most = (MOST), .code = FAULT_OPTION                                                       \
    }

static const struct field ROWS[] = {
    { .name = "model", .kind = FIELD_STRING, .offset = AT(model_name) },
    OWN(prompt, read_prompt),
    { .name = "max_tokens",
      .kind = FIELD_INTEGER,
      .flags = FIELD_SATURATES,
      .offset = AT(max_tokens),
      .has = AT(has_max_tokens),
      .code = FAULT_OPTION },
    OWN(temperature, read_temperature),
    { .name = "top_p", .kind = FIELD_OWN, .own = read_top_p, .has = AT(has_top_p) },
    { .name = "seed", .kind = FIELD_OWN, .own = read_seed, .has = AT(has_seed) },
    OWN(stop, read_stop),
    { .name = "echo", .kind = FIELD_BOOL, .offset = AT(echo) },
    COUNT_UP_TO(logprobs, COMPLETION_LOGPROBS_MAX),
    COUNT_UP_TO(prompt_logprobs, COMPLETION_LOGPROBS_MAX),
    { .name = "user", .kind = FIELD_STRING, .offset = AT(user) },
    OWN(n, read_one),
    OWN(best_of, read_one),
    OWN(stream, read_false),
    OWN(presence_penalty, read_zero),
    OWN(frequency_penalty, read_zero),
    OWN(logit_bias, read_no_bias),
    OWN(suffix, read_nothing),
    OWN(stream_options, read_nothing),
};

static const struct field_table completion_fields = { .rows = ROWS,
                                                      .count = COUNT_OF(ROWS),
                                                      .policy = FIELDS_LISTED,
                                                      .bytes = sizeof(struct completion_asked) };

bool completion_fields_read(struct call *call, struct completion_asked *asked, struct fault *fault)
{
    call->form.nul_is_kept = true;
    if (!operation_read_fields(call, &completion_fields, asked, fault))
        return false;
    if (!asked->has_top_p)
        asked->top_p = 1;
    return asked->has_prompt
           || fault_set_at(fault, "/prompt", FAULT_FIELD,
                           "prompt is missing; expected a string, a list of strings, of ids, or of "
                           "lists of ids");
}
