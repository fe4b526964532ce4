/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_decoders.c - the table of decoders that have their own names of tensors.
 *
 * checkpoint_family.h says how a family is added. Its attention is compared with its own source in
 * tests/unit/test_checkpoint_decoders.c, or in
 * test_checkpoint_fused.c where query, key and value are one tensor. */
#include "models/checkpoint/checkpoint_family_rows.h"

#include "models/checkpoint/checkpoint_fields.h"
#include "models/checkpoint/checkpoint_layer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* GPT-2 may leave scores unscaled, and may divide them by the number of the layer, from 1 on. */
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

/* The kind of layer index of GPT-Neo, "global" or "local", from attention_types, a list of pairs:
 * the names of some layers, and how often they come again. NULL: the list is none of such pairs, or
 * has no such layer. Source: expand_attention_types_params() of gpt_neo/configuration_gpt_neo.py.
 */
static const char *gpt_neo_type(const cJSON *section, int64_t index)
{
    const cJSON *types = cJSON_GetObjectItemCaseSensitive(section, "attention_types"), *pair;
    if (!types || cJSON_IsNull(types))
        return index % 2 == 0 ? "global" : "local";
    cJSON_ArrayForEach(pair, types) {
        const cJSON *names = cJSON_GetArrayItem(pair, 0), *times = cJSON_GetArrayItem(pair, 1);
        const int64_t count = cJSON_GetArraySize(names);
        const double repeats = cJSON_IsNumber(times) ? times->valuedouble : 0;
        if (!cJSON_IsArray(names) || count < 1 || !(repeats >= 0 && repeats <= MODEL_LAYERS_MAX))
            return NULL;
        if (index < count * (int64_t)repeats)
            return cJSON_GetStringValue(cJSON_GetArrayItem(names, (int)(index % count)));
        index -= count * (int64_t)repeats;
    }
    return NULL;
}

static bool has_window_gpt_neo(const cJSON *section, int64_t index)
{
    const char *type = gpt_neo_type(section, index);
    return type && strcmp(type, "local") == 0;
}

static bool check_gpt_neo(struct checkpoint_layer *layer, struct fault *fault)
{
    const char *type = gpt_neo_type(layer->run->section, layer->index);
    return (type && (strcmp(type, "local") == 0 || strcmp(type, "global") == 0))
           || fault_set_at(fault, "/config/attention_types", FAULT_OPTION,
                           "config.json's attention_types has '%.40s' for layer %" PRId64
                           "; expected global or local, in a list of [[names], repeats]",
                           type ? type : "nothing", layer->index);
}

/* GPTBigCode has one key/value head with multi_query, else as many as query heads. Which of the two
 * steps the scale is part of changes no number. */
static bool adjust_gpt_bigcode(struct checkpoint_layer *layer, struct fault *fault)
{
    const cJSON *section = layer->run->section;
    bool is_scaled, is_multi_query;
    if (!checkpoint_read_flag(section, "scale_attn_weights=true", &is_scaled, fault)
        || !checkpoint_read_flag(section, "multi_query=true", &is_multi_query, fault))
        return false;
    layer->config.kv_heads = is_multi_query ? 1 : layer->config.q_heads;
    layer->config.has_scale = !is_scaled;
    return true;
}

/* Falcon's new architecture has as many key/value heads as config.json gives. The old one has one
 * with multi_query, else as many as query heads. The config of the 40B's first release does not
 * name its architecture: it is the new one where n_head_kv is set
 * (convert_custom_code_checkpoint.py). */
static bool adjust_falcon(struct checkpoint_layer *layer, struct fault *fault)
{
    const cJSON *section = layer->run->section;
    struct model_config *config = &layer->config;
    bool is_new, is_multi_query;
    if (!checkpoint_read_flag(section, "new_decoder_architecture", &is_new, fault)
        || !checkpoint_read_flag(section, "multi_query=true", &is_multi_query, fault))
        return false;
    if (!is_new && !checkpoint_find_set(section, "n_head_kv"))
        config->kv_heads = is_multi_query ? 1 : config->q_heads;
    return true;
}

/* MPT. Source: llmfoundry/models/layers/attention.py, mpt/modeling_mpt.py and
 * utils/config_defaults.py of mosaicml/llm-foundry at 8c8dd48f7, of which transformers' MPT is a
 * part. */

/* The string that an object has under a name; otherwise, where it has no string there. */
static const char *string_in(const cJSON *object, const char *name, const char *otherwise)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(node) ? node->valuestring : otherwise;
}

static bool refuse_mpt(const char *field, const char *value, const char *expected,
                       struct fault *fault)
{
    char pointer[FAULT_POINTER_MAX];
    snprintf(pointer, sizeof pointer, "/config/attn_config/%s", field);
    return fault_set_at(fault, pointer, FAULT_OPTION, "config.json's %s is '%.40s'; expected %s",
                        field, value, expected);
}

/* attention_bias is for the projections before attention, no_bias for all. Where attention_bias is
 * null, no_bias decides for them too. */
static bool mpt_read_biases(struct checkpoint_layer *layer, struct fault *fault)
{
    const cJSON *section = layer->run->section;
    const cJSON *own = cJSON_GetObjectItemCaseSensitive(section, "attention_bias");
    bool is_bare, has_biases;
    if (!checkpoint_read_flag(section, "no_bias=true", &is_bare, fault)
        || !checkpoint_read_flag(section, "attention_bias", &has_biases, fault))
        return false;
    if (!cJSON_IsBool(own))
        has_biases = !is_bare;
    layer->biases = (is_bare ? 0u : 1u << MODEL_O) | (has_biases ? 1u << MODEL_Q : 0u);
    return true;
}

static bool mpt_read_heads(struct checkpoint_layer *layer, const cJSON *attention,
                           struct fault *fault)
{
    const char *type = string_in(attention, "attn_type", "multihead_attention");
    struct model_config *config = &layer->config;
    if (config->q_heads * config->head_dim != layer->width)
        return fault_set_at(fault, "/config/head_dim", FAULT_SHAPE,
                            "config.json gives %" PRId64 " heads of %" PRId64
                            " columns (head_dim); expected %" PRId64 " columns together (d_model)",
                            config->q_heads, config->head_dim, layer->width);
    if (strcmp(type, "grouped_query_attention") == 0)
        return true; /* kv_heads is kv_n_heads already */
    config->kv_heads = config->q_heads;
    if (strcmp(type, "multihead_attention") == 0)
        return true;
    config->kv_heads = 1;
    return strcmp(type, "multiquery_attention") == 0
           || refuse_mpt("attn_type", type,
                         "multihead_attention, grouped_query_attention or multiquery_attention",
                         fault);
}

/* A window of W is the W keys before a row's own; -1 is none. */
static bool mpt_read_window(struct checkpoint_layer *layer, const cJSON *attention,
                            struct fault *fault)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(attention, "sliding_window_size");
    if (!node || cJSON_IsNull(node) || (cJSON_IsNumber(node) && node->valuedouble == -1))
        return true;
    return checkpoint_read_integer(attention, "sliding_window_size", &layer->config.window_left,
                                   fault);
}

/* Rotary embeddings are those of flash-attn ("dail"), which are never scaled, or of transformers
 * ("hf"). A model that has them has no slopes by default, and is refused if it asks for both. */
static bool mpt_read_rope(struct checkpoint_layer *layer, const cJSON *attention,
                          struct fault *fault)
{
    const char *source = string_in(attention, "rope_impl", "dail");
    const cJSON *dail = cJSON_GetObjectItemCaseSensitive(attention, "rope_dail_config");
    const char *type = string_in(dail, "type", "original");
    bool is_rotary;
    if (!checkpoint_read_flag(attention, "rope", &is_rotary, fault))
        return false;
    if (!is_rotary)
        return true;
    layer->is_unscaled = strcmp(source, "dail") == 0;
    if (!layer->is_unscaled && strcmp(source, "hf") != 0)
        return refuse_mpt("rope_impl", source, "dail or hf", fault);
    if (layer->is_unscaled && strcmp(type, "original") != 0)
        return refuse_mpt("rope_dail_config/type", type, "original", fault);
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(attention, "alibi")))
        return refuse_mpt("alibi", "true", "false beside rope", fault);
    layer->has_alibi = false;
    return true;
}

/* Temperature tuning multiplies queries by a factor that grows with their position. */
static bool mpt_check_temperature(const cJSON *attention, struct fault *fault)
{
    const cJSON *tuning = cJSON_GetObjectItemCaseSensitive(attention, "attn_temperature_tuning");
    return !checkpoint_find_set(tuning, "attn_scale")
           || refuse_mpt("attn_temperature_tuning/attn_scale", "not 0", "0", fault);
}

static bool adjust_mpt(struct checkpoint_layer *layer, struct fault *fault)
{
    const cJSON *attention = cJSON_GetObjectItemCaseSensitive(layer->run->section, "attn_config");
    return mpt_read_biases(layer, fault) && mpt_read_heads(layer, attention, fault)
           && mpt_read_window(layer, attention, fault) && mpt_read_rope(layer, attention, fault)
           && mpt_check_temperature(attention, fault);
}

/* ---------------------------------------------------------- around attention -- */

/* opt/modeling_opt.py, OPTDecoderLayer and OPTDecoder: the 350M norms after its steps, and has no
 * last norm then. Norms may have no parameters. */
static bool adjust_opt(struct checkpoint_pass *pass, const cJSON *section, struct fault *fault)
{
    bool is_before, has_parameters, has_no_last;
    if (!checkpoint_read_flag(section, "do_layer_norm_before=true", &is_before, fault)
        || !checkpoint_read_flag(section, "layer_norm_elementwise_affine=true", &has_parameters,
                                 fault)
        || !checkpoint_read_flag(section, "_remove_final_layer_norm", &has_no_last, fault))
        return false;
    pass->norm_is_bare = !has_parameters;
    if (!is_before) {
        pass->attention = (struct checkpoint_norms){ .after = pass->attention.before };
        pass->feed_forward = (struct checkpoint_norms){ .after = pass->feed_forward.before };
    }
    if (!is_before || has_no_last)
        pass->final_norm = NULL;
    return true;
}

/* bloom/modeling_bloom.py, BloomBlock: residuals may be the rows after the norm. */
static bool adjust_bloom(struct checkpoint_pass *pass, const cJSON *section, struct fault *fault)
{
    (void)pass;
    return !checkpoint_find_set(section, "apply_residual_connection_post_layernorm")
           || fault_set(fault, FAULT_OPTION,
                        "config.json sets apply_residual_connection_post_layernorm, with which the "
                        "whole pass is not computed here");
}

/* falcon/modeling_falcon.py, FalconDecoderLayer: in parallel with one norm or with two, or one
 * after the other. The 40B's first release is of the new architecture without its name. */
static bool adjust_falcon_pass(struct checkpoint_pass *pass, const cJSON *section,
                               struct fault *fault)
{
    bool is_new, is_parallel;
    int64_t norm_count;
    if (!checkpoint_read_flag(section, "new_decoder_architecture", &is_new, fault)
        || !checkpoint_read_flag(section, "parallel_attn=true", &is_parallel, fault)
        || !checkpoint_read_integer(section, "num_ln_in_parallel_attn", &norm_count, fault))
        return false;
    is_new = is_new || checkpoint_find_set(section, "n_head_kv");
    if (norm_count == 0)
        norm_count = is_new ? 2 : 1;
    if (!is_new && !is_parallel)
        return true;
    pass->parallel = "=true";
    pass->attention.before = is_new && norm_count == 2 ? "ln_attn" : "input_layernorm";
    pass->feed_forward.before = is_new && norm_count == 2 ? "ln_mlp" : "input_layernorm";
    return true;
}

static bool refuse_mpt_pass(const char *field, const char *value, struct fault *fault)
{
    return fault_set(fault, FAULT_OPTION,
                     "config.json's %s is '%.40s', with which the whole pass is not computed here",
                     field, value);
}

/* MPT's feed-forward: mptmlp, or mptglu with a gate; its activation is a function of
 * torch.nn.functional. */
static bool adjust_mpt_feed_forward(struct checkpoint_pass *pass, const cJSON *section,
                                    struct fault *fault)
{
    const char *type, *activation, *form;
    if (!checkpoint_read_string(section, "ffn_config.ffn_type=mptmlp", &type, fault))
        return false;
    const cJSON *function = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(section, "ffn_config"), "ffn_act_fn");
    if (!checkpoint_read_string(function, "name=gelu", &activation, fault)
        || !checkpoint_read_string(function, "approximate=none", &form, fault))
        return false;
    if (strcmp(type, "mptglu") == 0)
        pass->gate = "ffn.gate_proj";
    else if (strcmp(type, "mptmlp") != 0)
        return refuse_mpt_pass("ffn_config.ffn_type", type, fault);
    const bool is_gelu = strcmp(activation, "gelu") == 0;
    if (is_gelu)
        pass->activation = strcmp(form, "tanh") == 0 ? "=gelu_pytorch_tanh" : "=gelu";
    else if (strcmp(activation, "silu") == 0)
        pass->activation = "=silu";
    else if (strcmp(activation, "relu") == 0)
        pass->activation = "=relu";
    else
        return refuse_mpt_pass("ffn_config.ffn_act_fn.name", activation, fault);
    return true;
}

/* llmfoundry/models/mpt/modeling_mpt.py and layers/norm.py of mosaicml/llm-foundry at 8c8dd48f7, of
 * which transformers' MPT is a part: positions are learned where there are no others. */
static bool adjust_mpt_pass(struct checkpoint_pass *pass, const cJSON *section, struct fault *fault)
{
    const char *type;
    bool is_bare, has_alibi, has_rope, has_positions;
    if (!checkpoint_read_flag(section, "no_bias=true", &is_bare, fault)
        || !checkpoint_read_flag(section, "attn_config.alibi=true", &has_alibi, fault)
        || !checkpoint_read_flag(section, "attn_config.rope", &has_rope, fault)
        || !checkpoint_read_flag(section, "learned_pos_emb=true", &has_positions, fault)
        || !checkpoint_read_string(section, "norm_type=layernorm", &type, fault)
        || !adjust_mpt_feed_forward(pass, section, fault))
        return false;
    const bool is_rms = strcmp(type, "rmsnorm") == 0 || strcmp(type, "low_precision_rmsnorm") == 0;
    if (!is_rms && strcmp(type, "layernorm") != 0 && strcmp(type, "low_precision_layernorm") != 0)
        return refuse_mpt_pass("norm_type", type, fault);
    pass->norm_is_centred = !is_rms;
    pass->norm_bias = is_rms || is_bare ? NULL : "=true";
    pass->biases = is_bare ? NULL : "=true";
    if (!has_positions || has_alibi || has_rope)
        pass->positions = NULL;
    const cJSON *scale = cJSON_GetObjectItemCaseSensitive(section, "logit_scale");
    if (cJSON_IsString(scale)) {
        if (strcmp(scale->valuestring, "inv_sqrt_d_model") != 0)
            return refuse_mpt_pass("logit_scale", scale->valuestring, fault);
        pass->logit_scale = NULL;
        pass->logit_root_divisor_if = "=true";
    }
    return true;
}

/* GPT-J and CodeGen, which projects otherwise. */
#define GPTJ_FIELDS                                                                                \
    .layers = "num_hidden_layers|n_layer=28", .width = "hidden_size|n_embd=4096",                  \
    .q_heads = "num_attention_heads|n_head=16", .causal = "=true", .theta = "=10000",              \
    .rotary_dim = "rotary_dim=64", .interleaved = true
#define GPTJ_PASS                                                                                  \
    .tokens = "wte", NORMS_BEFORE("ln_1", "ln_1"), .parallel = "=true",                            \
    PASS_NORMS("layer_norm_epsilon=0.00001"),                                                      \
    FEED("mlp.fc_in", "mlp.fc_out", "=true", "activation_function=gelu_new"),                      \
    .final_norm = "ln_f", .output = "/lm_head", .output_bias = "/lm_head.bias",                    \
    .tied = "tie_word_embeddings"

const struct checkpoint_stack checkpoint_decoders[] = {
    /* gpt2/modeling_gpt2.py: GPT2Model, GPT2Block, GPT2MLP. */
    { .model_type = "gpt2",
      SELF("transformer.|", "h.%.", "attn."),
      .projections = FUSED("c_attn", "c_proj"),
      .fusion = CHECKPOINT_ROWS,
      .in_out = true,
      .biases = Q | O,
      .layers = "num_hidden_layers|n_layer=12",
      .width = "hidden_size|n_embd=768",
      .q_heads = "num_attention_heads|n_head=12",
      .causal = "=true",
      .adjust = adjust_gpt2,
      .reads = "scale_attn_weights|scale_attn_by_inverse_layer_idx",
      .ignored = "n_inner|n_special|predict_special_tokens|reorder_and_upcast_attn|"
                 "attention_probs_dropout_prob",
      .pass = { .tokens = "wte",
                .positions = "wpe",
                NORMS_BEFORE("ln_1", "ln_2"),
                PASS_NORMS("layer_norm_epsilon=0.00001"),
                .in_out = true,
                FEED("mlp.c_fc", "mlp.c_proj", "=true", "activation_function=gelu_new"),
                .final_norm = "ln_f",
                LM_HEAD("tie_word_embeddings=true") } },
    { .model_type = "gpt2",
      .kind = "cross",
      .prefixes = "transformer.|",
      .block = "h.%.",
      .attention = "crossattention.",
      .projections = { "q_attn", "c_attn", NULL, "c_proj" },
      .fusion = CHECKPOINT_KEYS,
      .in_out = true,
      .biases = Q | K | O,
      .layers = "num_hidden_layers|n_layer=12",
      .width = "hidden_size|n_embd=768",
      .q_heads = "num_attention_heads|n_head=12",
      .adjust = adjust_gpt2 },
    /* gpt_neo/modeling_gpt_neo.py: GPTNeoModel, GPTNeoBlock, GPTNeoMLP. */
    { .model_type = "gpt_neo",
      SELF("transformer.|", "h.%.", "attn.attention."),
      .projections = OUT_PROJ,
      .biases = O,
      .layers = "num_hidden_layers|num_layers=24",
      .width = "hidden_size=2048",
      .q_heads = "num_attention_heads|num_heads=16",
      .causal = "=true",
      .unscaled = true,
      .window = "window_size=256",
      .has_window = has_window_gpt_neo,
      .adjust = check_gpt_neo,
      .expected = "is_causal=true",
      .reads = "attention_types",
      .ignored = "attention_layers",
      .pass = { .tokens = "wte",
                .positions = "wpe",
                NORMS_BEFORE("ln_1", "ln_2"),
                PASS_NORMS("layer_norm_epsilon=0.00001"),
                FEED("mlp.c_fc", "mlp.c_proj", "=true", "activation_function=gelu_new"),
                .final_norm = "ln_f",
                LM_HEAD("tie_word_embeddings=true") } },
    /* gpt_neox/modeling_gpt_neox.py: GPTNeoXLayer. */
    { .model_type = "gpt_neox",
      SELF("gpt_neox.|", "layers.%.", "attention."),
      .projections = FUSED("query_key_value", "dense"),
      .fusion = CHECKPOINT_GROUPS,
      .more_biases = Q | O,
      .more_biases_if = "attention_bias=true",
      SIZES(44, 6144, 64),
      .causal = "=true",
      .theta = "rotary_emb_base|rope_theta=10000",
      .rotary_fraction = "rotary_pct=0.25",
      POSITIONS(2048),
      .pass = { .tokens = "embed_in",
                NORMS_BEFORE("input_layernorm", "post_attention_layernorm"),
                .parallel = "use_parallel_residual=true",
                PASS_NORMS("layer_norm_eps=0.00001"),
                FEED("mlp.dense_h_to_4h", "mlp.dense_4h_to_h", "=true", "hidden_act=gelu"),
                .final_norm = "final_layer_norm",
                .output = "/embed_out",
                .tied = "tie_word_embeddings" } },
    /* gptj/modeling_gptj.py: GPTJBlock, GPTJMLP. */
    { .model_type = "gptj",
      SELF("transformer.|", "h.%.", "attn."),
      .projections = OUT_PROJ,
      GPTJ_FIELDS,
      .expected = "is_causal=true|rotary=true|scale_attn_weights=true",
      .ignored = "n_inner",
      .pass = { GPTJ_PASS } },
    /* codegen/modeling_codegen.py: CodeGenAttention, CodeGenBlock, CodeGenMLP. */
    { .model_type = "codegen",
      SELF("transformer.|", "h.%.", "attn."),
      .projections = FUSED("qkv_proj", "out_proj"),
      .fusion = CHECKPOINT_QUARTERS,
      GPTJ_FIELDS,
      .ignored = "n_inner|scale_attn_weights",
      .pass = { GPTJ_PASS } },
    /* gpt_bigcode/modeling_gpt_bigcode.py: GPTBigCodeAttention, GPTBigCodeBlock, GPTBigCodeMLP. */
    { .model_type = "gpt_bigcode",
      SELF("transformer.|", "h.%.", "attn."),
      .projections = FUSED("c_attn", "c_proj"),
      .fusion = CHECKPOINT_GROUPS,
      .biases = Q | O,
      .layers = "num_hidden_layers|n_layer=12",
      .width = "hidden_size|n_embd=768",
      .q_heads = "num_attention_heads|n_head=12",
      .causal = "=true",
      .adjust = adjust_gpt_bigcode,
      .refused = "add_cross_attention",
      .reads = "multi_query|scale_attn_weights",
      .ignored = "n_inner|attention_softmax_in_fp32|scale_attention_softmax_in_fp32|"
                 "num_key_value_heads|inference_runner|validate_runner_input|max_batch_size",
      .pass = { .tokens = "wte",
                .positions = "wpe",
                NORMS_BEFORE("ln_1", "ln_2"),
                PASS_NORMS("layer_norm_epsilon=0.00001"),
                FEED("mlp.c_fc", "mlp.c_proj", "=true", "activation_function=gelu_pytorch_tanh"),
                .final_norm = "ln_f",
                LM_HEAD("tie_word_embeddings=true") } },
    { .model_type = "opt",
      SELF("model.decoder.|decoder.", "layers.%.", "self_attn."),
      .projections = OUT_PROJ,
      .more_biases = Q | K | V | O,
      .more_biases_if = "enable_bias=true",
      SIZES(12, 768, 12),
      .causal = "=true",
      .expected = "is_causal=true",
      .ignored = "learn_embeddings|scale_embeddings|word_embed_proj_dim",
      .pass = { .tokens = "embed_tokens",
                .token_projection = "project_in",
                .positions = "embed_positions",
                .position_offset = "=2",
                NORMS_BEFORE("self_attn_layer_norm", "final_layer_norm"),
                PASS_NORMS("=0.00001"),
                FEED("fc1", "fc2", "enable_bias=true", "activation_function=relu"),
                .final_norm = "final_layer_norm",
                .head_projection = "project_out",
                LM_HEAD("tie_word_embeddings=true"),
                .adjust = adjust_opt,
                .reads = "do_layer_norm_before|layer_norm_elementwise_affine|_remove_final_layer_"
                         "norm" } },
    /* BloomGelu is the one of the hyperbolic tangent. */
    { .model_type = "bloom",
      SELF("transformer.|", "h.%.", "self_attention."),
      .projections = FUSED("query_key_value", "dense"),
      .fusion = CHECKPOINT_GROUPS,
      .biases = Q | O,
      .layers = "num_hidden_layers|n_layer=2",
      .width = "n_embed|hidden_size=64",
      .q_heads = "num_attention_heads|n_head=8",
      .causal = "=true",
      .alibi = "=true",
      .expected = "is_causal=true",
      .ignored = "n_inner|attention_softmax_in_fp32|"
                 "bias_dropout_fusion|masked_softmax_fusion|offset_alibi|skip_bias_add|"
                 "skip_bias_add_qkv|slow_but_exact",
      .pass = { .tokens = "word_embeddings",
                .embedding_norm = "word_embeddings_layernorm",
                NORMS_BEFORE("input_layernorm", "post_attention_layernorm"),
                PASS_NORMS("layer_norm_epsilon=0.00001"),
                FEED("mlp.dense_h_to_4h", "mlp.dense_4h_to_h", "=true", "=gelu_new"),
                .final_norm = "ln_f",
                LM_HEAD("tie_word_embeddings=true"),
                .adjust = adjust_bloom,
                .reads = "apply_residual_connection_post_layernorm" } },
    { .model_type = "falcon|RefinedWeb|RefinedWebModel",
      SELF("transformer.|", "h.%.", "self_attention."),
      .projections = FUSED("query_key_value", "dense"),
      .fusion = CHECKPOINT_GROUPS,
      .more_biases = Q | O,
      .more_biases_if = "bias",
      .layers = "num_hidden_layers|n_layer=32",
      .width = "n_embed|hidden_size=4544",
      .q_heads = "num_attention_heads|n_head=71",
      .kv_heads = "num_kv_heads|n_head_kv",
      .causal = "=true",
      .theta = "rope_theta=10000",
      .alibi = "alibi",
      .alibi_is_scaled = true,
      .adjust = adjust_falcon,
      POSITIONS(2048),
      .expected = "is_causal=true",
      .reads = "new_decoder_architecture|multi_query",
      .ignored = "apply_residual_connection_post_layernorm|ff_factor",
      .pass = { .tokens = "word_embeddings",
                NORMS_BEFORE("input_layernorm", "post_attention_layernorm"),
                PASS_NORMS("layer_norm_epsilon=0.00001"),
                FEED("mlp.dense_h_to_4h", "mlp.dense_4h_to_h", "bias", "activation=gelu"),
                .final_norm = "ln_f",
                LM_HEAD("tie_word_embeddings=true"),
                .adjust = adjust_falcon_pass,
                .reads = "parallel_attn|num_ln_in_parallel_attn" } },
    { .model_type = "mpt",
      SELF("transformer.|", "blocks.%.", "attn."),
      .projections = FUSED("Wqkv", "out_proj"),
      .fusion = CHECKPOINT_ROWS,
      .layers = "num_hidden_layers|n_layers=24",
      .width = "hidden_size|d_model=2048",
      .q_heads = "num_attention_heads|n_heads=16",
      .causal = "=true",
      .kv_heads = "attn_config.kv_n_heads",
      .head_dim = "head_dim",
      .clip = "attn_config.clip_qkv",
      .scale = "attn_config.softmax_scale",
      .softcap = "attn_config.attn_logit_softcapping",
      .alibi = "attn_config.alibi=true",
      .alibi_max = "attn_config.alibi_bias_max=8",
      .theta = "attn_config.rope_theta=10000",
      .rope_if = "attn_config.rope",
      .scaling = "attn_config.rope_hf_config",
      .positions = "max_seq_len=2048",
      .refused = "attn_config.qk_ln|attn_config.qk_gn|attn_config.prefix_lm|block_overrides|"
                 "attn_config.kv_dim|attn_config.nope|attn_config.reuse_kv_layer_idx|"
                 "attn_config.reuse_kv_x_layer_idx",
      .adjust = adjust_mpt,
      .expected = "is_causal=true",
      .reads = "no_bias|attention_bias|attn_config.attn_type|attn_config.sliding_window_size|"
               "attn_config.rope_impl|attn_config.rope_dail_config.type|"
               "attn_config.attn_temperature_tuning.attn_scale",
      .ignored = "loss_fn|attn_config.attn_impl|attn_config.attn_pdrop|"
                 "attn_config.attn_uses_sequence_id|attn_config.fused_qkv|"
                 "attn_config.rope_dail_config.pos_idx_in_fp32|"
                 "attn_config.rope_dail_config.xpos_scale_base|"
                 "attn_config.attn_temperature_tuning.floor_scale|attn_config.model_type|"
                 "emb_pdrop|embedding_fraction|expansion_ratio|ffn_config|fc_type|"
                 "use_pad_tok_in_ffn|verbose",
      .pass = { .tokens = "wte",
                .positions = "wpe",
                NORMS_BEFORE("norm_1", "norm_2"),
                .norm_eps = "layer_norm_epsilon|norm_eps=0.00001",
                .up = "ffn.up_proj",
                .down = "ffn.down_proj",
                .final_norm = "norm_f",
                LM_HEAD("tie_word_embeddings=true"),
                .logit_scale = "logit_scale",
                .logit_softcap = "final_logit_softcapping",
                .adjust = adjust_mpt_pass,
                .reads = "learned_pos_emb|norm_type" } },
    { .model_type = NULL },
};
