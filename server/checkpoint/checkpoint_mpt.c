/* checkpoint_mpt.c - see checkpoint_mpt.h.
 *
 * Source: llmfoundry/models/layers/attention.py, mpt/modeling_mpt.py and utils/config_defaults.py
 * of mosaicml/llm-foundry at 8c8dd48f7, of which transformers' MPT is a part. */
#include "checkpoint/checkpoint_mpt.h"

#include "checkpoint/checkpoint_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The string that an object has under a name; otherwise, where it has no string there. */
static const char *string_in(const cJSON *object, const char *name, const char *otherwise)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(node) ? node->valuestring : otherwise;
}

static bool refuse(const char *field, const char *value, const char *expected, struct fault *fault)
{
    char pointer[FAULT_POINTER_MAX];
    snprintf(pointer, sizeof pointer, "/config/attn_config/%s", field);
    return fault_set_at(fault, pointer, FAULT_OPTION, "config.json's %s is '%.40s'; expected %s",
                        field, value, expected);
}

/* attention_bias is for the projections before attention, no_bias for all. Where attention_bias is
 * null, no_bias decides for them too. */
static bool read_biases(struct checkpoint_layer *layer, struct fault *fault)
{
    const cJSON *section = layer->run->section;
    const cJSON *own = cJSON_GetObjectItemCaseSensitive(section, "attention_bias");
    bool is_bare, has_biases;
    if (!checkpoint_read_flag(section, "no_bias=true", &is_bare, fault)
        || !checkpoint_read_flag(section, "attention_bias", &has_biases, fault))
        return false;
    if (!cJSON_IsBool(own))
        has_biases = !is_bare;
    layer->biases = (is_bare ? 0u : 1u << MODEL_O) | (has_biases ? 1u << MODEL_Q : 0u);
    return true;
}

static bool read_heads(struct checkpoint_layer *layer, const cJSON *attention, struct fault *fault)
{
    const char *type = string_in(attention, "attn_type", "multihead_attention");
    struct model_config *config = &layer->config;
    if (config->q_heads * config->head_dim != layer->width)
        return fault_set_at(fault, "/config/head_dim", FAULT_SHAPE,
                            "config.json gives %" PRId64 " heads of %" PRId64
                            " columns (head_dim); expected %" PRId64 " columns together (d_model)",
                            config->q_heads, config->head_dim, layer->width);
    if (strcmp(type, "grouped_query_attention") == 0)
        return true; /* kv_heads is kv_n_heads already */
    config->kv_heads = config->q_heads;
    if (strcmp(type, "multihead_attention") == 0)
        return true;
    config->kv_heads = 1;
    return strcmp(type, "multiquery_attention") == 0
           || refuse("attn_type", type,
                     "multihead_attention, grouped_query_attention or multiquery_attention", fault);
}

/* A window of W is the W keys before a row's own; -1 is none. */
static bool read_window(struct checkpoint_layer *layer, const cJSON *attention, struct fault *fault)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(attention, "sliding_window_size");
    if (!node || cJSON_IsNull(node) || (cJSON_IsNumber(node) && node->valuedouble == -1))
        return true;
    return checkpoint_read_integer(attention, "sliding_window_size", &layer->config.window_left,
                                   fault);
}

/* Rotary embeddings are those of flash-attn ("dail"), which are never scaled, or of transformers
 * ("hf"). A model that has them has no slopes by default, and is refused if it asks for both. */
static bool read_rope(struct checkpoint_layer *layer, const cJSON *attention, struct fault *fault)
{
    const char *source = string_in(attention, "rope_impl", "dail");
    const cJSON *dail = cJSON_GetObjectItemCaseSensitive(attention, "rope_dail_config");
    const char *type = string_in(dail, "type", "original");
    bool is_rotary;
    if (!checkpoint_read_flag(attention, "rope", &is_rotary, fault))
        return false;
    if (!is_rotary)
        return true;
    layer->is_unscaled = strcmp(source, "dail") == 0;
    if (!layer->is_unscaled && strcmp(source, "hf") != 0)
        return refuse("rope_impl", source, "dail or hf", fault);
    if (layer->is_unscaled && strcmp(type, "original") != 0)
        return refuse("rope_dail_config/type", type, "original", fault);
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(attention, "alibi")))
        return refuse("alibi", "true", "false beside rope", fault);
    layer->has_alibi = false;
    return true;
}

/* Temperature tuning multiplies queries by a factor that grows with their position. */
static bool check_temperature(const cJSON *attention, struct fault *fault)
{
    const cJSON *tuning = cJSON_GetObjectItemCaseSensitive(attention, "attn_temperature_tuning");
    return !checkpoint_find_set(tuning, "attn_scale")
           || refuse("attn_temperature_tuning/attn_scale", "not 0", "0", fault);
}

bool checkpoint_mpt_adjust(struct checkpoint_layer *layer, struct fault *fault)
{
    const cJSON *attention = cJSON_GetObjectItemCaseSensitive(layer->run->section, "attn_config");
    return read_biases(layer, fault) && read_heads(layer, attention, fault)
           && read_window(layer, attention, fault) && read_rope(layer, attention, fault)
           && check_temperature(attention, fault);
}
