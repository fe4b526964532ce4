/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_forward_encoders.c - what stands around the attention of published encoders that
 * are like BERT. Sources are named beside the rows of checkpoint_encoders.c; BERT itself is
 * in test_checkpoint_forward.c. */
#include "forward_case.h"
#include "test.h"

/* Lists of tensors; each ends with a comma. */
#define LINEARS(begin, q, k, v, o) PUBLISHED_LINEARS(begin, q, k, v, o, "16") ", "
#define NORM(name)                 name ".weight 16, " name ".bias 16, "
#define BIASED(name, shape, out)   name ".weight " shape ", " name ".bias " out ", "
#define ATTENTION(begin)                                                                           \
    LINEARS(begin "encoder.layer.#.attention.", "self.query", "self.key", "self.value",            \
            "output.dense")
#define BLOCK(begin)                                                                               \
    ATTENTION(begin)                                                                               \
    NORM(begin "encoder.layer.#.attention.output.LayerNorm")                                       \
    BIASED(begin "encoder.layer.#.intermediate.dense", "40x16", "40")                              \
    BIASED(begin "encoder.layer.#.output.dense", "16x40", "16")                                    \
    NORM(begin "encoder.layer.#.output.LayerNorm")
#define CONFIG(type, more)                                                                         \
    "{\"model_type\":\"" type                                                                      \
    "\",\"hidden_size\":16,\"num_attention_heads\":2,\"num_hidden_layers\":2" more "}"

TEST(roberta)
{
    static const char TENSORS[] = BLOCK(
        "roberta.") "roberta.embeddings.word_embeddings.weight 30x16, "
                    "roberta.embeddings.position_embeddings.weight 14x16, "
                    "roberta.embeddings.token_type_embeddings.weight 1x16, " NORM(
                        "roberta.embeddings.LayerNorm") "lm_head.bias 30, " BIASED("lm_head.dense",
                                                                                   "16x16", "16")
                        NORM("lm_head.layer_norm");
    const struct model_forward *forward = forward_case_open(
        CONFIG("roberta", ",\"layer_norm_eps\":0.25,\"hidden_act\":\"relu\""), TENSORS, 2);
    const struct model_embedding *embedding = &forward->streams[0].embedding;
    assert_int_equal(embedding->padding_id, 1);
    assert_int_equal(embedding->position_offset, 2);
    assert_int_equal(embedding->types.count, 1);
    assert_int_equal(forward->streams[0].length_max, 12);
    assert_int_equal(forward->head.activation, ATTN_GELU);
    assert_true(forward->head.is_masked);
    forward_case_expect_norm(&forward->head.norm, "lm_head.layer_norm", 0, 0.25, true);
    forward_case_expect(forward->head.output.bias, "lm_head.bias", 0);
    published_close();
    forward = forward_case_open(CONFIG("xlm-roberta", ",\"pad_token_id\":4"), TENSORS, 2);
    assert_int_equal(forward->streams[0].embedding.position_offset, 5);
    assert_int_equal(forward->streams[0].length_max, 9);
    published_close();
    forward_case_refused(CONFIG("camembert", ",\"pad_token_id\":13"), TENSORS, 2,
                         "the table of positions has 14 rows");
}

TEST(electra)
{
    const struct model_forward *forward = forward_case_open(
        CONFIG("electra", ",\"embedding_size\":6"),
        BLOCK("electra.") "electra.embeddings.word_embeddings.weight 30x6, "
                          "electra.embeddings.position_embeddings.weight 14x6, "
                          "electra.embeddings.token_type_embeddings.weight 2x6, "
                          "electra.embeddings.LayerNorm.weight 6, "
                          "electra.embeddings.LayerNorm.bias 6, " BIASED(
                              "electra.embeddings_project", "16x6", "16")
                              BIASED("generator_predictions.dense", "6x16",
                                     "6") "generator_predictions.LayerNorm.weight 6, "
                                          "generator_predictions.LayerNorm.bias 6, "
                                          "generator_lm_head.bias 30",
        2);
    const struct model_embedding *embedding = &forward->streams[0].embedding;
    assert_int_equal(embedding->positions.width, 6);
    forward_case_expect_linear(&embedding->projection, "electra.embeddings_project", 0, 16, 6);
    assert_non_null(embedding->projection.bias);
    forward_case_expect_linear(&forward->head.transform, "generator_predictions.dense", 0, 6, 16);
    assert_int_equal(forward->head.activation, ATTN_GELU);
    assert_ptr_equal(forward->head.output.weight, embedding->tokens.rows);
    assert_int_equal(forward->head.output.in, 6);
    published_close();
    forward = forward_case_open(
        CONFIG("electra", ",\"embedding_size\":16"),
        BLOCK("electra.") "electra.embeddings.word_embeddings.weight 30x16, "
                          "electra.embeddings.position_embeddings.weight 14x16, "
                          "electra.embeddings.token_type_embeddings.weight 2x16, " NORM(
                              "electra.embeddings.LayerNorm")
                              BIASED("discriminator_predictions.dense", "16x16", "16"),
        2);
    assert_null(forward->streams[0].embedding.projection.weight);
    assert_null(forward->head.output.weight);
    published_close();
}

TEST(distilbert)
{
    const struct model_forward *forward = forward_case_open(
        "{\"model_type\":\"distilbert\",\"dim\":16,\"n_heads\":2,\"n_layers\":2}",
        LINEARS("distilbert.transformer.layer.#.attention.", "q_lin", "k_lin", "v_lin",
                "out_lin") NORM("distilbert.transformer.layer.#.sa_layer_norm")
            BIASED("distilbert.transformer.layer.#.ffn.lin1", "40x16", "40")
                BIASED("distilbert.transformer.layer.#.ffn.lin2", "16x40", "16")
                    NORM("distilbert.transformer.layer.#.output_layer_"
                         "norm") "distilbert.embeddings.word_embeddings."
                                 "weight 30x16, "
                                 "distilbert.embeddings.position_"
                                 "embeddings.weight 14x16, " NORM("distilbert.embeddings.LayerNorm")
                                     BIASED("vocab_transform", "16x16", "16")
                                         NORM("vocab_layer_norm") "vocab_"
                                                                  "projecto"
                                                                  "r.bias "
                                                                  "30",
        2);
    const struct model_stream *stream = &forward->streams[0];
    assert_null(stream->embedding.types.rows);
    forward_case_expect_norm(&stream->blocks[1].self.after,
                             "distilbert.transformer.layer.#.sa_layer_norm", 1, 1e-12, true);
    forward_case_expect_norm(&stream->blocks[1].feed_forward.after,
                             "distilbert.transformer.layer.#.output_layer_norm", 1, 1e-12, true);
    forward_case_expect_linear(&stream->blocks[1].dense.up,
                               "distilbert.transformer.layer.#.ffn.lin1", 1, 40, 16);
    forward_case_expect_norm(&forward->head.norm, "vocab_layer_norm", 0, 1e-12, true);
    assert_ptr_equal(forward->head.output.weight, stream->embedding.tokens.rows);
    published_close();
}

/* Four blocks of one group, which is two layers in a row. */
TEST(albert)
{
#define LAYER "albert.encoder.albert_layer_groups.0.albert_layers.#."
    const struct model_forward *forward = forward_case_open(
        "{\"model_type\":\"albert\",\"hidden_size\":16,\"num_attention_heads\":2,"
        "\"num_hidden_layers\":2,\"inner_group_num\":2,\"embedding_size\":6}",
        LINEARS(LAYER "attention.", "query", "key", "value", "dense")
            NORM(LAYER "attention.LayerNorm") NORM(LAYER "full_layer_layer_norm")
                BIASED(LAYER "ffn", "40x16", "40")
                    BIASED(LAYER "ffn_output", "16x40",
                           "16") "albert.embeddings.word_embeddings.weight 30x6, "
                                 "albert.embeddings.position_embeddings.weight 14x6, "
                                 "albert.embeddings.token_type_embeddings.weight 2x6, "
                                 "albert.embeddings.LayerNorm.weight 6, "
                                 "albert.embeddings.LayerNorm.bias 6, " BIASED(
                                     "albert.encoder.embedding_hidden_mapping_in", "16x6",
                                     "16") "predictions.bias 30, predictions.LayerNorm.weight 6, "
                                           "predictions.LayerNorm.bias 6, " BIASED(
                                               "predictions.dense", "6x16", "6"),
        2);
    const struct model_stream *stream = &forward->streams[0];
    assert_int_equal(stream->block_count, 4);
    for (int i = 0; i < 4; i++) {
        const struct model_block *block = &stream->blocks[i];
        assert_int_equal(block->self_layer, i);
        forward_case_expect_norm(&block->self.after, LAYER "attention.LayerNorm", i % 2, 1e-12,
                                 true);
        forward_case_expect_norm(&block->feed_forward.after, LAYER "full_layer_layer_norm", i % 2,
                                 1e-12, true);
        forward_case_expect_linear(&block->dense.down, LAYER "ffn_output", i % 2, 16, 40);
        assert_int_equal(block->dense.activation, ATTN_GELU_TANH);
    }
    assert_int_equal(stream->embedding.projection.out, 16);
    assert_int_equal(forward->head.activation, ATTN_GELU_TANH);
    assert_int_equal(forward->head.output.in, 6);
    published_close();
}
