/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf_gemmas.c - a GGUF file of Gemma 3n traces as the same checkpoint in safetensors, whose
 * trace test_trace_gemma3n.c compares with its source. llama.cpp divides squared deviations of
 * sparse gates by one less than there are, and shares keys of layers behind the 20th alone.
 *
 * Names of tensors and keys are those of gguf-py/gguf/constants.py of llama.cpp. */
#include "fixture.h"
#include "gguf_family.h"
#include "test.h"

#define BLOCK "model.layers.#."
#define AT    BLOCK "self_attn."

#define AROUND_TENSORS                                                                             \
    BLOCK                                                                                          \
    "input_layernorm.weight 16, " BLOCK "post_attention_layernorm.weight 16, " BLOCK               \
    "pre_feedforward_layernorm.weight 16, " BLOCK "post_feedforward_layernorm.weight 16, " BLOCK   \
    "mlp.gate_proj.weight 24x16, " BLOCK "mlp.up_proj.weight 24x16, " BLOCK                        \
    "mlp.down_proj.weight 16x24, model.embed_tokens.weight 40x16, model.norm.weight 16"
#define TOKEN_TENSORS                                                                              \
    BLOCK                                                                                          \
    "post_per_layer_input_norm.weight 16, " BLOCK "per_layer_input_gate.weight 6x16, " BLOCK       \
    "per_layer_projection.weight 16x6, model.embed_tokens_per_layer.weight 40x36, "                \
    "model.per_layer_model_projection.weight 36x16, model.per_layer_projection_norm.weight 6, "

#define NAMES                                                                                      \
    GGUF_AROUND GGUF_QK("", "") GGUF_VO GGUF_HEAD_NORMS("")                                        \
        GGUF_GATED GGUF_BOTH_IN_BLOCK("attn_norm", "input_layernorm")                              \
            GGUF_BOTH_IN_BLOCK("post_attention_norm", "post_attention_layernorm")                  \
                GGUF_BOTH_IN_BLOCK("ffn_norm", "pre_feedforward_layernorm")                        \
                    GGUF_BOTH_IN_BLOCK("post_ffw_norm", "post_feedforward_layernorm")
#define TOKEN_NAMES                                                                                \
    "per_layer_token_embd.weight=model.embed_tokens_per_layer.weight "                             \
    "per_layer_model_proj.weight=model.per_layer_model_projection.weight "                         \
    "per_layer_proj_norm.weight=model.per_layer_projection_norm.weight " GGUF_IN_BLOCK(            \
        "inp_gate.weight", "per_layer_input_gate.weight")                                          \
        GGUF_IN_BLOCK("proj.weight", "per_layer_projection.weight")                                \
            GGUF_IN_BLOCK("post_norm.weight", "post_per_layer_input_norm.weight")

#define FIELDS(type)                                                                               \
    "{\"model_type\":\"" type "\",\"hidden_size\":16,\"intermediate_size\":24,"                    \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"num_hidden_layers\":6,"                 \
    "\"num_kv_shared_layers\":2,\"sliding_window\":3,\"hidden_size_per_layer_input\":6,"           \
    "\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\","             \
    "\"full_attention\",\"sliding_attention\",\"full_attention\"],\"rms_norm_eps\":1e-06,"         \
    "\"tie_word_embeddings\":true,\"head_dim\":4,"
#define KEYS                                                                                       \
    GGUF_SIZES("6")                                                                                \
    GGUF_RMS("1e-6")                                                                               \
    "I:attention.sliding_window=3 I:attention.shared_kv_layers=2 "                                 \
    "I:embedding_length_per_layer_input=6 a:attention.sliding_window_pattern=101010 "              \
    "f:rope.freq_base=1000 f:rope.freq_base_swa=500 "

TEST(gemma3n)
{
    static const struct gguf_family GEMMA3N = {
        .name = "gemma3n",
        .config = FIELDS("gemma3n_text") "\"rope_theta\":1000.0,\"rope_local_base_freq\":500.0,"
                                         "\"altup_num_inputs\":3,\"final_logit_softcapping\":30.0}",
        .tensors = AT
        "q_proj.weight 16x16, " AT "k_proj.weight 8x16, " AT "v_proj.weight 8x16, " AT
        "o_proj.weight 16x16, " AT "q_norm.weight 4, " AT "k_norm.weight 4, " BLOCK
        "altup.correct_output_scale 16, " BLOCK "altup.correction_coefs.weight 3x3, " BLOCK
        "altup.prediction_coefs.weight 9x3, " BLOCK "altup.modality_router.weight 3x16, " BLOCK
        "altup.router_norm.weight 16, " BLOCK "laurel.linear_left.weight 5x16, " BLOCK
        "laurel.linear_right.weight 16x5, " BLOCK "laurel.post_laurel_norm.weight 16, "
        "model.altup_projections.0.weight 16x16, model.altup_projections.1.weight 16x16, "
        "model.altup_unembed_projections.0.weight 16x16, "
        "model.altup_unembed_projections.1.weight 16x16, " TOKEN_TENSORS AROUND_TENSORS,
        .twin = { .architecture = "gemma3n",
                  .keys = KEYS "I:attention.key_length=4 I:attention.value_length=4 "
                               "I:altup.num_inputs=3 I:altup.active_idx=0",
                  .tensors = NAMES TOKEN_NAMES
                  "altup_proj.weight=model.altup_projections.@.weight/stack:2 "
                  "altup_unembd_proj.weight=model.altup_unembed_projections.@.weight/"
                  "stack:2 " GGUF_IN_BLOCK(
                      "altup_correct_coef.weight",
                      "altup.correction_coefs.weight") GGUF_IN_BLOCK("altup_correct_scale.weight",
                                                                     "altup.correct_output_scale")
                      GGUF_IN_BLOCK("altup_predict_coef.weight", "altup.prediction_coefs.weight")
                          GGUF_IN_BLOCK("altup_router.weight", "altup.modality_router.weight")
                              GGUF_IN_BLOCK("altup_router_norm.weight", "altup.router_norm.weight")
                                  GGUF_IN_BLOCK("laurel_l.weight", "laurel.linear_left.weight")
                                      GGUF_IN_BLOCK("laurel_r.weight", "laurel.linear_right.weight")
                                          GGUF_IN_BLOCK("laurel_post_norm.weight",
                                                        "laurel.post_laurel_norm.weight"),
                  .layers = 6 },
    };
    gguf_family_check(&GEMMA3N);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
