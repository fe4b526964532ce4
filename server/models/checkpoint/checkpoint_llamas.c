/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_llamas.c - the table of decoders whose tensors have the names of Llama or of Meta.
 * Most rows are LLAMA_NAMES, LLAMA_FIELDS, LLAMA_PASS and what differs.
 *
 * checkpoint_family.h says how a family is added. Its attention is compared with its own source in
 * tests/unit/test_checkpoint_decoders.c, or in
 * test_checkpoint_norms.c where query and key are normed. */
#include "models/checkpoint/checkpoint_family_rows.h"

#include "models/checkpoint/checkpoint_fields.h"
#include "models/checkpoint/checkpoint_layer.h"

#include <inttypes.h>

/* Qwen2 has windows on the layers from max_window_layers on, where use_sliding_window is set. */
static bool has_window_qwen2(const cJSON *section, int64_t index)
{
    const cJSON *from = cJSON_GetObjectItemCaseSensitive(section, "max_window_layers");
    const double first = cJSON_IsNumber(from) ? from->valuedouble : 28;
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(section, "use_sliding_window"))
           && (double)index >= first;
}

/* Gemma 2 has windows on every other layer, from the first on. */
static bool has_window_gemma2(const cJSON *section, int64_t index)
{
    (void)section;
    return index % 2 == 0;
}

/* Gemma 3 and Cohere 2 have windows on all but the last of each sliding_window_pattern layers. */
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

static bool refuse_windows(int64_t count, int64_t layers, struct fault *fault)
{
    return fault_set_at(fault, "/config/sliding_window", FAULT_SHAPE,
                        "config.json's sliding_window has %" PRId64 " entries for %" PRId64
                        " layers; expected a number, or a list of as many as divide the layers",
                        count, layers);
}

/* One window for all layers, or a list of windows that repeats over the layers; null is no window.
 * Source: get_cache_sizes() of mistral-inference's cache.py at 2557e12. */
static bool read_windows(struct checkpoint_layer *layer, const cJSON *node, struct fault *fault)
{
    const struct json_numbers *list = json_numbers_of(layer->run->document, node);
    double window;
    if (list && list->rank == 1 && !list->has_bool) {
        if (list->count < 1 || layer->run->layer_count % list->count != 0)
            return refuse_windows(list->count, layer->run->layer_count, fault);
        window = (double)list->values[layer->index % list->count];
    } else if (!checkpoint_read_number(layer->run->section, "sliding_window|_sliding_window",
                                       &window, fault))
        return false;
    if (window >= 1 && window <= INT32_MAX)
        layer->config.window_left = (int64_t)window - 1;
    return true;
}

/* Mistral's own releases: where params.json has no theta it is 1e6, but 1e4 beside one window for
 * all layers, which only the first release has (transformer.py of mistral-inference up to 1.5). */
static bool adjust_mistral(struct checkpoint_layer *layer, struct fault *fault)
{
    const cJSON *section = layer->run->section;
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(section, "sliding_window");
    if (cJSON_IsNumber(node) && !checkpoint_find_set(section, "rope_theta"))
        layer->config.rope.theta = 10000;
    if (!node || cJSON_IsNull(node))
        node = cJSON_GetObjectItemCaseSensitive(section, "_sliding_window");
    return !node || read_windows(layer, node, fault);
}

#define LAYER_NORMS(query, key, flag)                                                              \
    .norms = { query, key }, .norms_if = (flag), .norm_eps = "layer_norm_eps=0.00001",             \
    .norm_is_centred = true

#define COHERE                                                                                     \
    LLAMA_NAMES, LLAMA_BIASES, SIZES(40, 8192, 64),                                                \
        .kv_heads = "num_key_value_heads", .theta = "rope_theta=10000", .interleaved = true,       \
        POSITIONS(8192)

#define GEMMA3                                                                                     \
    .kind = "self", .block = "layers.%.", .attention = "self_attn.",                               \
    .projections = PROJECTIONS("q_proj", "k_proj", "v_proj", "o_proj"), .causal = "=true",         \
    LLAMA_BIASES, .head_dim = "head_dim=256", SIZES(26, 2304, 8),                                  \
    .kv_heads = "num_key_value_heads=4", .norms = { "q_norm", "k_norm" },                          \
    .norm_eps = "rms_norm_eps=0.000001", .norm_adds_one = true, .theta = "rope_theta=1000000",     \
    .local_theta = "rope_local_base_freq=10000", .scale_from = "query_pre_attn_scalar=256",        \
    .softcap = "attn_logit_softcapping", .window = "sliding_window=4096",                          \
    .has_window = has_window_gemma3, POSITIONS(131072), .reads = "sliding_window_pattern",         \
    .ignored = "_sliding_window_pattern"

#define META                                                                                       \
    SELF("", "layers.%.", "attention."),                                                           \
        .projections = PROJECTIONS("wq", "wk", "wv", "wo"), .layers = "n_layers", .width = "dim",  \
        .q_heads = "n_heads", .kv_heads = "n_kv_heads", .head_dim = "head_dim", .causal = "=true", \
        .interleaved = true

#define META_IGNORED                                                                               \
    "multiple_of|ffn_dim_multiplier|max_batch_size|tied_embeddings|tie_embeddings|vision_*"

/* ---------------------------------------------------------- around attention -- */

/* stablelm/modeling_stablelm.py, StableLmDecoderLayer: in parallel both parts have one norm. */
static bool adjust_stablelm(struct checkpoint_pass *pass, const cJSON *section, struct fault *fault)
{
    bool is_parallel;
    if (!checkpoint_read_flag(section, pass->parallel, &is_parallel, fault))
        return false;
    if (is_parallel)
        pass->feed_forward.before = pass->attention.before;
    return true;
}

/* A mixture of experts where params.json has moe: transformer_layers.py and moe.py of
 * mistral-inference. */
static bool adjust_mistral_pass(struct checkpoint_pass *pass, const cJSON *section,
                                struct fault *fault)
{
    (void)fault;
    if (!checkpoint_find_object(section, "moe"))
        return true;
    pass->router = "feed_forward.gate";
    pass->expert = "feed_forward.experts.%.";
    pass->normalized = "=true";
    pass->expert_count = "moe.num_experts";
    pass->chosen_count = "moe.num_experts_per_tok";
    pass->gate = "w1";
    pass->up = "w3";
    pass->down = "w2";
    return true;
}

/* gemma/modeling_gemma.py: GemmaModel scales its tokens, GemmaRMSNorm adds 1. */
#define GEMMA_PASS                                                                                 \
    .tokens = "embed_tokens", .final_norm = "norm", .output = "/lm_head|/language_model.lm_head",  \
    GATED, .root_scale_if = "=true", .norm_adds_one = true, .norm_eps = "rms_norm_eps=0.000001",   \
    .activation = "hidden_activation=gelu_pytorch_tanh", .tied = "tie_word_embeddings=true"
/* gemma2/modeling_gemma2.py, Gemma2DecoderLayer; gemma3 is the same. */
#define GEMMA2_PASS                                                                                \
    GEMMA_PASS,                                                                                    \
        .attention = { .before = "input_layernorm", .inside = "post_attention_layernorm" },        \
        .feed_forward = { .before = "pre_feedforward_layernorm",                                   \
                          .inside = "post_feedforward_layernorm" }

/* llama/model.py of meta-llama/llama, and mistral-inference: a file without output ties it. */
#define META_PASS                                                                                  \
    .tokens = "tok_embeddings", NORMS_BEFORE("attention_norm", "ffn_norm"),                        \
    .norm_eps = "norm_eps=0.00001", .gate = "feed_forward.w1", .up = "feed_forward.w3",            \
    .down = "feed_forward.w2", .activation = "=silu", .final_norm = "norm", .output = "output",    \
    .tied_if_absent = true

/* cohere/modeling_cohere.py: CohereDecoderLayer; cohere2 is the same. */
#define COHERE_PASS                                                                                \
    AROUND, GATED, NORMS_BEFORE("input_layernorm", "input_layernorm"),                             \
        .parallel = "=true", .norm_is_centred = true, .norm_eps = "layer_norm_eps=0.00001",        \
        .activation = "hidden_act=silu", .tied = "tie_word_embeddings=true",                       \
        .logit_scale = "logit_scale=0.0625"

const struct checkpoint_stack checkpoint_llamas[] = {
    { .model_type = "llama",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads",
      POSITIONS(2048),
      .ignored = "is_llama_config",
      .pass = { LLAMA_PASS, .biases = "mlp_bias", .norm_eps = "rms_norm_eps=0.000001" } },
    /* granite/modeling_granite.py: GraniteModel, GraniteDecoderLayer, GraniteForCausalLM. */
    { .model_type = "granite",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads",
      .scale = "attention_multiplier=1",
      POSITIONS(2048),
      .pass = { LLAMA_PASS, .biases = "mlp_bias", .norm_eps = "rms_norm_eps=0.000001",
                .scale = "embedding_multiplier=1", .residual_scale = "residual_multiplier=1",
                .logit_divisor = "logits_scaling=1" } },
    { .model_type = "meta",
      META,
      .theta = "rope_theta=10000",
      .window = "sliding_window",
      .llama3_if = "use_scaled_rope",
      .expected = "is_causal=true",
      .ignored = META_IGNORED,
      .pass = { META_PASS } },
    { .model_type = "mistral_params",
      META,
      .theta = "rope_theta=1000000",
      .scaling = "yarn",
      .scaling_type = "yarn",
      .refused = "llama_4_scaling",
      .adjust = adjust_mistral,
      .expected = "is_causal=true|causal=true",
      .reads = "sliding_window|_sliding_window",
      .ignored = META_IGNORED "|hidden_dim|vision_encoder|multimodal|max_batch_size",
      .pass = { META_PASS, .adjust = adjust_mistral_pass, .reads = "moe" } },
    { .model_type = "mistral",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      .kv_heads = "num_key_value_heads=8",
      .window = "sliding_window=4096",
      POSITIONS(131072),
      .pass = { LLAMA_PASS, .norm_eps = "rms_norm_eps=0.000001" } },
    /* mixtral/modeling_mixtral.py: MixtralSparseMoeBlock; stacked as in checkpoint_mixtures.c, and
     * then under other names (conversion_mapping.py). */
    { .model_type = "mixtral",
      LLAMA_NAMES,
      .kv_heads = "num_key_value_heads=8",
      SIZES(32, 4096, 32),
      .theta = "rope_theta=1000000",
      .window = "sliding_window",
      POSITIONS(131072),
      .ignored = "router_jitter_noise",
      .pass = { AROUND, LLAMA_NORMS, .norm_eps = "rms_norm_eps=0.00001",
                .router = "block_sparse_moe.gate|mlp.gate", .expert = "block_sparse_moe.experts.%.",
                .stacked_up = "mlp.experts.gate_up_proj", .stacked_down = "mlp.experts.down_proj",
                .expert_count = "num_local_experts=8", .chosen_count = "num_experts_per_tok=2",
                .normalized = "=true", .gate = "w1", .up = "w3", .down = "w2",
                .activation = "hidden_act=silu", .tied = "tie_word_embeddings" } },
    { .model_type = "qwen2",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      .kv_heads = "num_key_value_heads=32",
      .biases = Q | K | V,
      .window = "sliding_window=4096",
      .has_window = has_window_qwen2,
      POSITIONS(32768),
      .reads = "use_sliding_window|max_window_layers",
      .pass = { LLAMA_PASS, .norm_eps = "rms_norm_eps=0.000001" } },
    /* phi/modeling_phi.py: PhiDecoderLayer, PhiMLP. */
    { .model_type = "phi",
      SELF("model.|", "layers.%.", "self_attn."),
      .projections = PROJECTIONS("q_proj", "k_proj", "v_proj", "dense"),
      .biases = Q | K | V | O,
      SIZES(24, 2048, 32),
      .kv_heads = "num_key_value_heads",
      .causal = "=true",
      .theta = "rope_theta=10000",
      .rotary_fraction = "partial_rotary_factor=0.5",
      .head_dim = "head_dim",
      LAYER_NORMS("q_layernorm", "k_layernorm", "qk_layernorm"),
      .norm_has_bias = true,
      POSITIONS(2048),
      .ignored = "layernorm_epsilon",
      .pass = { .tokens = "embed_tokens",
                NORMS_BEFORE("input_layernorm", "input_layernorm"),
                .parallel = "=true",
                .norm_is_centred = true,
                .norm_bias = "=true",
                .norm_eps = "layer_norm_eps=0.00001",
                FEED("mlp.fc1", "mlp.fc2", "=true", "hidden_act=gelu_new"),
                .final_norm = "final_layernorm",
                .output = "/lm_head",
                .output_bias = "/lm_head.bias",
                .tied = "tie_word_embeddings" } },
    /* phi3/modeling_phi3.py: Phi3MLP. */
    { .model_type = "phi3",
      SELF("model.|", "layers.%.", "self_attn."),
      .projections = FUSED("qkv_proj", "o_proj"),
      .fusion = CHECKPOINT_ROWS,
      SIZES(32, 3072, 32),
      .kv_heads = "num_key_value_heads",
      .causal = "=true",
      .theta = "rope_theta=10000",
      .rotary_fraction = "partial_rotary_factor=1",
      .head_dim = "head_dim",
      .window = "sliding_window",
      POSITIONS(4096),
      .original_positions = "original_max_position_embeddings=4096",
      .expected = "full_attn_mod=1|interpolate_factor=1",
      .ignored = "lm_head_bias",
      .pass = { AROUND, LLAMA_NORMS, .norm_eps = "rms_norm_eps=0.00001", .up = "mlp.gate_up_proj",
                .up_has_gate = true, .down = "mlp.down_proj", .activation = "hidden_act=silu",
                .tied = "tie_word_embeddings" } },
    /* starcoder2/modeling_starcoder2.py: Starcoder2Attention, Starcoder2MLP. */
    { .model_type = "starcoder2",
      LLAMA_NAMES,
      SIZES(30, 3072, 24),
      .kv_heads = "num_key_value_heads=2",
      .more_biases = Q | K | V | O,
      .more_biases_if = "use_bias=true",
      .theta = "rope_theta=10000",
      .window = "sliding_window",
      POSITIONS(4096),
      .expected = "mlp_type=default|norm_type=layer_norm",
      .pass = { AROUND, LLAMA_NORMS, PASS_NORMS("norm_epsilon=0.00001"),
                FEED("mlp.c_fc", "mlp.c_proj", "use_bias=true", "hidden_act=gelu_pytorch_tanh"),
                .tied = "tie_word_embeddings=true" } },
    { .model_type = "stablelm",
      LLAMA_NAMES,
      .kv_heads = "num_key_value_heads=32",
      SIZES(32, 2560, 32),
      .theta = "rope_theta=10000",
      .rotary_fraction = "partial_rotary_factor|rope_pct=0.25",
      .more_biases = Q | K | V,
      .more_biases_if = "use_qkv_bias",
      LAYER_NORMS("q_layernorm.norms.%", "k_layernorm.norms.%", "qk_layernorm"),
      .norm_scope = ATTN_NORM_HEADS,
      POSITIONS(4096),
      .expected = "is_causal=true|rotary_scaling_factor=1",
      .pass = { LLAMA_PASS, .parallel = "use_parallel_residual", .norm_is_centred = true,
                .norm_bias = "=true", .norm_eps = "layer_norm_eps=0.00001",
                .adjust = adjust_stablelm } },
    /* olmo/modeling_olmo.py: OlmoLayerNorm has no parameters. */
    { .model_type = "olmo",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads",
      .clip = "clip_qkv",
      POSITIONS(2048),
      .pass = { LLAMA_PASS, .norm_is_centred = true, .norm_is_bare = true,
                .norm_eps = "=0.00001" } },
    /* olmo2/modeling_olmo2.py: Olmo2DecoderLayer. */
    { .model_type = "olmo2",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads",
      .norms = { "q_norm", "k_norm" },
      .norm_eps = "rms_norm_eps=0.00001",
      .norm_scope = ATTN_NORM_ROW,
      POSITIONS(2048),
      .pass = { AROUND, GATED,
                NORMS(.inside = "post_attention_layernorm", .inside = "post_feedforward_layernorm"),
                .norm_eps = "rms_norm_eps=0.00001", .activation = "hidden_act=silu",
                .tied = "tie_word_embeddings" } },
    { .model_type = "cohere",
      COHERE,
      LAYER_NORMS("q_norm", "k_norm", "use_qk_norm"),
      .norm_scope = ATTN_NORM_HEADS,
      .pass = { COHERE_PASS } },
    { .model_type = "cohere2",
      COHERE,
      .rope_needs_window = true,
      .window = "sliding_window=4096",
      .has_window = has_window_cohere2,
      .expected = "position_embedding_type=rope_gptj|rotary_pct=1|"
                  "order_of_interleaved_layers=local_attn_first|layer_switch=4",
      .reads = "sliding_window_pattern",
      .ignored = "_sliding_window_pattern|use_embedding_sharing|"
                 "use_gated_activation|use_parallel_block|use_parallel_embedding",
      .pass = { COHERE_PASS } },
    { .model_type = "gemma",
      LLAMA_TENSORS,
      LLAMA_BIASES,
      .head_dim = "head_dim=256",
      SIZES(28, 3072, 16),
      .kv_heads = "num_key_value_heads=16",
      .theta = "rope_theta=10000",
      .refused = "use_bidirectional_attention",
      POSITIONS(8192),
      .pass = { GEMMA_PASS, LLAMA_NORMS } },
    { .model_type = "gemma2",
      LLAMA_TENSORS,
      LLAMA_BIASES,
      .head_dim = "head_dim=256",
      SIZES(26, 2304, 8),
      .kv_heads = "num_key_value_heads=4",
      .theta = "rope_theta=10000",
      .scale_from = "query_pre_attn_scalar=256",
      .softcap = "attn_logit_softcapping=50",
      .window = "sliding_window=4096",
      .has_window = has_window_gemma2,
      .refused = "use_bidirectional_attention",
      POSITIONS(8192),
      .ignored = "sliding_window_size",
      .pass = { GEMMA2_PASS, .logit_softcap = "final_logit_softcapping=30" } },
    { .model_type = "qwen3",
      LLAMA_TENSORS,
      LLAMA_FIELDS,
      LLAMA_BIASES,
      .head_dim = "head_dim=128",
      .kv_heads = "num_key_value_heads=32",
      .norms = { "q_norm", "k_norm" },
      .norm_eps = "rms_norm_eps=0.000001",
      .window = "sliding_window=4096",
      .has_window = has_window_qwen2,
      POSITIONS(32768),
      .reads = "use_sliding_window|max_window_layers",
      .pass = { LLAMA_PASS, .norm_eps = "rms_norm_eps=0.000001" } },
    { .model_type = "gemma3_text",
      GEMMA3,
      .prefixes = "model.|language_model.model.|",
      .both_ways = "use_bidirectional_attention",
      .pass = { GEMMA2_PASS, .logit_softcap = "final_logit_softcapping" } },
    { .model_type = "gemma3",
      .section = "text_config",
      GEMMA3,
      .refused = "use_bidirectional_attention",
      .prefixes = "language_model.model.|model.language_model.|model.",
      .pass = { GEMMA2_PASS, .logit_softcap = "final_logit_softcapping" } },
    { .model_type = "gemma3",
      .kind = "vision",
      .section = "vision_config",
      .section_is_needed = true,
      .prefixes = "vision_tower.vision_model.|model.vision_tower.vision_model.",
      .ignored = "image_size|patch_size|num_channels|vision_use_head|projection_dim|"
                 "mm_tokens_per_image|num_image_tokens|projector_hidden_act",
      .block = "encoder.layers.%.",
      .attention = "self_attn.",
      .projections = OUT_PROJ,
      .biases = Q | K | V | O,
      SIZES(12, 768, 12) },
    { .model_type = NULL },
};
