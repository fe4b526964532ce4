/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_gemma.c - published decoders that cap their scores or norm their heads, Gemma 1
 * to 3 with its pictures and Qwen3, by their own config.json and names.
 *
 * Each family's attention is written out of the forward() of its modeling file in Hugging Face
 * transformers, src/transformers/models/, at the commit that stands with it. */
#include "published_rotary.h"
#include "test.h"

/* gemma/modeling_gemma.py: LlamaAttention with a head_dim of its own. gemma2/modeling_gemma2.py at
 * 9a80143ca260, Gemma2Attention: scaling = query_pre_attn_scalar ** -0.5, capped scores, and a
 * window on layers of even number. */
TEST(gemma)
{
    struct published_rotary gemma = PUBLISHED_LLAMA;
    published_compare_rotary(PUBLISHED_GROUPED_CONFIG("\"model_type\":\"gemma\",\"head_dim\":4"),
                             PUBLISHED_GROUPED, "F32", &gemma);

    gemma.scale = 1 / sqrt(7);
    gemma.softcap = 0.25;
    published_open(PUBLISHED_GROUPED_CONFIG(
                       "\"model_type\":\"gemma2\",\"head_dim\":4,\"query_pre_attn_scalar\":7,"
                       "\"attn_logit_softcapping\":0.25,\"sliding_window\":3"),
                   PUBLISHED_GROUPED, 2, "F32");
    published_expect_rotary(&gemma, 1);
    gemma.window = 3;
    published_expect_rotary(&gemma, 0);
    published_close();

    gemma.scale = 1.0 / 16;
    gemma.softcap = 0;
    published_open(PUBLISHED_GROUPED_CONFIG(
                       "\"model_type\":\"gemma2\",\"head_dim\":4,\"attn_logit_softcapping\":null,"
                       "\"sliding_window\":3"),
                   PUBLISHED_GROUPED, 2, "F32");
    published_expect_rotary(&gemma, 0);
    published_close();
}

#define NORMED                                                                                     \
    PUBLISHED_GROUPED                                                                              \
    ", model.layers.#.self_attn.q_norm.weight 4, model.layers.#.self_attn.k_norm.weight 4"

/* qwen3/modeling_qwen3.py at 9ee3f431c32e, Qwen3Attention: q_norm(q_proj(x)) of each head, then
 * rotary embedding. */
TEST(qwen3)
{
    struct published_rotary qwen3 = PUBLISHED_LLAMA;
    qwen3.norm_eps = 0.125;
    published_compare_rotary(
        PUBLISHED_GROUPED_CONFIG("\"model_type\":\"qwen3\",\"head_dim\":4,\"rms_norm_eps\":0.125,"
                                 "\"use_sliding_window\":false"),
        NORMED, "F32", &qwen3);
    qwen3.norm_eps = 1e-6;
    published_compare_rotary(PUBLISHED_GROUPED_CONFIG("\"model_type\":\"qwen3\",\"head_dim\":4"),
                             NORMED, "F16", &qwen3);
}

/* gemma3/modeling_gemma3.py at 0018aa647bb1, Gemma3Attention and Gemma3RMSNorm, whose weight is
 * less one; two layers of three have the window and a theta of their own. */
TEST(gemma3)
{
    static const char *const ROPES[] = {
        "\"rope_theta\":1000000,\"rope_local_base_freq\":10000,\"sliding_window_pattern\":3",
        "\"layer_types\":[\"sliding_attention\",\"sliding_attention\",\"full_attention\"],"
        "\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1000000,\"rope_type\":\"default\"}"
        ","
        "\"sliding_attention\":{\"rope_theta\":10000,\"rope_type\":\"default\"}}",
    };
    for (int i = 0; i < 2; i++) {
        struct published_rotary gemma3 = PUBLISHED_LLAMA;
        char config[640];
        gemma3.norm_eps = 1e-6;
        gemma3.norm_offset = 1;
        gemma3.scale = 0.25;
        gemma3.window = 3;
        snprintf(config, sizeof config,
                 "{\"model_type\":\"gemma3_text\",\"head_dim\":4,\"query_pre_attn_scalar\":16,"
                 "\"sliding_window\":3,\"hidden_size\":16,\"num_attention_heads\":4,"
                 "\"num_key_value_heads\":2,\"num_hidden_layers\":3,%s}",
                 ROPES[i]);
        published_open(config, NORMED, 3, "F32");
        published_expect_rotary(&gemma3, 0);
        published_expect_rotary(&gemma3, 1);
        gemma3.window = 0;
        gemma3.theta = 1e6;
        published_expect_rotary(&gemma3, 2);
        published_close();
    }
}

/* configuration_gemma3.py and modeling_gemma3.py, _bidirectional_window_overlay(): EmbeddingGemma,
 * whose names have no prefix, sees keys nearer than sliding_window / 2 + 1 in windows, else all. */
TEST(embedding_gemma)
{
    static const int64_t WINDOWS[] = { 3, 4 };
    for (int i = 0; i < 2; i++) {
        struct published_rotary gemma3 = PUBLISHED_LLAMA;
        char config[512];
        gemma3.begin = "layers.#.self_attn.";
        gemma3.norm_eps = 1e-6;
        gemma3.norm_offset = 1;
        gemma3.scale = 0.25;
        gemma3.is_bidirectional = true;
        gemma3.reach = WINDOWS[i] / 2;
        snprintf(config, sizeof config,
                 PUBLISHED_GROUPED_CONFIG(
                     "\"model_type\":\"gemma3_text\",\"head_dim\":4,\"query_pre_attn_scalar\":16,"
                     "\"sliding_window\":%d,\"use_bidirectional_attention\":true,\"layer_types\":"
                     "[\"sliding_attention\",\"full_attention\"]"),
                 (int)WINDOWS[i]);
        published_open(config,
                       "layers.#.self_attn.q_proj.weight 16x16, "
                       "layers.#.self_attn.k_proj.weight 8x16, "
                       "layers.#.self_attn.v_proj.weight 8x16, "
                       "layers.#.self_attn.o_proj.weight 16x16, "
                       "layers.#.self_attn.q_norm.weight 4, layers.#.self_attn.k_norm.weight 4",
                       2, "F32");
        published_expect_rotary(&gemma3, 0);
        gemma3.reach = 0;
        gemma3.theta = 1e6;
        published_expect_rotary(&gemma3, 1);
        published_close();
    }
}

#define VISION "vision_tower.vision_model.encoder.layers.#.self_attn."

/* gemma3/modeling_gemma3.py at 0018aa647bb1, Gemma3ForConditionalGeneration: the text as above, and
 * siglip/modeling_siglip.py at 1c51a62f5861, SiglipAttention, for the pictures. */
TEST(gemma3_vision)
{
    static const char TENSORS[] =
        "language_model.model.layers.#.self_attn.q_proj.weight 16x16, "
        "language_model.model.layers.#.self_attn.k_proj.weight 8x16, "
        "language_model.model.layers.#.self_attn.v_proj.weight 8x16, "
        "language_model.model.layers.#.self_attn.o_proj.weight 16x16, "
        "language_model.model.layers.#.self_attn.q_norm.weight 4, "
        "language_model.model.layers.#.self_attn.k_norm.weight 4, " PUBLISHED_LINEARS(
            VISION, "q_proj", "k_proj", "v_proj", "out_proj", "8");
#define TEXT_CONFIG                                                                                \
    "{\"model_type\":\"gemma3\",\"text_config\":{\"head_dim\":4,\"sliding_window\":3,"             \
    "\"query_pre_attn_scalar\":16," PUBLISHED_GROUPED_FIELDS "}"
    const struct published_attention attention = { .heads = 2, .scale = 0.5 };
    published_open(TEXT_CONFIG ",\"vision_config\":{\"hidden_size\":8,\"num_attention_heads\":2,"
                               "\"num_hidden_layers\":2}}",
                   TENSORS, 2, "F32");
    assert_int_equal(published_model()->layer_count, 4);
    assert_string_equal(published_model()->layers[1].kind, "self");
    assert_int_equal(published_model()->layers[0].options.window_left, 2);
    for (int layer = 0; layer < 2; layer++) {
        const struct rows hidden = published_input(8);
        struct published_answer answer =
            published_attend(&attention, published_linear(hidden, VISION "q_proj", layer),
                             published_linear(hidden, VISION "k_proj", layer),
                             published_linear(hidden, VISION "v_proj", layer));
        answer.context = published_linear(answer.context, VISION "out_proj", layer);
        published_expect(2 + layer, "vision", hidden, hidden, &answer);
    }
    published_close();

    published_open(TEXT_CONFIG "}", TENSORS, 2, "F32");
    assert_int_equal(published_model()->layer_count, 2);
    published_close();
#undef TEXT_CONFIG
}
