/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf_families.c - architectures with the names of Llama as GGUF files trace as the same
 * checkpoints in safetensors, whose traces other tests compare with their published source.
 *
 * Names of tensors and keys are those of gguf-py/gguf/constants.py of llama.cpp at 0024aa7417ef,
 * and what the converter changes is what convert_hf_to_gguf.py and conversion/ do there. */
#include "fixture.h"
#include "forward_llama.h"
#include "gguf_family.h"
#include "test.h"

/* ------------------------------------------------------------ Llama and its kin -- */

#define PLAIN_LLAMA GGUF_AROUND GGUF_QK("", "") GGUF_VO GGUF_NORMS GGUF_GATED

static const struct gguf_family LLAMA_2_LAYERS = {
    .name = "llama",
    .config = LLAMA_CONFIG("llama", "2", ",\"rms_norm_eps\":1e-05,\"rope_theta\":500.0"),
    .tensors = LLAMA_TENSORS,
    .twin = { .architecture = "llama",
              .keys =
                  GGUF_SIZES("2") GGUF_RMS("1e-5") "f:rope.freq_base=500 I:rope.dimension_count=4",
              .tensors = GGUF_AROUND GGUF_QK("/pairs:4", "/pairs:2") GGUF_VO GGUF_NORMS GGUF_GATED,
              .layers = 2 },
    .tolerance = 1e-5,
};

TEST(llama)
{
    gguf_family_check(&LLAMA_2_LAYERS);
}

#define LLAMA_BIASES                                                                               \
    LLAMA_ATTENTION "q_proj.bias 16, " LLAMA_ATTENTION "k_proj.bias 8, " LLAMA_ATTENTION           \
                    "v_proj.bias 8, " LLAMA_ATTENTION "o_proj.bias 16, "

TEST(llama_tied_with_biases)
{
    struct gguf_family family = LLAMA_2_LAYERS;
    family.name = "biased";
    family.config = LLAMA_CONFIG("llama", "2",
                                 ",\"rms_norm_eps\":1e-05,\"rope_theta\":500.0,"
                                 "\"tie_word_embeddings\":true,\"attention_bias\":true");
    family.tensors =
        LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED LLAMA_NORMS LLAMA_BIASES LLAMA_LAST_NORM;
    gguf_family_check(&family);
}

TEST(llama_scaled_linearly)
{
    struct gguf_family family = LLAMA_2_LAYERS;
    family.name = "linear";
    family.config = LLAMA_CONFIG("llama", "2",
                                 ",\"rms_norm_eps\":1e-05,\"rope_theta\":500.0,\"rope_scaling\":"
                                 "{\"rope_type\":\"linear\",\"factor\":2.5}");
    family.twin.keys = GGUF_SIZES("2") GGUF_RMS(
        "1e-5") "f:rope.freq_base=500 s:rope.scaling.type=linear f:rope.scaling.factor=2.5";
    gguf_family_check(&family);
}

/* A factor without a type is linear, under its older name too; under the type "none" it is none. */
TEST(llama_scaled_without_a_type)
{
    struct gguf_family family = LLAMA_2_LAYERS;
    family.name = "typeless";
    family.config = LLAMA_CONFIG("llama", "2",
                                 ",\"rms_norm_eps\":1e-05,\"rope_theta\":500.0,\"rope_scaling\":"
                                 "{\"rope_type\":\"linear\",\"factor\":2.5}");
    family.twin.keys =
        GGUF_SIZES("2") GGUF_RMS("1e-5") "f:rope.freq_base=500 f:rope.scaling.factor=2.5";
    gguf_family_check(&family);
    family.twin.keys =
        GGUF_SIZES("2") GGUF_RMS("1e-5") "f:rope.freq_base=500 f:rope.scale_linear=2.5";
    gguf_family_check(&family);
    family.config = LLAMA_CONFIG("llama", "2", ",\"rms_norm_eps\":1e-05,\"rope_theta\":500.0");
    family.twin.keys = GGUF_SIZES("2")
        GGUF_RMS("1e-5") "f:rope.freq_base=500 s:rope.scaling.type=none f:rope.scale_linear=2.5";
    gguf_family_check(&family);
}

TEST(llama_scaled_by_yarn)
{
    struct gguf_family family = LLAMA_2_LAYERS;
    family.name = "yarn";
    family.config =
        LLAMA_CONFIG("llama", "2",
                     ",\"rms_norm_eps\":1e-05,\"rope_theta\":500.0,\"max_position_embeddings\":64,"
                     "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4.0,"
                     "\"original_max_position_embeddings\":16}");
    family.twin.keys = GGUF_SIZES("2")
        GGUF_RMS("1e-5") "f:rope.freq_base=500 s:rope.scaling.type=yarn f:rope.scaling.factor=4 "
                         "I:rope.scaling.original_context_length=16";
    gguf_family_check(&family);
}

#define EXPERT LLAMA_BLOCK "block_sparse_moe.experts."
#define EXPERT_TENSORS(e)                                                                          \
    EXPERT e ".w1.weight 24x16, " EXPERT e ".w2.weight 16x24, " EXPERT e ".w3.weight 24x16, "
#define STACKED(of_file, of_family)                                                                \
    GGUF_IN_BLOCK(of_file "_exps.weight", "block_sparse_moe.experts.@." of_family ".weight/"       \
                                          "stack:4")

static const struct gguf_family MIXTRAL = {
    .name = "mixtral",
    .config = LLAMA_CONFIG("mixtral", "2",
                           ",\"num_local_experts\":4,\"num_experts_per_tok\":2,"
                           "\"rms_norm_eps\":1e-06"),
    .tensors = LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_BLOCK
    "block_sparse_moe.gate.weight 4x16, " EXPERT_TENSORS("0") EXPERT_TENSORS("1")
        EXPERT_TENSORS("2") EXPERT_TENSORS("3") LLAMA_NORMS LLAMA_LAST_NORM LLAMA_HEAD,
    .twin = { .architecture = "llama",
              .keys = GGUF_SIZES("2") GGUF_RMS("1e-6") "f:rope.freq_base=1e6 I:expert_count=4 "
                                                       "I:expert_used_count=2",
              .tensors = GGUF_AROUND GGUF_QK("/pairs:4", "/pairs:2")
                  GGUF_VO GGUF_NORMS GGUF_IN_BLOCK("ffn_gate_inp.weight",
                                                   "block_sparse_moe.gate.weight")
                      STACKED("ffn_gate", "w1") STACKED("ffn_down", "w2") STACKED("ffn_up", "w3"),
              .layers = 2 },
    .tolerance = 1e-5,
};

TEST(llama_of_experts)
{
    gguf_family_check(&MIXTRAL);
}

/* As files before 2024-04 have them. */
TEST(llama_of_experts_in_turn)
{
    struct gguf_family family = MIXTRAL;
    family.name = "mixtral_old";
    family.twin.tensors = GGUF_AROUND GGUF_QK(
        "/pairs:4", "/pairs:2") GGUF_VO GGUF_NORMS GGUF_IN_BLOCK("ffn_gate_inp.weight",
                                                                 "block_sparse_moe.gate.weight")
        GGUF_IN_BLOCK("ffn_gate.0.weight", "block_sparse_moe.experts.0.w1.weight") GGUF_IN_BLOCK(
            "ffn_down.0.weight", "block_sparse_moe.experts.0.w2.weight")
            GGUF_IN_BLOCK("ffn_up.0.weight", "block_sparse_moe.experts.0.w3.weight") GGUF_IN_BLOCK(
                "ffn_gate.1.weight", "block_sparse_moe.experts.1.w1.weight")
                GGUF_IN_BLOCK("ffn_down.1.weight", "block_sparse_moe.experts.1.w2.weight")
                    GGUF_IN_BLOCK("ffn_up.1.weight", "block_sparse_moe.experts.1.w3.weight")
                        GGUF_IN_BLOCK("ffn_gate.2.weight", "block_sparse_moe.experts.2.w1.weight")
                            GGUF_IN_BLOCK("ffn_down.2.weight",
                                          "block_sparse_moe.experts.2.w2.weight")
                                GGUF_IN_BLOCK("ffn_up.2.weight",
                                              "block_sparse_moe.experts.2.w3.weight")
                                    GGUF_IN_BLOCK("ffn_gate.3.weight",
                                                  "block_sparse_moe.experts.3.w1.weight")
                                        GGUF_IN_BLOCK("ffn_down.3.weight",
                                                      "block_sparse_moe.experts.3.w2.weight")
                                            GGUF_IN_BLOCK("ffn_up.3.weight",
                                                          "block_sparse_moe.experts.3.w3.weight");
    gguf_family_check(&family);
}

TEST(granite)
{
    static const struct gguf_family GRANITE = {
        .name = "granite",
        .config = LLAMA_CONFIG("granite", "2",
                               ",\"attention_multiplier\":0.3,\"embedding_multiplier\":3.0,"
                               "\"residual_multiplier\":0.7,\"logits_scaling\":5.0,"
                               "\"tie_word_embeddings\":false"),
        .tensors = LLAMA_TENSORS,
        .twin = { .architecture = "granite",
                  .keys =
                      GGUF_SIZES("2") GGUF_RMS("1e-6") "f:attention.scale=0.3 f:embedding_scale=3 "
                                                       "f:residual_scale=0.7 f:logit_scale=5",
                  .tensors =
                      GGUF_AROUND GGUF_QK("/pairs:4", "/pairs:2") GGUF_VO GGUF_NORMS GGUF_GATED,
                  .layers = 2 },
        .tolerance = 1e-5,
    };
    gguf_family_check(&GRANITE);
}

TEST(olmo)
{
    static const struct gguf_family OLMO = {
        .name = "olmo",
        .config = LLAMA_CONFIG("olmo", "2", ",\"clip_qkv\":0.75"),
        .tensors = LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED "lm_head.weight 40x16",
        .twin = { .architecture = "olmo",
                  .keys = GGUF_SIZES("2") GGUF_LAYER_NORM("1e-5") "f:attention.clamp_kqv=0.75",
                  .tensors = GGUF_AROUND GGUF_QK("/pairs:4", "/pairs:2") GGUF_VO GGUF_GATED,
                  .layers = 2 },
        .tolerance = 1e-5,
    };
    gguf_family_check(&OLMO);
}

TEST(qwen2)
{
    static const struct gguf_family QWEN2 = {
        .name = "qwen2",
        .config = LLAMA_CONFIG("qwen2", "2", ",\"rms_norm_eps\":1e-06,\"rope_theta\":1000000.0"),
        .tensors = LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED LLAMA_NORMS LLAMA_ATTENTION
        "q_proj.bias 16, " LLAMA_ATTENTION "k_proj.bias 8, " LLAMA_ATTENTION
        "v_proj.bias 8, " LLAMA_LAST_NORM LLAMA_HEAD,
        .twin = { .architecture = "qwen2",
                  .keys = GGUF_SIZES("2") GGUF_RMS("1e-6") "f:rope.freq_base=1e6",
                  .tensors = PLAIN_LLAMA,
                  .layers = 2 },
    };
    gguf_family_check(&QWEN2);
}

TEST(qwen3)
{
    static const struct gguf_family QWEN3 = {
        .name = "qwen3",
        .config = LLAMA_CONFIG("qwen3", "2", ",\"head_dim\":4,\"tie_word_embeddings\":true"),
        .tensors = LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED LLAMA_NORMS LLAMA_HEAD_NORMS
            LLAMA_LAST_NORM,
        .twin = { .architecture = "qwen3",
                  .keys = GGUF_SIZES("2") GGUF_RMS("1e-6") "I:attention.key_length=4 "
                                                           "I:attention.value_length=4",
                  .tensors = PLAIN_LLAMA GGUF_HEAD_NORMS(""),
                  .layers = 2 },
    };
    gguf_family_check(&QWEN3);
}

/* -------------------------------------------------------------------- Gemma -- */

#define TIED LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED
#define FOUR_NORMS                                                                                 \
    LLAMA_NORMS LLAMA_NORM("pre_feedforward_layernorm") ", " LLAMA_NORM(                           \
        "post_feedforward_layernorm") ", "
#define NORM_AND_ONE(of_file, of_family) GGUF_IN_BLOCK(of_file ".weight", of_family ".weight/plus")
#define GEMMA_AROUND                                                                               \
    "token_embd.weight=model.embed_tokens.weight output_norm.weight=model.norm.weight/plus "
#define GEMMA2_TENSORS                                                                             \
    GEMMA_AROUND GGUF_QK("", "") GGUF_VO GGUF_GATED NORM_AND_ONE("attn_norm", "input_layernorm")   \
        NORM_AND_ONE("post_attention_norm", "post_attention_layernorm")                            \
            NORM_AND_ONE("ffn_norm", "pre_feedforward_layernorm")                                  \
                NORM_AND_ONE("post_ffw_norm", "post_feedforward_layernorm")                        \
                    GGUF_HEAD_NORMS("/plus")

TEST(gemma)
{
    static const struct gguf_family GEMMA = {
        .name = "gemma",
        .config = LLAMA_CONFIG("gemma", "2", ",\"head_dim\":4"),
        .tensors = TIED LLAMA_NORMS LLAMA_LAST_NORM,
        .twin = { .architecture = "gemma",
                  .keys = GGUF_SIZES("2") GGUF_RMS("1e-6") "I:attention.key_length=4 "
                                                           "I:attention.value_length=4",
                  .tensors = GEMMA_AROUND GGUF_QK("", "")
                      GGUF_VO GGUF_GATED NORM_AND_ONE("attn_norm", "input_layernorm")
                          NORM_AND_ONE("ffn_norm", "post_attention_layernorm"),
                  .layers = 2 },
    };
    gguf_family_check(&GEMMA);
}

TEST(gemma2)
{
    static const struct gguf_family GEMMA2 = {
        .name = "gemma2",
        .config = LLAMA_CONFIG("gemma2", "2",
                               ",\"head_dim\":4,\"query_pre_attn_scalar\":4,\"sliding_window\":3,"
                               "\"attn_logit_softcapping\":2.0,\"final_logit_softcapping\":3.0"),
        .tensors = TIED FOUR_NORMS LLAMA_LAST_NORM,
        .twin = { .architecture = "gemma2",
                  .keys = GGUF_SIZES("2") GGUF_RMS("1e-6") "I:attention.key_length=4 "
                                                           "I:attention.value_length=4 "
                                                           "I:attention.sliding_window=3 "
                                                           "f:attn_logit_softcapping=2 "
                                                           "f:final_logit_softcapping=3",
                  .tensors = GEMMA2_TENSORS,
                  .layers = 2 },
    };
    gguf_family_check(&GEMMA2);
}

static const struct gguf_family GEMMA3 = {
    .name = "gemma3",
    .config = LLAMA_CONFIG("gemma3_text", "7",
                           ",\"head_dim\":4,\"query_pre_attn_scalar\":4,\"sliding_window\":3,"
                           "\"rope_theta\":1000000,\"rope_local_base_freq\":10000,"
                           "\"sliding_window_pattern\":6"),
    .tensors = TIED FOUR_NORMS LLAMA_HEAD_NORMS LLAMA_LAST_NORM,
    .twin = { .architecture = "gemma3",
              .keys = GGUF_SIZES("7")
                  GGUF_RMS("1e-6") "I:attention.key_length=4 "
                                   "I:attention.value_length=4 "
                                   "I:attention.sliding_window=3 f:rope.freq_base=1e6",
              .tensors = GEMMA2_TENSORS,
              .layers = 7 },
};

TEST(gemma3)
{
    gguf_family_check(&GEMMA3);
}

/* The layers without a window alone are scaled. */
TEST(gemma3_scaled)
{
    struct gguf_family family = GEMMA3;
    family.name = "gemma3_scaled";
    family.config = LLAMA_CONFIG("gemma3_text", "7",
                                 ",\"head_dim\":4,\"query_pre_attn_scalar\":4,\"sliding_window\":3,"
                                 "\"rope_theta\":1000000,\"rope_local_base_freq\":10000,"
                                 "\"sliding_window_pattern\":6,\"rope_scaling\":{\"rope_type\":"
                                 "\"linear\",\"factor\":8.0}");
    family.twin.keys =
        GGUF_SIZES("7") GGUF_RMS("1e-6") "I:attention.key_length=4 I:attention.value_length=4 "
                                         "I:attention.sliding_window=3 f:rope.freq_base=1e6 "
                                         "s:rope.scaling.type=linear f:rope.scaling.factor=8";
    gguf_family_check(&family);
}

/* --------------------------------------------------------- other names of Llama -- */

TEST(phi3)
{
    static const struct gguf_family PHI3 = {
        .name = "phi3",
        .config = LLAMA_CONFIG("phi3", "2", ",\"rms_norm_eps\":1e-06,\"sliding_window\":3"),
        .tensors = LLAMA_EMBEDDING LLAMA_ATTENTION
        "qkv_proj.weight 32x16, " LLAMA_ATTENTION "o_proj.weight 16x16, " LLAMA_BLOCK
        "mlp.gate_up_proj.weight 48x16, " LLAMA_BLOCK
        "mlp.down_proj.weight 16x24, " LLAMA_NORMS LLAMA_LAST_NORM LLAMA_HEAD,
        .twin = { .architecture = "phi3",
                  .keys = GGUF_SIZES("2")
                      GGUF_RMS("1e-6") "I:attention.sliding_window=3 "
                                       "I:rope.dimension_count=4 f:rope.freq_base=10000",
                  .tensors = GGUF_AROUND GGUF_NORMS GGUF_IN_BLOCK("attn_qkv.weight",
                                                                  "self_attn.qkv_proj.weight")
                      GGUF_VO GGUF_IN_BLOCK("ffn_up.weight", "mlp.gate_up_proj.weight")
                          GGUF_IN_BLOCK("ffn_down.weight", "mlp.down_proj.weight"),
                  .layers = 2 },
    };
    gguf_family_check(&PHI3);
}

TEST(starcoder2)
{
    static const struct gguf_family STARCODER2 = {
        .name = "starcoder2",
        .config = LLAMA_CONFIG("starcoder2", "2", ",\"norm_epsilon\":1e-05"),
        .tensors = LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_BIASES LLAMA_BLOCK
        "mlp.c_fc.weight 24x16, " LLAMA_BLOCK "mlp.c_fc.bias 24, " LLAMA_BLOCK
        "mlp.c_proj.weight 16x24, " LLAMA_BLOCK "mlp.c_proj.bias 16, " LLAMA_NORMS LLAMA_BLOCK
        "input_layernorm.bias 16, " LLAMA_BLOCK
        "post_attention_layernorm.bias 16, model.norm.bias 16, " LLAMA_LAST_NORM,
        .twin = { .architecture = "starcoder2",
                  .keys = GGUF_SIZES("2") GGUF_LAYER_NORM("1e-5"),
                  .tensors = GGUF_AROUND GGUF_QK("", "") GGUF_VO GGUF_NORMS GGUF_BOTH_IN_BLOCK(
                      "ffn_up", "mlp.c_fc") GGUF_BOTH_IN_BLOCK("ffn_down", "mlp.c_proj"),
                  .layers = 2 },
    };
    gguf_family_check(&STARCODER2);
}

TEST(olmo2)
{
    static const struct gguf_family OLMO2 = {
        .name = "olmo2",
        .config = LLAMA_CONFIG("olmo2", "2", ",\"rms_norm_eps\":0.125"),
        .tensors = LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED
            LLAMA_NORM("post_attention_layernorm") ", " LLAMA_NORM(
                "post_feedforward_layernorm") ", " LLAMA_ATTENTION
                                              "q_norm.weight 16, " LLAMA_ATTENTION
                                              "k_norm.weight 8, " LLAMA_LAST_NORM LLAMA_HEAD,
        .twin = { .architecture = "olmo2",
                  .keys = GGUF_SIZES("2") GGUF_RMS("0.125"),
                  .tensors = GGUF_AROUND GGUF_QK("", "") GGUF_VO GGUF_GATED GGUF_HEAD_NORMS("")
                      GGUF_IN_BLOCK("post_attention_norm.weight", "post_attention_layernorm.weight")
                          GGUF_IN_BLOCK("post_ffw_norm.weight",
                                        "post_feedforward_layernorm.weight"),
                  .layers = 2 },
    };
    gguf_family_check(&OLMO2);
}

#define STABLELM_TENSORS                                                                           \
    LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED LLAMA_NORM(                                      \
        "input_layernorm") ", " LLAMA_BLOCK "input_layernorm.bias 16, model.norm.bias 16, "
#define STABLELM_KEYS                                                                              \
    GGUF_SIZES("2")                                                                                \
    GGUF_LAYER_NORM("1e-5") "I:rope.dimension_count=2 ?:use_parallel_residual=1"

TEST(stablelm)
{
    static const struct gguf_family STABLELM = {
        .name = "stablelm",
        .config =
            LLAMA_CONFIG("stablelm", "2", ",\"partial_rotary_factor\":0.5,\"use_qkv_bias\":true"),
        .tensors = STABLELM_TENSORS LLAMA_NORM(
            "post_attention_layernorm") ", " LLAMA_BLOCK
                                        "post_attention_layernorm.bias 16, " LLAMA_ATTENTION
                                        "q_proj.bias 16, " LLAMA_ATTENTION
                                        "k_proj.bias 8, " LLAMA_ATTENTION
                                        "v_proj.bias 8, " LLAMA_LAST_NORM LLAMA_HEAD,
        .twin = { .architecture = "stablelm",
                  .keys = STABLELM_KEYS,
                  .tensors = PLAIN_LLAMA,
                  .layers = 2 },
    };
    gguf_family_check(&STABLELM);
}

/* Norms of each head, and one norm for both parts. */
TEST(stablelm_2)
{
    static const struct gguf_family STABLELM2 = {
        .name = "stablelm2",
        .config = LLAMA_CONFIG("stablelm", "2",
                               ",\"partial_rotary_factor\":0.5,\"use_parallel_residual\":true,"
                               "\"qk_layernorm\":true"),
        .tensors = STABLELM_TENSORS LLAMA_ATTENTION
        "q_layernorm.norms.0.weight 4, " LLAMA_ATTENTION
        "q_layernorm.norms.1.weight 4, " LLAMA_ATTENTION
        "q_layernorm.norms.2.weight 4, " LLAMA_ATTENTION
        "q_layernorm.norms.3.weight 4, " LLAMA_ATTENTION
        "k_layernorm.norms.0.weight 4, " LLAMA_ATTENTION
        "k_layernorm.norms.1.weight 4, " LLAMA_LAST_NORM LLAMA_HEAD,
        .twin = { .architecture = "stablelm",
                  .keys = STABLELM_KEYS,
                  .tensors = PLAIN_LLAMA GGUF_IN_BLOCK(
                      "attn_q_norm.weight", "self_attn.q_layernorm.norms.@.weight/heads:4")
                      GGUF_IN_BLOCK("attn_k_norm.weight",
                                    "self_attn.k_layernorm.norms.@.weight/heads:2"),
                  .layers = 2 },
    };
    gguf_family_check(&STABLELM2);
}

TEST(command_r)
{
    static const struct gguf_family COMMAND_R = {
        .name = "command_r",
        .config = LLAMA_CONFIG("cohere", "2",
                               ",\"use_qk_norm\":true,\"logit_scale\":0.5,\"rope_theta\":10000.0"),
        .tensors = TIED LLAMA_NORM("input_layernorm") ", " LLAMA_ATTENTION
                                                      "q_norm.weight 4x4, " LLAMA_ATTENTION
                                                      "k_norm.weight 2x4, " LLAMA_LAST_NORM,
        .twin = { .architecture = "command-r",
                  .keys = GGUF_SIZES("2")
                      GGUF_LAYER_NORM("1e-5") "f:logit_scale=0.5 f:rope.freq_base=10000 "
                                              "s:rope.scaling.type=none",
                  .tensors = PLAIN_LLAMA GGUF_HEAD_NORMS(""),
                  .layers = 2 },
    };
    gguf_family_check(&COMMAND_R);
}

TEST(cohere2)
{
    static const struct gguf_family COHERE2 = {
        .name = "cohere2",
        .config = LLAMA_CONFIG("cohere2", "5",
                               ",\"sliding_window\":3,\"sliding_window_pattern\":4,"
                               "\"logit_scale\":0.25,\"rope_theta\":10000.0"),
        .tensors = TIED LLAMA_NORM("input_layernorm") ", " LLAMA_LAST_NORM,
        .twin = { .architecture = "cohere2",
                  .keys = GGUF_SIZES("5") GGUF_LAYER_NORM("1e-5") "f:logit_scale=0.25 "
                                                                  "I:attention.sliding_window=3 "
                                                                  "I:rope.dimension_count=4",
                  .tensors = PLAIN_LLAMA,
                  .layers = 5 },
    };
    gguf_family_check(&COHERE2);
}

#define LINEAR(name, shape, size) name ".weight " shape ", " name ".bias " size ", "
#define NORM(name)                name ".weight 16, " name ".bias 16, "

#define PHI "model.layers.#."
#define PHI_NAMES                                                                                  \
    "token_embd.weight=model.embed_tokens.weight " GGUF_BOTH("output_norm",                        \
                                                             "model.final_layernorm")              \
        GGUF_BOTH("output", "lm_head") GGUF_BOTH_IN_BLOCK("attn_norm", "input_layernorm")          \
            GGUF_QK("", "") GGUF_BOTH_IN_BLOCK("attn_v", "self_attn.v_proj")                       \
                GGUF_BOTH_IN_BLOCK("attn_output", "self_attn.dense")                               \
                    GGUF_BOTH_IN_BLOCK("ffn_up", "mlp.fc1")                                        \
                        GGUF_BOTH_IN_BLOCK("ffn_down", "mlp.fc2")

TEST(phi2)
{
    static const struct gguf_family PHI2 = {
        .name = "phi2",
        .config = "{\"model_type\":\"phi\",\"hidden_size\":16,\"intermediate_size\":24,"
                  "\"num_attention_heads\":4,\"num_key_value_heads\":4,\"num_hidden_layers\":2,"
                  "\"partial_rotary_factor\":0.5,\"vocab_size\":40}",
        .tensors = "model.embed_tokens.weight 40x16, " NORM(PHI "input_layernorm") LINEAR(
            PHI "self_attn.q_proj", "16x16", "16") LINEAR(PHI "self_attn.k_proj", "16x16", "16")
            LINEAR(PHI "self_attn.v_proj", "16x16", "16")
                LINEAR(PHI "self_attn.dense", "16x16", "16") LINEAR(PHI "mlp.fc1", "24x16", "24")
                    LINEAR(PHI "mlp.fc2", "16x24", "16")
                        NORM("model.final_layernorm") "lm_head.weight 40x16, lm_head.bias 40",
        .twin = { .architecture = "phi2",
                  .keys = "I:block_count=2 I:embedding_length=16 I:attention.head_count=4 "
                          "I:attention.head_count_kv=4 I:context_length=64 "
                          "I:rope.dimension_count=2 " GGUF_LAYER_NORM("1e-5"),
                  .tensors = PHI_NAMES,
                  .layers = 2 },
    };
    gguf_family_check(&PHI2);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
