/* test_checkpoint_decoders.c - published decoders by their own config.json and names.
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

/* ------------------------------------------------------------------- GPT-2 -- */

static const char GPT2[] = "h.#.attn.c_attn.weight 12x36, h.#.attn.c_attn.bias 36, "
                           "h.#.attn.c_proj.weight 12x12, h.#.attn.c_proj.bias 12, "
                           "h.#.attn.bias 7x7, wte.weight 5x12";

/* gpt2/modeling_gpt2.py at c44b2d9976e8, GPT2Attention: Conv1D, split in three. */
static void expect_gpt2(int layer, double scale)
{
    const struct rows hidden = published_input(12);
    const struct rows qkv = published_conv1d(hidden, "h.#.attn.c_attn", layer);
    const struct published_attention attention = { .heads = 3, .scale = scale, .causal = true };
    struct published_answer answer =
        published_attend(&attention, published_split(qkv, 1, 0, 12),
                         published_split(qkv, 1, 12, 12), published_split(qkv, 1, 24, 12));
    answer.context = published_conv1d(answer.context, "h.#.attn.c_proj", layer);
    published_expect(layer, "self", hidden, hidden, &answer);
}

static void test_gpt2(void **state)
{
    (void)state;
    published_open("{\"model_type\":\"gpt2\",\"n_embd\":12,\"n_head\":3,\"n_layer\":2}", GPT2, 2,
                   "F32");
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

/* ------------------------------------------------------------ GPT-NeoX, GPT-J, OPT -- */

/* gpt_neox/modeling_gpt_neox.py at 006bd23dd0ce, GPTNeoXAttention: each head's query, key and value
 * one after the other, of which the first rotary_ndims columns are turned. */
static void test_gpt_neox(void **state)
{
    (void)state;
    for (int file = 0; file < 2; file++) {
        published_open("{\"model_type\":\"gpt_neox\",\"hidden_size\":24,\"num_attention_heads\":3,"
                       "\"num_hidden_layers\":2,\"rotary_pct\":0.5,\"rotary_emb_base\":1000}",
                       "gpt_neox.layers.#.attention.query_key_value.weight 72x24, "
                       "gpt_neox.layers.#.attention.query_key_value.bias 72, "
                       "gpt_neox.layers.#.attention.dense.weight 24x24, "
                       "gpt_neox.layers.#.attention.dense.bias 24",
                       2, file ? "F16" : "F32");
        for (int layer = 0; layer < 2; layer++) {
            const struct rows hidden = published_input(24);
            const struct rows qkv =
                published_linear(hidden, "gpt_neox.layers.#.attention.query_key_value", layer);
            const struct rows q = published_split(qkv, 3, 0, 8);
            const struct rows k = published_split(qkv, 3, 8, 8);
            const struct published_attention attention = { .heads = 3,
                                                           .scale = 1 / sqrt(8),
                                                           .causal = true };
            published_rotate_half(q, 3, 4, 1000);
            published_rotate_half(k, 3, 4, 1000);
            struct published_answer answer =
                published_attend(&attention, q, k, published_split(qkv, 3, 16, 8));
            answer.context =
                published_linear(answer.context, "gpt_neox.layers.#.attention.dense", layer);
            published_expect(layer, "self", hidden, hidden, &answer);
        }
        published_close();
    }
}

/* q_proj, k_proj, v_proj and an output projection of rotary attention. */
struct rotary {
    const char *begin, *output;
    int64_t width, heads, kv_heads, rotary_dim;
    double theta, scale, softcap;
    bool is_every_two; /* else rotate_half */
    int64_t window;
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

/* bloom/modeling_bloom.py at 0078a6cd96d5, BloomAttention: fused by head, alibi added to scaled
 * scores. */
static void test_bloom(void **state)
{
    (void)state;
    published_open("{\"model_type\":\"bloom\",\"hidden_size\":24,\"n_head\":6,\"n_layer\":2}",
                   "transformer.h.#.self_attention.query_key_value.weight 72x24, "
                   "transformer.h.#.self_attention.query_key_value.bias 72, "
                   "transformer.h.#.self_attention.dense.weight 24x24, "
                   "transformer.h.#.self_attention.dense.bias 24",
                   2, "F16");
    for (int layer = 0; layer < 2; layer++) {
        const struct rows hidden = published_input(24);
        const struct rows qkv =
            published_linear(hidden, "transformer.h.#.self_attention.query_key_value", layer);
        const struct published_attention attention = {
            .heads = 6, .scale = 0.5, .causal = true, .bias = alibi_of_6
        };
        struct published_answer answer =
            published_attend(&attention, published_split(qkv, 6, 0, 4),
                             published_split(qkv, 6, 4, 4), published_split(qkv, 6, 8, 4));
        answer.context =
            published_linear(answer.context, "transformer.h.#.self_attention.dense", layer);
        published_expect(layer, "self", hidden, hidden, &answer);
    }
    published_close();
}

/* falcon/modeling_falcon.py at 00dcc6dda6f6, FalconAttention._split_heads(): of 4 heads, groups of
 * queries with a key and a value each. */
static void expect_falcon(const char *fields, const char *tensors, int64_t kv_heads, bool is_alibi)
{
    char config[256];
    snprintf(config, sizeof config,
             "{\"model_type\":\"falcon\",\"hidden_size\":16,\"num_attention_heads\":4,"
             "\"num_hidden_layers\":2,%s}",
             fields);
    published_open(config, tensors, 2, "F32");
    for (int layer = 0; layer < 2; layer++) {
        const int64_t queries = 4 / kv_heads * 4;
        const struct rows hidden = published_input(16);
        const struct rows qkv =
            published_linear(hidden, "transformer.h.#.self_attention.query_key_value", layer);
        const struct rows q = published_split(qkv, kv_heads, 0, queries);
        const struct rows k = published_split(qkv, kv_heads, queries, 4);
        const struct published_attention attention = { .heads = 4,
                                                       .kv_heads = kv_heads,
                                                       .scale = 0.5,
                                                       .causal = true,
                                                       .bias =
                                                           is_alibi ? scaled_alibi_of_4 : NULL };
        if (!is_alibi) {
            published_rotate_half(q, 4, 4, 10000);
            published_rotate_half(k, kv_heads, 4, 10000);
        }
        struct published_answer answer =
            published_attend(&attention, q, k, published_split(qkv, kv_heads, queries + 4, 4));
        answer.context =
            published_linear(answer.context, "transformer.h.#.self_attention.dense", layer);
        published_expect(layer, "self", hidden, hidden, &answer);
    }
    published_close();
}

#define FALCON(out)                                                                                \
    "transformer.h.#.self_attention.query_key_value.weight " out "x16, "                           \
    "transformer.h.#.self_attention.dense.weight 16x16"

static void test_falcon(void **state)
{
    (void)state;
    expect_falcon("\"multi_query\":true", FALCON("24"), 1, false);
    expect_falcon("\"new_decoder_architecture\":true,\"num_kv_heads\":2", FALCON("32"), 2, false);
    expect_falcon("\"multi_query\":false", FALCON("48"), 4, false);
    expect_falcon("\"multi_query\":false,\"alibi\":true,\"bias\":true",
                  FALCON("48") ", transformer.h.#.self_attention.query_key_value.bias 48, "
                               "transformer.h.#.self_attention.dense.bias 16",
                  4, true);
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

/* phi3/modeling_phi3.py at 43c2b4816a65, Phi3Attention: qkv_proj, query_pos = heads * head_dim. */
static void test_phi3(void **state)
{
    (void)state;
    for (int file = 0; file < 2; file++) {
        published_open(
            "{\"model_type\":\"phi3\",\"sliding_window\":4,\"rope_scaling\":null," GROUPED_FIELDS
            "}",
            "model.layers.#.self_attn.qkv_proj.weight 32x16, "
            "model.layers.#.self_attn.o_proj.weight 16x16",
            2, file ? "F16" : "F32");
        const struct rows hidden = published_input(16);
        const struct rows qkv = published_linear(hidden, "model.layers.#.self_attn.qkv_proj", 1);
        const struct rows q = published_split(qkv, 1, 0, 16), k = published_split(qkv, 1, 16, 8);
        const struct published_attention attention = {
            .heads = 4, .kv_heads = 2, .scale = 0.5, .causal = true, .window = 4
        };
        published_rotate_half(q, 4, 4, 10000);
        published_rotate_half(k, 2, 4, 10000);
        struct published_answer answer =
            published_attend(&attention, q, k, published_split(qkv, 1, 24, 8));
        answer.context = published_linear(answer.context, "model.layers.#.self_attn.o_proj", 1);
        published_expect(1, "self", hidden, hidden, &answer);
        published_close();
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),          cmocka_unit_test(test_gpt_neox),
        cmocka_unit_test(test_gptj),          cmocka_unit_test(test_opt),
        cmocka_unit_test(test_llama),         cmocka_unit_test(test_llama_shapes),
        cmocka_unit_test(test_llama_scaling), cmocka_unit_test(test_mistral),
        cmocka_unit_test(test_qwen2),         cmocka_unit_test(test_phi),
        cmocka_unit_test(test_phi3),          cmocka_unit_test(test_stablelm),
        cmocka_unit_test(test_cohere),        cmocka_unit_test(test_bloom),
        cmocka_unit_test(test_falcon),        cmocka_unit_test(test_gemma),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
