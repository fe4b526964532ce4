/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_forward_llamas.c - what stands around the attention of published decoders that
 * have the names of Llama or of Meta. Sources are named beside the rows of
 * checkpoint_llamas.c. */
#include "forward_case.h"
#include "models/store/model_open.h"
#include "test.h"

/* Lists of tensors; each ends with a comma. */
#define LINEARS(begin, q, k, v, o) PUBLISHED_LINEARS(begin, q, k, v, o, "16") ", "
#define FIELDS                                                                                     \
    "\"hidden_size\":16,\"num_attention_heads\":4,\"num_key_value_heads\":2,"                      \
    "\"num_hidden_layers\":2"
#define ATTENTION(o)                                                                               \
    "model.embed_tokens.weight 30x16, "                                                            \
    "model.layers.#.self_attn.q_proj.weight 16x16, "                                               \
    "model.layers.#.self_attn.k_proj.weight 8x16, "                                                \
    "model.layers.#.self_attn.v_proj.weight 8x16, model.layers.#.self_attn." o ".weight 16x16, "
#define GATED                                                                                      \
    "model.layers.#.mlp.gate_proj.weight 40x16, "                                                  \
    "model.layers.#.mlp.up_proj.weight 40x16, "                                                    \
    "model.layers.#.mlp.down_proj.weight 16x40, "
#define NORM(name)        "model." name ".weight 16, "
#define BIASED_NORM(name) "model." name ".weight 16, model." name ".bias 16, "
#define LAYER_NORM(name)  NORM("layers.#." name)
#define HEAD              "lm_head.weight 30x16, "

static const struct model_stream *only_stream(const struct model_forward *forward)
{
    assert_int_equal(forward->stream_count, 1);
    assert_int_equal(forward->streams[0].width, 16);
    assert_int_equal(forward->streams[0].length_max, 0);
    return &forward->streams[0];
}

static void expect_norm(const struct attn_norm *norm, const char *name, double eps, bool is_centred)
{
    char whole[128];
    snprintf(whole, sizeof whole, "model.layers.#.%s", name);
    forward_case_expect_norm(norm, whole, 1, eps, is_centred);
}

TEST(mistral)
{
    static const char *const CONFIGS[] = {
        "{\"model_type\":\"mistral\",\"rms_norm_eps\":0.25," FIELDS "}",
        "{\"model_type\":\"qwen3\",\"head_dim\":4,\"rms_norm_eps\":0.25," FIELDS "}",
    };
    for (int i = 0; i < 2; i++) {
        const struct model_forward *forward =
            forward_case_open(CONFIGS[i],
                              ATTENTION("o_proj") GATED LAYER_NORM("input_layernorm")
                                  LAYER_NORM("post_attention_layernorm") NORM("norm") HEAD
                              "model.layers.#.self_attn.q_norm.weight 4, "
                              "model.layers.#.self_attn.k_norm.weight 4",
                              2);
        const struct model_block *block = &only_stream(forward)->blocks[1];
        expect_norm(&block->self.before, "input_layernorm", 0.25, false);
        expect_norm(&block->feed_forward.before, "post_attention_layernorm", 0.25, false);
        assert_int_equal(block->dense.activation, ATTN_SILU);
        forward_case_expect_linear(&forward->head.output, "lm_head", 0, 30, 16);
        published_close();
    }
}

TEST(mixtral)
{
    static const char TENSORS[] =
        ATTENTION("o_proj") LAYER_NORM("input_layernorm") LAYER_NORM("post_attention_layernorm")
            NORM("norm") HEAD "model.layers.#.block_sparse_moe.gate.weight 3x16, "
                              "model.layers.#.block_sparse_moe.experts.0.w1.weight 40x16, "
                              "model.layers.#.block_sparse_moe.experts.0.w2.weight 16x40, "
                              "model.layers.#.block_sparse_moe.experts.0.w3.weight 40x16, "
                              "model.layers.#.block_sparse_moe.experts.1.w1.weight 40x16, "
                              "model.layers.#.block_sparse_moe.experts.1.w2.weight 16x40, "
                              "model.layers.#.block_sparse_moe.experts.1.w3.weight 40x16, "
                              "model.layers.#.block_sparse_moe.experts.2.w1.weight 40x16, "
                              "model.layers.#.block_sparse_moe.experts.2.w2.weight 16x40, "
                              "model.layers.#.block_sparse_moe.experts.2.w3.weight 40x16";
    const struct model_forward *forward = forward_case_open(
        "{\"model_type\":\"mixtral\",\"num_local_experts\":3," FIELDS "}", TENSORS, 2);
    const struct model_block *block = &only_stream(forward)->blocks[1];
    const struct model_experts *experts = &block->experts;
    assert_int_equal(experts->count, 3);
    assert_int_equal(experts->chosen, 2);
    assert_true(experts->is_normalized);
    assert_null(block->dense.up.weight);
    forward_case_expect_linear(&experts->router, "model.layers.#.block_sparse_moe.gate", 1, 3, 16);
    forward_case_expect_linear(&experts->experts[2].gate,
                               "model.layers.#.block_sparse_moe.experts.2.w1", 1, 40, 16);
    forward_case_expect_linear(&experts->experts[2].up,
                               "model.layers.#.block_sparse_moe.experts.2.w3", 1, 40, 16);
    forward_case_expect_linear(&experts->experts[2].down,
                               "model.layers.#.block_sparse_moe.experts.2.w2", 1, 16, 40);
    assert_int_equal(experts->experts[2].activation, ATTN_SILU);
    published_close();
    forward_case_refused("{\"model_type\":\"mixtral\"," FIELDS "}", TENSORS, 2,
                         "tensor 'model.layers.0.block_sparse_moe.gate.weight' is not [8, 16]");
    forward_case_refused("{\"model_type\":\"mixtral\",\"num_local_experts\":3,"
                         "\"num_experts_per_tok\":4," FIELDS "}",
                         TENSORS, 2,
                         "3 experts (num_local_experts), of which 4 (num_experts_per_tok)");
}

TEST(phi)
{
    const struct model_forward *forward = forward_case_open(
        "{\"model_type\":\"phi\",\"hidden_size\":16,\"num_attention_heads\":2,"
        "\"num_hidden_layers\":2}",
        LINEARS("model.layers.#.self_attn.", "q_proj", "k_proj", "v_proj",
                "dense") "model.embed_tokens.weight 30x16, " BIASED_NORM("layers.#.input_layernorm")
            BIASED_NORM("final_layernorm") "model.layers.#.mlp.fc1.weight 40x16, "
                                           "model.layers.#.mlp.fc1.bias 40, "
                                           "model.layers.#.mlp.fc2.weight 16x40, "
                                           "model.layers.#.mlp.fc2.bias 16, "
                                           "lm_head.bias 30, " HEAD,
        2);
    const struct model_block *block = &only_stream(forward)->blocks[1];
    assert_true(block->is_parallel);
    expect_norm(&block->self.before, "input_layernorm", 1e-5, true);
    expect_norm(&block->feed_forward.before, "input_layernorm", 1e-5, true);
    assert_int_equal(block->dense.activation, ATTN_GELU_TANH);
    forward_case_expect(forward->head.output.bias, "lm_head.bias", 0);
    published_close();
}

TEST(phi3)
{
    const struct model_forward *forward = forward_case_open(
        "{\"model_type\":\"phi3\"," FIELDS "}",
        "model.embed_tokens.weight 30x16, "
        "model.layers.#.self_attn.qkv_proj.weight 32x16, "
        "model.layers.#.self_attn.o_proj.weight 16x16, "
        "model.layers.#.mlp.gate_up_proj.weight 80x16, "
        "model.layers.#.mlp.down_proj.weight 16x40, " LAYER_NORM("input_layernorm")
            LAYER_NORM("post_attention_layernorm") NORM("norm") HEAD,
        2);
    const struct model_feed_forward *dense = &only_stream(forward)->blocks[1].dense;
    const struct rows fused = published_tensor("model.layers.#.mlp.gate_up_proj.weight", 1);
    assert_int_equal(dense->gate.out, 40);
    assert_int_equal(dense->up.out, 40);
    for (int i = 0; i < 40 * 16; i++) {
        assert_true(((const float *)dense->gate.weight)[i] == (float)fused.data[i]);
        assert_true(((const float *)dense->up.weight)[i] == (float)fused.data[40 * 16 + i]);
    }
    published_close();
}

TEST(stablelm)
{
    static const char TENSORS[] =
        ATTENTION("o_proj") GATED BIASED_NORM("layers.#.input_layernorm") HEAD BIASED_NORM("norm");
    const struct model_forward *forward =
        forward_case_open("{\"model_type\":\"stablelm\",\"use_parallel_residual\":true,"
                          "\"rope_pct\":0.5," FIELDS "}",
                          TENSORS, 2);
    const struct model_block *block = &only_stream(forward)->blocks[1];
    assert_true(block->is_parallel);
    expect_norm(&block->feed_forward.before, "input_layernorm", 1e-5, true);
    assert_non_null(block->self.before.bias);
    published_close();
    forward_case_refused("{\"model_type\":\"stablelm\",\"rope_pct\":0.5," FIELDS "}", TENSORS, 2,
                         "'model.layers.0.post_attention_layernorm.weight'");
}

TEST(starcoder2)
{
    static const char TENSORS[] = ATTENTION("o_proj") BIASED_NORM("layers.#.input_layernorm")
        BIASED_NORM("layers.#.post_attention_layernorm")
            BIASED_NORM("norm") "model.layers.#.mlp.c_fc.weight 40x16, "
                                "model.layers.#.mlp.c_proj.weight 16x40, ";
    const struct model_forward *forward = forward_case_open(
        "{\"model_type\":\"starcoder2\",\"use_bias\":false,\"norm_epsilon\":0.25," FIELDS "}",
        TENSORS, 2);
    const struct model_block *block = &only_stream(forward)->blocks[1];
    assert_false(block->is_parallel);
    expect_norm(&block->feed_forward.before, "post_attention_layernorm", 0.25, true);
    assert_non_null(block->feed_forward.before.bias);
    assert_int_equal(block->dense.activation, ATTN_GELU_TANH);
    forward_case_expect_linear(&block->dense.up, "model.layers.#.mlp.c_fc", 1, 40, 16);
    forward_case_expect_linear(&block->dense.down, "model.layers.#.mlp.c_proj", 1, 16, 40);
    assert_ptr_equal(forward->head.output.weight, forward->streams[0].embedding.tokens.rows);
    published_close();
    forward = forward_case_open("{\"model_type\":\"starcoder2\",\"use_bias\":false,"
                                "\"tie_word_embeddings\":false," FIELDS "}",
                                TENSORS, 2);
    assert_null(forward->head.output.weight);
    published_close();
}

TEST(olmo)
{
    const struct model_forward *forward =
        forward_case_open("{\"model_type\":\"olmo\"," FIELDS "}", ATTENTION("o_proj") GATED, 2);
    const struct model_stream *stream = only_stream(forward);
    const struct attn_norm *const norms[] = { &stream->blocks[1].self.before,
                                              &stream->blocks[1].feed_forward.before,
                                              &stream->final_norm };
    for (int i = 0; i < 3; i++) {
        assert_true(norms[i]->is_centred && norms[i]->eps == 1e-5 && !norms[i]->bias);
        for (int c = 0; c < 16; c++)
            assert_true(norms[i]->weight[c] == 1);
    }
    published_close();
    forward = forward_case_open(
        "{\"model_type\":\"olmo2\"," FIELDS "}",
        ATTENTION("o_proj") GATED NORM("norm")
            LAYER_NORM("self_attn.q_norm") "model.layers.#.self_attn.k_norm.weight 8, " LAYER_NORM(
                "post_attention_layernorm") LAYER_NORM("post_feedforward_layernorm"),
        2);
    const struct model_block *block = &only_stream(forward)->blocks[1];
    assert_null(block->self.before.weight);
    expect_norm(&block->self.inside, "post_attention_layernorm", 1e-5, false);
    expect_norm(&block->feed_forward.inside, "post_feedforward_layernorm", 1e-5, false);
    published_close();
}

TEST(cohere)
{
    static const char *const TYPES[] = { "cohere", "cohere2" };
    for (int i = 0; i < 2; i++) {
        char config[256];
        snprintf(config, sizeof config, "{\"model_type\":\"%s\"," FIELDS "}", TYPES[i]);
        const struct model_forward *forward = forward_case_open(
            config, ATTENTION("o_proj") GATED NORM("norm") LAYER_NORM("input_layernorm"), 2);
        const struct model_block *block = &only_stream(forward)->blocks[1];
        assert_true(block->is_parallel);
        expect_norm(&block->self.before, "input_layernorm", 1e-5, true);
        expect_norm(&block->feed_forward.before, "input_layernorm", 1e-5, true);
        assert_true(forward->head.scale == 0.0625);
        assert_non_null(forward->head.output.weight);
        published_close();
    }
}

/* Gemma's norms multiply by one more than the tensor says. */
static void expect_gemma_norm(const struct attn_norm *norm, const char *name)
{
    const struct rows rows = published_tensor(name, 1);
    assert_true(norm->eps == 1e-6 && !norm->is_centred);
    for (int c = 0; c < 16; c++)
        assert_true(norm->weight[c] == 1 + (float)rows.data[c]);
}

TEST(gemma)
{
    const struct model_forward *forward = forward_case_open(
        "{\"model_type\":\"gemma\",\"head_dim\":4,\"hidden_act\":\"gelu\"," FIELDS "}",
        ATTENTION("o_proj") GATED NORM("norm") LAYER_NORM("input_layernorm")
            LAYER_NORM("post_attention_layernorm"),
        2);
    const struct model_stream *stream = only_stream(forward);
    assert_true(stream->embedding.scale == 4);
    assert_int_equal(stream->blocks[1].dense.activation, ATTN_GELU_TANH);
    expect_gemma_norm(&stream->blocks[1].self.before, "model.layers.#.input_layernorm.weight");
    expect_gemma_norm(&stream->final_norm, "model.norm.weight");
    assert_ptr_equal(forward->head.output.weight, stream->embedding.tokens.rows);
    published_close();
}

/* Norms on both sides of each part. */
TEST(gemma2)
{
    const struct model_forward *forward;
    static const char *const CONFIGS[] = {
        "{\"model_type\":\"gemma2\",\"head_dim\":4," FIELDS "}",
        "{\"model_type\":\"gemma3_text\",\"head_dim\":4," FIELDS "}",
        "{\"model_type\":\"gemma3_text\",\"head_dim\":4,"
        "\"use_bidirectional_attention\":true," //
        FIELDS "}",
    };
    for (int i = 0; i < 3; i++) {
        forward = forward_case_open(
            CONFIGS[i],
            ATTENTION("o_proj") GATED NORM("norm") LAYER_NORM("input_layernorm")
                LAYER_NORM("post_attention_layernorm") LAYER_NORM("pre_feedforward_layernorm")
                    LAYER_NORM(
                        "post_feedforward_layernorm") "model.layers.#.self_attn.q_norm.weight 4, "
                                                      "model.layers.#.self_attn.k_norm.weight 4",
            2);
        const struct model_block *block = &only_stream(forward)->blocks[1];
        expect_gemma_norm(&block->self.before, "model.layers.#.input_layernorm.weight");
        expect_gemma_norm(&block->self.inside, "model.layers.#.post_attention_layernorm.weight");
        expect_gemma_norm(&block->feed_forward.before,
                          "model.layers.#.pre_feedforward_layernorm.weight");
        expect_gemma_norm(&block->feed_forward.inside,
                          "model.layers.#.post_feedforward_layernorm.weight");
        assert_true(forward->head.softcap == (i == 0 ? 30 : 0));
        assert_int_equal(forward->head.output.weight != NULL, i < 2);
        published_close();
    }
}

#define VISION                                                                                     \
    PUBLISHED_LINEARS("vision_tower.vision_model.encoder.layers.#.self_attn.", "q_proj", "k_proj", \
                      "v_proj", "out_proj", "16")                                                  \
    ", "
#define TEXT(name, size) "language_model.model." name ".weight " size ", "
#define GEMMA3_CONFIG                                                                              \
    "{\"model_type\":\"gemma3\",\"text_config\":{\"head_dim\":4," FIELDS "},"                      \
    "\"vision_config\":{\"hidden_size\":16,\"num_attention_heads\":2,\"num_hidden_layers\":2}}"

#define GEMMA3_TENSORS                                                                             \
    TEXT("embed_tokens", "30x16")                                                                  \
    TEXT("norm", "16")                                                                             \
    TEXT("layers.#.self_attn.q_proj", "16x16")                                                     \
    TEXT("layers.#.self_attn.k_proj", "8x16")                                                      \
    TEXT("layers.#.self_attn.v_proj", "8x16")                                                      \
    TEXT("layers.#.self_attn.o_proj", "16x16")                                                     \
    TEXT("layers.#.self_attn.q_norm", "4")                                                         \
    TEXT("layers.#.self_attn.k_norm", "4")                                                         \
    TEXT("layers.#.input_layernorm", "16")                                                         \
    TEXT("layers.#.post_attention_layernorm", "16")                                                \
    TEXT("layers.#.pre_feedforward_layernorm", "16")                                               \
    TEXT("layers.#.post_feedforward_layernorm", "16")                                              \
    TEXT("layers.#.mlp.gate_proj", "40x16")                                                        \
    TEXT("layers.#.mlp.up_proj", "40x16")                                                          \
    TEXT("layers.#.mlp.down_proj", "16x40")                                                        \
    VISION

/* With a vision tower the stream is that of the text alone. */
TEST(gemma3)
{
    const struct model_forward *forward = forward_case_open(GEMMA3_CONFIG, GEMMA3_TENSORS, 2);
    assert_int_equal(published_model()->layer_count, 4);
    assert_int_equal(only_stream(forward)->block_count, 2);
    assert_ptr_equal(forward->head.output.weight, forward->streams[0].embedding.tokens.rows);
    published_close();
    forward_case_refused(GEMMA3_CONFIG, VISION, 2, "the file has none of the layers");
}

TEST(granite)
{
    static const char TENSORS[] = ATTENTION("o_proj") GATED LAYER_NORM("input_layernorm")
        LAYER_NORM("post_attention_layernorm") NORM("norm");
    const struct model_forward *forward =
        forward_case_open("{\"model_type\":\"granite\",\"embedding_multiplier\":12,"
                          "\"residual_multiplier\":0.25,\"logits_scaling\":8,"
                          "\"attention_multiplier\":0.5,\"tie_word_embeddings\":true," //
                          FIELDS "}",
                          TENSORS, 2);
    const struct model_block *block = &only_stream(forward)->blocks[1];
    assert_true(forward->streams[0].embedding.scale == 12);
    assert_true(block->self.scale == 0.25 && block->feed_forward.scale == 0.25);
    assert_true(forward->head.scale == 0.125);
    assert_true(published_model()->layers[1].options.scale == 0.5f);
    published_close();
}

#define META_ATTENTION                                                                             \
    "tok_embeddings.weight 30x16, norm.weight 16, "                                                \
    "layers.#.attention.wq.weight 16x16, layers.#.attention.wk.weight 8x16, "                      \
    "layers.#.attention.wv.weight 8x16, layers.#.attention.wo.weight 16x16, "                      \
    "layers.#.attention_norm.weight 16, layers.#.ffn_norm.weight 16, "

TEST(params)
{
    const struct model_forward *forward = forward_case_open(
        "{\"dim\":16,\"n_layers\":2,\"n_heads\":4,\"n_kv_heads\":2,"
        "\"norm_eps\":0.25}",
        META_ATTENTION "layers.#.feed_forward.w1.weight 40x16, "
                       "layers.#.feed_forward.w2.weight 16x40, "
                       "layers.#.feed_forward.w3.weight 40x16, output.weight 30x16",
        2);
    const struct model_block *block = &only_stream(forward)->blocks[1];
    forward_case_expect_norm(&block->feed_forward.before, "layers.#.ffn_norm", 1, 0.25, false);
    forward_case_expect_linear(&block->dense.gate, "layers.#.feed_forward.w1", 1, 40, 16);
    forward_case_expect_linear(&block->dense.up, "layers.#.feed_forward.w3", 1, 40, 16);
    forward_case_expect_linear(&forward->head.output, "output", 0, 30, 16);
    published_close();
    forward = forward_case_open(
        "{\"dim\":16,\"n_layers\":2,\"n_heads\":4,\"n_kv_heads\":2,"
        "\"hidden_dim\":40,\"moe\":{\"num_experts\":2,\"num_experts_per_tok\":1}}",
        META_ATTENTION "layers.#.feed_forward.gate.weight 2x16, "
                       "layers.#.feed_forward.experts.0.w1.weight 40x16, "
                       "layers.#.feed_forward.experts.0.w2.weight 16x40, "
                       "layers.#.feed_forward.experts.0.w3.weight 40x16, "
                       "layers.#.feed_forward.experts.1.w1.weight 40x16, "
                       "layers.#.feed_forward.experts.1.w2.weight 16x40, "
                       "layers.#.feed_forward.experts.1.w3.weight 40x16",
        2);
    block = &only_stream(forward)->blocks[1];
    assert_int_equal(block->experts.count, 2);
    assert_int_equal(block->experts.chosen, 1);
    forward_case_expect_linear(&block->experts.experts[1].down,
                               "layers.#.feed_forward.experts.1.w2", 1, 16, 40);
    assert_ptr_equal(forward->head.output.weight, forward->streams[0].embedding.tokens.rows);
    published_close();
}

/* The model that lies beside the source, by a params.json as Meta writes it. */
TEST(stories)
{
    static const struct model_files FILES = {
        .path = "examples/models/stories260K/model.safetensors",
        .config = "{\"dim\":64,\"n_layers\":5,\"n_heads\":8,\"n_kv_heads\":4,"
                  "\"vocab_size\":512,\"multiple_of\":4,\"norm_eps\":1e-5,"
                  "\"max_seq_len\":512}",
    };
    struct model *model;
    struct fault fault;
    if (!model_load_files(&model, "stories", "test", &FILES, &fault))
        fail_msg("%s", fault.message);
    if (!model->forward)
        fail_msg("%s", model->forward_reason);
    const struct model_stream *stream = &model->forward->streams[0];
    assert_int_equal(stream->width, 64);
    assert_int_equal(stream->block_count, 5);
    assert_int_equal(stream->blocks[4].dense.up.out, 172);
    assert_int_equal(model->forward->vocabulary, 512);
    assert_ptr_equal(model->forward->head.output.weight, stream->embedding.tokens.rows);
    assert_true(model_forward_hold(model, &fault));
    model_forward_drop(model);
    model_release(model);
}
