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
};

enum { HYBRID_COUNT = sizeof HYBRIDS / sizeof HYBRIDS[0] };

const struct gguf_model *gguf_model_hybrid(int i)
{
    return i < HYBRID_COUNT ? &HYBRIDS[i] : NULL;
}
