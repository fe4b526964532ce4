/* SPDX-License-Identifier: Apache-2.0 */
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

static bool read_prompt(struct field_reader *reader, const struct value *value, void *into)
{
    return prompts_read(reader, value, &((struct completion_asked *)into)->prompts);
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
    return asked->prompts.count > 0
           || fault_set_at(fault, "/prompt", FAULT_FIELD,
                           "prompt is missing; expected a string, a list of strings, of ids, or of "
                           "lists of ids");
}
