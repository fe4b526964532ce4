/* checkpoint_decoders.c - decoders: see checkpoint_families.h. */
#include "checkpoint_families.h"

#include "checkpoint_fields.h"
#include "checkpoint_layer.h"

enum {
    Q = 1u << MODEL_Q,
    K = 1u << MODEL_K,
    V = 1u << MODEL_V,
    O = 1u << MODEL_O,
};

#define PROJECTIONS(q, k, v, o)                                                                    \
    {                                                                                              \
        q, k, v, o                                                                                 \
    }
#define FUSED(qkv, o)                                                                              \
    {                                                                                              \
        qkv, NULL, NULL, o                                                                         \
    }

#define OUT_PROJ PROJECTIONS("q_proj", "k_proj", "v_proj", "out_proj")

/* Attention of GPT-2 may be unscaled, or scaled by the number of its layer too. */
static bool adjust_gpt2(struct checkpoint_layer *layer, struct fault *fault)
{
    const cJSON *section = layer->run->section;
    bool is_scaled, by_layer;
    if (!checkpoint_read_flag(section, "scale_attn_weights=true", &is_scaled, fault)
        || !checkpoint_read_flag(section, "scale_attn_by_inverse_layer_idx", &by_layer, fault))
        return false;
    double scale = is_scaled ? attn_options_default(layer->config.head_dim).scale : 1;
    if (by_layer)
        scale /= (double)(layer->index + 1);
    layer->config.has_scale = true;
    layer->config.scale = (float)scale;
    return true;
}

/* Qwen2 slides its window on the layers from max_window_layers on, if at all. */
static bool has_window_qwen2(const cJSON *section, int64_t index)
{
    const cJSON *from = cJSON_GetObjectItemCaseSensitive(section, "max_window_layers");
    const double first = cJSON_IsNumber(from) ? from->valuedouble : 28;
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(section, "use_sliding_window"))
           && (double)index >= first;
}

/* Gemma 2 slides its window on every other layer. */
static bool has_window_gemma2(const cJSON *section, int64_t index)
{
    (void)section;
    return index % 2 == 0;
}

/* Gemma 3 and Cohere 2 leave the window out on one layer of sliding_window_pattern. */
static bool has_window_of(const cJSON *section, int64_t index, double otherwise)
{
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(section, "sliding_window_pattern");
    const double every = cJSON_IsNumber(pattern) ? pattern->valuedouble : otherwise;
    return !(every >= 1 && every <= INT32_MAX) || (index + 1) % (int64_t)every != 0;
}

static bool has_window_gemma3(const cJSON *section, int64_t index)
{
    return has_window_of(section, index, 6);
}

static bool has_window_cohere2(const cJSON *section, int64_t index)
{
    return has_window_of(section, index, 4);
}

/* Falcon has as many key/value heads as its generation says: of the new architecture what the
 * config gives, with multi_query one, else as many as query heads. */
static bool adjust_falcon(struct checkpoint_layer *layer, struct fault *fault)
{
    const cJSON *section = layer->run->section;
    struct model_config *config = &layer->config;
    bool is_new, is_multi_query;
    if (!checkpoint_read_flag(section, "new_decoder_architecture", &is_new, fault)
        || !checkpoint_read_flag(section, "multi_query=true", &is_multi_query, fault))
        return false;
    if (!is_new)
        config->kv_heads = is_multi_query ? 1 : config->q_heads;
    return true;
}

#define LLAMA_TENSORS                                                                              \
    .kind = "self", .prefixes = "model.|", .layer = "layers.%.self_attn.",                         \
    .projections = PROJECTIONS("q_proj", "k_proj", "v_proj", "o_proj"), .causal = "=true"

#define LLAMA_NAMES LLAMA_TENSORS, .head_dim = "head_dim"

#define LLAMA_BIASES .more_biases = Q | K | V | O, .more_biases_if = "attention_bias"

#define LLAMA_FIELDS                                                                               \
    .layers = "num_hidden_layers=32", .width = "hidden_size=4096",                                 \
    .q_heads = "num_attention_heads=32", .theta = "rope_theta=10000"

#define LAYER_NORMS(query, key, flag)                                                              \
    .norms = { query, key }, .norms_if = (flag), .norm_eps = "layer_norm_eps=0.00001",             \
    .norm_is_centred = true

#define COHERE                                                                                     \
    LLAMA_NAMES, LLAMA_BIASES, .layers = "num_hidden_layers=40", .width = "hidden_size=8192",      \
                               .q_heads = "num_attention_heads=64",                                \
                               .kv_heads = "num_key_value_heads", .theta = "rope_theta=10000",     \
                               .interleaved = true

#define GEMMA3                                                                                     \
    .kind = "self", .layer = "layers.%.self_attn.",                                                \
    .projections = PROJECTIONS("q_proj", "k_proj", "v_proj", "o_proj"), .causal = "=true",         \
    LLAMA_BIASES, .head_dim = "head_dim=256", .layers = "num_hidden_layers=26",                    \
    .width = "hidden_size=2304", .q_heads = "num_attention_heads=8",                               \
    .kv_heads = "num_key_value_heads=4", .norms = { "q_norm", "k_norm" },                          \
    .norm_eps = "rms_norm_eps=0.000001", .norm_adds_one = true, .theta = "rope_theta=1000000",     \
    .local_theta = "rope_local_base_freq=10000", .scale_from = "query_pre_attn_scalar=256",        \
    .softcap = "attn_logit_softcapping", .window = "sliding_window=4096",                          \
    .has_window = has_window_gemma3

const struct checkpoint_stack checkpoint_decoders[] = {
    { .model_type = "gpt2",
      .kind = "self",
      .prefixes = "transformer.|",
      .layer = "h.%.attn.",
      .projections = FUSED("c_attn", "c_proj"),
      .fusion = CHECKPOINT_ROWS,
      .in_out = true,
      .biases = Q | O,
      .layers = "n_layer|num_hidden_layers=12",
      .width = "n_embd|hidden_size=768",
      .q_heads = "n_head|num_attention_heads=12",
      .causal = "=true",
      .adjust = adjust_gpt2 },
    { .model_type = "gpt2",
      .kind = "cross",
      .prefixes = "transformer.|",
      .layer = "h.%.crossattention.",
      .projections = { "q_attn", "c_attn", NULL, "c_proj" },
      .fusion = CHECKPOINT_KEYS,
      .in_out = true,
      .biases = Q | K | O,
      .layers = "n_layer|num_hidden_layers=12",
      .width = "n_embd|hidden_size=768",
      .q_heads = "n_head|num_attention_heads=12",
      .adjust = adjust_gpt2 },
    { .model_type = "gpt_neox",
      .kind = "self",
      .prefixes = "gpt_neox.|",
      .layer = "layers.%.attention.",
      .projections = FUSED("query_key_value", "dense"),
      .fusion = CHECKPOINT_GROUPS,
      .more_biases = Q | O,
      .more_biases_if = "attention_bias=true",
      .layers = "num_hidden_layers=44",
      .width = "hidden_size=6144",
      .q_heads = "num_attention_heads=64",
      .causal = "=true",
      .theta = "rotary_emb_base|rope_theta=10000",
      .rotary_fraction = "rotary_pct=0.25" },
    { .model_type = "gptj",
      .kind = "self",
      .prefixes = "transformer.|",
      .layer = "h.%.attn.",
      .projections = OUT_PROJ,
      .layers = "n_layer=28",
      .width = "n_embd=4096",
      .q_heads = "n_head=16",
      .causal = "=true",
      .theta = "=10000",
      .rotary_dim = "rotary_dim=64",
      .interleaved = true },
    { .model_type = "opt",
      .kind = "self",
      .prefixes = "model.decoder.|decoder.",
      .layer = "layers.%.self_attn.",
      .projections = OUT_PROJ,
      .more_biases = Q | K | V | O,
      .more_biases_if = "enable_bias=true",
      .layers = "num_hidden_layers=12",
      .width = "hidden_size=768",
      .q_heads = "num_attention_heads=12",
      .causal = "=true" },
    { .model_type = "bloom",
      .kind = "self",
      .prefixes = "transformer.|",
      .layer = "h.%.self_attention.",
      .projections = FUSED("query_key_value", "dense"),
      .fusion = CHECKPOINT_GROUPS,
      .biases = Q | O,
      .layers = "n_layer|num_hidden_layers=2",
      .width = "hidden_size|n_embed=64",
      .q_heads = "n_head|num_attention_heads=8",
      .causal = "=true",
      .alibi = "=true" },
    { .model_type = "falcon|RefinedWeb|RefinedWebModel",
      .kind = "self",
      .prefixes = "transformer.|",
      .layer = "h.%.self_attention.",
      .projections = FUSED("query_key_value", "dense"),
      .fusion = CHECKPOINT_GROUPS,
      .more_biases = Q | O,
      .more_biases_if = "bias",
      .layers = "num_hidden_layers|n_layer=32",
      .width = "hidden_size=4544",
      .q_heads = "num_attention_heads|n_head=71",
      .kv_heads = "num_kv_heads|n_head_kv",
      .causal = "=true",
      .theta = "rope_theta=10000",
      .alibi = "alibi",
      .alibi_is_scaled = true,
      .adjust = adjust_falcon },
    { .model_type = "llama",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads" },
    { .model_type = "meta",
      .kind = "self",
      .prefixes = "",
      .layer = "layers.%.attention.",
      .projections = PROJECTIONS("wq", "wk", "wv", "wo"),
      .layers = "n_layers",
      .width = "dim",
      .q_heads = "n_heads",
      .kv_heads = "n_kv_heads",
      .head_dim = "head_dim",
      .causal = "=true",
      .theta = "rope_theta=10000",
      .interleaved = true,
      .window = "sliding_window",
      .llama3_if = "use_scaled_rope" },
    { .model_type = "mistral",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      .kv_heads = "num_key_value_heads=8",
      .window = "sliding_window=4096" },
    { .model_type = "mixtral",
      LLAMA_NAMES,
      .kv_heads = "num_key_value_heads=8",
      .layers = "num_hidden_layers=32",
      .width = "hidden_size=4096",
      .q_heads = "num_attention_heads=32",
      .theta = "rope_theta=1000000",
      .window = "sliding_window" },
    { .model_type = "qwen2",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      .kv_heads = "num_key_value_heads=32",
      .biases = Q | K | V,
      .window = "sliding_window=4096",
      .has_window = has_window_qwen2 },
    { .model_type = "phi",
      .kind = "self",
      .prefixes = "model.|",
      .layer = "layers.%.self_attn.",
      .projections = PROJECTIONS("q_proj", "k_proj", "v_proj", "dense"),
      .biases = Q | K | V | O,
      .layers = "num_hidden_layers=24",
      .width = "hidden_size=2048",
      .q_heads = "num_attention_heads=32",
      .kv_heads = "num_key_value_heads",
      .causal = "=true",
      .theta = "rope_theta=10000",
      .rotary_fraction = "partial_rotary_factor=0.5",
      LAYER_NORMS("q_layernorm", "k_layernorm", "qk_layernorm"),
      .norm_has_bias = true },
    { .model_type = "phi3",
      .kind = "self",
      .prefixes = "model.|",
      .layer = "layers.%.self_attn.",
      .projections = FUSED("qkv_proj", "o_proj"),
      .fusion = CHECKPOINT_ROWS,
      .layers = "num_hidden_layers=32",
      .width = "hidden_size=3072",
      .q_heads = "num_attention_heads=32",
      .kv_heads = "num_key_value_heads",
      .causal = "=true",
      .theta = "rope_theta=10000",
      .rotary_fraction = "partial_rotary_factor=1",
      .window = "sliding_window" },
    { .model_type = "stablelm",
      LLAMA_NAMES,
      .kv_heads = "num_key_value_heads=32",
      .layers = "num_hidden_layers=32",
      .width = "hidden_size=2560",
      .q_heads = "num_attention_heads=32",
      .theta = "rope_theta=10000",
      .rotary_fraction = "partial_rotary_factor|rope_pct=0.25",
      .more_biases = Q | K | V,
      .more_biases_if = "use_qkv_bias",
      LAYER_NORMS("q_layernorm.norms.%", "k_layernorm.norms.%", "qk_layernorm"),
      .norm_scope = ATTN_NORM_HEADS },
    { .model_type = "olmo",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads",
      .clip = "clip_qkv" },
    { .model_type = "olmo2",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads",
      .norms = { "q_norm", "k_norm" },
      .norm_eps = "rms_norm_eps=0.00001",
      .norm_scope = ATTN_NORM_ROW },
    { .model_type = "cohere",
      COHERE,
      LAYER_NORMS("q_norm", "k_norm", "use_qk_norm"),
      .norm_scope = ATTN_NORM_HEADS },
    { .model_type = "cohere2",
      COHERE,
      .rope_needs_window = true,
      .window = "sliding_window=4096",
      .has_window = has_window_cohere2 },
    { .model_type = "mpt",
      .kind = "self",
      .prefixes = "transformer.|",
      .layer = "blocks.%.attn.",
      .projections = FUSED("Wqkv", "out_proj"),
      .fusion = CHECKPOINT_ROWS,
      .layers = "n_layers|num_hidden_layers=24",
      .width = "d_model|hidden_size=2048",
      .q_heads = "n_heads|num_attention_heads=16",
      .causal = "=true",
      .clip = "attn_config.clip_qkv",
      .scale = "attn_config.softmax_scale",
      .alibi = "attn_config.alibi=true",
      .alibi_max = "attn_config.alibi_bias_max=8",
      .refused = "attn_config.qk_ln|attn_config.prefix_lm" },
    { .model_type = "gemma",
      LLAMA_TENSORS,
      LLAMA_BIASES,
      .head_dim = "head_dim=256",
      .layers = "num_hidden_layers=28",
      .width = "hidden_size=3072",
      .q_heads = "num_attention_heads=16",
      .kv_heads = "num_key_value_heads=16",
      .theta = "rope_theta=10000",
      .refused = "use_bidirectional_attention" },
    { .model_type = "gemma2",
      LLAMA_TENSORS,
      LLAMA_BIASES,
      .head_dim = "head_dim=256",
      .layers = "num_hidden_layers=26",
      .width = "hidden_size=2304",
      .q_heads = "num_attention_heads=8",
      .kv_heads = "num_key_value_heads=4",
      .theta = "rope_theta=10000",
      .scale_from = "query_pre_attn_scalar=256",
      .softcap = "attn_logit_softcapping=50",
      .window = "sliding_window=4096",
      .has_window = has_window_gemma2,
      .refused = "use_bidirectional_attention" },
    { .model_type = "qwen3",
      LLAMA_TENSORS,
      LLAMA_FIELDS,
      LLAMA_BIASES,
      .head_dim = "head_dim=128",
      .kv_heads = "num_key_value_heads=32",
      .norms = { "q_norm", "k_norm" },
      .norm_eps = "rms_norm_eps=0.000001",
      .window = "sliding_window=4096",
      .has_window = has_window_qwen2 },
    { .model_type = "gemma3_text",
      GEMMA3,
      .prefixes = "model.|language_model.model.|",
      .both_ways = "use_bidirectional_attention" },
    { .model_type = "gemma3",
      .section = "text_config",
      GEMMA3,
      .refused = "use_bidirectional_attention",
      .prefixes = "language_model.model.|model.language_model.|model." },
    { .model_type = "gemma3",
      .kind = "vision",
      .section = "vision_config",
      .section_is_needed = true,
      .prefixes = "vision_tower.vision_model.|model.vision_tower.vision_model.",
      .layer = "encoder.layers.%.self_attn.",
      .projections = OUT_PROJ,
      .biases = Q | K | V | O,
      .layers = "num_hidden_layers=12",
      .width = "hidden_size=768",
      .q_heads = "num_attention_heads=12" },
    { .model_type = NULL },
};
