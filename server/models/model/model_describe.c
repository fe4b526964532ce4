/* SPDX-License-Identifier: Apache-2.0 */
/* model_describe.c - members of the object, one by one.
 *
 * A model without parameters has an empty list of layers: each request brings its own widths. */
#include "models/model/model_describe.h"

#include "models/model/model_config.h"
#include "models/model/model_forward.h"
#include "models/tokenizer/tokenizer.h"

/* ----------------------------------------------------------------- members -- */

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

static void member_number(struct text *text, const char *key, double number)
{
    text_raw(text, ",");
    text_key(text, key);
    text_format(text, "%.9g", number);
}

static void member_raw(struct text *text, const char *key, const char *json)
{
    text_raw(text, ",");
    text_key(text, key);
    text_raw(text, json);
}

/* null for a width that each call settles. */
static void member_width(struct text *text, const char *key, int64_t width)
{
    if (width >= 0)
        member_integer(text, key, width);
    else
        member_raw(text, key, "null");
}

/* ----------------------------------------------------------------- options -- */

static void describe_rope(const struct attn_rope *rope, struct text *text)
{
    const struct attn_rope_scaling *scaling = &rope->scaling;
    if (rope->dim == 0 && rope->query_growth == 0) {
        member_raw(text, "rope", "null");
        return;
    }
    member_raw(text, "rope", "{\"interleaved\":");
    text_raw(text, rope->interleaved ? "true" : "false");
    member_number(text, "theta", rope->theta);
    member_number(text, "dim", (double)rope->dim);
    if (rope->pairs > 0)
        member_number(text, "pairs", (double)rope->pairs);
    if (rope->grid.height > 0) {
        member_raw(text, "grid", "{\"first\":");
        text_integer(text, rope->grid.first);
        member_integer(text, "height", rope->grid.height);
        member_integer(text, "width", rope->grid.width);
        text_raw(text, "}");
    }
    if (rope->query_growth > 0) {
        member_number(text, "query_growth", rope->query_growth);
        member_number(text, "query_length", rope->query_length);
        member_number(text, "query_offset", rope->query_offset);
    }
    if (scaling->type == ATTN_ROPE_DEFAULT) {
        member_raw(text, "scaling", "null}");
        return;
    }
    member_raw(text, "scaling", "{\"rope_type\":");
    text_string(text, model_rope_type_name(scaling->type));
    member_number(text, "factor", scaling->factor);
    if (scaling->type != ATTN_ROPE_LINEAR)
        member_number(text, "original_max_position_embeddings",
                      scaling->original_max_position_embeddings);
    member_number(text, "attention_factor", attn_rope_attention_factor(rope));
    text_raw(text, "}}");
}

static void describe_norm(const char *key, const struct attn_norm *norm, bool follows_rope,
                          struct text *text)
{
    static const char *const SCOPES[] = {
        [ATTN_NORM_HEAD] = "head",
        [ATTN_NORM_HEADS] = "heads",
        [ATTN_NORM_ROW] = "row",
    };
    if (!norm->weight) {
        member_raw(text, key, "null");
        return;
    }
    member_raw(text, key, norm->is_centred ? "{\"kind\":\"layer\"" : "{\"kind\":\"rms\"");
    member_raw(text, "scope", "");
    text_string(text, SCOPES[norm->scope]);
    member_number(text, "eps", norm->eps);
    if (follows_rope)
        member_raw(text, "after_rope", "true");
    text_raw(text, "}");
}

void model_describe_options(const struct model_layer *layer, struct text *text)
{
    const struct attn_options *options = &layer->options;
    const struct model_relative_bias *bias = &layer->relative_bias;
    text_raw(text, options->causal ? "{\"causal\":true" : "{\"causal\":false");
    member_number(text, "scale", options->scale);
    member_number(text, "softcap", options->softcap);
    if (layer->has_precision) {
        member_raw(text, "precision", "");
        text_string(text, attn_precision_name(options->precision));
    }
    member_number(text, "window_left", (double)options->window_left);
    member_number(text, "window_right", (double)options->window_right);
    if (options->chunk > 0)
        member_number(text, "chunk", (double)options->chunk);
    member_number(text, "clip", layer->layer.projected_max);
    describe_rope(&layer->layer.rope, text);
    describe_norm("q_norm", &layer->layer.q_norm, layer->layer.norms_follow_rope, text);
    describe_norm("k_norm", &layer->layer.k_norm, layer->layer.norms_follow_rope, text);
    if (layer->layer.v_norm.weight)
        describe_norm("v_norm", &layer->layer.v_norm, false, text);
    member_raw(text, "alibi_slopes", layer->alibi_slopes ? "true" : "false");
    member_raw(text, "sinks", layer->sinks ? "true" : "false");
    member_raw(text, "relative_bias",
               !bias->values       ? "null"
               : bias->by_key      ? "\"query_key_distance\""
               : bias->by_query    ? "\"query_distance\""
               : bias->height > 0  ? "\"patches\""
               : bias->gate_weight ? "\"gated_distance\""
                                   : "\"distance\"");
    text_raw(text, "}");
}

/* -------------------------------------------------------- layers and models -- */

static void describe_layer(struct text *text, const struct model *model, int64_t index)
{
    const struct model_layer *layer = &model->layers[index];
    text_raw(text, index > 0 ? "," : "");
    text_raw(text, "{\"index\":");
    text_integer(text, index);
    member_string(text, "kind", model_layer_kind(layer));
    member_width(text, "d_query", layer->d_query);
    member_width(text, "d_key", layer->d_key);
    member_width(text, "d_value", layer->d_value);
    member_width(text, "d_out", layer->d_out);
    if (layer->shares_keys)
        member_integer(text, "keys_of", layer->keys_of);
    member_integer(text, "q_heads", layer->layer.q_heads);
    member_integer(text, "kv_heads", layer->layer.kv_heads);
    member_integer(text, "head_dim", layer->layer.head_dim);
    member_width(text, "v_head_dim", layer->layer.v_head_dim > 0 ? layer->layer.v_head_dim : -1);
    if (layer->lacks_attention)
        member_integer(text, "state", model_state_numbers(model, index));
    text_raw(text, ",\"options\":");
    if (layer->lacks_attention)
        text_raw(text, "null");
    else
        model_describe_options(layer, text);
    text_raw(text, "}");
}

static void describe_tokenizer(struct text *text, const struct model *model)
{
    const struct tokenizer *tokenizer = model ? model->tokenizer : NULL;
    if (!tokenizer) {
        member_raw(text, "tokenizer", "null");
        member_string(text, "tokenizer_reason",
                      model && model->tokenizer_reason ? model->tokenizer_reason : "");
        return;
    }
    text_raw(text, ",\"tokenizer\":{\"kind\":");
    text_string(text, tokenizer_kind(tokenizer));
    member_string(text, "file", tokenizer_file(tokenizer));
    member_integer(text, "id_end", tokenizer_id_end(tokenizer));
    text_raw(text, "},\"tokenizer_reason\":\"\"");
}

int model_inputs(const struct model *model, const char *names[MODEL_INPUTS_MAX])
{
    static const char *const NAMES[] = { "tokens", "pixels", "features", "sound" };
    const struct model_forward *forward = model->forward;
    int count = 0;
    for (int i = 0; forward && i < forward->stream_count; i++) {
        const enum model_input input = forward->streams[i].embedding.input;
        const bool is_decoder = i > 0 && forward->is_encoder_decoder;
        if (!is_decoder && input == MODEL_INPUT_TOKENS && model->tokenizer)
            names[count++] = "text";
        names[count++] = is_decoder ? "decoder" : NAMES[input];
        if (!is_decoder && input == MODEL_INPUT_FEATURES)
            names[count++] = "sound";
    }
    return count;
}

static void describe_inputs(struct text *text, const struct model *model)
{
    const char *names[MODEL_INPUTS_MAX];
    const int count = model ? model_inputs(model, names) : 0;
    member_raw(text, "inputs", "[");
    for (int i = 0; i < count; i++)
        text_format(text, "%s\"%s\"", i > 0 ? "," : "", names[i]);
    text_raw(text, "]");
}

static void describe_channels(struct text *text, const char *key, const double *values,
                              int64_t count)
{
    member_raw(text, key, "");
    for (int64_t c = 0; c < count; c++)
        text_format(text, "%s%.9g", c > 0 ? "," : "[", values[c]);
    text_raw(text, "]");
}

static void describe_pixels(struct text *text, const struct model *model)
{
    const struct model_pixels *pixels = model ? model->pixels : NULL;
    if (!pixels) {
        member_raw(text, "pixels", "null");
        return;
    }
    const struct model_embedding *embedding = pixels->embedding;
    text_raw(text, ",\"pixels\":{\"channels\":");
    text_integer(text, embedding->channels);
    member_integer(text, "height", embedding->image_height);
    member_integer(text, "width", embedding->image_width);
    member_integer(text, "patch", embedding->patch);
    describe_channels(text, "mean", pixels->mean, embedding->channels);
    describe_channels(text, "std", pixels->std, embedding->channels);
    member_raw(text, "crop", pixels->crop ? "true" : "false");
    member_string(text, "source", pixels->from_file ? "preprocessor_config.json" : "family");
    member_string(text, "reason", pixels->reason ? pixels->reason : "");
    text_raw(text, "}");
}

/* Of which tokens it has predictions. */
static void describe_predictions(struct text *text, const struct model *model)
{
    const struct model_forward *forward = model ? model->forward : NULL;
    if (!forward || !forward->head.output.weight)
        member_raw(text, "predictions", "null");
    else
        member_string(text, "predictions", forward->head.is_masked ? "masked" : "next");
}

/* What the files beside the checkpoint say. */
static void describe_beside(struct text *text, const struct model *model,
                            const struct model_readout *readout)
{
    const struct model_vectors *vectors = model->vectors;
    const bool is_said = vectors && readout == &vectors->readout;
    member_raw(text, "prompts", "[");
    for (int i = 0; vectors && i < vectors->prompt_count; i++) {
        text_raw(text, i > 0 ? "," : "");
        text_string(text, vectors->prompts[i].name);
    }
    text_raw(text, "]");
    member_integer(text, "length_max", model_length_cut(model));
    member_string(text, "source", is_said ? vectors->source : "checkpoint");
}

/* How it makes vectors: of the first stream that says so. */
static void describe_embedding(struct text *text, const struct model *model)
{
    const struct model_forward *forward = model ? model->forward : NULL;
    const struct model_readout *readout = NULL;
    const char *reason = NULL;
    for (int i = 0; forward && !readout && i < forward->stream_count; i++)
        readout = model_find_readout(model, i, &reason);
    if (!readout) {
        member_raw(text, "embedding", "null");
        member_string(text, "embedding_reason", reason ? reason : "");
        return;
    }
    text_raw(text, ",\"embedding\":{\"width\":");
    text_integer(text, readout->width);
    member_raw(text, "pooling", "[");
    for (int i = 0; i < readout->pooling_count; i++)
        text_format(text, "%s\"%s\"", i > 0 ? "," : "",
                    readout->probe         ? "probe"
                    : readout->is_of_token ? "token"
                                           : model_pooling_names[readout->poolings[i]]);
    text_raw(text, "]");
    member_integer(text, "dense", readout->dense_count);
    member_raw(text, "normalized", readout->is_unit ? "true" : "false");
    describe_beside(text, model, readout);
    text_raw(text, "},\"embedding_reason\":\"\"");
}

const char *model_class_label(const struct model *model, int64_t i)
{
    const struct model_classes *classes = &model->forward->classes;
    const char *letter = classes->are_letters && model->tokenizer
                             ? tokenizer_token_text(model->tokenizer, (int32_t)i)
                             : NULL;
    return letter ? letter : classes->labels[i];
}

/* The classes that its head tells. */
static void describe_classes(struct text *text, const struct model *model)
{
    const struct model_forward *forward = model ? model->forward : NULL;
    const struct model_classes *classes = forward ? &forward->classes : NULL;
    const char *reason = forward ? forward->classes_reason : NULL;
    if (!classes || classes->count == 0) {
        member_raw(text, "classes", "null");
        member_string(text, "classes_reason", reason ? reason : "");
        return;
    }
    text_raw(text, ",\"classes\":{\"labels\":[");
    for (int64_t i = 0; i < classes->count; i++) {
        text_raw(text, i > 0 ? "," : "");
        text_string(text, model_class_label(model, i));
    }
    text_raw(text, "]");
    member_string(text, "of", classes->is_of_rows ? "tokens" : "text");
    member_string(text, "activation", model_classes_names[classes->activation]);
    text_raw(text, "},\"classes_reason\":\"\"");
}

static void describe_model(struct text *text, const char *name, const char *source,
                           const struct model *model, const char *state, const char *reason)
{
    text_raw(text, "{\"name\":");
    text_string(text, name);
    member_string(text, "attention", model ? model->attention : "");
    member_string(text, "state", state);
    member_string(text, "reason", reason ? reason : "");
    member_string(text, "source", source);
    member_string(text, "format", model ? model->format : "");
    member_string(text, "dtype", model ? model->dtype : "");
    member_integer(text, "parameter_count", model ? model->parameter_count : 0);
    member_integer(text, "total_parameter_count", model ? model->total_parameter_count : 0);
    member_integer(text, "bytes", model ? model->parameter_bytes : 0);
    text_raw(text,
             model && model->layers[0].options.causal ? ",\"causal\":true" : ",\"causal\":false");
    member_raw(text, "trace", model && model->forward ? "true" : "false");
    if (model)
        reason = model->forward ? NULL : model->forward_reason;
    member_string(text, "trace_reason", reason ? reason : "");
    describe_inputs(text, model);
    describe_predictions(text, model);
    describe_embedding(text, model);
    describe_classes(text, model);
    describe_tokenizer(text, model);
    describe_pixels(text, model);
    text_raw(text, ",\"layers\":[");
    for (int64_t i = 0; model && !model->parameterless && i < model->layer_count; i++)
        describe_layer(text, model, i);
    text_raw(text, "]}");
}

void model_describe(const struct model *model, struct text *text)
{
    const char *damage = model_damage(model);
    describe_model(text, model->name, model->source, model, damage ? "UNAVAILABLE" : "READY",
                   damage);
}

void model_describe_absent(const char *name, const char *source, const char *state,
                           const char *reason, struct text *text)
{
    describe_model(text, name, source, NULL, state, reason);
}
