/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_hub.c - whole passes of encoders whose source is on the Hub beside their models,
 * compared with POST /v1/trace.
 *
 * Each pass is written out of a copy of that source, in the repository that stands with it. */
#include "fixture.h"
#include "forward_edits.h"
#include "forward_encoder.h"
#include "test.h"
#include "trace_client.h"

/* After the sum with what attention gives: what else a block computes. attention is already in x.
 */
struct gated {
    const char *up, *gate; /* two layers; or one, whose outputs are first the gate's, */
    bool gate_is_last;     /* or first those of up */
    const char *down, *activation;
};

static struct rows feed(const struct gated *gated, struct rows x, int layer)
{
    struct rows up = published_linear(x, gated->up, layer), gate = FORWARD_NONE;
    if (gated->gate) {
        gate = published_linear(x, gated->gate, layer);
    } else if (up.columns == 48) {
        gate = published_split(up, 1, gated->gate_is_last ? 24 : 0, 24);
        up = published_split(up, 1, gated->gate_is_last ? 0 : 24, 24);
    }
    const struct rows inner =
        gate.data ? forward_multiply(up, forward_activation(gate, gated->activation))
                  : forward_activation(up, gated->activation);
    return forward_edits_fed("self", layer, published_linear(inner, gated->down, layer));
}

static struct rows first_type(const char *name)
{
    static const int types[64] = { 0 };
    return forward_embed(published_tensor(name, 0), types, decoder_length);
}

/* -------------------------------------------------------------- NomicBERT -- */

#define NOMIC "encoder.layers.#."

static struct gated nomic_gated;
static double nomic_factor; /* of rotary_scaling_factor; 0: none */
static bool nomic_has_positions;

/* NomicBertDynamicNTKRotaryEmbedding with max_trained_positions 8. */
static double nomic_theta(void)
{
    const double length = (double)decoder_length;
    return nomic_factor > 0 && length > 8
               ? 1000 * pow(nomic_factor * length / 8 - (nomic_factor - 1), 4.0 / (4 - 2))
               : 1000;
}

/* modeling_hf_nomic_bert.py of taylorbollman/hf_nomicbert_tb at aabe7d785ae0: NomicBertModel. */
static void pass_nomic(struct forward *forward)
{
    const struct decoder_attention attention = { .attention = { .heads = ENCODER_HEADS,
                                                                .scale = 0.5 },
                                                 .rotary_dim = nomic_has_positions ? 0 : 4,
                                                 .theta = nomic_theta() };
    struct rows x = forward_add(encoder_embed("embeddings.word_embeddings.weight"),
                                first_type("embeddings.token_type_embeddings.weight"));
    if (nomic_has_positions)
        x = forward_add(x,
                        forward_slice(published_tensor("embeddings.position_embeddings.weight", 0),
                                      0, decoder_length));
    x = forward_layer_norm(x, "emb_ln", 0, 1e-5);
    for (int layer = 0; layer < ENCODER_LAYERS; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        x = forward_add(x, decoder_attend(forward, &attention, x, x,
                                          encoder_project_fused(x, NOMIC "attn.Wqkv", layer),
                                          NOMIC "attn.out_proj", layer));
        x = forward_layer_norm(x, NOMIC "norm1", layer, 1e-5);
        x = forward_add(x, feed(&nomic_gated, x, layer));
        x = forward_layer_norm(x, NOMIC "norm2", layer, 1e-5);
    }
    forward->final_hidden_states = x;
}

#define NOMIC_CONFIG(more)                                                                         \
    "{\"model_type\":\"nomic_bert\",\"n_embd\":16,\"n_head\":4,\"n_layer\":3,\"vocab_size\":40,"   \
    "\"layer_norm_epsilon\":1e-5" more "}"
#define NOMIC_TENSORS                                                                              \
    "embeddings.word_embeddings.weight 40x16, embeddings.token_type_embeddings.weight "            \
    "2x16, " ENCODER_NORM("emb_ln") ENCODER_SMALL_NORM(NOMIC "norm1")                              \
        ENCODER_SMALL_NORM(NOMIC "norm2") NOMIC "attn.Wqkv.weight 48x16, " NOMIC                   \
                                                "attn.out_proj.weight 16x16, "
#define NOMIC_BARE                                                                                 \
    ",\"qkv_proj_bias\":false,\"mlp_fc1_bias\":false,\"mlp_fc2_bias\":false,"                      \
    "\"rotary_emb_fraction\":1.0,\"rotary_emb_base\":1000"

/* A long text has no law of hidden tokens, for its length scales all positions. */
TEST(nomic_bert)
{
    nomic_gated = (struct gated){ .up = NOMIC "mlp.fc11",
                                  .gate = NOMIC "mlp.fc12",
                                  .down = NOMIC "mlp.fc2",
                                  .activation = "silu" };
    nomic_factor = 0;
    nomic_has_positions = false;
    encoder_check("nomic", NOMIC_CONFIG(NOMIC_BARE ",\"activation_function\":\"swiglu\""),
                  NOMIC_TENSORS NOMIC "mlp.fc11.weight 24x16, " NOMIC
                                      "mlp.fc12.weight 24x16, " NOMIC "mlp.fc2.weight 16x24",
                  0, pass_nomic);
    nomic_factor = 2;
    nomic_gated.activation = "gelu";
    encoder_check("nomic_long",
                  NOMIC_CONFIG(NOMIC_BARE
                               ",\"activation_function\":\"geglu\",\"rotary_scaling_factor\":2,"
                               "\"max_trained_positions\":8"),
                  NOMIC_TENSORS NOMIC "mlp.fc11.weight 24x16, " NOMIC
                                      "mlp.fc12.weight 24x16, " NOMIC "mlp.fc2.weight 16x24",
                  20, pass_nomic);
}

/* NomicBertMLP calls F.gelu itself, and the head GELU by its name. */
static void pass_nomic_masked(struct forward *forward)
{
    pass_nomic(forward);
    struct rows x =
        published_linear(forward->final_hidden_states, "cls.predictions.transform.dense", 0);
    x = forward_layer_norm(forward_activation(x, "gelu_new"),
                           "cls.predictions.transform.layer_norm", 0, 1e-5);
    forward->logits = forward_add_row(
        forward_product(x, published_tensor("embeddings.word_embeddings.weight", 0)),
        published_tensor("cls.predictions.decoder.bias", 0));
}

TEST(nomic_bert_with_positions)
{
    nomic_gated =
        (struct gated){ .up = NOMIC "mlp.fc1", .down = NOMIC "mlp.fc2", .activation = "gelu" };
    nomic_factor = 0;
    nomic_has_positions = true;
    encoder_check(
        "masked_nomic", NOMIC_CONFIG(",\"activation_function\":\"gelu_new\""),
        NOMIC_TENSORS NOMIC "attn.Wqkv.bias 48, " NOMIC "attn.out_proj.bias 16, " ENCODER_LINEAR(
            NOMIC "mlp.fc1", "24x16", "24") ENCODER_LINEAR(NOMIC "mlp.fc2", "16x24", "16")
            ENCODER_LINEAR("cls.predictions.transform.dense", "16x16", "16") ENCODER_NORM(
                "cls.predictions.transform.layer_norm") "embeddings.position_embeddings.weight "
                                                        "64x16, cls.predictions.decoder.bias 40",
        0, pass_nomic_masked);
}

/* --------------------------------------------------------------------- GTE -- */

#define GTE "new.encoder.layer.#."

static double gte_theta, gte_factor; /* factor 0: none */
static bool gte_has_positions;

/* NTKScalingRotaryEmbedding. */
static void gte_rotate(struct decoder_projections of)
{
    double frequencies[2];
    if (gte_has_positions)
        return;
    published_frequencies(frequencies, 4, gte_factor > 0 ? gte_theta * gte_factor : gte_theta);
    for (int i = 0; gte_factor > 0 && i < 2; i++)
        frequencies[i] /= pow(gte_factor, 2.0 / 4);
    published_rotate_half_by(of.q, ENCODER_HEADS, 4, frequencies, 1);
    published_rotate_half_by(of.k, ENCODER_HEADS, 4, frequencies, 1);
}

/* modeling.py of Alibaba-NLP/new-impl: NewEmbeddings, NewLayer, NewGatedMLP, NewLMPredictionHead.
 */
static void pass_gte(struct forward *forward)
{
    const struct decoder_attention attention = { .attention = { .heads = ENCODER_HEADS,
                                                                .scale = 0.5 } };
    const struct gated gated = { .up = GTE "mlp.up_gate_proj",
                                 .gate_is_last = true,
                                 .down = GTE "mlp.down_proj",
                                 .activation = "gelu" };
    struct rows x = encoder_embed("new.embeddings.word_embeddings.weight");
    if (gte_has_positions)
        x = forward_add(
            x, forward_slice(published_tensor("new.embeddings.position_embeddings.weight", 0), 0,
                             decoder_length));
    else
        x = forward_add(x, first_type("new.embeddings.token_type_embeddings.weight"));
    x = forward_layer_norm(x, "new.embeddings.LayerNorm", 0, 1e-12);
    for (int layer = 0; layer < ENCODER_LAYERS; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        const struct decoder_projections projections =
            gte_has_positions ? encoder_project(x, GTE "attention.q_proj", GTE "attention.k_proj",
                                                GTE "attention.v_proj", layer)
                              : encoder_project_fused(x, GTE "attention.qkv_proj", layer);
        gte_rotate(projections);
        x = forward_add(x, decoder_attend(forward, &attention, x, x, projections,
                                          GTE "attention.o_proj", layer));
        x = forward_layer_norm(x, GTE "attn_ln", layer, 1e-12);
        x = forward_add(x, feed(&gated, x, layer));
        x = forward_layer_norm(x, GTE "mlp_ln", layer, 1e-12);
    }
    forward->final_hidden_states = x;
    if (!gte_has_positions)
        forward->logits =
            encoder_masked_head(x, "lm_head.dense", "lm_head.norm", 1e-12,
                                "new.embeddings.word_embeddings.weight", "lm_head.decoder.bias");
}

#define GTE_CONFIG(more)                                                                           \
    "{\"model_type\":\"new\",\"hidden_size\":16,\"num_attention_heads\":4,"                        \
    "\"num_hidden_layers\":3,\"intermediate_size\":24,\"vocab_size\":40" more "}"
#define GTE_TENSORS                                                                                \
    "new.embeddings.word_embeddings.weight 40x16, " ENCODER_SMALL_NORM("new.embeddings.LayerNorm") \
        ENCODER_SMALL_NORM(GTE "attn_ln") ENCODER_SMALL_NORM(GTE "mlp_ln")                         \
            ENCODER_LINEAR(GTE "attention.o_proj", "16x16", "16") GTE                              \
        "mlp.up_gate_proj.weight 48x16, " ENCODER_LINEAR(GTE "mlp.down_proj", "16x24", "16")

TEST(gte)
{
    gte_theta = 20000;
    gte_factor = 8;
    gte_has_positions = false;
    encoder_check(
        "masked_gte",
        GTE_CONFIG(",\"rope_theta\":20000,\"rope_scaling\":{\"type\":\"ntk\",\"factor\":8.0}"),
        GTE_TENSORS ENCODER_LINEAR(GTE "attention.qkv_proj", "48x16",
                                   "48") ENCODER_LINEAR("lm_head.dense", "16x16", "16")
            ENCODER_SMALL_NORM("lm_head.norm") "new.embeddings.token_type_embeddings.weight 1x16, "
                                               "lm_head.decoder.bias 40",
        0, pass_gte);
    gte_theta = 10000;
    gte_factor = 0;
    encoder_check("masked_gte_mlm", GTE_CONFIG(""),
                  GTE_TENSORS ENCODER_LINEAR(GTE "attention.qkv_proj", "48x16", "48")
                      ENCODER_LINEAR("lm_head.dense", "16x16", "16") ENCODER_SMALL_NORM(
                          "lm_head.norm") "new.embeddings.token_type_embeddings.weight 1x16, "
                                          "lm_head.decoder.bias 40",
                  0, pass_gte);
}

TEST(gte_with_positions)
{
    gte_has_positions = true;
    encoder_check("gte_absolute",
                  GTE_CONFIG(",\"position_embedding_type\":\"absolute\",\"type_vocab_size\":0,"
                             "\"pack_qkv\":false"),
                  GTE_TENSORS ENCODER_LINEAR(GTE "attention.q_proj", "16x16", "16")
                      ENCODER_LINEAR(GTE "attention.k_proj", "16x16", "16")
                          ENCODER_LINEAR(GTE "attention.v_proj", "16x16",
                                         "16") "new.embeddings.position_embeddings.weight 64x16",
                  0, pass_gte);
}

/* ---------------------------------------------------------------- JinaBERT -- */

#define JINA "encoder.layer.#."

static bool jina_is_normed;

/* get_slopes() of rebuild_alibi_tensor(), of four heads. */
static double jina_bias(int64_t head, int64_t query, int64_t key)
{
    return -exp2(-2.0 * (double)(head + 1)) * fabs((double)(query - key));
}

/* What attention adds, with the norms after it. Of the first: jina.rs of text-embeddings-inference
 * at 0d124dc9773b, JinaBertLayer; of the other JinaBertLayer of jinaai/jina-bert-v2-qk-post-norm.
 */
static struct rows jina_attention(struct forward *forward, struct rows x, int layer)
{
    const struct decoder_attention attention = {
        .attention = { .heads = ENCODER_HEADS, .scale = 0.5, .bias = jina_bias }
    };
    const struct decoder_projections of =
        encoder_project(x, JINA "attention.self.query", JINA "attention.self.key",
                        JINA "attention.self.value", layer);
    if (jina_is_normed) {
        published_layer_norm(
            of.q, 0, ENCODER_WIDTH,
            published_tensor(JINA "attention.self.layer_norm_q.weight", layer).data,
            published_tensor(JINA "attention.self.layer_norm_q.bias", layer).data, 1e-12);
        published_layer_norm(
            of.k, 0, ENCODER_WIDTH,
            published_tensor(JINA "attention.self.layer_norm_k.weight", layer).data,
            published_tensor(JINA "attention.self.layer_norm_k.bias", layer).data, 1e-12);
    }
    const struct rows output =
        decoder_attend(forward, &attention, x, x, of, JINA "attention.output.dense", layer);
    const struct rows normed =
        forward_layer_norm(forward_add(x, output), JINA "attention.output.LayerNorm", layer, 1e-12);
    return jina_is_normed
               ? forward_layer_norm(forward_add(x, normed), JINA "layer_norm_1", layer, 1e-12)
               : normed;
}

static void pass_jina(struct forward *forward)
{
    const struct gated gated = {
        .up = jina_is_normed ? JINA "mlp.up_gated_layer" : JINA "mlp.gated_layers",
        .gate_is_last = jina_is_normed,
        .down = jina_is_normed ? JINA "mlp.down_layer" : JINA "mlp.wo",
        .activation = jina_is_normed ? "relu" : "gelu",
    };
    struct rows x = forward_add(encoder_embed("embeddings.word_embeddings.weight"),
                                first_type("embeddings.token_type_embeddings.weight"));
    x = forward_layer_norm(x, "embeddings.LayerNorm", 0, 1e-12);
    for (int layer = 0; layer < ENCODER_LAYERS; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        x = jina_attention(forward, x, layer);
        x = forward_layer_norm(forward_add(x, feed(&gated, x, layer)),
                               jina_is_normed ? JINA "layer_norm_2" : JINA "mlp.layernorm", layer,
                               1e-12);
    }
    forward->final_hidden_states = x;
}

#define JINA_CONFIG(type)                                                                          \
    "{\"model_type\":\"bert\",\"hidden_size\":16,\"num_attention_heads\":4,"                       \
    "\"num_hidden_layers\":3,\"intermediate_size\":24,\"vocab_size\":40,"                          \
    "\"position_embedding_type\":\"alibi\",\"feed_forward_type\":\"" type "\"}"
#define JINA_TENSORS                                                                               \
    "embeddings.word_embeddings.weight 40x16, embeddings.token_type_embeddings.weight "            \
    "2x16, " ENCODER_SMALL_NORM("embeddings.LayerNorm")                                            \
        ENCODER_LINEAR(JINA "attention.self.query", "16x16", "16")                                 \
            ENCODER_LINEAR(JINA "attention.self.key", "16x16", "16")                               \
                ENCODER_LINEAR(JINA "attention.self.value", "16x16", "16")                         \
                    ENCODER_LINEAR(JINA "attention.output.dense", "16x16", "16")                   \
                        ENCODER_SMALL_NORM(JINA "attention.output.LayerNorm")

TEST(jina_bert)
{
    jina_is_normed = false;
    encoder_check("jina", JINA_CONFIG("geglu"),
                  JINA_TENSORS ENCODER_SMALL_NORM(JINA "mlp.layernorm")
                      ENCODER_LINEAR(JINA "mlp.wo", "16x24", "16") JINA
                  "mlp.gated_layers.weight 48x16",
                  0, pass_jina);
}

TEST(jina_bert_of_norms)
{
    jina_is_normed = true;
    encoder_check("jina_code", JINA_CONFIG("reglu"),
                  JINA_TENSORS ENCODER_SMALL_NORM(JINA "attention.self.layer_norm_q")
                      ENCODER_SMALL_NORM(JINA "attention.self.layer_norm_k")
                          ENCODER_SMALL_NORM(JINA "layer_norm_1")
                              ENCODER_SMALL_NORM(JINA "layer_norm_2")
                                  ENCODER_LINEAR(JINA "mlp.down_layer", "16x24", "16") JINA
                  "mlp.up_gated_layer.weight 48x16",
                  0, pass_jina);
}

/* The other feed-forwards of its source are not computed. */
TEST(jina_bert_of_an_unknown_feed_forward)
{
    published_open(JINA_CONFIG("original"), JINA_TENSORS JINA "mlp.wo.weight 16x24", ENCODER_LAYERS,
                   "F32");
    published_save(fixture_path("jina_original"), JINA_CONFIG("original"));
    fixture_serve("--models", directory);
    trace_client_expect_none(&client, "jina_original", "\"tokens\":[1,2]",
                             "feed_forward_type is 'original'");
    fixture_stop(NULL);
    published_close();
}

EACH_TEST(fixture_make_directory, fixture_clear);
