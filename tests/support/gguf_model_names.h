/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_model_names.h - short names to write the models of gguf_models.c with: keys and tensors that
 * architectures share. */
#ifndef GGUF_MODEL_NAMES_H
#define GGUF_MODEL_NAMES_H

#define COMMON                                                                                     \
    ".vocab_size I 48, .context_length I 512, .embedding_length I 64, "                            \
    ".feed_forward_length I 96, .attention.head_count I 4, "
#define RMS       ".attention.layer_norm_rms_epsilon f 1e-5, "
#define LAYERNORM ".attention.layer_norm_epsilon f 1e-5, "
#define GROUPED   ".attention.head_count_kv I 2, "
#define ALL_HEADS ".attention.head_count_kv I 4, "
#define ROPE      ".rope.dimension_count I 16, .rope.freq_base f 1000, "

#define EMBED    "token_embd.weight 48x64, "
#define HEAD     "output.weight 48x64, "
#define NORM_END "output_norm.weight 64, "
#define BOTH_END NORM_END "output_norm.bias 64, "
#define NORMS    "blk.#.attn_norm.weight 64, blk.#.ffn_norm.weight 64, "
#define ATTEND                                                                                     \
    "blk.#.attn_q.weight 64x64, blk.#.attn_k.weight 32x64, blk.#.attn_v.weight 32x64, "            \
    "blk.#.attn_output.weight 64x64, "
#define WIDE_ATTEND                                                                                \
    "blk.#.attn_q.weight 128x64, blk.#.attn_k.weight 64x64, blk.#.attn_v.weight 64x64, "           \
    "blk.#.attn_output.weight 64x128, "
#define SQUARE                                                                                     \
    "blk.#.attn_q.weight 64x64, blk.#.attn_k.weight 64x64, blk.#.attn_v.weight 64x64, "            \
    "blk.#.attn_output.weight 64x64, "
#define QKV_BIAS "blk.#.attn_q.bias 64, blk.#.attn_k.bias 32, blk.#.attn_v.bias 32, "
#define UP_DOWN  "blk.#.ffn_up.weight 96x64, blk.#.ffn_down.weight 64x96, "
#define GATED    "blk.#.ffn_gate.weight 96x64, " UP_DOWN
#define BIASES   "blk.#.ffn_up.bias 96, blk.#.ffn_down.bias 64, blk.#.attn_output.bias 64, "
#define EXPERTS                                                                                    \
    "blk.#.ffn_gate_inp.weight 4x64, blk.#.ffn_gate_exps.weight 4x96x64, "                         \
    "blk.#.ffn_up_exps.weight 4x96x64, blk.#.ffn_down_exps.weight 4x64x96, "
#define NORM_BIASES "blk.#.attn_norm.bias 64, blk.#.ffn_norm.bias 64, "
#define HEAD_NORMS  "blk.#.attn_q_norm.weight 16, blk.#.attn_k_norm.weight 16, "
#define FUSED       "blk.#.attn_qkv.weight 192x64, blk.#.attn_output.weight 64x64, "

#define LLAMA4_EXPERTS(block)                                                                      \
    "blk." block ".ffn_gate_inp.weight 4x64, blk." block                                           \
    ".ffn_gate_exps.weight 4x96x64, blk." block ".ffn_up_exps.weight 4x96x64, blk." block          \
    ".ffn_down_exps.weight 4x64x96, blk." block ".ffn_gate_shexp.weight 96x64, blk." block         \
    ".ffn_up_shexp.weight 96x64, blk." block ".ffn_down_shexp.weight 64x96, "

#define GEMMA4_NARROW(block)                                                                       \
    "blk." block ".attn_q.weight 64x64, blk." block ".attn_k.weight 32x64, blk." block             \
    ".attn_v.weight 32x64, blk." block ".attn_output.weight 64x64, blk." block                     \
    ".attn_q_norm.weight 16, blk." block ".attn_k_norm.weight 16, "
#define GEMMA4_WIDE(block)                                                                         \
    "blk." block ".attn_q.weight 128x64, blk." block ".attn_k.weight 64x64, blk." block            \
    ".attn_v.weight 64x64, blk." block ".attn_output.weight 64x128, blk." block                    \
    ".attn_q_norm.weight 32, blk." block ".attn_k_norm.weight 32, "

#define DENSE_FIRST                                                                                \
    "blk.0.ffn_gate.weight 96x64, blk.0.ffn_up.weight 96x64, blk.0.ffn_down.weight 64x96, "
#define DEEPSEEK_EXPERTS                                                                           \
    ".expert_count I 8, .expert_used_count I 3, .expert_feed_forward_length I 96, "                \
    ".expert_shared_count I 2, .leading_dense_block_count I 1, .expert_gating_func I 2, "          \
    ".expert_weights_scale f 2.5, .expert_weights_norm ? 1, "
#define DEEPSEEK_MIXTURE(block)                                                                    \
    "blk." block ".ffn_gate_inp.weight 8x64, blk." block                                           \
    ".ffn_gate_exps.weight 8x96x64, blk." block ".ffn_up_exps.weight 8x96x64, blk." block          \
    ".ffn_down_exps.weight 8x64x96, blk." block ".ffn_gate_shexp.weight 192x64, blk." block        \
    ".ffn_up_shexp.weight 192x64, blk." block ".ffn_down_shexp.weight 64x192, "
#define LATENT                                                                                     \
    "blk.#.attn_kv_a_mqa.weight 80x64, blk.#.attn_kv_a_norm.weight 64, "                           \
    "blk.#.attn_output.weight 64x128, "
#define LATENT_QUERIES                                                                             \
    "blk.#.attn_q_a.weight 32x64, blk.#.attn_q_a_norm.weight 32, blk.#.attn_q_b.weight 192x32, "
#define LATENT_YARN                                                                                \
    ".attention.kv_lora_rank I 64, .rope.dimension_count I 16, .rope.freq_base f 1000, "           \
    ".rope.scaling.type s yarn, .rope.scaling.factor f 4, "                                        \
    ".rope.scaling.original_context_length I 128, .rope.scaling.yarn_log_multiplier f 0.0707, "

#endif
