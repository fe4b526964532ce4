/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_llamas_newer.c - the table of decoders that came out of Llama from 2024 on, most of
 * them under its names. It goes on where checkpoint_llamas.c ends.
 *
 * checkpoint_family.h says how a family is added. Its attention is compared with its own source in
 * tests/unit/test_checkpoint_newer.c, its pass in tests/http/test_trace_newer.c. */
#include "models/checkpoint/checkpoint_family_rows.h"

#include "models/checkpoint/checkpoint_fields.h"
#include "models/checkpoint/checkpoint_layer.h"

#include <inttypes.h>
#include <string.h>

/* -------------------------------------------------------- windows and rotation -- */

static bool has_layer_types(const cJSON *section)
{
    return cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(section, "layer_types"));
}

static void drop_window(struct checkpoint_layer *layer)
{
    layer->has_window = false;
    layer->config.window_left = layer->config.window_right = -1;
}

/* Whether SmolLM3 and Llama 4 rotate the layer: no_rope_layers has a number for each, and 0 is for
 * one that is not rotated. Without a list, or numbers in it, it is every
 * no_rope_layer_interval-th. */
static bool read_no_rope(const struct checkpoint_layer *layer, bool *is_rotated,
                         struct fault *fault)
{
    const cJSON *section = layer->run->section;
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(section, "no_rope_layers");
    const struct json_numbers *list = json_numbers_of(layer->run->document, node);
    int64_t every;
    if (list && list->rank == 1 && layer->index < list->count) {
        *is_rotated = list->values[layer->index] != 0;
        return true;
    }
    const bool is_empty = list ? list->count == 0 : cJSON_IsArray(node) && !node->child;
    if (node && !cJSON_IsNull(node) && !is_empty)
        return fault_set_at(fault, "/config/no_rope_layers", FAULT_SHAPE,
                            "config.json's no_rope_layers has nothing for layer %" PRId64
                            "; expected a list of a number for each layer, 0 for one that is not "
                            "rotated, or null",
                            layer->index);
    if (!checkpoint_read_integer(section, "no_rope_layer_interval=4", &every, fault))
        return false;
    *is_rotated = every == 0 || (layer->index + 1) % every != 0;
    return true;
}

static bool has_window_smollm3(const cJSON *section, int64_t index)
{
    (void)index;
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(section, "use_sliding_window"));
}

/* smollm3/modular_smollm3.py, SmolLM3Config: without layer_types only layers that are not rotated
 * have windows. */
static bool adjust_smollm3(struct checkpoint_layer *layer, struct fault *fault)
{
    bool is_rotated = true;
    if (!read_no_rope(layer, &is_rotated, fault))
        return false;
    layer->lacks_rope = !is_rotated;
    if (is_rotated && !has_layer_types(layer->run->section))
        drop_window(layer);
    return true;
}

/* OLMo 3 has windows on three layers of four. */
static bool has_window_olmo3(const cJSON *section, int64_t index)
{
    (void)section;
    return (index + 1) % 4 != 0;
}

/* EXAONE 4's sliding_window_pattern is a number, every so many layers one has no window, or letters
 * that repeat over the layers: L for a window, G for none, and then the last layer has none. */
static bool has_window_exaone4(const cJSON *section, int64_t index)
{
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(section, "sliding_window_pattern");
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(section, "num_hidden_layers");
    if (cJSON_IsString(pattern) && pattern->valuestring[0])
        return pattern->valuestring[(size_t)index % strlen(pattern->valuestring)] == 'L'
               && !(cJSON_IsNumber(layers) && layers->valuedouble == (double)(index + 1));
    const double every = cJSON_IsNumber(pattern) ? pattern->valuedouble : 4;
    return !(every >= 1 && every <= INT32_MAX) || (index + 1) % (int64_t)every != 0;
}

/* exaone4/modular_exaone4.py, Exaone4Attention: a model with windows rotates only the layers that
 * have one. */
static bool adjust_exaone4(struct checkpoint_layer *layer, struct fault *fault)
{
    int64_t window;
    if (!checkpoint_read_integer(layer->run->section, layer->run->stack->window, &window, fault))
        return false;
    layer->lacks_rope = window > 0 && !layer->has_window;
    return true;
}

/* seed_oss/modular_seed_oss.py, SeedOssAttention: the output projection has its own flag. */
static bool adjust_seed_oss(struct checkpoint_layer *layer, struct fault *fault)
{
    bool has_bias;
    if (!checkpoint_read_flag(layer->run->section, "attention_out_bias", &has_bias, fault))
        return false;
    layer->biases |= has_bias ? O : 0u;
    return true;
}

static bool is_ministral3(const cJSON *section)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(section, "model_type");
    return cJSON_IsString(type) && strcmp(type->valuestring, "ministral3") == 0;
}

static bool has_rope_object(const cJSON *section)
{
    return cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(section, "rope_parameters"))
           || cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(section, "rope_scaling"));
}

/* Ministral3Config: what it says where config.json does not. */
static bool adjust_ministral3(struct checkpoint_layer *layer, struct fault *fault)
{
    const cJSON *section = layer->run->section;
    (void)fault;
    if (!is_ministral3(section))
        return true;
    if (!cJSON_GetObjectItemCaseSensitive(section, "sliding_window"))
        drop_window(layer);
    if (has_rope_object(section))
        return true;
    layer->config.rope.theta = 1e6;
    layer->config.rope.query_growth = 0.1;
    layer->config.rope.query_length = 16384;
    layer->config.rope.scaling = attn_rope_scaling_default(ATTN_ROPE_YARN);
    layer->config.rope.scaling.factor = 16;
    layer->config.rope.scaling.original_max_position_embeddings = 16384;
    layer->config.rope.scaling.mscale = layer->config.rope.scaling.mscale_all_dim = 1;
    return true;
}

/* ApertusConfig: how a file without rope_parameters is scaled. */
static bool adjust_apertus(struct checkpoint_layer *layer, struct fault *fault)
{
    (void)fault;
    if (has_rope_object(layer->run->section))
        return true;
    layer->config.rope.theta = 12e6;
    layer->config.rope.scaling = attn_rope_scaling_default(ATTN_ROPE_LLAMA3);
    layer->config.rope.scaling.factor = 8;
    layer->config.rope.scaling.original_max_position_embeddings = 8192;
    return true;
}

static bool adjust_pass_ministral3(struct checkpoint_pass *pass, const cJSON *section,
                                   struct fault *fault)
{
    (void)fault;
    if (is_ministral3(section))
        pass->norm_eps = "rms_norm_eps=0.00001";
    return true;
}

/* -------------------------------------------------------------------- Llama 4 -- */

/* attn_temperature_tuning was a number, 4, before it was a flag. */
static bool tunes_temperature(const cJSON *section)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(section, "attn_temperature_tuning");
    return !node || cJSON_IsTrue(node) || (cJSON_IsNumber(node) && node->valuedouble != 0);
}

/* llama4/modeling_llama4.py, Llama4TextAttention and Llama4TextConfig: a layer that is not rotated
 * has no norms, and its queries grow; without layer_types it has no chunks. */
static bool adjust_llama4(struct checkpoint_layer *layer, struct fault *fault)
{
    const cJSON *section = layer->run->section;
    struct attn_rope *rope = &layer->config.rope;
    bool is_rotated = true;
    if (!read_no_rope(layer, &is_rotated, fault)
        || !checkpoint_read_number(section, "attn_scale=0.1", &rope->query_growth, fault)
        || !checkpoint_read_number(section, "floor_scale=8192", &rope->query_length, fault))
        return false;
    if (is_rotated || !tunes_temperature(section))
        rope->query_growth = 0;
    rope->query_offset = rope->query_growth > 0 ? 1 : 0;
    layer->lacks_rope = !is_rotated;
    layer->has_norms = layer->has_norms && is_rotated;
    if (!is_rotated && !has_layer_types(section))
        layer->config.chunk = 0;
    return rope->query_growth == 0 || rope->query_length >= 1
           || fault_set_at(fault, "/config/floor_scale", FAULT_OPTION,
                           "config.json's floor_scale is %g; expected 1 or more",
                           rope->query_length);
}

/* Llama4TextConfig: moe_layers, or every interleave_moe_layer_step-th. */
static bool has_experts_llama4(const struct checkpoint_run *run, int64_t block)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(run->section, "moe_layers");
    const struct json_numbers *list = json_numbers_of(run->document, node);
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(run->section, "interleave_moe_layer_step");
    for (int64_t i = 0; list && i < list->count; i++)
        if (list->values[i] == (float)block)
            return true;
    if (list || cJSON_IsArray(node))
        return false;
    return !cJSON_IsNumber(step) || !(step->valuedouble >= 1 && step->valuedouble <= INT32_MAX)
           || (block + 1) % (int64_t)step->valuedouble == 0;
}

/* ------------------------------------------------------------------ their rows -- */

#define RMS(eps) .norm_eps = "rms_norm_eps=" eps

/* glm/modeling_glm.py, GlmAttention: half of a head is turned, in pairs of neighbours; the output
 * projection has no bias. phi3's feed-forward. */
#define GLM                                                                                        \
    LLAMA_TENSORS, .head_dim = "head_dim=128", SIZES(40, 4096, 32),                                \
                   .kv_heads = "num_key_value_heads=2", .theta = "rope_theta=10000",               \
                   .rotary_fraction = "partial_rotary_factor=0.5", .interleaved = true,            \
                   .more_biases = Q | K | V, .more_biases_if = "attention_bias=true",              \
                   POSITIONS(131072)
#define GLM_PASS                                                                                   \
    AROUND, RMS("0.00000015625"), .up = "mlp.gate_up_proj", .up_has_gate = true,                   \
                                  .down = "mlp.down_proj", .activation = "hidden_act=silu",        \
                                  .tied = "tie_word_embeddings"

/* Norms after attention and after the feed-forward, before their sums: OLMo 2's. */
#define NORMS_INSIDE                                                                               \
    NORMS(.inside = "post_attention_layernorm", .inside = "post_feedforward_layernorm")

/* llama4/modeling_llama4.py: Llama4TextMoe, whose experts read rows that the router scales. */
#define LLAMA4                                                                                     \
    .block = "layers.%.", .attention = "self_attn.",                                               \
    .projections = PROJECTIONS("q_proj", "k_proj", "v_proj", "o_proj"), .causal = "=true",         \
    SIZES(48, 5120, 40), .head_dim = "head_dim=128", LLAMA_BIASES,                                 \
    .kv_heads = "num_key_value_heads=8", .theta = "rope_theta=500000", .interleaved = true,        \
    .norms_are_bare = true, .norms_follow_rope = true, .norms_if = "use_qk_norm=true",             \
    .norm_eps = "rms_norm_eps=0.00001", .chunk = "attention_chunk_size=8192",                      \
    .adjust = adjust_llama4, POSITIONS(131072),                                                    \
    .reads = "no_rope_layers|no_rope_layer_interval|attn_temperature_tuning|attn_scale|"           \
             "floor_scale",                                                                        \
    .ignored = "vision_config|*_token_index|intermediate_size_mlp|router_jitter_noise|"            \
               "moe_layers|interleave_moe_layer_step|for_llm_compressor",                          \
    .pass = { .tokens = "embed_tokens",                                                            \
              LLAMA_NORMS,                                                                         \
              RMS("0.00001"),                                                                      \
              .gate = "gate_proj",                                                                 \
              .up = "up_proj",                                                                     \
              .down = "down_proj",                                                                 \
              .dense = "feed_forward.",                                                            \
              .router = "feed_forward.router",                                                     \
              .router_is_sigmoid = true,                                                           \
              .router_weighs_inputs = true,                                                        \
              .shared_expert = "feed_forward.shared_expert.",                                      \
              .stacked_up = "feed_forward.experts.gate_up_proj",                                   \
              .stacked_down = "feed_forward.experts.down_proj",                                    \
              .stacked_in_out = true,                                                              \
              .has_experts = has_experts_llama4,                                                   \
              .expert_count = "num_local_experts=16",                                              \
              .chosen_count = "num_experts_per_tok=1",                                             \
              .activation = "hidden_act=silu",                                                     \
              .final_norm = "norm",                                                                \
              .output = "/lm_head|/language_model.lm_head",                                        \
              .tied = "tie_word_embeddings" }

/* nemotron/modeling_nemotron.py, NemotronMLP: no gate. */
#define RELU_SQUARED FEED("mlp.up_proj", "mlp.down_proj", "mlp_bias", "hidden_act=relu2")

const struct checkpoint_stack checkpoint_llamas_newer[] = {
    { .model_type = "smollm3",
      LLAMA_NAMES,
      SIZES(36, 2048, 16),
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads=4",
      .theta = "rope_theta=2000000",
      .window = "sliding_window",
      .has_window = has_window_smollm3,
      .adjust = adjust_smollm3,
      POSITIONS(32768),
      .reads = "no_rope_layers|no_rope_layer_interval|use_sliding_window",
      .ignored = "max_window_layers",
      .pass = { AROUND, LLAMA_NORMS, GATED, RMS("0.000001"), .biases = "mlp_bias",
                .activation = "hidden_act=silu", .tied = "tie_word_embeddings=true" } },
    /* olmo3/modular_olmo3.py: Olmo2DecoderLayer. Layers with a window have no rope_scaling, but for
     * version 5.0 to 5.2 of transformers. */
    { .model_type = "olmo3",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads",
      .norms = { "q_norm", "k_norm" },
      .norm_eps = "rms_norm_eps=0.00001",
      .norm_scope = ATTN_NORM_ROW,
      .local_theta = "rope_theta=10000",
      .window = "sliding_window=4096",
      .has_window = has_window_olmo3,
      POSITIONS(2048),
      .pass = { AROUND, NORMS_INSIDE, GATED, RMS("0.00001"), .activation = "hidden_act=silu",
                .tied = "tie_word_embeddings" } },
    { .model_type = "exaone4",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      .kv_heads = "num_key_value_heads=32",
      .norms = { "q_norm", "k_norm" },
      .norm_eps = "rms_norm_eps=0.00001",
      .window = "sliding_window=4096",
      .has_window = has_window_exaone4,
      .adjust = adjust_exaone4,
      POSITIONS(2048),
      .reads = "sliding_window_pattern",
      .pass = { AROUND, NORMS_INSIDE, GATED, RMS("0.00001"), .activation = "hidden_act=silu",
                .tied = "tie_word_embeddings" } },
    { .model_type = "seed_oss",
      LLAMA_TENSORS,
      SIZES(64, 4096, 80),
      .head_dim = "head_dim=128",
      .kv_heads = "num_key_value_heads=8",
      .more_biases = Q | K | V,
      .more_biases_if = "attention_bias=true",
      .theta = "rope_theta=10000",
      .adjust = adjust_seed_oss,
      POSITIONS(524288),
      .reads = "attention_out_bias",
      .pass = { LLAMA_PASS, RMS("0.000001"), .biases = "mlp_bias" } },
    /* ernie4_5/modular_ernie4_5.py: Ernie4_5Attention turns pairs of neighbours. */
    { .model_type = "ernie4_5",
      LLAMA_TENSORS,
      SIZES(18, 1024, 16),
      .head_dim = "head_dim=128",
      .kv_heads = "num_key_value_heads=2",
      .more_biases = Q | K | V | O,
      .more_biases_if = "use_bias",
      .theta = "rope_theta=500000",
      .interleaved = true,
      POSITIONS(131072),
      .pass = { AROUND, LLAMA_NORMS, GATED, RMS("0.00001"), .biases = "use_bias",
                .activation = "hidden_act=silu", .tied = "tie_word_embeddings=true" } },
    { .model_type = "glm", GLM, .pass = { GLM_PASS, LLAMA_NORMS } },
    /* glm4/modular_glm4.py: Glm4DecoderLayer has norms on both sides of each part. */
    { .model_type = "glm4",
      GLM,
      .pass = { GLM_PASS,
                .attention = { .before = "input_layernorm", .inside = "post_self_attn_layernorm" },
                .feed_forward = { .before = "post_attention_layernorm",
                                  .inside = "post_mlp_layernorm" } } },
    /* InternLM2Attention, InternLM2MLP of modeling_internlm2.py, which is beside the model. */
    { .model_type = "internlm2",
      SELF("model.|", "layers.%.", "attention."),
      .projections = FUSED("wqkv", "wo"),
      .fusion = CHECKPOINT_GROUPS,
      SIZES(32, 4096, 32),
      .kv_heads = "num_key_value_heads",
      .more_biases = Q | O,
      .more_biases_if = "bias=true",
      .causal = "=true",
      .theta = "rope_theta=10000",
      POSITIONS(2048),
      .expected = "rope_pos_id_version=default",
      .ignored = "attn_implementation|rope_pos_id_stride|pruned_heads",
      .pass = { .tokens = "tok_embeddings",
                NORMS_BEFORE("attention_norm", "ffn_norm"),
                RMS("0.000001"),
                .gate = "feed_forward.w1",
                .up = "feed_forward.w3",
                .down = "feed_forward.w2",
                .activation = "hidden_act=silu",
                .final_norm = "norm",
                .output = "/output",
                .tied = "tie_word_embeddings" } },
    /* Of mistral3 the text: mistral/modeling_mistral.py, ministral3/modular_ministral3.py. */
    { .model_type = "mistral3",
      .kind = "self",
      .section = "text_config",
      .section_is_needed = true,
      .prefixes = "language_model.model.|model.language_model.|model.",
      .block = "layers.%.",
      .attention = "self_attn.",
      .projections = PROJECTIONS("q_proj", "k_proj", "v_proj", "o_proj"),
      .causal = "=true",
      .head_dim = "head_dim",
      LLAMA_FIELDS,
      .kv_heads = "num_key_value_heads=8",
      .window = "sliding_window=4096",
      .queries_grow = true,
      .adjust = adjust_ministral3,
      POSITIONS(131072),
      .ignored = "vision_config|vision_feature_layer|spatial_merge_size|projector_hidden_act|"
                 "multimodal_projector_bias|image_token_*",
      .pass = { .tokens = "embed_tokens",
                LLAMA_NORMS,
                GATED,
                RMS("0.000001"),
                .activation = "hidden_act=silu",
                .final_norm = "norm",
                .output = "/lm_head|/language_model.lm_head",
                .tied = "tie_word_embeddings",
                .tied_if_absent = true,
                .adjust = adjust_pass_ministral3 } },
    { .model_type = "ministral3",
      LLAMA_TENSORS,
      SIZES(34, 4096, 32),
      .head_dim = "head_dim=128",
      .kv_heads = "num_key_value_heads=8",
      .theta = "rope_theta=1000000",
      .window = "sliding_window",
      .queries_grow = true,
      .adjust = adjust_ministral3,
      POSITIONS(262144),
      .pass = { LLAMA_PASS, RMS("0.00001") } },
    /* arcee/modular_arcee.py: Llama with NemotronMLP. */
    { .model_type = "arcee",
      LLAMA_NAMES,
      SIZES(32, 2560, 32),
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads",
      .theta = "rope_theta=10000",
      POSITIONS(4096),
      .pass = { AROUND, LLAMA_NORMS, RMS("0.00001"), RELU_SQUARED,
                .tied = "tie_word_embeddings" } },
    /* nemotron/modeling_nemotron.py: NemotronLayerNorm1P adds 1 to its weight. */
    { .model_type = "nemotron",
      LLAMA_NAMES,
      SIZES(32, 6144, 48),
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads",
      .theta = "rope_theta=10000",
      .rotary_fraction = "partial_rotary_factor|rope_percentage|rope_percent=0.5",
      POSITIONS(4096),
      .ignored = "kv_channels",
      .pass = { AROUND, LLAMA_NORMS, PASS_NORMS("norm_eps=0.00001"), .norm_adds_one = true,
                RELU_SQUARED, .tied = "tie_word_embeddings" } },
    { .model_type = "llama4_text",
      .kind = "self",
      .prefixes = "model.|language_model.model.|",
      LLAMA4 },
    { .model_type = "llama4",
      .kind = "self",
      .section = "text_config",
      .section_is_needed = true,
      .prefixes = "language_model.model.|model.language_model.|model.",
      LLAMA4 },
    /* hunyuan_v1_dense/modular_hunyuan_v1_dense.py: norms of each head follow the rotation. */
    { .model_type = "hunyuan_v1_dense",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads",
      .norms = { "query_layernorm", "key_layernorm" },
      .norm_eps = "rms_norm_eps=0.00001",
      .norms_follow_rope = true,
      .alpha_scales_theta = true,
      POSITIONS(2048),
      .expected = "use_qk_norm=true",
      .refused = "use_cla",
      .ignored = "eod_token_id|cla_share_factor|attention_head_dim",
      .pass = { LLAMA_PASS, RMS("0.00001") } },
    /* apertus/modular_apertus.py: ApertusMLP without a gate, norms of each head. */
    { .model_type = "apertus",
      LLAMA_NAMES,
      SIZES(32, 4096, 32),
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads",
      .norms = { "q_norm", "k_norm" },
      .norm_eps = "rms_norm_eps=0.00001",
      .norms_if = "qk_norm=true",
      .theta = "rope_theta=12000000",
      .adjust = adjust_apertus,
      POSITIONS(65536),
      .expected = "post_norm=false",
      .pass = { AROUND, NORMS_BEFORE("attention_layernorm", "feedforward_layernorm"),
                RMS("0.00001"),
                FEED("mlp.up_proj", "mlp.down_proj", "mlp_bias", "hidden_act=xielu"),
                .xielu = "mlp.act_fn.", .tied = "tie_word_embeddings" } },
    { .model_type = NULL },
};
