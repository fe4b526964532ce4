/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_models.c - see gguf_models.h. The keys and the tensors are those that llama.cpp asks for
 * (src/llama-arch.cpp and src/models/, release v0.5.0). */
#include "gguf_models.h"
#include "fill.h"
#include "gguf_model_names.h"
#include "gguf_quantize.h"
#include "gguf_write.h"
#include "test.h"

#include <inttypes.h>

const int32_t gguf_model_tokens[GGUF_MODEL_LENGTH] = { 1, 5, 9, 13, 2, 40, 47, 0, 7, 7, 30, 22 };
const int32_t gguf_model_decoded[GGUF_MODEL_DECODED] = { 0, 4, 17, 33 };

static const struct gguf_model MODELS[] = {
    { "llama", "llama", COMMON GROUPED RMS ROPE, EMBED HEAD NORM_END NORMS ATTEND GATED,
      GGUF_DECODER, 2 },
    { "llama-scaled", "llama", COMMON GROUPED RMS ROPE,
      EMBED NORM_END "rope_freqs.weight 8, " NORMS ATTEND GATED, GGUF_DECODER, 2 },
    { "llama-experts", "llama",
      COMMON GROUPED RMS ROPE ".expert_count I 4, .expert_used_count I 2, ",
      EMBED HEAD NORM_END NORMS ATTEND EXPERTS, GGUF_DECODER, 2 },
    { "qwen2", "qwen2", COMMON GROUPED RMS ROPE, EMBED NORM_END NORMS ATTEND QKV_BIAS GATED,
      GGUF_DECODER, 2 },
    { "qwen3", "qwen3",
      COMMON GROUPED RMS ROPE ".attention.key_length I 16, .attention.value_length I 16, ",
      EMBED HEAD NORM_END NORMS ATTEND HEAD_NORMS GATED, GGUF_DECODER, 2 },
    { "qwen3moe", "qwen3moe",
      COMMON GROUPED RMS ROPE
      ".expert_count I 4, .expert_used_count I 2, .expert_feed_forward_length I 96, ",
      EMBED HEAD NORM_END NORMS ATTEND HEAD_NORMS EXPERTS, GGUF_DECODER, 2 },
    { "gemma", "gemma",
      COMMON GROUPED RMS ROPE ".attention.key_length I 16, .attention.value_length I 16, ",
      EMBED NORM_END NORMS ATTEND GATED, GGUF_DECODER, 2 },
    { "gemma2", "gemma2",
      COMMON GROUPED RMS ROPE
      ".attention.key_length I 16, .attention.value_length I 16, .attn_logit_softcapping f 5, "
      ".final_logit_softcapping f 3, .attention.sliding_window I 4, ",
      EMBED NORM_END NORMS
      "blk.#.post_attention_norm.weight 64, blk.#.post_ffw_norm.weight 64, " ATTEND GATED,
      GGUF_DECODER, 2 },
    { "gemma3", "gemma3",
      COMMON GROUPED RMS ROPE
      ".attention.key_length I 16, .attention.value_length I 16, .attention.sliding_window I 4, ",
      EMBED NORM_END NORMS
      "blk.#.post_attention_norm.weight 64, blk.#.post_ffw_norm.weight 64, " ATTEND HEAD_NORMS
          GATED,
      GGUF_DECODER, 7 },
    { "phi2", "phi2", COMMON ALL_HEADS LAYERNORM ".rope.dimension_count I 8, ",
      EMBED HEAD "output.bias 48, " BOTH_END
                 "blk.#.attn_norm.weight 64, blk.#.attn_norm.bias 64, " FUSED
                 "blk.#.attn_qkv.bias 192, " UP_DOWN BIASES,
      GGUF_DECODER, 2 },
    { "phi3", "phi3",
      COMMON GROUPED RMS ROPE
      ".attention.sliding_window I 0, .rope.scaling.original_context_length I 512, ",
      EMBED HEAD NORM_END NORMS
      "blk.#.attn_qkv.weight 128x64, blk.#.attn_output.weight 64x64, blk.#.ffn_up.weight 192x64, "
      "blk.#.ffn_down.weight 64x96, ",
      GGUF_DECODER, 2 },
    { "gpt2", "gpt2", COMMON ALL_HEADS LAYERNORM,
      EMBED "position_embd.weight 512x64, " BOTH_END NORMS NORM_BIASES FUSED
            "blk.#.attn_qkv.bias 192, " UP_DOWN BIASES,
      GGUF_DECODER, 2 },
    { "gptneox", "gptneox",
      COMMON ALL_HEADS LAYERNORM ".rope.dimension_count I 8, .use_parallel_residual ? 1, ",
      EMBED HEAD BOTH_END NORMS NORM_BIASES FUSED "blk.#.attn_qkv.bias 192, " UP_DOWN BIASES,
      GGUF_DECODER, 2 },
    { "bloom", "bloom", COMMON ALL_HEADS LAYERNORM,
      EMBED "token_embd_norm.weight 64, token_embd_norm.bias 64, " BOTH_END NORMS NORM_BIASES FUSED
            "blk.#.attn_qkv.bias 192, " UP_DOWN BIASES,
      GGUF_DECODER, 2 },
    { "falcon", "falcon", COMMON ".attention.head_count_kv I 1, " LAYERNORM,
      EMBED HEAD BOTH_END "blk.#.attn_norm.weight 64, blk.#.attn_norm.bias 64, "
                          "blk.#.attn_qkv.weight 96x64, blk.#.attn_output.weight 64x64, " UP_DOWN,
      GGUF_DECODER, 2 },
    { "starcoder2", "starcoder2", COMMON GROUPED LAYERNORM ROPE,
      EMBED BOTH_END NORMS NORM_BIASES ATTEND QKV_BIAS UP_DOWN BIASES, GGUF_DECODER, 2 },
    { "stablelm", "stablelm", COMMON GROUPED LAYERNORM ".rope.dimension_count I 4, ",
      EMBED HEAD BOTH_END NORMS NORM_BIASES ATTEND GATED, GGUF_DECODER, 2 },
    { "olmo2", "olmo2", COMMON ALL_HEADS RMS,
      EMBED HEAD NORM_END SQUARE
      "blk.#.attn_q_norm.weight 64, blk.#.attn_k_norm.weight 64, "
      "blk.#.post_attention_norm.weight 64, blk.#.post_ffw_norm.weight 64, " GATED,
      GGUF_DECODER, 2 },
    { "command-r", "command-r", COMMON GROUPED LAYERNORM ".logit_scale f 0.0625, ",
      EMBED NORM_END "blk.#.attn_norm.weight 64, " ATTEND GATED, GGUF_DECODER, 2 },
    { "bert", "bert",
      COMMON LAYERNORM
      ".attention.causal ? 0, .pooling_type I 2, tokenizer.ggml.token_type_count I 2, ",
      EMBED "token_types.weight 2x64, position_embd.weight 512x64, token_embd_norm.weight 64, "
            "token_embd_norm.bias 64, " SQUARE
            "blk.#.attn_q.bias 64, blk.#.attn_k.bias 64, blk.#.attn_v.bias 64, "
            "blk.#.attn_output_norm.weight 64, blk.#.attn_output_norm.bias 64, "
            "blk.#.layer_output_norm.weight 64, blk.#.layer_output_norm.bias 64, " UP_DOWN BIASES,
      GGUF_ENCODER, 2 },
    { "nomic-bert", "nomic-bert",
      COMMON LAYERNORM ROPE
      ".attention.causal ? 0, .pooling_type I 1, tokenizer.ggml.token_type_count I 2, ",
      EMBED "token_types.weight 2x64, token_embd_norm.weight 64, token_embd_norm.bias 64, " FUSED
            "blk.#.attn_output_norm.weight 64, blk.#.attn_output_norm.bias 64, "
            "blk.#.layer_output_norm.weight 64, blk.#.layer_output_norm.bias 64, " GATED,
      GGUF_ENCODER, 2 },
    { "llama-biases", "llama", COMMON GROUPED RMS ROPE,
      EMBED HEAD NORM_END NORMS ATTEND QKV_BIAS "blk.#.attn_output.bias 64, " GATED, GGUF_DECODER,
      2 },
    { "llama-linear", "llama",
      COMMON GROUPED RMS ROPE ".rope.scaling.type s linear, .rope.scaling.factor f 4, ",
      EMBED HEAD NORM_END NORMS ATTEND GATED, GGUF_DECODER, 2 },
    { "llama-yarn", "llama",
      COMMON GROUPED RMS ROPE ".rope.scaling.type s yarn, .rope.scaling.factor f 4, "
                              ".rope.scaling.original_context_length I 128, ",
      EMBED HEAD NORM_END NORMS ATTEND GATED, GGUF_DECODER, 2 },
    { "mistral3", "mistral3", COMMON GROUPED RMS ROPE, EMBED HEAD NORM_END NORMS ATTEND GATED,
      GGUF_DECODER, 2 },
    { "smollm3", "smollm3", COMMON GROUPED RMS ROPE, EMBED NORM_END NORMS ATTEND GATED,
      GGUF_DECODER, 4 },
    { "arcee", "arcee", COMMON GROUPED RMS ROPE, EMBED HEAD NORM_END NORMS ATTEND UP_DOWN,
      GGUF_DECODER, 2 },
    { "ernie4_5", "ernie4_5", COMMON GROUPED RMS ROPE, EMBED NORM_END NORMS ATTEND GATED,
      GGUF_DECODER, 2 },
    { "seed_oss", "seed_oss",
      COMMON GROUPED RMS ROPE ".attention.key_length I 16, .attention.value_length I 16, ",
      EMBED HEAD NORM_END
      "blk.#.attn_norm.weight 64, blk.#.post_attention_norm.weight 64, " ATTEND QKV_BIAS GATED,
      GGUF_DECODER, 2 },
    { "hunyuan-dense", "hunyuan-dense", COMMON GROUPED RMS ROPE,
      EMBED NORM_END NORMS ATTEND HEAD_NORMS GATED, GGUF_DECODER, 2 },
    { "internlm2", "internlm2", COMMON GROUPED RMS ROPE, EMBED HEAD NORM_END NORMS ATTEND GATED,
      GGUF_DECODER, 2 },
    { "exaone", "exaone", COMMON GROUPED RMS ROPE, EMBED HEAD NORM_END NORMS ATTEND GATED,
      GGUF_DECODER, 2 },
    { "exaone4", "exaone4", COMMON GROUPED RMS ROPE,
      EMBED HEAD NORM_END ATTEND HEAD_NORMS
      "blk.#.post_attention_norm.weight 64, blk.#.post_ffw_norm.weight 64, " GATED,
      GGUF_DECODER, 4 },
    { "glm4", "glm4", COMMON GROUPED RMS ".rope.dimension_count I 8, ",
      EMBED HEAD NORM_END NORMS
      "blk.#.post_attention_norm.weight 64, blk.#.post_ffw_norm.weight 64, " ATTEND QKV_BIAS
      "blk.#.ffn_up.weight 192x64, blk.#.ffn_down.weight 64x96, ",
      GGUF_DECODER, 2 },
    { "chatglm", "chatglm", COMMON GROUPED RMS ".rope.dimension_count I 8, ",
      EMBED HEAD NORM_END NORMS
      "blk.#.attn_qkv.weight 128x64, blk.#.attn_qkv.bias 128, blk.#.attn_output.weight 64x64, "
      "blk.#.ffn_up.weight 192x64, blk.#.ffn_down.weight 64x96, ",
      GGUF_DECODER, 2 },
    { "nemotron", "nemotron", COMMON GROUPED LAYERNORM ".rope.dimension_count I 8, ",
      EMBED HEAD BOTH_END NORMS NORM_BIASES ATTEND UP_DOWN, GGUF_DECODER, 2 },
    { "granite", "granite",
      COMMON GROUPED RMS ROPE
      ".logit_scale f 4, .attention.scale f 0.125, .embedding_scale f 6, .residual_scale f 0.5, ",
      EMBED NORM_END NORMS ATTEND GATED, GGUF_DECODER, 2 },
    { "granitemoe", "granitemoe",
      COMMON GROUPED RMS ROPE
      ".logit_scale f 4, .attention.scale f 0.125, .embedding_scale f 6, .residual_scale f 0.5, "
      ".expert_count I 4, .expert_used_count I 2, ",
      EMBED NORM_END NORMS ATTEND EXPERTS, GGUF_DECODER, 2 },
    { "qwen2moe", "qwen2moe",
      COMMON GROUPED RMS ROPE
      ".expert_count I 4, .expert_used_count I 2, .expert_feed_forward_length I 96, "
      ".expert_shared_feed_forward_length I 32, ",
      EMBED HEAD NORM_END NORMS ATTEND QKV_BIAS EXPERTS
      "blk.#.ffn_gate_inp_shexp.weight 64, blk.#.ffn_gate_shexp.weight 32x64, "
      "blk.#.ffn_up_shexp.weight 32x64, blk.#.ffn_down_shexp.weight 64x32, ",
      GGUF_DECODER, 2 },
    { "olmoe", "olmoe", COMMON ALL_HEADS RMS ROPE ".expert_count I 4, .expert_used_count I 2, ",
      EMBED HEAD NORM_END NORMS SQUARE
      "blk.#.attn_q_norm.weight 64, blk.#.attn_k_norm.weight 64, " EXPERTS,
      GGUF_DECODER, 2 },
    { "phimoe", "phimoe",
      COMMON GROUPED
      ".attention.layer_norm_rms_epsilon f 1e-5, " ROPE
      ".attention.layer_norm_epsilon f 1e-5, .expert_count I 4, .expert_used_count I 2, "
      ".attention.sliding_window I 0, .rope.scaling.original_context_length I 512, ",
      EMBED HEAD "output.bias 48, " BOTH_END NORMS NORM_BIASES ATTEND QKV_BIAS
                 "blk.#.attn_output.bias 64, " EXPERTS,
      GGUF_DECODER, 2 },
    { "gpt-oss", "gpt-oss",
      COMMON GROUPED RMS ROPE
      ".attention.key_length I 16, .attention.value_length I 16, .attention.sliding_window I 4, "
      ".expert_count I 4, .expert_used_count I 2, .expert_feed_forward_length I 96, "
      ".rope.scaling.type s yarn, .rope.scaling.factor f 4, .rope.scaling.original_context_length "
      "I 128, ",
      EMBED HEAD NORM_END
      "blk.#.attn_norm.weight 64, blk.#.post_attention_norm.weight 64, blk.#.attn_sinks.weight "
      "4, " ATTEND QKV_BIAS
      "blk.#.attn_output.bias 64, blk.#.ffn_gate_inp.bias 4, blk.#.ffn_gate_exps.bias 4x96, "
      "blk.#.ffn_up_exps.bias 4x96, blk.#.ffn_down_exps.bias 4x64, " EXPERTS,
      GGUF_DECODER, 2 },
    { "llama4", "llama4",
      COMMON GROUPED RMS ROPE
      ".attention.key_length I 16, .attention.value_length I 16, .interleave_moe_layer_step I 2, "
      ".expert_count I 4, .expert_used_count I 2, .expert_feed_forward_length I 96, ",
      EMBED HEAD NORM_END NORMS ATTEND
      "blk.0.ffn_gate.weight 96x64, blk.0.ffn_up.weight 96x64, blk.0.ffn_down.weight 64x96, "
      "blk.2.ffn_gate.weight 96x64, blk.2.ffn_up.weight 96x64, blk.2.ffn_down.weight "
      "64x96, " LLAMA4_EXPERTS("1") LLAMA4_EXPERTS("3"),
      GGUF_DECODER, 4 },
    { "gemma4", "gemma4",
      COMMON GROUPED RMS
      ".rope.dimension_count I 32, .rope.dimension_count_swa I 16, .rope.freq_base f 1000, "
      ".rope.freq_base_swa f 500, .attention.key_length I 32, .attention.value_length I 32, "
      ".attention.key_length_swa I 16, .attention.value_length_swa I 16, "
      ".attention.sliding_window I 4, .attention.sliding_window_pattern [ 1010, "
      ".attention.shared_kv_layers I 2, .embedding_length_per_layer_input I 32, "
      ".final_logit_softcapping f 5, ",
      EMBED NORM_END NORMS
      "rope_freqs.weight 16, per_layer_token_embd.weight 48x128, per_layer_model_proj.weight "
      "128x64, "
      "per_layer_proj_norm.weight 32, blk.#.inp_gate.weight 32x64, blk.#.proj.weight 64x32, "
      "blk.#.post_norm.weight 64, blk.#.layer_output_scale.weight 1, "
      "blk.#.post_attention_norm.weight 64, blk.#.post_ffw_norm.weight 64, " GEMMA4_NARROW("0")
          GEMMA4_WIDE("1") GEMMA4_NARROW("2") GEMMA4_WIDE("3") GATED,
      GGUF_DECODER, 4 },
    { "gemma4-experts", "gemma4",
      COMMON RMS
      ".rope.dimension_count I 32, .rope.dimension_count_swa I 16, .rope.freq_base f 1000, "
      ".rope.freq_base_swa f 500, .attention.key_length I 32, .attention.value_length I 32, "
      ".attention.key_length_swa I 16, .attention.value_length_swa I 16, "
      ".attention.head_count_kv I 2, "
      ".attention.sliding_window I 4, .attention.sliding_window_pattern [ 10, "
      ".embedding_length_per_layer_input I 0, .expert_count I 4, .expert_used_count I 2, "
      ".expert_feed_forward_length I 32, ",
      EMBED NORM_END NORMS
      "rope_freqs.weight 16, blk.#.layer_output_scale.weight 1, "
      "blk.#.post_attention_norm.weight 64, blk.#.post_ffw_norm.weight 64, "
      "blk.#.ffn_gate_inp.weight 4x64, blk.#.ffn_gate_inp.scale 64, "
      "blk.#.ffn_gate_up_exps.weight 4x64x64, blk.#.ffn_down_exps.weight 4x64x32, "
      "blk.#.ffn_down_exps.scale 4, blk.#.pre_ffw_norm_2.weight 64, "
      "blk.#.post_ffw_norm_1.weight 64, blk.#.post_ffw_norm_2.weight 64, " GEMMA4_NARROW(
          "0") "blk.1.attn_q.weight 128x64, blk.1.attn_k.weight 64x64, blk.1.attn_output.weight "
               "64x128, "
               "blk.1.attn_q_norm.weight 32, blk.1.attn_k_norm.weight 32, " GATED,
      GGUF_DECODER, 2 },
    { "glm4moe", "glm4moe",
      COMMON GROUPED RMS ".rope.dimension_count I 8, .rope.freq_base f 1000, "
                         ".attention.key_length I 16, .attention.value_length I 16, "
                         ".nextn_predict_layers I 1, " DEEPSEEK_EXPERTS,
      EMBED HEAD NORM_END
      "blk.#.attn_norm.weight 64, blk.#.post_attention_norm.weight 64, " ATTEND QKV_BIAS HEAD_NORMS
          DENSE_FIRST DEEPSEEK_MIXTURE("1")
              DEEPSEEK_MIXTURE("2") "blk.1.exp_probs_b.bias 8, blk.2.exp_probs_b.bias 8, "
                                    "blk.2.nextn.eh_proj.weight 64x128, "
                                    "blk.2.nextn.enorm.weight 64, blk.2.nextn.hnorm.weight 64, ",
      GGUF_DECODER, 3 },
    { "deepseek2", "deepseek2",
      COMMON RMS LATENT_YARN
      ".attention.head_count_kv I 1, .attention.q_lora_rank I 32, "
      ".attention.key_length I 80, .attention.value_length I 64, "
      ".attention.key_length_mla I 48, .attention.value_length_mla I 32, "
      ".expert_group_count I 4, .expert_group_used_count I 2, " DEEPSEEK_EXPERTS,
      EMBED HEAD NORM_END NORMS LATENT LATENT_QUERIES
      "blk.#.attn_k_b.weight 4x64x32, blk.#.attn_v_b.weight 4x32x64, " DENSE_FIRST DEEPSEEK_MIXTURE(
          "1") "blk.1.exp_probs_b.bias 8, ",
      GGUF_DECODER, 2 },
    { "deepseek2-softmax", "deepseek2",
      COMMON RMS LATENT_YARN ALL_HEADS
      ".attention.q_lora_rank I 32, .attention.key_length I 48, .attention.value_length I 32, "
      ".expert_count I 8, .expert_used_count I 3, .expert_feed_forward_length I 96, "
      ".expert_shared_count I 2, .leading_dense_block_count I 1, .expert_weights_scale f 16, ",
      EMBED HEAD NORM_END NORMS LATENT LATENT_QUERIES
      "blk.#.attn_kv_b.weight 256x64, " DENSE_FIRST DEEPSEEK_MIXTURE("1"),
      GGUF_DECODER, 2 },
    { "deepseek2-lite", "deepseek2", /* llama.cpp knows it by its 27 blocks */
      COMMON RMS LATENT_YARN ALL_HEADS
      ".attention.key_length I 48, .attention.value_length I 32, .expert_count I 8, "
      ".expert_used_count I 3, .expert_feed_forward_length I 96, .expert_shared_count I 2, "
      ".leading_dense_block_count I 27, ",
      EMBED HEAD NORM_END NORMS LATENT GATED
      "blk.#.attn_q.weight 192x64, blk.#.attn_kv_b.weight 256x64, ",
      GGUF_DECODER, 27 },
    { "falcon-40b", "falcon", COMMON GROUPED LAYERNORM,
      EMBED HEAD BOTH_END "blk.#.attn_norm.weight 64, blk.#.attn_norm.bias 64, "
                          "blk.#.attn_norm_2.weight 64, blk.#.attn_norm_2.bias 64, "
                          "blk.#.attn_qkv.weight 128x64, blk.#.attn_output.weight 64x64, " UP_DOWN,
      GGUF_DECODER, 2 },
    { "gptneox-serial", "gptneox",
      COMMON ALL_HEADS LAYERNORM ".rope.dimension_count I 8, .use_parallel_residual ? 0, ",
      EMBED HEAD BOTH_END NORMS NORM_BIASES FUSED "blk.#.attn_qkv.bias 192, " UP_DOWN BIASES,
      GGUF_DECODER, 2 },
    { "mpt", "mpt",
      COMMON ALL_HEADS LAYERNORM ".attention.max_alibi_bias f 8, .attention.clamp_kqv f 0.5, ",
      EMBED NORM_END NORMS FUSED UP_DOWN, GGUF_DECODER, 2 },
    { "olmo", "olmo", COMMON ALL_HEADS ".attention.layer_norm_epsilon f 1e-5, " ROPE,
      EMBED SQUARE GATED, GGUF_DECODER, 2 },
    { "cohere2", "cohere2",
      COMMON GROUPED LAYERNORM ROPE ".logit_scale f 0.0625, .attention.sliding_window I 4, ",
      EMBED NORM_END "blk.#.attn_norm.weight 64, " ATTEND GATED, GGUF_DECODER, 4 },
    { "gemma-embedding", "gemma-embedding",
      COMMON GROUPED RMS ROPE ".attention.key_length I 16, .attention.value_length I 16, "
                              ".attention.sliding_window I 4, .pooling_type I 1, ",
      EMBED NORM_END NORMS
      "blk.#.post_attention_norm.weight 64, blk.#.post_ffw_norm.weight 64, " ATTEND HEAD_NORMS
          GATED,
      GGUF_ENCODER, 7 },
    { "modern-bert", "modern-bert",
      COMMON LAYERNORM ROPE ".attention.head_count_kv I 4, .attention.causal ? 0, .pooling_type I "
                            "1, .attention.sliding_window I 4, .attention.sliding_window_pattern I "
                            "3, .rope.freq_base_swa f 100, ",
      EMBED "token_embd_norm.weight 64, " NORM_END
            "blk.1.attn_norm.weight 64, blk.2.attn_norm.weight 64, blk.3.attn_norm.weight 64, "
            "blk.#.ffn_norm.weight 64, " FUSED
            "blk.#.ffn_up.weight 192x64, blk.#.ffn_down.weight 64x96, ",
      GGUF_ENCODER, 4 },
    { "jina-bert-v2", "jina-bert-v2",
      COMMON LAYERNORM
      ".attention.causal ? 0, .pooling_type I 1, tokenizer.ggml.token_type_count I 2, ",
      EMBED "token_types.weight 2x64, token_embd_norm.weight 64, token_embd_norm.bias 64, " SQUARE
            "blk.#.attn_q.bias 64, blk.#.attn_k.bias 64, blk.#.attn_v.bias 64, "
            "blk.#.attn_output_norm.weight 64, blk.#.attn_output_norm.bias 64, "
            "blk.#.layer_output_norm.weight 64, blk.#.layer_output_norm.bias 64, "
            "blk.#.attn_output.bias 64, blk.#.ffn_down.bias 64, " GATED,
      GGUF_ENCODER, 2 },
    { "t5", "t5",
      COMMON ".attention.key_length I 16, .attention.value_length I 16, "
             ".attention.relative_buckets_count I 8, .decoder_start_token_id I 0, " RMS,
      EMBED "output.weight 48x64, enc.output_norm.weight 64, dec.output_norm.weight 64, "
            "enc.blk.0.attn_rel_b.weight 8x4, dec.blk.0.attn_rel_b.weight 8x4, "
            "enc.blk.#.attn_norm.weight 64, enc.blk.#.attn_q.weight 64x64, enc.blk.#.attn_k.weight "
            "64x64, enc.blk.#.attn_v.weight 64x64, enc.blk.#.attn_o.weight 64x64, "
            "enc.blk.#.ffn_norm.weight 64, enc.blk.#.ffn_gate.weight 96x64, "
            "enc.blk.#.ffn_up.weight 96x64, enc.blk.#.ffn_down.weight 64x96, "
            "dec.blk.#.attn_norm.weight 64, dec.blk.#.attn_q.weight 64x64, dec.blk.#.attn_k.weight "
            "64x64, dec.blk.#.attn_v.weight 64x64, dec.blk.#.attn_o.weight 64x64, "
            "dec.blk.#.cross_attn_norm.weight 64, dec.blk.#.cross_attn_q.weight 64x64, "
            "dec.blk.#.cross_attn_k.weight 64x64, dec.blk.#.cross_attn_v.weight 64x64, "
            "dec.blk.#.cross_attn_o.weight 64x64, "
            "dec.blk.#.ffn_norm.weight 64, dec.blk.#.ffn_gate.weight 96x64, "
            "dec.blk.#.ffn_up.weight 96x64, dec.blk.#.ffn_down.weight 64x96, ",
      GGUF_ENCODER_DECODER, 2 },
    { "llama-wide-heads", "llama",
      COMMON GROUPED RMS
      ".rope.dimension_count I 32, .attention.key_length I 32, .attention.value_length I 32, ",
      EMBED HEAD NORM_END NORMS WIDE_ATTEND GATED, GGUF_DECODER, 2 },
    { "qwen3-wide-heads", "qwen3",
      COMMON GROUPED RMS
      ".rope.dimension_count I 32, .attention.key_length I 32, .attention.value_length I 32, ",
      EMBED NORM_END NORMS WIDE_ATTEND
      "blk.#.attn_q_norm.weight 32, blk.#.attn_k_norm.weight 32, " GATED,
      GGUF_DECODER, 2 },
    { "gemma3-scaled", "gemma3",
      COMMON GROUPED RMS ROPE
      ".rope.scaling.type s linear, .rope.scaling.factor f 8, "
      ".attention.key_length I 16, .attention.value_length I 16, .attention.sliding_window I 4, ",
      EMBED NORM_END NORMS
      "blk.#.post_attention_norm.weight 64, blk.#.post_ffw_norm.weight 64, " ATTEND HEAD_NORMS
          GATED,
      GGUF_DECODER, 7 },
    { "qwen2-yarn", "qwen2",
      COMMON GROUPED RMS ROPE ".rope.scaling.type s yarn, .rope.scaling.factor f 4, "
                              ".rope.scaling.original_context_length I 128, ",
      EMBED HEAD NORM_END NORMS ATTEND QKV_BIAS GATED, GGUF_DECODER, 2 },
    { "phi3-longrope", "phi3",
      COMMON GROUPED RMS ROPE
      ".attention.sliding_window I 0, .rope.scaling.original_context_length I 512, "
      ".rope.scaling.attn_factor f 1.19, ",
      EMBED HEAD NORM_END NORMS
      "rope_factors_short.weight 8, rope_factors_long.weight 8, "
      "blk.#.attn_qkv.weight 128x64, blk.#.attn_output.weight 64x64, blk.#.ffn_up.weight 192x64, "
      "blk.#.ffn_down.weight 64x96, ",
      GGUF_DECODER, 2 },
    { "phi3-window", "phi3",
      COMMON GROUPED RMS ROPE
      ".attention.sliding_window I 4, .rope.scaling.original_context_length I 512, ",
      EMBED HEAD NORM_END NORMS
      "blk.#.attn_qkv.weight 128x64, blk.#.attn_output.weight 64x64, blk.#.ffn_up.weight 192x64, "
      "blk.#.ffn_down.weight 64x96, ",
      GGUF_DECODER, 2 },
    { "olmo2-grouped", "olmo2", COMMON GROUPED RMS ROPE,
      EMBED HEAD NORM_END ATTEND
      "blk.#.attn_q_norm.weight 64, blk.#.attn_k_norm.weight 32, "
      "blk.#.post_attention_norm.weight 64, blk.#.post_ffw_norm.weight 64, " GATED,
      GGUF_DECODER, 2 },
    { "stablelm-parallel", "stablelm", COMMON GROUPED LAYERNORM ".rope.dimension_count I 4, ",
      EMBED HEAD BOTH_END
      "blk.#.attn_norm.weight 64, blk.#.attn_norm.bias 64, "
      "blk.#.attn_q_norm.weight 4x16, blk.#.attn_k_norm.weight 2x16, " ATTEND GATED,
      GGUF_DECODER, 2 },
    { "stablelm-biases", "stablelm", COMMON GROUPED LAYERNORM ".rope.dimension_count I 4, ",
      EMBED HEAD BOTH_END NORMS NORM_BIASES ATTEND QKV_BIAS GATED, GGUF_DECODER, 2 },
    { "phi2-separate", "phi2", COMMON ALL_HEADS LAYERNORM ".rope.dimension_count I 8, ",
      EMBED HEAD
      "output.bias 48, " BOTH_END "blk.#.attn_norm.weight 64, blk.#.attn_norm.bias 64, " SQUARE
      "blk.#.attn_q.bias 64, blk.#.attn_k.bias 64, blk.#.attn_v.bias 64, " UP_DOWN BIASES,
      GGUF_DECODER, 2 },
    { "gpt-oss-unscaled", "gpt-oss",
      COMMON GROUPED RMS ROPE
      ".attention.key_length I 16, .attention.value_length I 16, .attention.sliding_window I 4, "
      ".expert_count I 4, .expert_used_count I 2, .expert_feed_forward_length I 96, ",
      EMBED HEAD NORM_END
      "blk.#.attn_norm.weight 64, blk.#.post_attention_norm.weight 64, blk.#.attn_sinks.weight "
      "4, " ATTEND QKV_BIAS
      "blk.#.attn_output.bias 64, blk.#.ffn_gate_inp.bias 4, blk.#.ffn_gate_exps.bias 4x96, "
      "blk.#.ffn_up_exps.bias 4x96, blk.#.ffn_down_exps.bias 4x64, " EXPERTS,
      GGUF_DECODER, 2 },
    { "llama-both-ways", "llama",
      COMMON GROUPED RMS ROPE ".attention.causal ? 0, .pooling_type I 1, ",
      EMBED HEAD NORM_END NORMS ATTEND GATED, GGUF_ENCODER, 2 },
    { "llama-scaled-more", "llama",
      COMMON GROUPED RMS ROPE ".rope.scaling.factor f 2, .rope.scaling.attn_factor f 1.2, ",
      EMBED NORM_END "rope_freqs.weight 8, " NORMS ATTEND GATED, GGUF_DECODER, 2 },
    { "phi3-longrope-more", "phi3",
      COMMON GROUPED RMS ROPE
      ".attention.sliding_window I 0, .rope.scaling.original_context_length I 512, "
      ".rope.scaling.attn_factor f 1.19, .rope.scaling.type s longrope, .rope.scaling.factor f 4, ",
      EMBED HEAD NORM_END NORMS
      "rope_factors_short.weight 8, rope_factors_long.weight 8, "
      "blk.#.attn_qkv.weight 128x64, blk.#.attn_output.weight 64x64, blk.#.ffn_up.weight 192x64, "
      "blk.#.ffn_down.weight 64x96, ",
      GGUF_DECODER, 2 },
    { "hunyuan-dense-alpha", "hunyuan-dense", COMMON GROUPED RMS ROPE ".rope.scaling.alpha f 50, ",
      EMBED NORM_END NORMS ATTEND HEAD_NORMS GATED, GGUF_DECODER, 2 },
    { "bert-without-types", "bert",
      COMMON LAYERNORM
      ".attention.causal ? 0, .pooling_type I 2, tokenizer.ggml.token_type_count I 1, ",
      EMBED
      "position_embd.weight 512x64, token_embd_norm.weight 64, token_embd_norm.bias 64, " SQUARE
      "blk.#.attn_q.bias 64, blk.#.attn_k.bias 64, blk.#.attn_v.bias 64, "
      "blk.#.attn_output_norm.weight 64, blk.#.attn_output_norm.bias 64, "
      "blk.#.layer_output_norm.weight 64, blk.#.layer_output_norm.bias 64, " UP_DOWN BIASES,
      GGUF_ENCODER, 2 },
    { "t5-ungated", "t5",
      COMMON ".attention.key_length I 16, .attention.value_length I 16, "
             ".attention.relative_buckets_count I 8, .decoder_start_token_id I 0, " RMS,
      EMBED "enc.output_norm.weight 64, dec.output_norm.weight 64, enc.blk.0.attn_rel_b.weight "
            "8x4, dec.blk.0.attn_rel_b.weight 8x4, "
            "enc.blk.#.attn_norm.weight 64, enc.blk.#.attn_q.weight 64x64, enc.blk.#.attn_k.weight "
            "64x64, enc.blk.#.attn_v.weight 64x64, enc.blk.#.attn_o.weight 64x64, "
            "enc.blk.#.ffn_norm.weight 64, enc.blk.#.ffn_up.weight 96x64, "
            "enc.blk.#.ffn_down.weight 64x96, "
            "dec.blk.#.attn_norm.weight 64, dec.blk.#.attn_q.weight 64x64, dec.blk.#.attn_k.weight "
            "64x64, dec.blk.#.attn_v.weight 64x64, dec.blk.#.attn_o.weight 64x64, "
            "dec.blk.#.cross_attn_norm.weight 64, dec.blk.#.cross_attn_q.weight 64x64, "
            "dec.blk.#.cross_attn_k.weight 64x64, dec.blk.#.cross_attn_v.weight 64x64, "
            "dec.blk.#.cross_attn_o.weight 64x64, "
            "dec.blk.#.ffn_norm.weight 64, dec.blk.#.ffn_up.weight 96x64, "
            "dec.blk.#.ffn_down.weight 64x96, ",
      GGUF_ENCODER_DECODER, 2 },
    { "granite-biases", "granite",
      COMMON GROUPED RMS ROPE
      ".logit_scale f 4, .attention.scale f 0.125, .embedding_scale f 6, .residual_scale f 0.5, ",
      EMBED HEAD NORM_END NORMS ATTEND QKV_BIAS "blk.#.attn_output.bias 64, " GATED, GGUF_DECODER,
      2 },
    /* Rows of 256 numbers, for blocks of as many. */
    { "llama-wide", "llama",
      ".vocab_size I 48, .context_length I 512, .embedding_length I 256, "
      ".feed_forward_length I 256, .attention.head_count I 4, " GROUPED RMS
      ".rope.dimension_count I 64, .rope.freq_base f 1000, ",
      "token_embd.weight 48x256, output.weight 48x256, output_norm.weight 256, "
      "blk.#.attn_norm.weight 256, blk.#.ffn_norm.weight 256, blk.#.attn_q.weight 256x256, "
      "blk.#.attn_k.weight 128x256, blk.#.attn_v.weight 128x256, blk.#.attn_output.weight 256x256, "
      "blk.#.ffn_gate.weight 256x256, blk.#.ffn_up.weight 256x256, blk.#.ffn_down.weight "
      "256x256, ",
      GGUF_DECODER, 2 },
};

enum { MODEL_COUNT = sizeof MODELS / sizeof MODELS[0], TEXT_BYTES = 160, RANK_MAX = 3 };

const struct gguf_model *gguf_model_at(int i)
{
    return i < MODEL_COUNT ? &MODELS[i] : gguf_model_hybrid(i - MODEL_COUNT);
}

const struct gguf_model *gguf_model_named(const char *name)
{
    const struct gguf_model *model;
    for (int i = 0; (model = gguf_model_at(i)); i++)
        if (strcmp(model->name, name) == 0)
            return model;
    fail_msg("no model %s", name);
    return NULL;
}

/* -------------------------------------------------------------------- pairs -- */

/* Of "101" three flags. */
static void write_flags(struct gguf_write *file, const char *key, const char *digits)
{
    uint8_t flags[TEXT_BYTES];
    const size_t count = strlen(digits);
    for (size_t i = 0; i < count; i++)
        flags[i] = digits[i] == '1';
    gguf_write_numbers(file, key, '?', flags, count);
}

/* Of "0 2 0" three integers. */
static void write_integers(struct gguf_write *file, const char *key, const char *text)
{
    int32_t integers[TEXT_BYTES];
    size_t count = 0;
    for (int used; sscanf(text, "%" SCNd32 "%n", &integers[count], &used) == 1; text += used)
        count++;
    gguf_write_numbers(file, key, 'i', integers, count);
}

static void write_pair(struct gguf_write *file, const char *key, char type, const char *value)
{
    if (type == '[')
        write_flags(file, key, value);
    else if (type == '(')
        write_integers(file, key, value);
    else if (type == 's')
        gguf_write_text(file, key, value);
    else if (type == 'f' || type == 'd')
        gguf_write_number(file, key, type, atof(value));
    else
        gguf_write_integer(file, key, type, atoll(value));
}

static void write_pairs(struct gguf_write *file, const struct gguf_model *model)
{
    char name[TEXT_BYTES], value[TEXT_BYTES], key[2 * TEXT_BYTES], type;
    int used;
    for (const char *p = model->pairs;
         sscanf(p, "%159s %c %159[^,], %n", name, &type, value, &used) == 3; p += used) {
        snprintf(key, sizeof key, "%s%s", name[0] == '.' ? model->architecture : "", name);
        write_pair(file, key, type, value);
    }
}

/* ------------------------------------------------------------------ tensors -- */

static bool ends(const char *text, const char *end)
{
    const size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Norms are about 1, rates of decays below 0, and what divides rotary frequencies is at least 1; of
 * gemma4 it is 1, or so large that nothing turns. */
static void fill_tensor(const char *architecture, const char *name, float *values, int64_t count)
{
    struct fill fill = { .state = 1469598103934665603u };
    for (const char *c = name; *c; c++)
        fill.state = (fill.state ^ (unsigned char)*c) * 1099511628211u;
    if (ends(name, "rope_freqs.weight") && strcmp(architecture, "gemma4") == 0)
        for (int64_t i = 0; i < count; i++)
            values[i] = i < count / 4 ? 1 : 1e30F;
    else if (ends(name, "norm.weight") || ends(name, ".ffn_norm") || ends(name, "norm_2.weight")
             || ends(name, "norm_1.weight") || ends(name, "output_scale.weight"))
        fill_floats(&fill, values, count, 0.5F, 1.5F);
    else if (ends(name, ".ssm_a"))
        fill_floats(&fill, values, count, -4, -0.5F);
    else if (ends(name, "rope_freqs.weight") || strncmp(name, "rope_factors", 12) == 0)
        fill_floats(&fill, values, count, 1, 4);
    else
        fill_floats(&fill, values, count, -0.25F, 0.25F);
}

static void widen(const char *type, float *values, int64_t count)
{
    const struct gguf_block *block = gguf_block(type);
    void *blocks = malloc((size_t)(count / block->count) * (size_t)block->bytes);
    assert_non_null(blocks);
    gguf_quantize(block, values, count, blocks);
    gguf_widen(block, blocks, count, values);
    free(blocks);
}

static void write_tensor(struct gguf_write *file, const char *architecture, const char *name,
                         struct gguf_model_form form, int rank, const int64_t *shape)
{
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= shape[i];
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    fill_tensor(architecture, name, values, count);
    const bool is_plain =
        rank == 1 || ends(name, ".bias") || shape[rank - 1] % gguf_block(form.type)->count != 0;
    if (form.is_widened && !is_plain)
        widen(form.type, values, count);
    gguf_write_tensor(file, name, is_plain || form.is_widened ? "F32" : form.type, rank, shape,
                      values);
    free(values);
}

static void write_tensors(struct gguf_write *file, const struct gguf_model *model,
                          struct gguf_model_form form, int block)
{
    char pattern[TEXT_BYTES], name[TEXT_BYTES * 2], sizes[TEXT_BYTES];
    int used;
    for (const char *p = model->tensors;
         sscanf(p, "%159s %159[^,], %n", pattern, sizes, &used) == 2; p += used) {
        int64_t shape[RANK_MAX] = { 0 };
        char *place = strchr(pattern, '#');
        const int rank =
            sscanf(sizes, "%" SCNd64 "x%" SCNd64 "x%" SCNd64, &shape[0], &shape[1], &shape[2]);
        if (!place != (block < 0))
            continue;
        if (place)
            snprintf(name, sizeof name, "%.*s%d%s", (int)(place - pattern), pattern, block,
                     place + 1);
        else
            snprintf(name, sizeof name, "%s", pattern);
        write_tensor(file, model->architecture, name, form, rank, shape);
    }
}

struct gguf_write *gguf_model_make(const struct gguf_model *model, struct gguf_model_form form)
{
    struct gguf_write *file = gguf_write_create(3);
    char key[TEXT_BYTES];
    gguf_write_text(file, "general.architecture", model->architecture);
    gguf_write_text(file, "tokenizer.ggml.model", "no_vocab");
    write_pairs(file, model);
    snprintf(key, sizeof key, "%s.block_count", model->architecture);
    gguf_write_integer(file, key, 'I', model->blocks);
    for (int block = -1; block < model->blocks; block++)
        write_tensors(file, model, form, block);
    return file;
}

void gguf_model_write(const struct gguf_model *model, struct gguf_model_form form, const char *path)
{
    struct gguf_write *file = gguf_model_make(model, form);
    gguf_write_file(file, path);
    gguf_write_free(file);
}
