/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_sentences.c - the attention of published encoders that make vectors of sentences,
 * and of those of proteins, by their own config.json and names.
 *
 * Each family's attention is written out of the forward() of its modeling file in Hugging Face
 * transformers, src/transformers/models/, at the commit that stands with it; or of a file of
 * another repository, which is named. */
#include "published_fused.h"
#include "published_rotary.h"
#include "test.h"

/* ------------------------------------------------------------------- MPNet -- */

#define MPNET_LAYER "mpnet.encoder.layer.#.attention.attn."
#define MPNET                                                                                      \
    PUBLISHED_LINEARS(MPNET_LAYER, "q", "k", "v", "o", "12")                                       \
    ", mpnet.encoder.relative_attention_bias.weight 32x3*3"
#define MPNET_CONFIG(more)                                                                         \
    "{\"model_type\":\"mpnet\",\"hidden_size\":12,\"num_attention_heads\":3,"                      \
    "\"num_hidden_layers\":2" more "}"

static double mpnet_bias(int64_t head, int64_t query, int64_t key)
{
    return published_tensor("mpnet.encoder.relative_attention_bias.weight", 0)
        .data[published_t5_bucket(key - query, true, 32, 128) * 3 + head];
}

/* mpnet/modeling_mpnet.py at 00099b9f15ad, MPNetSelfAttention, with the position_bias that
 * MPNetEncoder gives to all layers. */
TEST(mpnet)
{
    published_open(MPNET_CONFIG(",\"relative_attention_num_buckets\":32"), MPNET, 2, "F32");
    assert_int_equal(published_model()->layer_count, 2);
    for (int layer = 0; layer < 2; layer++) {
        const struct rows hidden = published_input(12);
        const struct published_attention of = { .heads = 3, .scale = 0.5, .bias = mpnet_bias };
        struct published_answer answer =
            published_attend(&of, published_linear(hidden, MPNET_LAYER "q", layer),
                             published_linear(hidden, MPNET_LAYER "k", layer),
                             published_linear(hidden, MPNET_LAYER "v", layer));
        answer.context = published_linear(answer.context, MPNET_LAYER "o", layer);
        published_expect(layer, "self", hidden, hidden, &answer);
    }
    published_close();
    published_refused(MPNET_CONFIG(",\"relative_attention_num_buckets\":16"), MPNET, 2,
                      FAULT_OPTION, "relative_attention_num_buckets is 16; expected 32");
    published_refused(MPNET_CONFIG(""), PUBLISHED_LINEARS(MPNET_LAYER, "q", "k", "v", "o", "12"), 2,
                      FAULT_FIELD, "mpnet.encoder.relative_attention_bias.weight");
}

/* -------------------------------------------------------------- ModernBERT -- */

#define MODERN "model.layers.#.attn.Wqkv.weight 48x16, model.layers.#.attn.Wo.weight 16x16"
#define MODERN_CONFIG(more)                                                                        \
    "{\"model_type\":\"modernbert\",\"hidden_size\":16,\"num_attention_heads\":4,"                 \
    "\"num_hidden_layers\":4,\"local_attention\":5" more "}"

static const struct published_fused MODERN_ATTENTION = {
    .qkv = "model.layers.#.attn.Wqkv",
    .output = "model.layers.#.attn.Wo",
    .width = 16,
    .groups = 1,
    .queries = 16,
    .keys = 16,
    .rotary_dim = 4,
    .attention = { .heads = 4, .scale = 0.5 },
};

static void expect_modern(int layer, double theta, int64_t reach)
{
    struct published_fused modern = MODERN_ATTENTION;
    modern.theta = theta;
    modern.attention.reach = reach;
    published_expect_fused(&modern, layer);
}

/* modernbert/modeling_modernbert.py at 000c33fdfde1, ModernBertAttention, whose windows are
 * local_attention // 2 keys on either side. */
TEST(modernbert)
{
    published_open(MODERN_CONFIG(""), MODERN, 4, "F32");
    expect_modern(0, 160000, 0);
    expect_modern(1, 10000, 2);
    expect_modern(2, 10000, 2);
    expect_modern(3, 160000, 0);
    published_close();
    published_open(MODERN_CONFIG(",\"global_attn_every_n_layers\":2,\"global_rope_theta\":400,"
                                 "\"local_rope_theta\":70,\"attention_bias\":true"),
                   MODERN ", model.layers.#.attn.Wqkv.bias 48, model.layers.#.attn.Wo.bias 16", 4,
                   "F16");
    expect_modern(1, 70, 2);
    expect_modern(2, 400, 0);
    published_close();
    published_refused(MODERN_CONFIG(",\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2}"),
                      MODERN, 4, FAULT_OPTION, "config.json sets rope_scaling");
}

/* --------------------------------------------------------------------- ESM -- */

#define ESM                                                                                        \
    PUBLISHED_LINEARS("esm.encoder.layer.#.attention.", "self.query", "self.key", "self.value",    \
                      "output.dense", "16")
#define ESM_CONFIG(more)                                                                           \
    "{\"model_type\":\"esm\",\"hidden_size\":16,\"num_attention_heads\":4,"                        \
    "\"num_hidden_layers\":2" more "}"

/* esm/modeling_esm.py at 0220b9db084f, EsmSelfAttention and RotaryEmbedding. */
TEST(esm)
{
    struct published_rotary esm = { .begin = "esm.encoder.layer.#.attention.",
                                    .output = "output.dense",
                                    .projections = { "self.query", "self.key", "self.value" },
                                    .width = 16,
                                    .heads = 4,
                                    .kv_heads = 4,
                                    .rotary_dim = 4,
                                    .theta = 10000,
                                    .scale = 0.5,
                                    .is_bidirectional = true };
    published_compare_rotary(ESM_CONFIG(",\"position_embedding_type\":\"rotary\""), ESM, "F32",
                             &esm);
    esm.rotary_dim = 0;
    published_compare_rotary(ESM_CONFIG(",\"position_embedding_type\":\"absolute\""), ESM, "F16",
                             &esm);
    published_compare_rotary(ESM_CONFIG(""), ESM, "F32", &esm);
    published_refused(ESM_CONFIG(",\"position_embedding_type\":\"relative_key\""), ESM, 2,
                      FAULT_OPTION, "expected rotary or absolute");
    published_refused(ESM_CONFIG(",\"is_folding_model\":true"), ESM, 2, FAULT_OPTION,
                      "config.json sets is_folding_model");
}

/* --------------------------------------------------------------- NomicBERT -- */

#define NOMIC "encoder.layers.#.attn.Wqkv.weight 48x16, encoder.layers.#.attn.out_proj.weight 16x16"
#define NOMIC_CONFIG(more)                                                                         \
    "{\"model_type\":\"nomic_bert\",\"n_embd\":16,\"n_head\":4,\"n_layer\":2" more "}"
#define NOMIC_BARE ",\"qkv_proj_bias\":false"

static const struct published_fused NOMIC_ATTENTION = {
    .qkv = "encoder.layers.#.attn.Wqkv",
    .output = "encoder.layers.#.attn.out_proj",
    .width = 16,
    .groups = 1,
    .queries = 16,
    .keys = 16,
    .attention = { .heads = 4, .scale = 0.5 },
};

/* modeling_hf_nomic_bert.py of taylorbollman/hf_nomicbert_tb at aabe7d785ae0, NomicBertAttention.
 */
TEST(nomic_bert)
{
    struct published_fused nomic = NOMIC_ATTENTION;
    nomic.rotary_dim = 4;
    nomic.theta = 1000;
    published_open(NOMIC_CONFIG(NOMIC_BARE ",\"rotary_emb_fraction\":1.0,\"rotary_emb_base\":1000"),
                   NOMIC, 2, "F32");
    published_expect_fused(&nomic, 0);
    published_expect_fused(&nomic, 1);
    published_close();
    nomic.rotary_dim = 2;
    nomic.attention.causal = true;
    published_open(NOMIC_CONFIG(",\"rotary_emb_fraction\":0.5,\"rotary_emb_base\":1000,"
                                "\"causal\":true"),
                   NOMIC
                   ", encoder.layers.#.attn.Wqkv.bias 48, encoder.layers.#.attn.out_proj.bias "
                   "16",
                   2, "F16");
    published_expect_fused(&nomic, 1);
    published_close();
    nomic.rotary_dim = 0;
    nomic.attention.causal = false;
    published_open(NOMIC_CONFIG(NOMIC_BARE), NOMIC, 2, "F32");
    published_expect_fused(&nomic, 0);
    published_close();
    published_refused(NOMIC_CONFIG(NOMIC_BARE ",\"moe_top_k\":2"), NOMIC, 2, FAULT_OPTION,
                      "config.json sets moe_top_k");
    published_refused(NOMIC_CONFIG(NOMIC_BARE ",\"prenorm\":true"), NOMIC, 2, FAULT_OPTION,
                      "prenorm is true; expected false");
}

/* NomicBertDynamicNTKRotaryEmbedding, for texts of more than max_trained_positions rows. */
TEST(nomic_bert_of_long_texts)
{
    struct published_fused nomic = NOMIC_ATTENTION;
    double frequencies[2];
    published_frequencies(frequencies, 4, 1000 * pow(2.0 * PUBLISHED_LENGTH / 5 - 1, 2));
    nomic.rotary_dim = 4;
    nomic.frequencies = frequencies;
    nomic.factor = 1;
    published_open(NOMIC_CONFIG(NOMIC_BARE ",\"rotary_emb_fraction\":1,\"rotary_emb_base\":1000,"
                                           "\"rotary_scaling_factor\":2,"
                                           "\"max_trained_positions\":5"),
                   NOMIC, 2, "F32");
    published_expect_fused(&nomic, 1);
    published_close();
    published_refused(NOMIC_CONFIG(NOMIC_BARE ",\"rotary_emb_fraction\":1,"
                                              "\"rotary_scaling_factor\":2,"
                                              "\"max_trained_positions\":0"),
                      NOMIC, 2, FAULT_OPTION, "max_trained_positions is 0");
}

/* --------------------------------------------------------------------- GTE -- */

#define GTE                                                                                        \
    PUBLISHED_LINEAR("new.encoder.layer.#.attention.o_proj", "16")                                 \
    ", new.encoder.layer.#.attention.qkv_proj.weight 48x16, "                                      \
    "new.encoder.layer.#.attention.qkv_proj.bias 48"
#define GTE_CONFIG(type, more)                                                                     \
    "{\"model_type\":\"" type                                                                      \
    "\",\"hidden_size\":16,\"num_attention_heads\":4,\"num_hidden_layers\":2" more "}"
#define NTK ",\"rope_theta\":20000,\"rope_scaling\":{\"type\":\"ntk\",\"factor\":8.0}"

/* modeling.py of Alibaba-NLP/new-impl, NewAttention and NTKScalingRotaryEmbedding; layers of
 * another file have three projections in place of one. */
TEST(gte)
{
    double frequencies[2];
    struct published_fused gte = { .qkv = "new.encoder.layer.#.attention.qkv_proj",
                                   .output = "new.encoder.layer.#.attention.o_proj",
                                   .width = 16,
                                   .groups = 1,
                                   .queries = 16,
                                   .keys = 16,
                                   .rotary_dim = 4,
                                   .theta = 10000,
                                   .factor = 1,
                                   .attention = { .heads = 4, .scale = 0.5 } };
    published_open(GTE_CONFIG("new", ""), GTE, 2, "F32");
    published_expect_fused(&gte, 1);
    published_close();
    published_frequencies(frequencies, 4, 20000 * 8);
    for (int i = 0; i < 2; i++)
        frequencies[i] /= pow(8, 2.0 / 4);
    gte.frequencies = frequencies;
    published_open(GTE_CONFIG("new", NTK), GTE, 2, "F32");
    published_expect_fused(&gte, 0);
    published_close();
    gte.frequencies = NULL;
    gte.rotary_dim = 0;
    published_open(GTE_CONFIG("gte", ",\"position_embedding_type\":\"absolute\""), GTE, 2, "F16");
    published_expect_fused(&gte, 0);
    published_close();
    struct published_rotary apart = { .begin = "encoder.layer.#.attention.",
                                      .output = "o_proj",
                                      .width = 16,
                                      .heads = 4,
                                      .kv_heads = 4,
                                      .rotary_dim = 4,
                                      .theta = 10000,
                                      .scale = 0.5,
                                      .is_bidirectional = true };
    published_compare_rotary(GTE_CONFIG("new", ",\"pack_qkv\":false"),
                             PUBLISHED_LINEARS("encoder.layer.#.attention.", "q_proj", "k_proj",
                                               "v_proj", "o_proj", "16"),
                             "F32", &apart);
}

TEST(gte_refused)
{
    static const char *const BAD[][2] = {
        { ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}",
          "rope_scaling.type is not known" },
        { ",\"rope_scaling\":{\"type\":\"ntk\"}", "in rope_scaling no factor" },
        { ",\"rope_parameters\":{\"rope_type\":\"default\",\"factor\":2}",
          "in rope_parameters a factor" },
        { ",\"rope_theta\":0", "gives theta 0" },
        { ",\"rope_scaling\":{\"type\":\"ntk\",\"factor\":0}", "rope_scaling.factor is not" },
        { ",\"rope_scaling\":{\"type\":\"ntk\",\"factor\":2,\"mixed_b\":0.6}",
          "rope_scaling.mixed_b is not known" },
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        char config[256];
        snprintf(config, sizeof config, GTE_CONFIG("new", "%s"), BAD[i][0]);
        published_refused(config, GTE, 2, FAULT_FIELD, BAD[i][1]);
    }
    published_refused(GTE_CONFIG("new", ",\"position_embedding_type\":\"alibi\""), GTE, 2,
                      FAULT_OPTION, "expected rope or absolute");
    published_refused(GTE_CONFIG("new", ",\"logn_attention_scale\":true"), GTE, 2, FAULT_OPTION,
                      "config.json sets logn_attention_scale");
}

/* ---------------------------------------------------------------- JinaBERT -- */

#define JINA_LAYER "encoder.layer.#.attention."
#define JINA                                                                                       \
    PUBLISHED_LINEARS(JINA_LAYER, "self.query", "self.key", "self.value", "output.dense", "12")
#define JINA_CONFIG                                                                                \
    "{\"model_type\":\"bert\",\"hidden_size\":12,\"num_attention_heads\":3,"                       \
    "\"num_hidden_layers\":2,\"position_embedding_type\":\"alibi\"}"

/* get_slopes() of rebuild_alibi_tensor(): of three heads two are a power of 2, and the third has
 * the first slope of four. */
static double jina_bias(int64_t head, int64_t query, int64_t key)
{
    static const double SLOPES[] = { 0.0625, 0.00390625, 0.25 };
    return -SLOPES[head] * (double)(query > key ? query - key : key - query);
}

static void expect_jina(bool is_normed)
{
    const struct rows hidden = published_input(12);
    const struct published_attention of = { .heads = 3, .scale = 0.5, .bias = jina_bias };
    const struct rows q = published_linear(hidden, JINA_LAYER "self.query", 1);
    const struct rows k = published_linear(hidden, JINA_LAYER "self.key", 1);
    if (is_normed) {
        published_layer_norm(q, 0, 12,
                             published_tensor(JINA_LAYER "self.layer_norm_q.weight", 1).data,
                             published_tensor(JINA_LAYER "self.layer_norm_q.bias", 1).data, 1e-12);
        published_layer_norm(k, 0, 12,
                             published_tensor(JINA_LAYER "self.layer_norm_k.weight", 1).data,
                             published_tensor(JINA_LAYER "self.layer_norm_k.bias", 1).data, 1e-12);
    }
    struct published_answer answer =
        published_attend(&of, q, k, published_linear(hidden, JINA_LAYER "self.value", 1));
    answer.context = published_linear(answer.context, JINA_LAYER "output.dense", 1);
    published_expect(1, "self", hidden, hidden, &answer);
}

/* jina.rs of text-embeddings-inference at 0d124dc9773b, JinaAttention; with norms of query and key
 * JinaBertSelfAttention of jinaai/jina-bert-v2-qk-post-norm. */
TEST(jina_bert)
{
    published_open(JINA_CONFIG, JINA, 2, "F32");
    assert_int_equal(published_model()->layer_count, 2);
    assert_string_equal(published_model()->family, "jina_bert_v2");
    expect_jina(false);
    published_close();
    published_open(JINA_CONFIG,
                   JINA ", " JINA_LAYER "self.layer_norm_q.weight 12, " JINA_LAYER
                        "self.layer_norm_q.bias 12, " JINA_LAYER
                        "self.layer_norm_k.weight 12, " JINA_LAYER "self.layer_norm_k.bias 12",
                   2, "F16");
    assert_int_equal(published_model()->layer_count, 2);
    expect_jina(true);
    published_close();
}
