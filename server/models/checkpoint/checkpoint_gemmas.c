/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_gemmas.c - the table of decoders whose blocks read tokens, and of which the last
 * layers have the keys and values of earlier ones.
 *
 * checkpoint_family.h says how a family is added. Their attention is compared with its own source
 * in tests/unit/test_checkpoint_gemma.c, their passes in tests/http/test_trace_gemma4.c. */
#include "models/checkpoint/checkpoint_family_rows.h"

#include "models/checkpoint/checkpoint_fields.h"
#include "models/checkpoint/checkpoint_layer.h"

#include <inttypes.h>
#include <string.h>

/* ------------------------------------------------------------ types of layers -- */

/* Whether a layer has a window, as layer_types says; without it, every so many layers one has none.
 * is_last: the last one has none in any case. */
static bool is_windowed(const cJSON *section, int64_t index, int64_t every, bool last_is_full)
{
    const cJSON *types = cJSON_GetObjectItemCaseSensitive(section, "layer_types");
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(section, "num_hidden_layers");
    const cJSON *type =
        cJSON_IsArray(types) && index < INT32_MAX ? cJSON_GetArrayItem(types, (int)index) : NULL;
    if (last_is_full && cJSON_IsNumber(layers) && layers->valuedouble == (double)(index + 1))
        return false;
    return cJSON_IsString(type) ? strcmp(type->valuestring, "sliding_attention") == 0
                                : (index + 1) % every != 0;
}

static bool has_window_gemma4(const cJSON *section, int64_t index)
{
    return is_windowed(section, index, 6, true);
}

/* Gemma3nTextAttention and Gemma4TextAttention: a layer of the last ones has the keys and values of
 * the last layer before all of them that is of its type. */
static bool share_keys(struct checkpoint_layer *layer, const char *field,
                       bool (*has_window)(const cJSON *section, int64_t index), struct fault *fault)
{
    const cJSON *section = layer->run->section;
    const int64_t layers = layer->run->layer_count;
    int64_t shared;
    if (!checkpoint_read_integer(section, field, &shared, fault))
        return false;
    if (shared == 0 || layer->index < layers - shared)
        return true;
    for (layer->keys_of = layers - shared - 1; layer->keys_of >= 0; layer->keys_of--)
        if (has_window(section, layer->keys_of) == has_window(section, layer->index)) {
            layer->shares_keys = true;
            return true;
        }
    return fault_set_at(fault, "/config/num_kv_shared_layers", FAULT_OPTION,
                        "config.json's num_kv_shared_layers is %" PRId64
                        ", and none of the %" PRId64
                        " layers before these has a type as layer %" PRId64 " has it",
                        shared, shared < layers ? layers - shared : 0, layer->index);
}

/* -------------------------------------------------------------------- Gemma 4 -- */

/* Heads of layers without a window have a width, and perhaps a number, of their own. */
static bool read_global_heads(struct checkpoint_layer *layer, struct fault *fault)
{
    const cJSON *section = layer->run->section;
    bool is_equal;
    int64_t head_dim, kv_heads;
    if (!checkpoint_read_integer(section, "global_head_dim=512", &head_dim, fault)
        || !checkpoint_read_integer(section, "num_global_key_value_heads", &kv_heads, fault)
        || !checkpoint_read_flag(section, "attention_k_eq_v", &is_equal, fault))
        return false;
    if (layer->has_window)
        return true;
    if (head_dim > 0)
        layer->config.head_dim = head_dim;
    if (is_equal && kv_heads > 0)
        layer->config.kv_heads = kv_heads;
    layer->values_are_keys = is_equal;
    return true;
}

/* gemma4/modeling_gemma4.py, Gemma4TextAttention; Gemma4TextConfig for the rotary embedding that a
 * config.json does not say. */
static bool adjust_gemma4(struct checkpoint_layer *layer, struct fault *fault)
{
    const cJSON *parameters =
        cJSON_GetObjectItemCaseSensitive(layer->run->section, "rope_parameters");
    if (layer->has_window && !has_window_gemma4(layer->run->section, layer->index)) {
        layer->has_window = false; /* the last layer, whatever layer_types says */
        layer->config.window_left = layer->config.window_right = -1;
    }
    if (!read_global_heads(layer, fault)
        || !share_keys(layer, "num_kv_shared_layers", has_window_gemma4, fault))
        return false;
    if (!cJSON_IsObject(parameters) && !layer->has_window)
        layer->config.rope.pairs = layer->config.head_dim / 8;
    return true;
}

/* Gemma4TextDecoderLayer: with enable_moe_block a mixture is beside the dense feed-forward, which
 * is its shared expert then. */
static bool adjust_pass_gemma4(struct checkpoint_pass *pass, const cJSON *section,
                               struct fault *fault)
{
    bool has_experts;
    if (!checkpoint_read_flag(section, "enable_moe_block", &has_experts, fault))
        return false;
    if (!has_experts) {
        pass->router = NULL;
        return true;
    }
    pass->gate = "gate_proj";
    pass->up = "up_proj";
    pass->down = "down_proj";
    pass->shared_expert = "mlp.";
    return true;
}

/* ------------------------------------------------------------------- Gemma 3n -- */

static bool has_window_gemma3n(const cJSON *section, int64_t index)
{
    return is_windowed(section, index, 5, false);
}

static bool adjust_gemma3n(struct checkpoint_layer *layer, struct fault *fault)
{
    return share_keys(layer, "num_kv_shared_layers=15", has_window_gemma3n, fault);
}

/* ------------------------------------------------------------------------ rows -- */

#define BLOCK_NORMS                                                                                \
    .attention = { .before = "input_layernorm", .inside = "post_attention_layernorm" },            \
    .feed_forward = { .before = "pre_feedforward_layernorm",                                       \
                      .inside = "post_feedforward_layernorm" }

/* Gemma4TextModel: get_per_layer_inputs(), project_per_layer_inputs(). */
#define TOKEN_INPUTS                                                                               \
    .layer_tokens = "embed_tokens_per_layer", .layer_projection = "per_layer_model_projection",    \
    .layer_projection_norm = "per_layer_projection_norm", .layer_gate = "per_layer_input_gate",    \
    .layer_up = "per_layer_projection", .layer_norm = "post_per_layer_input_norm",                 \
    .layer_width = "hidden_size_per_layer_input=256"

#define TEXT                                                                                       \
    .block = "layers.%.", .attention = "self_attn.",                                               \
    .projections = PROJECTIONS("q_proj", "k_proj", "v_proj", "o_proj"), .causal = "=true",         \
    LLAMA_BIASES, .norms = { "q_norm", "k_norm" }, .norm_eps = "rms_norm_eps=0.000001",            \
    .values_are_normed = true, .unscaled = true, .theta = "rope_theta=1000000",                    \
    .local_theta = "rope_local_base_freq=10000", .window = "sliding_window=512"

#define AROUND_TEXT                                                                                \
    .tokens = "embed_tokens", .root_scale_if = "=true", BLOCK_NORMS, TOKEN_INPUTS, GATED,          \
    .norm_eps = "rms_norm_eps=0.000001", .activation = "hidden_activation=gelu_pytorch_tanh",      \
    .final_norm = "norm", .output = "/lm_head|/model.lm_head", .tied = "tie_word_embeddings=true"

#define OTHER_TOWERS                                                                               \
    "vision_config|audio_config|*_token_id|*_token_index|vision_soft_tokens_*|audio_soft_tokens_*"

/* Gemma4TextRouter and Gemma4TextExperts. */
#define GEMMA4_EXPERTS                                                                             \
    .router = "router.proj", .router_scale = "router.scale",                                       \
    .expert_scales = "router.per_expert_scale", .stacked_up = "experts.gate_up_proj",              \
    .stacked_down = "experts.down_proj", .experts_before = "pre_feedforward_layernorm_2",          \
    .experts_after = "post_feedforward_layernorm_2",                                               \
    .shared_after = "post_feedforward_layernorm_1", .expert_count = "num_experts",                 \
    .chosen_count = "top_k_experts", .normalized = "=true"

#define GEMMA4                                                                                     \
    TEXT, SIZES(30, 2304, 8),                                                                      \
        .kv_heads = "num_key_value_heads=4", .head_dim = "head_dim=256",                           \
        .has_window = has_window_gemma4, .adjust = adjust_gemma4, POSITIONS(131072),               \
        .expected = "use_bidirectional_attention=vision",                                          \
        .reads = "global_head_dim|num_global_key_value_heads|attention_k_eq_v|"                    \
                 "num_kv_shared_layers",                                                           \
        .ignored =                                                                                 \
            OTHER_TOWERS "|use_double_wide_mlp|vocab_size_per_layer_input|moe_intermediate_size",  \
        .pass = { AROUND_TEXT,                                                                     \
                  .block_scale = "layer_scalar",                                                   \
                  GEMMA4_EXPERTS,                                                                  \
                  .adjust = adjust_pass_gemma4,                                                    \
                  .reads = "enable_moe_block",                                                     \
                  .logit_softcap = "final_logit_softcapping" }

#define GEMMA3N                                                                                    \
    TEXT, SIZES(35, 2048, 8),                                                                      \
        .kv_heads = "num_key_value_heads=2", .head_dim = "head_dim=256",                           \
        .has_window = has_window_gemma3n, .adjust = adjust_gemma3n, POSITIONS(32768),              \
        .reads = "num_kv_shared_layers",                                                           \
        .ignored = OTHER_TOWERS                                                                    \
        "|vocab_size_per_layer_input|query_pre_attn_scalar|altup_lr_multiplier|laurel_rank",       \
        .pass = { AROUND_TEXT, .has_altup = true,                                                  \
                  .reads = "altup_num_inputs|altup_active_idx|altup_coef_clip|"                    \
                           "altup_correct_scale|activation_sparsity_pattern",                      \
                  .logit_softcap = "final_logit_softcapping=30" }

const struct checkpoint_stack checkpoint_gemmas[] = {
    { .model_type = "gemma3n_text",
      .kind = "self",
      .prefixes = "model.|model.language_model.|language_model.model.|",
      GEMMA3N },
    { .model_type = "gemma3n",
      .kind = "self",
      .section = "text_config",
      .section_is_needed = true,
      .prefixes = "model.language_model.|language_model.model.|model.",
      GEMMA3N },
    { .model_type = "gemma4_text",
      .kind = "self",
      .prefixes = "model.|model.language_model.|language_model.model.|",
      GEMMA4 },
    { .model_type = "gemma4",
      .kind = "self",
      .section = "text_config",
      .section_is_needed = true,
      .prefixes = "model.language_model.|language_model.model.|model.",
      GEMMA4 },
    { .model_type = NULL },
};
