/* SPDX-License-Identifier: Apache-2.0 */
/* hybrid_model.h - small decoders some of whose layers are no attention: the config.json and the
 * tensors of several families; of LFM2 and Falcon-H1 a folder, too, for tests that ask for no
 * numbers. */
#ifndef HYBRID_MODEL_H
#define HYBRID_MODEL_H

#include "forward_llama.h"

/* Layers 0, 2 and 4 are convolutions and keep a state of two rows, layers 1 and 3 are attention. */
enum { LFM2_LAYERS = 5, LFM2_STATE = 2 * 16 };

#define LFM2_MLP LLAMA_BLOCK "feed_forward."
#define LFM2_CONVOLUTION(layer, bias)                                                              \
    "model.layers." layer ".conv.in_proj.weight 48x16*2, "                                         \
    "model.layers." layer ".conv.conv.weight 16x1x3*2, "                                           \
    "model.layers." layer ".conv.out_proj.weight 16x16, " bias
#define LFM2_ATTENTION(layer)                                                                      \
    "model.layers." layer ".self_attn.q_proj.weight 16x16, "                                       \
    "model.layers." layer ".self_attn.k_proj.weight 8x16, "                                        \
    "model.layers." layer ".self_attn.v_proj.weight 8x16, "                                        \
    "model.layers." layer ".self_attn.out_proj.weight 16x16, "                                     \
    "model.layers." layer ".self_attn.q_layernorm.weight 4*2, "                                    \
    "model.layers." layer ".self_attn.k_layernorm.weight 4*2, "
#define LFM2_BIAS(layer)                                                                           \
    "model.layers." layer ".conv.in_proj.bias 48, model.layers." layer ".conv.conv.bias 16, "      \
    "model.layers." layer ".conv.out_proj.bias 16, "
#define LFM2_NORMS                                                                                 \
    LLAMA_EMBEDDING LLAMA_NORM("operator_norm") ", " LLAMA_NORM(                                   \
        "ffn_norm") ", model.embedding_norm.weight 16"
#define LFM2_REST                                                                                  \
    LFM2_MLP                                                                                       \
    "w1.weight 24x16, " LFM2_MLP "w3.weight 24x16, " LFM2_MLP "w2.weight 16x24, " LFM2_NORMS

#define LFM2_CONFIG                                                                                \
    LLAMA_CONFIG("lfm2", "5", ",\"norm_eps\":1e-05,\"conv_L_cache\":3,\"full_attn_idxs\":[1,3]")
#define LFM2_LAYERS_BEFORE_MLP                                                                     \
    LFM2_CONVOLUTION("0", "")                                                                      \
    LFM2_ATTENTION("1") LFM2_CONVOLUTION("2", "") LFM2_ATTENTION("3") LFM2_CONVOLUTION("4", "")
#define LFM2_TENSORS LFM2_LAYERS_BEFORE_MLP LFM2_REST

/* Two of four experts in all blocks but the first. */
#define LFM2_MOE_FIELDS                                                                            \
    ",\"norm_eps\":1e-05,\"conv_L_cache\":3,\"layer_types\":[\"conv\",\"full_attention\","         \
    "\"conv\",\"full_attention\",\"conv\"],\"num_experts\":4,\"moe_intermediate_size\":12"
#define LFM2_MOE_UNSCALED_CONFIG                                                                   \
    LLAMA_CONFIG("lfm2_moe", "5",                                                                  \
                 LFM2_MOE_FIELDS ",\"num_dense_layers\":1,\"num_experts_per_tok\":2")
#define LFM2_MOE_CONFIG                                                                            \
    LLAMA_CONFIG("lfm2_moe", "5",                                                                  \
                 LFM2_MOE_FIELDS ",\"num_dense_layers\":1,\"num_experts_per_tok\":2,"              \
                                 "\"routed_scaling_factor\":1.5")
#define LFM2_EXPERT(e)                                                                             \
    LFM2_MLP                                                                                       \
    "experts." e ".w1.weight 12x16, " LFM2_MLP "experts." e ".w3.weight 12x16, " LFM2_MLP          \
    "experts." e ".w2.weight 16x12, "
#define LFM2_MOE_TENSORS                                                                           \
    LFM2_LAYERS_BEFORE_MLP LFM2_EXPERT("0") LFM2_EXPERT("1") LFM2_EXPERT("2") LFM2_EXPERT("3")     \
        LFM2_MLP "gate.weight 4x16*2, " LFM2_MLP "expert_bias 4, " LFM2_REST

/* --------------------------------------------------------------------- Mamba-2 -- */

/* 16 columns in, 32 within, 4 heads of 8, states of 6 rows in 2 groups, 4 taps. */
#define HYBRID_MAMBA(layer)                                                                        \
    "model.layers." layer ".mamba.in_proj.weight 92x16*2, "                                        \
    "model.layers." layer ".mamba.conv1d.weight 56x1x4*2, "                                        \
    "model.layers." layer ".mamba.conv1d.bias 56, model.layers." layer ".mamba.A_log 4*3, "        \
    "model.layers." layer ".mamba.dt_bias 4*3, model.layers." layer ".mamba.D 4, "                 \
    "model.layers." layer ".mamba.norm.weight 32, "                                                \
    "model.layers." layer ".mamba.out_proj.weight 16x32, "
#define HYBRID_ATTENTION(layer)                                                                    \
    "model.layers." layer ".self_attn.q_proj.weight 16x16, "                                       \
    "model.layers." layer ".self_attn.k_proj.weight 8x16, "                                        \
    "model.layers." layer ".self_attn.v_proj.weight 8x16, "                                        \
    "model.layers." layer ".self_attn.o_proj.weight 16x16, "
#define HYBRID_MAMBA_SIZES                                                                         \
    ",\"mamba_n_heads\":4,\"mamba_n_groups\":2,\"mamba_d_state\":6,\"mamba_d_conv\":4,"            \
    "\"mamba_d_head\":8,\"mamba_expand\":2,\"mamba_conv_bias\":true"
#define HYBRID_MAMBA_FIELDS HYBRID_MAMBA_SIZES ",\"mamba_proj_bias\":false"

#define BAMBA_CONFIG                                                                               \
    LLAMA_CONFIG("bamba", "4",                                                                     \
                 ",\"rms_norm_eps\":1e-05,\"attn_layer_indices\":[1,3]" HYBRID_MAMBA_FIELDS)
#define BAMBA_TENSORS                                                                              \
    LLAMA_EMBEDDING HYBRID_MAMBA("0") HYBRID_ATTENTION("1") HYBRID_MAMBA("2")                      \
        HYBRID_ATTENTION("3") LLAMA_BLOCK                                                          \
        "feed_forward.gate_proj.weight 24x16, " LLAMA_BLOCK                                        \
        "feed_forward.up_proj.weight 24x16, " LLAMA_BLOCK                                          \
        "feed_forward.down_proj.weight 16x24, " LLAMA_NORM("input_layernorm") ", " LLAMA_NORM(     \
            "pre_ff_layernorm") ", model.final_layernorm.weight 16" LLAMA_HEAD

/* Granite 4.0 H: GRANITE_EXPERTS has experts, and turns queries and keys. */
#define GRANITE_TENSORS                                                                            \
    LLAMA_EMBEDDING HYBRID_MAMBA("0") HYBRID_ATTENTION("1") HYBRID_MAMBA("2")                      \
        HYBRID_ATTENTION("3") LLAMA_BLOCK                                                          \
        "shared_mlp.input_linear.weight 48x16, " LLAMA_BLOCK                                       \
        "shared_mlp.output_linear.weight 16x24, " LLAMA_NORMS LLAMA_LAST_NORM LLAMA_HEAD
#define GRANITE_FIELDS                                                                             \
    ",\"rms_norm_eps\":1e-05,\"attention_multiplier\":0.25,\"embedding_multiplier\":12,"           \
    "\"residual_multiplier\":0.22,\"logits_scaling\":8,\"layer_types\":[\"mamba\",\"attention\","  \
    "\"mamba\",\"attention\"]" HYBRID_MAMBA_FIELDS

#define GRANITE_CONFIG                                                                             \
    LLAMA_CONFIG("granitemoehybrid", "4",                                                          \
                 GRANITE_FIELDS ",\"num_local_experts\":0,\"position_embedding_type\":\"nope\"")
#define GRANITE_EXPERTS_CONFIG                                                                     \
    LLAMA_CONFIG("granitemoehybrid", "4",                                                          \
                 GRANITE_FIELDS ",\"num_local_experts\":4,\"num_experts_per_tok\":2,"              \
                                "\"position_embedding_type\":\"rope\",\"time_step_limit\":[0.0,"   \
                                "{\"__float__\":\"Infinity\"}]")
#define GRANITE_EXPERTS_TENSORS                                                                    \
    LLAMA_BLOCK                                                                                    \
    "block_sparse_moe.router.layer.weight 4x16*2, " LLAMA_BLOCK                                    \
    "block_sparse_moe.input_linear.weight 4x24x16, " LLAMA_BLOCK                                   \
    "block_sparse_moe.output_linear.weight 4x16x12, " GRANITE_TENSORS

/* Nemotron-H: blocks of one part each, M - * E M *. */
#define NEMOTRON_MAMBA(layer)                                                                      \
    "backbone.layers." layer ".mixer.in_proj.weight 92x16*2, "                                     \
    "backbone.layers." layer ".mixer.conv1d.weight 56x1x4*2, "                                     \
    "backbone.layers." layer ".mixer.conv1d.bias 56, backbone.layers." layer ".mixer.A_log 4*3, "  \
    "backbone.layers." layer ".mixer.dt_bias 4*3, backbone.layers." layer ".mixer.D 4, "           \
    "backbone.layers." layer ".mixer.norm.weight 32, "                                             \
    "backbone.layers." layer ".mixer.out_proj.weight 16x32, "
#define NEMOTRON_ATTENTION(layer)                                                                  \
    "backbone.layers." layer ".mixer.q_proj.weight 16x16, "                                        \
    "backbone.layers." layer ".mixer.k_proj.weight 8x16, "                                         \
    "backbone.layers." layer ".mixer.v_proj.weight 8x16, "                                         \
    "backbone.layers." layer ".mixer.o_proj.weight 16x16, "
#define NEMOTRON_MLP(begin, size)                                                                  \
    "backbone.layers." begin "up_proj.weight " size "x16, "                                        \
    "backbone.layers." begin "down_proj.weight 16x" size ", "
#define NEMOTRON_FIELDS                                                                            \
    ",\"layer_norm_epsilon\":1e-05,\"attention_head_dim\":4,\"mamba_num_heads\":4,\"n_groups\":2," \
    "\"ssm_state_size\":6,\"conv_kernel\":4,\"mamba_head_dim\":8,\"mlp_hidden_act\":\"relu2\","    \
    "\"time_step_limit\":[0.0,Infinity],\"n_routed_experts\":3,\"num_experts_per_tok\":2,"         \
    "\"routed_scaling_factor\":2.5"
#define NEMOTRON_TENSORS                                                                           \
    "backbone.embeddings.weight 40x16, backbone.layers.#.norm.weight 16, " NEMOTRON_MAMBA("0")     \
        NEMOTRON_MLP("1.mixer.", "24") NEMOTRON_ATTENTION("2")                                     \
            NEMOTRON_MLP("3.mixer.shared_experts.", "20") NEMOTRON_MLP("3.mixer.experts.0.", "12") \
                NEMOTRON_MLP("3.mixer.experts.1.", "12") NEMOTRON_MLP("3.mixer.experts.2.", "12")  \
                    NEMOTRON_MAMBA("4")                                                            \
                        NEMOTRON_ATTENTION("5") "backbone.layers.3.mixer.gate.weight 3x16*2, "     \
                                                "backbone.layers.3.mixer.gate.e_score_correction_" \
                                                "bias 3, backbone.norm_f.weight 16" LLAMA_HEAD
#define NEMOTRON_CONFIG                                                                            \
    LLAMA_CONFIG("nemotron_h", "6", NEMOTRON_FIELDS ",\"hybrid_override_pattern\":\"M-*EM*\"")

/* Falcon-H1 of two blocks, whose layers 0 and 1 are attention and 2 and 3 the mixers beside it.
 * What of its tensors is a bias is FALCON_BIAS's or FALCON_NONE's. */
enum { FALCON_BLOCKS = 2, FALCON_LAYERS = 4, FALCON_STATE = 3 * 56 + 32 * 6 };

#define FALCON_FIELDS ",\"rms_norm_eps\":1e-05,\"head_dim\":4,\"mamba_d_ssm\":32" HYBRID_MAMBA_SIZES
#define FALCON_BIASES                                                                              \
    ",\"attention_bias\":true,\"mlp_bias\":true,\"projectors_bias\":true,\"mamba_proj_bias\":true"
#define FALCON_MULTIPLIERS                                                                         \
    ",\"attention_in_multiplier\":0.875,\"attention_out_multiplier\":0.9375,"                      \
    "\"embedding_multiplier\":2.5,\"key_multiplier\":0.625,\"lm_head_multiplier\":0.75,"           \
    "\"mlp_multipliers\":[0.8125,0.5625],\"ssm_in_multiplier\":1.25,"                              \
    "\"ssm_multipliers\":[0.75,1.25,0.5,1.5,0.625],\"ssm_out_multiplier\":0.375"
#define FALCON_LINEAR(name, out, in, bias)                                                         \
    LLAMA_BLOCK name ".weight " out "x" in ", " bias(LLAMA_BLOCK name ".bias " out ", ")
#define FALCON_TENSORS(bias, norm)                                                                 \
    LLAMA_EMBEDDING FALCON_LINEAR("self_attn.q_proj", "16", "16", bias)                            \
        FALCON_LINEAR("self_attn.k_proj", "8", "16", bias)                                         \
            FALCON_LINEAR("self_attn.v_proj", "8", "16", bias)                                     \
                FALCON_LINEAR("self_attn.o_proj", "16", "16", bias)                                \
                    FALCON_LINEAR("mamba.out_proj", "16", "32", bias)                              \
                        FALCON_LINEAR("feed_forward.gate_proj", "24", "16", bias)                  \
                            FALCON_LINEAR("feed_forward.up_proj", "24", "16", bias)                \
                                FALCON_LINEAR("feed_forward.down_proj", "16", "24", bias)          \
                                    bias(LLAMA_BLOCK "mamba.in_proj.bias 92, ") norm LLAMA_BLOCK   \
        "mamba.in_proj.weight 92x16*2, " LLAMA_BLOCK "mamba.conv1d.weight 56x1x4*2, " LLAMA_BLOCK  \
        "mamba.conv1d.bias 56, " LLAMA_BLOCK "mamba.A_log 4*3, " LLAMA_BLOCK                       \
        "mamba.dt_bias 4*3, " LLAMA_BLOCK                                                          \
        "mamba.D 4, " LLAMA_NORM("input_layernorm") ", " LLAMA_NORM(                               \
            "pre_ff_layernorm") ", model.final_layernorm.weight 16" LLAMA_HEAD
#define FALCON_NONE(tensor)
#define FALCON_BIAS(tensor) tensor

#define FALCON_CONFIG LLAMA_CONFIG("falcon_h1", "2", FALCON_FIELDS FALCON_MULTIPLIERS)

/* Makes the folder of the LFM2, with the files of the model; of the Falcon-H1, without a tokenizer.
 */
void hybrid_model_make(const char *folder);
void hybrid_model_make_falcon(const char *folder);

#endif
