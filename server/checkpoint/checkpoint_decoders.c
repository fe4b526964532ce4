/* checkpoint_decoders.c - the table of decoders whose tensors have names of their own.
 *
 * To add a family, put a row for each kind of its layers before the last row, as
 * checkpoint_families.h says. Compare it with the family's own source in
 * tests/unit/test_checkpoint_decoders.c, or in test_checkpoint_fused.c where query, key and value
 * are one tensor. Put a published config.json into tests/unit/published_configs.json. */
#include "checkpoint/checkpoint_families.h"

#include "checkpoint/checkpoint_fields.h"
#include "checkpoint/checkpoint_layer.h"
#include "checkpoint/checkpoint_mpt.h"
#include "checkpoint/checkpoint_rows.h"

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

const struct checkpoint_stack checkpoint_decoders[] = {
    { .model_type = "gpt2",
      .kind = "self",
      .prefixes = "transformer.|",
      .layer = "h.%.attn.",
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
                 "attention_probs_dropout_prob" },
    { .model_type = "gpt2",
      .kind = "cross",
      .prefixes = "transformer.|",
      .layer = "h.%.crossattention.",
      .projections = { "q_attn", "c_attn", NULL, "c_proj" },
      .fusion = CHECKPOINT_KEYS,
      .in_out = true,
      .biases = Q | K | O,
      .layers = "num_hidden_layers|n_layer=12",
      .width = "hidden_size|n_embd=768",
      .q_heads = "num_attention_heads|n_head=12",
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
      .rotary_fraction = "rotary_pct=0.25",
      POSITIONS(2048) },
    { .model_type = "gptj",
      .kind = "self",
      .prefixes = "transformer.|",
      .layer = "h.%.attn.",
      .projections = OUT_PROJ,
      .layers = "num_hidden_layers|n_layer=28",
      .width = "hidden_size|n_embd=4096",
      .q_heads = "num_attention_heads|n_head=16",
      .causal = "=true",
      .theta = "=10000",
      .rotary_dim = "rotary_dim=64",
      .interleaved = true,
      .expected = "is_causal=true|rotary=true|scale_attn_weights=true",
      .ignored = "n_inner" },
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
      .causal = "=true",
      .expected = "is_causal=true",
      .ignored = "learn_embeddings|scale_embeddings|word_embed_proj_dim" },
    { .model_type = "bloom",
      .kind = "self",
      .prefixes = "transformer.|",
      .layer = "h.%.self_attention.",
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
                 "skip_bias_add_qkv|slow_but_exact" },
    { .model_type = "falcon|RefinedWeb|RefinedWebModel",
      .kind = "self",
      .prefixes = "transformer.|",
      .layer = "h.%.self_attention.",
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
      .ignored = "apply_residual_connection_post_layernorm|ff_factor" },
    { .model_type = "mpt",
      .kind = "self",
      .prefixes = "transformer.|",
      .layer = "blocks.%.attn.",
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
      .adjust = checkpoint_mpt_adjust,
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
                 "use_pad_tok_in_ffn|verbose" },
    { .model_type = NULL },
};
