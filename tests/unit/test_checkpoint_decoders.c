/* test_checkpoint_decoders.c - published decoders with projections of their own each, by their own
 * config.json and names.
 *
 * Each family's attention is written out of the forward() of its modeling file in Hugging Face
 * transformers, src/transformers/models/, at the commit that stands with it. A window is that of
 * masking_utils.py at 2ccc6cae21fa, sliding_window_overlay(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "published.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* q_proj, k_proj, v_proj and an output projection of rotary attention. */
struct rotary {
    const char *begin, *output;
    int64_t width, heads, kv_heads, rotary_dim;
    double theta, scale, softcap;
    bool is_every_two; /* else rotate_half */
    int64_t window;
    double norm_eps; /* of q_norm and k_norm; 0: there are none */
    double norm_offset;
};

static void expect_rotary(const struct rotary *rotary, int layer)
{
    char name[4][128];
    const char *const endings[] = { "q_proj", "k_proj", "v_proj", rotary->output };
    const struct rows hidden = published_input(rotary->width);
    const struct published_attention attention = {
        .heads = rotary->heads,
        .kv_heads = rotary->kv_heads,
        .scale = rotary->scale,
        .softcap = rotary->softcap,
        .causal = true,
        .window = rotary->window,
    };
    for (int i = 0; i < 4; i++)
        snprintf(name[i], sizeof name[i], "%s%s", rotary->begin, endings[i]);
    const struct rows q = published_linear(hidden, name[0], layer);
    const struct rows k = published_linear(hidden, name[1], layer);
    if (rotary->norm_eps > 0) {
        published_rms_norm(q, rotary->heads, "model.layers.#.self_attn.q_norm.weight", layer,
                           rotary->norm_eps, rotary->norm_offset);
        published_rms_norm(k, rotary->kv_heads, "model.layers.#.self_attn.k_norm.weight", layer,
                           rotary->norm_eps, rotary->norm_offset);
    }
    void (*const rotate)(struct rows, int64_t, int64_t, double) =
        rotary->is_every_two ? published_rotate_every_two : published_rotate_half;
    if (rotary->rotary_dim > 0) {
        rotate(q, rotary->heads, rotary->rotary_dim, rotary->theta);
        rotate(k, rotary->kv_heads, rotary->rotary_dim, rotary->theta);
    }
    struct published_answer answer =
        published_attend(&attention, q, k, published_linear(hidden, name[2], layer));
    answer.context = published_linear(answer.context, name[3], layer);
    published_expect(layer, "self", hidden, hidden, &answer);
}

/* gptj/modeling_gptj.py at cb6cd7e984c1, GPTJAttention: rotate_every_two() of rotary_dim columns.
 */
static void test_gptj(void **state)
{
    const struct rotary gptj = { .begin = "transformer.h.#.attn.",
                                 .output = "out_proj",
                                 .width = 16,
                                 .heads = 2,
                                 .kv_heads = 2,
                                 .rotary_dim = 4,
                                 .theta = 10000,
                                 .scale = 1 / sqrt(8),
                                 .is_every_two = true };
    (void)state;
    published_open("{\"model_type\":\"gptj\",\"n_embd\":16,\"n_head\":2,\"n_layer\":2,"
                   "\"rotary_dim\":4}",
                   "transformer.h.#.attn.q_proj.weight 16x16, "
                   "transformer.h.#.attn.k_proj.weight 16x16, "
                   "transformer.h.#.attn.v_proj.weight 16x16, "
                   "transformer.h.#.attn.out_proj.weight 16x16",
                   2, "F32");
    expect_rotary(&gptj, 0);
    expect_rotary(&gptj, 1);
    published_close();
}

#define BIASED(begin, out)                                                                         \
    begin "q_proj.weight 16x16, " begin "q_proj.bias 16, " begin "k_proj.weight 16x16, " begin     \
          "k_proj.bias 16, " begin "v_proj.weight 16x16, " begin "v_proj.bias 16, " begin out      \
          ".weight 16x16, " begin out ".bias 16"

/* opt/modeling_opt.py at ab910744d640, OPTAttention. */
static void test_opt(void **state)
{
    const struct rotary opt = { .begin = "model.decoder.layers.#.self_attn.",
                                .output = "out_proj",
                                .width = 16,
                                .heads = 2,
                                .kv_heads = 2,
                                .scale = 1 / sqrt(8) };
    (void)state;
    published_open("{\"model_type\":\"opt\",\"hidden_size\":16,\"num_attention_heads\":2,"
                   "\"num_hidden_layers\":2}",
                   BIASED("model.decoder.layers.#.self_attn.", "out_proj"), 2, "F16");
    expect_rotary(&opt, 0);
    expect_rotary(&opt, 1);
    published_close();
}

/* --------------------------------------------------------- Llama and its kin -- */

#define GROUPED                                                                                    \
    "model.layers.#.self_attn.q_proj.weight 16x16, model.layers.#.self_attn.k_proj.weight 8x16, "  \
    "model.layers.#.self_attn.v_proj.weight 8x16, model.layers.#.self_attn.o_proj.weight 16x16"

#define GROUPED_FIELDS                                                                             \
    "\"hidden_size\":16,\"num_attention_heads\":4,\"num_key_value_heads\":2,"                      \
    "\"num_hidden_layers\":2"

static const struct rotary LLAMA = { .begin = "model.layers.#.self_attn.",
                                     .output = "o_proj",
                                     .width = 16,
                                     .heads = 4,
                                     .kv_heads = 2,
                                     .rotary_dim = 4,
                                     .theta = 10000,
                                     .scale = 0.5 };

/* llama/modeling_llama.py at 5dd4a6354885, LlamaAttention; mixtral and olmo/modeling_olmo.py at
 * 38e888f527a5 (clip_qkv null) compute the same. */
static void test_llama(void **state)
{
    struct rotary llama = LLAMA;
    (void)state;
    published_open("{\"model_type\":\"llama\",\"rope_scaling\":null," GROUPED_FIELDS "}", GROUPED,
                   2, "F32");
    expect_rotary(&llama, 0);
    expect_rotary(&llama, 1);
    published_close();

    llama.theta = 500000;
    published_open("{\"model_type\":\"llama\",\"rope_theta\":500000.0," GROUPED_FIELDS "}", GROUPED,
                   2, "F16");
    expect_rotary(&llama, 1);
    published_close();

    published_open("{\"model_type\":\"llama\",\"rope_parameters\":{\"rope_theta\":500000.0,"
                   "\"rope_type\":\"default\"}," GROUPED_FIELDS "}",
                   GROUPED, 2, "F32");
    expect_rotary(&llama, 1);
    published_close();

    llama.theta = 1e6;
    published_open("{\"model_type\":\"mixtral\",\"sliding_window\":null," GROUPED_FIELDS "}",
                   GROUPED, 2, "F32");
    expect_rotary(&llama, 0);
    published_close();

    published_open(
        "{\"model_type\":\"olmo\",\"clip_qkv\":null,\"attention_bias\":false," GROUPED_FIELDS "}",
        GROUPED, 2, "F32");
    expect_rotary(&LLAMA, 1);
    published_close();
}

/* A head_dim that is not hidden_size / heads, no key/value heads given, and attention_bias. */
static void test_llama_shapes(void **state)
{
    struct rotary llama = LLAMA;
    (void)state;
    llama.heads = llama.kv_heads = 2;
    llama.rotary_dim = 8;
    llama.scale = 1 / sqrt(8);
    published_open("{\"model_type\":\"llama\",\"attention_bias\":true,\"hidden_size\":16,"
                   "\"num_attention_heads\":2,\"num_hidden_layers\":2}",
                   BIASED("model.layers.#.self_attn.", "o_proj"), 2, "F32");
    expect_rotary(&llama, 1);
    published_close();

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
    expect_rotary(&llama, 0);
    published_close();
}

static void expect_scaling(const char *fields, const struct attn_rope_scaling *expected)
{
    char config[512];
    snprintf(config, sizeof config, "{\"model_type\":\"llama\",%s," GROUPED_FIELDS "}", fields);
    published_open(config, GROUPED, 2, "F32");
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

/* What the scalings compute is tested in test_rope_scaling.c; here, which of them a config.json
 * asks for (modeling_rope_utils.py: dynamic and yarn go by max_position_embeddings). */
static void test_llama_scaling(void **state)
{
    struct attn_rope_scaling scaling = attn_rope_scaling_default(ATTN_ROPE_LLAMA3);
    (void)state;
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
    expect_scaling("\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}", &scaling);
    scaling = attn_rope_scaling_default(ATTN_ROPE_DYNAMIC);
    scaling.factor = 2;
    scaling.original_max_position_embeddings = 2048;
    expect_scaling("\"max_position_embeddings\":2048,\"rope_scaling\":{\"type\":\"dynamic\","
                   "\"factor\":2}",
                   &scaling);
    scaling = attn_rope_scaling_default(ATTN_ROPE_YARN);
    scaling.factor = 4;
    scaling.original_max_position_embeddings = 4096;
    expect_scaling("\"max_position_embeddings\":2048,\"rope_scaling\":{\"type\":\"yarn\","
                   "\"factor\":4,\"original_max_position_embeddings\":4096,\"finetuned\":true}",
                   &scaling);
}

/* mistral/modeling_mistral.py at 93e0020c96f1: LlamaAttention with a window. */
static void test_mistral(void **state)
{
    struct rotary mistral = LLAMA;
    (void)state;
    mistral.window = 3;
    published_open("{\"model_type\":\"mistral\",\"sliding_window\":3," GROUPED_FIELDS "}", GROUPED,
                   2, "F32");
    expect_rotary(&mistral, 0);
    expect_rotary(&mistral, 1);
    published_close();
    mistral.window = 0;
    published_open("{\"model_type\":\"mistral\",\"sliding_window\":null," GROUPED_FIELDS "}",
                   GROUPED, 2, "F32");
    expect_rotary(&mistral, 0);
    assert_int_equal(published_model()->layers[0].options.window_left, -1);
    published_close();
    published_open("{\"model_type\":\"mistral\"," GROUPED_FIELDS "}", GROUPED, 2, "F32");
    assert_int_equal(published_model()->layers[0].options.window_left, 4095);
    published_close();
}

#define QWEN2                                                                                      \
    GROUPED ", model.layers.#.self_attn.q_proj.bias 16, model.layers.#.self_attn.k_proj.bias 8, "  \
            "model.layers.#.self_attn.v_proj.bias 8"

/* qwen2/modeling_qwen2.py at 63bb72374703, Qwen2Attention, and configuration_qwen2.py: layers from
 * max_window_layers on have the window. */
static void test_qwen2(void **state)
{
    struct rotary qwen2 = LLAMA;
    (void)state;
    published_open("{\"model_type\":\"qwen2\",\"use_sliding_window\":false,\"sliding_window\":3,"
                   "\"max_window_layers\":0," GROUPED_FIELDS "}",
                   QWEN2, 2, "F32");
    expect_rotary(&qwen2, 0);
    expect_rotary(&qwen2, 1);
    published_close();
    published_open("{\"model_type\":\"qwen2\",\"use_sliding_window\":true,\"sliding_window\":3,"
                   "\"max_window_layers\":1," GROUPED_FIELDS "}",
                   QWEN2, 2, "F32");
    expect_rotary(&qwen2, 0);
    qwen2.window = 3;
    expect_rotary(&qwen2, 1);
    published_close();
    published_open("{\"model_type\":\"qwen2\",\"use_sliding_window\":true,\"sliding_window\":3,"
                   "\"layer_types\":[\"sliding_attention\",\"full_attention\"]," GROUPED_FIELDS "}",
                   QWEN2, 2, "F32");
    expect_rotary(&qwen2, 0);
    qwen2.window = 0;
    expect_rotary(&qwen2, 1);
    published_close();
}

/* phi/modeling_phi.py at 0faeaf39a917, PhiAttention: the first half of a head's columns turned. */
static void test_phi(void **state)
{
    const struct rotary phi = { .begin = "model.layers.#.self_attn.",
                                .output = "dense",
                                .width = 16,
                                .heads = 2,
                                .kv_heads = 2,
                                .rotary_dim = 4,
                                .theta = 10000,
                                .scale = 1 / sqrt(8) };
    (void)state;
    published_open("{\"model_type\":\"phi\",\"partial_rotary_factor\":0.5,\"hidden_size\":16,"
                   "\"num_attention_heads\":2,\"num_hidden_layers\":2}",
                   BIASED("model.layers.#.self_attn.", "dense"), 2, "F16");
    expect_rotary(&phi, 0);
    expect_rotary(&phi, 1);
    published_close();
}

/* stablelm/modeling_stablelm.py at bf112caa961a, StableLmAttention: a part turned, biases of three.
 */
static void test_stablelm(void **state)
{
    struct rotary stablelm = LLAMA;
    (void)state;
    stablelm.rotary_dim = 2;
    published_open("{\"model_type\":\"stablelm\",\"partial_rotary_factor\":0.5,"
                   "\"use_qkv_bias\":true," GROUPED_FIELDS "}",
                   QWEN2, 2, "F32");
    expect_rotary(&stablelm, 0);
    expect_rotary(&stablelm, 1);
    published_close();
}

/* cohere/modeling_cohere.py at 015bfeb86891, CohereAttention: its rotate_half() takes every other
 * column. */
static void test_cohere(void **state)
{
    struct rotary cohere = LLAMA;
    (void)state;
    cohere.is_every_two = true;
    published_open("{\"model_type\":\"cohere\",\"use_qk_norm\":false," GROUPED_FIELDS "}", GROUPED,
                   2, "F32");
    expect_rotary(&cohere, 0);
    expect_rotary(&cohere, 1);
    published_close();
}

/* gemma/modeling_gemma.py: LlamaAttention with a head_dim of its own. gemma2/modeling_gemma2.py at
 * 9a80143ca260, Gemma2Attention: scaling = query_pre_attn_scalar ** -0.5, capped scores, and a
 * window on layers of even number. */
static void test_gemma(void **state)
{
    struct rotary gemma = LLAMA;
    (void)state;
    published_open("{\"model_type\":\"gemma\",\"head_dim\":4," GROUPED_FIELDS "}", GROUPED, 2,
                   "F32");
    expect_rotary(&gemma, 0);
    expect_rotary(&gemma, 1);
    published_close();

    gemma.scale = 1 / sqrt(7);
    gemma.softcap = 0.25;
    published_open("{\"model_type\":\"gemma2\",\"head_dim\":4,\"query_pre_attn_scalar\":7,"
                   "\"attn_logit_softcapping\":0.25,\"sliding_window\":3," GROUPED_FIELDS "}",
                   GROUPED, 2, "F32");
    expect_rotary(&gemma, 1);
    gemma.window = 3;
    expect_rotary(&gemma, 0);
    published_close();

    gemma.scale = 1.0 / 16;
    gemma.softcap = 0;
    published_open("{\"model_type\":\"gemma2\",\"head_dim\":4,\"attn_logit_softcapping\":null,"
                   "\"sliding_window\":3," GROUPED_FIELDS "}",
                   GROUPED, 2, "F32");
    expect_rotary(&gemma, 0);
    published_close();
}

#define NORMED                                                                                     \
    GROUPED ", model.layers.#.self_attn.q_norm.weight 4, model.layers.#.self_attn.k_norm.weight 4"

/* qwen3/modeling_qwen3.py at 9ee3f431c32e, Qwen3Attention: q_norm(q_proj(x)) of each head, then
 * rotary embedding. */
static void test_qwen3(void **state)
{
    struct rotary qwen3 = LLAMA;
    (void)state;
    qwen3.norm_eps = 0.125;
    published_open("{\"model_type\":\"qwen3\",\"head_dim\":4,\"rms_norm_eps\":0.125,"
                   "\"use_sliding_window\":false," GROUPED_FIELDS "}",
                   NORMED, 2, "F32");
    expect_rotary(&qwen3, 0);
    expect_rotary(&qwen3, 1);
    published_close();
    qwen3.norm_eps = 1e-6;
    published_open("{\"model_type\":\"qwen3\",\"head_dim\":4," GROUPED_FIELDS "}", NORMED, 2,
                   "F16");
    expect_rotary(&qwen3, 1);
    published_close();
}

/* gemma3/modeling_gemma3.py at 0018aa647bb1, Gemma3Attention and Gemma3RMSNorm, whose weight is
 * less one; two layers of three have the window and a theta of their own. */
static void test_gemma3(void **state)
{
    static const char *const ROPES[] = {
        "\"rope_theta\":1000000,\"rope_local_base_freq\":10000,\"sliding_window_pattern\":3",
        "\"layer_types\":[\"sliding_attention\",\"sliding_attention\",\"full_attention\"],"
        "\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1000000,\"rope_type\":\"default\"}"
        ","
        "\"sliding_attention\":{\"rope_theta\":10000,\"rope_type\":\"default\"}}",
    };
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rotary gemma3 = LLAMA;
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
        expect_rotary(&gemma3, 0);
        expect_rotary(&gemma3, 1);
        gemma3.window = 0;
        gemma3.theta = 1e6;
        expect_rotary(&gemma3, 2);
        published_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gptj),          cmocka_unit_test(test_opt),
        cmocka_unit_test(test_llama),         cmocka_unit_test(test_llama_shapes),
        cmocka_unit_test(test_llama_scaling), cmocka_unit_test(test_mistral),
        cmocka_unit_test(test_qwen2),         cmocka_unit_test(test_phi),
        cmocka_unit_test(test_stablelm),      cmocka_unit_test(test_cohere),
        cmocka_unit_test(test_gemma),         cmocka_unit_test(test_qwen3),
        cmocka_unit_test(test_gemma3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
