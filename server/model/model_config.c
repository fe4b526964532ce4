/* model_config.c - see model_config.h.
 *
 * The table FIELDS names every field and the function that reads it. */
#include "model/model_config.h"

#include "base/precision.h"
#include "model/model_names.h"
#include "model/model_rope.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *model_config_tensor(const struct model_config *config, const char *name)
{
    const cJSON *mapped = cJSON_GetObjectItemCaseSensitive(config->tensors, name);
    return mapped ? mapped->valuestring : name;
}

/* Head counts and widths. */
static bool read_width(struct model_reader *reader, const cJSON *node, int64_t *value)
{
    return model_reader_integer(reader, node, 1, INT32_MAX, value);
}

/* ---------------------------------------------------------------- fields -- */

static bool read_attention(struct model_reader *reader, const cJSON *node)
{
    if (!cJSON_IsString(node))
        return model_reader_wrong_type(reader, node, "a string");
    reader->config->attention = model_attention_find(node->valuestring);
    return reader->config->attention
           || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                           "attention is '%.60s'; expected %s", node->valuestring,
                           model_attention_names());
}

static bool read_layers(struct model_reader *reader, const cJSON *node)
{
    return model_reader_integer(reader, node, 1, MODEL_LAYERS_MAX, &reader->config->layers);
}

static bool read_q_heads(struct model_reader *reader, const cJSON *node)
{
    return read_width(reader, node, &reader->config->q_heads);
}

static bool read_kv_heads(struct model_reader *reader, const cJSON *node)
{
    return read_width(reader, node, &reader->config->kv_heads);
}

static bool read_head_dim(struct model_reader *reader, const cJSON *node)
{
    return read_width(reader, node, &reader->config->head_dim);
}

static bool read_v_head_dim(struct model_reader *reader, const cJSON *node)
{
    return read_width(reader, node, &reader->config->v_head_dim);
}

static bool read_causal(struct model_reader *reader, const cJSON *node)
{
    return model_reader_bool(reader, node, &reader->config->causal);
}

static bool read_scale(struct model_reader *reader, const cJSON *node)
{
    reader->config->has_scale = !cJSON_IsNull(node);
    return cJSON_IsNull(node) || model_reader_float(reader, node, &reader->config->scale);
}

static bool read_softcap(struct model_reader *reader, const cJSON *node)
{
    float *softcap = &reader->config->softcap;
    return model_reader_float(reader, node, softcap)
           && (*softcap >= 0
               || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                               "softcap is %g; expected 0 (off) or more", (double)*softcap));
}

static bool read_precision(struct model_reader *reader, const cJSON *node)
{
    if (!cJSON_IsString(node))
        return model_reader_wrong_type(reader, node, PRECISION_NAMES);
    reader->config->has_precision = precision_find(node->valuestring, &reader->config->precision);
    return reader->config->has_precision
           || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                           "there is no precision '%.60s'; expected " PRECISION_NAMES,
                           node->valuestring);
}

static bool read_window_left(struct model_reader *reader, const cJSON *node)
{
    return model_reader_integer(reader, node, -1, INT32_MAX, &reader->config->window_left);
}

static bool read_window_right(struct model_reader *reader, const cJSON *node)
{
    return model_reader_integer(reader, node, -1, INT32_MAX, &reader->config->window_right);
}

static bool read_layout(struct model_reader *reader, const cJSON *node)
{
    const char *layout = cJSON_IsString(node) ? node->valuestring : NULL;
    if (!layout)
        return model_reader_wrong_type(reader, node, "\"out_in\" or \"in_out\"");
    reader->config->in_out = strcmp(layout, "in_out") == 0;
    return reader->config->in_out || strcmp(layout, "out_in") == 0
           || fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                           "layout is '%.60s'; expected out_in or in_out", layout);
}

/* check_tensors() checks its keys, once the number of layers is known. */
static bool read_tensors(struct model_reader *reader, const cJSON *node)
{
    if (!cJSON_IsObject(node))
        return model_reader_wrong_type(reader, node, "an object");
    reader->config->tensors = node;
    return true;
}

static const struct model_reader_field FIELDS[] = {
    { "attention", read_attention },     { "layers", read_layers },
    { "q_heads", read_q_heads },         { "kv_heads", read_kv_heads },
    { "head_dim", read_head_dim },       { "v_head_dim", read_v_head_dim },
    { "causal", read_causal },           { "scale", read_scale },
    { "softcap", read_softcap },         { "precision", read_precision },
    { "window_left", read_window_left }, { "window_right", read_window_right },
    { "rope", model_rope_read },         { "layout", read_layout },
    { "tensors", read_tensors },
};

enum { FIELD_COUNT = sizeof FIELDS / sizeof FIELDS[0] };

static bool check_tensors(struct model_reader *reader)
{
    char buffer[MODEL_NAMES_BYTES];
    const char *nearest = NULL;
    const cJSON *node = reader->config->tensors ? reader->config->tensors->child : NULL;
    for (; node; node = node->next) {
        snprintf(reader->pointer, sizeof reader->pointer, "/config/tensors");
        model_reader_point_to(reader, node->string);
        if (!model_names_known(node->string, reader->config->layers,
                               reader->config->attention->allowed, buffer, &nearest))
            return model_reader_unknown(reader, "tensors", nearest);
        if (!cJSON_IsString(node))
            return model_reader_wrong_type(reader, node, "a string, a tensor's name in the file");
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
    struct model_reader reader = {
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
        && model_reader_object(&reader, root, "config", FIELDS, FIELD_COUNT)
        && check_tensors(&reader))
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
