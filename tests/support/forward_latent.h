/* SPDX-License-Identifier: Apache-2.0 */
/* forward_latent.h - DeepSeek's latent attention up to its softmax, for keys and values of every
 * head as the source makes them, and small checkpoints that have it.
 *
 * Written out of DeepseekV3Attention and apply_rotary_pos_emb_interleave() in Hugging Face
 * transformers, src/transformers/models/deepseek_v3/modeling_deepseek_v3.py at 00b676f8f048, and of
 * _compute_yarn_parameters() of modeling_rope_utils.py. */
#ifndef FORWARD_LATENT_H
#define FORWARD_LATENT_H

#include "forward_llama.h"

/* Heads, columns of a row that all of them share, and of a head: those of its keys without a
 * position and with one, and those of its values. */
enum { LATENT_HEADS = 4, LATENT_RANK = 8, LATENT_PLAIN = 4, LATENT_ROTATED = 6, LATENT_VALUES = 5 };

struct latent {
    double frequencies[LATENT_ROTATED / 2];
    double factor; /* of what is rotated by them */
    double scale;  /* of scores */
    bool has_down; /* a q_lora_rank */
    struct rows (*linear)(struct rows x, const char *name, int layer); /* of all but o_proj */
};

/* Without a scaling of the rotary embedding, of a theta of 10000; YaRN with a factor of 40, of a
 * length of 64, mscale and mscale_all_dim. */
void latent_set_plain(struct latent *latent);
void latent_set_yarn(struct latent *latent, double mscale, double mscale_all_dim);

struct decoder_projections latent_project(const struct latent *latent, struct rows x, int layer);

/* The tensors. Each of the lists ends with a comma. */
#define LATENT_TENSORS                                                                             \
    LLAMA_ATTENTION "kv_a_proj_with_mqa.weight 14x16, " LLAMA_ATTENTION                            \
                    "kv_a_layernorm.weight 8, " LLAMA_ATTENTION                                    \
                    "kv_b_proj.weight 36x8, " LLAMA_ATTENTION "o_proj.weight 16x20, "
#define LATENT_QUERIES LLAMA_ATTENTION "q_proj.weight 40x16, "
#define LATENT_DOWN                                                                                \
    LLAMA_ATTENTION "q_a_proj.weight 7x16, " LLAMA_ATTENTION                                       \
                    "q_a_layernorm.weight 7, " LLAMA_ATTENTION "q_b_proj.weight 40x7, "

#define LATENT_CONFIG(type, layers, more)                                                          \
    "{\"model_type\":\"" type "\",\"hidden_size\":16,\"intermediate_size\":24,"                    \
    "\"num_attention_heads\":4,\"num_key_value_heads\":4,\"vocab_size\":40,"                       \
    "\"kv_lora_rank\":8,\"qk_nope_head_dim\":4,\"qk_rope_head_dim\":6,\"v_head_dim\":5,"           \
    "\"num_hidden_layers\":" layers more "}"
#define LATENT_YARN(mscale, all_dim)                                                               \
    ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":40,\"beta_fast\":32,\"beta_slow\":1,"         \
    "\"mscale\":" mscale ",\"mscale_all_dim\":" all_dim                                            \
    ",\"original_max_position_embeddings\":64}"

#endif
