/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_disentangled.c - whole passes of DeBERTa-v2 and DeBERTa-v3 compared with POST
 * /v1/trace.
 *
 * Each pass is written out of the forward() of Hugging Face transformers,
 * deberta_v2/modeling_deberta_v2.py at 0038a3caa5c7. */
#include "answer.h"
#include "fixture.h"
#include "forward_edits.h"
#include "forward_encoder.h"
#include "published_disentangled.h"
#include "test.h"
#include "trace_client.h"

#define LAYER "deberta.encoder.layer.#."

static struct published_disentangled disentangled;
static bool is_normed;
static const char *pos_key, *pos_query; /* what projects rel_embeddings; NULL: no such term */
static double terms;                    /* scale_factor */

/* DebertaV2Encoder.get_rel_embedding(). */
static struct rows rel_embeddings(void)
{
    const struct rows rows = published_tensor("deberta.encoder.rel_embeddings.weight", 0);
    return is_normed ? forward_layer_norm(rows, "deberta.encoder.LayerNorm", 0, 1e-7) : rows;
}

/* DebertaV2Layer. */
static struct rows block(struct forward *forward, struct rows x, int layer)
{
    const double scale = 1 / sqrt(4 * terms);
    struct decoder_attention attention = {
        .attention = { .heads = ENCODER_HEADS, .scale = scale },
    };
    const struct decoder_projections of =
        encoder_project(x, LAYER "attention.self.query_proj", LAYER "attention.self.key_proj",
                        LAYER "attention.self.value_proj", layer);
    disentangled.heads = ENCODER_HEADS;
    disentangled.scale = scale;
    if (pos_key) {
        disentangled.pos_key = published_linear(rel_embeddings(), pos_key, layer);
        disentangled.pos_query =
            pos_query ? published_linear(rel_embeddings(), pos_query, layer) : FORWARD_NONE;
        published_disentangled_set(&disentangled, of.q, of.k);
        attention.attention.bias = published_disentangled_bias;
    }
    x = forward_add(
        x, decoder_attend(forward, &attention, x, x, of, LAYER "attention.output.dense", layer));
    x = forward_layer_norm(x, LAYER "attention.output.LayerNorm", layer, 1e-7);
    x = forward_add(
        x, decoder_up_down(x, LAYER "intermediate.dense", "gelu", LAYER "output.dense", layer));
    return forward_layer_norm(x, LAYER "output.LayerNorm", layer, 1e-7);
}

static void run(struct forward *forward, struct rows x)
{
    x = forward_layer_norm(x, "deberta.embeddings.LayerNorm", 0, 1e-7);
    for (int layer = 0; layer < ENCODER_LAYERS; layer++)
        x = block(forward, forward_edits_enter("self", layer, layer, x), layer);
    forward->final_hidden_states = x;
}

static void pass_v3(struct forward *forward)
{
    run(forward, encoder_embed("deberta.embeddings.word_embeddings.weight"));
}

/* LegacyDebertaV2LMPredictionHead, in DebertaV2ForMaskedLM. */
static void pass_masked(struct forward *forward)
{
    pass_v3(forward);
    forward->logits =
        encoder_masked_head(forward->final_hidden_states, "cls.predictions.transform.dense",
                            "cls.predictions.transform.LayerNorm", 1e-7,
                            "deberta.embeddings.word_embeddings.weight", "cls.predictions.bias");
}

/* DebertaV2LMPredictionHead. */
static void pass_masked_anew(struct forward *forward)
{
    pass_v3(forward);
    forward->logits = encoder_masked_head(
        forward->final_hidden_states, "lm_predictions.lm_head.dense",
        "lm_predictions.lm_head.LayerNorm", 1e-7, "deberta.embeddings.word_embeddings.weight",
        "lm_predictions.lm_head.bias");
}

/* DebertaV2Embeddings with everything that it may have. */
static void pass_v2(struct forward *forward)
{
    static const int types[PUBLISHED_DISENTANGLED_LENGTH] = { 0 };
    struct rows x = forward_add(
        encoder_embed("deberta.embeddings.word_embeddings.weight"),
        forward_slice(published_tensor("deberta.embeddings.position_embeddings.weight", 0), 0,
                      decoder_length));
    run(forward, forward_add(x, forward_embed(published_tensor("deberta.embeddings.token_type_"
                                                               "embeddings.weight",
                                                               0),
                                              types, decoder_length)));
}

static void pass_narrow(struct forward *forward)
{
    run(forward, published_linear(encoder_embed("deberta.embeddings.word_embeddings.weight"),
                                  "deberta.embeddings.embed_proj", 0));
}

#define TENSORS                                                                                    \
    ENCODER_LINEAR(LAYER "attention.self.query_proj", "16x16", "16")                               \
    ENCODER_LINEAR(LAYER "attention.self.key_proj", "16x16", "16")                                 \
    ENCODER_LINEAR(LAYER "attention.self.value_proj", "16x16", "16")                               \
    ENCODER_LINEAR(LAYER "attention.output.dense", "16x16", "16")                                  \
    ENCODER_SMALL_NORM(LAYER "attention.output.LayerNorm")                                         \
    ENCODER_LINEAR(LAYER "intermediate.dense", "24x16", "24")                                      \
    ENCODER_LINEAR(LAYER "output.dense", "16x24", "16")                                            \
    ENCODER_SMALL_NORM(LAYER "output.LayerNorm")                                                   \
    ENCODER_SMALL_NORM("deberta.embeddings.LayerNorm")
#define WORDS "deberta.embeddings.word_embeddings.weight 40x16"
#define CONFIG(more)                                                                               \
    "{\"model_type\":\"deberta-v2\",\"hidden_size\":16,\"num_attention_heads\":4,"                 \
    "\"num_hidden_layers\":3,\"intermediate_size\":24,\"vocab_size\":40,"                          \
    "\"max_position_embeddings\":64,\"relative_attention\":true" more "}"
#define V3                                                                                         \
    ",\"position_buckets\":8,\"norm_rel_ebd\":\"layer_norm\",\"share_att_key\":true,"              \
    "\"pos_att_type\":\"p2c|c2p\",\"max_relative_positions\":-1,\"position_biased_input\":false,"  \
    "\"type_vocab_size\":0"
#define V3_ROWS                                                                                    \
    "deberta.encoder.rel_embeddings.weight 16x16, " ENCODER_SMALL_NORM("deberta.encoder."          \
                                                                       "LayerNorm")

static void set_v3(void)
{
    disentangled =
        (struct published_disentangled){ .att_span = 8, .bucket_size = 8, .max_position = 64 };
    is_normed = true;
    pos_key = LAYER "attention.self.key_proj";
    pos_query = LAYER "attention.self.query_proj";
    terms = 3;
}

TEST(deberta_v3)
{
    set_v3();
    encoder_check("deberta_v3", CONFIG(V3), TENSORS V3_ROWS WORDS, 0, pass_v3);
    /* Distances as far as the last row, and beyond. */
    encoder_check("deberta_v3_long", CONFIG(V3), TENSORS V3_ROWS WORDS, 64, pass_v3);
}

#define HEAD(transform)                                                                            \
    ENCODER_LINEAR(transform "dense", "16x16", "16") ENCODER_SMALL_NORM(transform "LayerNorm")

/* Of two heads the one counts that config.json's `legacy` says, as in transformers. The published
 * DeBERTa-v3 has lm_predictions, and does not say that it is to be read. */
TEST(deberta_v3_with_a_head)
{
    set_v3();
    encoder_check("masked_deberta", CONFIG(V3),
                  TENSORS V3_ROWS HEAD("cls.predictions.transform.")
                      HEAD("lm_predictions.lm_head.") "cls.predictions.bias 40, "
                                                      "lm_predictions.lm_head.bias 40, " WORDS,
                  0, pass_masked);
    encoder_check("masked_deberta_anew", CONFIG(V3 ",\"legacy\":false"),
                  TENSORS V3_ROWS HEAD("lm_predictions.lm_head.") "lm_predictions.lm_head.bias "
                                                                  "40, " WORDS,
                  0, pass_masked_anew);
}

/* Tokens narrower than layers, as in small models of other makers. */
TEST(deberta_v3_of_narrow_tokens)
{
    set_v3();
    encoder_check("deberta_narrow", CONFIG(V3 ",\"embedding_size\":8"),
                  TENSORS V3_ROWS "deberta.embeddings.embed_proj.weight 16x8, "
                                  "deberta.embeddings.word_embeddings.weight 40x8",
                  0, pass_narrow);
}

/* Rows for distances themselves, which are fewer than those of the text, and projections of their
 * own. */
TEST(deberta_v2)
{
    disentangled = (struct published_disentangled){ .att_span = 5 };
    is_normed = false;
    pos_key = LAYER "attention.self.pos_key_proj";
    pos_query = LAYER "attention.self.pos_query_proj";
    terms = 3;
    encoder_check(
        "deberta_v2",
        CONFIG(",\"max_relative_positions\":5,\"pos_att_type\":[\"c2p\",\"p2c\"],"
               "\"type_vocab_size\":2"),
        TENSORS ENCODER_LINEAR(LAYER "attention.self.pos_key_proj", "16x16", "16")
            ENCODER_LINEAR(LAYER "attention.self.pos_query_proj", "16x16",
                           "16") "deberta.encoder.rel_embeddings.weight 10x16, "
                                 "deberta.embeddings.position_embeddings.weight 64x16, "
                                 "deberta.embeddings.token_type_embeddings.weight 2x16, " WORDS,
        0, pass_v2);
    pos_key = LAYER "attention.self.key_proj";
    pos_query = NULL;
    terms = 2;
    encoder_check("deberta_c2p",
                  CONFIG(",\"max_relative_positions\":5,\"pos_att_type\":\"c2p\","
                         "\"share_att_key\":true,\"position_biased_input\":false"),
                  TENSORS "deberta.encoder.rel_embeddings.weight 10x16, " WORDS, 0, pass_v3);
}

/* A convolution stands beside the first layer of the xlarge models; attention answers all the same.
 */
TEST(deberta_with_a_convolution)
{
    published_open(CONFIG(V3 ",\"conv_kernel_size\":3"), TENSORS V3_ROWS WORDS, ENCODER_LAYERS,
                   "F32");
    published_save(fixture_path("xlarge"), CONFIG(V3 ",\"conv_kernel_size\":3"));
    fixture_serve("--models", directory);
    trace_client_expect_none(&client, "xlarge", "\"tokens\":[1,2]", "conv_kernel_size");
    fixture_stop(NULL);
    published_close();
}

EACH_TEST(fixture_make_directory, fixture_clear);
