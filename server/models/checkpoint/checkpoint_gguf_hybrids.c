/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_gguf_hybrids.c - the table of architectures of checkpoint_hybrids.c, some of whose
 * layers are no attention. The file has rates of decays in place of A_log.
 *
 * Source: src/models/lfm2.cpp, granite-hybrid.cpp, nemotron-h.cpp, falcon-h1.cpp and mamba-base.cpp
 * of llama.cpp, where a layer without heads of keys is no attention. */
#include "models/checkpoint/checkpoint_gguf_names.h"
#include "models/checkpoint/checkpoint_gguf_row.h"
#include "models/checkpoint/checkpoint_recurrence.h"

#include "models/model/model_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ layers -- */

static double heads_of_keys(const struct checkpoint_gguf_file *file, int64_t layer)
{
    return checkpoint_gguf_number_of_layer(file, "attention.head_count_kv", layer,
                                           checkpoint_gguf_number(file, "attention.head_count", 0));
}

/* The heads of keys that all layers of attention have. */
static bool add_heads_of_keys(const struct checkpoint_gguf_file *file)
{
    const double layers = checkpoint_gguf_number(file, "block_count", 0);
    double count = 0;
    for (int64_t i = 0; (double)i < layers && i < MODEL_LAYERS_MAX; i++) {
        const double own = heads_of_keys(file, i);
        if (own != 0 && count != 0 && own != count)
            return checkpoint_gguf_refuse(file, "num_key_value_heads", "attention.head_count_kv",
                                          "has no single number for layers of attention under");
        count = own != 0 ? own : count;
    }
    return checkpoint_gguf_add_number(file, file->config, "num_key_value_heads", count);
}

/* Adds a list of what each layer is. */
static bool add_layers(const struct checkpoint_gguf_file *file, const char *field,
                       const char *(*type_of)(const struct checkpoint_gguf_file *file,
                                              int64_t layer))
{
    const double layers = checkpoint_gguf_number(file, "block_count", 0);
    cJSON *types = cJSON_AddArrayToObject(file->config, field);
    for (int64_t i = 0; types && (double)i < layers && i < MODEL_LAYERS_MAX; i++) {
        cJSON *type = cJSON_CreateString(type_of(file, i));
        if (!type || !cJSON_AddItemToArray(types, type)) {
            cJSON_Delete(type);
            types = NULL;
        }
    }
    return types || fault_no_memory(file->fault);
}

/* A field that says whether layers have a bias, and the end of its name in the file. */
struct bias {
    const char *field, *name;
};
enum { BIASES_MAX = 5 };

/* Adds the fields; a bias is there where any layer has it. */
static bool add_biases(const struct checkpoint_gguf_file *file,
                       const struct bias biases[BIASES_MAX])
{
    const double layers = checkpoint_gguf_number(file, "block_count", 0);
    char name[64];
    for (int b = 0; b < BIASES_MAX && biases[b].field; b++) {
        bool is_there = false;
        for (int64_t i = 0; (double)i < layers && i < MODEL_LAYERS_MAX; i++) {
            snprintf(name, sizeof name, "blk.%d.%.40s.bias", (int)i, biases[b].name);
            is_there = is_there || checkpoint_gguf_has(file, name);
        }
        if (!checkpoint_gguf_add_flag(file, biases[b].field, is_there))
            return false;
    }
    return true;
}

/* -------------------------------------------------------------------- LFM2 -- */

#define LFM2_FIELDS SIZE_FIELDS POSITION_FIELDS "conv_L_cache=shortconv.l_cache|norm_eps=" RMS
#define LFM2_NAMES                                                                                 \
    "token_embd=model.embed_tokens|token_embd_norm=model.embedding_norm|output=lm_head|" IN_BLOCK( \
        "attn_norm", "operator_norm") IN_BLOCK("ffn_norm", "ffn_norm")                             \
        IN_BLOCK("attn_q", "self_attn.q_proj") IN_BLOCK("attn_k", "self_attn.k_proj")              \
            IN_BLOCK("attn_v", "self_attn.v_proj") IN_BLOCK("attn_output", "self_attn.out_proj")   \
                IN_BLOCK("attn_q_norm", "self_attn.q_layernorm")                                   \
                    IN_BLOCK("attn_k_norm", "self_attn.k_layernorm")                               \
                        IN_BLOCK("shortconv.in_proj", "conv.in_proj")                              \
                            IN_BLOCK("shortconv.conv", "conv.conv")                                \
                                IN_BLOCK("shortconv.out_proj", "conv.out_proj")                    \
                                    IN_BLOCK("ffn_gate", "feed_forward.w1")                        \
                                        IN_BLOCK("ffn_up", "feed_forward.w3")                      \
                                            IN_BLOCK("ffn_down", "feed_forward.w2")

static const struct bias LFM2_BIASES[BIASES_MAX] = { { "conv_bias", "shortconv.conv" } };
static const struct bias CHOICE_BIASES[BIASES_MAX] = { { "use_expert_bias", "exp_probs_b" } };

static const char *type_lfm2(const struct checkpoint_gguf_file *file, int64_t layer)
{
    return heads_of_keys(file, layer) == 0 ? "conv" : "full_attention";
}

/* What looks both ways has convolutions that do, too, and LFM2.5's audio has windows. */
static bool finish_lfm2(const struct checkpoint_gguf_file *file)
{
    static const char CAUSAL[] = "attention.causal", WINDOW[] = "attention.sliding_window";
    const struct gguf_value *value = checkpoint_gguf_find(file, CAUSAL);
    bool is_causal;
    if (value && gguf_flag(value, &is_causal) && !is_causal)
        return checkpoint_gguf_refuse(file, "not computed here for convolutions", CAUSAL,
                                      "has false under");
    if (checkpoint_gguf_number(file, WINDOW, 0) != 0)
        return checkpoint_gguf_refuse(file, "not computed here", WINDOW, "has a number under");
    return add_heads_of_keys(file) && add_layers(file, "layer_types", type_lfm2)
           && add_biases(file, LFM2_BIASES);
}

static bool finish_lfm2_moe(const struct checkpoint_gguf_file *file)
{
    return checkpoint_gguf_need_sigmoids(file) && finish_lfm2(file)
           && add_biases(file, CHOICE_BIASES);
}

/* ----------------------------------------------------------------- Mamba-2 -- */

/* The names of a mixer's tensors in the file, and behind "of" in the family's block. */
#define MAMBA_NAMES(of)                                                                            \
    IN_BLOCK("ssm_in", of "in_proj")                                                               \
    IN_BLOCK("ssm_conv1d", of "conv1d")                                                            \
    IN_BLOCK("ssm_dt", of "dt")                                                                    \
    IN_BLOCK("ssm_a", of "rates")                                                                  \
    IN_BLOCK("ssm_d", of "D") IN_BLOCK("ssm_norm", of "norm") IN_BLOCK("ssm_out", of "out_proj")

/* ------------------------------------------------------------ Granite 4.0 H -- */

#define GRANITE_HYBRID_FIELDS                                                                      \
    SIZE_FIELDS POSITION_FIELDS                                                                    \
        "attention_multiplier=attention.scale?0|embedding_multiplier=embedding_scale?|"            \
        "residual_multiplier=residual_scale?|logits_scaling=logit_scale?|"                         \
        "mamba_n_heads=ssm.time_step_rank|mamba_n_groups=ssm.group_count|"                         \
        "mamba_d_state=ssm.state_size|mamba_d_conv=ssm.conv_kernel|"                               \
        "num_local_experts=expert_count?0|num_experts_per_tok=expert_used_count?|"                 \
        "rms_norm_eps=" RMS
#define GRANITE_HYBRID_NAMES                                                                       \
    AROUND_NAMES ATTENTION_NAMES NORM_NAMES MAMBA_NAMES("mamba.")                                  \
        IN_BLOCK("ffn_gate", "shared_mlp.w1") IN_BLOCK("ffn_up", "shared_mlp.w3")                  \
            IN_BLOCK("ffn_down", "shared_mlp.w2") IN_BLOCK("ffn_gate_shexp", "shared_mlp.w1")      \
                IN_BLOCK("ffn_up_shexp", "shared_mlp.w3")                                          \
                    IN_BLOCK("ffn_down_shexp", "shared_mlp.w2")                                    \
                        IN_BLOCK("ffn_gate_inp", "block_sparse_moe.router.layer")                  \
                            EXPERT_NAMES("ffn_gate", MIXTRAL_EXPERT "w1")                          \
                                EXPERT_NAMES("ffn_up", MIXTRAL_EXPERT "w3")                        \
                                    EXPERT_NAMES("ffn_down", MIXTRAL_EXPERT "w2")

static const struct bias GRANITE_BIASES[BIASES_MAX] = { { "attention_bias", "attn_q" },
                                                        { "mamba_conv_bias", "ssm_conv1d" },
                                                        { "mamba_proj_bias", "ssm_in" } };

static const char *type_granite(const struct checkpoint_gguf_file *file, int64_t layer)
{
    return heads_of_keys(file, layer) == 0 ? "mamba" : "attention";
}

/* rope.scaling.finetuned says whether there is a rotary embedding. Bamba is written as the same
 * architecture, and has one. */
static bool finish_granite(const struct checkpoint_gguf_file *file)
{
    static const char KEY[] = "rope.scaling.finetuned";
    const struct gguf_value *value = checkpoint_gguf_find(file, KEY);
    bool is_rotated = true;
    if (value && !gguf_flag(value, &is_rotated))
        return checkpoint_gguf_refuse(file, "position_embedding_type", KEY, "has no flag under");
    return add_heads_of_keys(file) && add_layers(file, "layer_types", type_granite)
           && checkpoint_gguf_add_text(file, "position_embedding_type",
                                       is_rotated ? "rope" : "nope")
           && add_biases(file, GRANITE_BIASES);
}

/* The gate and what it multiplies are one tensor as published, and so are all experts. */
static void amend_granite(struct checkpoint_stack *stack)
{
    stack->interleaved = true;
    stack->pass.stacked_up = stack->pass.stacked_down = NULL;
    stack->pass.up_has_gate = false;
    stack->pass.expert = "block_sparse_moe.experts.%.";
    stack->pass.gate = "w1";
    stack->pass.up = "w3";
    stack->pass.down = "w2";
}

/* -------------------------------------------------------------- Nemotron-H -- */

static const struct bias NEMOTRON_BIASES[BIASES_MAX] = { { "attention_bias", "attn_q" },
                                                         { "use_conv_bias", "ssm_conv1d" },
                                                         { "use_bias", "ssm_in" },
                                                         { "mlp_bias", "ffn_up" } };

static const char *type_nemotron(const struct checkpoint_gguf_file *file, int64_t layer)
{
    char router[64];
    snprintf(router, sizeof router, "blk.%d.ffn_gate_inp.weight", (int)layer);
    if (checkpoint_gguf_number_of_layer(file, "feed_forward_length", layer, 0) != 0)
        return checkpoint_gguf_has(file, router) ? "moe" : "mlp";
    return heads_of_keys(file, layer) == 0 ? "mamba" : "attention";
}

/* The published model reads layer_norm_epsilon; a file that has only the other key has that one. */
static bool add_eps(const struct checkpoint_gguf_file *file)
{
    static const char FIELD[] = "layer_norm_epsilon", *const KEYS[] = {
        "attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon"
    };
    for (int i = 0; i < 2; i++) {
        const struct gguf_value *value = checkpoint_gguf_find(file, KEYS[i]);
        if (value)
            return checkpoint_gguf_add_value(file, FIELD, KEYS[i], value);
    }
    return checkpoint_gguf_refuse(file, FIELD, KEYS[0], "has no");
}

static bool finish_nemotron(const struct checkpoint_gguf_file *file)
{
    return checkpoint_gguf_take_next_layers(file) && checkpoint_gguf_add_head_dim(file)
           && add_eps(file) && add_heads_of_keys(file)
           && add_layers(file, "layers_block_type", type_nemotron)
           && add_biases(file, NEMOTRON_BIASES);
}

/* As published such blocks have other names. */
static void amend_nemotron_moe(struct checkpoint_stack *stack)
{
    stack->further = "num_nextn_predict_layers";
}

#define NEMOTRON_FIELDS                                                                            \
    SIZE_FIELDS POSITION_FIELDS "mamba_num_heads=ssm.time_step_rank|n_groups=ssm.group_count|"     \
                                "ssm_state_size=ssm.state_size|conv_kernel=ssm.conv_kernel|"
#define NEMOTRON_NAMES                                                                             \
    AROUND_NAMES MAMBA_NAMES("mixer.") IN_BLOCK("attn_norm", "norm")                               \
        IN_BLOCK("attn_q", "mixer.q_proj") IN_BLOCK("attn_k", "mixer.k_proj")                      \
            IN_BLOCK("attn_v", "mixer.v_proj") IN_BLOCK("attn_output", "mixer.o_proj")             \
                IN_BLOCK("ffn_up", "mixer.up_proj") IN_BLOCK("ffn_down", "mixer.down_proj")

/* --------------------------------------------------------------- Falcon-H1 -- */

/* The norm before the feed-forward has no ".weight" behind its name. */
#define FALCON_H1_NAMES                                                                            \
    "token_embd=model.embed_tokens|output_norm=model.final_layernorm|"                             \
    "output=lm_head|" ATTENTION_NAMES MAMBA_NAMES("mamba.")                                        \
        IN_BLOCK("attn_norm", "input_layernorm") IN_BLOCK("ffn_norm", "pre_ff_layernorm.weight!")  \
            IN_BLOCK("ffn_gate", "feed_forward.gate_proj")                                         \
                IN_BLOCK("ffn_up", "feed_forward.up_proj")                                         \
                    IN_BLOCK("ffn_down", "feed_forward.down_proj")

static const struct bias FALCON_H1_BIASES[BIASES_MAX] = { { "attention_bias", "attn_q" },
                                                          { "mlp_bias", "ffn_gate" },
                                                          { "mamba_conv_bias", "ssm_conv1d" },
                                                          { "mamba_proj_bias", "ssm_in" },
                                                          { "projectors_bias", "ssm_out" } };

/* The converter has put all multipliers into the tensors. No key says whether the norm of a mixer
 * precedes its gate; llama.cpp norms what leaves it. */
static bool finish_falcon_h1(const struct checkpoint_gguf_file *file)
{
    return checkpoint_gguf_add_flag(file, "mamba_norm_before_gate", false)
           && add_biases(file, FALCON_H1_BIASES);
}

/* ------------------------------------------------------ Qwen3-Next, Qwen 3.5 -- */

#define DELTA_NAMES                                                                                \
    AROUND_NAMES ATTENTION_NAMES HEAD_NORM_NAMES IN_BLOCK("attn_norm", "input_layernorm")          \
        IN_BLOCK("post_attention_norm", "post_attention_layernorm") IN_BLOCK(                      \
            "attn_qkv", "linear_attn.in_proj_qkv") IN_BLOCK("attn_gate", "linear_attn.in_proj_z")  \
            IN_BLOCK("ssm_conv1d", "linear_attn.conv1d") IN_BLOCK("ssm_dt", "linear_attn.dt")      \
                IN_BLOCK("ssm_a", "linear_attn.rates") IN_BLOCK("ssm_norm", "linear_attn.norm")    \
                    IN_BLOCK("ssm_out", "linear_attn.out_proj")
#define QWEN_EXPERT_NAMES                                                                          \
    IN_BLOCK("ffn_gate_inp", "mlp.gate")                                                           \
    EXPERT_NAMES("ffn_gate", QWEN_EXPERT "gate_proj")                                              \
    EXPERT_NAMES("ffn_up", QWEN_EXPERT "up_proj")                                                  \
    EXPERT_NAMES("ffn_down", QWEN_EXPERT "down_proj")
#define DELTA_FIELDS                                                                               \
    LLAMA_FIELDS "linear_conv_kernel_dim=ssm.conv_kernel|linear_num_key_heads=ssm.group_count|"    \
                 "linear_num_value_heads=ssm.time_step_rank|linear_key_head_dim=ssm.state_size|"   \
                 "full_attention_interval=full_attention_interval?4|"                              \
                 "num_nextn_predict_layers=nextn_predict_layers?|"

/* ssm.inner_size is that of values of all heads. */
static bool finish_delta(const struct checkpoint_gguf_file *file)
{
    const double heads = checkpoint_gguf_number(file, "ssm.time_step_rank", 1);
    const double inner = checkpoint_gguf_number(file, "ssm.inner_size", 0);
    return checkpoint_gguf_take_next_layers(file)
           && checkpoint_gguf_add_types(file, "attention.recurrent_layers", "linear_attention")
           && checkpoint_gguf_add_number(file, file->config, "linear_value_head_dim",
                                         heads >= 1 ? floor(inner / heads) : 0);
}

/* The converter has added 1 to the norms. */
static void amend_added_norms(struct checkpoint_stack *stack)
{
    stack->norm_adds_one = stack->pass.norm_adds_one = false;
}

static void amend_qwen35(struct checkpoint_stack *stack)
{
    amend_added_norms(stack);
    stack->pass.recurrence = checkpoint_recurrence_delta_in_turn;
}

/* -------------------------------------------------------------------- rows -- */

const struct checkpoint_gguf checkpoint_ggufs_hybrids[] = {
    { .architecture = "lfm2",
      .model_type = "lfm2",
      .fields = LFM2_FIELDS,
      .tensors = LFM2_NAMES,
      .has_rope = true,
      .finish = finish_lfm2 },
    { .architecture = "lfm2moe",
      .model_type = "lfm2_moe",
      .fields =
          LFM2_FIELDS COUNT_FIELDS("num_experts") "num_dense_layers=leading_dense_block_count?0|",
      .tensors = LFM2_NAMES IN_BLOCK("ffn_gate_inp", "feed_forward.gate")
          IN_BLOCK("exp_probs_b", "feed_forward.expert_bias!")
              IN_BLOCK("ffn_gate_exps", "feed_forward.experts.#.w1")
                  IN_BLOCK("ffn_up_exps", "feed_forward.experts.#.w3")
                      IN_BLOCK("ffn_down_exps", "feed_forward.experts.#.w2"),
      .has_rope = true,
      .finish = finish_lfm2_moe },
    { .architecture = "granitehybrid",
      .model_type = "granitemoehybrid",
      .fields = GRANITE_HYBRID_FIELDS,
      .tensors = GRANITE_HYBRID_NAMES,
      .has_rope = true,
      .finish = finish_granite,
      .amend = amend_granite },
    { .architecture = "nemotron_h",
      .model_type = "nemotron_h",
      .fields = NEMOTRON_FIELDS,
      .tensors = NEMOTRON_NAMES,
      .finish = finish_nemotron },
    { .architecture = "nemotron_h_moe",
      .model_type = "nemotron_h",
      .fields = NEMOTRON_FIELDS COUNT_FIELDS(
          "n_routed_experts") "norm_topk_prob=expert_weights_norm?false|"
                              "routed_scaling_factor=expert_weights_scale?1|"
                              "n_group=expert_group_count?1|topk_group=expert_group_used_count?1|"
                              "num_nextn_predict_layers=nextn_predict_layers?|",
      .tensors = NEMOTRON_NAMES NEXT_NAMES IN_BLOCK(
          "post_attention_norm", "post_attention_layernorm") IN_BLOCK("ffn_gate_inp", "mixer.gate")
          IN_BLOCK("exp_probs_b", "mixer.gate.e_score_correction_bias!")
              IN_BLOCK("ffn_up_exps", "mixer.experts.#.up_proj")
                  IN_BLOCK("ffn_down_exps", "mixer.experts.#.down_proj")
                      IN_BLOCK("ffn_up_shexp", "mixer.shared_experts.up_proj")
                          IN_BLOCK("ffn_down_shexp", "mixer.shared_experts.down_proj"),
      .reads = "expert_weights_scale|expert_group_count",
      .finish = finish_nemotron,
      .amend = amend_nemotron_moe },
    { .architecture = "falcon-h1",
      .model_type = "falcon_h1",
      .fields = LLAMA_FIELDS "mamba_n_heads=ssm.time_step_rank|mamba_n_groups=ssm.group_count|"
                             "mamba_d_state=ssm.state_size|mamba_d_conv=ssm.conv_kernel|",
      .tensors = FALCON_H1_NAMES,
      .has_rope = true,
      .present = "mamba_rms_norm=blk.0.ssm_norm.weight|",
      .finish = finish_falcon_h1 },
    { .architecture = "qwen3next",
      .model_type = "qwen3_next",
      .fields = DELTA_FIELDS COUNT_FIELDS("num_experts"),
      .tensors = DELTA_NAMES QWEN_EXPERT_NAMES SHARED_EXPERT_NAMES IN_BLOCK(
          "ssm_in", "linear_attn.in_proj_qkvz") IN_BLOCK("ssm_ba", "linear_attn.in_proj_ba"),
      .has_rope = true,
      .finish = finish_delta,
      .amend = amend_added_norms },
    { .architecture = "qwen35",
      .model_type = "qwen3_5_text",
      .fields = DELTA_FIELDS,
      .tensors = DELTA_NAMES GATED_NAMES NEXT_NAMES IN_BLOCK("ssm_beta", "linear_attn.in_proj_b")
          IN_BLOCK("ssm_alpha", "linear_attn.in_proj_a"),
      .has_rope = true,
      .finish = finish_delta,
      .amend = amend_qwen35 },
    { .architecture = "qwen35moe",
      .model_type = "qwen3_5_moe_text",
      .fields = DELTA_FIELDS COUNT_FIELDS("num_experts"),
      .tensors = DELTA_NAMES QWEN_EXPERT_NAMES SHARED_EXPERT_NAMES NEXT_NAMES IN_BLOCK(
          "ssm_beta", "linear_attn.in_proj_b") IN_BLOCK("ssm_alpha", "linear_attn.in_proj_a"),
      .has_rope = true,
      .finish = finish_delta,
      .amend = amend_qwen35 },
    { .architecture = NULL },
};
