/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_gguf_newer.c - the table of architectures that came after Llama's: newer decoders,
 * mixtures of experts, and encoders of sentences. It goes on where checkpoint_gguf_table.c ends,
 * which says what the converter of llama.cpp changes. */
#include "models/checkpoint/checkpoint_gguf_names.h"
#include "models/checkpoint/checkpoint_gguf_row.h"

/* ---------------------------------------------------------- what is changed -- */

/* Norms of "nemotron" have the 1, too. */
static void amend_nemotron(struct checkpoint_stack *stack)
{
    stack->pass.norm_adds_one = false;
}

/* "chatglm" has GLM's queries, keys and values in one tensor. */
static void amend_fused_glm(struct checkpoint_stack *stack)
{
    stack->projections[MODEL_Q] = "qkv_proj";
    stack->projections[MODEL_K] = stack->projections[MODEL_V] = NULL;
    stack->fusion = CHECKPOINT_ROWS;
}

/* Granite's experts are in two tensors as published, and each alone here. */
static void amend_granite_experts(struct checkpoint_stack *stack)
{
    stack->interleaved = true;
    stack->pass.expert = "block_sparse_moe.experts.%.";
    stack->pass.gate = "w1";
    stack->pass.up = "w3";
    stack->pass.down = "w2";
}

/* The same of gpt-oss, whose experts have biases. */
static void amend_gpt_oss(struct checkpoint_stack *stack)
{
    stack->pass.expert = "mlp.experts.%.";
    stack->pass.gate = "gate_proj";
    stack->pass.up = "up_proj";
    stack->pass.down = "down_proj";
    stack->pass.biases = "=true";
}

/* The same of Llama 4. */
static void amend_llama4(struct checkpoint_stack *stack)
{
    stack->pass.expert = "feed_forward.experts.%.";
}

/* Keys and values of all heads may be in a tensor each. */
static void amend_deepseek(struct checkpoint_stack *stack)
{
    static const struct checkpoint_latent LATENT = {
        .q_down = "q_a_proj",
        .q_norm = "q_a_layernorm",
        .q_up = "q_b_proj",
        .q = "q_proj",
        .row_norm = "kv_a_layernorm",
        .up = "kv_b_proj",
        .k_up = "k_b_proj",
        .v_up = "v_b_proj",
    };
    stack->latent = &LATENT;
}

/* JinaBERT's gate and what it multiplies are one tensor as published. */
static void amend_jina(struct checkpoint_stack *stack)
{
    stack->pass.up_has_gate = false;
    stack->pass.gate = "mlp.gated_layers_w";
    stack->pass.up = "mlp.gated_layers_v";
}

/* -------------------------------------------------------- what no field says -- */

/* The published config.json does not round the bounds of yarn's ramp; llama.cpp always does. What
 * is published for a config.json without a scaling is a yarn, where a file without one has none. */
static bool add_gpt_oss_scaling(const struct checkpoint_gguf_file *file)
{
    cJSON *scaling = cJSON_GetObjectItemCaseSensitive(file->config, "rope_scaling");
    if (scaling)
        return checkpoint_gguf_add_item(file, scaling, "truncate", cJSON_CreateFalse());
    scaling = cJSON_AddObjectToObject(file->config, "rope_scaling");
    return (scaling && cJSON_AddStringToObject(scaling, "rope_type", "default"))
           || fault_no_memory(file->fault);
}

static bool finish_gpt_oss(const struct checkpoint_gguf_file *file)
{
    return checkpoint_gguf_add_head_dim(file) && checkpoint_gguf_add_layer_types(file)
           && add_gpt_oss_scaling(file);
}

/* llama_model_llama4 of llama.cpp's src/models/llama4.cpp: chunks are of 8192 positions, and only a
 * model of 128 experts has no norms. What it makes of a window of 0 is no Llama 4. */
static bool finish_llama4(const struct checkpoint_gguf_file *file)
{
    if (checkpoint_gguf_number(file, "attention.sliding_window", 8192) == 0)
        return checkpoint_gguf_refuse(file, "what is not computed here", "attention.sliding_window",
                                      "has");
    return checkpoint_gguf_add_head_dim(file)
           && checkpoint_gguf_add_flag(file, "use_qk_norm",
                                       checkpoint_gguf_number(file, "expert_count", 0) != 128);
}

static bool finish_glm4_moe(const struct checkpoint_gguf_file *file)
{
    return checkpoint_gguf_need_sigmoids(file) && checkpoint_gguf_take_next_layers(file)
           && checkpoint_gguf_add_head_dim(file);
}

/* Queries and values of a head: files of before 2025-04 have the tensor of keys and values whole,
 * and the lengths of heads as published; later ones those of rows, and of heads besides. */
static bool add_latent_heads(const struct checkpoint_gguf_file *file)
{
    const double rotated = checkpoint_gguf_number(file, "rope.dimension_count", 0);
    const double keys = checkpoint_gguf_number(file, "attention.key_length", 0);
    const double values = checkpoint_gguf_number(file, "attention.value_length", 0);
    const double whole = checkpoint_gguf_number(file, "attention.key_length_mla", keys);
    return checkpoint_gguf_add_number(file, file->config, "qk_nope_head_dim", whole - rotated)
           && checkpoint_gguf_add_number(
               file, file->config, "v_head_dim",
               checkpoint_gguf_number(file, "attention.value_length_mla", values));
}

/* What YaRN does to the scale of scores is 0.1 * mscale_all_dim; nothing then is left for the
 * rotary embedding. Source: [TAG_DEEPSEEK2_YARN_LOG_MUL_FIX] of src/models/deepseek2.cpp. */
static bool add_mscales(const struct checkpoint_gguf_file *file)
{
    cJSON *scaling = cJSON_GetObjectItemCaseSensitive(file->config, "rope_scaling");
    const double multiplier = checkpoint_gguf_number(file, "rope.scaling.yarn_log_multiplier", 0);
    if (!cJSON_GetObjectItemCaseSensitive(scaling, "original_max_position_embeddings"))
        return true;
    if (multiplier <= 0)
        return checkpoint_gguf_refuse(file, "mscale_all_dim", "rope.scaling.yarn_log_multiplier",
                                      "has no");
    return checkpoint_gguf_add_number(file, scaling, "mscale", 10 * multiplier)
           && checkpoint_gguf_add_number(file, scaling, "mscale_all_dim", 10 * multiplier);
}

/* DeepSeek-V2 has a softmax, and V3 and Kimi K2 have sigmoids. A file of V3 that says nothing of
 * groups of experts is computed without them, as llama.cpp does. */
static bool finish_deepseek(const struct checkpoint_gguf_file *file)
{
    const bool is_v3 = checkpoint_gguf_number(file, "expert_gating_func", CHECKPOINT_GATE_SOFTMAX)
                       == CHECKPOINT_GATE_SIGMOID;
    cJSON *type = cJSON_GetObjectItemCaseSensitive(file->config, "model_type");
    if (is_v3 && type && !cJSON_SetValuestring(type, "deepseek_v3"))
        return fault_no_memory(file->fault);
    return checkpoint_gguf_take_next_layers(file) && add_latent_heads(file) && add_mscales(file)
           && (is_v3
               || checkpoint_gguf_add_text(file, "topk_method",
                                           checkpoint_gguf_number(file, "expert_group_count", 1) > 1
                                               ? "group_limited_greedy"
                                               : "greedy"));
}

static bool finish_modern_bert(const struct checkpoint_gguf_file *file)
{
    const double theta = checkpoint_gguf_number(file, "rope.freq_base", 10000);
    return checkpoint_gguf_add_number(file, file->config, "global_rope_theta", theta)
           && checkpoint_gguf_add_number(file, file->config, "local_rope_theta",
                                         checkpoint_gguf_number(file, "rope.freq_base_swa", 10000));
}

static bool finish_nomic(const struct checkpoint_gguf_file *file)
{
    return checkpoint_gguf_add_text(file, "activation_function", "swiglu")
           && checkpoint_gguf_add_flag(file, "mlp_fc1_bias", false)
           && checkpoint_gguf_add_flag(file, "mlp_fc2_bias", false)
           && checkpoint_gguf_add_number(file, file->config, "rotary_emb_fraction", 1)
           && checkpoint_gguf_add_number(file, file->config, "type_vocab_size",
                                         checkpoint_gguf_has(file, "token_types.weight") ? 2 : 0);
}

static bool finish_jina(const struct checkpoint_gguf_file *file)
{
    return checkpoint_gguf_add_text(file, "position_embedding_type", "alibi")
           && checkpoint_gguf_add_text(file, "feed_forward_type", "geglu");
}

static bool finish_mpt(const struct checkpoint_gguf_file *file)
{
    const double slopes = checkpoint_gguf_number(file, "attention.max_alibi_bias", 0);
    const double clip = checkpoint_gguf_number(file, "attention.clamp_kqv", 0);
    cJSON *attention = cJSON_CreateObject();
    return checkpoint_gguf_add_item(file, file->config, "attn_config", attention)
           && checkpoint_gguf_add_item(file, attention, "alibi", cJSON_CreateBool(slopes > 0))
           && (slopes <= 0 || checkpoint_gguf_add_number(file, attention, "alibi_bias_max", slopes))
           && (clip <= 0 || checkpoint_gguf_add_number(file, attention, "clip_qkv", clip))
           && checkpoint_gguf_add_flag(file, "learned_pos_emb",
                                       checkpoint_gguf_has(file, "position_embd.weight"))
           && checkpoint_gguf_add_flag(file, "no_bias",
                                       !checkpoint_gguf_has(file, "blk.0.attn_output.bias"));
}

/* -------------------------------------------------------------------- rows -- */

const struct checkpoint_gguf checkpoint_ggufs_newer[] = {
    /* Of the newer decoders those that are Llama under names of their own are read as Llama. */
    { .architecture = "mistral3",
      .model_type = "llama",
      .fields = LLAMA_FIELDS,
      .tensors = LLAMA_NAMES,
      .has_rope = true,
      .amend = checkpoint_gguf_amend_pairs },
    { .architecture = "internlm2",
      .model_type = "llama",
      .fields = LLAMA_FIELDS,
      .tensors = LLAMA_NAMES,
      .has_rope = true,
      .present = "attention_bias=blk.0.attn_q.bias|",
      .amend = checkpoint_gguf_amend_llama },
    { .architecture = "exaone",
      .model_type = "llama",
      .fields = LLAMA_FIELDS,
      .tensors = LLAMA_NAMES,
      .has_rope = true },
    { .architecture = "smollm3",
      .model_type = "smollm3",
      .fields = LLAMA_FIELDS,
      .tensors = LLAMA_NAMES,
      .has_rope = true,
      .present = "attention_bias=blk.0.attn_q.bias|",
      .amend = checkpoint_gguf_amend_pairs },
    { .architecture = "arcee",
      .model_type = "arcee",
      .fields = LLAMA_FIELDS,
      .tensors = LLAMA_NAMES,
      .has_rope = true,
      .amend = checkpoint_gguf_amend_pairs },
    { .architecture = "ernie4_5",
      .model_type = "ernie4_5",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS "rms_norm_eps=" RMS,
      .tensors = LLAMA_NAMES,
      .has_rope = true,
      .present = "use_bias=blk.0.attn_q.bias|",
      .finish = checkpoint_gguf_add_head_dim },
    { .architecture = "seed_oss",
      .model_type = "seed_oss",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS "rms_norm_eps=" RMS,
      .tensors = AROUND_NAMES ATTENTION_NAMES GATED_NAMES IN_BLOCK("attn_norm", "input_layernorm")
          IN_BLOCK("post_attention_norm", "post_attention_layernorm"),
      .has_rope = true,
      .present = "attention_bias=blk.0.attn_q.bias|attention_out_bias=blk.0.attn_output.bias|",
      .finish = checkpoint_gguf_add_head_dim },
    { .architecture = "hunyuan-dense",
      .model_type = "hunyuan_v1_dense",
      .fields = LLAMA_FIELDS,
      .tensors = LLAMA_NAMES IN_BLOCK("attn_q_norm", "self_attn.query_layernorm")
          IN_BLOCK("attn_k_norm", "self_attn.key_layernorm"),
      .has_rope = true,
      .has_alpha = true,
      .present = "attention_bias=blk.0.attn_q.bias|" },
    { .architecture = "exaone4",
      .model_type = "exaone4",
      .fields = LLAMA_FIELDS "sliding_window=attention.sliding_window?0|",
      .tensors = OLMO2_NAMES,
      .has_rope = true,
      .finish = checkpoint_gguf_add_layer_types },
    { .architecture = "glm4",
      .model_type = "glm4",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS "rms_norm_eps=" RMS,
      .tensors = AROUND_NAMES ATTENTION_NAMES IN_BLOCK("attn_norm", "input_layernorm")
          IN_BLOCK("post_attention_norm", "post_self_attn_layernorm")
              IN_BLOCK("ffn_norm", "post_attention_layernorm")
                  IN_BLOCK("post_ffw_norm", "post_mlp_layernorm")
                      IN_BLOCK("ffn_up", "mlp.gate_up_proj") IN_BLOCK("ffn_down", "mlp.down_proj"),
      .has_rope = true,
      .present = "attention_bias=blk.0.attn_q.bias|",
      .finish = checkpoint_gguf_add_head_dim },
    { .architecture = "chatglm",
      .model_type = "glm",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS "rms_norm_eps=" RMS,
      .tensors = AROUND_NAMES NORM_NAMES IN_BLOCK("attn_qkv", "self_attn.qkv_proj")
          IN_BLOCK("attn_output", "self_attn.o_proj") IN_BLOCK("ffn_up", "mlp.gate_up_proj")
              IN_BLOCK("ffn_down", "mlp.down_proj"),
      .has_rope = true,
      .present = "attention_bias=blk.0.attn_qkv.bias|",
      .finish = checkpoint_gguf_add_head_dim,
      .amend = amend_fused_glm },
    { .architecture = "nemotron",
      .model_type = "nemotron",
      .fields = SIZE_FIELDS KV_FIELDS WIDE_FIELDS POSITION_FIELDS "norm_eps=" LAYER_NORM,
      .tensors = LLAMA_NAMES,
      .has_rope = true,
      .present = "attention_bias=blk.0.attn_q.bias|mlp_bias=blk.0.ffn_up.bias|",
      .amend = amend_nemotron },
    { .architecture = "mpt",
      .model_type = "mpt",
      .fields = "n_layers=block_count|d_model=embedding_length|n_heads=attention.head_count|"
                "layer_norm_epsilon=" LAYER_NORM,
      .tensors =
          "token_embd=transformer.wte|position_embd=transformer.wpe|"
          "output_norm=transformer.norm_f|output=lm_head|" IN_MPT_BLOCK("attn_norm", "norm_1")
              IN_MPT_BLOCK("attn_qkv", "attn.Wqkv") IN_MPT_BLOCK("attn_output", "attn.out_proj")
                  IN_MPT_BLOCK("ffn_norm", "norm_2") IN_MPT_BLOCK("ffn_up", "ffn.up_proj")
                      IN_MPT_BLOCK("ffn_down", "ffn.down_proj"),
      .finish = finish_mpt },

    { .architecture = "qwen3moe",
      .model_type = "qwen3_moe",
      .fields = LLAMA_FIELDS "norm_topk_prob=expert_weights_norm?true|" COUNT_FIELDS("num_experts"),
      .tensors = QWEN_MIXTURE_NAMES HEAD_NORM_NAMES,
      .has_rope = true },
    { .architecture = "qwen2moe",
      .model_type = "qwen2_moe",
      .fields =
          LLAMA_FIELDS "norm_topk_prob=expert_weights_norm?false|" COUNT_FIELDS("num_experts"),
      .tensors = QWEN_MIXTURE_NAMES SHARED_EXPERT_NAMES,
      .has_rope = true,
      .present = "qkv_bias=blk.0.attn_q.bias|" },
    { .architecture = "olmoe",
      .model_type = "olmoe",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS
      "norm_topk_prob=expert_weights_norm?false|" COUNT_FIELDS("num_experts") "rms_norm_eps=" RMS,
      .tensors = QWEN_MIXTURE_NAMES HEAD_NORM_NAMES,
      .has_rope = true },
    { .architecture = "granitemoe",
      .model_type = "granitemoe",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS GRANITE_FIELDS COUNT_FIELDS(
          "num_local_experts") "rms_norm_eps=" RMS,
      .tensors = MIXTURE_NAMES("block_sparse_moe.router.layer", MIXTRAL_EXPERT "w1",
                               MIXTRAL_EXPERT "w3", MIXTRAL_EXPERT "w2"),
      .has_rope = true,
      .amend = amend_granite_experts },
    { .architecture = "phimoe",
      .model_type = "phimoe",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS
      "original_max_position_embeddings=rope.scaling.original_context_length?|"
      "sliding_window=attention.sliding_window?|" COUNT_FIELDS(
          "num_local_experts") "rms_norm_eps=" RMS,
      .tensors = MIXTRAL_MIXTURE_NAMES,
      .has_rope = true,
      .present = "attention_bias=blk.0.attn_q.bias|" },
    { .architecture = "gpt-oss",
      .model_type = "gpt_oss",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS
      "sliding_window=attention.sliding_window|" COUNT_FIELDS(
          "num_local_experts") "rms_norm_eps=" RMS,
      .tensors = AROUND_NAMES ATTENTION_NAMES IN_BLOCK("attn_norm", "input_layernorm")
          IN_BLOCK("post_attention_norm", "post_attention_layernorm")
              IN_BLOCK("attn_sinks", "self_attn.sinks!") IN_BLOCK("ffn_gate_inp", "mlp.router")
                  EXPERT_NAMES("ffn_gate", QWEN_EXPERT "gate_proj")
                      EXPERT_NAMES("ffn_up", QWEN_EXPERT "up_proj")
                          EXPERT_NAMES("ffn_down", QWEN_EXPERT "down_proj"),
      .has_rope = true,
      .present = "attention_bias=blk.0.attn_q.bias|",
      .finish = finish_gpt_oss,
      .amend = amend_gpt_oss },

    { .architecture = "llama4",
      .model_type = "llama4_text",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS
      "interleave_moe_layer_step=interleave_moe_layer_step|" COUNT_FIELDS(
          "num_local_experts") "rms_norm_eps=" RMS,
      .tensors = AROUND_NAMES ATTENTION_NAMES NORM_NAMES IN_BLOCK("ffn_gate",
                                                                  "feed_forward.gate_proj")
          IN_BLOCK("ffn_up", "feed_forward.up_proj") IN_BLOCK("ffn_down", "feed_forward.down_proj")
              IN_BLOCK("ffn_gate_inp", "feed_forward.router")
                  IN_BLOCK("ffn_gate_exps", "feed_forward.experts.#.gate_proj")
                      IN_BLOCK("ffn_up_exps", "feed_forward.experts.#.up_proj")
                          IN_BLOCK("ffn_down_exps", "feed_forward.experts.#.down_proj")
                              IN_BLOCK("ffn_gate_shexp", "feed_forward.shared_expert.gate_proj")
                                  IN_BLOCK("ffn_up_shexp", "feed_forward.shared_expert.up_proj")
                                      IN_BLOCK("ffn_down_shexp",
                                               "feed_forward.shared_expert.down_proj"),
      .has_rope = true,
      .finish = finish_llama4,
      .amend = amend_llama4 },

    { .architecture = "glm4moe",
      .model_type = "glm4_moe",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS DEEPSEEK_FIELDS
      "norm_topk_prob=expert_weights_norm?true|num_nextn_predict_layers=nextn_predict_layers?|",
      .tensors = AROUND_NAMES ATTENTION_NAMES HEAD_NORM_NAMES GATED_NAMES IN_BLOCK(
          "attn_norm", "input_layernorm")
          IN_BLOCK("post_attention_norm", "post_attention_layernorm")
              DEEPSEEK_EXPERT_NAMES NEXT_NAMES,
      .has_rope = true,
      .reads = "expert_weights_scale|expert_group_count",
      .present = "use_qk_norm=blk.0.attn_q_norm.weight|attention_bias=blk.0.attn_q.bias|",
      .finish = finish_glm4_moe },
    { .architecture = "deepseek2",
      .model_type = "deepseek_v2",
      .fields = SIZE_FIELDS POSITION_FIELDS DEEPSEEK_FIELDS
      "kv_lora_rank=attention.kv_lora_rank|q_lora_rank=attention.q_lora_rank?null|"
      "norm_topk_prob=expert_weights_norm?false|"
      "num_nextn_predict_layers=nextn_predict_layers?|",
      .tensors = AROUND_NAMES NORM_NAMES GATED_NAMES DEEPSEEK_EXPERT_NAMES NEXT_NAMES IN_BLOCK(
          "attn_q", "self_attn.q_proj") IN_BLOCK("attn_q_a", "self_attn.q_a_proj")
          IN_BLOCK("attn_q_a_norm", "self_attn.q_a_layernorm")
              IN_BLOCK("attn_q_b", "self_attn.q_b_proj")
                  IN_BLOCK("attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa")
                      IN_BLOCK("attn_kv_a_norm", "self_attn.kv_a_layernorm")
                          IN_BLOCK("attn_kv_b", "self_attn.kv_b_proj")
                              IN_BLOCK("attn_k_b", "self_attn.k_b_proj")
                                  IN_BLOCK("attn_v_b", "self_attn.v_b_proj")
                                      IN_BLOCK("attn_output", "self_attn.o_proj"),
      .has_rope = true,
      .reads = "expert_weights_scale|expert_group_count|rope.scaling.yarn_log_multiplier|"
               "attention.value_length",
      .finish = finish_deepseek,
      .amend = amend_deepseek },

    { .architecture = "modern-bert",
      .model_type = "modernbert",
      .fields = SIZE_FIELDS "local_attention=attention.sliding_window|"
                            "global_attn_every_n_layers=attention.sliding_window_pattern?3|"
                            "norm_eps=" LAYER_NORM,
      .tensors = "token_embd=model.embeddings.tok_embeddings|"
                 "token_embd_norm=model.embeddings.norm|output_norm=model.final_norm|" MODERN_BERT(
                     "attn_norm", "attn_norm") MODERN_BERT("attn_qkv", "attn.Wqkv")
                     MODERN_BERT("attn_output", "attn.Wo") MODERN_BERT("ffn_norm", "mlp_norm")
                         MODERN_BERT("ffn_up", "mlp.Wi") MODERN_BERT("ffn_down", "mlp.Wo"),
      .finish = finish_modern_bert },
    { .architecture = "nomic-bert",
      .model_type = "nomic_bert",
      .fields = "n_layer=block_count|n_embd=embedding_length|n_head=attention.head_count|"
                "rotary_emb_base=rope.freq_base?10000|layer_norm_epsilon=" LAYER_NORM,
      .tensors = "token_embd=bert.embeddings.word_embeddings|"
                 "token_types=bert.embeddings.token_type_embeddings|"
                 "token_embd_norm=bert.emb_ln|" NOMIC("attn_qkv", "attn.Wqkv")
                     NOMIC("attn_output", "attn.out_proj") NOMIC("attn_output_norm", "norm1")
                         NOMIC("ffn_up", "mlp.fc11") NOMIC("ffn_gate", "mlp.fc12")
                             NOMIC("ffn_down", "mlp.fc2") NOMIC("layer_output_norm", "norm2"),
      .present = "qkv_proj_bias=blk.0.attn_qkv.bias|",
      .finish = finish_nomic },
    { .architecture = "jina-bert-v2",
      .model_type = "jina_bert_v2",
      .fields = SIZE_FIELDS "layer_norm_eps=" LAYER_NORM,
      .tensors = "token_embd=bert.embeddings.word_embeddings|"
                 "token_types=bert.embeddings.token_type_embeddings|"
                 "token_embd_norm=bert.embeddings.LayerNorm|" JINA("attn_q", "attention.self.query")
                     JINA("attn_k", "attention.self.key") JINA("attn_v", "attention.self.value")
                         JINA("attn_output", "attention.output.dense")
                             JINA("attn_output_norm", "attention.output.LayerNorm")
                                 JINA("ffn_gate", "mlp.gated_layers_w")
                                     JINA("ffn_up", "mlp.gated_layers_v") JINA("ffn_down", "mlp.wo")
                                         JINA("layer_output_norm", "mlp.layernorm"),
      .finish = finish_jina,
      .amend = amend_jina },
    { .architecture = NULL },
};
