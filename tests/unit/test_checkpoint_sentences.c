/* test_checkpoint_sentences.c - the attention of published encoders that make vectors of sentences,
 * and of those of proteins, by their own config.json and names.
 *
 * Each family's attention is written out of the forward() of its modeling file in Hugging Face
 * transformers, src/transformers/models/, at the commit that stands with it. */
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
