/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_forward.c - what stands around the attention of published checkpoints: a small
 * checkpoint with a family's names gives the data of its whole pass, and a checkpoint that lacks
 * something gives a reason and still loads.
 *
 * The names and fields are those of src/transformers/models/ of Hugging Face transformers. */
#include "forward_case.h"
#include "test.h"

/* ---------------------------------------------------------------------- BERT -- */

#define BERT_CONFIG(more)                                                                          \
    "{\"model_type\":\"bert\",\"hidden_size\":16,\"num_attention_heads\":2,"                       \
    "\"num_hidden_layers\":2" more "}"
#define BERT_BODY                                                                                  \
    "bert.embeddings.word_embeddings.weight 30x16, "                                               \
    "bert.embeddings.position_embeddings.weight 12x16, "                                           \
    "bert.embeddings.token_type_embeddings.weight 2x16, bert.embeddings.LayerNorm.weight 16, "     \
    "bert.embeddings.LayerNorm.bias 16, " PUBLISHED_LINEARS(                                       \
        "bert.encoder.layer.#.attention.", "self.query", "self.key", "self.value", "output.dense", \
        "16") ", bert.encoder.layer.#.attention.output.LayerNorm.gamma 16, "                       \
              "bert.encoder.layer.#.attention.output.LayerNorm.beta 16, "                          \
              "bert.encoder.layer.#.intermediate.dense.weight 40x16, "                             \
              "bert.encoder.layer.#.intermediate.dense.bias 40, "                                  \
              "bert.encoder.layer.#.output.dense.weight 16x40, "                                   \
              "bert.encoder.layer.#.output.dense.bias 16, "                                        \
              "bert.encoder.layer.#.output.LayerNorm.weight 16"
#define BERT BERT_BODY ", bert.encoder.layer.#.output.LayerNorm.bias 16"
#define BERT_HEAD                                                                                  \
    "cls.predictions.bias 30, cls.predictions.transform.dense.weight 16x16, "                      \
    "cls.predictions.transform.dense.bias 16, cls.predictions.transform.LayerNorm.weight 16, "     \
    "cls.predictions.transform.LayerNorm.bias 16"

TEST(bert)
{
    const struct model_forward *forward =
        forward_case_open(BERT_CONFIG(""), BERT ", " BERT_HEAD, 2);
    const struct model_stream *stream = &forward->streams[0];
    const struct model_block *block = &stream->blocks[1];
    assert_int_equal(forward->stream_count, 1);
    assert_int_equal(stream->width, 16);
    assert_int_equal(stream->block_count, 2);
    assert_int_equal(stream->length_max, 12);
    assert_int_equal(stream->embedding.tokens.count, 30);
    assert_int_equal(stream->embedding.padding_id, -1);
    forward_case_expect(stream->embedding.types.rows,
                        "bert.embeddings.token_type_embeddings.weight", 0);
    forward_case_expect_norm(&stream->embedding.norm, "bert.embeddings.LayerNorm", 0, 1e-12, true);
    forward_case_expect(block->self.after.weight,
                        "bert.encoder.layer.#.attention.output.LayerNorm.gamma", 1);
    forward_case_expect(block->self.after.bias,
                        "bert.encoder.layer.#.attention.output.LayerNorm.beta", 1);
    assert_null(block->self.before.weight);
    assert_null(block->self.inside.weight);
    assert_int_equal(block->self_layer, 1);
    assert_int_equal(block->cross_layer, -1);
    assert_false(block->is_parallel);
    forward_case_expect_linear(&block->dense.up, "bert.encoder.layer.#.intermediate.dense", 1, 40,
                               16);
    forward_case_expect_linear(&block->dense.down, "bert.encoder.layer.#.output.dense", 1, 16, 40);
    assert_null(block->dense.gate.weight);
    assert_int_equal(block->dense.activation, ATTN_GELU);
    assert_null(stream->final_norm.weight);
    forward_case_expect_linear(&forward->head.transform, "cls.predictions.transform.dense", 0, 16,
                               16);
    assert_int_equal(forward->head.activation, ATTN_GELU);
    assert_ptr_equal(forward->head.output.weight, stream->embedding.tokens.rows);
    forward_case_expect(forward->head.output.bias, "cls.predictions.bias", 0);
    assert_true(forward->head.is_masked);
    assert_int_equal(forward->vocabulary, 30);
    assert_int_equal(forward->start_id, -1);
    assert_int_equal(forward->mask_id, -1);
    published_close();
}

TEST(bert_parts)
{
    const struct model_forward *forward = forward_case_open(BERT_CONFIG(""), BERT, 2);
    assert_null(forward->head.output.weight);
    assert_int_equal(forward->vocabulary, 0);
    published_close();
    forward = forward_case_open(BERT_CONFIG(",\"is_decoder\":true,\"hidden_act\":\"relu\","
                                            "\"layer_norm_eps\":0.5"),
                                BERT ", " BERT_HEAD, 2);
    assert_false(forward->head.is_masked);
    assert_int_equal(forward->streams[0].blocks[0].dense.activation, ATTN_RELU);
    assert_true(forward->streams[0].blocks[0].feed_forward.after.eps == 0.5);
    published_close();
}

TEST(reasons)
{
    forward_case_refused(BERT_CONFIG(",\"hidden_act\":\"mish\""), BERT, 2,
                         "config.json's hidden_act is 'mish', an activation that is not computed "
                         "here");
    forward_case_refused(BERT_CONFIG(""), BERT_BODY, 2,
                         "the file has no tensor 'bert.encoder.layer.0.output.LayerNorm.bias', "
                         "which the whole pass of the model needs");
    forward_case_refused(BERT_CONFIG(""), BERT ", cls.predictions.transform.dense.weight 16x16", 2,
                         "the file has no tensor 'cls.predictions.transform.dense.bias'");
    forward_case_refused(BERT_CONFIG(""), BERT ", cls.predictions.transform.dense.weight 16x15", 2,
                         "tensor 'cls.predictions.transform.dense.weight' is not a matrix of 16 "
                         "columns");
    forward_case_refused("{\"model_type\":\"wav2vec2\",\"hidden_size\":16,\"num_attention_heads\":"
                         "2,\"num_hidden_layers\":1}",
                         PUBLISHED_LINEARS("wav2vec2.encoder.layers.#.attention.", "q_proj",
                                           "k_proj", "v_proj", "out_proj", "16"),
                         1,
                         "the file has no tensor "
                         "'wav2vec2.feature_extractor.conv_layers.0.conv.weight'");
    forward_case_refused(BERT_CONFIG(",\"is_decoder\":true"),
                         BERT ", " PUBLISHED_LINEARS("bert.encoder.layer.#.crossattention.",
                                                     "self.query", "self.key", "self.value",
                                                     "output.dense", "16"),
                         2, "attend to the rows of an encoder, which is not part of it");
}

/* ---------------------------------------------------------------------- GPT-2 -- */

TEST(gpt2)
{
    const struct model_forward *forward = forward_case_open(
        "{\"model_type\":\"gpt2\",\"n_embd\":16,\"n_head\":2,\"n_layer\":2}",
        "wte.weight 30x16, wpe.weight 9x16, h.#.ln_1.weight 16, h.#.ln_1.bias 16, "
        "h.#.attn.c_attn.weight 16x48, h.#.attn.c_attn.bias 48, h.#.attn.c_proj.weight 16x16, "
        "h.#.attn.c_proj.bias 16, h.#.ln_2.weight 16, h.#.ln_2.bias 16, "
        "h.#.mlp.c_fc.weight 16x40, h.#.mlp.c_fc.bias 40, h.#.mlp.c_proj.weight 40x16, "
        "h.#.mlp.c_proj.bias 16, ln_f.weight 16, ln_f.bias 16",
        2);
    const struct model_stream *stream = &forward->streams[0];
    const struct model_block *block = &stream->blocks[1];
    assert_int_equal(stream->length_max, 9);
    forward_case_expect_norm(&block->self.before, "h.#.ln_1", 1, 1e-5, true);
    forward_case_expect_norm(&block->feed_forward.before, "h.#.ln_2", 1, 1e-5, true);
    forward_case_expect_norm(&stream->final_norm, "ln_f", 0, 1e-5, true);
    assert_true(block->dense.up.in_out);
    forward_case_expect_linear(&block->dense.up, "h.#.mlp.c_fc", 1, 40, 16);
    forward_case_expect_linear(&block->dense.down, "h.#.mlp.c_proj", 1, 16, 40);
    assert_int_equal(block->dense.activation, ATTN_GELU_TANH);
    assert_ptr_equal(forward->head.output.weight, stream->embedding.tokens.rows);
    assert_null(forward->head.transform.weight);
    assert_false(forward->head.is_masked);
    published_close();
}

/* ---------------------------------------------------------------------- Llama -- */

#define LLAMA_CONFIG(more)                                                                         \
    "{\"model_type\":\"llama\",\"hidden_size\":16,\"num_attention_heads\":4,"                      \
    "\"num_key_value_heads\":2,\"num_hidden_layers\":2" more "}"
#define LLAMA_BLOCKS                                                                               \
    "model.layers.#.input_layernorm.weight 16, "                                                   \
    "model.layers.#.self_attn.q_proj.weight 16x16, model.layers.#.self_attn.k_proj.weight 8x16, "  \
    "model.layers.#.self_attn.v_proj.weight 8x16, model.layers.#.self_attn.o_proj.weight 16x16, "  \
    "model.layers.#.post_attention_layernorm.weight 16, "                                          \
    "model.layers.#.mlp.gate_proj.weight 40x16, model.layers.#.mlp.up_proj.weight 40x16, "         \
    "model.layers.#.mlp.down_proj.weight 16x40, model.norm.weight 16"
#define LLAMA "model.embed_tokens.weight 30x16, " LLAMA_BLOCKS

TEST(llama)
{
    const struct model_forward *forward =
        forward_case_open(LLAMA_CONFIG(""), LLAMA ", lm_head.weight 30x16", 2);
    const struct model_stream *stream = &forward->streams[0];
    const struct model_block *block = &stream->blocks[1];
    assert_int_equal(stream->length_max, 0);
    assert_null(stream->embedding.positions.rows);
    forward_case_expect_norm(&block->self.before, "model.layers.#.input_layernorm", 1, 1e-6, false);
    forward_case_expect_norm(&block->feed_forward.before, "model.layers.#.post_attention_layernorm",
                             1, 1e-6, false);
    forward_case_expect_linear(&block->dense.gate, "model.layers.#.mlp.gate_proj", 1, 40, 16);
    forward_case_expect_linear(&block->dense.up, "model.layers.#.mlp.up_proj", 1, 40, 16);
    forward_case_expect_linear(&block->dense.down, "model.layers.#.mlp.down_proj", 1, 16, 40);
    assert_int_equal(block->dense.activation, ATTN_SILU);
    forward_case_expect_norm(&stream->final_norm, "model.norm", 0, 1e-6, false);
    forward_case_expect_linear(&forward->head.output, "lm_head", 0, 30, 16);
    published_close();
    forward = forward_case_open(LLAMA_CONFIG(",\"tie_word_embeddings\":true"), LLAMA, 2);
    assert_ptr_equal(forward->head.output.weight, forward->streams[0].embedding.tokens.rows);
    published_close();
    forward = forward_case_open(LLAMA_CONFIG(""), LLAMA, 2);
    assert_null(forward->head.output.weight);
    published_close();
    forward_case_refused(LLAMA_CONFIG(",\"mlp_bias\":true"), LLAMA, 2,
                         "the file has no tensor 'model.layers.0.mlp.up_proj.bias'");
    forward_case_refused(LLAMA_CONFIG(""), LLAMA ", model.layers.#.mlp.up_proj.bias 40", 2,
                         "the file has a tensor 'model.layers.0.mlp.up_proj.bias', and by "
                         "config.json there is no bias");
}

/* A table of tokens that cannot be used where it lies is converted when the pass is held. */
TEST(converted)
{
    struct fault fault;
    published_open(LLAMA_CONFIG(",\"tie_word_embeddings\":true"),
                   "model.embed_tokens.weight 5000x16, " LLAMA_BLOCKS, 2, "F64");
    struct model *model = published_model();
    const struct model_forward *forward = model->forward;
    if (!forward)
        fail_msg("%s", model->forward_reason);
    const struct model_table *tokens = &forward->streams[0].embedding.tokens;
    const float *rows = tokens->rows;
    assert_int_equal(tokens->dtype, ATTN_F32);
    assert_ptr_equal(forward->head.output.weight, rows);
    assert_true(rows[17] == 0);
    assert_true(model_forward_hold(model, &fault));
    forward_case_expect(rows, "model.embed_tokens.weight", 0);
    forward_case_expect_norm(&forward->streams[0].final_norm, "model.norm", 0, 1e-6, false);
    model_forward_drop(model);
    published_close();
}

/* Counts of parameters stay those of attention. */
TEST(counts)
{
    forward_case_open(LLAMA_CONFIG(""), LLAMA, 2);
    assert_int_equal(published_model()->parameter_count, 2 * (2 * 16 * 16 + 2 * 8 * 16));
    assert_int_equal(published_model()->parameter_bytes, 4 * published_model()->parameter_count);
    published_close();
}
