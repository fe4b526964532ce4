/* SPDX-License-Identifier: Apache-2.0 */
/* model_config.c - tables of the fields of a config and of its rotary embedding.
 *
 * The members of a scaling have the names of rope_scaling in published checkpoints. rope_type says
 * which members there may be, so it is read first, wherever it is. A member that belongs to another
 * type is refused like a mistyped one. */
#include "models/model/model_config.h"

#include "base/dtype.h"
#include "base/names.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

const char *model_config_tensor(const struct model_config *config, const char *name)
{
    const cJSON *mapped = cJSON_GetObjectItemCaseSensitive(config->tensors, name);
    return mapped ? mapped->valuestring : name;
}

/* ----------------------------------------------------------- values, objects -- */

enum { FIELDS_MAX = 16 }; /* of one object */

/* Where fields are read from and to. A function that fails sets the fault and returns false. */
struct config_reader {
    struct model_config *config;
    const struct json_document *document; /* of the fields, for their lists of numbers */
    const char *name;                     /* of the field being read */
    char pointer[FAULT_POINTER_MAX];      /* to that field */
    struct fault *fault;
};

struct config_field {
    const char *name;
    size_t offset;       /* in struct model_config, of what the field is without a function: */
    int64_t least, most; /* an integer; most 0: a boolean */
    bool (*read)(struct config_reader *reader, const cJSON *node);
};

static bool refuse_type(struct config_reader *reader, const cJSON *node, const char *expected)
{
    return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE, "%s is %s; expected %s",
                        reader->name, json_kind(NULL, node), expected);
}

static bool read_integer(struct config_reader *reader, const cJSON *node, int64_t least,
                         int64_t most, int64_t *value)
{
    if (!cJSON_IsNumber(node))
        return refuse_type(reader, node, "an integer");
    const double number = node->valuedouble;
    if (!(number >= (double)least && number <= (double)most) || number != floor(number))
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "%s is %.17g; expected an integer from %" PRId64 " to %" PRId64,
                            reader->name, number, least, most);
    *value = (int64_t)number;
    return true;
}

static bool read_number(struct config_reader *reader, const cJSON *node, double *value)
{
    if (!cJSON_IsNumber(node))
        return refuse_type(reader, node, "a number");
    *value = node->valuedouble;
    if (!isfinite(*value))
        return fault_set_at(reader->fault, reader->pointer, FAULT_NONFINITE,
                            "%s is beyond the range of a 64-bit float", reader->name);
    return true;
}

static bool read_float(struct config_reader *reader, const cJSON *node, float *value)
{
    if (!cJSON_IsNumber(node))
        return refuse_type(reader, node, "a number");
    *value = (float)node->valuedouble;
    if (!isfinite(*value))
        return fault_set_at(reader->fault, reader->pointer, FAULT_NONFINITE,
                            "%s is beyond the range of a 32-bit float", reader->name);
    return true;
}

static bool read_bool(struct config_reader *reader, const cJSON *node, bool *value)
{
    if (!cJSON_IsBool(node))
        return refuse_type(reader, node, "true or false");
    *value = cJSON_IsTrue(node);
    return true;
}

/* Appends "/name" to the pointer, with / and ~ escaped (RFC 6901), and sets the reader's name. */
static void point_to(struct config_reader *reader, const char *name)
{
    reader->name = name;
    fault_pointer_append(reader->pointer, strlen(reader->pointer), name);
}

/* Sets the fault of a field that the object called what does not have. nearest may be NULL. */
static bool refuse_unknown(struct config_reader *reader, const char *what, const char *nearest)
{
    if (nearest)
        return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                            "%s has no field '%.60s'; did you mean '%s'?", what, reader->name,
                            nearest);
    return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD, "%s has no field '%.60s'",
                        what, reader->name);
}

/* Reads every field that object has. what is the object's name in messages. */
static bool read_object(struct config_reader *reader, const cJSON *object, const char *what,
                        const struct config_field *fields, int field_count)
{
    const size_t pointer_length = strlen(reader->pointer);
    const char *names[FIELDS_MAX];
    assert(field_count <= FIELDS_MAX);
    for (int i = 0; i < field_count; i++)
        names[i] = fields[i].name;
    for (const cJSON *node = object->child; node; node = node->next) {
        int i = 0;
        while (i < field_count && strcmp(node->string, names[i]) != 0)
            i++;
        point_to(reader, node->string);
        if (i == field_count)
            return refuse_unknown(reader, what, nearest_name(node->string, names, field_count));
        void *value = (char *)reader->config + fields[i].offset;
        if (!(fields[i].read ? fields[i].read(reader, node)
              : fields[i].most > 0
                  ? read_integer(reader, node, fields[i].least, fields[i].most, value)
                  : read_bool(reader, node, value)))
            return false;
        reader->pointer[pointer_length] = '\0';
    }
    return true;
}

/* --------------------------------------------------------- rotary embedding -- */

#define ROPE_TYPES "default, linear, dynamic, yarn, llama3 or longrope"

static const char *const ROPE_TYPE_NAMES[] = {
    [ATTN_ROPE_DEFAULT] = "default", [ATTN_ROPE_LINEAR] = "linear",
    [ATTN_ROPE_DYNAMIC] = "dynamic", [ATTN_ROPE_YARN] = "yarn",
    [ATTN_ROPE_LLAMA3] = "llama3",   [ATTN_ROPE_LONGROPE] = "longrope",
};

enum { ROPE_TYPE_COUNT = sizeof ROPE_TYPE_NAMES / sizeof ROPE_TYPE_NAMES[0] };

/* Sets of types. */
enum {
    LINEAR = 1 << ATTN_ROPE_LINEAR,
    DYNAMIC = 1 << ATTN_ROPE_DYNAMIC,
    YARN = 1 << ATTN_ROPE_YARN,
    LLAMA3 = 1 << ATTN_ROPE_LLAMA3,
    LONGROPE = 1 << ATTN_ROPE_LONGROPE,
};

struct scaling_parameter {
    const char *name;
    unsigned had_by, needed_by; /* sets of types */
    size_t offset;              /* of a double in struct attn_rope_scaling */
    double least;
    bool is_least_excluded;
};

#define AT(field) offsetof(struct attn_rope_scaling, field)
static const struct scaling_parameter SCALING_PARAMETERS[] = {
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

enum { SCALING_COUNT = sizeof SCALING_PARAMETERS / sizeof SCALING_PARAMETERS[0] };

const char *model_rope_type_name(enum attn_rope_type type)
{
    return ROPE_TYPE_NAMES[type];
}

static bool read_rope_type(struct config_reader *reader, const cJSON *scaling,
                           enum attn_rope_type *type)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(scaling, "rope_type");
    if (!node)
        return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                            "rope_type is missing; expected " ROPE_TYPES);
    point_to(reader, "rope_type");
    if (!cJSON_IsString(node))
        return refuse_type(reader, node, "a string");
    for (int i = 0; i < ROPE_TYPE_COUNT; i++)
        if (strcmp(node->valuestring, ROPE_TYPE_NAMES[i]) == 0) {
            *type = (enum attn_rope_type)i;
            return true;
        }
    return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                        "rope_type is '%.60s'; expected " ROPE_TYPES, node->valuestring);
}

static bool read_scaling_parameter(struct config_reader *reader, const cJSON *node,
                                   const struct scaling_parameter *parameter)
{
    double *value = (double *)(void *)((char *)&reader->config->rope.scaling + parameter->offset);
    if (cJSON_IsNull(node) && !parameter->needed_by)
        return true;
    if (!read_number(reader, node, value))
        return false;
    if (*value > parameter->least || (*value == parameter->least && !parameter->is_least_excluded))
        return true;
    return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                        "%s is %.17g; expected a number %s %g", parameter->name, *value,
                        parameter->is_least_excluded ? "above" : "of at least", parameter->least);
}

static const char *const FACTOR_NAMES[2] = { "short_factor", "long_factor" };

/* One of the two lists of longrope, with a number for each pair of columns. */
static bool read_rope_factors(struct config_reader *reader, const cJSON *node, int which)
{
    const struct json_numbers *numbers = json_numbers_of(reader->document, node);
    if (!numbers || numbers->rank != 1 || numbers->has_bool || numbers->has_null)
        return refuse_type(reader, node, "a list of numbers");
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

static bool refuse_parameter(struct config_reader *reader, enum attn_rope_type type)
{
    const char *names[SCALING_COUNT + 4] = { "rope_type" };
    char what[48];
    int count = 1;
    for (int i = 0; i < SCALING_COUNT; i++)
        if (SCALING_PARAMETERS[i].had_by >> type & 1)
            names[count++] = SCALING_PARAMETERS[i].name;
    if (type == ATTN_ROPE_YARN)
        names[count++] = "truncate";
    for (int i = 0; type == ATTN_ROPE_LONGROPE && i < 2; i++)
        names[count++] = FACTOR_NAMES[i];
    snprintf(what, sizeof what, "a scaling of rope_type %s", ROPE_TYPE_NAMES[type]);
    return refuse_unknown(reader, what, nearest_name(reader->name, names, count));
}

static bool read_scaling_member(struct config_reader *reader, const cJSON *node,
                                enum attn_rope_type type)
{
    if (strcmp(node->string, "rope_type") == 0)
        return true;
    if (type == ATTN_ROPE_YARN && strcmp(node->string, "truncate") == 0)
        return read_bool(reader, node, &reader->config->rope.scaling.truncate);
    for (int i = 0; i < SCALING_COUNT; i++)
        if ((SCALING_PARAMETERS[i].had_by >> type & 1)
            && strcmp(node->string, SCALING_PARAMETERS[i].name) == 0)
            return read_scaling_parameter(reader, node, &SCALING_PARAMETERS[i]);
    for (int i = 0; type == ATTN_ROPE_LONGROPE && i < 2; i++)
        if (strcmp(node->string, FACTOR_NAMES[i]) == 0)
            return read_rope_factors(reader, node, i);
    return refuse_parameter(reader, type);
}

static bool check_scaling_needed(struct config_reader *reader, const cJSON *scaling,
                                 enum attn_rope_type type)
{
    const char *missing = NULL;
    for (int i = 0; i < SCALING_COUNT && !missing; i++)
        if ((SCALING_PARAMETERS[i].needed_by >> type & 1)
            && !cJSON_GetObjectItemCaseSensitive(scaling, SCALING_PARAMETERS[i].name))
            missing = SCALING_PARAMETERS[i].name;
    for (int i = 0; type == ATTN_ROPE_LONGROPE && i < 2 && !missing; i++)
        if (reader->config->rope_factor_counts[i] == 0)
            missing = FACTOR_NAMES[i];
    return !missing
           || fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                           "%s is missing; rope_type %s needs it", missing, ROPE_TYPE_NAMES[type]);
}

static bool read_rope_scaling(struct config_reader *reader, const cJSON *scaling)
{
    const size_t pointer_length = strlen(reader->pointer);
    enum attn_rope_type type = ATTN_ROPE_DEFAULT;
    if (cJSON_IsNull(scaling))
        return true;
    if (!cJSON_IsObject(scaling))
        return refuse_type(reader, scaling, "an object");
    if (!read_rope_type(reader, scaling, &type))
        return false;
    reader->pointer[pointer_length] = '\0';
    reader->config->rope.scaling = attn_rope_scaling_default(type);
    if (type == ATTN_ROPE_LONGROPE)
        reader->config->rope.scaling.factor = 1;
    for (const cJSON *node = scaling->child; node; node = node->next) {
        point_to(reader, node->string);
        if (!read_scaling_member(reader, node, type))
            return false;
        reader->pointer[pointer_length] = '\0';
    }
    return check_scaling_needed(reader, scaling, type);
}

static bool read_rope_theta(struct config_reader *reader, const cJSON *node)
{
    double *theta = &reader->config->rope.theta;
    return read_number(reader, node, theta)
           && (*theta > 0
               || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                               "theta is %g; expected a number above 0", *theta));
}

static bool read_rope_dim(struct config_reader *reader, const cJSON *node)
{
    int64_t *dim = &reader->config->rope.dim;
    return read_integer(reader, node, 2, INT32_MAX, dim)
           && (*dim % 2 == 0
               || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                               "dim is %" PRId64 "; expected an even number", *dim));
}

/* The rules between fields. */
static bool check_rope(struct config_reader *reader)
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

static bool read_rope(struct config_reader *reader, const cJSON *node)
{
    static const struct config_field FIELDS[] = {
        { "theta", 0, 0, 0, read_rope_theta },
        { "dim", 0, 0, 0, read_rope_dim },
        { "interleaved", offsetof(struct model_config, rope.interleaved), 0, 0, NULL },
        { "scaling", 0, 0, 0, read_rope_scaling },
    };
    if (cJSON_IsNull(node))
        return true;
    reader->config->has_rope = true;
    return (cJSON_IsObject(node)
                ? read_object(reader, node, "rope", FIELDS, sizeof FIELDS / sizeof FIELDS[0])
                : refuse_type(reader, node, "an object"))
           && check_rope(reader);
}

bool model_config_read_scaling(struct model_config *config, const struct json_document *document,
                               const char *name, const cJSON *scaling, struct fault *fault)
{
    struct config_reader reader = {
        .config = config, .document = document, .name = name, .fault = fault
    };
    snprintf(reader.pointer, sizeof reader.pointer, "/config/%s", name);
    return read_rope_scaling(&reader, scaling) && check_rope(&reader);
}

/* ------------------------------------------------------------------- fields -- */

static bool read_attention(struct config_reader *reader, const cJSON *node)
{
    if (!cJSON_IsString(node))
        return refuse_type(reader, node, "a string");
    reader->config->attention = model_attention_find(node->valuestring);
    return reader->config->attention
           || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                           "attention is '%.60s'; expected %s", node->valuestring,
                           model_attention_names());
}

static bool read_scale(struct config_reader *reader, const cJSON *node)
{
    reader->config->has_scale = !cJSON_IsNull(node);
    return cJSON_IsNull(node) || read_float(reader, node, &reader->config->scale);
}

static bool read_softcap(struct config_reader *reader, const cJSON *node)
{
    float *softcap = &reader->config->softcap;
    return read_float(reader, node, softcap)
           && (*softcap >= 0
               || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                               "softcap is %g; expected 0 (off) or more", (double)*softcap));
}

static bool read_precision(struct config_reader *reader, const cJSON *node)
{
    if (!cJSON_IsString(node))
        return refuse_type(reader, node, PRECISION_NAMES);
    reader->config->has_precision = precision_find(node->valuestring, &reader->config->precision);
    return reader->config->has_precision
           || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                           "there is no precision '%.60s'; expected " PRECISION_NAMES,
                           node->valuestring);
}

static bool read_layout(struct config_reader *reader, const cJSON *node)
{
    const char *layout = cJSON_IsString(node) ? node->valuestring : NULL;
    if (!layout)
        return refuse_type(reader, node, "\"out_in\" or \"in_out\"");
    reader->config->in_out = strcmp(layout, "in_out") == 0;
    return reader->config->in_out || strcmp(layout, "out_in") == 0
           || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                           "layout is '%.60s'; expected out_in or in_out", layout);
}

/* check_tensors() checks its keys, once the number of layers is known. */
static bool read_tensors(struct config_reader *reader, const cJSON *node)
{
    if (!cJSON_IsObject(node))
        return refuse_type(reader, node, "an object");
    reader->config->tensors = node;
    return true;
}

#define AT(field) offsetof(struct model_config, field)
#define INTEGER(name, least)                                                                       \
    {                                                                                              \
#name, AT(name), least, INT32_MAX, NULL                                                    \
    }
static const struct config_field FIELDS[] = {
    { "attention", 0, 0, 0, read_attention },
    { "layers", AT(layers), 1, MODEL_LAYERS_MAX, NULL },
    INTEGER(q_heads, 1),
    INTEGER(kv_heads, 1),
    INTEGER(head_dim, 1),
    INTEGER(v_head_dim, 1),
    { "causal", AT(causal), 0, 0, NULL },
    { "scale", 0, 0, 0, read_scale },
    { "softcap", 0, 0, 0, read_softcap },
    { "precision", 0, 0, 0, read_precision },
    INTEGER(window_left, -1),
    INTEGER(window_right, -1),
    INTEGER(chunk, 0),
    { "rope", 0, 0, 0, read_rope },
    { "layout", 0, 0, 0, read_layout },
    { "tensors", 0, 0, 0, read_tensors },
};
#undef INTEGER
#undef AT

enum { FIELD_COUNT = sizeof FIELDS / sizeof FIELDS[0] };

static bool check_tensors(struct config_reader *reader)
{
    char buffer[MODEL_NAMES_BYTES];
    const char *nearest = NULL;
    const cJSON *node = reader->config->tensors ? reader->config->tensors->child : NULL;
    for (; node; node = node->next) {
        snprintf(reader->pointer, sizeof reader->pointer, "/config/tensors");
        point_to(reader, node->string);
        if (!model_names_known(node->string, reader->config->layers,
                               reader->config->attention->allowed, buffer, &nearest))
            return refuse_unknown(reader, "tensors", nearest);
        if (!cJSON_IsString(node))
            return refuse_type(reader, node, "a string, a tensor's name in the file");
    }
    return true;
}

/* Refuses the config.json of a published checkpoint, which has one of these two fields. */
static bool refuse_published(const cJSON *root, struct fault *fault)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(root, "model_type");
    const bool is_ours = cJSON_GetObjectItemCaseSensitive(root, "attention") != NULL;
    if (is_ours || (!type && !cJSON_GetObjectItemCaseSensitive(root, "architectures")))
        return true;
    return fault_set_at(fault, "/config", FAULT_FIELD,
                        "this is the config of a published checkpoint (model_type '%.40s'); such "
                        "a one is read from a directory, config.json beside model.safetensors; "
                        "here a config has \"attention\" and \"tensors\"",
                        type && cJSON_IsString(type) ? type->valuestring : "unknown");
}

bool model_config_read(struct model_config *config, const char *text, size_t size,
                       struct fault *fault)
{
    const struct json_options options = { .nonfinite_allowed = false };
    *config = (struct model_config){
        .attention = model_attention_find("scaled_dot_product"),
        .layers = 1,
        .window_left = -1,
        .window_right = -1,
        .rope.theta = 10000,
    };
    struct config_reader reader = {
        .config = config, .document = &config->document, .pointer = "/config", .fault = fault
    };
    if (!json_read(&config->document, text, size, &options, fault)
        || !json_check_finite(&config->document, config->document.root, fault)) {
        model_config_free(config);
        fault_prefix_pointer(fault, "/config");
        return false;
    }
    const cJSON *root = config->document.root;
    const bool is_object =
        cJSON_IsObject(root)
        || fault_set_at(fault, "/config", FAULT_TYPE, "config is %s; expected an object",
                        json_kind(NULL, root));
    if (is_object && refuse_published(root, fault)
        && read_object(&reader, root, "config", FIELDS, FIELD_COUNT) && check_tensors(&reader))
        return true;
    model_config_free(config);
    return false;
}

void model_config_free(struct model_config *config)
{
    if (!config)
        return;
    json_free(&config->document);
    *config = (struct model_config){ .attention = NULL };
}
