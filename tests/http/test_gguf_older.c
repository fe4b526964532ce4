/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf_older.c - architectures with names of their own as GGUF files trace as the same
 * checkpoints in safetensors, whose traces other tests compare with their published source.
 *
 * Names of tensors and keys are those of gguf-py/gguf/constants.py of llama.cpp at 0024aa7417ef,
 * and what the converter changes is what convert_hf_to_gguf.py and conversion/ do there. */
#include "fixture.h"
#include "gguf_family.h"
#include "test.h"

#define LINEAR(name, shape, size) name ".weight " shape ", " name ".bias " size ", "
#define NORM(name)                name ".weight 16, " name ".bias 16, "

/* ---------------------------------------------------------------- older names -- */

#define H(of_file, of_family) GGUF_BOTH("blk.#." of_file, "h.#." of_family)
#define GROUPED(of_file, of_family, how)                                                           \
    "blk.#." of_file ".weight=" of_family ".weight/" how " blk.#." of_file ".bias=" of_family      \
    ".bias/" how " "

TEST(gpt2)
{
    static const struct gguf_family GPT2 = {
        .name = "gpt2",
        .config = "{\"model_type\":\"gpt2\",\"n_embd\":16,\"n_head\":4,\"n_layer\":2,"
                  "\"n_positions\":16,\"vocab_size\":40}",
        .tensors = "wte.weight 40x16, wpe.weight 16x16, " NORM("h.#.ln_1")
            LINEAR("h.#.attn.c_attn", "16x48", "48") LINEAR("h.#.attn.c_proj", "16x16", "16")
                NORM("h.#.ln_2") LINEAR("h.#.mlp.c_fc", "16x64", "64")
                    LINEAR("h.#.mlp.c_proj", "64x16", "16") "ln_f.weight 16, ln_f.bias 16",
        .twin = { .architecture = "gpt2",
                  .keys = "I:block_count=2 I:embedding_length=16 I:feed_forward_length=64 "
                          "I:attention.head_count=4 I:context_length=16 " GGUF_LAYER_NORM("1e-5"),
                  .tensors =
                      "token_embd.weight=wte.weight position_embd.weight=wpe.weight " GGUF_BOTH(
                          "output_norm", "ln_f") H("attn_norm", "ln_1")
                          H("ffn_norm",
                            "ln_2") "blk.#.attn_qkv.weight=h.#.attn.c_attn.weight/turned "
                                    "blk.#.attn_qkv.bias=h.#.attn.c_attn.bias "
                                    "blk.#.attn_output.weight=h.#.attn.c_proj.weight/turned "
                                    "blk.#.attn_output.bias=h.#.attn.c_proj.bias "
                                    "blk.#.ffn_up.weight=h.#.mlp.c_fc.weight/turned "
                                    "blk.#.ffn_up.bias=h.#.mlp.c_fc.bias "
                                    "blk.#.ffn_down.weight=h.#.mlp.c_proj.weight/turned "
                                    "blk.#.ffn_down.bias=h.#.mlp.c_proj.bias",
                  .layers = 2 },
    };
    gguf_family_check(&GPT2);
}

TEST(bloom)
{
    static const struct gguf_family BLOOM = {
        .name = "bloom",
        .config = "{\"model_type\":\"bloom\",\"hidden_size\":16,\"n_head\":4,\"n_layer\":2,"
                  "\"vocab_size\":40}",
        .tensors = NORM("word_embeddings_layernorm") NORM("h.#.input_layernorm")
            LINEAR("h.#.self_attention.query_key_value", "48x16",
                   "48") LINEAR("h.#.self_attention.dense", "16x16", "16")
                NORM("h.#.post_attention_layernorm") LINEAR("h.#.mlp.dense_h_to_4h", "64x16", "64")
                    LINEAR("h.#.mlp.dense_4h_to_h", "16x64", "16")
                        NORM("ln_f") "word_embeddings.weight 40x16",
        .twin = { .architecture = "bloom",
                  .keys = "I:block_count=2 I:embedding_length=16 I:feed_forward_length=64 "
                          "I:attention.head_count=4 I:attention.head_count_kv=4 "
                          "I:context_length=64 " GGUF_LAYER_NORM("1e-5"),
                  .tensors = "token_embd.weight=word_embeddings.weight " GGUF_BOTH(
                      "token_embd_norm", "word_embeddings_layernorm")
                      GGUF_BOTH("output_norm", "ln_f") H("attn_norm", "input_layernorm")
                          H("ffn_norm", "post_attention_layernorm")
                              GROUPED("attn_qkv", "h.#.self_attention.query_key_value", "groups:4")
                                  H("attn_output", "self_attention.dense")
                                      H("ffn_up", "mlp.dense_h_to_4h")
                                          H("ffn_down", "mlp.dense_4h_to_h"),
                  .layers = 2 },
    };
    gguf_family_check(&BLOOM);
}

#define FALCON "transformer.h.#."
#define FALCON_WEIGHTS(fused)                                                                      \
    FALCON "self_attention.query_key_value.weight " fused "x16, " FALCON                           \
           "self_attention.dense.weight 16x16, " FALCON "mlp.dense_h_to_4h.weight 64x16, " FALCON  \
           "mlp.dense_4h_to_h.weight 16x64, " NORM("transformer.ln_f")
#define FALCON_CONFIG(more)                                                                        \
    "{\"model_type\":\"falcon\",\"hidden_size\":16,\"num_attention_heads\":4,"                     \
    "\"num_hidden_layers\":2,\"vocab_size\":40,\"alibi\":false,\"bias\":false,"                    \
    "\"multi_query\":true,\"parallel_attn\":true," more "}"
#define FALCON_NAMES(how)                                                                          \
    "token_embd.weight=transformer.word_embeddings.weight "                                        \
    "output.weight=lm_head.weight " GGUF_BOTH("output_norm", "transformer.ln_f")                   \
        GROUPED("attn_qkv", FALCON "self_attention.query_key_value", how)                          \
            GGUF_BOTH("blk.#.attn_output", FALCON "self_attention.dense")                          \
                GGUF_BOTH("blk.#.ffn_up", FALCON "mlp.dense_h_to_4h")                              \
                    GGUF_BOTH("blk.#.ffn_down", FALCON "mlp.dense_4h_to_h")
#define FALCON_KEYS(keys)                                                                          \
    "I:block_count=2 I:embedding_length=16 I:feed_forward_length=64 I:context_length=2048 "        \
    "I:attention.head_count=4 I:attention.head_count_kv=" keys " " GGUF_LAYER_NORM("1e-5")

TEST(falcon)
{
    static const struct gguf_family OF_7B = {
        .name = "falcon_7b",
        .config = FALCON_CONFIG("\"new_decoder_architecture\":false"),
        .tensors = FALCON_WEIGHTS("24")
            NORM(FALCON "input_layernorm") "transformer.word_embeddings.weight 40x16",
        .twin = { .architecture = "falcon",
                  .keys = FALCON_KEYS("1"),
                  .tensors = FALCON_NAMES("groups:1:4")
                      GGUF_BOTH("blk.#.attn_norm", FALCON "input_layernorm"),
                  .layers = 2 },
    };
    static const struct gguf_family OF_40B = {
        .name = "falcon_40b",
        .config = FALCON_CONFIG("\"num_kv_heads\":2,\"new_decoder_architecture\":true,"
                                "\"tie_word_embeddings\":false"),
        .tensors =
            FALCON_WEIGHTS("32") NORM(FALCON "ln_attn") NORM(FALCON "ln_mlp") "transformer."
                                                                              "word_embeddings."
                                                                              "weight 40x16, "
                                                                              "lm_head.weight "
                                                                              "40x16",
        .twin = { .architecture = "falcon",
                  .keys = FALCON_KEYS("2"),
                  .tensors =
                      FALCON_NAMES("groups:2:2") GGUF_BOTH("blk.#.attn_norm", FALCON "ln_mlp")
                          GGUF_BOTH("blk.#.attn_norm_2", FALCON "ln_attn"),
                  .layers = 2 },
    };
    static const struct gguf_family FALCON2 = {
        .name = "falcon2",
        .config = FALCON_CONFIG("\"num_kv_heads\":2,\"new_decoder_architecture\":true,"
                                "\"num_ln_in_parallel_attn\":1"),
        .tensors = FALCON_WEIGHTS("32")
            NORM(FALCON "input_layernorm") "transformer.word_embeddings.weight 40x16",
        .twin = { .architecture = "falcon",
                  .keys = FALCON_KEYS("2"),
                  .tensors = FALCON_NAMES("groups:2:2")
                      GGUF_BOTH("blk.#.attn_norm", FALCON "input_layernorm"),
                  .layers = 2 },
    };
    gguf_family_check(&OF_7B);
    gguf_family_check(&OF_40B);
    gguf_family_check(&FALCON2);
}

#define NEOX "gpt_neox.layers.#."
#define NEOX_CONFIG(more)                                                                          \
    "{\"model_type\":\"gpt_neox\",\"hidden_size\":16,\"num_attention_heads\":4,"                   \
    "\"num_hidden_layers\":2,\"intermediate_size\":24,\"vocab_size\":40,\"rotary_pct\":0.5" more   \
    "}"
#define NEOX_KEYS(parallel)                                                                        \
    "I:block_count=2 I:embedding_length=16 I:feed_forward_length=24 I:context_length=2048 "        \
    "I:attention.head_count=4 I:rope.dimension_count=2 ?:use_parallel_residual=" parallel          \
    " " GGUF_LAYER_NORM("1e-5")

TEST(gptneox)
{
    struct gguf_family family = {
        .name = "neox",
        .config = NEOX_CONFIG(""),
        .tensors = "gpt_neox.embed_in.weight 40x16, " NORM(NEOX "input_layernorm")
            NORM(NEOX "post_attention_layernorm")
                LINEAR(NEOX "attention.query_key_value", "48x16", "48")
                    LINEAR(NEOX "attention.dense", "16x16", "16")
                        LINEAR(NEOX "mlp.dense_h_to_4h", "24x16", "24")
                            LINEAR(NEOX "mlp.dense_4h_to_h", "16x24", "16")
                                NORM("gpt_neox.final_layer_norm") "embed_out.weight 40x16",
        .twin = { .architecture = "gptneox",
                  .keys = NEOX_KEYS("1"),
                  .tensors =
                      "token_embd.weight=gpt_neox.embed_in.weight "
                      "output.weight=embed_out.weight " GGUF_BOTH("output_norm",
                                                                  "gpt_neox.final_layer_norm")
                          GGUF_BOTH("blk.#.attn_norm", NEOX "input_layernorm")
                              GGUF_BOTH("blk.#.ffn_norm", NEOX "post_attention_layernorm")
                                  GROUPED("attn_qkv", NEOX "attention.query_key_value", "groups:4")
                                      GGUF_BOTH("blk.#.attn_output", NEOX "attention.dense")
                                          GGUF_BOTH("blk.#.ffn_up", NEOX "mlp.dense_h_to_4h")
                                              GGUF_BOTH("blk.#.ffn_down", NEOX "mlp.dense_4h_to_h"),
                  .layers = 2 },
    };
    gguf_family_check(&family);
    family.name = "neox_in_turn";
    family.config = NEOX_CONFIG(",\"use_parallel_residual\":false");
    family.twin.keys = NEOX_KEYS("0");
    gguf_family_check(&family);
}

/* ------------------------------------------------------------ encoders, and T5 -- */

#define WIDE_NORM(name) name ".weight 12, " name ".bias 12, "
#define B               "bert.encoder.layer.#."
#define BERT_KEYS                                                                                  \
    "I:block_count=2 I:embedding_length=12 I:feed_forward_length=20 I:context_length=16 "          \
    "I:attention.head_count=2 ?:attention.causal=0 I:pooling_type=1 " GGUF_LAYER_NORM("1e-12")

TEST(bert)
{
    static const struct gguf_family BERT = {
        .name = "bert",
        .config = "{\"model_type\":\"bert\",\"hidden_size\":12,\"num_attention_heads\":2,"
                  "\"num_hidden_layers\":2,\"intermediate_size\":20,\"vocab_size\":40,"
                  "\"max_position_embeddings\":16,\"type_vocab_size\":2}",
        .tensors = "bert.embeddings.word_embeddings.weight 40x12, "
                   "bert.embeddings.position_embeddings.weight 16x12, "
                   "bert.embeddings.token_type_embeddings.weight 2x12, " WIDE_NORM(
                       "bert.embeddings.LayerNorm") LINEAR(B "attention.self.query", "12x12", "12")
                       LINEAR(B "attention.self.key", "12x12", "12")
                           LINEAR(B "attention.self.value", "12x12", "12")
                               LINEAR(B "attention.output.dense", "12x12", "12")
                                   WIDE_NORM(B "attention.output.LayerNorm")
                                       LINEAR(B "intermediate.dense", "20x12", "20")
                                           LINEAR(B "output.dense", "12x20", "12") B
        "output.LayerNorm.weight 12, " B "output.LayerNorm.bias 12",
        .twin = { .architecture = "bert",
                  .keys = BERT_KEYS,
                  .tensors =
                      "token_embd.weight=bert.embeddings.word_embeddings.weight "
                      "position_embd.weight=bert.embeddings.position_embeddings.weight "
                      "token_types.weight=bert.embeddings.token_type_embeddings.weight " GGUF_BOTH(
                          "token_embd_norm", "bert.embeddings.LayerNorm")
                          GGUF_BOTH("blk.#.attn_q", B "attention.self.query")
                              GGUF_BOTH("blk.#.attn_k", B "attention.self.key")
                                  GGUF_BOTH("blk.#.attn_v", B "attention.self.value")
                                      GGUF_BOTH("blk.#.attn_output", B "attention.output.dense")
                                          GGUF_BOTH("blk.#.attn_output_norm",
                                                    B "attention.output.LayerNorm")
                                              GGUF_BOTH("blk.#.ffn_up", B "intermediate.dense")
                                                  GGUF_BOTH("blk.#.ffn_down", B "output.dense")
                                                      GGUF_BOTH("blk.#.layer_output_norm",
                                                                B "output.LayerNorm"),
                  .layers = 2 },
        .has_no_head = true,
        .fields = "\"tokens\":[2,17,39,5,5,30,3],\"token_types\":[0,0,0,0,1,1,1]",
    };
    gguf_family_check(&BERT);
}

#define D "distilbert.transformer.layer.#."

/* The converter gives DistilBERT the architecture of BERT. */
TEST(bert_without_types)
{
    static const struct gguf_family DISTILBERT = {
        .name = "distilbert",
        .config = "{\"model_type\":\"distilbert\",\"dim\":12,\"n_heads\":2,\"n_layers\":2,"
                  "\"hidden_dim\":20,\"vocab_size\":40,\"max_position_embeddings\":16,"
                  "\"activation\":\"gelu\"}",
        .tensors =
            "distilbert.embeddings.word_embeddings.weight 40x12, "
            "distilbert.embeddings.position_embeddings.weight 16x12, " WIDE_NORM(
                "distilbert.embeddings.LayerNorm") LINEAR(D "attention.q_lin", "12x12", "12")
                LINEAR(D "attention.k_lin", "12x12", "12")
                    LINEAR(D "attention.v_lin", "12x12", "12")
                        LINEAR(D "attention.out_lin", "12x12", "12") WIDE_NORM(D "sa_layer_norm")
                            LINEAR(D "ffn.lin1", "20x12", "20") LINEAR(D "ffn.lin2", "12x20", "12")
                                D "output_layer_norm.weight 12, " D "output_layer_norm.bias 12",
        .twin = { .architecture = "bert",
                  .keys = BERT_KEYS,
                  .tensors =
                      "token_embd.weight=distilbert.embeddings.word_embeddings.weight "
                      "position_embd.weight=distilbert.embeddings.position_embeddings."
                      "weight " GGUF_BOTH("token_embd_norm", "distilbert.embeddings.LayerNorm")
                          GGUF_BOTH("blk.#.attn_q", D "attention.q_lin")
                              GGUF_BOTH("blk.#.attn_k", D "attention.k_lin")
                                  GGUF_BOTH("blk.#.attn_v", D "attention.v_lin")
                                      GGUF_BOTH("blk.#.attn_output", D "attention.out_lin")
                                          GGUF_BOTH("blk.#.attn_output_norm", D "sa_layer_norm")
                                              GGUF_BOTH("blk.#.ffn_up", D "ffn.lin1")
                                                  GGUF_BOTH("blk.#.ffn_down", D "ffn.lin2")
                                                      GGUF_BOTH("blk.#.layer_output_norm",
                                                                D "output_layer_norm"),
                  .layers = 2 },
        .has_no_head = true,
        .fields = "\"tokens\":[2,17,39,5,5,30,3]",
    };
    gguf_family_check(&DISTILBERT);
}

#define ENCODER "encoder.block.#.layer."
#define DECODER "decoder.block.#.layer."
#define T5_ATTENTION(begin)                                                                        \
    begin ".q.weight 6x12, " begin ".k.weight 6x12, " begin ".v.weight 6x12, " begin               \
          ".o.weight 12x6, "
#define T5_COMMON                                                                                  \
    "shared.weight 40x12, "                                                                        \
    "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight 8x2, "                   \
    "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight 8x2, " T5_ATTENTION(     \
        ENCODER "0.SelfAttention") T5_ATTENTION(DECODER "0.SelfAttention")                         \
        T5_ATTENTION(DECODER "1.EncDecAttention") ENCODER                                          \
        "0.layer_norm.weight 12, " ENCODER "1.layer_norm.weight 12, " DECODER                      \
        "0.layer_norm.weight 12, " DECODER "1.layer_norm.weight 12, " DECODER                      \
        "2.layer_norm.weight 12, decoder.final_layer_norm.weight 12, "
#define T5_LAST "encoder.final_layer_norm.weight 12"
#define T5_FED(name)                                                                               \
    ENCODER "1.DenseReluDense." name ".weight 20x12, " DECODER "2.DenseReluDense." name            \
            ".weight 20x12, "
#define T5_DOWN                                                                                    \
    ENCODER "1.DenseReluDense.wo.weight 12x20, " DECODER "2.DenseReluDense.wo.weight 12x20, "
#define T5_CONFIG(more)                                                                            \
    "{\"model_type\":\"t5\",\"d_model\":12,\"d_kv\":3,\"num_heads\":2,\"num_layers\":2,"           \
    "\"d_ff\":20,\"vocab_size\":40,\"relative_attention_num_buckets\":8,"                          \
    "\"decoder_start_token_id\":0" more "}"

#define W(of_file, of_family) of_file ".weight=" of_family ".weight "
#define T5_ATTENTION_NAMES(of_file, of_family)                                                     \
    W(of_file "_q", of_family ".q")                                                                \
    W(of_file "_k", of_family ".k")                                                                \
    W(of_file "_v", of_family ".v")                                                                \
    W(of_file "_o", of_family "."                                                                  \
                              "o")
#define T5_NAMES(up, gate)                                                                         \
    W("token_embd", "shared")                                                                      \
    W("output", "lm_head")                                                                         \
    W("enc.output_norm", "encoder.final_layer_norm")                                               \
    W("dec.output_norm", "decoder.final_layer_norm")                                               \
    W("enc.blk.0.attn_rel_b", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias")     \
    W("dec.blk.0.attn_rel_b", "decoder.block.0.layer.0.SelfAttention.relative_attention_bias")     \
    T5_ATTENTION_NAMES("enc.blk.#.attn", ENCODER "0.SelfAttention")                                \
    T5_ATTENTION_NAMES("dec.blk.#.attn", DECODER "0.SelfAttention")                                \
    T5_ATTENTION_NAMES("dec.blk.#.cross_attn", DECODER "1.EncDecAttention")                        \
    W("enc.blk.#.attn_norm", ENCODER "0.layer_norm")                                               \
    W("enc.blk.#.ffn_norm", ENCODER "1.layer_norm")                                                \
    W("dec.blk.#.attn_norm", DECODER "0.layer_norm")                                               \
    W("dec.blk.#.cross_attn_norm", DECODER "1.layer_norm")                                         \
    W("dec.blk.#.ffn_norm", DECODER "2.layer_norm")                                                \
    W("enc.blk.#.ffn_up", ENCODER "1.DenseReluDense." up)                                          \
    W("dec.blk.#.ffn_up", DECODER "2.DenseReluDense." up)                                          \
    W("enc.blk.#.ffn_gate", ENCODER "1.DenseReluDense." gate)                                      \
    W("dec.blk.#.ffn_gate", DECODER "2.DenseReluDense." gate)                                      \
    W("enc.blk.#.ffn_down", ENCODER "1.DenseReluDense.wo")                                         \
    W("dec.blk.#.ffn_down", DECODER "2.DenseReluDense.wo")

static const struct gguf_family T5 = {
    .name = "t5",
    .config = T5_CONFIG(""),
    .tensors = T5_COMMON T5_FED("wi") T5_DOWN T5_LAST,
    .twin = { .architecture = "t5",
              .keys = "I:block_count=2 I:embedding_length=12 I:feed_forward_length=20 "
                      "I:context_length=512 I:attention.head_count=2 I:attention.key_length=3 "
                      "I:attention.value_length=3 I:attention.relative_buckets_count=8 "
                      "I:decoder_start_token_id=0 " GGUF_LAYER_NORM("1e-6") GGUF_RMS("1e-6"),
              .tensors = T5_NAMES("wi", "none"),
              .layers = 2 },
    .fields = "\"tokens\":[4,17,39,5,5,2],\"decoder_tokens\":[0,30,8,11]",
};

TEST(t5)
{
    gguf_family_check(&T5);
}

TEST(t5_v1_1)
{
    struct gguf_family family = T5;
    family.name = "t5_v1_1";
    family.config = T5_CONFIG(",\"feed_forward_proj\":\"gated-gelu\","
                              "\"tie_word_embeddings\":false");
    family.tensors =
        T5_COMMON T5_FED("wi_0") T5_FED("wi_1") T5_DOWN "lm_head.weight 40x12, " T5_LAST;
    family.twin.tensors = T5_NAMES("wi_1", "wi_0");
    gguf_family_check(&family);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
