/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_forward_sentences.c - what stands around the attention of published encoders that
 * make vectors of sentences, and of those of proteins. Sources are named beside the rows of
 * checkpoint_encoders.c; their numbers are compared in tests/http/test_trace_sentences.c. */
#include "forward_case.h"
#include "test.h"

/* Lists of tensors; each ends with a comma. */
#define NORM(name)               name ".weight 16, " name ".bias 16, "
#define BARE_NORM(name)          name ".weight 16, "
#define MATRIX(name, shape)      name ".weight " shape ", "
#define BIASED(name, shape, out) name ".weight " shape ", " name ".bias " out ", "
#define CONFIG(type, more)                                                                         \
    "{\"model_type\":\"" type                                                                      \
    "\",\"hidden_size\":16,\"num_attention_heads\":2,\"num_hidden_layers\":2" more "}"

/* ------------------------------------------------------------------- MPNet -- */

#define MPNET "encoder.layer.#."
#define MPNET_TENSORS(begin)                                                                       \
    PUBLISHED_LINEARS(begin MPNET "attention.attn.", "q", "k", "v", "o", "16")                     \
    ", " MATRIX(begin "encoder.relative_attention_bias", "32x2")                                   \
        MATRIX(begin "embeddings.word_embeddings", "30x16")                                        \
            MATRIX(begin "embeddings.position_embeddings", "14x16")                                \
                NORM(begin "embeddings.LayerNorm") NORM(begin MPNET "attention.LayerNorm")         \
                    BIASED(begin MPNET "intermediate.dense", "40x16", "40")                        \
                        BIASED(begin MPNET "output.dense", "16x40", "16")                          \
                            NORM(begin MPNET "output.LayerNorm")

TEST(mpnet)
{
    const struct model_forward *forward =
        forward_case_open(CONFIG("mpnet", ",\"layer_norm_eps\":0.25"),
                          MPNET_TENSORS("mpnet.") BIASED("lm_head.dense", "16x16", "16")
                              NORM("lm_head.layer_norm") "lm_head.bias 30",
                          2);
    const struct model_stream *stream = &forward->streams[0];
    assert_int_equal(stream->embedding.padding_id, 1);
    assert_int_equal(stream->length_max, 12);
    assert_null(stream->embedding.types.rows);
    forward_case_expect_norm(&stream->blocks[1].self.after, "mpnet." MPNET "attention.LayerNorm", 1,
                             0.25, true);
    forward_case_expect_norm(&stream->blocks[1].feed_forward.after,
                             "mpnet." MPNET "output.LayerNorm", 1, 0.25, true);
    forward_case_expect_linear(&stream->blocks[1].dense.down, "mpnet." MPNET "output.dense", 1, 16,
                               40);
    assert_true(forward->head.is_masked);
    assert_ptr_equal(forward->head.output.weight, stream->embedding.tokens.rows);
    forward_case_expect(forward->head.output.bias, "lm_head.bias", 0);
    published_close();
    /* A MPNetModel, as sentence-transformers saves it, has no head. */
    forward = forward_case_open(CONFIG("mpnet", ""),
                                MPNET_TENSORS("") BIASED("pooler.dense", "16x16", "16"), 2);
    assert_null(forward->head.output.weight);
    published_close();
}

/* -------------------------------------------------------------- ModernBERT -- */

#define MODERN "model.layers.#."
#define MODERN_TENSORS                                                                             \
    MATRIX(MODERN "attn.Wqkv", "48x16")                                                            \
    MATRIX(MODERN "attn.Wo", "16x16")                                                              \
    MATRIX(MODERN "mlp.Wi", "48x16")                                                               \
    MATRIX(MODERN "mlp.Wo", "16x24")                                                               \
    BARE_NORM("model.layers.1.attn_norm")                                                          \
    BARE_NORM(MODERN "mlp_norm")                                                                   \
    BARE_NORM("model.final_norm")                                                                  \
    BARE_NORM("model.embeddings.norm")                                                             \
    MATRIX("model.embeddings.tok_embeddings", "30x16")
#define MODERN_HEAD MATRIX("head.dense", "16x16") BARE_NORM("head.norm")

TEST(modernbert)
{
    const struct model_forward *forward =
        forward_case_open(CONFIG("modernbert", ",\"norm_eps\":0.25"),
                          MODERN_TENSORS MODERN_HEAD "decoder.bias 30", 2);
    const struct model_stream *stream = &forward->streams[0];
    assert_int_equal(stream->length_max, 0);
    assert_null(stream->embedding.positions.rows);
    assert_null(stream->blocks[0].self.before.weight);
    forward_case_expect_norm(&stream->blocks[1].self.before, MODERN "attn_norm", 1, 0.25, true);
    forward_case_expect_norm(&stream->blocks[0].feed_forward.before, MODERN "mlp_norm", 0, 0.25,
                             true);
    forward_case_expect_linear(&stream->blocks[1].dense.down, MODERN "mlp.Wo", 1, 16, 24);
    assert_ptr_not_equal(stream->blocks[1].dense.gate.weight, stream->blocks[1].dense.up.weight);
    assert_true(forward->head.is_masked);
    assert_null(forward->head.transform.bias);
    published_close();
}

/* The same head's dense layer with a decoder of its own, of a classifier, and of a model that says
 * that its decoder has no bias. */
TEST(modernbert_heads)
{
    const struct model_forward *forward = forward_case_open(
        CONFIG("modernbert", ",\"tie_word_embeddings\":false"),
        MODERN_TENSORS MODERN_HEAD MATRIX("decoder", "30x16") "decoder.bias 30", 2);
    forward_case_expect(forward->head.output.weight, "decoder.weight", 0);
    published_close();
    forward = forward_case_open(CONFIG("modernbert", ""),
                                MODERN_TENSORS MODERN_HEAD "classifier.weight 3x16, "
                                                           "classifier.bias 3",
                                2);
    assert_null(forward->head.output.weight);
    published_close();
    forward = forward_case_open(CONFIG("modernbert", ",\"decoder_bias\":false"),
                                MODERN_TENSORS MODERN_HEAD "classifier.weight 3x16", 2);
    assert_null(forward->head.output.weight);
    published_close();
    forward = forward_case_open(CONFIG("modernbert", ",\"decoder_bias\":false"),
                                MODERN_TENSORS MODERN_HEAD "decoder.weight 30x16", 2);
    forward_case_expect(forward->head.output.weight, "decoder.weight", 0);
    assert_null(forward->head.output.bias);
    published_close();
}

/* --------------------------------------------------------------------- ESM -- */

#define ESM "esm.encoder.layer.#."
#define ESM_TENSORS                                                                                \
    PUBLISHED_LINEARS(ESM "attention.", "self.query", "self.key", "self.value", "output.dense",    \
                      "16")                                                                        \
    ", " MATRIX("esm.embeddings.word_embeddings", "30x16") NORM(ESM "attention.LayerNorm")         \
        NORM(ESM "LayerNorm") BIASED(ESM "intermediate.dense", "40x16", "40")                      \
            BIASED(ESM "output.dense", "16x40", "16") NORM("esm.encoder.emb_layer_norm_after")

TEST(esm)
{
    const struct model_forward *forward = forward_case_open(
        CONFIG("esm", ",\"position_embedding_type\":\"rotary\",\"token_dropout\":true,"
                      "\"mask_token_id\":7,\"hidden_act\":\"relu\",\"layer_norm_eps\":0.25"),
        ESM_TENSORS BIASED("lm_head.dense", "16x16", "16")
            NORM("lm_head.layer_norm") "lm_head.bias 30",
        2);
    const struct model_stream *stream = &forward->streams[0];
    assert_true(stream->embedding.dropout_ratio == 0.15 * 0.8);
    assert_int_equal(stream->embedding.dropout_id, 7);
    assert_null(stream->embedding.positions.rows);
    assert_null(stream->embedding.norm.weight);
    assert_int_equal(stream->length_max, 0);
    forward_case_expect_norm(&stream->blocks[1].self.before, ESM "attention.LayerNorm", 1, 0.25,
                             true);
    forward_case_expect_norm(&stream->blocks[1].feed_forward.before, ESM "LayerNorm", 1, 0.25,
                             true);
    forward_case_expect_norm(&stream->final_norm, "esm.encoder.emb_layer_norm_after", 0, 0.25,
                             true);
    assert_int_equal(stream->blocks[0].dense.activation, ATTN_GELU);
    published_close();
    forward =
        forward_case_open(CONFIG("esm", ",\"pad_token_id\":3,\"emb_layer_norm_before\":true"),
                          ESM_TENSORS MATRIX("esm.embeddings.position_embeddings", "14x16")
                              NORM("esm.embeddings.layer_norm") "classifier.out_proj.weight 2x16",
                          2);
    assert_true(forward->streams[0].embedding.dropout_ratio == 0);
    assert_int_equal(forward->streams[0].embedding.padding_id, 3);
    assert_int_equal(forward->streams[0].length_max, 10);
    forward_case_expect_norm(&forward->streams[0].embedding.norm, "esm.embeddings.layer_norm", 0,
                             1e-12, true);
    assert_null(forward->head.output.weight);
    published_close();
}

/* ------------------------------------------- those whose source is on the Hub -- */

/* Which half of a tensor is the gate, and biases, are compared in tests/http/test_trace_hub.c. */

#define NOMIC "bert.encoder.layers.#."
#define NOMIC_TENSORS                                                                              \
    MATRIX(NOMIC "attn.Wqkv", "48x16")                                                             \
    MATRIX(NOMIC "attn.out_proj", "16x16")                                                         \
    NORM("bert.emb_ln")                                                                            \
    NORM(NOMIC "norm1")                                                                            \
    NORM(NOMIC "norm2")                                                                            \
    MATRIX("bert.embeddings.word_embeddings", "30x16")
#define NOMIC_FIELDS ",\"qkv_proj_bias\":false,\"mlp_fc1_bias\":false,\"rotary_emb_fraction\":1"

TEST(nomic_bert)
{
    const struct model_forward *forward = forward_case_open(
        CONFIG("nomic_bert", NOMIC_FIELDS ",\"mlp_fc2_bias\":false,\"type_vocab_size\":0,"
                                          "\"activation_function\":\"swiglu\""),
        NOMIC_TENSORS MATRIX(NOMIC "mlp.fc11", "24x16") MATRIX(NOMIC "mlp.fc12", "24x16")
            MATRIX(NOMIC "mlp.fc2", "16x24") MATRIX("cls.predictions.transform.dense", "16x16")
                NORM("cls.predictions.transform.layer_norm") "cls.seq_relationship.weight 2x16",
        2);
    const struct model_block *block = &forward->streams[0].blocks[1];
    assert_null(forward->streams[0].embedding.types.rows);
    assert_int_equal(forward->streams[0].length_max, 0);
    forward_case_expect_norm(&block->self.after, NOMIC "norm1", 1, 1e-5, true);
    forward_case_expect_linear(&block->dense.gate, NOMIC "mlp.fc12", 1, 24, 16);
    assert_int_equal(block->dense.activation, ATTN_SILU);
    assert_int_equal(forward->head.activation, ATTN_SILU);
    assert_null(forward->head.output.bias);
    assert_ptr_equal(forward->head.output.weight, forward->streams[0].embedding.tokens.rows);
    published_close();
    forward_case_refused(CONFIG("nomic_bert", NOMIC_FIELDS ",\"activation_function\":\"glu\""),
                         NOMIC_TENSORS MATRIX(NOMIC "mlp.fc2", "16x24") "bert.x 1", 2,
                         "activation_function is 'glu'");
    forward_case_refused(CONFIG("nomic_bert", ",\"qkv_proj_bias\":false,\"mlp_fc2_bias\":false"),
                         NOMIC_TENSORS MATRIX(NOMIC "mlp.fc2", "16x24") "bert.x 1", 2,
                         "sets mlp_fc1_bias and not mlp_fc2_bias");
}

#define GTE "encoder.layer.#."

TEST(gte)
{
    static const char TENSORS[] =
        PUBLISHED_LINEARS(GTE "attention.", "q_proj", "k_proj", "v_proj", "o_proj",
                          "16") ", " NORM(GTE "attn_ln") NORM(GTE "mlp_ln")
            NORM("embeddings.LayerNorm") MATRIX("embeddings.word_embeddings", "30x16")
                MATRIX("embeddings.token_type_embeddings", "1x16")
                    MATRIX(GTE "mlp.up_gate_proj", "48x16")
                        BIASED(GTE "mlp.down_proj", "16x24", "16") BIASED("classifier", "3x16", "3")
                            BIASED("pooler.dense", "16x16", "16") "x 1";
    const struct model_forward *forward = forward_case_open(CONFIG("new", ""), TENSORS, 2);
    const struct model_feed_forward *dense = &forward->streams[0].blocks[1].dense;
    assert_int_equal(forward->streams[0].embedding.types.count, 1);
    forward_case_expect_norm(&forward->streams[0].blocks[1].feed_forward.after, GTE "mlp_ln", 1,
                             1e-12, true);
    assert_true((const float *)dense->gate.weight == (const float *)dense->up.weight + 24 * 16);
    assert_null(dense->gate.bias);
    assert_non_null(dense->down.bias);
    assert_null(forward->head.output.weight);
    published_close();
    forward_case_refused(CONFIG("new", ",\"layer_norm_type\":\"rms_norm\""), TENSORS, 2,
                         "layer_norm_type is 'rms_norm'");
}
