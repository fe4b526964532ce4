/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_gguf_names.h - short names to write the rows of checkpoint_gguf_table.c and
 * the other tables with: fields and tensors that architectures share. */
#ifndef ATTND_CHECKPOINT_GGUF_NAMES_H
#define ATTND_CHECKPOINT_GGUF_NAMES_H

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

#define GRANITE_FIELDS                                                                             \
    "attention_multiplier=attention.scale?|embedding_multiplier=embedding_scale?|"                 \
    "residual_multiplier=residual_scale?|logits_scaling=logit_scale?|"
#define GEMMA3_FIELDS                                                                              \
    SIZE_FIELDS KV_FIELDS POSITION_FIELDS                                                          \
        "sliding_window_pattern=attention.sliding_window_pattern?6|"                               \
        "rope_local_base_freq=rope.freq_base_swa?10000|"                                           \
        "final_logit_softcapping=final_logit_softcapping?|rms_norm_eps=" RMS
#define IN_MPT_BLOCK(of_file, of_family) "blk.%." of_file "=transformer.blocks.%." of_family "|"

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
#define OLMO2_NAMES                                                                                \
    AROUND_NAMES ATTENTION_NAMES HEAD_NORM_NAMES GATED_NAMES IN_BLOCK("post_attention_norm",       \
                                                                      "post_attention_layernorm")  \
        IN_BLOCK("post_ffw_norm", "post_feedforward_layernorm")

/* Norms on both sides of each part. */
#define GEMMA2_NAMES                                                                               \
    AROUND_NAMES ATTENTION_NAMES HEAD_NORM_NAMES GATED_NAMES IN_BLOCK("attn_norm",                 \
                                                                      "input_layernorm")           \
        IN_BLOCK("post_attention_norm", "post_attention_layernorm")                                \
            IN_BLOCK("ffn_norm", "pre_feedforward_layernorm")                                      \
                IN_BLOCK("post_ffw_norm", "post_feedforward_layernorm")

#define MIXTURE_NAMES(router, gate, up, down)                                                      \
    AROUND_NAMES ATTENTION_NAMES NORM_NAMES IN_BLOCK("ffn_gate_inp", router)                       \
        EXPERT_NAMES("ffn_gate", gate) EXPERT_NAMES("ffn_up", up) EXPERT_NAMES("ffn_down", down)
#define QWEN_EXPERT "mlp.experts.#."
#define QWEN_MIXTURE_NAMES                                                                         \
    MIXTURE_NAMES("mlp.gate", QWEN_EXPERT "gate_proj", QWEN_EXPERT "up_proj",                      \
                  QWEN_EXPERT "down_proj")
#define MIXTRAL_EXPERT "block_sparse_moe.experts.#."
#define MIXTRAL_MIXTURE_NAMES                                                                      \
    MIXTURE_NAMES("block_sparse_moe.gate", MIXTRAL_EXPERT "w1", MIXTRAL_EXPERT "w3",               \
                  MIXTRAL_EXPERT "w2")
#define COUNT_FIELDS(name) name "=expert_count|num_experts_per_tok=expert_used_count|"

/* DeepSeek's mixtures, and layers that predict further tokens, which are not read. */
#define DEEPSEEK_FIELDS                                                                            \
    "first_k_dense_replace=leading_dense_block_count?0|n_shared_experts=expert_shared_count?1|"    \
    "routed_scaling_factor=expert_weights_scale?1|n_group=expert_group_count?1|"                   \
    "topk_group=expert_group_used_count?1|" COUNT_FIELDS("n_routed_experts") "rms_norm_eps=" RMS
#define DEEPSEEK_EXPERT_NAMES                                                                      \
    IN_BLOCK("ffn_gate_inp", "mlp.gate")                                                           \
    IN_BLOCK("exp_probs_b", "mlp.gate.e_score_correction_bias!")                                   \
    EXPERT_NAMES("ffn_gate", QWEN_EXPERT "gate_proj")                                              \
    EXPERT_NAMES("ffn_up", QWEN_EXPERT "up_proj")                                                  \
    EXPERT_NAMES("ffn_down", QWEN_EXPERT "down_proj")                                              \
    IN_BLOCK("ffn_gate_shexp", "mlp.shared_experts.gate_proj")                                     \
    IN_BLOCK("ffn_up_shexp", "mlp.shared_experts.up_proj")                                         \
    IN_BLOCK("ffn_down_shexp", "mlp.shared_experts.down_proj")
#define SHARED_EXPERT_NAMES                                                                        \
    IN_BLOCK("ffn_gate_inp_shexp", "mlp.shared_expert_gate^")                                      \
    IN_BLOCK("ffn_gate_shexp", "mlp.shared_expert.gate_proj")                                      \
    IN_BLOCK("ffn_up_shexp", "mlp.shared_expert.up_proj")                                          \
    IN_BLOCK("ffn_down_shexp", "mlp.shared_expert.down_proj")
#define NEXT_NAMES                                                                                 \
    IN_BLOCK("nextn.eh_proj", "eh_proj")                                                           \
    IN_BLOCK("nextn.enorm", "enorm")                                                               \
    IN_BLOCK("nextn.hnorm", "hnorm")                                                               \
    IN_BLOCK("nextn.embed_tokens", "embed_tokens")                                                 \
    IN_BLOCK("nextn.shared_head_head", "shared_head.head")                                         \
    IN_BLOCK("nextn.shared_head_norm", "shared_head.norm")

#define MODERN_BERT(of_file, of_family) "blk.%." of_file "=model.layers.%." of_family "|"
#define NOMIC(of_file, of_family)       "blk.%." of_file "=bert.encoder.layers.%." of_family "|"
#define JINA(of_file, of_family)        "blk.%." of_file "=bert.encoder.layer.%." of_family "|"

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

#endif
