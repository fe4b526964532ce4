/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_model_hybrids.c - those models of gguf_models.h some of whose layers are no attention. */
#include "gguf_model_names.h"
#include "gguf_models.h"

#include <stddef.h>

/* ------------------------------------------------------ Qwen3-Next, Qwen 3.5 -- */

/* Two heads of keys and four of values, all of 16 columns, and attention in block 3. llama.cpp
 * takes the eps of the norms for the lengths of queries and keys too, which is 1e-6 as published.
 */
#define DELTA_KEYS                                                                                 \
    ".attention.layer_norm_rms_epsilon f 1e-6, "                                                   \
    ".attention.key_length I 16, .attention.value_length I 16, .rope.dimension_count I 8, "        \
    ".rope.freq_base f 1000, .ssm.conv_kernel I 4, .ssm.state_size I 16, .ssm.group_count I 2, "   \
    ".ssm.time_step_rank I 4, .ssm.inner_size I 64, .full_attention_interval I 4, "
#define DELTA(block)                                                                               \
    "blk." block ".attn_qkv.weight 128x64, blk." block ".attn_gate.weight 64x64, blk." block       \
    ".ssm_conv1d.weight 128x4, blk." block ".ssm_dt.bias 4, blk." block ".ssm_a 4, blk." block     \
    ".ssm_norm.weight 16, blk." block ".ssm_out.weight 64x64, "
#define BETA_ALPHA(block)                                                                          \
    "blk." block ".ssm_beta.weight 4x64, blk." block ".ssm_alpha.weight 4x64, "
#define GATED_ATTEND(block)                                                                        \
    "blk." block ".attn_q.weight 128x64, blk." block ".attn_k.weight 32x64, blk." block            \
    ".attn_v.weight 32x64, blk." block ".attn_output.weight 64x64, blk." block                     \
    ".attn_q_norm.weight 16, blk." block ".attn_k_norm.weight 16, "
#define SECTIONS ".rope.dimension_sections i 2, "

/* -------------------------------------------------------------------- LFM2 -- */

#define LFM2_KEYS RMS ROPE ".shortconv.l_cache I 3, .attention.head_count_kv ( 0 2 0 2, "
#define SHORT_CONVOLUTION(block)                                                                   \
    "blk." block ".shortconv.in_proj.weight 192x64, blk." block                                    \
    ".shortconv.conv.weight 64x3, blk." block ".shortconv.out_proj.weight 64x64, "
#define ATTEND_IN(block)                                                                           \
    "blk." block ".attn_q.weight 64x64, blk." block ".attn_k.weight 32x64, blk." block             \
    ".attn_v.weight 32x64, blk." block ".attn_output.weight 64x64, "
#define HEAD_NORMS_IN(block)                                                                       \
    "blk." block ".attn_q_norm.weight 16, blk." block ".attn_k_norm.weight 16, "
#define LFM2                                                                                       \
    EMBED "token_embd_norm.weight 64, " NORMS SHORT_CONVOLUTION("0") SHORT_CONVOLUTION("2")        \
        ATTEND_IN("1") ATTEND_IN("3") HEAD_NORMS_IN("1") HEAD_NORMS_IN("3")

#define BIASED_MIXTURE(block)                                                                      \
    "blk." block ".ffn_gate_inp.weight 4x64, blk." block ".exp_probs_b.bias 4, blk." block         \
    ".ffn_gate_exps.weight 4x96x64, blk." block ".ffn_up_exps.weight 4x96x64, blk." block          \
    ".ffn_down_exps.weight 4x64x96, "

/* ------------------------------------------------- Granite 4.0 H, Nemotron-H -- */

/* Four heads of 32 columns; a mixer is twice as wide as a layer. llama.cpp divides norms of all
 * architectures into groups, and Granite's are of the row: they are the same where there is one.
 * Both keys of Nemotron-H's eps are the same, as published. */
#define MAMBA_KEYS(groups)                                                                         \
    ".ssm.conv_kernel I 4, .ssm.state_size I 16, .ssm.inner_size I 128, .ssm.time_step_rank I 4, " \
    ".ssm.group_count I " groups ", "
#define MAMBA(block, in, convolved, norm)                                                          \
    "blk." block ".ssm_in.weight " in "x64, blk." block ".ssm_conv1d.weight " convolved            \
    "x4, blk." block ".ssm_conv1d.bias " convolved ", blk." block ".ssm_dt.bias 4, blk." block     \
    ".ssm_a 4x1, blk." block ".ssm_d 4x1, blk." block ".ssm_norm.weight " norm ", blk." block      \
    ".ssm_out.weight 64x128, "
#define ONE_GROUP(block)  MAMBA(block, "292", "160", "1x128")
#define TWO_GROUPS(block) MAMBA(block, "324", "192", "2x64")
#define GRANITE_KEYS                                                                               \
    COMMON RMS ROPE MAMBA_KEYS("1") ".attention.head_count_kv ( 0 2 0, "                           \
                                    ".logit_scale f 4, .embedding_scale f 6, "                     \
                                    ".residual_scale f 0.5, "
#define GRANITE EMBED NORM_END NORMS ONE_GROUP("0") ATTEND_IN("1") ONE_GROUP("2")
#define NEMOTRON_KEYS                                                                              \
    ".vocab_size I 48, .context_length I 512, .embedding_length I 64, .attention.head_count I 4, " \
    ".attention.key_length I 32, .attention.value_length I 32, " RMS LAYERNORM MAMBA_KEYS("2")
#define NEMOTRON                                                                                   \
    EMBED HEAD NORM_END "blk.#.attn_norm.weight 64, " TWO_GROUPS(                                  \
        "0") "blk.2.attn_q.weight 128x64, blk.2.attn_k.weight 64x64, blk.2.attn_v.weight 64x64, "  \
             "blk.2.attn_output.weight 64x128, "
#define RELU_MIXTURE(block)                                                                        \
    "blk." block ".ffn_gate_inp.weight 4x64, blk." block ".exp_probs_b.bias 4, blk." block         \
    ".ffn_up_exps.weight 4x96x64, blk." block ".ffn_down_exps.weight 4x64x96, blk." block          \
    ".ffn_up_shexp.weight 32x64, blk." block ".ffn_down_shexp.weight 64x32, "

/* --------------------------------------------------------------- Falcon-H1 -- */

/* Attention beside a mixer in each block. */
#define FALCON_KEYS                                                                                \
    COMMON GROUPED RMS MAMBA_KEYS("2") ".attention.key_length I 16, .attention.value_length I "    \
                                       "16, .rope.freq_base f 1000, "
#define FALCON                                                                                     \
    EMBED NORM_END ATTEND GATED                                                                    \
        "blk.#.ssm_in.weight 324x64, blk.#.ssm_conv1d.weight 192x4, blk.#.ssm_conv1d.bias 192, "   \
        "blk.#.ssm_dt.bias 4, blk.#.ssm_a 4x1, blk.#.ssm_d 4x1, blk.#.ssm_out.weight 64x128, "     \
        "blk.#.attn_norm.weight 64, blk.#.ffn_norm 64, "

/* -------------------------------------------------------------------- models -- */

static const struct gguf_model HYBRIDS[] = {
    { "qwen3next", "qwen3next",
      COMMON GROUPED DELTA_KEYS
      ".expert_count I 4, .expert_used_count I 2, .expert_feed_forward_length I 96, "
      ".expert_shared_feed_forward_length I 32, ",
      EMBED HEAD NORM_END DELTA("0") DELTA("1") DELTA("2") GATED_ATTEND(
          "3") "blk.0.ssm_ba.weight 8x64, blk.1.ssm_ba.weight 8x64, blk.2.ssm_ba.weight 8x64, "
               "blk.#.attn_norm.weight 64, blk.#.post_attention_norm.weight 64, " EXPERTS
               "blk.#.ffn_gate_inp_shexp.weight 64, blk.#.ffn_gate_shexp.weight 32x64, "
               "blk.#.ffn_up_shexp.weight 32x64, blk.#.ffn_down_shexp.weight 64x32, ",
      GGUF_DECODER, 4 },
    { "qwen35", "qwen35", COMMON GROUPED DELTA_KEYS SECTIONS,
      EMBED NORM_END DELTA("0") DELTA("1") DELTA("2") GATED_ATTEND("3") BETA_ALPHA("0")
          BETA_ALPHA("1") BETA_ALPHA(
              "2") "blk.#.attn_norm.weight 64, blk.#.post_attention_norm.weight 64, " GATED,
      GGUF_DECODER, 4 },
    { "qwen35moe", "qwen35moe",
      COMMON GROUPED DELTA_KEYS SECTIONS
      ".expert_count I 4, .expert_used_count I 2, .expert_feed_forward_length I 96, "
      ".expert_shared_feed_forward_length I 32, ",
      EMBED HEAD NORM_END DELTA("0") DELTA("1") DELTA("2") GATED_ATTEND("3") BETA_ALPHA("0")
          BETA_ALPHA("1") BETA_ALPHA(
              "2") "blk.#.attn_norm.weight 64, blk.#.post_attention_norm.weight 64, " EXPERTS
                   "blk.#.ffn_gate_inp_shexp.weight 64, blk.#.ffn_gate_shexp.weight 32x64, "
                   "blk.#.ffn_up_shexp.weight 32x64, blk.#.ffn_down_shexp.weight 64x32, ",
      GGUF_DECODER, 4 },
    { "qwen35-next", "qwen35", COMMON GROUPED DELTA_KEYS SECTIONS ".nextn_predict_layers I 1, ",
      EMBED NORM_END DELTA("0") DELTA("1") DELTA("2") GATED_ATTEND("3") GATED_ATTEND("4")
          BETA_ALPHA("0") BETA_ALPHA("1") BETA_ALPHA(
              "2") "blk.4.nextn.eh_proj.weight 64x128, blk.4.nextn.enorm.weight 64, "
                   "blk.4.nextn.hnorm.weight 64, "
                   "blk.#.attn_norm.weight 64, blk.#.post_attention_norm.weight 64, " GATED,
      GGUF_DECODER, 5 },
    { "lfm2", "lfm2", COMMON LFM2_KEYS, LFM2 GATED, GGUF_DECODER, 4 },
    { "lfm2moe", "lfm2moe",
      COMMON LFM2_KEYS ".expert_count I 4, .expert_used_count I 2, "
                       ".expert_feed_forward_length I 96, .leading_dense_block_count I 1, "
                       ".expert_gating_func I 2, ",
      LFM2 DENSE_FIRST BIASED_MIXTURE("1") BIASED_MIXTURE("2") BIASED_MIXTURE("3"), GGUF_DECODER,
      4 },
    { "granitehybrid", "granitehybrid",
      GRANITE_KEYS ".attention.scale f 0.125, .rope.scaling.finetuned ? 0, ", GRANITE GATED,
      GGUF_DECODER, 3 },
    { "granitehybrid-experts", "granitehybrid",
      GRANITE_KEYS ".attention.scale f 0.125, .rope.scaling.finetuned ? 0, .expert_count I 4, "
                   ".expert_used_count I 2, .expert_shared_feed_forward_length I 32, ",
      HEAD GRANITE EXPERTS "blk.#.ffn_gate_shexp.weight 32x64, blk.#.ffn_up_shexp.weight 32x64, "
                           "blk.#.ffn_down_shexp.weight 64x32, ",
      GGUF_DECODER, 3 },
    { "granitehybrid-bamba", "granitehybrid",
      COMMON RMS MAMBA_KEYS("1") ".attention.head_count_kv ( 0 2 0, .rope.dimension_count I 8, "
                                 ".rope.freq_base f 1000, .rope.scaling.finetuned ? 1, ",
      HEAD GRANITE GATED, GGUF_DECODER, 3 },
    { "nemotron_h", "nemotron_h",
      NEMOTRON_KEYS ".attention.head_count_kv ( 0 0 2 0, .feed_forward_length ( 0 96 0 96, ",
      NEMOTRON "blk.1.ffn_up.weight 96x64, blk.1.ffn_down.weight 64x96, "
               "blk.3.ffn_up.weight 96x64, blk.3.ffn_down.weight 64x96, ",
      GGUF_DECODER, 4 },
    { "nemotron_h_moe", "nemotron_h_moe",
      NEMOTRON_KEYS ".attention.head_count_kv ( 0 0 2 0, .feed_forward_length ( 0 96 0 96, "
                    ".expert_count I 4, .expert_used_count I 2, .expert_feed_forward_length I 96, "
                    ".expert_shared_feed_forward_length I 32, .expert_shared_count I 1, "
                    ".expert_weights_norm ? 1, .expert_weights_scale f 2.5, "
                    ".expert_group_count I 1, ",
      NEMOTRON RELU_MIXTURE("1") RELU_MIXTURE("3"), GGUF_DECODER, 4 },
    { "falcon-h1", "falcon-h1", FALCON_KEYS, HEAD FALCON, GGUF_DECODER, 2 },
    { "falcon-h1-norms", "falcon-h1", FALCON_KEYS,
      FALCON "blk.#.ssm_norm.weight 2x64, blk.#.ffn_gate.bias 96, blk.#.ffn_up.bias 96, "
             "blk.#.ffn_down.bias 64, ",
      GGUF_DECODER, 2 },
};

enum { HYBRID_COUNT = sizeof HYBRIDS / sizeof HYBRIDS[0] };

const struct gguf_model *gguf_model_hybrid(int i)
{
    return i < HYBRID_COUNT ? &HYBRIDS[i] : NULL;
}
