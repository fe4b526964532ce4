/* test_checkpoint_mpt.c - MPT by llm-foundry's config.json.
 *
 * Its attention is written out of llmfoundry/models/layers/attention.py, GroupedQueryAttention and
 * scaled_multihead_dot_product_attention(), and mpt/modeling_mpt.py, gen_rotary_embedding(), of
 * mosaicml/llm-foundry at 8c8dd48f7. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "published.h"

#include <math.h>
#include <stdio.h>

#define BLOCK "transformer.blocks.#.attn."

/* Four heads of 4 columns. */
struct mpt {
    const char *attention, *more; /* fields of attn_config, and beside it */
    const char *tensors;
    int64_t kv_heads;
    double divisor; /* of the frequencies; 0: nothing is turned */
    double theta;
    bool has_alibi;
    struct published_attention options;
};

#define TENSORS(out) BLOCK "Wqkv.weight " out "x16, " BLOCK "out_proj.weight 16x16"

static double alibi_bias(int64_t head, int64_t query, int64_t key)
{
    (void)query;
    return ((double)key - 6) / pow(4, (double)head + 1); /* 8 / 4 heads */
}

static void expect(const struct mpt *mpt, int layer)
{
    struct published_attention attention = mpt->options;
    const struct rows hidden = published_input(16);
    const struct rows qkv = published_linear(hidden, BLOCK "Wqkv", layer);
    const struct rows q = published_split(qkv, 1, 0, 16);
    const struct rows k = published_split(qkv, 1, 16, 4 * mpt->kv_heads);
    attention.heads = 4;
    attention.kv_heads = mpt->kv_heads;
    attention.scale = 0.5;
    attention.causal = true;
    attention.bias = mpt->has_alibi ? alibi_bias : NULL;
    if (mpt->divisor > 0) {
        const double frequencies[] = { 1 / mpt->divisor, 1 / sqrt(mpt->theta) / mpt->divisor };
        published_rotate_half_by(q, 4, 4, frequencies, 1);
        published_rotate_half_by(k, mpt->kv_heads, 4, frequencies, 1);
    }
    struct published_answer answer = published_attend(
        &attention, q, k, published_split(qkv, 1, 16 + 4 * mpt->kv_heads, 4 * mpt->kv_heads));
    answer.context = published_linear(answer.context, BLOCK "out_proj", layer);
    published_expect(layer, "self", hidden, hidden, &answer);
}

static const struct mpt MODELS[] = {
    { "\"alibi\":true", "", TENSORS("48"), 4, 0, 0, true, { .heads = 0 } },
    { "\"alibi\":false", "", TENSORS("48"), 4, 0, 0, false, { .heads = 0 } },
    /* Rotary embeddings. */
    { "\"alibi\":false,\"rope\":true", "", TENSORS("48"), 4, 1, 1e4, false, { .heads = 0 } },
    { "\"rope\":true,\"rope_impl\":\"dail\",\"rope_theta\":100,\"rope_dail_config\":{\"type\":"
      "\"original\",\"pos_idx_in_fp32\":true,\"xpos_scale_base\":512},\"rope_hf_config\":{\"type\":"
      "\"linear\",\"factor\":2.0}",
      "",
      TENSORS("48"),
      4,
      1,
      100,
      false,
      { .heads = 0 } },
    { "\"rope\":true,\"rope_impl\":\"hf\",\"rope_theta\":100,\"rope_hf_config\":{\"type\":"
      "\"no_scaling\",\"factor\":1.0}",
      "",
      TENSORS("48"),
      4,
      1,
      100,
      false,
      { .heads = 0 } },
    { "\"rope\":true,\"rope_impl\":\"hf\",\"rope_theta\":100,\"rope_hf_config\":{\"type\":"
      "\"linear\",\"factor\":2.0}",
      "",
      TENSORS("48"),
      4,
      2,
      100,
      false,
      { .heads = 0 } },
    /* Dynamic NTK scaling leaves a sequence of 7 alone that is shorter than max_seq_len. */
    { "\"rope\":true,\"rope_impl\":\"hf\",\"rope_hf_config\":{\"type\":\"dynamic\",\"factor\":4.0}",
      ",\"max_seq_len\":8",
      TENSORS("48"),
      4,
      1,
      1e4,
      false,
      { .heads = 0 } },
    /* Windows: sliding_window_size keys before a row's own. */
    { "\"alibi\":true,\"sliding_window_size\":2",
      "",
      TENSORS("48"),
      4,
      0,
      0,
      true,
      { .window = 3 } },
    { "\"alibi\":true,\"sliding_window_size\":-1",
      "",
      TENSORS("48"),
      4,
      0,
      0,
      true,
      { .heads = 0 } },
    /* Key/value heads, capped scores, biases. */
    { "\"alibi\":true,\"attn_type\":\"grouped_query_attention\",\"kv_n_heads\":2",
      "",
      TENSORS("32"),
      2,
      0,
      0,
      true,
      { .heads = 0 } },
    { "\"alibi\":true,\"attn_type\":\"multiquery_attention\"",
      "",
      TENSORS("24"),
      1,
      0,
      0,
      true,
      { .heads = 0 } },
    { "\"alibi\":true,\"attn_logit_softcapping\":0.25",
      ",\"head_dim\":4",
      TENSORS("48"),
      4,
      0,
      0,
      true,
      { .softcap = 0.25 } },
    { "\"alibi\":true",
      ",\"no_bias\":false",
      TENSORS("48") ", " BLOCK "Wqkv.bias 48, " BLOCK "out_proj.bias 16",
      4,
      0,
      0,
      true,
      { .heads = 0 } },
    { "\"alibi\":true",
      ",\"no_bias\":true,\"attention_bias\":true",
      TENSORS("48") ", " BLOCK "Wqkv.bias 48",
      4,
      0,
      0,
      true,
      { .heads = 0 } },
    { "\"alibi\":true",
      ",\"no_bias\":false,\"attention_bias\":null",
      TENSORS("48") ", " BLOCK "Wqkv.bias 48, " BLOCK "out_proj.bias 16",
      4,
      0,
      0,
      true,
      { .heads = 0 } },
};

static void write_config(char config[640], const char *attention, const char *more)
{
    snprintf(config, 640,
             "{\"model_type\":\"mpt\",\"d_model\":16,\"n_heads\":4,\"n_layers\":2,"
             "\"attn_config\":{%s}%s}",
             attention, more);
}

static void test_computed(void **state)
{
    char config[640];
    (void)state;
    for (size_t i = 0; i < sizeof MODELS / sizeof MODELS[0]; i++) {
        write_config(config, MODELS[i].attention, MODELS[i].more);
        published_open(config, MODELS[i].tensors, 2, "F32");
        expect(&MODELS[i], 0);
        expect(&MODELS[i], 1);
        published_close();
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *attention, *more, *words;
    } REFUSED[] = {
        { "\"rope\":true,\"rope_dail_config\":{\"type\":\"xpos\"}", "",
          "rope_dail_config/type is 'xpos'; expected original" },
        { "\"rope\":true,\"rope_impl\":\"other\"", "",
          "rope_impl is 'other'; expected dail or hf" },
        { "\"rope\":true,\"alibi\":true", "", "alibi is 'true'; expected false beside rope" },
        { "\"attn_type\":\"other\"", "", "attn_type is 'other'; expected multihead_attention" },
        { "\"attn_temperature_tuning\":{\"floor_scale\":8192,\"attn_scale\":0.1}", "",
          "attn_temperature_tuning/attn_scale is 'not 0'; expected 0" },
        { "\"qk_gn\":true", "", "config.json sets qk_gn" },
        { "\"alibi\":true", ",\"block_overrides\":{\"order\":[]}",
          "config.json sets block_overrides" },
        { "\"alibi\":true", ",\"head_dim\":8", "4 heads of 8 columns (head_dim); expected 16" },
        { "\"sliding_window_size\":-2", "", "sliding_window_size is -2; expected" },
    };
    char config[640];
    (void)state;
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        write_config(config, REFUSED[i].attention, REFUSED[i].more);
        published_refused(config, TENSORS("48"), 2,
                          REFUSED[i].words[0] == '4' ? FAULT_SHAPE : FAULT_OPTION,
                          REFUSED[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_computed),
                                        cmocka_unit_test(test_refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
