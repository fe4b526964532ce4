/* model_config.c - see model_config.h.
 *
 * One table holds every field and how it is read. */
#include "model_config.h"

#include "model_names.h"
#include "nearest.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Where a field is read to, and the way back to it in messages. */
struct field_reader {
    struct model_config *config;
    const char *name;
    char pointer[FAULT_POINTER_MAX];
    struct fault *fault;
};

const char *model_config_tensor(const struct model_config *config, const char *name)
{
    const cJSON *mapped = cJSON_GetObjectItemCaseSensitive(config->tensors, name);
    return mapped ? mapped->valuestring : name;
}

/* ----------------------------------------------------------- single values -- */

static const char *kind_of(const cJSON *node)
{
    return cJSON_IsArray(node)    ? "an array"
           : cJSON_IsObject(node) ? "an object"
           : cJSON_IsString(node) ? "a string"
           : cJSON_IsBool(node)   ? "a boolean"
           : cJSON_IsNumber(node) ? "a number"
                                  : "null";
}

static bool wrong_type(struct field_reader *reader, const cJSON *node, const char *expected)
{
    return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE, "%s is %s; expected %s",
                        reader->name, kind_of(node), expected);
}

static bool read_integer(struct field_reader *reader, const cJSON *node, int64_t least,
                         int64_t most, int64_t *value)
{
    if (!cJSON_IsNumber(node))
        return wrong_type(reader, node, "an integer");
    const double number = node->valuedouble;
    if (!(number >= (double)least && number <= (double)most) || number != floor(number))
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "%s is %.17g; expected an integer from %" PRId64 " to %" PRId64,
                            reader->name, number, least, most);
    *value = (int64_t)number;
    return true;
}

static bool read_float(struct field_reader *reader, const cJSON *node, float *value)
{
    if (!cJSON_IsNumber(node))
        return wrong_type(reader, node, "a number");
    *value = (float)node->valuedouble;
    if (!isfinite(*value))
        return fault_set_at(reader->fault, reader->pointer, FAULT_NONFINITE,
                            "%s is beyond the range of a 32-bit float", reader->name);
    return true;
}

static bool read_bool(struct field_reader *reader, const cJSON *node, bool *value)
{
    if (!cJSON_IsBool(node))
        return wrong_type(reader, node, "true or false");
    *value = cJSON_IsTrue(node);
    return true;
}

/* Head counts and widths. */
static bool read_width(struct field_reader *reader, const cJSON *node, int64_t *value)
{
    return read_integer(reader, node, 1, INT32_MAX, value);
}

/* ---------------------------------------------------------------- fields -- */

typedef bool read_field(struct field_reader *reader, const cJSON *node);

struct field {
    const char *name;
    read_field *read;
};

static bool read_attention(struct field_reader *reader, const cJSON *node)
{
    if (!cJSON_IsString(node))
        return wrong_type(reader, node, "a string");
    reader->config->attention = model_attention_find(node->valuestring);
    return reader->config->attention
           || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                           "attention is '%.60s'; expected %s", node->valuestring,
                           model_attention_names());
}

static bool read_layers(struct field_reader *reader, const cJSON *node)
{
    return read_integer(reader, node, 1, MODEL_LAYERS_MAX, &reader->config->layers);
}

static bool read_q_heads(struct field_reader *reader, const cJSON *node)
{
    return read_width(reader, node, &reader->config->q_heads);
}

static bool read_kv_heads(struct field_reader *reader, const cJSON *node)
{
    return read_width(reader, node, &reader->config->kv_heads);
}

static bool read_head_dim(struct field_reader *reader, const cJSON *node)
{
    return read_width(reader, node, &reader->config->head_dim);
}

static bool read_v_head_dim(struct field_reader *reader, const cJSON *node)
{
    return read_width(reader, node, &reader->config->v_head_dim);
}

static bool read_causal(struct field_reader *reader, const cJSON *node)
{
    return read_bool(reader, node, &reader->config->causal);
}

static bool read_scale(struct field_reader *reader, const cJSON *node)
{
    reader->config->has_scale = !cJSON_IsNull(node);
    return cJSON_IsNull(node) || read_float(reader, node, &reader->config->scale);
}

static bool read_softcap(struct field_reader *reader, const cJSON *node)
{
    float *softcap = &reader->config->softcap;
    return read_float(reader, node, softcap)
           && (*softcap >= 0
               || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                               "softcap is %g; expected 0 (off) or more", (double)*softcap));
}

static bool read_window_left(struct field_reader *reader, const cJSON *node)
{
    return read_integer(reader, node, -1, INT32_MAX, &reader->config->window_left);
}

static bool read_window_right(struct field_reader *reader, const cJSON *node)
{
    return read_integer(reader, node, -1, INT32_MAX, &reader->config->window_right);
}

static bool read_layout(struct field_reader *reader, const cJSON *node)
{
    const char *layout = cJSON_IsString(node) ? node->valuestring : NULL;
    if (!layout)
        return wrong_type(reader, node, "\"out_in\" or \"in_out\"");
    reader->config->in_out = strcmp(layout, "in_out") == 0;
    return reader->config->in_out || strcmp(layout, "out_in") == 0
           || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                           "layout is '%.60s'; expected out_in or in_out", layout);
}

static bool read_theta(struct field_reader *reader, const cJSON *node)
{
    double *theta = &reader->config->rope_theta;
    if (!cJSON_IsNumber(node))
        return wrong_type(reader, node, "a number");
    *theta = node->valuedouble;
    return (isfinite(*theta) && *theta > 0)
           || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                           "theta is %g; expected a number above 0", *theta);
}

static bool read_rope_dim(struct field_reader *reader, const cJSON *node)
{
    int64_t *dim = &reader->config->rope_dim;
    return read_integer(reader, node, 2, INT32_MAX, dim)
           && (*dim % 2 == 0
               || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                               "dim is %" PRId64 "; expected an even number", *dim));
}

static bool read_interleaved(struct field_reader *reader, const cJSON *node)
{
    return read_bool(reader, node, &reader->config->rope_interleaved);
}

static bool read_object(struct field_reader *reader, const cJSON *object, const char *what,
                        const struct field *fields, int field_count);

static bool read_rope(struct field_reader *reader, const cJSON *node)
{
    static const struct field FIELDS[] = {
        { "theta", read_theta },
        { "dim", read_rope_dim },
        { "interleaved", read_interleaved },
    };
    if (cJSON_IsNull(node))
        return true;
    reader->config->has_rope = true;
    return cJSON_IsObject(node) ? read_object(reader, node, "rope", FIELDS, 3)
                                : wrong_type(reader, node, "an object");
}

/* Its keys are checked when the number of layers is known. */
static bool read_tensors(struct field_reader *reader, const cJSON *node)
{
    if (!cJSON_IsObject(node))
        return wrong_type(reader, node, "an object");
    reader->config->tensors = node;
    return true;
}

static const struct field FIELDS[] = {
    { "attention", read_attention },
    { "layers", read_layers },
    { "q_heads", read_q_heads },
    { "kv_heads", read_kv_heads },
    { "head_dim", read_head_dim },
    { "v_head_dim", read_v_head_dim },
    { "causal", read_causal },
    { "scale", read_scale },
    { "softcap", read_softcap },
    { "window_left", read_window_left },
    { "window_right", read_window_right },
    { "rope", read_rope },
    { "layout", read_layout },
    { "tensors", read_tensors },
};

enum { FIELD_COUNT = sizeof FIELDS / sizeof FIELDS[0] };

/* --------------------------------------------------------------- objects -- */

/* The pointer's text goes on with "/name", / and ~ escaped as RFC 6901 says. */
static void point_to(struct field_reader *reader, const char *name)
{
    size_t used = strlen(reader->pointer);
    reader->name = name;
    if (used + 1 < sizeof reader->pointer)
        reader->pointer[used++] = '/';
    for (; *name && used + 3 < sizeof reader->pointer; name++) {
        const bool is_escaped = *name == '~' || *name == '/';
        reader->pointer[used++] = is_escaped ? '~' : *name;
        if (is_escaped)
            reader->pointer[used++] = *name == '~' ? '0' : '1';
    }
    reader->pointer[used] = '\0';
}

static bool unknown_field(struct field_reader *reader, const char *what, const char *nearest)
{
    if (nearest)
        return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                            "%s has no field '%.60s'; did you mean '%s'?", what, reader->name,
                            nearest);
    return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD, "%s has no field '%.60s'",
                        what, reader->name);
}

static bool read_object(struct field_reader *reader, const cJSON *object, const char *what,
                        const struct field *fields, int field_count)
{
    const size_t pointer_length = strlen(reader->pointer);
    const char *names[FIELD_COUNT];
    for (int i = 0; i < field_count; i++)
        names[i] = fields[i].name;
    for (const cJSON *node = object->child; node; node = node->next) {
        int i = 0;
        while (i < field_count && strcmp(node->string, names[i]) != 0)
            i++;
        point_to(reader, node->string);
        if (i == field_count)
            return unknown_field(reader, what, nearest_name(node->string, names, field_count));
        if (!fields[i].read(reader, node))
            return false;
        reader->pointer[pointer_length] = '\0';
    }
    return true;
}

static bool check_tensors(struct field_reader *reader)
{
    char buffer[MODEL_NAMES_BYTES];
    const char *nearest = NULL;
    const cJSON *node = reader->config->tensors ? reader->config->tensors->child : NULL;
    for (; node; node = node->next) {
        snprintf(reader->pointer, sizeof reader->pointer, "/config/tensors");
        point_to(reader, node->string);
        if (!model_names_known(node->string, reader->config->layers,
                               reader->config->attention->allowed, buffer, &nearest))
            return unknown_field(reader, "tensors", nearest);
        if (!cJSON_IsString(node))
            return wrong_type(reader, node, "a string, a tensor's name in the file");
    }
    return true;
}

/* A config.json of somebody else's: every published checkpoint has one of these fields. */
static bool refuse_published(const cJSON *root, struct fault *fault)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(root, "model_type");
    const bool is_ours = cJSON_GetObjectItemCaseSensitive(root, "attention") != NULL;
    if (is_ours || (!type && !cJSON_GetObjectItemCaseSensitive(root, "architectures")))
        return true;
    return fault_set_at(fault, "/config", FAULT_FIELD,
                        "this is the config of a published checkpoint (model_type '%.40s'), which "
                        "this version cannot map; it reads attnd's own config, with \"attention\" "
                        "and \"tensors\"",
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
        .rope_theta = 10000,
    };
    struct field_reader reader = { .config = config, .pointer = "/config", .fault = fault };
    if (!json_read(&config->document, text, size, &options, fault)) {
        fault_prefix_pointer(fault, "/config");
        return false;
    }
    const cJSON *root = config->document.root;
    const bool is_object = cJSON_IsObject(root)
                           || fault_set_at(fault, "/config", FAULT_TYPE,
                                           "config is %s; expected an object", kind_of(root));
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
