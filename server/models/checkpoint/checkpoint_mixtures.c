/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_mixtures.c - the table of decoders whose feed-forwards are mixtures of experts, under
 * the names of Llama. Mixtral is beside Mistral in checkpoint_llamas.c.
 *
 * checkpoint_family.h says how a family is added. Their attention is compared with its own source
 * in tests/unit/test_checkpoint_mixtures.c.
 *
 * Releases of transformers before 5 save each expert alone; what 5 itself computes with, and saves
 * where it is asked to, is one tensor for all experts of a block. Both have the same names in all
 * families of this table. */
#include "models/checkpoint/checkpoint_family_rows.h"

#include "models/checkpoint/checkpoint_fields.h"
#include "models/checkpoint/checkpoint_layer.h"

#include <string.h>

/* Qwen2MoeDecoderLayer and Qwen3MoeDecoderLayer. */
bool checkpoint_has_experts_qwen(const struct checkpoint_run *run, int64_t block)
{
    const cJSON *section = run->section;
    const struct json_numbers *dense = json_numbers_of(
        run->document, cJSON_GetObjectItemCaseSensitive(section, "mlp_only_layers"));
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(section, "decoder_sparse_step");
    for (int64_t i = 0; dense && i < dense->count; i++)
        if (dense->values[i] == (float)block)
            return false;
    return !cJSON_IsNumber(step) || !(step->valuedouble >= 1 && step->valuedouble <= INT32_MAX)
           || (block + 1) % (int64_t)step->valuedouble == 0;
}

/* Qwen3MoeModel: one mask for all layers. */
static bool has_window_qwen3_moe(const cJSON *section, int64_t index)
{
    (void)index;
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(section, "use_sliding_window"));
}

/* GptOssConfig: every other layer, from the first on, unless layer_types says which. */
static bool has_window_gpt_oss(const cJSON *section, int64_t index)
{
    (void)section;
    return index % 2 == 0;
}

/* The rotary embedding of a config.json that says nothing of it. */
static bool adjust_gpt_oss(struct checkpoint_layer *layer, struct fault *fault)
{
    (void)fault;
    if (checkpoint_find_object(layer->run->section, "rope_scaling|rope_parameters"))
        return true;
    layer->config.rope.scaling = attn_rope_scaling_default(ATTN_ROPE_YARN);
    layer->config.rope.scaling.factor = 32;
    layer->config.rope.scaling.original_max_position_embeddings = 4096;
    layer->config.rope.scaling.truncate = false;
    return true;
}

/* Glm4MoeDecoderLayer, and DeepSeek's. */
static bool has_experts_behind(const struct checkpoint_run *run, int64_t block)
{
    const cJSON *dense = cJSON_GetObjectItemCaseSensitive(run->section, "first_k_dense_replace");
    return !cJSON_IsNumber(dense) || (double)block >= dense->valuedouble;
}

/* A family whose shared experts, side by side, may be none. */
static bool adjust_shared(struct checkpoint_pass *pass, const cJSON *section, struct fault *fault)
{
    int64_t count;
    if (!checkpoint_read_integer(section, "n_shared_experts=1", &count, fault))
        return false;
    if (count == 0)
        pass->shared_expert = NULL;
    return true;
}

/* DeepseekV2Moe.route_tokens_to_experts(). */
static bool adjust_deepseek_v2(struct checkpoint_pass *pass, const cJSON *section,
                               struct fault *fault)
{
    const char *method;
    if (!adjust_shared(pass, section, fault)
        || !checkpoint_read_string(section, "topk_method=greedy", &method, fault))
        return false;
    if (strcmp(method, "greedy") == 0)
        pass->group_count = pass->chosen_group_count = NULL;
    return !pass->group_count || strcmp(method, "group_limited_greedy") == 0
           || fault_set(fault, FAULT_OPTION,
                        "config.json's topk_method is '%.40s'; expected greedy or "
                        "group_limited_greedy",
                        method);
}

/* Glm4MoeModel's and DeepseekV3Model's layers behind the last are not loaded: they predict a second
 * token from the rows that leave the last one. */
#define FURTHER .further = "num_nextn_predict_layers"

/* DeepseekV3MoE. */
#define EXPERTS_OF_GROUPS(count, most)                                                             \
    .router = "mlp.gate", .expert = "mlp.experts.%.", .gate = "gate_proj", .up = "up_proj",        \
    .down = "down_proj", .stacked_up = "mlp.experts.gate_up_proj",                                 \
    .stacked_down = "mlp.experts.down_proj", .activation = "hidden_act=silu",                      \
    .expert_count = "n_routed_experts|num_experts=" #count,                                        \
    .chosen_count = "num_experts_per_tok=" #most, .shared_expert = "mlp.shared_experts."
#define SIGMOIDS                                                                                   \
    .router_is_sigmoid = true, .choice_bias = "mlp.gate.e_score_correction_bias",                  \
    .normalized = "norm_topk_prob=true"

/* DeepseekV3Attention. Its norms of latent rows leave their eps at 1e-6. */
static const struct checkpoint_latent LATENT = {
    .q_down = "q_a_proj",
    .q_norm = "q_a_layernorm",
    .q_up = "q_b_proj",
    .q = "q_proj",
    .row_norm = "kv_a_layernorm",
    .up = "kv_b_proj",
};

#define DEEPSEEK_LATENT                                                                            \
    SELF("model.|", "layers.%.", "self_attn."),                                                    \
        .projections = PROJECTIONS(NULL, "kv_a_proj_with_mqa", NULL, "o_proj"), .latent = &LATENT, \
        .causal = "=true", .theta = "rope_theta=10000", .kv_heads = "num_key_value_heads",         \
        .interleaved = true, .rank = "kv_lora_rank=512", .query_rank = "q_lora_rank=1536",         \
        .key_dim = "qk_nope_head_dim=128", .rotary_dim = "qk_rope_head_dim=64",                    \
        .value_dim = "v_head_dim=128", .norm_eps = "=0.000001", .more_biases = Q | K | O,          \
        .more_biases_if = "attention_bias",                                                        \
        .ignored = "moe_intermediate_size|aux_loss_alpha|seq_aux|ep_size"
#define DEEPSEEK_EXPECTED "moe_layer_freq=1|"
#define DEEPSEEK_PASS                                                                              \
    AROUND, LLAMA_NORMS, .norm_eps = "rms_norm_eps=0.000001", .tied = "tie_word_embeddings",       \
                         .dense = "mlp.", .has_experts = has_experts_behind

/* qwen3_moe/modeling_qwen3_moe.py: Qwen3MoeSparseMoeBlock; qwen2_moe is the same. */
#define QWEN_PASS                                                                                  \
    AROUND, LLAMA_NORMS, .norm_eps = "rms_norm_eps=0.000001", .tied = "tie_word_embeddings",       \
                         .dense = "mlp.", .has_experts = checkpoint_has_experts_qwen,              \
                         .reads = QWEN_EXPERT_FIELDS

const struct checkpoint_stack checkpoint_mixtures[] = {
    { .model_type = "qwen3_moe",
      LLAMA_NAMES,
      LLAMA_BIASES,
      SIZES(24, 2048, 32),
      .theta = "rope_theta=10000",
      .kv_heads = "num_key_value_heads=4",
      .norms = { "q_norm", "k_norm" },
      .norm_eps = "rms_norm_eps=0.000001",
      .window = "sliding_window=4096",
      .has_window = has_window_qwen3_moe,
      POSITIONS(32768),
      .reads = "use_sliding_window",
      .ignored = "max_window_layers|moe_intermediate_size",
      .pass = { QWEN_PASS, EXPERTS(128, 8, "norm_topk_prob") } },
    /* qwen2_moe/modeling_qwen2_moe.py: Qwen2MoeSparseMoeBlock. Which layers have windows is not the
     * same in all releases of transformers, and no published model has them. */
    { .model_type = "qwen2_moe",
      LLAMA_NAMES,
      SIZES(24, 2048, 16),
      .theta = "rope_theta=10000",
      .kv_heads = "num_key_value_heads=16",
      .more_biases = Q | K | V,
      .more_biases_if = "qkv_bias=true",
      .refused = "use_sliding_window",
      POSITIONS(32768),
      .ignored = "sliding_window|max_window_layers|moe_intermediate_size|"
                 "shared_expert_intermediate_size",
      .pass = { QWEN_PASS, EXPERTS(60, 4, "norm_topk_prob"), .shared_expert = "mlp.shared_expert.",
                .shared_gate = "mlp.shared_expert_gate" } },
    /* olmoe/modeling_olmoe.py: OlmoeAttention clips after its norms, which is not computed. */
    { .model_type = "olmoe",
      LLAMA_TENSORS,
      LLAMA_BIASES,
      SIZES(16, 2048, 16),
      .theta = "rope_theta=10000",
      .kv_heads = "num_key_value_heads",
      .norms = { "q_norm", "k_norm" },
      .norm_eps = "rms_norm_eps=0.00001",
      .norm_scope = ATTN_NORM_ROW,
      .refused = "clip_qkv",
      POSITIONS(4096),
      .pass = { AROUND, LLAMA_NORMS, .norm_eps = "rms_norm_eps=0.00001",
                .tied = "tie_word_embeddings", EXPERTS(64, 8, "norm_topk_prob") } },
    /* granitemoe/modeling_granitemoe.py: GraniteMoeMoE, GraniteMoeTopKGating. */
    { .model_type = "granitemoe",
      LLAMA_TENSORS,
      LLAMA_FIELDS,
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads",
      .scale = "attention_multiplier=1",
      POSITIONS(2048),
      .pass = { AROUND, LLAMA_NORMS, .norm_eps = "rms_norm_eps=0.000001",
                .tied = "tie_word_embeddings", .scale = "embedding_multiplier=1",
                .residual_scale = "residual_multiplier=1", .logit_divisor = "logits_scaling=1",
                .router = "block_sparse_moe.router.layer",
                .stacked_up = "block_sparse_moe.input_linear",
                .stacked_down = "block_sparse_moe.output_linear", .activation = "hidden_act=silu",
                .expert_count = "num_local_experts=8", .chosen_count = "num_experts_per_tok=2",
                .normalized = "=true" } },
    /* phimoe/modeling_phimoe.py: PhimoeSparseMoeBlock, sparsemixer(). */
    { .model_type = "phimoe",
      LLAMA_NAMES,
      LLAMA_BIASES,
      SIZES(32, 4096, 32),
      .theta = "rope_theta=1000000",
      .kv_heads = "num_key_value_heads=8",
      .has_mscales = true,
      .window = "sliding_window",
      POSITIONS(131072),
      .ignored = "input_jitter_noise|lm_head_bias",
      .pass = { AROUND, LLAMA_NORMS, PASS_NORMS("rms_norm_eps=0.00001"),
                .output_bias = "/lm_head.bias", .output_bias_if_any = true,
                .tied = "tie_word_embeddings", .router = "block_sparse_moe.gate",
                .expert = "block_sparse_moe.experts.%.", .gate = "w1", .up = "w3", .down = "w2",
                .activation = "hidden_act=silu", .expert_count = "num_local_experts=16",
                .chosen_count = "num_experts_per_tok=2", .jitter = "router_jitter_noise=0.01" } },
    /* gpt_oss/modeling_gpt_oss.py: GptOssAttention with sinks; GptOssTopKRouter, GptOssExperts,
     * whose gate * sigmoid(1.702 * gate) is quick_gelu. */
    { .model_type = "gpt_oss",
      LLAMA_TENSORS,
      .head_dim = "head_dim=64",
      .more_biases = Q | K | V | O,
      .more_biases_if = "attention_bias=true",
      SIZES(36, 2880, 64),
      .theta = "rope_theta=150000",
      .kv_heads = "num_key_value_heads=8",
      .sinks = "sinks",
      .window = "sliding_window=128",
      .has_window = has_window_gpt_oss,
      POSITIONS(131072),
      .adjust = adjust_gpt_oss,
      .expected = "swiglu_alpha=1.702",
      .ignored = "initial_context_length|experts_per_token",
      .pass = { AROUND, LLAMA_NORMS, .norm_eps = "rms_norm_eps=0.00001",
                .tied = "tie_word_embeddings", .router = "mlp.router", .router_has_bias = true,
                .stacked_up = "mlp.experts.gate_up_proj", .stacked_down = "mlp.experts.down_proj",
                .stacked_alternates = true, .stacked_in_out = true, .stacked_has_bias = true,
                .stacked_may_be_mxfp4 = true, .activation = "=quick_gelu",
                .gated_limit = "swiglu_limit=7", .up_adds_one = true,
                .expert_count = "num_local_experts|num_experts=128",
                .chosen_count = "num_experts_per_tok=4", .normalized = "=true" } },
    /* glm4_moe/modeling_glm4_moe.py: Glm4MoeAttention, Glm4MoeMoE. */
    { .model_type = "glm4_moe",
      LLAMA_NAMES,
      SIZES(46, 4096, 96),
      FURTHER,
      .theta = "rope_theta=10000",
      .rotary_fraction = "partial_rotary_factor=0.5",
      .kv_heads = "num_key_value_heads=8",
      .more_biases = Q | K | V,
      .more_biases_if = "attention_bias",
      .norms = { "q_norm", "k_norm" },
      .norms_if = "use_qk_norm",
      .norm_eps = "rms_norm_eps=0.00001",
      POSITIONS(131072),
      .expected = "topk_method=noaux_tc|decoder_sparse_step=1",
      .ignored = "moe_intermediate_size|moe_router_dtype",
      .pass = { AROUND, LLAMA_NORMS, .norm_eps = "rms_norm_eps=0.00001",
                .tied = "tie_word_embeddings", .dense = "mlp.", .has_experts = has_experts_behind,
                EXPERTS_OF_GROUPS(128, 8), SIGMOIDS, .adjust = adjust_shared,
                .group_count = "n_group=1", .chosen_group_count = "topk_group=1",
                .expert_scale = "routed_scaling_factor=1",
                .reads = "first_k_dense_replace|n_shared_experts" } },
    /* deepseek_v2/modeling_deepseek_v2.py, and for the scale see checkpoint_latent.c. */
    { .model_type = "deepseek_v2",
      DEEPSEEK_LATENT,
      SIZES(32, 4096, 32),
      .expected = DEEPSEEK_EXPECTED "norm_topk_prob=false|scoring_func=softmax",
      POSITIONS(2048),
      .pass = { DEEPSEEK_PASS, EXPERTS_OF_GROUPS(64, 6), .group_count = "n_group=1",
                .chosen_group_count = "topk_group=1", .expert_scale = "routed_scaling_factor=1",
                .adjust = adjust_deepseek_v2, .biases = "mlp_bias",
                .reads = "first_k_dense_replace|n_shared_experts|topk_method" } },
    /* deepseek_v3/modeling_deepseek_v3.py; Kimi K2's modeling_deepseek.py is the same. */
    { .model_type = "deepseek_v3|kimi_k2",
      DEEPSEEK_LATENT,
      SIZES(61, 7168, 128),
      FURTHER,
      .expected = DEEPSEEK_EXPECTED "topk_method=noaux_tc|scoring_func=sigmoid|"
                                    "rope_interleave=true",
      POSITIONS(4096),
      .pass = { DEEPSEEK_PASS, EXPERTS_OF_GROUPS(256, 8), SIGMOIDS, .adjust = adjust_shared,
                .group_count = "n_group=8", .chosen_group_count = "topk_group=4",
                .expert_scale = "routed_scaling_factor=2.5",
                .reads = "first_k_dense_replace|n_shared_experts" } },
    { .model_type = NULL },
};
