/* checkpoint_gguf_table.c - the table of architectures that a GGUF file can have.
 *
 * A row says where the fields of the family's config.json are, how its tensors are called, and in
 * amend what the converter of llama.cpp has changed in them:
 *
 *  - Queries and keys of "llama", "olmo" and "granite" lie in the order of llama.cpp's rotary
 *    embedding, whose pairs are two neighbouring columns. Both have the same order, so the scores
 *    are the same sums in another order.
 *  - The norms of Gemma have the 1 in their weights already.
 *  - Matrices of GPT-2 are [out, in].
 *  - Fused tensors of BLOOM, Falcon and GPT-NeoX have all queries, then all keys, then all values.
 *  - The norms of StableLM's heads are one tensor. */
#include "models/checkpoint/checkpoint_gguf_row.h"

#include <string.h>

/* ------------------------------------------------------------------ fields -- */

#define SIZE_FIELDS                                                                                \
    "num_hidden_layers=block_count|hidden_size=embedding_length|"                                  \
    "num_attention_heads=attention.head_count|"
#define OLD_SIZE_FIELDS                                                                            \
    "n_layer=block_count|hidden_size=embedding_length|n_head=attention.head_count|"
#define KV_FIELDS       "num_key_value_heads=attention.head_count_kv?|"
#define WIDE_FIELDS     "head_dim=attention.key_length?|"
#define POSITION_FIELDS "max_position_embeddings=context_length?|"
#define RMS             "attention.layer_norm_rms_epsilon|"
#define LAYER_NORM      "attention.layer_norm_epsilon|"

#define LLAMA_FIELDS SIZE_FIELDS KV_FIELDS WIDE_FIELDS POSITION_FIELDS "rms_norm_eps=" RMS

/* ----------------------------------------------------------------- tensors -- */

#define AROUND_NAMES                 "token_embd=model.embed_tokens|output_norm=model.norm|output=lm_head|"
#define IN_BLOCK(of_file, of_family) "blk.%." of_file "=model.layers.%." of_family "|"
#define ATTENTION_NAMES                                                                            \
    IN_BLOCK("attn_q", "self_attn.q_proj")                                                         \
    IN_BLOCK("attn_k", "self_attn.k_proj")                                                         \
    IN_BLOCK("attn_v", "self_attn.v_proj")                                                         \
    IN_BLOCK("attn_output", "self_attn.o_proj")
#define HEAD_NORM_NAMES                                                                            \
    IN_BLOCK("attn_q_norm", "self_attn.q_norm") IN_BLOCK("attn_k_norm", "self_attn.k_norm")
#define NORM_NAMES                                                                                 \
    IN_BLOCK("attn_norm", "input_layernorm") IN_BLOCK("ffn_norm", "post_attention_layernorm")
#define GATED_NAMES                                                                                \
    IN_BLOCK("ffn_gate", "mlp.gate_proj")                                                          \
    IN_BLOCK("ffn_up", "mlp.up_proj")                                                              \
    IN_BLOCK("ffn_down", "mlp.down_proj")
#define LLAMA_NAMES AROUND_NAMES ATTENTION_NAMES NORM_NAMES GATED_NAMES

/* One tensor for all experts; in files of before 2024-04 one for each. */
#define EXPERT_NAMES(of_file, of_family)                                                           \
    IN_BLOCK(of_file "_exps", of_family) IN_BLOCK(of_file ".#", of_family)
#define MIXTRAL_NAMES                                                                              \
    AROUND_NAMES ATTENTION_NAMES NORM_NAMES IN_BLOCK("ffn_gate_inp", "block_sparse_moe.gate")      \
        EXPERT_NAMES("ffn_gate", "block_sparse_moe.experts.#.w1")                                  \
            EXPERT_NAMES("ffn_up", "block_sparse_moe.experts.#.w3")                                \
                EXPERT_NAMES("ffn_down", "block_sparse_moe.experts.#.w2")

/* Norms on both sides of each part. */
#define GEMMA2_NAMES                                                                               \
    AROUND_NAMES ATTENTION_NAMES HEAD_NORM_NAMES GATED_NAMES IN_BLOCK("attn_norm",                 \
                                                                      "input_layernorm")           \
        IN_BLOCK("post_attention_norm", "post_attention_layernorm")                                \
            IN_BLOCK("ffn_norm", "pre_feedforward_layernorm")                                      \
                IN_BLOCK("post_ffw_norm", "post_feedforward_layernorm")

/* Older names: BLOOM, Falcon and GPT-2. */
#define IN_OLD_BLOCK(of_file, of_family) "blk.%." of_file "=transformer.h.%." of_family "|"
#define BLOOM_NAMES                                                                                \
    "token_embd=transformer.word_embeddings|output_norm=transformer.ln_f|output=lm_"               \
    "head|" IN_OLD_BLOCK("attn_qkv", "self_attention.query_key_value")                             \
        IN_OLD_BLOCK("attn_output", "self_attention.dense")                                        \
            IN_OLD_BLOCK("ffn_up", "mlp.dense_h_to_4h")                                            \
                IN_OLD_BLOCK("ffn_down", "mlp.dense_4h_to_h")

#define BERT_NAMES                                                                                 \
    "token_embd=bert.embeddings.word_embeddings|"                                                  \
    "position_embd=bert.embeddings.position_embeddings|"                                           \
    "token_types=bert.embeddings.token_type_embeddings|"                                           \
    "token_embd_norm=bert.embeddings.LayerNorm|"                                                   \
    "blk.%.attn_q=bert.encoder.layer.%.attention.self.query|"                                      \
    "blk.%.attn_k=bert.encoder.layer.%.attention.self.key|"                                        \
    "blk.%.attn_v=bert.encoder.layer.%.attention.self.value|"                                      \
    "blk.%.attn_output=bert.encoder.layer.%.attention.output.dense|"                               \
    "blk.%.attn_output_norm=bert.encoder.layer.%.attention.output.LayerNorm|"                      \
    "blk.%.ffn_up=bert.encoder.layer.%.intermediate.dense|"                                        \
    "blk.%.ffn_down=bert.encoder.layer.%.output.dense|"                                            \
    "blk.%.layer_output_norm=bert.encoder.layer.%.output.LayerNorm|"
#define DISTILBERT_NAMES                                                                           \
    "token_embd=distilbert.embeddings.word_embeddings|"                                            \
    "position_embd=distilbert.embeddings.position_embeddings|"                                     \
    "token_embd_norm=distilbert.embeddings.LayerNorm|"                                             \
    "blk.%.attn_q=distilbert.transformer.layer.%.attention.q_lin|"                                 \
    "blk.%.attn_k=distilbert.transformer.layer.%.attention.k_lin|"                                 \
    "blk.%.attn_v=distilbert.transformer.layer.%.attention.v_lin|"                                 \
    "blk.%.attn_output=distilbert.transformer.layer.%.attention.out_lin|"                          \
    "blk.%.attn_output_norm=distilbert.transformer.layer.%.sa_layer_norm|"                         \
    "blk.%.ffn_up=distilbert.transformer.layer.%.ffn.lin1|"                                        \
    "blk.%.ffn_down=distilbert.transformer.layer.%.ffn.lin2|"                                      \
    "blk.%.layer_output_norm=distilbert.transformer.layer.%.output_layer_norm|"

/* A feed-forward is layer 1 of an encoder's block and layer 2 of a decoder's. */
#define T5_ATTENTION_NAMES(of_file, of_family)                                                     \
    of_file "_q=" of_family ".q|" of_file "_k=" of_family ".k|" of_file "_v=" of_family            \
            ".v|" of_file "_o=" of_family ".o|" of_file "_rel_b=" of_family                        \
            ".relative_attention_bias|"
#define T5_FEED_NAMES(of_file, of_family, up)                                                      \
    of_file ".ffn_norm=" of_family ".layer_norm|" of_file ".ffn_gate=" of_family                   \
            ".DenseReluDense.wi_0|" of_file ".ffn_up=" of_family ".DenseReluDense." up "|" of_file \
            ".ffn_down=" of_family ".DenseReluDense.wo|"
#define T5_NAMES(up)                                                                               \
    "token_embd=shared|output=lm_head|enc.output_norm=encoder.final_layer_norm|"                   \
    "dec.output_norm=decoder.final_layer_norm|"                                                    \
    "enc.blk.%.attn_norm=encoder.block.%.layer.0.layer_norm|"                                      \
    "dec.blk.%.attn_norm=decoder.block.%.layer.0.layer_norm|"                                      \
    "dec.blk.%.cross_attn_norm=decoder.block.%.layer.1.layer_norm|" T5_ATTENTION_NAMES(            \
        "enc.blk.%.attn", "encoder.block.%.layer.0.SelfAttention")                                 \
        T5_ATTENTION_NAMES("dec.blk.%.attn", "decoder.block.%.layer.0.SelfAttention")              \
            T5_ATTENTION_NAMES("dec.blk.%.cross_attn", "decoder.block.%.layer.1.EncDecAttention")  \
                T5_FEED_NAMES("enc.blk.%", "encoder.block.%.layer.1", up)                          \
                    T5_FEED_NAMES("dec.blk.%", "decoder.block.%.layer.2", up)
#define T5_FIELDS                                                                                  \
    "num_layers=block_count|num_decoder_layers=decoder_block_count?|d_model=embedding_length|"     \
    "num_heads=attention.head_count|d_kv=attention.key_length|"                                    \
    "relative_attention_num_buckets=attention.relative_buckets_count|"                             \
    "decoder_start_token_id=decoder_start_token_id?0|layer_norm_epsilon=" RMS

/* ---------------------------------------------------------- what is changed -- */

static void amend_pairs(struct checkpoint_stack *stack)
{
    stack->interleaved = true;
}

/* A file of "llama" may have any of these biases. */
static void amend_llama(struct checkpoint_stack *stack)
{
    stack->interleaved = true;
    stack->more_biases_if = "attention_bias";
}

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

static bool add_number(const struct checkpoint_gguf_file *file, const char *name, double value)
{
    return checkpoint_gguf_add_number(file, file->config, name, value);
}

/* Columns of a head: the family's default is another number. */
static double head_dim_of(const struct checkpoint_gguf_file *file)
{
    const double heads = checkpoint_gguf_number(file, "attention.head_count", 1);
    const double width = checkpoint_gguf_number(file, "embedding_length", 0);
    return checkpoint_gguf_number(file, "attention.key_length", heads >= 1 ? width / heads : 0);
}

static bool add_head_dim(const struct checkpoint_gguf_file *file)
{
    return add_number(file, "head_dim", head_dim_of(file));
}

/* Gemma 2 and 3 scale scores by the columns of a head, but in the model of 27B parameters by those
 * of a row for each head: llama.cpp knows that one by its number of layers, too. */
static bool add_gemma_scale(const struct checkpoint_gguf_file *file, double layers_of_largest)
{
    const double heads = checkpoint_gguf_number(file, "attention.head_count", 1);
    const double width = checkpoint_gguf_number(file, "embedding_length", 0);
    const bool is_largest = checkpoint_gguf_number(file, "block_count", 0) == layers_of_largest;
    return add_head_dim(file)
           && add_number(file, "query_pre_attn_scalar",
                         is_largest && heads >= 1 ? width / heads : head_dim_of(file));
}

static bool finish_gemma2(const struct checkpoint_gguf_file *file)
{
    return add_gemma_scale(file, 46);
}

/* A file without windows has sliding_window_pattern 1. */
static bool finish_gemma3(const struct checkpoint_gguf_file *file)
{
    const double window = checkpoint_gguf_number(file, "attention.sliding_window", 0);
    return add_gemma_scale(file, 62) && add_number(file, "sliding_window", window);
}

/* Falcon's new architecture has several keys for many queries, or two norms. */
static bool finish_falcon(const struct checkpoint_gguf_file *file)
{
    const double heads = checkpoint_gguf_number(file, "attention.head_count", 1);
    const double keys = checkpoint_gguf_number(file, "attention.head_count_kv", heads);
    const bool has_two_norms = checkpoint_gguf_has(file, "blk.0.attn_norm_2.weight");
    const bool is_new = has_two_norms || (keys != 1 && keys != heads);
    return add_number(file, "num_kv_heads", keys)
           && checkpoint_gguf_add_flag(file, "new_decoder_architecture", is_new)
           && checkpoint_gguf_add_flag(file, "multi_query", keys == 1)
           && (!is_new || add_number(file, "num_ln_in_parallel_attn", has_two_norms ? 2 : 1));
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

/* -------------------------------------------------------------------- rows -- */

const struct checkpoint_gguf checkpoint_ggufs[] = {
    { .architecture = "llama",
      .has = "blk.0.ffn_gate_inp.weight",
      .model_type = "mixtral",
      .fields = LLAMA_FIELDS "num_local_experts=expert_count|"
                             "num_experts_per_tok=expert_used_count|",
      .tensors = MIXTRAL_NAMES,
      .has_rope = true,
      .amend = amend_pairs },
    { .architecture = "llama",
      .model_type = "llama",
      .fields = LLAMA_FIELDS,
      .tensors = LLAMA_NAMES,
      .has_rope = true,
      .present = "attention_bias=blk.0.attn_q.bias|mlp_bias=blk.0.ffn_up.bias|",
      .amend = amend_llama },
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
      .finish = add_head_dim },
    { .architecture = "gemma",
      .model_type = "gemma",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS "rms_norm_eps=" RMS,
      .tensors = LLAMA_NAMES,
      .has_rope = true,
      .finish = add_head_dim,
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
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS
      "sliding_window_pattern=attention.sliding_window_pattern?6|"
      "rope_local_base_freq=rope.freq_base_swa?10000|"
      "final_logit_softcapping=final_logit_softcapping?|rms_norm_eps=" RMS,
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
      .amend = amend_pairs },
    { .architecture = "olmo2",
      .model_type = "olmo2",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS "rms_norm_eps=" RMS,
      .tensors = AROUND_NAMES ATTENTION_NAMES HEAD_NORM_NAMES GATED_NAMES IN_BLOCK(
          "post_attention_norm", "post_attention_layernorm")
          IN_BLOCK("post_ffw_norm", "post_feedforward_layernorm"),
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
      .fields = LLAMA_FIELDS "attention_multiplier=attention.scale?|"
                             "embedding_multiplier=embedding_scale?|"
                             "residual_multiplier=residual_scale?|logits_scaling=logit_scale?|",
      .tensors = LLAMA_NAMES,
      .has_rope = true,
      .present = "attention_bias=blk.0.attn_q.bias|mlp_bias=blk.0.ffn_up.bias|",
      .amend = amend_pairs },
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
    { .architecture = NULL },
};
