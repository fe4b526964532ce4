/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_disentangled.c - rows for relative positions of DeBERTa-v2 and DeBERTa-v3, by
 * their own config.json and names: DisentangledSelfAttention of Hugging Face transformers,
 * deberta_v2/modeling_deberta_v2.py at 0038a3caa5c7. What scores gain by them is compared in
 * tests/http/test_trace_disentangled.c. */
#include "published.h"
#include "test.h"

#define LAYER "deberta.encoder.layer.#.attention."
#define TENSORS                                                                                    \
    PUBLISHED_LINEARS(LAYER, "self.query_proj", "self.key_proj", "self.value_proj",                \
                      "output.dense", "12")
#define ROWS(count) ", deberta.encoder.rel_embeddings.weight " count "x12"
#define NORM        ", deberta.encoder.LayerNorm.weight 12*4, deberta.encoder.LayerNorm.bias 12"
#define CONFIG(more)                                                                               \
    "{\"model_type\":\"deberta-v2\",\"hidden_size\":12,\"num_attention_heads\":3,"                 \
    "\"num_hidden_layers\":2,\"layer_norm_eps\":1e-7" more "}"
#define V3                                                                                         \
    ",\"relative_attention\":true,\"position_buckets\":4,\"norm_rel_ebd\":\"layer_norm\","         \
    "\"share_att_key\":true,\"pos_att_type\":\"p2c|c2p\",\"max_relative_positions\":-1,"           \
    "\"max_position_embeddings\":6"

/* DebertaV2Encoder.get_rel_embedding(). */
static struct rows rel_embeddings(bool is_normed)
{
    const struct rows table = published_tensor("deberta.encoder.rel_embeddings.weight", 0);
    const struct rows rows = published_rows(table.count, table.columns);
    memcpy(rows.data, table.data, (size_t)(table.count * table.columns) * sizeof *rows.data);
    if (is_normed)
        published_layer_norm(rows, 0, 12,
                             published_tensor("deberta.encoder.LayerNorm.weight", 0).data,
                             published_tensor("deberta.encoder.LayerNorm.bias", 0).data, 1e-7);
    return rows;
}

/* Rows of every head are those that the layer called name makes of rel_embeddings. */
static void expect_rows(const float *values, bool is_normed, const char *name, int layer)
{
    const struct rows want = published_linear(rel_embeddings(is_normed), name, layer);
    assert_non_null(values);
    for (int64_t h = 0; h < 3; h++)
        for (int64_t r = 0; r < want.count; r++)
            for (int64_t e = 0; e < 4; e++)
                assert_true(fabs((double)*values++ - want.data[r * 12 + h * 4 + e]) < 1e-4);
}

/* The rows that distances take, query minus key, from -reach on. */
static void expect_distances(const struct model_relative_bias *bias, int64_t reach,
                             const int *rows_of)
{
    assert_int_equal(bias->reach, reach);
    for (int64_t d = -reach - 2; d <= reach + 2; d++) {
        const int64_t nearest = d < -reach ? -reach : d > reach ? reach : d;
        assert_int_equal(model_bias_column(bias, 50 + d, 50), rows_of[nearest + reach]);
    }
}

static const struct model_layer *expect_scale(int layer, double terms)
{
    const struct model_layer *of = &published_model()->layers[layer];
    assert_true(fabs((double)of->options.scale - 1 / sqrt(4 * terms)) < 1e-7);
    return of;
}

/* As DeBERTa-v3: logarithmic buckets, whose last ones distances share, and the projections of the
 * layer itself. */
TEST(deberta_v3)
{
    /* Buckets of 1 to 6: 1, 2, ceil(log(1.5)/log(2.5)) + 2 = 3, 3, 3, 4. */
    static const int ROWS_OF[] = { 0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7 };
    for (int file = 0; file < 2; file++) {
        published_open(CONFIG(V3), TENSORS ROWS("8") NORM, 2, file ? "F16" : "F32");
        assert_int_equal(published_model()->layer_count, 2);
        for (int layer = 0; layer < 2; layer++) {
            const struct model_relative_bias *bias = &expect_scale(layer, 3)->relative_bias;
            assert_true(bias->by_query && bias->by_key && bias->by_head);
            assert_int_equal(bias->count, 8);
            expect_distances(bias, 6, ROWS_OF);
            expect_rows(bias->values, true, LAYER "self.key_proj", layer);
            expect_rows(bias->key_values, true, LAYER "self.query_proj", layer);
        }
        published_close();
    }
}

/* As DeBERTa-v2 may be: projections of their own, and as many rows as distances. */
TEST(deberta_v2)
{
    static const int ROWS_OF[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9 };
    published_open(CONFIG(",\"relative_attention\":true,\"max_relative_positions\":5,"
                          "\"pos_att_type\":[\"c2p\",\"p2c\"]"),
                   TENSORS ROWS("10") ", " PUBLISHED_LINEAR(
                       LAYER "self.pos_key_proj",
                       "12") ", " PUBLISHED_LINEAR(LAYER "self.pos_query_proj", "12"),
                   2, "F32");
    const struct model_relative_bias *bias = &expect_scale(1, 3)->relative_bias;
    expect_distances(bias, 5, ROWS_OF);
    expect_rows(bias->values, false, LAYER "self.pos_key_proj", 1);
    expect_rows(bias->key_values, false, LAYER "self.pos_query_proj", 1);
    published_close();
    published_open(CONFIG(",\"relative_attention\":true,\"max_relative_positions\":5,"
                          "\"share_att_key\":true,\"pos_att_type\":[\"c2p\"]"),
                   TENSORS ROWS("10"), 2, "F32");
    bias = &expect_scale(0, 2)->relative_bias;
    assert_false(bias->by_key);
    assert_null(bias->key_values);
    published_close();
    published_open(CONFIG(""), TENSORS, 2, "F32");
    assert_null(expect_scale(0, 1)->relative_bias.values);
    published_close();
}

TEST(refused)
{
    static const struct {
        const char *more;
        enum fault_code code;
        const char *words;
    } BAD[] = {
        { ",\"relative_attention\":true,\"pos_att_type\":\"p2c\"", FAULT_OPTION,
          "pos_att_type has no c2p" },
        { ",\"relative_attention\":true,\"pos_att_type\":\"c2p\",\"position_buckets\":1e9",
          FAULT_OPTION, "position_buckets is no count" },
        { ",\"relative_attention\":true,\"pos_att_type\":\"c2p\",\"position_buckets\":\"4\"",
          FAULT_OPTION, "position_buckets is no count" },
        { ",\"relative_attention\":true,\"pos_att_type\":\"c2p\",\"position_buckets\":2",
          FAULT_OPTION, "2 buckets (position_buckets) up to distance 512" },
        { ",\"relative_attention\":true,\"pos_att_type\":\"c2p\",\"position_buckets\":5",
          FAULT_OPTION, "expected an even number from 4" },
        { ",\"relative_attention\":true,\"pos_att_type\":\"c2p\",\"position_buckets\":64,"
          "\"max_relative_positions\":8",
          FAULT_OPTION, "64 buckets (position_buckets) up to distance 8" },
        { ",\"relative_attention\":true,\"pos_att_type\":\"c2p\",\"max_relative_positions\":9,"
          "\"share_att_key\":true",
          FAULT_SHAPE, "rel_embeddings.weight' is not [18, 12]" },
        { ",\"relative_attention\":true,\"pos_att_type\":\"c2p\",\"max_relative_positions\":4",
          FAULT_FIELD, "self.pos_key_proj.weight" },
        { ",\"relative_attention\":true,\"pos_att_type\":\"c2p\",\"max_relative_positions\":4,"
          "\"norm_rel_ebd\":\"layer_norm\"",
          FAULT_FIELD, "deberta.encoder.LayerNorm.weight" },
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        char config[400];
        snprintf(config, sizeof config, CONFIG("%s"), BAD[i].more);
        published_refused(config, TENSORS ROWS("8"), 2, BAD[i].code, BAD[i].words);
    }
}
