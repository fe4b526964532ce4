/* model_describe.c - a model as clients see it (API.md section 2, GET /v1/models/{model}).
 *
 * A model without parameters has no layers to tell of: its widths are those of
 * each request. */
#include "model/model_describe.h"

#include "model/model_options.h"

static void member_string(struct text *text, const char *key, const char *value)
{
    text_raw(text, ",");
    text_key(text, key);
    text_string(text, value);
}

static void member_integer(struct text *text, const char *key, int64_t value)
{
    text_raw(text, ",");
    text_key(text, key);
    text_integer(text, value);
}

/* A width that each call settles is null. */
static void member_width(struct text *text, const char *key, int64_t width)
{
    text_raw(text, ",");
    text_key(text, key);
    if (width >= 0)
        text_integer(text, width);
    else
        text_raw(text, "null");
}

static void describe_layer(struct text *text, int64_t index, const struct model_layer *layer)
{
    const bool is_self = layer->d_query >= 0 && layer->d_query == layer->d_key
                         && (layer->d_value < 0 || layer->d_value == layer->d_key);
    text_raw(text, index > 0 ? "," : "");
    text_raw(text, "{\"index\":");
    text_integer(text, index);
    member_string(text, "kind", layer->kind ? layer->kind : is_self ? "self" : "cross");
    member_width(text, "d_query", layer->d_query);
    member_width(text, "d_key", layer->d_key);
    member_width(text, "d_value", layer->d_value);
    member_width(text, "d_out", layer->d_out);
    member_integer(text, "q_heads", layer->layer.q_heads);
    member_integer(text, "kv_heads", layer->layer.kv_heads);
    member_integer(text, "head_dim", layer->layer.head_dim);
    member_width(text, "v_head_dim", layer->layer.v_head_dim > 0 ? layer->layer.v_head_dim : -1);
    text_raw(text, ",\"options\":");
    model_options_describe(layer, text);
    text_raw(text, "}");
}

static void describe(struct text *text, const char *name, const char *source,
                     const struct model *model, const char *state, const char *reason)
{
    text_raw(text, "{\"name\":");
    text_string(text, name);
    member_string(text, "attention", model ? model->attention : "");
    member_string(text, "state", state);
    member_string(text, "reason", reason ? reason : "");
    member_string(text, "source", source);
    member_string(text, "dtype", model ? model->dtype : "");
    member_integer(text, "parameter_count", model ? model->parameter_count : 0);
    member_integer(text, "bytes", model ? model->parameter_bytes : 0);
    text_raw(text,
             model && model->layers[0].options.causal ? ",\"causal\":true" : ",\"causal\":false");
    text_raw(text, ",\"layers\":[");
    for (int64_t i = 0; model && !model->parameterless && i < model->layer_count; i++)
        describe_layer(text, i, &model->layers[i]);
    text_raw(text, "]}");
}

void model_describe(const struct model *model, struct text *text)
{
    const char *damage = model_damage(model);
    describe(text, model->name, model->source, model, damage ? "UNAVAILABLE" : "READY", damage);
}

void model_describe_absent(const char *name, const char *source, const char *state,
                           const char *reason, struct text *text)
{
    describe(text, name, source, NULL, state, reason);
}
