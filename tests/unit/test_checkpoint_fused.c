/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_fused.c - published decoders whose query, key and value are one tensor, by their
 * own config.json and names.
 *
 * Each family's attention is written out of the forward() of its modeling file in Hugging Face
 * transformers, src/transformers/models/, at the commit that stands with it. A window is that of
 * masking_utils.py at 2ccc6cae21fa, sliding_window_overlay(). */
#include "published_fused.h"
#include "published_rotary.h"
#include "test.h"

/* ------------------------------------------------------------------- GPT-2 -- */

static const char GPT2[] = "h.#.attn.c_attn.weight 12x36, h.#.attn.c_attn.bias 36, "
                           "h.#.attn.c_proj.weight 12x12, h.#.attn.c_proj.bias 12, "
                           "h.#.attn.bias 7x7, wte.weight 5x12";

/* gpt2/modeling_gpt2.py at c44b2d9976e8, GPT2Attention: Conv1D, split in three. */
static void expect_gpt2(int layer, double scale)
{
    const struct published_fused gpt2 = {
        .qkv = "h.#.attn.c_attn",
        .output = "h.#.attn.c_proj",
        .is_conv1d = true,
        .width = 12,
        .groups = 1,
        .queries = 12,
        .keys = 12,
        .attention = { .heads = 3, .scale = scale, .causal = true },
    };
    published_expect_fused(&gpt2, layer);
}

TEST(gpt2)
{
    published_open(JSON({"model_type":"gpt2","n_embd":12,"n_head":3,"n_layer":2}), GPT2, 2, "F32");
    expect_gpt2(0, 0.5);
    expect_gpt2(1, 0.5);
    assert_string_equal(published_model()->layers[1].tensors[MODEL_K][0].name,
                        "h.1.attn.c_attn.weight[k_proj]");
    assert_int_equal(published_model()->layers[1].tensors[MODEL_K][0].shape[0], 12);
    assert_int_equal(published_model()->layers[1].tensors[MODEL_K][0].shape[1], 12);
    assert_int_equal(published_model()->parameter_count, 2 * (12 * 36 + 36 + 12 * 12 + 12));
    published_close();

    published_open("{\"model_type\":\"gpt2\",\"n_embd\":12,\"n_head\":3,\"n_layer\":2,"
                   "\"scale_attn_by_inverse_layer_idx\":true}",
                   GPT2, 2, "F16");
    expect_gpt2(0, 0.5);
    expect_gpt2(1, 0.25);
    published_close();

    published_open("{\"model_type\":\"gpt2\",\"n_embd\":12,\"n_head\":3,\"n_layer\":2,"
                   "\"scale_attn_weights\":false}",
                   GPT2, 2, "F32");
    expect_gpt2(1, 1);
    published_close();
}

/* ------------------------------------------------------ GPTBigCode and CodeGen -- */

/* gpt_bigcode/modeling_gpt_bigcode.py at 00574544580e, GPTBigCodeAttention. */
TEST(gpt_bigcode)
{
    struct published_fused bigcode = {
        .qkv = "h.#.attn.c_attn",
        .output = "h.#.attn.c_proj",
        .width = 12,
        .groups = 1,
        .queries = 12,
        .keys = 4,
        .attention = { .heads = 3, .kv_heads = 1, .scale = 0.5, .causal = true },
    };
    published_open(JSON({"model_type":"gpt_bigcode","n_embd":12,"n_head":3,"n_layer":2}),
                        "h.#.attn.c_attn.weight 20x12, h.#.attn.c_attn.bias 20, "
                        "h.#.attn.c_proj.weight 12x12, h.#.attn.c_proj.bias 12",
                        2, "F16");
    published_expect_fused(&bigcode, 1);
    published_close();
    bigcode.groups = 3;
    bigcode.queries = 4;
    bigcode.attention.kv_heads = 3;
    bigcode.attention.scale = 1;
    published_open("{\"model_type\":\"gpt_bigcode\",\"n_embd\":12,\"n_head\":3,\"n_layer\":2,"
                   "\"multi_query\":false,\"scale_attn_weights\":false}",
                   "h.#.attn.c_attn.weight 36x12, h.#.attn.c_attn.bias 36, "
                   "h.#.attn.c_proj.weight 12x12, h.#.attn.c_proj.bias 12",
                   2, "F32");
    published_expect_fused(&bigcode, 0);
    published_close();
    published_refused("{\"model_type\":\"gpt_bigcode\",\"n_embd\":12,\"n_head\":3,\"n_layer\":2,"
                      "\"add_cross_attention\":true}",
                      "h.#.attn.c_attn.weight 36x12, h.#.attn.c_attn.bias 36, "
                      "h.#.attn.c_proj.weight 12x12, h.#.attn.c_proj.bias 12",
                      2, FAULT_OPTION, "add_cross_attention");
}

/* The whole pass is in tests/http/test_trace_code.c. */
TEST(codegen_heads)
{
    published_refused(
        JSON({"model_type":"codegen","n_embd":12,"n_head":6,"n_layer":2,"rotary_dim":2}),
             "h.#.attn.qkv_proj.weight 36x12, h.#.attn.out_proj.weight 12x12", 2, FAULT_SHAPE,
             "6 heads (n_head); expected a multiple of 4");
}

/* ----------------------------------------------------------- GPT-NeoX, Phi-3 -- */

/* gpt_neox/modeling_gpt_neox.py at 006bd23dd0ce, GPTNeoXAttention: each head's query, key and value
 * one after the other, of which the first rotary_ndims columns are rotated. */
TEST(gpt_neox)
{
    const struct published_fused gpt_neox = {
        .qkv = "gpt_neox.layers.#.attention.query_key_value",
        .output = "gpt_neox.layers.#.attention.dense",
        .width = 24,
        .groups = 3,
        .queries = 8,
        .keys = 8,
        .rotary_dim = 4,
        .theta = 1000,
        .attention = { .heads = 3, .scale = 1 / sqrt(8), .causal = true },
    };
    for (int file = 0; file < 2; file++) {
        published_open("{\"model_type\":\"gpt_neox\",\"hidden_size\":24,\"num_attention_heads\":3,"
                       "\"num_hidden_layers\":2,\"rotary_pct\":0.5,\"rotary_emb_base\":1000}",
                       "gpt_neox.layers.#.attention.query_key_value.weight 72x24, "
                       "gpt_neox.layers.#.attention.query_key_value.bias 72, "
                       "gpt_neox.layers.#.attention.dense.weight 24x24, "
                       "gpt_neox.layers.#.attention.dense.bias 24",
                       2, file ? "F16" : "F32");
        published_expect_fused(&gpt_neox, 0);
        published_expect_fused(&gpt_neox, 1);
        published_close();
    }
}

#define PHI3                                                                                       \
    "model.layers.#.self_attn.qkv_proj.weight 32x16, model.layers.#.self_attn.o_proj.weight 16x16"

static const struct published_fused PHI3_ATTENTION = {
    .qkv = "model.layers.#.self_attn.qkv_proj",
    .output = "model.layers.#.self_attn.o_proj",
    .width = 16,
    .groups = 1,
    .queries = 16,
    .keys = 8,
    .rotary_dim = 4,
    .theta = 10000,
    .attention = { .heads = 4, .kv_heads = 2, .scale = 0.5, .causal = true },
};

/* phi3/modeling_phi3.py at 43c2b4816a65, Phi3Attention: qkv_proj, query_pos = heads * head_dim. */
TEST(phi3)
{
    struct published_fused phi3 = PHI3_ATTENTION;
    phi3.attention.window = 4;
    for (int file = 0; file < 2; file++) {
        published_open(PUBLISHED_GROUPED_CONFIG(
                           "\"model_type\":\"phi3\",\"sliding_window\":4,\"rope_scaling\":null"),
                       PHI3, 2, file ? "F16" : "F32");
        published_expect_fused(&phi3, 1);
        published_close();
    }
}

/* --------------------------------------------------------- biases by distance -- */

/* build_alibi_tensor() of either file: powers of a base that depends on the number of heads. */
static double slope(int64_t heads, int64_t head)
{
    const double closest = exp2(floor(log2((double)heads)));
    const double base = exp2(-exp2(-(log2(closest) - 3)));
    const double extra_base = exp2(-exp2(-(log2(2 * closest) - 3)));
    return (double)head < closest ? pow(base, (double)head + 1)
                                  : pow(extra_base, 2 * ((double)head - closest) + 1);
}

/* By the position of the key alone, as in the source: a row's weights are the same. */
static double alibi_of_6(int64_t head, int64_t query, int64_t key)
{
    (void)query;
    return slope(6, head) * (double)key;
}

static double scaled_alibi_of_4(int64_t head, int64_t query, int64_t key)
{
    (void)query;
    return slope(4, head) * (double)key / 2;
}

/* falcon/modeling_falcon.py at 00dcc6dda6f6, FalconAttention._split_heads(): of 4 heads, groups of
 * queries with a key and a value each. */
static void expect_falcon(const char *fields, const char *tensors, int64_t kv_heads, bool is_alibi)
{
    char config[256];
    const struct published_fused falcon = {
        .qkv = "transformer.h.#.self_attention.query_key_value",
        .output = "transformer.h.#.self_attention.dense",
        .width = 16,
        .groups = kv_heads,
        .queries = 4 / kv_heads * 4,
        .keys = 4,
        .rotary_dim = is_alibi ? 0 : 4,
        .theta = 10000,
        .attention = { .heads = 4,
                       .kv_heads = kv_heads,
                       .scale = 0.5,
                       .causal = true,
                       .bias = is_alibi ? scaled_alibi_of_4 : NULL },
    };
    snprintf(config, sizeof config, JSON({"hidden_size":16,%s}), fields);
    published_open(config, tensors, 2, "F32");
    published_expect_fused(&falcon, 0);
    published_expect_fused(&falcon, 1);
    published_close();
}

#define FALCON(out)                                                                                \
    "transformer.h.#.self_attention.query_key_value.weight " out "x16, "                           \
    "transformer.h.#.self_attention.dense.weight 16x16"

#define FALCON_FIELDS        "\"model_type\":\"falcon\",\"num_attention_heads\":4,\"num_hidden_layers\":2,"
#define REFINED_FIELDS(type) "\"model_type\":\"" type "\",\"n_head\":4,\"n_layer\":2,"

/* phi3/modeling_phi3.py at ef46806472a6 with modeling_rope_utils.py of the same commit,
 * _compute_longrope_parameters(), and the names that configuration_phi3.py had for it before. Calls
 * here have 7 positions. */
TEST(phi3_longrope)
{
    static const char *const NAMES[] = { "longrope", "su", "yarn" };
    static const double FACTORS[2][2] = { { 1.0, 1.25 }, { 2.0, 20.0 } };
    for (int i = 0; i < 6; i++) {
        const int trained = i % 2 ? 6 : 7;
        const double *divisors = FACTORS[i % 2];
        const double frequencies[] = { 1 / divisors[0], 0.01 / divisors[1] };
        const double factor = sqrt(1 + log(28.0 / trained) / log(trained));
        char config[512];
        snprintf(config, sizeof config,
                 PUBLISHED_GROUPED_CONFIG(
                     "\"model_type\":\"phi3\",\"max_position_embeddings\":28,"
                     "\"original_max_position_embeddings\":%d,\"rope_scaling\":{\"type\":\"%s\","
                     "\"short_factor\":[1.0,1.25],\"long_factor\":[2.0,20]}"),
                 trained, NAMES[i / 2]);
        published_open(config, PHI3, 2, "F32");
        struct published_fused phi3 = PHI3_ATTENTION;
        phi3.frequencies = frequencies;
        phi3.factor = factor;
        published_expect_fused(&phi3, 1);
        published_close();
    }
}

/* ------------------------------------------------------------------- GPT-2 with an encoder -- */

/* gpt2/modeling_gpt2.py at c44b2d9976e8, GPT2Attention with is_cross_attention: q_attn of the
 * decoder's rows, c_attn of the encoder's, which is split in two; not causal. */
TEST(gpt2_cross)
{
    const struct published_attention attention = { .heads = 3, .scale = 0.5 };
    published_open("{\"model_type\":\"gpt2\",\"n_embd\":12,\"n_head\":3,\"n_layer\":2,"
                   "\"add_cross_attention\":true}",
                   "transformer.h.#.attn.c_attn.weight 12x36, transformer.h.#.attn.c_attn.bias 36, "
                   "transformer.h.#.attn.c_proj.weight 12x12, transformer.h.#.attn.c_proj.bias 12, "
                   "transformer.h.#.crossattention.q_attn.weight 12x12, "
                   "transformer.h.#.crossattention.q_attn.bias 12, "
                   "transformer.h.#.crossattention.c_attn.weight 12x24, "
                   "transformer.h.#.crossattention.c_attn.bias 24, "
                   "transformer.h.#.crossattention.c_proj.weight 12x12, "
                   "transformer.h.#.crossattention.c_proj.bias 12",
                   2, "F32");
    assert_int_equal(published_model()->layer_count, 4);
    assert_string_equal(published_model()->layers[0].kind, "self");
    for (int layer = 0; layer < 2; layer++) {
        const struct rows hidden = published_input(12), memory = published_memory(12);
        const struct rows q =
            published_conv1d(hidden, "transformer.h.#.crossattention.q_attn", layer);
        const struct rows kv =
            published_conv1d(memory, "transformer.h.#.crossattention.c_attn", layer);
        struct published_answer answer = published_attend(
            &attention, q, published_split(kv, 1, 0, 12), published_split(kv, 1, 12, 12));
        answer.context =
            published_conv1d(answer.context, "transformer.h.#.crossattention.c_proj", layer);
        published_expect(2 + layer, "cross", hidden, memory, &answer);
    }
    assert_string_equal(published_model()->layers[3].tensors[MODEL_V][1].name,
                        "transformer.h.1.crossattention.c_attn.bias[v_proj]");
    published_close();
}

/* --------------------------------------------------------------------- MPT -- */

/* build_mpt_alibi_tensor() of 3 heads: 4 slopes, of which the odd ones come first. */
static double mpt_bias(int64_t head, int64_t query, int64_t key)
{
    static const double EXPONENTS[] = { 2, 4, 1 }; /* alibi_bias_max 4 */
    (void)query;
    return ((double)key - 6) / pow(2, EXPONENTS[head]);
}

/* mpt/modeling_mpt.py at 4352620161a5, MptAttention: clamped where clip_qkv says so. */
TEST(mpt)
{
    static const char *const FIELDS[] = {
        "{\"clip_qkv\":0.25,\"softmax_scale\":0.75,\"alibi_bias_max\":4,\"qk_ln\":false}",
        "{\"clip_qkv\":null,\"softmax_scale\":null,\"alibi\":false}",
    };
    for (int i = 0; i < 2; i++) {
        char config[320];
        snprintf(config, sizeof config,
                 "{\"model_type\":\"mpt\",\"d_model\":12,\"n_heads\":3,\"n_layers\":2,"
                 "\"attn_config\":%s}",
                 FIELDS[i]);
        published_open(config,
                       "transformer.blocks.#.attn.Wqkv.weight 36x12, "
                       "transformer.blocks.#.attn.out_proj.weight 12x12",
                       2, "F32");
        const struct published_fused mpt = {
            .qkv = "transformer.blocks.#.attn.Wqkv",
            .output = "transformer.blocks.#.attn.out_proj",
            .width = 12,
            .groups = 1,
            .queries = 12,
            .keys = 12,
            .clip = i == 0 ? 0.25 : 0,
            .attention = { .heads = 3,
                           .scale = i == 0 ? 0.75 : 0.5,
                           .causal = true,
                           .bias = i == 0 ? mpt_bias : NULL },
        };
        published_expect_fused(&mpt, 1);
        published_close();
    }
}

/* bloom/modeling_bloom.py at 0078a6cd96d5, BloomAttention: fused by head, alibi added to scaled
 * scores. */
TEST(bloom)
{
    const struct published_fused bloom = {
        .qkv = "transformer.h.#.self_attention.query_key_value",
        .output = "transformer.h.#.self_attention.dense",
        .width = 24,
        .groups = 6,
        .queries = 4,
        .keys = 4,
        .attention = { .heads = 6, .scale = 0.5, .causal = true, .bias = alibi_of_6 },
    };
    published_open("{\"model_type\":\"bloom\",\"hidden_size\":24,\"n_head\":6,\"n_layer\":2}",
                   "transformer.h.#.self_attention.query_key_value.weight 72x24, "
                   "transformer.h.#.self_attention.query_key_value.bias 72, "
                   "transformer.h.#.self_attention.dense.weight 24x24, "
                   "transformer.h.#.self_attention.dense.bias 24",
                   2, "F16");
    published_expect_fused(&bloom, 0);
    published_expect_fused(&bloom, 1);
    published_close();
}

TEST(falcon)
{
    expect_falcon(FALCON_FIELDS JSON("multi_query":true), FALCON("24"), 1, false);
    expect_falcon(FALCON_FIELDS "\"new_decoder_architecture\":true,\"num_kv_heads\":2",
                  FALCON("32"), 2, false);
    expect_falcon(FALCON_FIELDS JSON("multi_query":false), FALCON("48"), 4, false);
    expect_falcon(FALCON_FIELDS "\"multi_query\":false,\"alibi\":true,\"bias\":true",
                  FALCON("48") ", transformer.h.#.self_attention.query_key_value.bias 48, "
                               "transformer.h.#.self_attention.dense.bias 16",
                  4, true);
    /* The 40B and the 7B as they were first released. */
    expect_falcon(REFINED_FIELDS("RefinedWeb") "\"n_head_kv\":2,\"alibi\":false", FALCON("32"), 2,
                  false);
    expect_falcon(REFINED_FIELDS("RefinedWebModel") "\"multi_query\":true,\"alibi\":false",
                  FALCON("24"), 1, false);
}
