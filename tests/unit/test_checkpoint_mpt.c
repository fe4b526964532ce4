/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_mpt.c - MPT by llm-foundry's config.json.
 *
 * Its attention is written out of llmfoundry/models/layers/attention.py, GroupedQueryAttention and
 * scaled_multihead_dot_product_attention(), and mpt/modeling_mpt.py, gen_rotary_embedding(), of
 * mosaicml/llm-foundry at 8c8dd48f7. */
#include "published_fused.h"
#include "test.h"

#define BLOCK "transformer.blocks.#.attn."

/* Four heads of 4 columns. */
struct mpt {
    const char *attention, *more; /* fields of attn_config, and beside it; NULL: none */
    const char *tensors;          /* NULL: Wqkv of 48 outputs, without biases */
    int64_t kv_heads;             /* 0: four */
    double divisor;               /* of the frequencies; 0: nothing is rotated */
    double theta;
    double softcap;
    int64_t window;
    bool has_alibi;
};

#define TENSORS(out) BLOCK "Wqkv.weight " out "x16, " BLOCK "out_proj.weight 16x16"

static double alibi_bias(int64_t head, int64_t query, int64_t key)
{
    (void)query;
    return ((double)key - 6) / pow(4, (double)head + 1); /* 8 / 4 heads */
}

static void expect(const struct mpt *mpt, int layer)
{
    const double divisor = mpt->divisor > 0 ? mpt->divisor : 1;
    const double theta = mpt->theta > 0 ? mpt->theta : 1;
    const double frequencies[] = { 1 / divisor, 1 / sqrt(theta) / divisor };
    const int64_t kv_heads = mpt->kv_heads > 0 ? mpt->kv_heads : 4;
    const struct published_fused fused = {
        .qkv = BLOCK "Wqkv",
        .output = BLOCK "out_proj",
        .width = 16,
        .groups = 1,
        .queries = 16,
        .keys = 4 * kv_heads,
        .rotary_dim = mpt->divisor > 0 ? 4 : 0,
        .frequencies = frequencies,
        .factor = 1,
        .attention = { .heads = 4,
                       .kv_heads = kv_heads,
                       .scale = 0.5,
                       .softcap = mpt->softcap,
                       .causal = true,
                       .window = mpt->window,
                       .bias = mpt->has_alibi ? alibi_bias : NULL },
    };
    published_expect_fused(&fused, layer);
}

static const struct mpt MODELS[] = {
    { .attention = "\"alibi\":true", .has_alibi = true },
    { .attention = "\"alibi\":false" },
    /* Rotary embeddings. */
    { .attention = "\"alibi\":false,\"rope\":true", .divisor = 1, .theta = 1e4 },
    { .attention =
          "\"rope\":true,\"rope_impl\":\"dail\",\"rope_theta\":100,\"rope_dail_config\":{\"type\":"
          "\"original\",\"pos_idx_in_fp32\":true,\"xpos_scale_base\":512},\"rope_hf_config\":{"
          "\"type\":"
          "\"linear\",\"factor\":2.0}",
      .divisor = 1,
      .theta = 100 },
    { .attention =
          "\"rope\":true,\"rope_impl\":\"hf\",\"rope_theta\":100,\"rope_hf_config\":{\"type\":"
          "\"no_scaling\",\"factor\":1.0}",
      .divisor = 1,
      .theta = 100 },
    { .attention =
          "\"rope\":true,\"rope_impl\":\"hf\",\"rope_theta\":100,\"rope_hf_config\":{\"type\":"
          "\"linear\",\"factor\":2.0}",
      .divisor = 2,
      .theta = 100 },
    /* Dynamic NTK scaling leaves a sequence of 7 alone that is shorter than max_seq_len. */
    { .attention = "\"rope\":true,\"rope_impl\":\"hf\",\"rope_hf_config\":{\"type\":\"dynamic\","
                   "\"factor\":4.0}",
      .more = ",\"max_seq_len\":8",
      .divisor = 1,
      .theta = 1e4 },
    /* Windows: sliding_window_size keys before a row's own. */
    { .attention = "\"alibi\":true,\"sliding_window_size\":2", .window = 3, .has_alibi = true },
    { .attention = "\"alibi\":true,\"sliding_window_size\":-1", .has_alibi = true },
    /* Key/value heads, capped scores, biases. */
    { .attention = "\"alibi\":true,\"attn_type\":\"grouped_query_attention\",\"kv_n_heads\":2",
      .tensors = TENSORS("32"),
      .kv_heads = 2,
      .has_alibi = true },
    { .attention = "\"alibi\":true,\"attn_type\":\"multiquery_attention\"",
      .tensors = TENSORS("24"),
      .kv_heads = 1,
      .has_alibi = true },
    { .attention = "\"alibi\":true,\"attn_logit_softcapping\":0.25",
      .more = ",\"head_dim\":4",
      .softcap = 0.25,
      .has_alibi = true },
    { .attention = "\"alibi\":true",
      .more = ",\"no_bias\":false",
      .tensors = TENSORS("48") ", " BLOCK "Wqkv.bias 48, " BLOCK "out_proj.bias 16",
      .has_alibi = true },
    { .attention = "\"alibi\":true",
      .more = ",\"no_bias\":true,\"attention_bias\":true",
      .tensors = TENSORS("48") ", " BLOCK "Wqkv.bias 48",
      .has_alibi = true },
    { .attention = "\"alibi\":true",
      .more = ",\"no_bias\":false,\"attention_bias\":null",
      .tensors = TENSORS("48") ", " BLOCK "Wqkv.bias 48, " BLOCK "out_proj.bias 16",
      .has_alibi = true },
};

static void write_config(char config[640], const char *attention, const char *more)
{
    snprintf(config, 640,
             "{\"model_type\":\"mpt\",\"d_model\":16,\"n_heads\":4,\"n_layers\":2,"
             "\"attn_config\":{%s}%s}",
             attention, more);
}

TEST(computed)
{
    char config[640];
    for (size_t i = 0; i < sizeof MODELS / sizeof MODELS[0]; i++) {
        const struct mpt *mpt = &MODELS[i];
        write_config(config, mpt->attention, mpt->more ? mpt->more : "");
        published_open(config, mpt->tensors ? mpt->tensors : TENSORS("48"), 2, "F32");
        expect(mpt, 0);
        expect(mpt, 1);
        published_close();
    }
}

TEST(refused)
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
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        write_config(config, REFUSED[i].attention, REFUSED[i].more);
        published_refused(config, TENSORS("48"), 2,
                          REFUSED[i].words[0] == '4' ? FAULT_SHAPE : FAULT_OPTION,
                          REFUSED[i].words);
    }
}
