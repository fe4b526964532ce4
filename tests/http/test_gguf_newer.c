/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf_newer.c - architectures whose windows or experts llama.cpp computes in another way than
 * is published, or only with files of many layers, as GGUF files trace as the same checkpoints in
 * safetensors, whose traces other tests compare with their published source.
 *
 * Names of tensors and keys are those of gguf-py/gguf/constants.py of llama.cpp at 0024aa7417ef,
 * and what the converter changes is what convert_hf_to_gguf.py and conversion/ do there. */
#include "fixture.h"
#include "forward_llama.h"
#include "gguf_family.h"
#include "test.h"

#define NORMS_INSIDE                                                                               \
    GGUF_BOTH_IN_BLOCK("post_attention_norm", "post_attention_layernorm")                          \
    GGUF_BOTH_IN_BLOCK("post_ffw_norm", "post_feedforward_layernorm")
#define INSIDE_TENSORS                                                                             \
    LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED LLAMA_NORM(                                      \
        "post_attention_layernorm") ", " LLAMA_NORM("post_feedforward_layernorm") ", "

/* The layers without a window alone are scaled. */
TEST(olmo3)
{
    static const struct gguf_family OLMO3 = {
        .name = "olmo3",
        .config = LLAMA_CONFIG("olmo3", "4",
                               ",\"rms_norm_eps\":1e-06,\"sliding_window\":3,\"rope_theta\":500,"
                               "\"max_position_embeddings\":64,\"rope_scaling\":{\"rope_type\":"
                               "\"yarn\",\"factor\":4.0,\"original_max_position_embeddings\":16}"),
        .tensors = INSIDE_TENSORS LLAMA_ATTENTION "q_norm.weight 16, " LLAMA_ATTENTION
                                                  "k_norm.weight 8, " LLAMA_LAST_NORM LLAMA_HEAD,
        .twin = { .architecture = "olmo2",
                  .keys =
                      GGUF_SIZES("4") GGUF_RMS("1e-6") "I:attention.sliding_window=3 "
                                                       "a:attention.sliding_window_pattern=1110 "
                                                       "f:rope.freq_base=500 "
                                                       "s:rope.scaling.type=yarn "
                                                       "f:rope.scaling.factor=4 "
                                                       "I:rope.scaling.original_context_length=16",
                  .tensors = GGUF_AROUND GGUF_QK("", "") GGUF_VO GGUF_HEAD_NORMS("")
                      GGUF_GATED NORMS_INSIDE,
                  .layers = 4 },
    };
    gguf_family_check(&OLMO3);
}

/* Layers without a window are not turned. */
TEST(exaone4)
{
    static const struct gguf_family EXAONE4 = {
        .name = "exaone4",
        .config = LLAMA_CONFIG("exaone4", "4",
                               ",\"rms_norm_eps\":1e-06,\"sliding_window\":3,"
                               "\"sliding_window_pattern\":\"LLLG\",\"rope_theta\":500,"
                               "\"tie_word_embeddings\":true"),
        .tensors = INSIDE_TENSORS LLAMA_HEAD_NORMS LLAMA_LAST_NORM,
        .twin = { .architecture = "exaone4",
                  .keys =
                      GGUF_SIZES("4") GGUF_RMS("1e-6") "I:attention.sliding_window=3 "
                                                       "a:attention.sliding_window_pattern=1110 "
                                                       "f:rope.freq_base=500",
                  .tensors = GGUF_AROUND GGUF_QK("", "") GGUF_VO GGUF_HEAD_NORMS("")
                      GGUF_GATED NORMS_INSIDE,
                  .layers = 4 },
    };
    gguf_family_check(&EXAONE4);
}

/* ----------------------------------------------------------------- mixtures -- */

#define SPARSE_MOE LLAMA_BLOCK "block_sparse_moe."
#define PHIMOE_EXPERT(e)                                                                           \
    SPARSE_MOE "experts." e ".w1.weight 12x16, " SPARSE_MOE "experts." e                           \
               ".w2.weight 16x12, " SPARSE_MOE "experts." e ".w3.weight 12x16, "
#define STACKED(of_file, of_family)                                                                \
    "blk.#." of_file "_exps.weight=" SPARSE_MOE "experts.@." of_family ".weight/stack:4 "
#define EXPERT_KEYS "I:expert_count=4 I:expert_used_count=2 I:expert_feed_forward_length=12 "

TEST(phimoe)
{
    static const struct gguf_family PHIMOE = {
        .name = "phimoe",
        .config = LLAMA_CONFIG("phimoe", "2",
                               ",\"num_local_experts\":4,\"num_experts_per_tok\":2,"
                               "\"attention_bias\":true,\"lm_head_bias\":true,"
                               "\"rope_theta\":10000.0"),
        .tensors = SPARSE_MOE "gate.weight 4x16, " PHIMOE_EXPERT("0") PHIMOE_EXPERT("1")
            PHIMOE_EXPERT("2") PHIMOE_EXPERT("3") LLAMA_ATTENTION
        "q_proj.bias 16, " LLAMA_ATTENTION "k_proj.bias 8, " LLAMA_ATTENTION
        "v_proj.bias 8, " LLAMA_ATTENTION "o_proj.bias 16, " LLAMA_BLOCK
        "input_layernorm.bias 16, " LLAMA_BLOCK
        "post_attention_layernorm.bias 16, model.norm.bias 16, lm_head.bias 40, " LLAMA_EMBEDDING
            LLAMA_PROJECTIONS LLAMA_NORMS LLAMA_LAST_NORM LLAMA_HEAD,
        .twin = { .architecture = "phimoe",
                  .keys = GGUF_SIZES("2") GGUF_RMS("1e-5") GGUF_LAYER_NORM("1e-5") EXPERT_KEYS
                  "I:attention.sliding_window=0 f:rope.freq_base=10000",
                  .tensors = GGUF_AROUND GGUF_QK("", "")
                      GGUF_VO GGUF_BOTH_IN_BLOCK("attn_norm", "input_layernorm")
                          GGUF_BOTH_IN_BLOCK("ffn_norm", "post_attention_layernorm")
                              GGUF_BOTH_IN_BLOCK("ffn_gate_inp", "block_sparse_moe.gate")
                                  STACKED("ffn_gate", "w1") STACKED("ffn_down", "w2")
                                      STACKED("ffn_up", "w3"),
                  .layers = 2 },
    };
    gguf_family_check(&PHIMOE);
}

#define MLP LLAMA_BLOCK "mlp."
#define EXPERTS(of_file, of_family, how)                                                           \
    "blk.#." of_file "=" MLP "experts." of_family "/unweave:" how " "

/* The file has gate and up in tensors of their own, [expert, out, in]. */
TEST(gpt_oss)
{
    static const struct gguf_family GPT_OSS = {
        .name = "gpt_oss",
        .config = LLAMA_CONFIG(
            "gpt_oss", "2",
            ",\"head_dim\":8,\"num_local_experts\":4,\"num_experts_per_tok\":2,"
            "\"sliding_window\":3,\"rms_norm_eps\":1e-05,\"rope_theta\":150000.0,"
            "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":32.0,\"beta_fast\":32.0,"
            "\"beta_slow\":1.0,\"original_max_position_embeddings\":4096,\"truncate\":false}"),
        .tensors = LLAMA_ATTENTION
        "q_proj.weight 32x16, " LLAMA_ATTENTION "k_proj.weight 16x16, " LLAMA_ATTENTION
        "v_proj.weight 16x16, " LLAMA_ATTENTION "o_proj.weight 16x32, " LLAMA_ATTENTION
        "q_proj.bias 32, " LLAMA_ATTENTION "k_proj.bias 16, " LLAMA_ATTENTION
        "v_proj.bias 16, " LLAMA_ATTENTION "o_proj.bias 16, " LLAMA_ATTENTION "sinks 4*3, " MLP
        "router.weight 4x16*2, " MLP "router.bias 4, " MLP "experts.gate_up_proj 4x16x24, " MLP
        "experts.gate_up_proj_bias 4x24, " MLP "experts.down_proj 4x12x16, " MLP
        "experts.down_proj_bias 4x16, " LLAMA_EMBEDDING LLAMA_NORMS LLAMA_LAST_NORM LLAMA_HEAD,
        .twin = { .architecture = "gpt-oss",
                  .keys = GGUF_SIZES("2") GGUF_RMS("1e-5") EXPERT_KEYS
                  "I:attention.key_length=8 I:attention.value_length=8 "
                  "I:attention.sliding_window=3 f:rope.freq_base=150000 s:rope.scaling.type=yarn "
                  "f:rope.scaling.factor=32 I:rope.scaling.original_context_length=4096",
                  .tensors = GGUF_AROUND GGUF_QK("", "") GGUF_VO GGUF_BOTH_IN_BLOCK(
                      "attn_norm", "input_layernorm") GGUF_BOTH_IN_BLOCK("post_attention_norm",
                                                                         "post_attention_layernorm")
                      GGUF_BOTH_IN_BLOCK(
                          "ffn_gate_inp",
                          "mlp.router") "blk.#.attn_sinks.weight=" LLAMA_ATTENTION
                                        "sinks " EXPERTS("ffn_gate_exps.weight", "gate_up_proj",
                                                         "2:0:16")
                                            EXPERTS("ffn_up_exps.weight", "gate_up_proj", "2:1:16")
                                                EXPERTS("ffn_gate_exps.bias", "gate_up_proj_bias",
                                                        "2:0:1")
                                                    EXPERTS("ffn_up_exps.bias", "gate_up_proj_bias",
                                                            "2:1:1") EXPERTS("ffn_down_exps.weight",
                                                                             "down_proj", "1:0:12")
                                                        EXPERTS("ffn_down_exps.bias",
                                                                "down_proj_bias", "1:0:1"),
                  .layers = 2 },
    };
    gguf_family_check(&GPT_OSS);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
