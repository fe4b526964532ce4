/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_gguf_table.c - the table of architectures that a GGUF file can have.
 *
 * A row says where the fields of the family's config.json are, how its tensors are called, and in
 * amend what the converter of llama.cpp has changed in them:
 *
 *  - Queries and keys of "llama", "olmo", "granite" and others lie in the order of llama.cpp's
 * rotary embedding, whose pairs are two neighbouring columns. Both have the same order, so the
 * scores are the same sums in another order.
 *  - The norms of Gemma and Nemotron have the 1 in their weights already.
 *  - Matrices of GPT-2 are [out, in].
 *  - Fused tensors of BLOOM, Falcon and GPT-NeoX have all queries, then all keys, then all values.
 *  - The norms of StableLM's heads are one tensor. */
#include "models/checkpoint/checkpoint_gguf_names.h"
#include "models/checkpoint/checkpoint_gguf_row.h"

/* ---------------------------------------------------------- what is changed -- */

static void amend_gemma(struct checkpoint_stack *stack)
{
    stack->norm_adds_one = stack->pass.norm_adds_one = false;
}

static void amend_gpt2(struct checkpoint_stack *stack)
{
    stack->in_out = stack->pass.in_out = false;
}

static void amend_groups(struct checkpoint_stack *stack)
{
    stack->fusion = CHECKPOINT_ROWS;
}

static void amend_stablelm(struct checkpoint_stack *stack)
{
    stack->norms[0] = "q_layernorm";
    stack->norms[1] = "k_layernorm";
}

/* The first files of "phi2" have one tensor of query, key and value. */
static void amend_fused_phi2(struct checkpoint_stack *stack)
{
    stack->projections[MODEL_Q] = "qkv_proj";
    stack->projections[MODEL_K] = stack->projections[MODEL_V] = NULL;
    stack->fusion = CHECKPOINT_ROWS;
    stack->biases = 1u << MODEL_Q | 1u << MODEL_O;
}

/* -------------------------------------------------------- what no field says -- */

/* Gemma 2 and 3 scale scores by the columns of a head, but in the model of 27B parameters by those
 * of a row for each head: llama.cpp knows that one by its number of layers, too. */
static bool add_gemma_scale(const struct checkpoint_gguf_file *file, double layers_of_largest)
{
    const double heads = checkpoint_gguf_number(file, "attention.head_count", 1);
    const double width = checkpoint_gguf_number(file, "embedding_length", 0);
    const bool is_largest = checkpoint_gguf_number(file, "block_count", 0) == layers_of_largest;
    return checkpoint_gguf_add_head_dim(file)
           && checkpoint_gguf_add_number(file, file->config, "query_pre_attn_scalar",
                                         is_largest && heads >= 1 ? width / heads
                                                                  : checkpoint_gguf_head_dim(file));
}

static bool finish_gemma2(const struct checkpoint_gguf_file *file)
{
    return add_gemma_scale(file, 46);
}

/* A file without windows has sliding_window_pattern 1. */
static bool finish_gemma3(const struct checkpoint_gguf_file *file)
{
    const double window = checkpoint_gguf_number(file, "attention.sliding_window", 0);
    return add_gemma_scale(file, 62)
           && checkpoint_gguf_add_number(file, file->config, "sliding_window", window);
}

/* Falcon's new architecture has several keys for many queries, or two norms. */
static bool finish_falcon(const struct checkpoint_gguf_file *file)
{
    const double heads = checkpoint_gguf_number(file, "attention.head_count", 1);
    const double keys = checkpoint_gguf_number(file, "attention.head_count_kv", heads);
    const bool has_two_norms = checkpoint_gguf_has(file, "blk.0.attn_norm_2.weight");
    const bool is_new = has_two_norms || (keys != 1 && keys != heads);
    return checkpoint_gguf_add_number(file, file->config, "num_kv_heads", keys)
           && checkpoint_gguf_add_flag(file, "new_decoder_architecture", is_new)
           && checkpoint_gguf_add_flag(file, "multi_query", keys == 1)
           && (!is_new
               || checkpoint_gguf_add_number(file, file->config, "num_ln_in_parallel_attn",
                                             has_two_norms ? 2 : 1));
}

/* Without a second norm both parts read the same rows. */
static bool finish_stablelm(const struct checkpoint_gguf_file *file)
{
    return checkpoint_gguf_add_flag(file, "use_parallel_residual",
                                    !checkpoint_gguf_has(file, "blk.0.ffn_norm.weight"));
}

static bool finish_t5(const struct checkpoint_gguf_file *file)
{
    return checkpoint_gguf_add_text(
        file, "feed_forward_proj",
        checkpoint_gguf_has(file, "enc.blk.0.ffn_gate.weight") ? "gated-gelu" : "relu");
}

/* EmbeddingGemma sees the keys on both sides. */
static bool finish_gemma_embedding(const struct checkpoint_gguf_file *file)
{
    return finish_gemma3(file)
           && checkpoint_gguf_add_flag(file, "use_bidirectional_attention", true);
}

/* -------------------------------------------------------------------- rows -- */

const struct checkpoint_gguf checkpoint_ggufs[] = {
    { .architecture = "llama",
      .has = "blk.0.ffn_gate_inp.weight",
      .model_type = "mixtral",
      .fields = LLAMA_FIELDS COUNT_FIELDS("num_local_experts"),
      .tensors = MIXTRAL_MIXTURE_NAMES,
      .has_rope = true,
      .amend = checkpoint_gguf_amend_pairs },
    { .architecture = "llama",
      .model_type = "llama",
      .fields = LLAMA_FIELDS,
      .tensors = LLAMA_NAMES,
      .has_rope = true,
      .present = "attention_bias=blk.0.attn_q.bias|mlp_bias=blk.0.ffn_up.bias|",
      .amend = checkpoint_gguf_amend_llama },
    { .architecture = "qwen2",
      .model_type = "qwen2",
      .fields = LLAMA_FIELDS,
      .tensors = LLAMA_NAMES,
      .has_rope = true },
    { .architecture = "qwen3",
      .model_type = "qwen3",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS "rms_norm_eps=" RMS,
      .tensors = LLAMA_NAMES HEAD_NORM_NAMES,
      .has_rope = true,
      .finish = checkpoint_gguf_add_head_dim },
    { .architecture = "gemma",
      .model_type = "gemma",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS "rms_norm_eps=" RMS,
      .tensors = LLAMA_NAMES,
      .has_rope = true,
      .finish = checkpoint_gguf_add_head_dim,
      .amend = amend_gemma },
    { .architecture = "gemma2",
      .model_type = "gemma2",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS
      "sliding_window=attention.sliding_window?4096|"
      "attn_logit_softcapping=attn_logit_softcapping?50|"
      "final_logit_softcapping=final_logit_softcapping?30|rms_norm_eps=" RMS,
      .tensors = GEMMA2_NAMES,
      .has_rope = true,
      .finish = finish_gemma2,
      .amend = amend_gemma },
    { .architecture = "gemma3",
      .model_type = "gemma3_text",
      .fields = GEMMA3_FIELDS,
      .tensors = GEMMA2_NAMES,
      .has_rope = true,
      .finish = finish_gemma3,
      .amend = amend_gemma },
    { .architecture = "phi3",
      .model_type = "phi3",
      .fields = SIZE_FIELDS KV_FIELDS WIDE_FIELDS POSITION_FIELDS
      "original_max_position_embeddings=rope.scaling.original_context_length?|"
      "sliding_window=attention.sliding_window?|rms_norm_eps=" RMS,
      .tensors = AROUND_NAMES NORM_NAMES IN_BLOCK("attn_qkv", "self_attn.qkv_proj")
          IN_BLOCK("attn_output", "self_attn.o_proj") IN_BLOCK("ffn_up", "mlp.gate_up_proj")
              IN_BLOCK("ffn_down", "mlp.down_proj"),
      .has_rope = true },
    { .architecture = "gpt2",
      .model_type = "gpt2",
      .fields = OLD_SIZE_FIELDS "layer_norm_epsilon=" LAYER_NORM,
      .tensors = "token_embd=transformer.wte|position_embd=transformer.wpe|"
                 "output_norm=transformer.ln_f|output=lm_head|" IN_OLD_BLOCK("attn_norm", "ln_1")
                     IN_OLD_BLOCK("attn_qkv", "attn.c_attn") IN_OLD_BLOCK(
                         "attn_output", "attn.c_proj") IN_OLD_BLOCK("ffn_norm", "ln_2")
                         IN_OLD_BLOCK("ffn_up", "mlp.c_fc") IN_OLD_BLOCK("ffn_down", "mlp.c_proj"),
      .amend = amend_gpt2 },
    { .architecture = "bert",
      .has = "token_types.weight",
      .model_type = "bert",
      .fields = SIZE_FIELDS POSITION_FIELDS "layer_norm_eps=" LAYER_NORM,
      .tensors = BERT_NAMES },
    { .architecture = "bert",
      .model_type = "distilbert",
      .fields = "n_layers=block_count|dim=embedding_length|n_heads=attention.head_count|",
      .tensors = DISTILBERT_NAMES },
    { .architecture = "starcoder2",
      .model_type = "starcoder2",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS "norm_epsilon=" LAYER_NORM,
      .tensors = AROUND_NAMES ATTENTION_NAMES NORM_NAMES IN_BLOCK("ffn_up", "mlp.c_fc")
          IN_BLOCK("ffn_down", "mlp.c_proj"),
      .has_rope = true,
      .present = "use_bias=blk.0.attn_q.bias|" },
    { .architecture = "olmo",
      .model_type = "olmo",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS "clip_qkv=attention.clamp_kqv?|",
      .tensors = AROUND_NAMES ATTENTION_NAMES GATED_NAMES,
      .has_rope = true,
      .amend = checkpoint_gguf_amend_pairs },
    { .architecture = "olmo2",
      .has = ".attention.sliding_window",
      .model_type = "olmo3",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS
      "sliding_window=attention.sliding_window|rms_norm_eps=" RMS,
      .tensors = OLMO2_NAMES,
      .has_rope = true,
      .finish = checkpoint_gguf_add_layer_types },
    { .architecture = "olmo2",
      .model_type = "olmo2",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS "rms_norm_eps=" RMS,
      .tensors = OLMO2_NAMES,
      .has_rope = true },
    { .architecture = "stablelm",
      .model_type = "stablelm",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS "layer_norm_eps=" LAYER_NORM,
      .tensors = LLAMA_NAMES IN_BLOCK("attn_q_norm", "self_attn.q_layernorm")
          IN_BLOCK("attn_k_norm", "self_attn.k_layernorm"),
      .has_rope = true,
      .present = "use_qkv_bias=blk.0.attn_q.bias|qk_layernorm=blk.0.attn_q_norm.weight|",
      .finish = finish_stablelm,
      .amend = amend_stablelm },
    { .architecture = "command-r",
      .model_type = "cohere",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS
      "logit_scale=logit_scale|layer_norm_eps=" LAYER_NORM,
      .tensors = LLAMA_NAMES HEAD_NORM_NAMES,
      .has_rope = true,
      .present = "use_qk_norm=blk.0.attn_q_norm.weight|" },
    { .architecture = "cohere2",
      .model_type = "cohere2",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS
      "sliding_window=attention.sliding_window|logit_scale=logit_scale|layer_norm_eps=" LAYER_NORM,
      .tensors = LLAMA_NAMES,
      .has_rope = true },
    { .architecture = "granite",
      .model_type = "granite",
      .fields = LLAMA_FIELDS GRANITE_FIELDS,
      .tensors = LLAMA_NAMES,
      .has_rope = true,
      .present = "attention_bias=blk.0.attn_q.bias|mlp_bias=blk.0.ffn_up.bias|",
      .amend = checkpoint_gguf_amend_pairs },
    { .architecture = "falcon",
      .has = "blk.0.attn_norm_2.weight",
      .model_type = "falcon",
      .fields = OLD_SIZE_FIELDS "layer_norm_epsilon=" LAYER_NORM,
      .tensors =
          BLOOM_NAMES IN_OLD_BLOCK("attn_norm", "ln_mlp") IN_OLD_BLOCK("attn_norm_2", "ln_attn"),
      .has_rope = true,
      .finish = finish_falcon,
      .amend = amend_groups },
    { .architecture = "falcon",
      .model_type = "falcon",
      .fields = OLD_SIZE_FIELDS "layer_norm_epsilon=" LAYER_NORM,
      .tensors = BLOOM_NAMES IN_OLD_BLOCK("attn_norm", "input_layernorm"),
      .has_rope = true,
      .finish = finish_falcon,
      .amend = amend_groups },
    { .architecture = "gptneox",
      .model_type = "gpt_neox",
      .fields = SIZE_FIELDS POSITION_FIELDS
      "use_parallel_residual=use_parallel_residual?true|layer_norm_eps=" LAYER_NORM,
      .tensors = "token_embd=gpt_neox.embed_in|output_norm=gpt_neox.final_layer_norm|"
                 "output=embed_out|blk.%.attn_norm=gpt_neox.layers.%.input_layernorm|"
                 "blk.%.attn_qkv=gpt_neox.layers.%.attention.query_key_value|"
                 "blk.%.attn_output=gpt_neox.layers.%.attention.dense|"
                 "blk.%.ffn_norm=gpt_neox.layers.%.post_attention_layernorm|"
                 "blk.%.ffn_up=gpt_neox.layers.%.mlp.dense_h_to_4h|"
                 "blk.%.ffn_down=gpt_neox.layers.%.mlp.dense_4h_to_h|",
      .has_rope = true,
      .present = "attention_bias=blk.0.attn_qkv.bias|",
      .amend = amend_groups },
    { .architecture = "bloom",
      .model_type = "bloom",
      .fields = OLD_SIZE_FIELDS "layer_norm_epsilon=" LAYER_NORM,
      .tensors = BLOOM_NAMES "token_embd_norm=transformer.word_embeddings_layernorm|" IN_OLD_BLOCK(
          "attn_norm", "input_layernorm") IN_OLD_BLOCK("ffn_norm", "post_attention_layernorm"),
      .amend = amend_groups },
    { .architecture = "phi2",
      .has = "blk.0.attn_qkv.weight",
      .model_type = "phi",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS "layer_norm_eps=" LAYER_NORM,
      .tensors = "token_embd=model.embed_tokens|output_norm=model.final_layernorm|"
                 "output=lm_head|" IN_BLOCK("attn_norm", "input_layernorm") IN_BLOCK(
                     "attn_qkv", "self_attn.qkv_proj") IN_BLOCK("attn_output", "self_attn.dense")
                     IN_BLOCK("ffn_up", "mlp.fc1") IN_BLOCK("ffn_down", "mlp.fc2"),
      .has_rope = true,
      .amend = amend_fused_phi2 },
    { .architecture = "phi2",
      .model_type = "phi",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS "layer_norm_eps=" LAYER_NORM,
      .tensors =
          "token_embd=model.embed_tokens|output_norm=model.final_layernorm|"
          "output=lm_head|" IN_BLOCK("attn_norm", "input_layernorm")
              IN_BLOCK("attn_q", "self_attn.q_proj") IN_BLOCK("attn_k", "self_attn.k_proj")
                  IN_BLOCK("attn_v", "self_attn.v_proj") IN_BLOCK("attn_output", "self_attn.dense")
                      IN_BLOCK("ffn_up", "mlp.fc1") IN_BLOCK("ffn_down", "mlp.fc2"),
      .has_rope = true },
    { .architecture = "t5",
      .has = "enc.blk.0.ffn_gate.weight",
      .model_type = "t5",
      .fields = T5_FIELDS,
      .tensors = T5_NAMES("wi_1"),
      .finish = finish_t5 },
    { .architecture = "t5",
      .model_type = "t5",
      .fields = T5_FIELDS,
      .tensors = T5_NAMES("wi"),
      .finish = finish_t5 },
    { .architecture = "gemma-embedding",
      .model_type = "gemma3_text",
      .fields = GEMMA3_FIELDS,
      .tensors = GEMMA2_NAMES,
      .has_rope = true,
      .finish = finish_gemma_embedding,
      .amend = amend_gemma },
    { .architecture = NULL },
};
