/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_family_rows.h - short names to write the rows of the tables of families with: sets of
 * projections, and initialisers that rows of several tables share. */
#ifndef ATTND_CHECKPOINT_FAMILY_ROWS_H
#define ATTND_CHECKPOINT_FAMILY_ROWS_H

#include "models/checkpoint/checkpoint_family.h"

/* Sets of projections, as a row's biases. */
enum {
    Q = 1u << MODEL_Q,
    K = 1u << MODEL_K,
    V = 1u << MODEL_V,
    O = 1u << MODEL_O,
};

/* The names of the four tensors. */
#define PROJECTIONS(q, k, v, o)                                                                    \
    {                                                                                              \
        q, k, v, o                                                                                 \
    }

/* The names of two tensors, the first of which holds query, key and value. */
#define FUSED(qkv, o)                                                                              \
    {                                                                                              \
        qkv, NULL, NULL, o                                                                         \
    }

#define OUT_PROJ PROJECTIONS("q_proj", "k_proj", "v_proj", "out_proj")

#define POSITIONS(count) .positions = "max_position_embeddings=" #count

/* Layers of self attention. */
#define SELF(prefix, of_block, of_attention)                                                       \
    .kind = "self", .prefixes = (prefix), .block = (of_block), .attention = (of_attention)

/* Under the names that most families have. */
#define SIZES(layer_count, columns, heads)                                                         \
    .layers = "num_hidden_layers=" #layer_count, .width = "hidden_size=" #columns,                 \
    .q_heads = "num_attention_heads=" #heads

/* Of a pass: norms with a bias, and dense feed-forwards. */
#define PASS_NORMS(eps) .norm_is_centred = true, .norm_bias = "=true", .norm_eps = (eps)
#define FEED(of_up, of_down, flag, function)                                                       \
    .up = (of_up), .down = (of_down), .biases = (flag), .activation = (function)
#define NORMS(first, second)        .attention = { first }, .feed_forward = { second }
#define NORMS_BEFORE(first, second) NORMS(.before = (first), .before = (second))
#define NORMS_AFTER(first, second)  NORMS(.after = (first), .after = (second))
#define LM_HEAD(flag)               .output = "/lm_head", .tied = (flag)

/* The head of a masked language model after BERT's: its tensors are below begin, those of the layer
 * before the output below begin and inner. */
#define MASKED_HEAD(begin, inner, norm, function)                                                  \
    .transform = begin inner ".dense", .head_activation = (function),                              \
    .head_norm = begin inner "." norm, .output = begin ".decoder",                                 \
    .output_bias = begin ".bias|" begin ".decoder.bias"

/* Decoders under the names of Llama, and the pass of llama/modeling_llama.py: LlamaDecoderLayer,
 * LlamaMLP. */
#define LLAMA_TENSORS                                                                              \
    SELF("model.|", "layers.%.", "self_attn."),                                                    \
        .projections = PROJECTIONS("q_proj", "k_proj", "v_proj", "o_proj"), .causal = "=true"

#define LLAMA_NAMES LLAMA_TENSORS, .head_dim = "head_dim"

#define LLAMA_BIASES .more_biases = Q | K | V | O, .more_biases_if = "attention_bias"

#define LLAMA_FIELDS SIZES(32, 4096, 32), .theta = "rope_theta=10000"

#define GATED       .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"
#define AROUND      .tokens = "embed_tokens", .final_norm = "norm", .output = "/lm_head"
#define LLAMA_NORMS NORMS_BEFORE("input_layernorm", "post_attention_layernorm")
#define LLAMA_PASS                                                                                 \
    AROUND, LLAMA_NORMS, GATED, .activation = "hidden_act=silu", .tied = "tie_word_embeddings"

/* A mixture of experts under the names of Qwen. Releases of transformers before 5 save each expert
 * alone; what 5 itself computes with, and saves where it is asked to, is one tensor for all experts
 * of a block. */
#define EXPERTS(count, most, normalizes)                                                           \
    .router = "mlp.gate", .expert = "mlp.experts.%.", .gate = "gate_proj", .up = "up_proj",        \
    .down = "down_proj", .stacked_up = "mlp.experts.gate_up_proj",                                 \
    .stacked_down = "mlp.experts.down_proj", .activation = "hidden_act=silu",                      \
    .expert_count = "num_experts|num_local_experts=" #count,                                       \
    .chosen_count = "num_experts_per_tok=" #most, .normalized = (normalizes)

/* A mixture in every decoder_sparse_step-th block, but in none of mlp_only_layers. */
#define QWEN_EXPERT_FIELDS "mlp_only_layers|decoder_sparse_step"
bool checkpoint_has_experts_qwen(const struct checkpoint_run *run, int64_t block);

#endif
