/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_hybrids.c - the table of decoders some of whose layers are no attention but keep a
 * state of a fixed size.
 *
 * checkpoint_family.h says how a family is added, checkpoint_recurrence.h what its other layers
 * are. */
#include "models/checkpoint/checkpoint_family_rows.h"

#include "models/checkpoint/checkpoint_fields.h"
#include "models/checkpoint/checkpoint_layer.h"
#include "models/checkpoint/checkpoint_recurrence.h"

#include <math.h>
#include <string.h>

/* The string of a list of config.json at an index; NULL: there is none. */
static const char *string_at(const cJSON *section, const char *list, int64_t index)
{
    const cJSON *types = cJSON_GetObjectItemCaseSensitive(section, list);
    return cJSON_IsArray(types) && index < INT32_MAX
               ? cJSON_GetStringValue(cJSON_GetArrayItem(types, (int)index))
               : NULL;
}

/* Whether a list of numbers has one; a field that is no list: *is_there is false. */
static bool is_listed(const struct checkpoint_run *run, const char *list, int64_t number,
                      bool *is_there)
{
    const struct json_numbers *numbers =
        json_numbers_of(run->document, cJSON_GetObjectItemCaseSensitive(run->section, list));
    *is_there = numbers != NULL;
    for (int64_t i = 0; numbers && i < numbers->count; i++)
        if (numbers->values[i] == (float)number)
            return true;
    return false;
}

/* Lfm2Config: layer_types, or full_attn_idxs, or all are attention. */
static const char *other_kind_lfm2(const struct checkpoint_run *run, int64_t index)
{
    const char *type = string_at(run->section, "layer_types", index);
    bool is_there;
    if (type)
        return strcmp(type, "conv") == 0 ? "convolution" : NULL;
    return !is_listed(run, "full_attn_idxs", index, &is_there) && is_there ? "convolution" : NULL;
}

/* Lfm2MoeDecoderLayer: the first num_dense_layers blocks have one feed-forward. */
static bool has_experts_lfm2(const struct checkpoint_run *run, int64_t block)
{
    const cJSON *count = cJSON_GetObjectItemCaseSensitive(run->section, "num_dense_layers");
    return (double)block >= (cJSON_IsNumber(count) ? count->valuedouble : 2);
}

static bool adjust_lfm2_moe(struct checkpoint_pass *pass, const cJSON *section, struct fault *fault)
{
    bool has_bias;
    int64_t dense;
    if (!checkpoint_read_integer(section, "num_dense_layers=2", &dense, fault)
        || !checkpoint_read_flag(section, "use_expert_bias=true", &has_bias, fault))
        return false;
    if (!has_bias)
        pass->choice_bias = NULL;
    return true;
}

/* lfm2/modeling_lfm2.py, lfm2_moe/modeling_lfm2_moe.py: Lfm2Attention, Lfm2DecoderLayer. */
#define LFM2                                                                                       \
    SELF("model.|", "layers.%.", "self_attn."),                                                    \
        .projections = PROJECTIONS("q_proj", "k_proj", "v_proj", "out_proj"), .causal = "=true",   \
        .kv_heads = "num_key_value_heads=8", .head_dim = "head_dim",                               \
        .norms = { "q_layernorm", "k_layernorm" }, .norm_eps = "norm_eps=0.00001",                 \
        .other_kind = other_kind_lfm2
#define LFM2_IGNORED "num_heads|use_pos_enc"
#define LFM2_PASS                                                                                  \
    .tokens = "embed_tokens", .final_norm = "embedding_norm",                                      \
    LM_HEAD("tie_embedding|tie_word_embeddings=true"), NORMS_BEFORE("operator_norm", "ffn_norm"),  \
    .activation = "=silu", .norm_eps = "norm_eps=0.00001", .recurrent = "conv.",                   \
    .recurrence = checkpoint_recurrence_short_convolution

/* Qwen3NextConfig: layer_types, or attention in every full_attention_interval-th layer. */
static const char *other_kind_qwen(const struct checkpoint_run *run, int64_t index)
{
    static const char kind[] = "linear_attention";
    const char *type = string_at(run->section, "layer_types", index);
    const cJSON *every = cJSON_GetObjectItemCaseSensitive(run->section, "full_attention_interval");
    const double interval = cJSON_IsNumber(every) ? every->valuedouble : 4;
    if (type)
        return strcmp(type, kind) == 0 ? kind : NULL;
    return interval >= 1 && interval <= INT32_MAX && (index + 1) % (int64_t)interval != 0 ? kind
                                                                                          : NULL;
}

/* qwen3_next/modeling_qwen3_next.py: Qwen3NextAttention, whose gate is in q_proj; of Qwen 3.5 the
 * text, qwen3_5/modeling_qwen3_5.py, whose positions of time, height and width are then the same.
 */
#define QWEN_HYBRID                                                                                \
    .kind = "self", .block = "layers.%.", .attention = "self_attn.",                               \
    .projections = PROJECTIONS("q_proj", "k_proj", "v_proj", "o_proj"), .q_has_gate = true,        \
    .causal = "=true", .head_dim = "head_dim=256", LLAMA_BIASES, .norms = { "q_norm", "k_norm" },  \
    .norm_eps = "rms_norm_eps=0.000001", .norm_adds_one = true, .theta = "rope_theta=10000",       \
    .rotary_fraction = "partial_rotary_factor=0.25", .other_kind = other_kind_qwen,                \
    .further = "num_nextn_predict_layers", .reads = "full_attention_interval", POSITIONS(32768)
#define QWEN_HYBRID_PASS                                                                           \
    .tokens = "embed_tokens", .final_norm = "norm", LLAMA_NORMS,                                   \
    .norm_eps = "rms_norm_eps=0.000001", .norm_adds_one = true, .recurrent = "linear_attn.",       \
    .recurrence = checkpoint_recurrence_delta
#define QWEN3_5                                                                                    \
    QWEN_HYBRID, .rope_has_sections = true, .prefixes = "model.language_model.|model.|",           \
                 .ignored = "mrope_*|mtp_*|mamba_ssm_dtype|vision_config|image_token_id|"          \
                            "video_token_id|vision_*_token_id|language_model_only|text_config|"    \
                            "intermediate_size|moe_intermediate_size|"                             \
                            "shared_expert_intermediate_size",                                     \
                 .expected = "attn_output_gate=true|output_gate_type=swish"
#define QWEN_SHARED                                                                                \
    .shared_expert = "mlp.shared_expert.", .shared_gate = "mlp.shared_expert_gate", .dense = "mlp."
#define QWEN3_5_DENSE                                                                              \
    QWEN_HYBRID_PASS, GATED, .activation = "hidden_act=silu", LM_HEAD("tie_word_embeddings"),      \
                             .reads = CHECKPOINT_DELTA_FIELDS
#define QWEN3_5_MIXTURE                                                                            \
    QWEN_HYBRID_PASS, EXPERTS(256, 8, "=true"), QWEN_SHARED, LM_HEAD("tie_word_embeddings"),       \
        .reads = CHECKPOINT_DELTA_FIELDS

/* GraniteMoeHybridConfig: layer_types, or all are Mamba. */
static const char *other_kind_granite(const struct checkpoint_run *run, int64_t index)
{
    const char *type = string_at(run->section, "layer_types", index);
    return !type || strcmp(type, "mamba") == 0 ? "mamba" : NULL;
}

/* GraniteMoeHybridModel has a rotary embedding only where the type says so. */
static bool adjust_granite(struct checkpoint_layer *layer, struct fault *fault)
{
    const char *type;
    if (!checkpoint_read_string(layer->run->section, "position_embedding_type=", &type, fault))
        return false;
    layer->lacks_rope = strcmp(type, "rope") != 0;
    return true;
}

/* GraniteMoeHybridDecoderLayer without experts. */
static bool adjust_granite_pass(struct checkpoint_pass *pass, const cJSON *section,
                                struct fault *fault)
{
    int64_t count;
    if (!checkpoint_read_integer(section, pass->expert_count, &count, fault))
        return false;
    if (count == 0)
        pass->router = NULL;
    return true;
}

/* BambaConfig.layers_block_type: attn_layer_indices. */
static const char *other_kind_bamba(const struct checkpoint_run *run, int64_t index)
{
    bool is_there;
    return is_listed(run, "attn_layer_indices", index, &is_there) ? NULL : "mamba";
}

/* FalconH1Attention: keys are multiplied by key_multiplier, which is to multiply scores by it. */
static bool adjust_falcon_h1(struct checkpoint_layer *layer, struct fault *fault)
{
    double factor;
    if (!checkpoint_read_factor(layer->run->section, "key_multiplier=1", &factor, fault))
        return false;
    layer->config.has_scale = factor != 1;
    layer->config.scale = (float)(factor / sqrt((double)layer->config.head_dim));
    return true;
}

/* The recurrence beside the attention of each block. */
static const char *other_kind_falcon_h1(const struct checkpoint_run *run, int64_t index)
{
    (void)run;
    (void)index;
    return "mamba";
}

/* NemotronHConfig: a list of types, or a letter for each block. */
static char letter_nemotron(const struct checkpoint_run *run, int64_t index)
{
    static const struct {
        const char *type;
        char letter;
    } TYPES[] = { { "mamba", 'M' }, { "linear_attention", 'M' }, { "mlp", '-' }, { "moe", 'E' } };
    const char *type = string_at(run->section, "layers_block_type", index);
    type = type ? type : string_at(run->section, "layer_types", index);
    for (size_t i = 0; type && i < sizeof TYPES / sizeof TYPES[0]; i++)
        if (strcmp(type, TYPES[i].type) == 0)
            return TYPES[i].letter;
    const char *pattern = cJSON_GetStringValue(
        cJSON_GetObjectItemCaseSensitive(run->section, "hybrid_override_pattern"));
    return !type && pattern && index < (int64_t)strlen(pattern) ? pattern[index] : '*';
}

static const char *other_kind_nemotron(const struct checkpoint_run *run, int64_t index)
{
    const char letter = letter_nemotron(run, index);
    return letter == 'M' ? "mamba" : letter == '-' || letter == 'E' ? MODEL_FEED_FORWARD : NULL;
}

static bool has_experts_nemotron(const struct checkpoint_run *run, int64_t block)
{
    return letter_nemotron(run, block) == 'E';
}

/* A file without experts need not count them. */
static bool adjust_nemotron(struct checkpoint_pass *pass, const cJSON *section, struct fault *fault)
{
    (void)fault;
    if (!cJSON_GetObjectItemCaseSensitive(section, "n_routed_experts"))
        pass->router = NULL;
    return true;
}

const struct checkpoint_stack checkpoint_hybrids[] = {
    { .model_type = "qwen3_next",
      QWEN_HYBRID,
      .prefixes = "model.|",
      SIZES(48, 2048, 16),
      .kv_heads = "num_key_value_heads=2",
      .ignored = "moe_intermediate_size|shared_expert_intermediate_size",
      .pass = { QWEN_HYBRID_PASS, EXPERTS(512, 10, "norm_topk_prob=true"), QWEN_SHARED,
                .has_experts = checkpoint_has_experts_qwen, LM_HEAD("tie_word_embeddings"),
                .reads = QWEN_EXPERT_FIELDS "|" CHECKPOINT_DELTA_FIELDS } },
    { .model_type = "qwen3_5",
      QWEN3_5,
      .section = "text_config",
      .section_is_needed = true,
      SIZES(32, 4096, 16),
      .kv_heads = "num_key_value_heads=4",
      .pass = { QWEN3_5_DENSE } },
    { .model_type = "qwen3_5_text",
      QWEN3_5,
      SIZES(32, 4096, 16),
      .kv_heads = "num_key_value_heads=4",
      .pass = { QWEN3_5_DENSE } },
    { .model_type = "qwen3_5_moe",
      QWEN3_5,
      .section = "text_config",
      .section_is_needed = true,
      SIZES(40, 2048, 16),
      .kv_heads = "num_key_value_heads=2",
      .pass = { QWEN3_5_MIXTURE } },
    { .model_type = "qwen3_5_moe_text",
      QWEN3_5,
      SIZES(40, 2048, 16),
      .kv_heads = "num_key_value_heads=2",
      .pass = { QWEN3_5_MIXTURE } },
    /* The width of the feed-forward is that of its tensors, so what config.json makes it of is not
     * read. */
    { .model_type = "lfm2",
      LFM2,
      SIZES(32, 2560, 32),
      .theta = "theta|rope_theta=1000000",
      .reads = "layer_types|full_attn_idxs",
      .ignored = LFM2_IGNORED "|block_*|conv_dim|conv_dim_out|conv_use_xavier_init",
      .pass = { LFM2_PASS, .gate = "feed_forward.w1", .up = "feed_forward.w3",
                .down = "feed_forward.w2", .reads = CHECKPOINT_SHORT_CONVOLUTION_FIELDS } },
    { .model_type = "lfm2_moe",
      LFM2,
      SIZES(32, 2048, 32),
      .theta = "rope_theta=1000000",
      .reads = "layer_types",
      .ignored = LFM2_IGNORED "|moe_intermediate_size",
      .pass = { LFM2_PASS, .dense = "feed_forward.", .gate = "w1", .up = "w3", .down = "w2",
                .router = "feed_forward.gate", .router_is_sigmoid = true,
                .choice_bias = "feed_forward.expert_bias", .normalized = "norm_topk_prob=true",
                .weight_sum_eps = 1e-6, .expert = "feed_forward.experts.%.",
                .stacked_up = "feed_forward.experts.gate_up_proj",
                .stacked_down = "feed_forward.experts.down_proj", .has_experts = has_experts_lfm2,
                .expert_count = "num_experts=32", .chosen_count = "num_experts_per_tok=4",
                .expert_scale = "routed_scaling_factor=1", .adjust = adjust_lfm2_moe,
                .reads =
                    CHECKPOINT_SHORT_CONVOLUTION_FIELDS "|num_dense_layers|use_expert_bias" } },

    { .model_type = "granitemoehybrid",
      LLAMA_TENSORS,
      LLAMA_FIELDS,
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads",
      .scale = "attention_multiplier=1",
      POSITIONS(2048),
      .other_kind = other_kind_granite,
      .adjust = adjust_granite,
      .reads = "layer_types|position_embedding_type",
      .ignored = "mamba_chunk_size|mamba_d_head|mamba_expand|normalization_function|"
                 "shared_intermediate_size",
      .pass = { AROUND,
                LLAMA_NORMS,
                .norm_eps = "rms_norm_eps=0.000001",
                .tied = "tie_word_embeddings",
                .scale = "embedding_multiplier=1",
                .residual_scale = "residual_multiplier=1",
                .logit_divisor = "logits_scaling=1",
                .router = "block_sparse_moe.router.layer",
                .stacked_up = "block_sparse_moe.input_linear",
                .stacked_down = "block_sparse_moe.output_linear",
                .shared_expert = "shared_mlp.",
                .dense = "shared_mlp.",
                .up = "input_linear",
                .up_has_gate = true,
                .down = "output_linear",
                .activation = "hidden_act=silu",
                .expert_count = "num_local_experts=8",
                .chosen_count = "num_experts_per_tok=2",
                .normalized = "=true",
                .adjust = adjust_granite_pass,
                .recurrent = "mamba.",
                .recurrence = checkpoint_recurrence_bamba,
                .reads = CHECKPOINT_MAMBA_FIELDS } },

    { .model_type = "bamba",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads=8",
      .rotary_fraction = "partial_rotary_factor=0.5",
      POSITIONS(262144),
      .other_kind = other_kind_bamba,
      .reads = "attn_layer_indices",
      .ignored = "mamba_chunk_size|mamba_d_head|mamba_expand|attn_rotary_emb|z_loss_coefficient|"
                 "num_logits_to_keep|use_mamba_kernels",
      .pass = { .tokens = "embed_tokens",
                .final_norm = "final_layernorm",
                LM_HEAD("tie_word_embeddings"),
                NORMS_BEFORE("input_layernorm", "pre_ff_layernorm"),
                .norm_eps = "rms_norm_eps=0.00001",
                .gate = "feed_forward.gate_proj",
                .up = "feed_forward.up_proj",
                .down = "feed_forward.down_proj",
                .activation = "hidden_act=silu",
                .recurrent = "mamba.",
                .recurrence = checkpoint_recurrence_bamba,
                .reads = CHECKPOINT_MAMBA_FIELDS } },

    /* falcon_h1/modeling_falcon_h1.py: FalconH1DecoderLayer, FalconH1Attention, FalconH1MLP. Each
     * block is a layer of either row. */
    { .model_type = "falcon_h1",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads=8",
      POSITIONS(8192),
      .adjust = adjust_falcon_h1,
      .reads = "key_multiplier",
      .ignored = "mamba_chunk_size|mamba_d_head|mamba_d_ssm|mamba_expand|mamba_use_mlp|"
                 "mlp_expansion_factor|expansion_factor|time_step_min|time_step_max|"
                 "time_step_floor|time_step_rank|num_logits_to_keep",
      .pass = { .tokens = "embed_tokens",
                .final_norm = "final_layernorm",
                LM_HEAD("tie_word_embeddings"),
                NORMS_BEFORE("input_layernorm", "pre_ff_layernorm"),
                .norm_eps = "rms_norm_eps=0.00001",
                .scale = "embedding_multiplier=1",
                .logit_scale = "lm_head_multiplier=1",
                .attention_in = "attention_in_multiplier=1",
                .attention_out = "attention_out_multiplier=1",
                .beside_in = "ssm_in_multiplier=1",
                .beside_out = "ssm_out_multiplier=1",
                .gate = "feed_forward.gate_proj",
                .up = "feed_forward.up_proj",
                .down = "feed_forward.down_proj",
                .biases = "mlp_bias",
                .activation = "hidden_act=silu",
                .feed_scales = "mlp_multipliers",
                .beside_kind = "mamba",
                .recurrent = "mamba.",
                .recurrence = checkpoint_recurrence_falcon_h1,
                .reads = CHECKPOINT_FALCON_H1_FIELDS } },
    { .model_type = "falcon_h1",
      .kind = "mamba",
      .prefixes = "model.|",
      .block = "layers.%.",
      .attention = "mamba.",
      .projections = { "in_proj" },
      SIZES(32, 4096, 32),
      .other_kind = other_kind_falcon_h1 },

    /* nemotron_h/modular_nemotron_h.py: NemotronHBlock, NemotronHAttention, NemotronHMoE. */
    { .model_type = "nemotron_h",
      SELF("backbone.|model.|", "layers.%.", "mixer."),
      .projections = PROJECTIONS("q_proj", "k_proj", "v_proj", "o_proj"),
      .causal = "=true",
      SIZES(52, 4096, 32),
      .kv_heads = "num_key_value_heads=8",
      .head_dim = "head_dim|attention_head_dim=128",
      LLAMA_BIASES,
      .other_kind = other_kind_nemotron,
      .reads = "layers_block_type|layer_types|hybrid_override_pattern",
      .expected = "mamba_hidden_act=silu",
      .ignored = "chunk_size|expand|mamba_head_dim|mamba_proj_bias|mamba_ssm_cache_dtype|"
                 "time_step_min|time_step_max|time_step_floor|rescale_prenorm_residual|"
                 "residual_in_fp32|num_logits_to_keep|use_mamba_kernels|moe_intermediate_size|"
                 "moe_shared_expert_*|n_shared_experts|num_nextn_predict_layers|mtp_*|rms_norm_eps",
      .pass = { .tokens = "embeddings|embed_tokens",
                .final_norm = "norm_f|norm",
                LM_HEAD("tie_word_embeddings"),
                NORMS_BEFORE("norm", "norm"),
                .norm_eps = "layer_norm_epsilon=0.00001",
                .parts_are_blocks = true,
                .dense = "mixer.",
                .up = "up_proj",
                .down = "down_proj",
                .biases = "mlp_bias",
                .activation = "mlp_hidden_act=relu2",
                .router = "mixer.gate",
                .router_is_sigmoid = true,
                .choice_bias = "mixer.gate.e_score_correction_bias",
                .normalized = "norm_topk_prob=true",
                .expert = "mixer.experts.%.",
                .shared_expert = "mixer.shared_experts.",
                .has_experts = has_experts_nemotron,
                .expert_count = "n_routed_experts=8",
                .chosen_count = "num_experts_per_tok=2",
                .group_count = "n_group=1",
                .chosen_group_count = "topk_group=1",
                .expert_scale = "routed_scaling_factor=1",
                .adjust = adjust_nemotron,
                .recurrent = "mixer.",
                .recurrence = checkpoint_recurrence_nemotron,
                .reads = CHECKPOINT_NEMOTRON_FIELDS } },

    { .model_type = NULL }
};
