/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_forward_decoders.c - what stands around the attention of published decoders, by
 * their own names and fields. Sources are named beside the rows of checkpoint_decoders.c
 * and checkpoint_llamas.c. */
#include "forward_case.h"
#include "test.h"

/* Lists of tensors; each ends with a comma. */
#define LINEARS(begin, q, k, v, o) PUBLISHED_LINEARS(begin, q, k, v, o, "16") ", "
#define NORM(name)                 name ".weight 16, " name ".bias 16, "
#define MATRIX(name, shape)        name ".weight " shape ", "
#define BIASED(name, shape, out)   name ".weight " shape ", " name ".bias " out ", "

static const struct model_stream *only_stream(const struct model_forward *forward)
{
    assert_int_equal(forward->stream_count, 1);
    assert_int_equal(forward->streams[0].width, 16);
    assert_int_equal(forward->streams[0].block_count, 2);
    return &forward->streams[0];
}

/* That a part has these norms and no others. */
static void expect_part(const struct model_part *part, const char *before, const char *inside,
                        const char *after, double eps, bool is_centred)
{
    const char *const names[] = { before, inside, after };
    const struct attn_norm *const norms[] = { &part->before, &part->inside, &part->after };
    for (int i = 0; i < 3; i++)
        if (names[i])
            forward_case_expect_norm(norms[i], names[i], 1, eps, is_centred);
        else
            assert_null(norms[i]->weight);
}

/* ------------------------------------------------- families with own names -- */

#define NEO "transformer.h.#."

TEST(gpt_neo)
{
    const struct model_forward *forward = forward_case_open(
        "{\"model_type\":\"gpt_neo\",\"hidden_size\":16,\"num_heads\":2,\"num_layers\":2,"
        "\"layer_norm_epsilon\":0.25}",
        MATRIX("transformer.wte", "30x16") MATRIX("transformer.wpe", "14x16") NORM(NEO "ln_1")
            NORM(NEO "ln_2") MATRIX(NEO "attn.attention.q_proj", "16x16")
                MATRIX(NEO "attn.attention.k_proj", "16x16")
                    MATRIX(NEO "attn.attention.v_proj", "16x16")
                        BIASED(NEO "attn.attention.out_proj", "16x16", "16")
                            BIASED(NEO "mlp.c_fc", "64x16", "64")
                                BIASED(NEO "mlp.c_proj", "16x64", "16") NORM("transformer.ln_f")
        /* The masks of old files are no parameters. */
        "transformer.h.#.attn.attention.bias 1x1x14x14, "
        "transformer.h.#.attn.attention.masked_bias 1",
        2);
    const struct model_block *block = &only_stream(forward)->blocks[1];
    assert_false(block->is_parallel);
    assert_int_equal(forward->streams[0].length_max, 14);
    expect_part(&block->self, NEO "ln_1", NULL, NULL, 0.25, true);
    expect_part(&block->feed_forward, NEO "ln_2", NULL, NULL, 0.25, true);
    assert_int_equal(block->dense.activation, ATTN_GELU_TANH);
    forward_case_expect_linear(&block->dense.up, NEO "mlp.c_fc", 1, 64, 16);
    assert_ptr_equal(forward->head.output.weight, forward->streams[0].embedding.tokens.rows);
    published_close();
}

#define NEOX_CONFIG(more)                                                                          \
    "{\"model_type\":\"gpt_neox\",\"hidden_size\":16,"                                             \
    "\"num_attention_heads\":2,\"num_hidden_layers\":2" more "}"
#define NEOX                                                                                       \
    MATRIX("gpt_neox.embed_in", "30x16")                                                           \
    NORM("gpt_neox.layers.#.input_layernorm")                                                      \
    NORM("gpt_neox.layers.#.post_attention_layernorm")                                             \
    BIASED("gpt_neox.layers.#.attention.query_key_value", "48x16", "48")                           \
    BIASED("gpt_neox.layers.#.attention.dense", "16x16", "16")                                     \
    BIASED("gpt_neox.layers.#.mlp.dense_h_to_4h", "40x16", "40")                                   \
    BIASED("gpt_neox.layers.#.mlp.dense_4h_to_h", "16x40", "16")                                   \
    NORM("gpt_neox.final_layer_norm")

TEST(gpt_neox)
{
    const struct model_forward *forward =
        forward_case_open(NEOX_CONFIG(""), NEOX MATRIX("embed_out", "30x16"), 2);
    const struct model_block *block = &only_stream(forward)->blocks[1];
    assert_true(block->is_parallel);
    expect_part(&block->self, "gpt_neox.layers.#.input_layernorm", NULL, NULL, 1e-5, true);
    expect_part(&block->feed_forward, "gpt_neox.layers.#.post_attention_layernorm", NULL, NULL,
                1e-5, true);
    assert_int_equal(block->dense.activation, ATTN_GELU);
    forward_case_expect_linear(&forward->head.output, "embed_out", 0, 30, 16);
    published_close();
    forward = forward_case_open(NEOX_CONFIG(",\"use_parallel_residual\":false"), NEOX, 2);
    assert_false(forward->streams[0].blocks[0].is_parallel);
    assert_null(forward->head.output.weight);
    published_close();
}

TEST(gptj)
{
    const struct model_forward *forward = forward_case_open(
        "{\"model_type\":\"gptj\",\"n_embd\":16,\"n_head\":2,\"n_layer\":2,"
        "\"rotary_dim\":4}",
        MATRIX("transformer.wte", "30x16") NORM("transformer.h.#.ln_1")
            MATRIX("transformer.h.#.attn.q_proj", "16x16")
                MATRIX("transformer.h.#.attn.k_proj", "16x16")
                    MATRIX("transformer.h.#.attn.v_proj", "16x16")
                        MATRIX("transformer.h.#.attn.out_proj", "16x16")
                            BIASED("transformer.h.#.mlp.fc_in", "40x16", "40")
                                BIASED("transformer.h.#.mlp.fc_out", "16x40", "16")
                                    NORM("transformer.ln_f") BIASED("lm_head", "30x16", "30"),
        2);
    const struct model_block *block = &only_stream(forward)->blocks[1];
    assert_true(block->is_parallel);
    assert_ptr_equal(block->self.before.weight, block->feed_forward.before.weight);
    assert_int_equal(block->dense.activation, ATTN_GELU_TANH);
    forward_case_expect(forward->head.output.bias, "lm_head.bias", 0);
    published_close();
}

#define OPT_CONFIG(more)                                                                           \
    "{\"model_type\":\"opt\",\"hidden_size\":16,\"num_attention_heads\":2,"                        \
    "\"num_hidden_layers\":2" more "}"
#define OPT_LAYERS                                                                                 \
    LINEARS("model.decoder.layers.#.self_attn.", "q_proj", "k_proj", "v_proj", "out_proj")         \
    MATRIX("model.decoder.embed_positions", "10x16")                                               \
    NORM("model.decoder.layers.#.self_attn_layer_norm")                                            \
    NORM("model.decoder.layers.#.final_layer_norm")                                                \
    BIASED("model.decoder.layers.#.fc1", "40x16", "40")                                            \
    BIASED("model.decoder.layers.#.fc2", "16x40", "16")

TEST(opt)
{
    const struct model_forward *forward =
        forward_case_open(OPT_CONFIG(""),
                          OPT_LAYERS MATRIX("model.decoder.embed_tokens", "30x16")
                              NORM("model.decoder.final_layer_norm"),
                          2);
    const struct model_stream *stream = only_stream(forward);
    assert_int_equal(stream->embedding.position_offset, 2);
    assert_int_equal(stream->length_max, 8);
    expect_part(&stream->blocks[1].self, "model.decoder.layers.#.self_attn_layer_norm", NULL, NULL,
                1e-5, true);
    assert_int_equal(stream->blocks[1].dense.activation, ATTN_RELU);
    forward_case_expect_norm(&stream->final_norm, "model.decoder.final_layer_norm", 0, 1e-5, true);
    assert_ptr_equal(forward->head.output.weight, stream->embedding.tokens.rows);
    published_close();
    forward = forward_case_open(
        OPT_CONFIG(",\"do_layer_norm_before\":false,\"word_embed_proj_dim\":6"),
        OPT_LAYERS MATRIX("model.decoder.embed_tokens", "30x6")
            MATRIX("model.decoder.project_in", "16x6") MATRIX("model.decoder.project_out", "6x16"),
        2);
    stream = only_stream(forward);
    expect_part(&stream->blocks[1].self, NULL, NULL, "model.decoder.layers.#.self_attn_layer_norm",
                1e-5, true);
    expect_part(&stream->blocks[1].feed_forward, NULL, NULL,
                "model.decoder.layers.#.final_layer_norm", 1e-5, true);
    assert_null(stream->final_norm.weight);
    assert_null(stream->embedding.projection.weight);
    forward_case_expect_linear(&stream->embedding.token_projection, "model.decoder.project_in", 0,
                               16, 6);
    forward_case_expect_linear(&forward->head.transform, "model.decoder.project_out", 0, 6, 16);
    assert_int_equal(forward->head.output.in, 6);
    published_close();
    forward_case_refused(OPT_CONFIG(""), OPT_LAYERS MATRIX("model.decoder.embed_tokens", "30x6"), 2,
                         "the file has no tensor 'model.decoder.project_in.weight'");
}

#define BLOOM_CONFIG(more)                                                                         \
    "{\"model_type\":\"bloom\",\"hidden_size\":16,\"n_head\":2,\"n_layer\":2" more "}"
#define BLOOM                                                                                      \
    MATRIX("word_embeddings", "30x16")                                                             \
    NORM("word_embeddings_layernorm")                                                              \
    NORM("h.#.input_layernorm")                                                                    \
    NORM("h.#.post_attention_layernorm")                                                           \
    BIASED("h.#.self_attention.query_key_value", "48x16", "48")                                    \
    BIASED("h.#.self_attention.dense", "16x16", "16")                                              \
    BIASED("h.#.mlp.dense_h_to_4h", "64x16", "64")                                                 \
    BIASED("h.#.mlp.dense_4h_to_h", "16x64", "16") NORM("ln_f")

TEST(bloom)
{
    const struct model_forward *forward = forward_case_open(BLOOM_CONFIG(""), BLOOM, 2);
    const struct model_stream *stream = only_stream(forward);
    forward_case_expect_norm(&stream->embedding.norm, "word_embeddings_layernorm", 0, 1e-5, true);
    assert_int_equal(stream->blocks[0].dense.activation, ATTN_GELU_TANH);
    assert_false(stream->blocks[0].is_parallel);
    assert_non_null(forward->head.output.weight);
    published_close();
    forward_case_refused(BLOOM_CONFIG(",\"apply_residual_connection_post_layernorm\":true"), BLOOM,
                         2, "config.json sets apply_residual_connection_post_layernorm");
}

#define FALCON_CONFIG(more)                                                                        \
    "{\"model_type\":\"falcon\",\"hidden_size\":16,\"num_attention_heads\":4,"                     \
    "\"num_hidden_layers\":2" more "}"
#define FALCON_REST                                                                                \
    MATRIX("transformer.word_embeddings", "30x16")                                                 \
    MATRIX("transformer.h.#.self_attention.dense", "16x16")                                        \
    MATRIX("transformer.h.#.mlp.dense_h_to_4h", "64x16")                                           \
    MATRIX("transformer.h.#.mlp.dense_4h_to_h", "16x64") NORM("transformer.ln_f")
#define FALCON_ONE FALCON_REST MATRIX("transformer.h.#.self_attention.query_key_value", "24x16")
#define FALCON_NEW FALCON_REST MATRIX("transformer.h.#.self_attention.query_key_value", "32x16")

TEST(falcon)
{
    const struct model_forward *forward =
        forward_case_open(FALCON_CONFIG(""), FALCON_ONE NORM("transformer.h.#.input_layernorm"), 2);
    const struct model_block *block = &only_stream(forward)->blocks[1];
    assert_true(block->is_parallel);
    expect_part(&block->feed_forward, "transformer.h.#.input_layernorm", NULL, NULL, 1e-5, true);
    assert_int_equal(block->dense.activation, ATTN_GELU);
    published_close();
    forward = forward_case_open(FALCON_CONFIG(",\"parallel_attn\":false"),
                                FALCON_ONE NORM("transformer.h.#.input_layernorm")
                                    NORM("transformer.h.#.post_attention_layernorm"),
                                2);
    block = &only_stream(forward)->blocks[1];
    assert_false(block->is_parallel);
    expect_part(&block->feed_forward, "transformer.h.#.post_attention_layernorm", NULL, NULL, 1e-5,
                true);
    published_close();
    forward = forward_case_open(
        FALCON_CONFIG(",\"new_decoder_architecture\":true,\"num_kv_heads\":2"),
        FALCON_NEW NORM("transformer.h.#.ln_attn") NORM("transformer.h.#.ln_mlp"), 2);
    block = &only_stream(forward)->blocks[1];
    assert_true(block->is_parallel);
    expect_part(&block->self, "transformer.h.#.ln_attn", NULL, NULL, 1e-5, true);
    expect_part(&block->feed_forward, "transformer.h.#.ln_mlp", NULL, NULL, 1e-5, true);
    published_close();
    forward =
        forward_case_open(FALCON_CONFIG(",\"new_decoder_architecture\":true,\"num_kv_heads\":2,"
                                        "\"num_ln_in_parallel_attn\":1"),
                          FALCON_NEW NORM("transformer.h.#.input_layernorm"), 2);
    block = &only_stream(forward)->blocks[1];
    assert_ptr_equal(block->self.before.weight, block->feed_forward.before.weight);
    published_close();
}

#define MPT_CONFIG(more)                                                                           \
    "{\"model_type\":\"mpt\",\"d_model\":16,\"n_heads\":2,\"n_layers\":2" more "}"
#define MPT                                                                                        \
    MATRIX("transformer.wte", "30x16")                                                             \
    MATRIX("transformer.blocks.#.attn.Wqkv", "48x16")                                              \
    MATRIX("transformer.blocks.#.attn.out_proj", "16x16")                                          \
    MATRIX("transformer.blocks.#.ffn.up_proj", "40x16")                                            \
    MATRIX("transformer.blocks.#.ffn.down_proj", "16x40")                                          \
    "transformer.blocks.#.norm_1.weight 16, "                                                      \
    "transformer.blocks.#.norm_2.weight 16, transformer.norm_f.weight 16, "

TEST(mpt)
{
    const struct model_forward *forward = forward_case_open(
        MPT_CONFIG(",\"logit_scale\":\"inv_sqrt_d_model\","
                   "\"norm_type\":\"low_precision_layernorm\",\"learned_pos_emb\":true"),
        MPT, 2);
    const struct model_stream *stream = only_stream(forward);
    expect_part(&stream->blocks[1].self, "transformer.blocks.#.norm_1", NULL, NULL, 1e-5, true);
    assert_null(stream->blocks[1].self.before.bias);
    assert_null(stream->embedding.positions.rows);
    assert_int_equal(stream->blocks[1].dense.activation, ATTN_GELU);
    assert_true(forward->head.scale == 0.25);
    published_close();
    forward = forward_case_open(
        MPT_CONFIG(",\"logit_scale\":0.5,\"norm_type\":\"rmsnorm\","
                   "\"attn_config\":{\"alibi\":false},"
                   "\"ffn_config\":{\"ffn_type\":\"mptglu\","
                   "\"ffn_act_fn\":{\"name\":\"silu\"}},\"final_logit_softcapping\":30"),
        MPT MATRIX("transformer.wpe", "9x16") MATRIX("transformer.blocks.#.ffn.gate_proj", "40x16"),
        2);
    stream = only_stream(forward);
    expect_part(&stream->blocks[1].self, "transformer.blocks.#.norm_1", NULL, NULL, 1e-5, false);
    assert_int_equal(stream->length_max, 9);
    assert_int_equal(stream->blocks[1].dense.activation, ATTN_SILU);
    assert_non_null(stream->blocks[1].dense.gate.weight);
    assert_true(forward->head.scale == 0.5 && forward->head.softcap == 30);
    published_close();
    forward_case_refused(MPT_CONFIG(",\"norm_type\":\"groupnorm\""), MPT, 2,
                         "config.json's norm_type is 'groupnorm'");
    forward_case_refused(MPT_CONFIG(",\"ffn_config\":{\"ffn_type\":\"mptmoe\"}"), MPT, 2,
                         "config.json's ffn_config.ffn_type is 'mptmoe'");
}
