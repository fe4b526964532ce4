/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_decoders.c - published decoders with projections of their own each, by their own
 * config.json and names.
 *
 * Each family's attention is written out of the forward() of its modeling file in Hugging Face
 * transformers, src/transformers/models/, at the commit that stands with it. A window is that of
 * masking_utils.py at 2ccc6cae21fa, sliding_window_overlay(). */
#include "published_rotary.h"
#include "test.h"

/* gptj/modeling_gptj.py at cb6cd7e984c1, GPTJAttention: rotate_every_two() of rotary_dim columns.
 */
TEST(gptj)
{
    const struct published_rotary gptj = { .begin = "transformer.h.#.attn.",
                                           .output = "out_proj",
                                           .width = 16,
                                           .heads = 2,
                                           .kv_heads = 2,
                                           .rotary_dim = 4,
                                           .theta = 10000,
                                           .scale = 1 / sqrt(8),
                                           .is_every_two = true };
    published_compare_rotary(
        "{\"model_type\":\"gptj\",\"n_embd\":16,\"n_head\":2,\"n_layer\":2,"
        "\"rotary_dim\":4}",
        "transformer.h.#.attn.q_proj.weight 16x16, transformer.h.#.attn.k_proj.weight 16x16, "
        "transformer.h.#.attn.v_proj.weight 16x16, transformer.h.#.attn.out_proj.weight 16x16",
        "F32", &gptj);
}

#define BIASED(begin, out) PUBLISHED_LINEARS(begin, "q_proj", "k_proj", "v_proj", out, "16")

/* opt/modeling_opt.py at ab910744d640, OPTAttention. */
TEST(opt)
{
    const struct published_rotary opt = { .begin = "model.decoder.layers.#.self_attn.",
                                          .output = "out_proj",
                                          .width = 16,
                                          .heads = 2,
                                          .kv_heads = 2,
                                          .scale = 1 / sqrt(8) };
    published_compare_rotary("{\"model_type\":\"opt\",\"hidden_size\":16,\"num_attention_heads\":2,"
                             "\"num_hidden_layers\":2}",
                             BIASED("model.decoder.layers.#.self_attn.", "out_proj"), "F16", &opt);
}

#define NEO                                                                                        \
    PUBLISHED_WEIGHT("transformer.h.#.attn.attention.q_proj", "16")                                \
    ", " PUBLISHED_WEIGHT("transformer.h.#.attn.attention.k_proj", "16") ", " PUBLISHED_WEIGHT(    \
        "transformer.h.#.attn.attention.v_proj",                                                   \
        "16") ", " PUBLISHED_LINEAR("transformer.h.#.attn.attention.out_proj", "16")
#define NEO_CONFIG(layers, types)                                                                  \
    "{\"model_type\":\"gpt_neo\",\"hidden_size\":16,\"num_heads\":2,\"window_size\":3,"            \
    "\"num_layers\":" layers types "}"

/* gpt_neo/modeling_gpt_neo.py at 002fb3e7a2db, GPTNeoSelfAttention: scores are not scaled, and a
 * local layer sees window_size keys. Which layers are local: expand_attention_types_params() of
 * configuration_gpt_neo.py at 04c7fd35d5fe. */
TEST(gpt_neo)
{
    struct published_rotary neo = { .begin = "transformer.h.#.attn.attention.",
                                    .output = "out_proj",
                                    .width = 16,
                                    .heads = 2,
                                    .kv_heads = 2,
                                    .scale = 1 };
    static const char *const CONFIGS[] = {
        NEO_CONFIG("6", ",\"attention_types\":[[[\"global\",\"local\",\"local\"],2]]"),
        NEO_CONFIG("6", ",\"attention_types\":[[[\"global\"],1],[[\"local\"],2],"
                        "[[\"global\",\"local\"],1],[[\"local\"],1]]"),
        NEO_CONFIG("6", ""),
    };
    static const bool LOCAL[][6] = { { 0, 1, 1, 0, 1, 1 },
                                     { 0, 1, 1, 0, 1, 1 },
                                     { 0, 1, 0, 1, 0, 1 } };
    for (int i = 0; i < 3; i++) {
        published_open(CONFIGS[i], NEO, 6, i == 1 ? "F16" : "F32");
        for (int layer = 0; layer < 6; layer++) {
            neo.window = LOCAL[i][layer] ? 3 : 0;
            published_expect_rotary(&neo, layer);
        }
        published_close();
    }
    published_refused(NEO_CONFIG("4", ",\"attention_types\":[[[\"global\",\"local\"],1]]"), NEO, 4,
                      FAULT_OPTION, "attention_types has 'nothing' for layer 2");
    published_refused(NEO_CONFIG("2", ",\"attention_types\":[[[\"global\",\"sparse\"],1]]"), NEO, 2,
                      FAULT_OPTION, "attention_types has 'sparse' for layer 1");
    published_refused(NEO_CONFIG("2", ",\"attention_types\":[[[],1e9]]"), NEO, 2, FAULT_OPTION,
                      "attention_types has 'nothing' for layer 0");
    published_refused(NEO_CONFIG("2", ",\"attention_types\":\"global\""), NEO, 2, FAULT_OPTION,
                      "attention_types has 'nothing' for layer 0");
}

/* --------------------------------------------------------- Llama and its kin -- */

/* llama/modeling_llama.py at 5dd4a6354885, LlamaAttention; mixtral and olmo/modeling_olmo.py at
 * 38e888f527a5 (clip_qkv null) compute the same. */
TEST(llama)
{
    struct published_rotary llama = PUBLISHED_LLAMA;
    published_compare_rotary(
        PUBLISHED_GROUPED_CONFIG("\"model_type\":\"llama\",\"rope_scaling\":null"),
        PUBLISHED_GROUPED, "F32", &llama);

    llama.theta = 500000;
    published_compare_rotary(
        PUBLISHED_GROUPED_CONFIG("\"model_type\":\"llama\",\"rope_theta\":500000.0"),
        PUBLISHED_GROUPED, "F16", &llama);

    published_compare_rotary(
        PUBLISHED_GROUPED_CONFIG(
            "\"model_type\":\"llama\",\"rope_parameters\":{\"rope_theta\":500000.0,"
            "\"rope_type\":\"default\"}"),
        PUBLISHED_GROUPED, "F32", &llama);

    /* granite/modeling_granite.py at 00aca8155c45, GraniteAttention. */
    llama.theta = 10000;
    llama.scale = 0.125;
    published_compare_rotary(
        PUBLISHED_GROUPED_CONFIG("\"model_type\":\"granite\",\"attention_multiplier\":0.125"),
        PUBLISHED_GROUPED, "F32", &llama);
    llama.scale = PUBLISHED_LLAMA.scale;

    llama.theta = 1e6;
    published_compare_rotary(
        PUBLISHED_GROUPED_CONFIG("\"model_type\":\"mixtral\",\"sliding_window\":null"),
        PUBLISHED_GROUPED, "F32", &llama);

    published_compare_rotary(
        PUBLISHED_GROUPED_CONFIG("\"model_type\":\"olmo\",\"clip_qkv\":null,\"attention_bias\":"
                                 "false"),
        PUBLISHED_GROUPED, "F32", &PUBLISHED_LLAMA);
}

/* A head_dim that is not hidden_size / heads, no key/value heads given, and attention_bias. */
TEST(llama_shapes)
{
    struct published_rotary llama = PUBLISHED_LLAMA;
    llama.heads = llama.kv_heads = 2;
    llama.rotary_dim = 8;
    llama.scale = 1 / sqrt(8);
    published_compare_rotary("{\"model_type\":\"llama\",\"attention_bias\":true,\"hidden_size\":16,"
                             "\"num_attention_heads\":2,\"num_hidden_layers\":2}",
                             BIASED("model.layers.#.self_attn.", "o_proj"), "F32", &llama);

    llama.width = 10;
    llama.heads = 4;
    llama.rotary_dim = 4;
    llama.scale = 0.5;
    published_open("{\"model_type\":\"llama\",\"head_dim\":4,\"hidden_size\":10,"
                   "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"num_hidden_layers\":1}",
                   "model.layers.#.self_attn.q_proj.weight 16x10, "
                   "model.layers.#.self_attn.k_proj.weight 8x10, "
                   "model.layers.#.self_attn.v_proj.weight 8x10, "
                   "model.layers.#.self_attn.o_proj.weight 10x16",
                   1, "F32");
    published_expect_rotary(&llama, 0);
    published_close();
}

static void expect_scaling(const char *fields, const struct attn_rope_scaling *expected)
{
    char config[512];
    snprintf(config, sizeof config, PUBLISHED_GROUPED_CONFIG("\"model_type\":\"llama\",%s"),
             fields);
    published_open(config, PUBLISHED_GROUPED, 2, "F32");
    const struct attn_rope_scaling *got = &published_model()->layers[1].layer.rope.scaling;
    assert_int_equal(got->type, expected->type);
    assert_true(got->factor == expected->factor);
    assert_true(got->original_max_position_embeddings
                == expected->original_max_position_embeddings);
    assert_true(got->low_freq_factor == expected->low_freq_factor);
    assert_true(got->high_freq_factor == expected->high_freq_factor);
    assert_true(got->attention_factor == expected->attention_factor);
    published_close();
}

/* test_rope_scaling.c tests what the scalings compute. This tests which scaling a config.json
 * asks for (modeling_rope_utils.py: dynamic and yarn use max_position_embeddings). */
TEST(llama_scaling)
{
    struct attn_rope_scaling scaling = attn_rope_scaling_default(ATTN_ROPE_LLAMA3);
    scaling.factor = 8;
    scaling.original_max_position_embeddings = 8192;
    expect_scaling("\"rope_scaling\":{\"factor\":8.0,\"low_freq_factor\":1.0,"
                   "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192,"
                   "\"rope_type\":\"llama3\"}",
                   &scaling);
    expect_scaling("\"rope_parameters\":{\"rope_theta\":500000.0,\"factor\":8.0,"
                   "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                   "\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"}",
                   &scaling);
    scaling = attn_rope_scaling_default(ATTN_ROPE_LINEAR);
    scaling.factor = 2;
    expect_scaling(JSON("rope_scaling":{"type":"linear","factor":2}), &scaling);
    scaling = attn_rope_scaling_default(ATTN_ROPE_DYNAMIC);
    scaling.factor = 2;
    scaling.original_max_position_embeddings = 2048;
    expect_scaling("\"max_position_embeddings\":2048,\"rope_scaling\":{\"type\":\"dynamic\","
                   "\"factor\":2}",
                   &scaling);
    expect_scaling("\"max_position_embeddings\":2048,\"original_max_position_embeddings\":512,"
                   "\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2,"
                   "\"original_max_position_embeddings\":1024}",
                   &scaling);
    expect_scaling(JSON("rope_scaling":{"type":"dynamic","factor":2}), &scaling);
    scaling = attn_rope_scaling_default(ATTN_ROPE_DEFAULT);
    expect_scaling(JSON("rope_scaling":{"type":"default","factor":4}), &scaling);
    scaling = attn_rope_scaling_default(ATTN_ROPE_YARN);
    scaling.factor = 4;
    scaling.original_max_position_embeddings = 4096;
    expect_scaling("\"max_position_embeddings\":2048,\"rope_scaling\":{\"type\":\"yarn\","
                   "\"factor\":4,\"original_max_position_embeddings\":4096,\"finetuned\":true}",
                   &scaling);
}

/* mistral/modeling_mistral.py at 93e0020c96f1: LlamaAttention with a window. */
TEST(mistral)
{
    struct published_rotary mistral = PUBLISHED_LLAMA;
    mistral.window = 3;
    published_compare_rotary(
        PUBLISHED_GROUPED_CONFIG("\"model_type\":\"mistral\",\"sliding_window\":3"),
        PUBLISHED_GROUPED, "F32", &mistral);
    mistral.window = 0;
    published_open(PUBLISHED_GROUPED_CONFIG("\"model_type\":\"mistral\",\"sliding_window\":null"),
                   PUBLISHED_GROUPED, 2, "F32");
    published_expect_rotary(&mistral, 0);
    assert_int_equal(published_model()->layers[0].options.window_left, -1);
    published_close();
    published_open(PUBLISHED_GROUPED_CONFIG("\"model_type\":\"mistral\""), PUBLISHED_GROUPED, 2,
                   "F32");
    assert_int_equal(published_model()->layers[0].options.window_left, 4095);
    published_close();
}

#define QWEN2                                                                                      \
    PUBLISHED_GROUPED                                                                              \
    ", model.layers.#.self_attn.q_proj.bias 16, model.layers.#.self_attn.k_proj.bias 8, "          \
    "model.layers.#.self_attn.v_proj.bias 8"

/* qwen2/modeling_qwen2.py at 63bb72374703, Qwen2Attention, and configuration_qwen2.py: layers from
 * max_window_layers on have the window. */
TEST(qwen2)
{
    struct published_rotary qwen2 = PUBLISHED_LLAMA;
    published_compare_rotary(
        PUBLISHED_GROUPED_CONFIG(
            "\"model_type\":\"qwen2\",\"use_sliding_window\":false,\"sliding_window\":3,"
            "\"max_window_layers\":0"),
        QWEN2, "F32", &qwen2);
    published_open(PUBLISHED_GROUPED_CONFIG(
                       "\"model_type\":\"qwen2\",\"use_sliding_window\":true,\"sliding_window\":3,"
                       "\"max_window_layers\":1"),
                   QWEN2, 2, "F32");
    published_expect_rotary(&qwen2, 0);
    qwen2.window = 3;
    published_expect_rotary(&qwen2, 1);
    published_close();
    published_open(PUBLISHED_GROUPED_CONFIG(
                       "\"model_type\":\"qwen2\",\"use_sliding_window\":true,\"sliding_window\":3,"
                       "\"layer_types\":[\"sliding_attention\",\"full_attention\"]"),
                   QWEN2, 2, "F32");
    published_expect_rotary(&qwen2, 0);
    qwen2.window = 0;
    published_expect_rotary(&qwen2, 1);
    published_close();
}

/* phi/modeling_phi.py at 0faeaf39a917, PhiAttention: the first half of a head's columns rotated. */
TEST(phi)
{
    const struct published_rotary phi = { .begin = "model.layers.#.self_attn.",
                                          .output = "dense",
                                          .width = 16,
                                          .heads = 2,
                                          .kv_heads = 2,
                                          .rotary_dim = 4,
                                          .theta = 10000,
                                          .scale = 1 / sqrt(8) };
    published_compare_rotary(
        "{\"model_type\":\"phi\",\"partial_rotary_factor\":0.5,\"hidden_size\":16,"
        "\"num_attention_heads\":2,\"num_hidden_layers\":2}",
        BIASED("model.layers.#.self_attn.", "dense"), "F16", &phi);
}

/* stablelm/modeling_stablelm.py at bf112caa961a, StableLmAttention: a part rotated, biases of
 * three.
 */
TEST(stablelm)
{
    struct published_rotary stablelm = PUBLISHED_LLAMA;
    stablelm.rotary_dim = 2;
    published_compare_rotary(
        PUBLISHED_GROUPED_CONFIG("\"model_type\":\"stablelm\",\"partial_rotary_factor\":0.5,"
                                 "\"use_qkv_bias\":true"),
        QWEN2, "F32", &stablelm);
}

/* starcoder2/modeling_starcoder2.py at ae005ce12a08, Starcoder2Attention: MistralAttention, with
 * biases of all four unless use_bias is false. */
TEST(starcoder2)
{
    struct published_rotary starcoder2 = PUBLISHED_LLAMA;
    starcoder2.theta = 999999.4420358813;
    starcoder2.window = 3;
    published_compare_rotary(
        PUBLISHED_GROUPED_CONFIG("\"model_type\":\"starcoder2\",\"sliding_window\":3,"
                                 "\"rope_theta\":999999.4420358813"),
        QWEN2 ", model.layers.#.self_attn.o_proj.bias 16", "F32", &starcoder2);
    published_compare_rotary(
        PUBLISHED_GROUPED_CONFIG("\"model_type\":\"starcoder2\",\"use_bias\":false"),
        PUBLISHED_GROUPED, "F16", &PUBLISHED_LLAMA);
}

/* cohere/modeling_cohere.py at 015bfeb86891, CohereAttention: its rotate_half() takes every other
 * column. */
TEST(cohere)
{
    struct published_rotary cohere = PUBLISHED_LLAMA;
    cohere.is_every_two = true;
    published_compare_rotary(
        PUBLISHED_GROUPED_CONFIG("\"model_type\":\"cohere\",\"use_qk_norm\":false"),
        PUBLISHED_GROUPED, "F32", &cohere);
}

/* masking_utils.py of transformers 5, create_causal_mask() and create_sliding_window_causal_mask():
 * "is_causal": false looks both ways, through a window as far as |i - j| <= sliding_window. */
TEST(bidirectional)
{
    static const struct {
        const char *fields, *tensors;
        int64_t reach;
    } MODELS[] = {
        { "\"model_type\":\"llama\"", PUBLISHED_GROUPED, 0 },
        { "\"model_type\":\"qwen2\",\"sliding_window\":3", QWEN2, 0 },
        { "\"model_type\":\"qwen2\",\"use_sliding_window\":true,\"max_window_layers\":0,"
          "\"sliding_window\":3",
          QWEN2, 3 },
        { "\"model_type\":\"mistral\",\"sliding_window\":2", PUBLISHED_GROUPED, 2 },
    };
    for (size_t i = 0; i < sizeof MODELS / sizeof MODELS[0]; i++) {
        struct published_rotary want = PUBLISHED_LLAMA;
        char config[512];
        snprintf(config, sizeof config, PUBLISHED_GROUPED_CONFIG("%s,\"is_causal\":false"),
                 MODELS[i].fields);
        want.is_bidirectional = true;
        want.reach = MODELS[i].reach;
        published_compare_rotary(config, MODELS[i].tensors, "F32", &want);
    }
}

/* llama-models' models/llama3/model.py at 43e87a37feaa, apply_scaling(): Llama 3.1's numbers. */
TEST(meta_scaled)
{
    struct attn_rope_scaling want = attn_rope_scaling_default(ATTN_ROPE_LLAMA3);
    want.factor = 8;
    want.original_max_position_embeddings = 8192;
    for (int scaled = 0; scaled < 2; scaled++) {
        char config[256];
        snprintf(
            config, sizeof config,
            "{\"dim\":16,\"n_layers\":2,\"n_heads\":4,\"n_kv_heads\":2,\"rope_theta\":500000.0,"
            "\"use_scaled_rope\":%s}",
            scaled ? "true" : "false");
        published_open(config,
                       "layers.#.attention.wq.weight 16x16, layers.#.attention.wk.weight 8x16, "
                       "layers.#.attention.wv.weight 8x16, layers.#.attention.wo.weight 16x16",
                       2, "F32");
        const struct attn_rope *rope = &published_model()->layers[1].layer.rope;
        assert_true(rope->interleaved && rope->theta == 500000);
        assert_int_equal(rope->scaling.type, scaled ? ATTN_ROPE_LLAMA3 : ATTN_ROPE_DEFAULT);
        for (int64_t c = 0; scaled && c < rope->dim / 2; c++) {
            const struct attn_rope other = { .dim = rope->dim, .theta = 500000, .scaling = want };
            assert_true(attn_rope_frequency(rope, c, 0) == attn_rope_frequency(&other, c, 0));
        }
        published_close();
    }
}
