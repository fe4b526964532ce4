/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_family.h - a checkpoint in safetensors and its twin as a GGUF file, and their traces, which
 * must be the same. */
#ifndef GGUF_FAMILY_H
#define GGUF_FAMILY_H

#include "gguf_twin.h"

struct gguf_family {
    const char *name, *config, *tensors; /* as published_open() takes them */
    struct gguf_twin twin;
    double tolerance;   /* of a number, times 1 + its size; 0: to the bit */
    const char *fields; /* of the request, NULL: tokens of a decoder */
    bool has_no_head;
};

/* Serves both from the fixture's directory, as NAME and NAME_gguf, and compares their traces. */
void gguf_family_check(const struct gguf_family *family);

/* Compares the traces of two models that are served. */
void gguf_family_compare(const char *model, const char *twin, const char *fields, bool has_no_head,
                         double tolerance);

/* "blk.0.attn_q.weight=NAME.weight blk.0.attn_q.bias=NAME.bias " */
#define GGUF_BOTH(of_file, of_family)                                                              \
    of_file ".weight=" of_family ".weight " of_file ".bias=" of_family ".bias "

/* The names and the keys of a decoder with the names of Llama, four heads of 16 columns and two of
 * keys. how: what the twin does with a tensor ("/pairs:4"). */
#define GGUF_IN_BLOCK(of_file, of_family) "blk.#." of_file "=model.layers.#." of_family " "
#define GGUF_BOTH_IN_BLOCK(of_file, of_family)                                                     \
    GGUF_BOTH("blk.#." of_file, "model.layers.#." of_family)
#define GGUF_AROUND                                                                                \
    "token_embd.weight=model.embed_tokens.weight " GGUF_BOTH("output_norm", "model.norm")          \
        GGUF_BOTH("output", "lm_head")
#define GGUF_QK(how_q, how_k)                                                                      \
    GGUF_IN_BLOCK("attn_q.weight", "self_attn.q_proj.weight" how_q)                                \
    GGUF_IN_BLOCK("attn_q.bias", "self_attn.q_proj.bias" how_q)                                    \
    GGUF_IN_BLOCK("attn_k.weight", "self_attn.k_proj.weight" how_k)                                \
    GGUF_IN_BLOCK("attn_k.bias", "self_attn.k_proj.bias" how_k)
#define GGUF_VO                                                                                    \
    GGUF_BOTH_IN_BLOCK("attn_v", "self_attn.v_proj")                                               \
    GGUF_BOTH_IN_BLOCK("attn_output", "self_attn.o_proj")
#define GGUF_NORMS                                                                                 \
    GGUF_BOTH_IN_BLOCK("attn_norm", "input_layernorm")                                             \
    GGUF_BOTH_IN_BLOCK("ffn_norm", "post_attention_layernorm")
#define GGUF_GATED                                                                                 \
    GGUF_BOTH_IN_BLOCK("ffn_gate", "mlp.gate_proj")                                                \
    GGUF_BOTH_IN_BLOCK("ffn_up", "mlp.up_proj") GGUF_BOTH_IN_BLOCK("ffn_down", "mlp.down_proj")
#define GGUF_HEAD_NORMS(how)                                                                       \
    GGUF_IN_BLOCK("attn_q_norm.weight", "self_attn.q_norm.weight" how)                             \
    GGUF_IN_BLOCK("attn_k_norm.weight", "self_attn.k_norm.weight" how)

#define GGUF_SIZES(layers)                                                                         \
    "I:block_count=" layers " I:embedding_length=16 I:feed_forward_length=24 "                     \
    "I:attention.head_count=4 I:attention.head_count_kv=2 I:context_length=64 I:vocab_size=40 "

/* Keys that say the eps of a norm. */
#define GGUF_RMS(eps)        "f:attention.layer_norm_rms_epsilon=" eps " "
#define GGUF_LAYER_NORM(eps) "f:attention.layer_norm_epsilon=" eps " "

#endif
