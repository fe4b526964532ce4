/* model_options.c - see model_options.h. */
#include "model/model_options.h"

#include "model/model_rope.h"

static void member(struct text *text, const char *key, double number)
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

static void describe_rope(const struct attn_rope *rope, struct text *text)
{
    const struct attn_rope_scaling *scaling = &rope->scaling;
    if (rope->dim == 0) {
        member_raw(text, "rope", "null");
        return;
    }
    member_raw(text, "rope", "{\"interleaved\":");
    text_raw(text, rope->interleaved ? "true" : "false");
    member(text, "theta", rope->theta);
    member(text, "dim", (double)rope->dim);
    if (scaling->type == ATTN_ROPE_DEFAULT) {
        member_raw(text, "scaling", "null}");
        return;
    }
    member_raw(text, "scaling", "{\"rope_type\":");
    text_string(text, model_rope_type_name(scaling->type));
    member(text, "factor", scaling->factor);
    if (scaling->type != ATTN_ROPE_LINEAR)
        member(text, "original_max_position_embeddings", scaling->original_max_position_embeddings);
    member(text, "attention_factor", attn_rope_attention_factor(rope));
    text_raw(text, "}}");
}

static void describe_norm(const char *key, const struct attn_norm *norm, struct text *text)
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
    member(text, "eps", norm->eps);
    text_raw(text, "}");
}

void model_options_describe(const struct model_layer *layer, struct text *text)
{
    const struct attn_options *options = &layer->options;
    const struct model_relative_bias *bias = &layer->relative_bias;
    text_raw(text, options->causal ? "{\"causal\":true" : "{\"causal\":false");
    member(text, "scale", options->scale);
    member(text, "softcap", options->softcap);
    member(text, "window_left", (double)options->window_left);
    member(text, "window_right", (double)options->window_right);
    member(text, "clip", layer->layer.projected_max);
    describe_rope(&layer->layer.rope, text);
    describe_norm("q_norm", &layer->layer.q_norm, text);
    describe_norm("k_norm", &layer->layer.k_norm, text);
    member_raw(text, "alibi_slopes", layer->alibi_slopes ? "true" : "false");
    member_raw(text, "relative_bias",
               !bias->values      ? "null"
               : bias->height > 0 ? "\"patches\""
                                  : "\"distance\"");
    text_raw(text, "}");
}
