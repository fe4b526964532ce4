/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_gemma4.c - the whole pass of Gemma 4's text compared with POST /v1/trace. It is
 * written out of gemma4/modeling_gemma4.py of Hugging Face transformers, src/transformers/models/,
 * at 0246b4f33354. */
#include "fixture.h"
#include "forward_decoder.h"
#include "forward_edits.h"
#include "forward_parts.h"
#include "test.h"

enum { LAYERS = 6, FIRST_SHARED = 4, COLUMNS = 6, HEADS = 4 };

enum { EXPERTS = 4, CHOSEN = 2, EXPERT_SIZE = 5 };

static const double EPS = 1e-6;

/* Of the model that is checked: enable_moe_block. Such a model shares no keys here, and its blocks
 * read no tokens. */
static bool has_experts;

#define BLOCK "model.language_model.layers.#."
#define AT    BLOCK "self_attn."

/* layer_types: every other layer is full, and the last two have the keys of layers 2 and 3. */
static bool is_full(int layer)
{
    return layer % 2 == 1;
}

static int keys_of(int layer)
{
    return layer >= FIRST_SHARED && !has_experts ? layer - 2 : layer;
}

static int64_t kv_heads(int layer)
{
    return is_full(layer) ? 1 : 2;
}

static int64_t head_dim(int layer)
{
    return is_full(layer) ? 8 : 4;
}

static struct rows norm(struct rows x, const char *name, int layer)
{
    return forward_rms_norm(x, name, layer, EPS, 0);
}

/* Gemma4RMSNorm with with_scale False, of each head. */
static struct rows bare_norm(struct rows x, int64_t dim)
{
    const struct rows y = forward_slice(x, 0, x.count);
    for (int64_t i = 0; i < x.count * x.columns; i += dim) {
        double sum = 0;
        for (int64_t c = i; c < i + dim; c++)
            sum += x.data[c] * x.data[c];
        const double scale = forward_parts_norm_scale(1 / sqrt(sum / (double)dim + EPS));
        for (int64_t c = i; c < i + dim; c++)
            y.data[c] *= scale;
    }
    return y;
}

/* Gemma4TextAttention: with attention_k_eq_v the values of a full layer are its projected keys. */
static struct decoder_projections project(struct rows inputs, struct rows key_inputs, int layer)
{
    const int of = keys_of(layer);
    const struct rows q = published_linear(inputs, AT "q_proj", layer);
    const struct rows k = published_linear(key_inputs, AT "k_proj", of);
    const struct rows v = is_full(layer) ? forward_slice(k, 0, k.count)
                                         : published_linear(key_inputs, AT "v_proj", of);
    published_rms_norm(q, HEADS, AT "q_norm.weight", layer, EPS, 0);
    published_rms_norm(k, kv_heads(layer), AT "k_norm.weight", of, EPS, 0);
    return (struct decoder_projections){ q, k, bare_norm(v, head_dim(layer)) };
}

/* A full layer has a proportional rotary embedding, of partial_rotary_factor 0.5. */
static struct rows attend(struct forward *forward, struct rows x, struct rows inputs,
                          struct rows key_inputs, int layer)
{
    static const double PROPORTIONAL[] = { 1, 0.1778279410038923, 0, 0 };
    const struct decoder_attention attention = {
        .attention = { .heads = HEADS,
                       .kv_heads = kv_heads(layer),
                       .scale = 1,
                       .causal = true,
                       .window = is_full(layer) ? 0 : 3 },
        .rotary_dim = head_dim(layer),
        .theta = 500,
        .frequencies = is_full(layer) ? PROPORTIONAL : NULL,
        .factor = 1,
    };
    const struct rows y = decoder_attend(forward, &attention, x, inputs,
                                         project(inputs, key_inputs, layer), AT "o_proj", layer);
    if (keys_of(layer) != layer)
        forward_layer_at(forward, layer)->key_inputs = key_inputs;
    return y;
}

/* Gemma4TextModel: project_per_layer_inputs() of one layer. */
static struct rows token_inputs(struct rows embedded, int layer)
{
    const struct rows table =
        published_tensor("model.language_model.embed_tokens_per_layer.weight", 0);
    struct rows x =
        published_linear(embedded, "model.language_model.per_layer_model_projection", 0);
    x = forward_scale(published_split(x, 1, (int64_t)layer * COLUMNS, COLUMNS), 1 / sqrt(16));
    x = norm(x, "model.language_model.per_layer_projection_norm", 0);
    const struct rows tokens = forward_embed(table, decoder_tokens(), decoder_length);
    const struct rows own = published_split(tokens, 1, (int64_t)layer * COLUMNS, COLUMNS);
    return forward_scale(forward_add(x, forward_scale(own, sqrt(COLUMNS))), sqrt(0.5));
}

/* ------------------------------------------------------------------- experts -- */

/* x . matrix number number of a tensor [experts, out, in]. */
static struct rows stacked_product(struct rows x, const char *name, int number, int layer,
                                   int64_t out)
{
    const struct rows matrices = published_tensor(name, layer);
    const struct rows y = published_rows(x.count, out);
    const double *matrix = matrices.data + number * out * x.columns;
    for (int64_t o = 0; o < x.count * out; o++)
        for (int64_t c = 0; c < x.columns; c++)
            y.data[o] += x.data[o / out * x.columns + c] * matrix[o % out * x.columns + c];
    return y;
}

/* Gemma4TextExperts: one of them. */
static struct rows expert(struct rows row, int number, int layer)
{
    const struct rows up =
        stacked_product(row, BLOCK "experts.gate_up_proj", number, layer, 2 * EXPERT_SIZE);
    const struct rows gate =
        forward_activation(published_split(up, 1, 0, EXPERT_SIZE), "gelu_pytorch_tanh");
    return stacked_product(forward_multiply(gate, published_split(up, 1, EXPERT_SIZE, EXPERT_SIZE)),
                           BLOCK "experts.down_proj", number, layer, row.columns);
}

/* Gemma4TextRouter: the weights of the chosen experts, of all 0 of the others. */
static void route(struct rows row, int layer, double weights[EXPERTS])
{
    const struct rows scale = published_tensor(BLOCK "router.scale", layer);
    const struct rows by = published_tensor(BLOCK "router.per_expert_scale", layer);
    struct rows x = bare_norm(row, row.columns);
    for (int64_t c = 0; c < x.columns; c++)
        x.data[c] *= scale.data[c] / sqrt((double)x.columns);
    const struct rows scores = published_linear(x, BLOCK "router.proj", layer);
    double sum = 0;
    for (int e = 0; e < EXPERTS; e++) {
        int larger = 0;
        for (int other = 0; other < EXPERTS; other++)
            larger += scores.data[other] > scores.data[e];
        weights[e] = larger < CHOSEN ? exp(scores.data[e]) : 0;
        sum += weights[e];
    }
    for (int e = 0; e < EXPERTS; e++)
        weights[e] *= by.data[e] / sum;
}

/* What a mixture adds to what the dense feed-forward computed, both through a norm. */
static struct rows with_experts(struct rows x, struct rows dense, int layer)
{
    const struct rows sum = published_rows(x.count, x.columns);
    for (int64_t i = 0; i < x.count; i++) {
        const struct rows row = forward_slice(x, i, 1);
        const struct rows normed = norm(row, BLOCK "pre_feedforward_layernorm_2", layer);
        double weights[EXPERTS];
        route(row, layer, weights);
        for (int e = 0; e < EXPERTS; e++) {
            const struct rows computed = expert(normed, e, layer);
            for (int64_t c = 0; c < x.columns; c++)
                sum.data[i * x.columns + c] += weights[e] * computed.data[c];
        }
    }
    return forward_add(norm(dense, BLOCK "post_feedforward_layernorm_1", layer),
                       norm(sum, BLOCK "post_feedforward_layernorm_2", layer));
}

/* Gemma4TextDecoderLayer. */
static struct rows block(struct forward *forward, struct rows x, struct rows embedded,
                         struct rows *inputs, int layer)
{
    inputs[layer] = norm(x, BLOCK "input_layernorm", layer);
    struct rows y = attend(forward, x, inputs[layer], inputs[keys_of(layer)], layer);
    x = forward_add(x, norm(y, BLOCK "post_attention_layernorm", layer));
    y = norm(x, BLOCK "pre_feedforward_layernorm", layer);
    y = decoder_gated(y, BLOCK "mlp.", "gelu_pytorch_tanh", layer);
    if (has_experts)
        y = with_experts(x, y, layer);
    y = forward_edits_fed("self", layer, y);
    x = forward_add(x, norm(y, BLOCK "post_feedforward_layernorm", layer));
    if (forward_parts_are_cut(layer))
        return x;
    if (has_experts)
        return forward_scale(x, published_tensor(BLOCK "layer_scalar", layer).data[0]);
    y = forward_activation(published_linear(x, BLOCK "per_layer_input_gate", layer),
                           "gelu_pytorch_tanh");
    y = forward_multiply(y, token_inputs(embedded, layer));
    y = forward_parts_beside(layer, published_linear(y, BLOCK "per_layer_projection", layer));
    x = forward_add(x, norm(y, BLOCK "post_per_layer_input_norm", layer));
    return forward_scale(x, published_tensor(BLOCK "layer_scalar", layer).data[0]);
}

/* Gemma4ForCausalLM with final_logit_softcapping 4, or with experts without it. */
static void pass_gemma4(struct forward *forward)
{
    struct rows inputs[LAYERS];
    const struct rows table = published_tensor("model.language_model.embed_tokens.weight", 0);
    struct rows x = forward_scale(forward_embed(table, decoder_tokens(), decoder_length), 4);
    struct rows embedded = x;
    forward->reads_tokens = !has_experts;
    for (int layer = 0; layer < LAYERS; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        if (layer == 0)
            embedded = forward_edits_embedded("self", embedded);
        x = block(forward, x, embedded, inputs, layer);
    }
    forward->final_hidden_states = norm(x, "model.language_model.norm", 0);
    forward->logits = forward_product(forward->final_hidden_states, table);
    for (int64_t i = 0; !has_experts && i < forward->logits.count * forward->logits.columns; i++)
        forward->logits.data[i] = 4 * tanh(forward->logits.data[i] / 4);
}

#define LAYER(l) "model.language_model.layers." l "."
#define SLIDING(l)                                                                                 \
    LAYER(l)                                                                                       \
    "self_attn.q_proj.weight 16x16, " LAYER(l) "self_attn.o_proj.weight 16x16, " LAYER(            \
        l) "self_attn.q_norm.weight 4, "
#define FULL(l)                                                                                    \
    LAYER(l)                                                                                       \
    "self_attn.q_proj.weight 32x16, " LAYER(l) "self_attn.o_proj.weight 16x32, " LAYER(            \
        l) "self_attn.q_norm.weight 8, "
#define SLIDING_KEYS(l)                                                                            \
    LAYER(l)                                                                                       \
    "self_attn.k_proj.weight 8x16, " LAYER(l) "self_attn.v_proj.weight 8x16, " LAYER(              \
        l) "self_attn.k_norm.weight 4, "
#define FULL_KEYS(l)                                                                               \
    LAYER(l) "self_attn.k_proj.weight 8x16, " LAYER(l) "self_attn.k_norm.weight 8, "
#define FEED(l, wide)                                                                              \
    LAYER(l)                                                                                       \
    "mlp.gate_proj.weight " wide "x16, " LAYER(l) "mlp.up_proj.weight " wide                       \
                                                  "x16, " LAYER(l) "mlp.down_proj.weight 16x" wide \
                                                                   ", "

#define TENSORS                                                                                    \
    SLIDING("0")                                                                                   \
    SLIDING_KEYS("0")                                                                              \
    FULL("1")                                                                                      \
    FULL_KEYS("1")                                                                                 \
    SLIDING("2")                                                                                   \
    SLIDING_KEYS("2")                                                                              \
    FULL("3")                                                                                      \
    FULL_KEYS("3")                                                                                 \
    SLIDING("4")                                                                                   \
    FULL("5")                                                                                      \
    FEED("0", "24")                                                                                \
    FEED("1", "24")                                                                                \
    FEED("2", "24")                                                                                \
    FEED("3", "24")                                                                                \
    FEED("4", "48")                                                                                \
    FEED("5", "48")                                                                                \
    BLOCK "input_layernorm.weight 16, " BLOCK "post_attention_layernorm.weight 16, " BLOCK         \
          "pre_feedforward_layernorm.weight 16, " BLOCK                                            \
          "post_feedforward_layernorm.weight 16, " BLOCK                                           \
          "post_per_layer_input_norm.weight 16, " BLOCK "per_layer_input_gate.weight 6x16, " BLOCK \
          "per_layer_projection.weight 16x6, " BLOCK "layer_scalar 1*2, "                          \
          "model.language_model.embed_tokens.weight 40x16, "                                       \
          "model.language_model.embed_tokens_per_layer.weight 40x36, "                             \
          "model.language_model.per_layer_model_projection.weight 36x16, "                         \
          "model.language_model.per_layer_projection_norm.weight 6, "                              \
          "model.language_model.norm.weight 16"

#define EXPERT_TENSORS                                                                             \
    SLIDING("0")                                                                                   \
    SLIDING_KEYS("0")                                                                              \
    FULL("1")                                                                                      \
    FULL_KEYS("1")                                                                                 \
    SLIDING("2")                                                                                   \
    SLIDING_KEYS("2")                                                                              \
    FULL("3")                                                                                      \
    FULL_KEYS("3")                                                                                 \
    SLIDING("4")                                                                                   \
    SLIDING_KEYS("4")                                                                              \
    FULL("5")                                                                                      \
    FULL_KEYS("5")                                                                                 \
    BLOCK "mlp.gate_proj.weight 24x16, " BLOCK "mlp.up_proj.weight 24x16, " BLOCK                  \
          "mlp.down_proj.weight 16x24, " BLOCK "router.proj.weight 4x16*3, " BLOCK                 \
          "router.scale 16*3, " BLOCK "router.per_expert_scale 4*2, " BLOCK                        \
          "experts.gate_up_proj 4x10x16, " BLOCK "experts.down_proj 4x16x5, " BLOCK                \
          "input_layernorm.weight 16, " BLOCK "post_attention_layernorm.weight 16, " BLOCK         \
          "pre_feedforward_layernorm.weight 16, " BLOCK                                            \
          "post_feedforward_layernorm.weight 16, " BLOCK                                           \
          "pre_feedforward_layernorm_2.weight 16, " BLOCK                                          \
          "post_feedforward_layernorm_1.weight 16, " BLOCK                                         \
          "post_feedforward_layernorm_2.weight 16, " BLOCK "layer_scalar 1*2, "                    \
          "model.language_model.embed_tokens.weight 40x16, "                                       \
          "model.language_model.norm.weight 16"

#define EXPERT_CONFIG                                                                              \
    "{\"model_type\":\"gemma4\",\"tie_word_embeddings\":true,\"text_config\":{"                    \
    "\"model_type\":\"gemma4_text\",\"hidden_size\":16,\"intermediate_size\":24,"                  \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"num_global_key_value_heads\":1,"        \
    "\"head_dim\":4,\"global_head_dim\":8,\"attention_k_eq_v\":true,\"num_hidden_layers\":6,"      \
    "\"num_kv_shared_layers\":0,\"sliding_window\":3,"                                             \
    "\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\","             \
    "\"full_attention\",\"sliding_attention\",\"full_attention\"],"                                \
    "\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":500.0}," \
    "\"full_attention\":{\"rope_type\":\"proportional\",\"partial_rotary_factor\":0.5,"            \
    "\"rope_theta\":1000.0}},\"hidden_size_per_layer_input\":0,\"vocab_size\":40,"                 \
    "\"final_logit_softcapping\":null,\"rms_norm_eps\":1e-06,\"enable_moe_block\":true,"           \
    "\"num_experts\":4,\"top_k_experts\":2,\"moe_intermediate_size\":5}}"

#define CONFIG                                                                                     \
    "{\"model_type\":\"gemma4\",\"vision_config\":{\"model_type\":\"gemma4_vision\"},"             \
    "\"audio_config\":null,\"tie_word_embeddings\":true,\"text_config\":{"                         \
    "\"model_type\":\"gemma4_text\",\"hidden_size\":16,\"intermediate_size\":24,"                  \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"num_global_key_value_heads\":1,"        \
    "\"head_dim\":4,\"global_head_dim\":8,\"attention_k_eq_v\":true,\"num_hidden_layers\":6,"      \
    "\"num_kv_shared_layers\":2,\"use_double_wide_mlp\":true,\"sliding_window\":3,"                \
    "\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\","             \
    "\"full_attention\",\"sliding_attention\",\"full_attention\"],"                                \
    "\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":500.0}," \
    "\"full_attention\":{\"rope_type\":\"proportional\",\"partial_rotary_factor\":0.5,"            \
    "\"rope_theta\":1000.0}},\"hidden_size_per_layer_input\":6,\"vocab_size\":40,"                 \
    "\"vocab_size_per_layer_input\":40,\"final_logit_softcapping\":4.0,\"rms_norm_eps\":1e-06,"    \
    "\"use_bidirectional_attention\":\"vision\",\"enable_moe_block\":false}}"

TEST(gemma4)
{
    static const struct decoder_case GEMMA4 = { "gemma4", CONFIG, TENSORS, LAYERS, pass_gemma4,
                                                NULL,     0,      false,   false };
    has_experts = false;
    decoder_case_check(&GEMMA4);
}

TEST(experts)
{
    static const struct decoder_case EXPERT_CASE = {
        "gemma4_experts", EXPERT_CONFIG, EXPERT_TENSORS, LAYERS, pass_gemma4, NULL, 0, false, false
    };
    has_experts = true;
    decoder_case_check(&EXPERT_CASE);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
