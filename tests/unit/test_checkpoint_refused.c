/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_refused.c - published checkpoints that are refused, and the messages. */
#include "published.h"
#include "test.h"

#define Q               "model.layers.#.self_attn.q_proj.weight 8x8"
#define QUANTISED(part) "model.layers.#.self_attn.q_proj." part " 8x8"
#define KVO                                                                                        \
    "model.layers.#.self_attn.k_proj.weight 8x8, model.layers.#.self_attn.v_proj.weight 8x8, "     \
    "model.layers.#.self_attn.o_proj.weight 8x8"
#define LLAMA(more)                                                                                \
    "{\"model_type\":\"llama\",\"hidden_size\":8,\"num_attention_heads\":2,"                       \
    "\"num_hidden_layers\":2" more "}"

#define FALCON_H1(more)                                                                            \
    "{\"model_type\":\"falcon_h1\",\"hidden_size\":8,\"num_attention_heads\":2,"                   \
    "\"num_key_value_heads\":2,\"num_hidden_layers\":2" more "}"

#define T5                                                                                         \
    "encoder.block.#.layer.0.SelfAttention.q.weight 4x4, "                                         \
    "encoder.block.#.layer.0.SelfAttention.k.weight 4x4, "                                         \
    "encoder.block.#.layer.0.SelfAttention.v.weight 4x4, "                                         \
    "encoder.block.#.layer.0.SelfAttention.o.weight 4x4"

#define SEQ2SEQ                                                                                    \
    PUBLISHED_LINEARS("model.encoder.layers.#.self_attn.", "q_proj", "k_proj", "v_proj",           \
                      "out_proj", "8")                                                             \
    ", " PUBLISHED_LINEARS(                                                                        \
        "model.decoder.layers.#.self_attn.", "q_proj", "k_proj", "v_proj", "out_proj",             \
        "8") ", " PUBLISHED_LINEARS("model.decoder.layers.#.encoder_attn.", "q_proj", "k_proj",    \
                                    "v_proj", "out_proj", "8")

#define BEIT(more)                                                                                 \
    "{\"model_type\":\"beit\",\"hidden_size\":4,\"num_attention_heads\":2,"                        \
    "\"num_hidden_layers\":2,\"image_size\":[32,48],\"patch_size\":16" more "}"
#define BEIT_TENSORS                                                                               \
    "encoder.layer.#.attention.attention.query.weight 4x4, "                                       \
    "encoder.layer.#.attention.attention.query.bias 4, "                                           \
    "encoder.layer.#.attention.attention.key.weight 4x4, "                                         \
    "encoder.layer.#.attention.attention.value.weight 4x4, "                                       \
    "encoder.layer.#.attention.attention.value.bias 4, "                                           \
    "encoder.layer.#.attention.output.dense.weight 4x4, "                                          \
    "encoder.layer.#.attention.output.dense.bias 4"

#define NEOX(more)                                                                                 \
    "{\"model_type\":\"gpt_neox\",\"hidden_size\":8,\"num_attention_heads\":2,"                    \
    "\"num_hidden_layers\":2" more "}"
#define NEOX_TENSORS                                                                               \
    "gpt_neox.layers.#.attention.query_key_value.weight 24x8, "                                    \
    "gpt_neox.layers.#.attention.query_key_value.bias 24, "                                        \
    "gpt_neox.layers.#.attention.dense.weight 8x8, gpt_neox.layers.#.attention.dense.bias 8"

#define BERT(more)                                                                                 \
    "{\"model_type\":\"bert\",\"hidden_size\":8,\"num_attention_heads\":2,"                        \
    "\"num_hidden_layers\":2" more "}"
#define BERT_TENSORS                                                                               \
    PUBLISHED_LINEARS("bert.encoder.layer.#.attention.", "self.query", "self.key", "self.value",   \
                      "output.dense", "8")

struct refused {
    const char *config, *tensors;
    enum fault_code code;
    const char *words;
};

static const struct refused REFUSED[] = {
    /* Families. */
    { "{\"model_type\":\"mamba\"}", "backbone.layers.#.mixer.in_proj.weight 8x8", FAULT_OPTION,
      "model_type 'mamba' is not known here; no family known here has its names; write "
      "{\"attention\":" },
    { "{\"model_type\":\"mamba\"}", "backbone.layers.#.mixer.in_proj.weight 8x8", FAULT_OPTION,
      "backbone.layers.0.mixer.in_proj.weight" },
    { "{\"architectures\":[\"X\"]}", "a 8", FAULT_OPTION, "none by its names" },
    { "{\"model_type\":\"x\"}",
      "x.#.attention.first.weight 4, x.#.attention.second.weight 4, x.#.attention.third.weight 4",
      FAULT_OPTION, " and 3 more" },
    { "{\"model_type\":\"bert\"}", Q ", " KVO, FAULT_OPTION,
      "model_type 'bert' has other tensors; its tensors have the names of 'llama': where it "
      "computes "
      "the same, that may be its model_type; write" },
    { "{\"model_type\":\"newer\"}",
      Q ", " KVO
        ", model.layers.#.self_attn.q_norm.weight 4, model.layers.#.self_attn.k_norm.weight 4",
      FAULT_OPTION,
      "it has norms of query and key, which a config of ours cannot say; its tensors have the "
      "names "
      "of 'qwen3', the nearest family; write" },
    { "{\"model_type\":\"newer\"}", Q ", " KVO ", model.layers.#.self_attn.sinks 2", FAULT_OPTION,
      "it has sinks, which a config of ours cannot say; its tensors have the names of 'llama', the "
      "nearest family; write" },
    { "{\"model_type\":\"minicpm3\"}",
      "model.layers.#.post_attention_layernorm.weight 8, "
      "model.layers.#.self_attn.kv_a_proj_with_mqa.weight 8x8, "
      "model.layers.#.self_attn.kv_a_layernorm.weight 8",
      FAULT_OPTION,
      "is not known here; it has latent projections, which a config of ours cannot say; no family "
      "known here has its names; write "
      "{\"attention\":\"scaled_dot_product\",\"layers\":N,\"q_heads\":N,\"tensors\":"
      "{\"layers.0.q_proj.weight\":\"...\"}} as config.json only where these may be left out; "
      "attention in this file: model.layers.0.self_attn.kv_a_proj_with_mqa.weight and 1 more" },
    { "{\"model_type\":\"qwen3_next\"}",
      Q ", " KVO
        ", model.layers.#.linear_attn.A_log 4, model.layers.#.linear_attn.out_proj.weight 8x8",
      FAULT_OPTION, "it has linear attention, a state space, which" },
    /* A number that keys are multiplied by. */
    { FALCON_H1(",\"key_multiplier\":0"), Q ", " KVO, FAULT_OPTION,
      "key_multiplier is 0; expected a number above 0" },
    { FALCON_H1(",\"key_multiplier\":-1"), Q ", " KVO, FAULT_OPTION, "key_multiplier is -1" },
    { FALCON_H1(",\"key_multiplier\":[1]"), Q ", " KVO, FAULT_TYPE, "key_multiplier is a list" },
    /* The nearest family: behind a word of one's own, with all of its stacks, with its biases. */
    { "{\"model_type\":\"audio-spectrogram-transformer\"}",
      PUBLISHED_LINEARS("own.encoder.layer.#.attention.", "attention.query", "attention.key",
                        "attention.value", "output.dense", "8"),
      FAULT_OPTION,
      "model_type 'audio-spectrogram-transformer' is not known here; its tensors have the names of "
      "'vit': where" },
    { "{\"model_type\":\"newer\"}", SEQ2SEQ, FAULT_OPTION, "names of 'bart': where" },
    { "{\"model_type\":\"newer\"}",
      Q ", " KVO
        ", model.layers.#.self_attn.q_proj.bias 8, model.layers.#.self_attn.k_proj.bias 8, "
        "model.layers.#.self_attn.v_proj.bias 8",
      FAULT_OPTION, "names of 'qwen2': where" },
    { "{\"model_type\":\"newer\"}", "own.part." Q, FAULT_OPTION,
      "no family known here has its names" },
    { "{\"model_type\":\"jais\"}",
      "transformer.h.#.attn.c_attn.weight 12x8, transformer.h.#.attn.c_proj.weight 8x8, "
      "transformer.h.#.attn.bias 1x1x4x4",
      FAULT_OPTION,
      "names of 'gpt_bigcode': where it computes the same, that may be its model_type; write "
      "{\"attention\":\"scaled_dot_product\","
      "\"layers\":N,\"q_heads\":N,\"tensors\":{\"layers.0.q_proj.weight\":\"...\"}} as "
      "config.json; "
      "attention in this file: transformer.h.0.attn.c_attn.weight, "
      "transformer.h.1.attn.c_attn.weight and 2 more" },
    /* Whole words of names count: this is no norm of keys, and that no query of attention. */
    { "{\"model_type\":\"newer\"}",
      Q ", " KVO ", model.layers.#.block_norm.weight 8, query_positions.weight 8x8", FAULT_OPTION,
      "is not known here; its tensors have the names of 'llama': where it computes the same, that "
      "may be its model_type; write {\"attention\":\"scaled_dot_product\",\"layers\":N,"
      "\"q_heads\":N,\"tensors\":{\"layers.0.q_proj.weight\":\"...\"}} as config.json; attention "
      "in "
      "this file: model.layers.0.self_attn.q_proj.weight, model.layers.1.self_attn.q_proj.weight "
      "and 6 more" },
    { "{\"model_type\":\"newer\"}",
      "blocks.#.norm_attn_norm.attn.Wqkv.weight 24x8, blocks.#.norm_attn_norm.norm_1.weight 8, "
      "blocks.#.feed_forward.key.weight 8x8",
      FAULT_OPTION,
      "attention in this file: blocks.0.norm_attn_norm.attn.Wqkv.weight, "
      "blocks.1.norm_attn_norm.attn.Wqkv.weight" },
    { "{\"model_type\":\"newer\"}",
      "layers.#.temporal_block.k_proj.weight 8x8, layers.#.SelfAttention.o.weight 8x8",
      FAULT_OPTION,
      "attention in this file: layers.0.temporal_block.k_proj.weight, "
      "layers.1.temporal_block.k_proj.weight and 2 more" },
    /* Other parts of attention. */
    { "{\"model_type\":\"bitnet\"}", Q ", " KVO ", model.layers.#.self_attn.attn_sub_norm.weight 8",
      FAULT_OPTION, "it has a norm of the context, which" },
    { "{\"model_type\":\"swinv2\"}",
      "blocks.#.attention.self.relative_position_bias_table 4x4, "
      "blocks.#.attention.self.logit_scale 4, logit_scale 1",
      FAULT_OPTION, "it has relative positions, cosine scores, which" },
    { "{\"model_type\":\"xlnet\"}", "layer.#.rel_attn.r_w_bias 4x4, layer.#.rel_attn.q 8x8",
      FAULT_OPTION, "it has relative positions, which" },
    { "{\"model_type\":\"longformer\"}", "x.#.attention.self.query_global.weight 8x8", FAULT_OPTION,
      "it has global queries, which" },
    { "{\"model_type\":\"convbert\"}", "x.#.attention.self.conv_kernel_layer.weight 8x8",
      FAULT_OPTION, "it has convolutions, which" },
    { "{\"model_type\":\"mllama\"}", "layers.#.cross_attn_attn_gate 1, " Q, FAULT_OPTION,
      "it has gates, which" },
    { LLAMA(",\"quantization_config\":{\"quant_method\":\"gptq\"}"), Q, FAULT_DTYPE,
      "quantised (quant_method 'gptq'); expected F32, F16, BF16 or F64 parameters; take the model "
      "that it was made from" },
    /* Quantised ones, by what their config.json or their tensors say. */
    { LLAMA(",\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4}"), QUANTISED("qweight"),
      FAULT_DTYPE, "quantised (quant_method 'awq')" },
    { LLAMA(",\"quantization_config\":{\"load_in_8bit\":true}"), Q, FAULT_DTYPE,
      "quantised (quant_method 'bitsandbytes')" },
    { LLAMA(",\"quantization_config\":{\"bits\":4}"), Q, FAULT_DTYPE,
      "quantised (quant_method 'not said')" },
    { LLAMA(""), QUANTISED("qweight"), FAULT_DTYPE,
      "quantised (GPTQ or AWQ: it has a tensor 'model.layers.0.self_attn.q_proj.qweight')" },
    { LLAMA(""), QUANTISED("qzeros"), FAULT_DTYPE, "quantised (GPTQ or AWQ: it has a tensor" },
    { LLAMA(""), Q ", " KVO ", " QUANTISED("SCB"), FAULT_DTYPE,
      "quantised (bitsandbytes, 8 bits: it has a tensor 'model.layers.0.self_attn.q_proj.SCB')" },
    { LLAMA(""), Q ", " KVO ", " QUANTISED("weight.absmax"), FAULT_DTYPE,
      "quantised (bitsandbytes, 4 bits: it has a tensor" },
    { LLAMA(""), Q ", " KVO ", " QUANTISED("weight.quant_map"), FAULT_DTYPE,
      "quantised (bitsandbytes, 4 bits: it has a tensor" },
    { LLAMA(""), QUANTISED("weight_packed"), FAULT_DTYPE, "quantised (compressed-tensors: it has" },
    /* A config that contradicts its tensors. */
    { LLAMA(""), Q, FAULT_FIELD, "no tensor 'model.layers.0.self_attn.k_proj.weight'" },
    { LLAMA(",\"attention_bias\":true"), Q ", " KVO, FAULT_FIELD,
      "no tensor 'model.layers.0.self_attn.q_proj.bias'" },
    { LLAMA(""), Q ", model.layers.#.self_attn.q_proj.bias 8, " KVO, FAULT_FIELD,
      "has a tensor 'model.layers.0.self_attn.q_proj.bias', and by config.json" },
    { "{\"model_type\":\"gpt2\",\"n_embd\":8,\"n_head\":3,\"n_layer\":2}",
      "h.#.attn.c_attn.weight 8x24, h.#.attn.c_attn.bias 24", FAULT_SHAPE,
      "8 columns (n_embd), no multiple of its 3 heads (n_head)" },
    { "{\"model_type\":\"llama\",\"hidden_size\":8,\"num_attention_heads\":2,"
      "\"num_hidden_layers\":1}",
      Q ", " KVO, FAULT_SHAPE,
      "gives 1 layers (num_hidden_layers), and the file has a tensor "
      "'model.layers.1.self_attn.q_proj.weight'" },
    { "{\"model_type\":\"llama\",\"hidden_size\":8,\"num_attention_heads\":2,"
      "\"num_hidden_layers\":3}",
      Q ", " KVO, FAULT_FIELD, "no tensor 'model.layers.2.self_attn.q_proj.weight'" },
    { "{\"model_type\":\"llama\",\"hidden_size\":16,\"num_attention_heads\":2,"
      "\"head_dim\":4,\"num_hidden_layers\":2}",
      Q ", " KVO, FAULT_SHAPE, "is of a layer of 8 columns; config.json gives 16 (hidden_size" },
    { LLAMA(",\"num_key_value_heads\":1"), Q ", " KVO, FAULT_SHAPE,
      "'model.layers.0.self_attn.k_proj.weight' has shape [8, 8]; expected 4 outputs" },
    { "{\"model_type\":\"gpt2\",\"n_embd\":8,\"n_head\":2,\"n_layer\":2}",
      "h.#.attn.c_attn.weight 8x16, h.#.attn.c_attn.bias 16, h.#.attn.c_proj.weight 8x8, "
      "h.#.attn.c_proj.bias 8",
      FAULT_SHAPE, "'h.0.attn.c_attn.weight' has shape [8, 16]; expected 24 outputs" },
    /* Fields. */
    { "{\"model_type\":\"llama\",\"hidden_size\":\"8\"}", Q, FAULT_TYPE,
      "config.json's hidden_size is a string; expected a number" },
    { "{\"model_type\":\"llama\",\"hidden_size\":8.5}", Q, FAULT_OPTION,
      "config.json's hidden_size is 8.5; expected an integer" },
    { "{\"model_type\":\"llama\",\"num_hidden_layers\":1e9}", Q, FAULT_OPTION,
      "config.json gives 1000000000 layers (num_hidden_layers); expected 1 to 1000" },
    { "{\"model_type\":\"llama\",\"hidden_size\":8,\"num_attention_heads\":3,"
      "\"num_hidden_layers\":2}",
      Q, FAULT_SHAPE, "8 columns (hidden_size), no multiple of its 3 heads" },
    { "{\"model_type\":\"llama\",\"hidden_size\":8,\"num_attention_heads\":0,"
      "\"num_hidden_layers\":2}",
      Q, FAULT_OPTION, "and 0 heads (num_attention_heads); expected 1 or more" },
    { LLAMA(",\"attention_bias\":3"), Q, FAULT_TYPE,
      "attention_bias is 3; expected true or false" },
    { LLAMA(",\"rope_theta\":-1"), Q, FAULT_OPTION, "rope_theta is -1; expected a number of 0" },
    { LLAMA(",\"rope_theta\":0"), Q, FAULT_OPTION, "rope_theta is 0; expected a number above 0" },
    { LLAMA(",\"rope_scaling\":{\"type\":\"ntk\",\"factor\":2}"), Q, FAULT_OPTION,
      "rope_type is 'ntk'; expected" },
    { LLAMA(",\"rope_scaling\":{\"type\":3,\"factor\":2}"), Q, FAULT_FIELD,
      "rope_type is missing" },
    { LLAMA(",\"max_position_embeddings\":64,\"rope_scaling\":{\"type\":\"longrope\","
            "\"short_factor\":[1,1]}"),
      Q, FAULT_FIELD, "long_factor is missing" },
    { LLAMA(",\"max_position_embeddings\":64,\"rope_scaling\":{\"type\":\"longrope\","
            "\"short_factor\":[1,1,1],\"long_factor\":[1,1,1]}"),
      Q ", " KVO, FAULT_SHAPE, "short_factor has 3 numbers; expected 2" },
    { LLAMA(",\"rope_scaling\":{\"type\":\"linear\",\"factor\":0.5}"), Q, FAULT_OPTION,
      "factor is 0.5" },
    { "{\"model_type\":\"phi\",\"hidden_size\":8,\"num_attention_heads\":2,"
      "\"num_hidden_layers\":2,\"partial_rotary_factor\":0.3}",
      Q, FAULT_OPTION, "turns 1 of 4 columns of a head (partial_rotary_factor); expected" },
    { NEOX(",\"rotary_pct\":0.3"), NEOX_TENSORS, FAULT_OPTION,
      "turns 1 of 4 columns of a head (rotary_pct); expected" },
    { NEOX(",\"rotary_emb_base\":0"), NEOX_TENSORS, FAULT_OPTION,
      "config.json's rotary_emb_base is 0; expected a number above 0" },
    { "{\"model_type\":\"gptj\",\"n_embd\":8,\"n_head\":2,\"n_layer\":2,\"rotary_dim\":6}",
      PUBLISHED_LINEARS("transformer.h.#.attn.", "q_proj", "k_proj", "v_proj", "out_proj", "8"),
      FAULT_OPTION, "turns 6 of 4 columns of a head (rotary_dim); expected" },
    { BEIT(",\"use_relative_position_bias\":true"), BEIT_TENSORS, FAULT_FIELD,
      "no tensor 'encoder.layer.0.attention.attention.relative_position_bias."
      "relative_position_bias_table'" },
    { BEIT(",\"use_shared_relative_position_bias\":true"), BEIT_TENSORS, FAULT_FIELD,
      "no tensor 'encoder.relative_position_bias.relative_position_bias_table'" },
    { BEIT(",\"use_shared_relative_position_bias\":true"),
      BEIT_TENSORS ", encoder.relative_position_bias.relative_position_bias_table 18x1",
      FAULT_SHAPE, "is not [18, 2], as config.json gives: 2 by 3 patches" },
    { BEIT(""), BEIT_TENSORS ", encoder.relative_position_bias.relative_position_bias_table 18x2",
      FAULT_FIELD, "and config.json does not set use_shared_relative_position_bias" },
    { BEIT(",\"use_relative_position_bias\":false"),
      BEIT_TENSORS ", encoder.layer.#.attention.attention.relative_position_bias."
                   "relative_position_bias_table 18x2",
      FAULT_FIELD, "and config.json does not set use_relative_position_bias" },
    { BEIT(",\"use_relative_position_bias\":1"), BEIT_TENSORS, FAULT_TYPE,
      "use_relative_position_bias is 1; expected true or false" },
    { "{\"model_type\":\"beit\",\"hidden_size\":4,\"num_attention_heads\":2,"
      "\"num_hidden_layers\":2,\"use_relative_position_bias\":true,\"image_size\":[2,2,2]}",
      BEIT_TENSORS, FAULT_OPTION, "pictures of 0 by 0 patches" },
    { "{\"model_type\":\"mpt\",\"attn_config\":{\"qk_ln\":true}}",
      "transformer.blocks.#.attn.Wqkv.weight 24x8", FAULT_OPTION,
      "config.json sets qk_ln, which changes the attention of this family in a way that is not "
      "computed here; a config of ours with \"tensors\" serves" },
    { "{\"model_type\":\"mpt\",\"attn_config\":{\"clip_qkv\":-1}}",
      "transformer.blocks.#.attn.Wqkv.weight 24x8", FAULT_OPTION, "clip_qkv is -1; expected" },
    { "{\"model_type\":\"cohere\",\"hidden_size\":8,\"num_attention_heads\":2,"
      "\"num_hidden_layers\":2,\"use_qk_norm\":true}",
      Q ", " KVO, FAULT_FIELD, "no tensor 'model.layers.0.self_attn.q_norm.weight'" },
    { "{\"model_type\":\"cohere\",\"hidden_size\":8,\"num_attention_heads\":2,"
      "\"num_hidden_layers\":2}",
      Q ", " KVO ", model.layers.#.self_attn.q_norm.weight 2x4", FAULT_FIELD,
      "has a tensor 'model.layers.0.self_attn.q_norm.weight', and config.json does not set "
      "use_qk_norm" },
    { "{\"model_type\":\"olmo2\",\"hidden_size\":8,\"num_attention_heads\":2,"
      "\"num_hidden_layers\":2}",
      Q ", " KVO ", model.layers.#.self_attn.q_norm.weight 4", FAULT_SHAPE,
      "q_norm.weight' is not of 8 numbers" },
    { "{\"model_type\":\"stablelm\",\"hidden_size\":8,\"num_attention_heads\":2,"
      "\"num_key_value_heads\":2,\"num_hidden_layers\":2,\"partial_rotary_factor\":1,"
      "\"qk_layernorm\":true}",
      Q ", " KVO ", model.layers.#.self_attn.q_layernorm.norms.0.weight 4", FAULT_FIELD,
      "no tensor 'model.layers.0.self_attn.q_layernorm.norms.1.weight'" },
    { BERT(",\"position_embedding_type\":\"rotary\""), BERT_TENSORS, FAULT_OPTION,
      "position_embedding_type is 'rotary'; expected absolute, relative_key or "
      "relative_key_query" },
    { BERT(",\"position_embedding_type\":\"relative_key\""), BERT_TENSORS, FAULT_FIELD,
      "no tensor 'bert.encoder.layer.0.attention.self.distance_embedding.weight'" },
    { BERT(",\"position_embedding_type\":\"relative_key\",\"max_position_embeddings\":16"),
      BERT_TENSORS ", bert.encoder.layer.#.attention.self.distance_embedding.weight 32x4",
      FAULT_SHAPE, "distance_embedding.weight' is not [31, 4]" },
    { BERT(",\"max_position_embeddings\":16"),
      BERT_TENSORS ", bert.encoder.layer.#.attention.self.distance_embedding.weight 31x4",
      FAULT_FIELD, "position_embedding_type is not relative_key or relative_key_query" },
    { "{\"model_type\":\"qwen3\",\"hidden_size\":8,\"num_attention_heads\":2,\"head_dim\":4,"
      "\"num_key_value_heads\":2,\"num_hidden_layers\":2}",
      Q ", " KVO, FAULT_FIELD, "no tensor 'model.layers.0.self_attn.q_norm.weight'" },
    { "{\"model_type\":\"qwen3\",\"hidden_size\":8,\"num_attention_heads\":2,\"head_dim\":4,"
      "\"num_key_value_heads\":2,\"num_hidden_layers\":2}",
      Q ", " KVO ", model.layers.#.self_attn.q_norm.weight 8", FAULT_SHAPE,
      "q_norm.weight' is not of 4 numbers" },
    { "{\"model_type\":\"t5\",\"d_model\":4,\"d_kv\":2,\"num_heads\":2,\"num_layers\":2}", T5,
      FAULT_FIELD,
      "no tensor 'encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight'" },
    { "{\"model_type\":\"t5\",\"d_model\":4,\"d_kv\":2,\"num_heads\":2,\"num_layers\":2}",
      T5 ", encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight 8x2", FAULT_SHAPE,
      "relative_attention_bias.weight' is not [32, 2]" },
    { "{\"model_type\":\"t5\",\"d_model\":4,\"d_kv\":2,\"num_heads\":2,\"num_layers\":2,"
      "\"relative_attention_max_distance\":1000000000}",
      T5, FAULT_OPTION, "up to distance 1000000000 (relative_attention_max_distance)" },
    { "{\"model_type\":\"t5\",\"d_model\":4,\"d_kv\":2,\"num_heads\":2,\"num_layers\":2,"
      "\"relative_attention_num_buckets\":1}",
      T5, FAULT_OPTION, "gives 1 buckets (relative_attention_num_buckets)" },
    { "{\"model_type\":\"falcon\",\"hidden_size\":8,\"num_attention_heads\":2,"
      "\"num_hidden_layers\":2,\"multi_query\":1}",
      "h.#.self_attention.query_key_value.weight 16x8", FAULT_TYPE, "multi_query is 1; expected" },
    { "{\"model_type\":\"falcon\",\"hidden_size\":8,\"num_attention_heads\":2,"
      "\"num_hidden_layers\":2,\"new_decoder_architecture\":true,\"num_kv_heads\":4}",
      "h.#.self_attention.query_key_value.weight 16x8", FAULT_SHAPE,
      "2 query heads (num_attention_heads), no multiple of 4 key/value heads (num_kv_heads)" },
    { LLAMA(",\"num_key_value_heads\":3"), Q ", " KVO, FAULT_SHAPE,
      "no multiple of 3 key/value heads (num_key_value_heads)" },
    { "{\"dim\":8,\"n_heads\":4,\"n_kv_heads\":3,\"n_layers\":2,\"model_type\":\"meta\"}",
      "layers.#.attention.wq.weight 8x8, layers.#.attention.wk.weight 6x8, "
      "layers.#.attention.wv.weight 6x8, layers.#.attention.wo.weight 8x8",
      FAULT_SHAPE, "4 query heads (n_heads), no multiple of 3 key/value heads (n_kv_heads)" },
    { "{\"model_type\":\"mistral\",\"hidden_size\":8,\"num_attention_heads\":2,"
      "\"num_hidden_layers\":2,\"layer_types\":[\"chunked_attention\"]}",
      Q, FAULT_OPTION, "layer_types has 'chunked_attention' for layer 0" },
    /* Fields that nobody knows, or that have one value only. */
    { LLAMA(",\"attention_twist\":3"), Q ", " KVO, FAULT_FIELD,
      "config.json's attention_twist is 3, and what that changes in model_type 'llama' is not "
      "known "
      "here; expected null, false or nothing: take it out where it changes no attention, or write "
      "a "
      "config of ours with \"tensors\"" },
    { LLAMA(",\"attention_twist\":\"soft\""), Q ", " KVO, FAULT_FIELD,
      "attention_twist is 'soft'," },
    { LLAMA(",\"attention_twist\":[1,2]"), Q ", " KVO, FAULT_FIELD,
      "attention_twist is an array of numbers," },
    { LLAMA(",\"attention_twist\":{\"a\":0}"), Q ", " KVO, FAULT_FIELD,
      "attention_twist is an object," },
    { LLAMA(",\"attention_twist\":0"), Q ", " KVO, FAULT_FIELD, "attention_twist is 0," },
    { LLAMA(",\"rope_parameters\":{\"rope_theta\":100,\"twist\":2}"), Q ", " KVO, FAULT_FIELD,
      "twist" },
    { LLAMA(",\"rope_scaling\":{\"type\":\"default\",\"mrope_section\":[1,1]}"), Q ", " KVO,
      FAULT_FIELD, "mrope_section" },
    { LLAMA(",\"layer_types\":[\"full_attention\",\"sliding_attention\"]"), Q ", " KVO,
      FAULT_OPTION, "layer_types has 'sliding_attention' for layer 1; expected full_attention" },
    { LLAMA(",\"quantization\":{\"group_size\":64,\"bits\":4}"), Q ", " KVO, FAULT_DTYPE,
      "quantised (quant_method 'not said')" },
    { "{\"model_type\":\"stablelm\",\"hidden_size\":8,\"num_attention_heads\":2,"
      "\"num_key_value_heads\":2,\"num_hidden_layers\":2,\"partial_rotary_factor\":1,"
      "\"rotary_scaling_factor\":2.5}",
      Q ", " KVO, FAULT_OPTION,
      "config.json's rotary_scaling_factor is 2.5; expected 1, which is all that is computed of "
      "model_type 'stablelm'" },
    { "{\"model_type\":\"mistral\",\"hidden_size\":8,\"num_attention_heads\":2,"
      "\"num_hidden_layers\":2,\"layer_types\":[]}",
      Q, FAULT_OPTION, "layer_types has 'nothing' for layer 0" },
    /* Numbers that are none. */
    { LLAMA(",\"rope_theta\":1e999"), Q ", " KVO, FAULT_NONFINITE,
      "rope_theta is beyond the range" },
    { LLAMA(",\"rms_norm_eps\":1e39,\"anything\":{\"else\":-1e999}"), Q ", " KVO, FAULT_NONFINITE,
      "else is beyond the range of a 64-bit float" },
    { LLAMA(",\"rope_theta\":1e39"), Q ", " KVO, FAULT_OPTION,
      "rope_theta is 9.9999999999999994e+38; expected a number of 0 or more" },
    /* Layers that have the keys of others. */
    { "{\"model_type\":\"gemma4_text\",\"hidden_size\":8,\"num_attention_heads\":2,"
      "\"num_hidden_layers\":2,\"num_kv_shared_layers\":2,\"head_dim\":4,"
      "\"num_key_value_heads\":2}",
      Q ", " KVO, FAULT_OPTION,
      "config.json's num_kv_shared_layers is 2, and none of the 0 layers before these has a type "
      "as layer 0 has it" },
};

TEST(refused)
{
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++)
        published_refused(REFUSED[i].config, REFUSED[i].tensors, 2, REFUSED[i].code,
                          REFUSED[i].words);
}

/* Whatever a config.json contains, it is refused or makes a model whose shapes are those of the
 * tensors. The test changes every byte in turn. */
TEST(any_config)
{
    static const char *const CONFIGS[] = {
        "{\"model_type\":\"gemma2\",\"hidden_size\":8,\"num_attention_heads\":2,\"head_dim\":4,"
        "\"num_key_value_heads\":2,\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\","
        "\"sliding_attention\"],\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2},"
        "\"max_position_embeddings\":64,\"sliding_window\":3,\"attn_logit_softcapping\":null}",
        "{\"model_type\":\"phi\",\"hidden_size\":8,\"num_attention_heads\":2,"
        "\"num_hidden_layers\":2,\"rope_parameters\":{\"rope_theta\":10,\"rope_type\":\"linear\","
        "\"factor\":4},\"partial_rotary_factor\":0.5,\"qk_layernorm\":false}",
    };
    static const char OTHERS[] = "0919-.[]{}\",:ntx\\e ";
    struct fault fault;
    int made = 0, refused = 0;
    for (int i = 0; i < 2; i++) {
        char config[512];
        published_open(CONFIGS[0], Q ", " KVO, 2, "F32");
        snprintf(config, sizeof config, "%s", CONFIGS[i]);
        for (char *c = config; *c; c++) {
            const char before = *c;
            for (const char *other = OTHERS; *other; other++) {
                *c = *other;
                const bool is_made = published_reopen(config, &fault);
                made += is_made;
                refused += !is_made;
                if (is_made)
                    assert_int_equal(published_model()->layers[1].d_query, 8);
            }
            *c = before;
        }
        published_close();
    }
    assert_true(made > 500 && refused > 500);
}
