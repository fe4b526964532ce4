/* model_rope.c - see model_rope.h.
 *
 * The members of a scaling have the names of rope_scaling in published checkpoints. rope_type says
 * which members there may be, so it is read first, wherever it stands. A member that belongs to
 * another type is refused like a mistyped one. */
#include "model/model_rope.h"

#include "base/names.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define TYPES "default, linear, dynamic, yarn, llama3 or longrope"

static const char *const TYPE_NAMES[] = {
    [ATTN_ROPE_DEFAULT] = "default", [ATTN_ROPE_LINEAR] = "linear",
    [ATTN_ROPE_DYNAMIC] = "dynamic", [ATTN_ROPE_YARN] = "yarn",
    [ATTN_ROPE_LLAMA3] = "llama3",   [ATTN_ROPE_LONGROPE] = "longrope",
};

enum { TYPE_COUNT = sizeof TYPE_NAMES / sizeof TYPE_NAMES[0] };

/* Sets of types. */
enum {
    LINEAR = 1 << ATTN_ROPE_LINEAR,
    DYNAMIC = 1 << ATTN_ROPE_DYNAMIC,
    YARN = 1 << ATTN_ROPE_YARN,
    LLAMA3 = 1 << ATTN_ROPE_LLAMA3,
    LONGROPE = 1 << ATTN_ROPE_LONGROPE,
};

struct parameter {
    const char *name;
    unsigned had_by, needed_by; /* sets of types */
    size_t offset;              /* of a double in struct attn_rope_scaling */
    double least;
    bool is_least_excluded;
};

#define AT(field) offsetof(struct attn_rope_scaling, field)
static const struct parameter PARAMETERS[] = {
    { "factor", LINEAR | DYNAMIC | YARN | LLAMA3 | LONGROPE, LINEAR | DYNAMIC | YARN | LLAMA3,
      AT(factor), 1, false },
    { "original_max_position_embeddings", DYNAMIC | YARN | LLAMA3 | LONGROPE,
      DYNAMIC | YARN | LLAMA3 | LONGROPE, AT(original_max_position_embeddings), 1, false },
    { "low_freq_factor", LLAMA3, LLAMA3, AT(low_freq_factor), 0, true },
    { "high_freq_factor", LLAMA3, LLAMA3, AT(high_freq_factor), 0, true },
    { "beta_fast", YARN, 0, AT(beta_fast), 0, true },
    { "beta_slow", YARN, 0, AT(beta_slow), 0, true },
    { "attention_factor", YARN | LONGROPE, 0, AT(attention_factor), 0, true },
    { "mscale", YARN, 0, AT(mscale), 0, false },
    { "mscale_all_dim", YARN, 0, AT(mscale_all_dim), 0, false },
};
#undef AT

enum { PARAMETER_COUNT = sizeof PARAMETERS / sizeof PARAMETERS[0] };

const char *model_rope_type_name(enum attn_rope_type type)
{
    return TYPE_NAMES[type];
}

/* --------------------------------------------------------------- a scaling -- */

static bool read_type(struct model_reader *reader, const cJSON *scaling, enum attn_rope_type *type)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(scaling, "rope_type");
    if (!node)
        return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                            "rope_type is missing; expected " TYPES);
    model_reader_point_to(reader, "rope_type");
    if (!cJSON_IsString(node))
        return model_reader_wrong_type(reader, node, "a string");
    for (int i = 0; i < TYPE_COUNT; i++)
        if (strcmp(node->valuestring, TYPE_NAMES[i]) == 0) {
            *type = (enum attn_rope_type)i;
            return true;
        }
    return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                        "rope_type is '%.60s'; expected " TYPES, node->valuestring);
}

static bool read_parameter(struct model_reader *reader, const cJSON *node,
                           const struct parameter *parameter)
{
    double *value = (double *)(void *)((char *)&reader->config->rope.scaling + parameter->offset);
    if (cJSON_IsNull(node) && !parameter->needed_by)
        return true;
    if (!model_reader_number(reader, node, value))
        return false;
    if (*value > parameter->least || (*value == parameter->least && !parameter->is_least_excluded))
        return true;
    return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                        "%s is %.17g; expected a number %s %g", parameter->name, *value,
                        parameter->is_least_excluded ? "above" : "of at least", parameter->least);
}

static const char *const FACTOR_NAMES[2] = { "short_factor", "long_factor" };

/* One of the two lists of longrope, with a number for each pair of columns. */
static bool read_factors(struct model_reader *reader, const cJSON *node, int which)
{
    const struct json_numbers *numbers = json_numbers_of(reader->document, node);
    if (!numbers || numbers->rank != 1 || numbers->has_bool || numbers->has_null)
        return model_reader_wrong_type(reader, node, "a list of numbers");
    if (numbers->count < 1 || numbers->count > MODEL_ROPE_PAIRS_MAX)
        return fault_set_at(reader->fault, reader->pointer, FAULT_SHAPE,
                            "%s has %" PRId64 " numbers; expected one for each pair of columns, at "
                            "most %d",
                            FACTOR_NAMES[which], numbers->count, MODEL_ROPE_PAIRS_MAX);
    reader->config->rope_factor_counts[which] = numbers->count;
    for (int64_t i = 0; i < numbers->count; i++) {
        const float factor = numbers->values[i];
        reader->config->rope_factors[which][i] = (double)factor;
        if (!(factor > 0 && isfinite(factor)))
            return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                                "%s has %g; expected finite numbers above 0", FACTOR_NAMES[which],
                                (double)factor);
    }
    return true;
}

static bool unknown_parameter(struct model_reader *reader, enum attn_rope_type type)
{
    const char *names[PARAMETER_COUNT + 4] = { "rope_type" };
    char what[48];
    int count = 1;
    for (int i = 0; i < PARAMETER_COUNT; i++)
        if (PARAMETERS[i].had_by >> type & 1)
            names[count++] = PARAMETERS[i].name;
    if (type == ATTN_ROPE_YARN)
        names[count++] = "truncate";
    for (int i = 0; type == ATTN_ROPE_LONGROPE && i < 2; i++)
        names[count++] = FACTOR_NAMES[i];
    snprintf(what, sizeof what, "a scaling of rope_type %s", TYPE_NAMES[type]);
    return model_reader_unknown(reader, what, nearest_name(reader->name, names, count));
}

static bool read_one(struct model_reader *reader, const cJSON *node, enum attn_rope_type type)
{
    if (strcmp(node->string, "rope_type") == 0)
        return true;
    if (type == ATTN_ROPE_YARN && strcmp(node->string, "truncate") == 0)
        return model_reader_bool(reader, node, &reader->config->rope.scaling.truncate);
    for (int i = 0; i < PARAMETER_COUNT; i++)
        if ((PARAMETERS[i].had_by >> type & 1) && strcmp(node->string, PARAMETERS[i].name) == 0)
            return read_parameter(reader, node, &PARAMETERS[i]);
    for (int i = 0; type == ATTN_ROPE_LONGROPE && i < 2; i++)
        if (strcmp(node->string, FACTOR_NAMES[i]) == 0)
            return read_factors(reader, node, i);
    return unknown_parameter(reader, type);
}

static bool check_needed(struct model_reader *reader, const cJSON *scaling,
                         enum attn_rope_type type)
{
    const char *missing = NULL;
    for (int i = 0; i < PARAMETER_COUNT && !missing; i++)
        if ((PARAMETERS[i].needed_by >> type & 1)
            && !cJSON_GetObjectItemCaseSensitive(scaling, PARAMETERS[i].name))
            missing = PARAMETERS[i].name;
    for (int i = 0; type == ATTN_ROPE_LONGROPE && i < 2 && !missing; i++)
        if (reader->config->rope_factor_counts[i] == 0)
            missing = FACTOR_NAMES[i];
    return !missing
           || fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                           "%s is missing; rope_type %s needs it", missing, TYPE_NAMES[type]);
}

static bool read_scaling(struct model_reader *reader, const cJSON *scaling)
{
    const size_t pointer_length = strlen(reader->pointer);
    enum attn_rope_type type = ATTN_ROPE_DEFAULT;
    if (cJSON_IsNull(scaling))
        return true;
    if (!cJSON_IsObject(scaling))
        return model_reader_wrong_type(reader, scaling, "an object");
    if (!read_type(reader, scaling, &type))
        return false;
    reader->pointer[pointer_length] = '\0';
    reader->config->rope.scaling = attn_rope_scaling_default(type);
    if (type == ATTN_ROPE_LONGROPE)
        reader->config->rope.scaling.factor = 1;
    for (const cJSON *node = scaling->child; node; node = node->next) {
        model_reader_point_to(reader, node->string);
        if (!read_one(reader, node, type))
            return false;
        reader->pointer[pointer_length] = '\0';
    }
    return check_needed(reader, scaling, type);
}

/* --------------------------------------------------------------- the whole -- */

static bool read_theta(struct model_reader *reader, const cJSON *node)
{
    double *theta = &reader->config->rope.theta;
    return model_reader_number(reader, node, theta)
           && (*theta > 0
               || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                               "theta is %g; expected a number above 0", *theta));
}

static bool read_dim(struct model_reader *reader, const cJSON *node)
{
    int64_t *dim = &reader->config->rope.dim;
    return model_reader_integer(reader, node, 2, INT32_MAX, dim)
           && (*dim % 2 == 0
               || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                               "dim is %" PRId64 "; expected an even number", *dim));
}

static bool read_interleaved(struct model_reader *reader, const cJSON *node)
{
    return model_reader_bool(reader, node, &reader->config->rope.interleaved);
}

/* The rules between fields. */
static bool check_together(struct model_reader *reader)
{
    const struct attn_rope *rope = &reader->config->rope;
    const struct attn_rope_scaling *scaling = &rope->scaling;
    if (scaling->type == ATTN_ROPE_LLAMA3 && scaling->high_freq_factor <= scaling->low_freq_factor)
        return fault_set_at(reader->fault, "/config/rope/scaling/high_freq_factor", FAULT_OPTION,
                            "high_freq_factor is %g; expected a number above low_freq_factor, "
                            "which is %g",
                            scaling->high_freq_factor, scaling->low_freq_factor);
    if (scaling->type == ATTN_ROPE_LONGROPE && scaling->factor > 1
        && scaling->original_max_position_embeddings == 1 && scaling->attention_factor == 0)
        return fault_set_at(reader->fault, "/config/rope/scaling/original_max_position_embeddings",
                            FAULT_OPTION,
                            "original_max_position_embeddings is 1; expected a number above 1 "
                            "where factor is above 1 and attention_factor is not given");
    if (attn_rope_attention_factor(rope) > (double)FLT_MAX)
        return fault_set_at(reader->fault, "/config/rope/scaling", FAULT_OPTION,
                            "the attention factor is %g, given or as it follows from the scaling; "
                            "expected at most %g, which a float can hold",
                            attn_rope_attention_factor(rope), (double)FLT_MAX);
    if (scaling->type != ATTN_ROPE_YARN)
        return true;
    if (scaling->beta_fast < scaling->beta_slow)
        return fault_set_at(reader->fault, "/config/rope/scaling/beta_fast", FAULT_OPTION,
                            "beta_fast is %g; expected a number of at least beta_slow, which is %g",
                            scaling->beta_fast, scaling->beta_slow);
    return rope->theta > 1
           || fault_set_at(reader->fault, "/config/rope/theta", FAULT_OPTION,
                           "theta is %g; expected a number above 1 under a scaling of rope_type "
                           "yarn",
                           rope->theta);
}

bool model_rope_read_scaling(struct model_reader *reader, const cJSON *scaling)
{
    return read_scaling(reader, scaling) && check_together(reader);
}

bool model_rope_read(struct model_reader *reader, const cJSON *node)
{
    static const struct model_reader_field FIELDS[] = {
        { "theta", read_theta },
        { "dim", read_dim },
        { "interleaved", read_interleaved },
        { "scaling", read_scaling },
    };
    if (cJSON_IsNull(node))
        return true;
    reader->config->has_rope = true;
    return (cJSON_IsObject(node) ? model_reader_object(reader, node, "rope", FIELDS,
                                                       sizeof FIELDS / sizeof FIELDS[0])
                                 : model_reader_wrong_type(reader, node, "an object"))
           && check_together(reader);
}
