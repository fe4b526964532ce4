/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_mixtures.c - the attention of published decoders with mixtures of experts.
 *
 * It is written out of the forward() of a family's modeling file in Hugging Face transformers,
 * src/transformers/models/, at the commit that stands with it. */
#include "published_rotary.h"
#include "test.h"

enum { WIDTH = 16, HEADS = 4, KV_HEADS = 2 };

#define AT "model.layers.#.self_attn."

/* qwen3_moe/modeling_qwen3_moe.py at 00d4b3d2142c, Qwen3MoeAttention: q_norm and k_norm of each
 * head. Qwen3MoeModel: one mask for all layers. */
TEST(qwen3_moe)
{
    static const char TENSORS[] =
        PUBLISHED_GROUPED ", " AT "q_norm.weight 4, " AT "k_norm.weight 4";
    struct published_rotary qwen = PUBLISHED_LLAMA;
    qwen.norm_eps = 0.125;
    published_compare_rotary(
        PUBLISHED_GROUPED_CONFIG("\"model_type\":\"qwen3_moe\",\"rms_norm_eps\":0.125,"
                                 "\"sliding_window\":3,\"use_sliding_window\":false"),
        TENSORS, "F32", &qwen);
    qwen.window = 3;
    qwen.theta = 1e6;
    published_compare_rotary(
        PUBLISHED_GROUPED_CONFIG("\"model_type\":\"qwen3_moe\",\"rms_norm_eps\":0.125,"
                                 "\"sliding_window\":3,\"use_sliding_window\":true,"
                                 "\"max_window_layers\":1,\"rope_theta\":1000000.0"),
        TENSORS, "F16", &qwen);
}

#define BIASES AT "q_proj.bias 16, " AT "k_proj.bias 8, " AT "v_proj.bias 8"

/* qwen2_moe/modeling_qwen2_moe.py at 00a3f9386614, Qwen2MoeAttention: biases as qkv_bias says. */
TEST(qwen2_moe)
{
    published_compare_rotary(PUBLISHED_GROUPED_CONFIG("\"model_type\":\"qwen2_moe\""),
                             PUBLISHED_GROUPED ", " BIASES, "F32", &PUBLISHED_LLAMA);
    published_compare_rotary(
        PUBLISHED_GROUPED_CONFIG("\"model_type\":\"qwen2_moe\",\"qkv_bias\":false"),
        PUBLISHED_GROUPED, "F32", &PUBLISHED_LLAMA);
    published_refused(PUBLISHED_GROUPED_CONFIG("\"model_type\":\"qwen2_moe\",\"qkv_bias\":false,"
                                               "\"use_sliding_window\":true"),
                      PUBLISHED_GROUPED, 2, FAULT_OPTION, "sets use_sliding_window");
}

/* olmoe/modeling_olmoe.py at 00dcc6dda6f6, OlmoeAttention: q_norm and k_norm of whole rows; what
 * clip_qkv clamps after them is refused. */
TEST(olmoe)
{
    static const char TENSORS[] =
        PUBLISHED_GROUPED ", " AT "q_norm.weight 16, " AT "k_norm.weight 8";
    const struct published_attention attention = {
        .heads = HEADS, .kv_heads = KV_HEADS, .scale = 0.5, .causal = true
    };
    published_open(PUBLISHED_GROUPED_CONFIG("\"model_type\":\"olmoe\",\"rms_norm_eps\":0.125,"
                                            "\"clip_qkv\":null"),
                   TENSORS, 2, "F32");
    for (int layer = 0; layer < 2; layer++) {
        const struct rows hidden = published_input(WIDTH);
        const struct rows q = published_linear(hidden, AT "q_proj", layer);
        const struct rows k = published_linear(hidden, AT "k_proj", layer);
        published_rms_norm(q, 1, AT "q_norm.weight", layer, 0.125, 0);
        published_rms_norm(k, 1, AT "k_norm.weight", layer, 0.125, 0);
        published_rotate_half(q, HEADS, 4, 10000);
        published_rotate_half(k, KV_HEADS, 4, 10000);
        struct published_answer answer =
            published_attend(&attention, q, k, published_linear(hidden, AT "v_proj", layer));
        answer.context = published_linear(answer.context, AT "o_proj", layer);
        published_expect(layer, "self", hidden, hidden, &answer);
    }
    published_close();
    published_refused(PUBLISHED_GROUPED_CONFIG("\"model_type\":\"olmoe\",\"clip_qkv\":8.0"),
                      TENSORS, 2, FAULT_OPTION, "sets clip_qkv");
}

/* granitemoe/modeling_granitemoe.py at 013458c1caaa, GraniteMoeAttention: attention_multiplier. */
TEST(granitemoe)
{
    struct published_rotary granite = PUBLISHED_LLAMA;
    granite.scale = 0.125;
    published_compare_rotary(
        PUBLISHED_GROUPED_CONFIG("\"model_type\":\"granitemoe\",\"attention_multiplier\":0.125"),
        PUBLISHED_GROUPED, "F32", &granite);
}

/* phimoe/modeling_phimoe.py at 008f5c8c29be, PhimoeRotaryEmbedding: LongRoPE, whose factor is
 * short_mscale or long_mscale; PhimoeAttention with attention_bias. Calls here have 7 positions. */
TEST(phimoe)
{
    static const double FACTORS[2][2] = { { 1.0, 1.25 }, { 2.0, 20.0 } };
    static const char TENSORS[] = PUBLISHED_GROUPED ", " BIASES ", " AT "o_proj.bias 16";
#define PHIMOE(length, long_mscale)                                                                \
    "{\"model_type\":\"phimoe\",\"attention_bias\":true,\"rope_theta\":10000.0,"                   \
    "\"rope_scaling\":{\"type\":\"longrope\",\"short_mscale\":1.25,\"long_mscale\":" long_mscale   \
    ",\"short_factor\":[1.0,1.25],\"long_factor\":[2.0,20],"                                       \
    "\"original_max_position_embeddings\":" length "}," PUBLISHED_GROUPED_FIELDS "}"
    for (int i = 0; i < 2; i++) {
        const double frequencies[] = { 1 / FACTORS[i][0], 0.01 / FACTORS[i][1] };
        struct published_rotary phimoe = PUBLISHED_LLAMA;
        phimoe.frequencies = frequencies;
        phimoe.factor = 1.25;
        published_compare_rotary(i ? PHIMOE("6", "1.25") : PHIMOE("7", "1.25"), TENSORS, "F32",
                                 &phimoe);
    }
    published_refused(PHIMOE("6", "1.5"), TENSORS, 2, FAULT_FIELD, "short_mscale");
}

/* gpt_oss/modeling_gpt_oss.py at 00d4b3d2142c, GptOssAttention: sinks, and a window on every other
 * layer from the first on, or as layer_types says. */
TEST(gpt_oss)
{
    static const char TENSORS[] =
        PUBLISHED_GROUPED ", " BIASES ", " AT "o_proj.bias 16, " AT "sinks 4*3";
    struct published_rotary gpt_oss = PUBLISHED_LLAMA;
    gpt_oss.has_sinks = true;
#define GPT_OSS(more)                                                                              \
    PUBLISHED_GROUPED_CONFIG("\"model_type\":\"gpt_oss\",\"head_dim\":4,\"rope_theta\":10000,"     \
                             "\"rope_parameters\":{\"rope_type\":\"default\"}," more)
    published_open(GPT_OSS("\"sliding_window\":3"), TENSORS, 2, "F32");
    for (int layer = 0; layer < 2; layer++) {
        gpt_oss.window = layer == 0 ? 3 : 0;
        published_expect_rotary(&gpt_oss, layer);
    }
    published_close();
    published_compare_rotary(
        GPT_OSS("\"layer_types\":[\"full_attention\",\"full_attention\"],\"sliding_window\":3"),
        TENSORS, "F16", &gpt_oss);
    published_refused(GPT_OSS("\"sliding_window\":3"), PUBLISHED_GROUPED ", " BIASES, 2,
                      FAULT_FIELD, "o_proj.bias");
    published_refused(GPT_OSS("\"attention_bias\":false"), PUBLISHED_GROUPED, 2, FAULT_FIELD,
                      "no tensor 'model.layers.0.self_attn.sinks'");
    published_refused(GPT_OSS("\"attention_bias\":false"), PUBLISHED_GROUPED ", " AT "sinks 2", 2,
                      FAULT_SHAPE, "is not of 4 numbers, a sink for each query head");
}

/* glm4_moe/modeling_glm4_moe.py at 000c33fdfde1, Glm4MoeAttention: a part of a head is rotated,
 * biases of query, key and value, norms as use_qk_norm says. Glm4MoeModel ignores what is behind
 * its layers. */
TEST(glm4_moe)
{
    static const char NORMS[] = AT "q_norm.weight 4, " AT "k_norm.weight 4";
    char tensors[1024];
    struct published_rotary glm = PUBLISHED_LLAMA;
    glm.rotary_dim = 2;
#define GLM(more) PUBLISHED_GROUPED_CONFIG("\"model_type\":\"glm4_moe\",\"head_dim\":4" more)
    published_compare_rotary(GLM(""), PUBLISHED_GROUPED, "F32", &glm);
    glm.norm_eps = 0.125;
    glm.rotary_dim = 4;
    snprintf(tensors, sizeof tensors, "%s, %s, %s, %s", PUBLISHED_GROUPED, BIASES, NORMS,
             "model.layers.2.self_attn.q_proj.weight 16x16");
    published_compare_rotary(GLM(",\"use_qk_norm\":true,\"attention_bias\":true,"
                                 "\"rms_norm_eps\":0.125,\"partial_rotary_factor\":1,"
                                 "\"num_nextn_predict_layers\":1"),
                             tensors, "F32", &glm);
    snprintf(tensors, sizeof tensors, "%s, %s", PUBLISHED_GROUPED,
             "model.layers.2.self_attn.q_proj.weight 16x16");
    published_refused(GLM(""), tensors, 2, FAULT_SHAPE, "gives 2 layers");
    snprintf(tensors, sizeof tensors, "%s, %s", PUBLISHED_GROUPED,
             "model.layers.3.self_attn.q_proj.weight 16x16");
    published_refused(GLM(",\"num_nextn_predict_layers\":1"), tensors, 2, FAULT_SHAPE,
                      "model.layers.3.self_attn.q_proj.weight");
}
