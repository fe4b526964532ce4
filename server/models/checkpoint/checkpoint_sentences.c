/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_sentences.c - the table of encoders that make vectors of sentences, whose published
 * source is on the Hub, beside the models.
 *
 * checkpoint_family.h says how a family is added. Its attention is compared with its own source in
 * tests/unit/test_checkpoint_sentences.c. */
#include "models/checkpoint/checkpoint_family_rows.h"

#include "models/checkpoint/checkpoint_fields.h"
#include "models/checkpoint/checkpoint_layer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* -------------------------------------------------------------- NomicBERT -- */

/* Without a part of a head that turns, there are positions. A text of more than
 * max_trained_positions rows is scaled as NomicBertDynamicNTKRotaryEmbedding does. */
static bool adjust_nomic(struct checkpoint_layer *layer, struct fault *fault)
{
    const cJSON *section = layer->run->section;
    double fraction, factor, positions;
    if (!checkpoint_read_number(section, "rotary_emb_fraction", &fraction, fault)
        || !checkpoint_read_number(section, "rotary_scaling_factor", &factor, fault)
        || !checkpoint_read_number(section, "max_trained_positions=2048", &positions, fault))
        return false;
    layer->lacks_rope = fraction == 0;
    if (factor > 0)
        layer->config.rope.scaling =
            (struct attn_rope_scaling){ .type = ATTN_ROPE_DYNAMIC,
                                        .factor = factor,
                                        .original_max_position_embeddings = positions };
    return factor == 0 || positions >= 1
           || fault_set_at(fault, "/config/max_trained_positions", FAULT_OPTION,
                           "config.json's max_trained_positions is %g; expected 1 or more",
                           positions);
}

/* NomicBertBlock: a feed-forward with a gate for swiglu and geglu, else one with exact GELU,
 * whichever GELU is named. The head's layers have biases where fc1 has. */
static bool adjust_nomic_pass(struct checkpoint_pass *pass, const cJSON *section,
                              struct fault *fault)
{
    const char *activation;
    double fraction;
    int64_t types;
    bool has_bias, down_has_bias;
    if (!checkpoint_read_number(section, "rotary_emb_fraction", &fraction, fault)
        || !checkpoint_read_integer(section, "type_vocab_size=2", &types, fault)
        || !checkpoint_read_string(section, "activation_function=gelu", &activation, fault)
        || !checkpoint_read_flag(section, "mlp_fc1_bias=true", &has_bias, fault)
        || !checkpoint_read_flag(section, "mlp_fc2_bias=true", &down_has_bias, fault))
        return false;
    const bool is_swiglu = strcmp(activation, "swiglu") == 0;
    if (is_swiglu || strcmp(activation, "geglu") == 0) {
        pass->up = "mlp.fc11";
        pass->gate = "mlp.fc12";
        pass->activation = is_swiglu ? "=silu" : "=gelu";
        pass->head_activation = pass->activation;
    } else if (strncmp(activation, "gelu", 4) == 0) {
        pass->activation = "=gelu";
        pass->head_activation = "activation_function=gelu";
    } else {
        return fault_set(fault, FAULT_OPTION,
                         "config.json's activation_function is '%.40s', with which the whole pass "
                         "is not computed here",
                         activation);
    }
    if (fraction > 0)
        pass->positions = NULL;
    if (types == 0)
        pass->types = NULL;
    pass->biases = down_has_bias ? "=true" : NULL;
    pass->up_has_no_bias = pass->transform_has_no_bias = !has_bias;
    if (!has_bias)
        pass->output_bias = NULL;
    return !has_bias || down_has_bias
           || fault_set(fault, FAULT_OPTION,
                        "config.json sets mlp_fc1_bias and not mlp_fc2_bias, with which the whole "
                        "pass is not computed here");
}

/* -------------------------------------------------------------------- GTE -- */

/* What rope_scaling or rope_parameters says. */
struct gte_rope {
    bool is_scaled;
    double theta, factor; /* 0: not said */
};

/* A number above 0 under this name. */
static bool take_number(const cJSON *node, const char *name, double *value)
{
    const bool is_it = strcmp(node->string, name) == 0 && cJSON_IsNumber(node)
                       && node->valuedouble > 0 && isfinite((float)node->valuedouble);
    if (is_it)
        *value = node->valuedouble;
    return is_it;
}

static bool take_type(const cJSON *node, bool *is_scaled)
{
    const char *type = cJSON_GetStringValue(node);
    if (!type || (strcmp(node->string, "type") != 0 && strcmp(node->string, "rope_type") != 0))
        return false;
    *is_scaled = strcmp(type, "ntk") == 0;
    return *is_scaled || strcmp(type, "default") == 0;
}

static bool read_gte_rope(const cJSON *section, struct gte_rope *rope, struct fault *fault)
{
    const cJSON *object = checkpoint_find_object(section, "rope_scaling|rope_parameters"), *node;
    char pointer[FAULT_POINTER_MAX];
    if (!checkpoint_read_number(section, "rope_theta=10000", &rope->theta, fault))
        return false;
    cJSON_ArrayForEach(node, object) {
        if (take_type(node, &rope->is_scaled) || take_number(node, "factor", &rope->factor)
            || take_number(node, "rope_theta", &rope->theta)
            || (strcmp(node->string, "mixed_b") == 0 && cJSON_IsNull(node)))
            continue;
        snprintf(pointer, sizeof pointer, "/config/%s/%.64s", object->string, node->string);
        return fault_set_at(fault, pointer, FAULT_FIELD,
                            "config.json's %s.%.64s is not known here; expected a type ntk and a "
                            "factor above 0",
                            object->string, node->string);
    }
    if (rope->is_scaled == (rope->factor > 0) && rope->theta > 0)
        return true;
    return fault_set_at(fault, "/config", FAULT_FIELD,
                        "config.json gives theta %g, and in %s %s; expected a theta above 0, and "
                        "a factor beside the type ntk alone",
                        rope->theta, object ? object->string : "rope_scaling",
                        rope->factor > 0 ? "a factor" : "no factor");
}

/* NTKScalingRotaryEmbedding without mixed_b: theta times the factor, and all frequencies divided by
 * factor^(2/dim), whatever the length of a text is. */
static void scale_gte(struct attn_rope *to, const struct gte_rope *rope, int64_t dim)
{
    to->theta = rope->theta;
    if (!rope->is_scaled)
        return;
    to->theta *= rope->factor;
    to->scaling = (struct attn_rope_scaling){ .type = ATTN_ROPE_LINEAR,
                                              .factor = pow(rope->factor, 2 / (double)dim) };
}

static bool read_gte_type(const cJSON *section, bool *is_rotary, struct fault *fault)
{
    const char *type;
    if (!checkpoint_read_string(section, "position_embedding_type=rope", &type, fault))
        return false;
    *is_rotary = strcmp(type, "rope") == 0;
    return *is_rotary || strcmp(type, "absolute") == 0
           || fault_set_at(fault, "/config/position_embedding_type", FAULT_OPTION,
                           "config.json's position_embedding_type is '%.40s'; expected rope or "
                           "absolute",
                           type);
}

static bool adjust_gte(struct checkpoint_layer *layer, struct fault *fault)
{
    struct gte_rope rope = { .is_scaled = false };
    bool is_rotary;
    if (!read_gte_type(layer->run->section, &is_rotary, fault)
        || !read_gte_rope(layer->run->section, &rope, fault))
        return false;
    layer->lacks_rope = !is_rotary;
    scale_gte(&layer->config.rope, &rope, layer->config.head_dim);
    return true;
}

static bool adjust_gte_pass(struct checkpoint_pass *pass, const cJSON *section, struct fault *fault)
{
    const char *norm;
    bool is_rotary;
    int64_t types;
    if (!read_gte_type(section, &is_rotary, fault)
        || !checkpoint_read_string(section, "layer_norm_type=layer_norm", &norm, fault)
        || !checkpoint_read_integer(section, "type_vocab_size=1", &types, fault))
        return false;
    if (is_rotary)
        pass->positions = NULL;
    if (types == 0)
        pass->types = NULL;
    return strcmp(norm, "layer_norm") == 0
           || fault_set(fault, FAULT_OPTION,
                        "config.json's layer_norm_type is '%.40s', with which the whole pass is "
                        "not computed here",
                        norm);
}

#define GTE                                                                                        \
    SELF("new.|gte.|", "encoder.layer.%.", "attention."), SIZES(12, 768, 12),                      \
        .theta = "=10000", .adjust = adjust_gte,                                                   \
        .refused = "logn_attention_scale|logn_attention_clip1",                                    \
        .reads = "position_embedding_type|rope_theta|rope_scaling|rope_parameters",                \
        .ignored = "pack_qkv|unpad_inputs|use_memory_efficient_attention"

/* NewEmbeddings, NewLayer, NewGatedMLP, NewLMPredictionHead. */
#define GTE_PASS                                                                                   \
    .tokens = "embeddings.word_embeddings", .positions = "embeddings.position_embeddings",         \
    .types = "embeddings.token_type_embeddings", .embedding_norm = "embeddings.LayerNorm",         \
    NORMS_AFTER("attn_ln", "mlp_ln"), PASS_NORMS("layer_norm_eps=0.000000000001"),                 \
    FEED("mlp.up_gate_proj", "mlp.down_proj", "=true", "hidden_act=gelu"), .up_has_gate = true,    \
    .gate_is_last = true, .up_has_no_bias = true, .transform = "/lm_head.dense",                   \
    .head_activation = "hidden_act=gelu", .head_norm = "/lm_head.norm",                            \
    .output = "/lm_head.decoder", .output_bias = "/lm_head.decoder.bias",                          \
    .tied = "tie_word_embeddings=true", .adjust = adjust_gte_pass,                                 \
    .reads = "layer_norm_type|type_vocab_size"

/* --------------------------------------------------------------- JinaBERT -- */

/* A gate of GELU or of ReLU, whatever hidden_act says. */
static bool adjust_jina_pass(struct checkpoint_pass *pass, const cJSON *section,
                             struct fault *fault)
{
    const char *type;
    if (!checkpoint_read_string(section, "feed_forward_type=original", &type, fault))
        return false;
    const bool is_gelu = strcmp(type, "geglu") == 0;
    pass->activation = is_gelu ? "=gelu" : "=relu";
    return is_gelu || strcmp(type, "reglu") == 0
           || fault_set(fault, FAULT_OPTION,
                        "config.json's feed_forward_type is '%.40s', with which the whole pass is "
                        "not computed here; expected geglu or reglu",
                        type);
}

#define JINA                                                                                       \
    SELF("bert.|", "encoder.layer.%.", "attention."),                                              \
        .projections = PROJECTIONS("self.query", "self.key", "self.value", "output.dense"),        \
        .biases = Q | K | V | O, SIZES(12, 768, 12), .alibi = "=true",                             \
        .expected = "position_embedding_type=alibi", .refused = "is_decoder",                      \
        .ignored = "emb_pooler"

#define JINA_PASS                                                                                  \
    .tokens = "embeddings.word_embeddings", .types = "embeddings.token_type_embeddings",           \
    .embedding_norm = "embeddings.LayerNorm", PASS_NORMS("layer_norm_eps=0.000000000001"),         \
    .up_has_gate = true, .up_has_no_bias = true, .adjust = adjust_jina_pass,                       \
    .reads = "feed_forward_type"

const struct checkpoint_stack checkpoint_sentences[] = {
    /* modeling_hf_nomic_bert.py of taylorbollman/hf_nomicbert_tb at aabe7d785ae0, which is that of
     * nomic-ai/nomic-bert-2048: NomicBertEmbeddings, NomicBertBlock, NomicBertLMPredictionHead. */
    { .model_type = "nomic_bert",
      SELF("bert.|", "encoder.layers.%.", "attn."),
      .projections = FUSED("Wqkv", "out_proj"),
      .fusion = CHECKPOINT_ROWS,
      .more_biases = Q | O,
      .more_biases_if = "qkv_proj_bias=true",
      .layers = "num_hidden_layers|n_layer=12",
      .width = "hidden_size|n_embd=768",
      .q_heads = "num_attention_heads|n_head=12",
      .causal = "causal",
      .theta = "rotary_emb_base=10000",
      .rotary_fraction = "rotary_emb_fraction",
      .adjust = adjust_nomic,
      .expected = "prenorm=false|parallel_block=false|parallel_block_tied_norm=false|"
                  "rotary_emb_interleaved=false|use_rms_norm=false",
      .refused = "rotary_emb_scale_base|rotary_head_dim|num_heads_kv|moe_top_k|moe_every_n_layers|"
                 "num_experts|num_shared_experts",
      .reads = "rotary_scaling_factor|max_trained_positions",
      .ignored = "n_inner|dense_seq_output|fused_*|pad_vocab_size_multiple|use_xentropy|"
                 "reorder_and_upcast_attn|scale_attn_by_inverse_layer_idx|scale_attn_weights",
      .pass = { .tokens = "embeddings.word_embeddings",
                .positions = "embeddings.position_embeddings",
                .types = "embeddings.token_type_embeddings",
                .embedding_norm = "emb_ln",
                NORMS_AFTER("norm1", "norm2"),
                PASS_NORMS("layer_norm_epsilon=0.00001"),
                .up = "mlp.fc1",
                .down = "mlp.fc2",
                .transform = "/cls.predictions.transform.dense",
                .head_norm = "/cls.predictions.transform.layer_norm",
                .output = "/cls.predictions.decoder",
                .output_bias = "/cls.predictions.decoder.bias",
                .tied = "=true",
                .adjust = adjust_nomic_pass,
                .reads = "activation_function|mlp_fc1_bias|mlp_fc2_bias|type_vocab_size" } },
    /* modeling.py of Alibaba-NLP/new-impl, by which gte-multilingual and gte-large-en-v1.5 are
     * computed, and arctic-embed-m-v2.0 under its other name. */
    { .model_type = "new|gte",
      GTE,
      .projections = FUSED("qkv_proj", "o_proj"),
      .fusion = CHECKPOINT_ROWS,
      .biases = Q | O,
      .pass = { GTE_PASS } },
    { .model_type = "new|gte",
      GTE,
      .projections = PROJECTIONS("q_proj", "k_proj", "v_proj", "o_proj"),
      .biases = Q | K | V | O,
      .pass = { GTE_PASS } },
    /* jinaai/jina-bert-implementation, as jina.rs of text-embeddings-inference at 0d124dc9773b
     * computes it; then jinaai/jina-bert-v2-qk-post-norm: JinaBertLayer and JinaBertGLUMLP. */
    { .model_type = "jina_bert_v2",
      JINA,
      .told_by = "!self.layer_norm_q",
      .pass = { JINA_PASS, NORMS_AFTER("attention.output.LayerNorm", "mlp.layernorm"),
                FEED("mlp.gated_layers", "mlp.wo", "=true", "=gelu") } },
    { .model_type = "jina_bert_v2",
      JINA,
      .told_by = "self.layer_norm_q",
      .norms = { "self.layer_norm_q", "self.layer_norm_k" },
      .norm_scope = ATTN_NORM_ROW,
      .norm_is_centred = true,
      .norm_has_bias = true,
      .norm_eps = "layer_norm_eps=0.000000000001",
      .pass = { JINA_PASS,
                .attention = { .inside = "attention.output.LayerNorm", .after = "layer_norm_1" },
                .inside_adds_rows = true, .feed_forward = { .after = "layer_norm_2" },
                FEED("mlp.up_gated_layer", "mlp.down_layer", "=true", "=gelu"),
                .gate_is_last = true } },
    { .model_type = NULL },
};
