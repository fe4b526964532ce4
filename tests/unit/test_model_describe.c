/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_describe.c - what the daemon tells clients about how a layer computes. */
#include "models/model/model_describe.h"
#include "published_rotary.h"
#include "test.h"

static void expect(const char *config, const char *tensors, const char *words)
{
    struct text text;
    struct fault fault;
    published_open(config, tensors, 2, "F32");
    text_init(&text, 4096);
    model_describe_options(&published_model()->layers[1], &text);
    text_raw(&text, "\n");
    assert_true(text_finish(&text, &fault));
    if (!memmem(text.data, text.used, words, strlen(words)))
        fail_msg("%.*s does not have %s", (int)text.used, text.data, words);
    text_free(&text);
    published_close();
}

#define NORMED(q, k)                                                                               \
    PUBLISHED_GROUPED ", model.layers.#.self_attn.q_norm.weight " q                                \
                      ", model.layers.#.self_attn.k_norm.weight " k

TEST(options)
{
    expect("{\"model_type\":\"qwen3\",\"head_dim\":4,\"rms_norm_eps\":0.125,\"rope_theta\":1e6,"
           "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,"
           "\"original_max_position_embeddings\":32768,\"attention_factor\":1.5}," //
           PUBLISHED_GROUPED_FIELDS "}",
           NORMED("4", "4"),
           "{\"causal\":true,\"scale\":0.5,\"softcap\":0,\"window_left\":-1,\"window_right\":-1,"
           "\"clip\":0,\"rope\":{\"interleaved\":false,\"theta\":1000000,\"dim\":4,\"scaling\":{"
           "\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":32768,"
           "\"attention_factor\":1.5}},\"q_norm\":{\"kind\":\"rms\",\"scope\":\"head\","
           "\"eps\":0.125},\"k_norm\":{\"kind\":\"rms\",\"scope\":\"head\",\"eps\":0.125},"
           "\"alibi_slopes\":false,\"sinks\":false,\"relative_bias\":null}\n");
    expect("{\"model_type\":\"olmo2\"," PUBLISHED_GROUPED_FIELDS "}", NORMED("16", "8"),
           "\"q_norm\":{\"kind\":\"rms\",\"scope\":\"row\",\"eps\":1e-05}");
    expect(
        "{\"model_type\":\"ministral3\",\"head_dim\":4,\"rope_parameters\":{\"rope_type\":\"yarn\","
        "\"rope_theta\":500,\"factor\":2,\"original_max_position_embeddings\":8,"
        "\"mscale\":1,\"mscale_all_dim\":1,\"llama_4_scaling_beta\":0.5}," //
        PUBLISHED_GROUPED_FIELDS "}",
        PUBLISHED_GROUPED,
        "\"theta\":500,\"dim\":4,\"query_growth\":0.5,\"query_length\":8,"
        "\"query_offset\":0,\"scaling\":{");
    expect(
        "{\"model_type\":\"dinov3_vit\",\"hidden_size\":8,\"num_attention_heads\":2,"
        "\"num_hidden_layers\":2,\"image_size\":[4,6],\"patch_size\":2,\"num_register_tokens\":2,"
        "\"query_bias\":false,\"value_bias\":false,\"proj_bias\":false}",
        "layer.#.attention.q_proj.weight 8x8, layer.#.attention.k_proj.weight 8x8, "
        "layer.#.attention.v_proj.weight 8x8, layer.#.attention.o_proj.weight 8x8",
        "\"theta\":100,\"dim\":4,\"grid\":{\"first\":3,\"height\":2,\"width\":3},\"scaling\":"
        "null}");
    expect("{\"model_type\":\"hunyuan_v1_dense\"," PUBLISHED_GROUPED_FIELDS "}",
           PUBLISHED_GROUPED ", model.layers.#.self_attn.query_layernorm.weight 4, "
                             "model.layers.#.self_attn.key_layernorm.weight 4",
           "\"q_norm\":{\"kind\":\"rms\",\"scope\":\"head\",\"eps\":1e-05,\"after_rope\":true}");
    expect("{\"model_type\":\"cohere\",\"use_qk_norm\":true," PUBLISHED_GROUPED_FIELDS "}",
           NORMED("4x4", "2x4"),
           "\"k_norm\":{\"kind\":\"layer\",\"scope\":\"heads\",\"eps\":1e-05}");
    expect("{\"model_type\":\"gemma2\",\"head_dim\":4,\"query_pre_attn_scalar\":16,"
           "\"layer_types\":[\"full_attention\",\"sliding_attention\"],\"sliding_window\":3," //
           PUBLISHED_GROUPED_FIELDS "}",
           PUBLISHED_GROUPED, "\"scale\":0.25,\"softcap\":50,\"window_left\":2,");
    expect("{\"model_type\":\"olmo\",\"clip_qkv\":8,\"rope_scaling\":{\"type\":\"linear\","
           "\"factor\":2}," PUBLISHED_GROUPED_FIELDS "}",
           PUBLISHED_GROUPED,
           "\"clip\":8,\"rope\":{\"interleaved\":false,\"theta\":10000,\"dim\":4,\"scaling\":{"
           "\"rope_type\":\"linear\",\"factor\":2,\"attention_factor\":1}}");
    expect("{\"model_type\":\"bloom\",\"hidden_size\":8,\"n_head\":2,\"n_layer\":2}",
           "h.#.self_attention.query_key_value.weight 24x8, "
           "h.#.self_attention.query_key_value.bias 24, h.#.self_attention.dense.weight 8x8, "
           "h.#.self_attention.dense.bias 8",
           "\"rope\":null,\"q_norm\":null,\"k_norm\":null,\"alibi_slopes\":true,\"sinks\":false,"
           "\"relative_bias\":null}\n");
    expect("{\"model_type\":\"t5\",\"d_model\":4,\"d_kv\":2,\"num_heads\":2,\"num_layers\":2}",
           "encoder.block.#.layer.0.SelfAttention.q.weight 4x4, "
           "encoder.block.#.layer.0.SelfAttention.k.weight 4x4, "
           "encoder.block.#.layer.0.SelfAttention.v.weight 4x4, "
           "encoder.block.#.layer.0.SelfAttention.o.weight 4x4, "
           "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight 32x2",
           "\"relative_bias\":\"distance\"}\n");
}
