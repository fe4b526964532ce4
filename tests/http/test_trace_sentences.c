/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_sentences.c - whole passes of the encoders that make vectors of sentences, and of
 * those of proteins, compared with POST /v1/trace.
 *
 * Each pass is written out of the forward() of the family's modeling file in Hugging Face
 * transformers, src/transformers/models/, at the commit that stands with it. */
#include "answer.h"
#include "fixture.h"
#include "forward_edits.h"
#include "forward_encoder.h"
#include "oip_client.h"
#include "test.h"

/* ------------------------------------------------------------------- MPNet -- */

#define MPNET "mpnet.encoder.layer.#."

/* compute_position_bias(). */
static double mpnet_bias(int64_t head, int64_t query, int64_t key)
{
    return published_tensor("mpnet.encoder.relative_attention_bias.weight", 0)
        .data[published_t5_bucket(key - query, true, 32, 128) * ENCODER_HEADS + head];
}

/* create_position_ids_from_input_ids(): padding, which is token 1, stays at position 1 and is not
 * counted. */
static struct rows mpnet_positions(void)
{
    int positions[64], next = 2;
    assert_true(decoder_length <= 64);
    for (int64_t i = 0; i < decoder_length; i++)
        positions[i] = decoder_tokens()[i] == 1 ? 1 : next++;
    return forward_embed(published_tensor("mpnet.embeddings.position_embeddings.weight", 0),
                         positions, decoder_length);
}

/* mpnet/modeling_mpnet.py at 00099b9f15ad: MPNetEmbeddings, MPNetLayer, MPNetLMHead. */
static void pass_mpnet(struct forward *forward)
{
    const struct decoder_attention attention = {
        .attention = { .heads = ENCODER_HEADS, .scale = 0.5, .bias = mpnet_bias },
    };
    struct rows x =
        forward_add(encoder_embed("mpnet.embeddings.word_embeddings.weight"), mpnet_positions());
    x = forward_layer_norm(x, "mpnet.embeddings.LayerNorm", 0, 1e-5);
    for (int layer = 0; layer < ENCODER_LAYERS; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        const struct decoder_projections projections = encoder_project(
            x, MPNET "attention.attn.q", MPNET "attention.attn.k", MPNET "attention.attn.v", layer);
        x = forward_add(x, decoder_attend(forward, &attention, x, x, projections,
                                          MPNET "attention.attn.o", layer));
        x = forward_layer_norm(x, MPNET "attention.LayerNorm", layer, 1e-5);
        x = forward_add(
            x, decoder_up_down(x, MPNET "intermediate.dense", "gelu", MPNET "output.dense", layer));
        x = forward_layer_norm(x, MPNET "output.LayerNorm", layer, 1e-5);
    }
    forward->final_hidden_states = x;
    forward->logits =
        encoder_masked_head(x, "lm_head.dense", "lm_head.layer_norm", 1e-5,
                            "mpnet.embeddings.word_embeddings.weight", "lm_head.bias");
}

#define MPNET_TENSORS                                                                              \
    "mpnet.embeddings.word_embeddings.weight 40x16, "                                              \
    "mpnet.embeddings.position_embeddings.weight 64x16, "                                          \
    "mpnet.encoder.relative_attention_bias.weight 32x4*3, " ENCODER_NORM(                          \
        "mpnet.embeddings.LayerNorm") ENCODER_LINEAR(MPNET "attention.attn.q", "16x16", "16")      \
        ENCODER_LINEAR(MPNET "attention.attn.k", "16x16", "16")                                    \
            ENCODER_LINEAR(MPNET "attention.attn.v", "16x16", "16")                                \
                ENCODER_LINEAR(MPNET "attention.attn.o", "16x16", "16")                            \
                    ENCODER_NORM(MPNET "attention.LayerNorm")                                      \
                        ENCODER_LINEAR(MPNET "intermediate.dense", "24x16", "24")                  \
                            ENCODER_LINEAR(MPNET "output.dense", "16x24", "16")                    \
                                ENCODER_NORM(MPNET "output.LayerNorm")                             \
                                    ENCODER_LINEAR("lm_head.dense", "16x16", "16")                 \
                                        ENCODER_NORM("lm_head.layer_norm") "lm_head.bias 40"
#define MPNET_CONFIG                                                                               \
    "{\"model_type\":\"mpnet\",\"hidden_size\":16,\"num_attention_heads\":4,"                      \
    "\"num_hidden_layers\":3,\"intermediate_size\":24,\"vocab_size\":40,"                          \
    "\"max_position_embeddings\":64,\"layer_norm_eps\":1e-5,"                                      \
    "\"relative_attention_num_buckets\":32}"

TEST(mpnet)
{
    encoder_check("masked_mpnet", MPNET_CONFIG, MPNET_TENSORS, 0, pass_mpnet);
}

/* More tokens than those that have a bucket of their own, padding among them. */
TEST(mpnet_of_60_tokens)
{
    encoder_check("masked_mpnet_60", MPNET_CONFIG, MPNET_TENSORS, 60, pass_mpnet);
}

/* -------------------------------------------------------------- ModernBERT -- */

#define MODERN "model.layers.#."

static double modern_full_theta, modern_local_theta;
static int modern_every;

/* modernbert/modeling_modernbert.py at 000c33fdfde1: ModernBertEncoderLayer, with the mask of
 * _update_attention_mask() and the thetas of ModernBertConfig. The norms of the test have biases.
 */
static struct rows modern_block(struct forward *forward, struct rows x, int layer)
{
    const bool is_local = layer % modern_every != 0;
    const struct decoder_attention attention = {
        .attention = { .heads = ENCODER_HEADS, .scale = 0.5, .reach = is_local ? 2 : 0 },
        .rotary_dim = ENCODER_WIDTH / ENCODER_HEADS,
        .theta = is_local ? modern_local_theta : modern_full_theta,
    };
    x = forward_edits_enter("self", layer, layer, x);
    const struct rows inputs =
        layer == 0 ? x : forward_layer_norm(x, MODERN "attn_norm", layer, 1e-5);
    x = forward_add(x, decoder_attend(forward, &attention, x, inputs,
                                      encoder_project_fused(inputs, MODERN "attn.Wqkv", layer),
                                      MODERN "attn.Wo", layer));
    const struct rows both = published_linear(forward_layer_norm(x, MODERN "mlp_norm", layer, 1e-5),
                                              MODERN "mlp.Wi", layer);
    const struct rows input = published_split(both, 1, 0, 24),
                      gate = published_split(both, 1, 24, 24);
    const struct rows inner = forward_multiply(forward_activation(input, "gelu"), gate);
    return forward_add(
        x, forward_edits_fed("self", layer, published_linear(inner, MODERN "mlp.Wo", layer)));
}

static void pass_modern_without_head(struct forward *forward)
{
    struct rows x = forward_layer_norm(encoder_embed("model.embeddings.tok_embeddings.weight"),
                                       "model.embeddings.norm", 0, 1e-5);
    for (int layer = 0; layer < ENCODER_LAYERS; layer++)
        x = modern_block(forward, x, layer);
    forward->final_hidden_states = forward_layer_norm(x, "model.final_norm", 0, 1e-5);
}

/* ModernBertForMaskedLM with ModernBertPredictionHead. */
static void pass_modern(struct forward *forward)
{
    pass_modern_without_head(forward);
    forward->logits =
        encoder_masked_head(forward->final_hidden_states, "head.dense", "head.norm", 1e-5,
                            "model.embeddings.tok_embeddings.weight", "decoder.bias");
}

#define MODERN_CONFIG(more)                                                                        \
    "{\"model_type\":\"modernbert\",\"hidden_size\":16,\"num_attention_heads\":4,"                 \
    "\"num_hidden_layers\":3,\"intermediate_size\":24,\"vocab_size\":40,\"local_attention\":"      \
    "5" more "}"
/* Norms as in the file of ModernBERT-base, without biases; and all that may have one with it. */
#define MODERN_TENSORS(NORM_OF, more)                                                              \
    "model.embeddings.tok_embeddings.weight 40x16, " NORM_OF("model.embeddings.norm")              \
        NORM_OF("model.layers.1.attn_norm") NORM_OF("model.layers.2.attn_norm")                    \
            NORM_OF(MODERN "mlp_norm") NORM_OF("model.final_norm") NORM_OF("head.norm")            \
                more MODERN "attn.Wqkv.weight 48x16, " MODERN "attn.Wo.weight 16x16, " MODERN      \
                            "mlp.Wi.weight 48x16, " MODERN                                         \
                            "mlp.Wo.weight 16x24, head.dense.weight 16x16"
#define MODERN_BIASES                                                                              \
    MODERN "attn.Wqkv.bias 48, " MODERN "attn.Wo.bias 16, " MODERN "mlp.Wi.bias 48, " MODERN       \
           "mlp.Wo.bias 16, head.dense.bias 16, decoder.bias 40, "

TEST(modernbert)
{
    modern_full_theta = 160000;
    modern_local_theta = 10000;
    modern_every = 3;
    encoder_check("masked_modernbert", MODERN_CONFIG(""),
                  MODERN_TENSORS(ENCODER_BARE_NORM, "decoder.bias 40, "), 0, pass_modern);
}

/* Everything that has a default has another value. */
TEST(modernbert_with_biases)
{
    modern_full_theta = 500;
    modern_local_theta = 90;
    modern_every = 2;
    encoder_check("masked_biased",
                  MODERN_CONFIG(",\"norm_bias\":true,\"mlp_bias\":true,\"attention_bias\":true,"
                                "\"classifier_bias\":true,\"global_attn_every_n_layers\":2,"
                                "\"global_rope_theta\":500,\"local_rope_theta\":90"),
                  MODERN_TENSORS(ENCODER_SMALL_NORM, MODERN_BIASES), 0, pass_modern);
}

/* As transformers 5 writes it: layer_types, and theta by their types. */
TEST(modernbert_of_layer_types)
{
    modern_full_theta = 700;
    modern_local_theta = 80;
    modern_every = 2;
    encoder_check(
        "masked_typed",
        MODERN_CONFIG(",\"layer_types\":[\"full_attention\",\"sliding_attention\","
                      "\"full_attention\"],\"rope_parameters\":{\"full_attention\":{"
                      "\"rope_type\":\"default\",\"rope_theta\":700},\"sliding_attention\":{"
                      "\"rope_type\":\"default\",\"rope_theta\":80}}"),
        MODERN_TENSORS(ENCODER_BARE_NORM, "decoder.bias 40, "), 0, pass_modern);
}

/* ModernBertForSequenceClassification has the head's dense layer too, and no bias of a decoder: its
 * tokens have no predictions. */
TEST(modernbert_of_classes)
{
    modern_full_theta = 160000;
    modern_local_theta = 10000;
    modern_every = 3;
    encoder_check("classes", MODERN_CONFIG(""),
                  MODERN_TENSORS(ENCODER_BARE_NORM, "classifier.weight 3x16, "), 0,
                  pass_modern_without_head);
}

/* --------------------------------------------------------------------- ESM -- */

#define ESM "esm.encoder.layer.#."

enum { ESM_MASK = 26, ESM_VISIBLE = 10 };

/* EsmEmbeddings with token_dropout: masked tokens are zeros, and the others are scaled by the part
 * of tokens that were not masked in training, over that part of the text. */
static struct rows esm_tokens(int64_t visible)
{
    const struct rows x = encoder_embed("esm.embeddings.word_embeddings.weight");
    const double mask_ratio_train = 0.15 * 0.8;
    double masked = 0;
    for (int64_t i = 0; i < decoder_length; i++)
        masked += decoder_tokens()[i] == ESM_MASK;
    assert_true(masked == 2);
    for (int64_t i = 0; i < x.count * x.columns; i++) {
        if (decoder_tokens()[i / x.columns] == ESM_MASK)
            x.data[i] = 0;
        x.data[i] *= (1 - mask_ratio_train) / (1 - masked / (double)visible);
    }
    return x;
}

/* esm/modeling_esm.py at 0220b9db084f: EsmLayer and EsmEncoder. */
static void esm_encoder(struct forward *forward, struct rows x, bool is_rotary)
{
    const struct decoder_attention attention = {
        .attention = { .heads = ENCODER_HEADS, .scale = 0.5 },
        .rotary_dim = is_rotary ? ENCODER_WIDTH / ENCODER_HEADS : 0,
        .theta = 10000
    };
    for (int layer = 0; layer < ENCODER_LAYERS; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        const struct rows inputs = forward_layer_norm(x, ESM "attention.LayerNorm", layer, 1e-5);
        const struct decoder_projections projections =
            encoder_project(inputs, ESM "attention.self.query", ESM "attention.self.key",
                            ESM "attention.self.value", layer);
        x = forward_add(x, decoder_attend(forward, &attention, x, inputs, projections,
                                          ESM "attention.output.dense", layer));
        x = forward_add(x, decoder_up_down(forward_layer_norm(x, ESM "LayerNorm", layer, 1e-5),
                                           ESM "intermediate.dense", "gelu", ESM "output.dense",
                                           layer));
    }
    x = forward_layer_norm(x, "esm.encoder.emb_layer_norm_after", 0, 1e-5);
    forward->final_hidden_states = x;
    forward->logits = encoder_masked_head(x, "lm_head.dense", "lm_head.layer_norm", 1e-5,
                                          "esm.embeddings.word_embeddings.weight", "lm_head.bias");
}

static void pass_esm2(struct forward *forward)
{
    esm_encoder(forward, esm_tokens(decoder_length), true);
}

/* Positions, which begin behind the padding's, and a norm. */
static void pass_esm1b(struct forward *forward)
{
    const struct rows positions = forward_slice(
        published_tensor("esm.embeddings.position_embeddings.weight", 0), 5, decoder_length);
    const struct rows x =
        forward_add(encoder_embed("esm.embeddings.word_embeddings.weight"), positions);
    esm_encoder(forward, forward_layer_norm(x, "esm.embeddings.layer_norm", 0, 1e-5), false);
}

#define ESM_TENSORS                                                                                \
    "esm.embeddings.word_embeddings.weight 40x16, " ENCODER_LINEAR(ESM "attention.self.query",     \
                                                                   "16x16", "16")                  \
        ENCODER_LINEAR(ESM "attention.self.key", "16x16", "16")                                    \
            ENCODER_LINEAR(ESM "attention.self.value", "16x16", "16")                              \
                ENCODER_LINEAR(ESM "attention.output.dense", "16x16", "16")                        \
                    ENCODER_LINEAR(ESM "intermediate.dense", "24x16", "24")                        \
                        ENCODER_LINEAR(ESM "output.dense", "16x24", "16") ENCODER_SMALL_NORM(      \
                            ESM "attention.LayerNorm") ENCODER_SMALL_NORM(ESM "LayerNorm")         \
                            ENCODER_SMALL_NORM("esm.encoder.emb_layer_norm_after")                 \
                                ENCODER_LINEAR("lm_head.dense", "16x16", "16")                     \
                                    ENCODER_SMALL_NORM("lm_head.layer_norm") "lm_head.bias 40"
#define ESM_CONFIG(more)                                                                           \
    "{\"model_type\":\"esm\",\"hidden_size\":16,\"num_attention_heads\":4,"                        \
    "\"num_hidden_layers\":3,\"intermediate_size\":24,\"vocab_size\":40,\"layer_norm_eps\":1e-5,"  \
    "\"mask_token_id\":26" more "}"
#define ESM2_CONFIG ESM_CONFIG(",\"position_embedding_type\":\"rotary\",\"token_dropout\":true")

TEST(esm2)
{
    encoder_check("masked_esm2", ESM2_CONFIG, ESM_TENSORS, 0, pass_esm2);
}

TEST(esm1b)
{
    encoder_check(
        "masked_esm1b",
        ESM_CONFIG(",\"position_embedding_type\":\"absolute\",\"emb_layer_norm_before\":true,"
                   "\"pad_token_id\":4"),
        ESM_TENSORS ", esm.embeddings.position_embeddings.weight 64x16, "
                    "esm.embeddings.layer_norm.weight 16*4, esm.embeddings.layer_norm.bias 16",
        0, pass_esm1b);
}

/* ---------------------------------------------------------------- contacts -- */

#define ESM_CONTACTS                                                                               \
    ", esm.contact_head.regression.weight 1x12*3, esm.contact_head.regression.bias 1"

enum { CONTACT_TOKENS = 9, CONTACT_INNER = CONTACT_TOKENS - 2, ESM_END = 2 };

/* One among them is the token that ends a protein. */
static const int CONTACT_IDS[CONTACT_TOKENS] = { 0, 5, 7, 2, 9, 26, 12, 5, 2 };
#define CONTACT_FIELDS "\"tokens\":[0,5,7,2,9,26,12,5,2]"

/* The map of a head without what eos_mask hides, the first row and the last. */
static void crop_map(const double *weights, double map[CONTACT_INNER][CONTACT_INNER])
{
    for (int i = 0; i < CONTACT_INNER; i++)
        for (int j = 0; j < CONTACT_INNER; j++)
            map[i][j] = CONTACT_IDS[i + 1] == ESM_END || CONTACT_IDS[j + 1] == ESM_END
                            ? 0
                            : weights[(i + 1) * CONTACT_TOKENS + j + 1];
}

/* symmetrize() and average_product_correct(), times the weight of the head. */
static void add_corrected(double map[CONTACT_INNER][CONTACT_INNER], double weight,
                          double logits[CONTACT_INNER][CONTACT_INNER])
{
    double sums[CONTACT_INNER] = { 0 }, sum = 0;
    for (int i = 0; i < CONTACT_INNER; i++)
        for (int j = 0; j < CONTACT_INNER; j++)
            sums[i] += map[i][j] + map[j][i];
    for (int i = 0; i < CONTACT_INNER; i++)
        sum += sums[i];
    for (int i = 0; i < CONTACT_INNER; i++)
        for (int j = 0; j < CONTACT_INNER; j++)
            logits[i][j] += weight * (map[i][j] + map[j][i] - sums[i] * sums[j] / sum);
}

/* EsmContactPredictionHead.forward() of the maps that the daemon answered, [layers][heads]. */
static void expect_contacts(const cJSON *answer)
{
    static const int64_t shape[] = { ENCODER_HEADS, CONTACT_TOKENS, CONTACT_TOKENS };
    static const int64_t inner[] = { CONTACT_INNER, CONTACT_INNER };
    const struct rows weights = published_tensor("esm.contact_head.regression.weight", 0);
    double logits[CONTACT_INNER][CONTACT_INNER] = { { 0 } };
    for (int layer = 0; layer < ENCODER_LAYERS; layer++) {
        double map[CONTACT_INNER][CONTACT_INNER];
        double *maps = answer_numbers(
            cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "layers"), layer), "weights", 3, shape);
        for (int h = 0; h < ENCODER_HEADS; h++) {
            crop_map(maps + h * CONTACT_TOKENS * CONTACT_TOKENS, map);
            add_corrected(map, weights.data[layer * ENCODER_HEADS + h], logits);
        }
        free(maps);
    }
    double *contacts = answer_numbers(answer, "contacts", 2, inner);
    const double bias = published_tensor("esm.contact_head.regression.bias", 0).data[0];
    double least = 1, most = 0;
    for (int i = 0; i < CONTACT_INNER * CONTACT_INNER; i++) {
        const double logit = logits[i / CONTACT_INNER][i % CONTACT_INNER] + bias;
        assert_true(fabs(contacts[i] - 1 / (1 + exp(-logit))) < 1e-6);
        least = fmin(least, contacts[i]);
        most = fmax(most, contacts[i]);
    }
    assert_true(most - least > 0.05);
    free(contacts);
}

/* The maps are those of test esm2; contacts alone answer the same, and those of an edited pass are
 * of its maps. */
TEST(esm2_contacts)
{
    published_open(ESM2_CONFIG, ESM_TENSORS ESM_CONTACTS, ENCODER_LAYERS, "F32");
    published_save(fixture_path("contacts"), ESM2_CONFIG);
    fixture_serve("--models", directory);
    cJSON *answer = answer_post(&client, "/v1/trace",
                                "{\"model\":\"contacts\"," CONTACT_FIELDS
                                ",\"outputs\":[\"weights\",\"contacts\"]}");
    expect_contacts(answer);
    cJSON *alone =
        answer_post(&client, "/v1/trace/batch",
                    "{\"model\":\"contacts\",\"outputs\":[\"contacts\"],\"layers\":[],"
                    "\"requests\":[{\"tokens\":[0,5,2]},{" CONTACT_FIELDS "},{\"tokens\":[0,2]}]}");
    const cJSON *results = cJSON_GetObjectItem(alone, "results");
    answer_expect_equal(answer, cJSON_GetArrayItem(results, 1), "contacts");
    assert_int_equal(
        cJSON_GetArraySize(cJSON_GetObjectItem(cJSON_GetArrayItem(results, 0), "contacts")), 1);
    answer_expect(cJSON_GetArrayItem(results, 2), "contacts", "[]", 0);
    cJSON_Delete(alone);
    cJSON_Delete(answer);
    answer = answer_post(&client, "/v1/trace",
                         "{\"model\":\"contacts\"," CONTACT_FIELDS
                         ",\"outputs\":[\"weights\",\"contacts\"],\"edits\":[{\"hide\":[[2,3]],"
                         "\"layers\":[1]}]}");
    expect_contacts(answer);
    cJSON_Delete(answer);
    answer_refused(&client, "/v1/trace",
                   "{\"model\":\"contacts\",\"embeddings\":[[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]],"
                   "\"outputs\":[\"contacts\"]}",
                   400, "option", "/outputs");
    fixture_stop(NULL);
    published_close();
}

TEST(esm2_without_contacts)
{
    published_open(ESM2_CONFIG, ESM_TENSORS, ENCODER_LAYERS, "F32");
    published_save(fixture_path("bare"), ESM2_CONFIG);
    fixture_serve("--models", directory);
    answer_refused(&client, "/v1/trace",
                   "{\"model\":\"bare\",\"tokens\":[0,5,2],\"outputs\":[\"contacts\"]}", 400,
                   "option", "/outputs");
    fixture_stop(NULL);
    published_close();
}

/* src_lengths is the number of tokens that attention_mask shows. */
TEST(esm2_of_fewer_visible_tokens)
{
    static const int64_t shape[] = { 1, 11, ENCODER_WIDTH };
    struct oip_request request = { .parameters = NULL };
    published_open(ESM2_CONFIG, ESM_TENSORS, ENCODER_LAYERS, "F32");
    published_save(fixture_path("esm"), ESM2_CONFIG);
    fixture_serve("--models", directory);
    oip_add_json(&request, "input_ids", "INT64", "[1,11]", "[0,7,28,39,32,18,15,26,11,10,26]");
    oip_add_json(&request, "attention_mask", "INT64", "[1,11]", "[1,1,1,1,1,1,1,1,1,0,1]");
    oip_ask(&request, "hidden_states.0", NULL);
    struct oip_answer answer = oip_post(&client, "esm", &request);
    decoder_length = 11;
    oip_expect_numbers(&answer, "hidden_states.0", "FP32", 3, shape, esm_tokens(10).data, 1e-6);
    oip_answer_free(&answer);
    oip_request_free(&request);
    fixture_stop(NULL);
    published_close();
}

/* A text of nothing but masks has no scale in the source; here its rows are zeros. */
TEST(esm2_of_masks)
{
    published_open(ESM2_CONFIG, ESM_TENSORS, ENCODER_LAYERS, "F32");
    published_save(fixture_path("esm"), ESM2_CONFIG);
    fixture_serve("--models", directory);
    cJSON *answer = answer_post(&client, "/v1/trace",
                                "{\"model\":\"esm\",\"tokens\":[26,26],\"layers\":[0],"
                                "\"outputs\":[\"hidden_states\"]}");
    const cJSON *layer = cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "layers"), 0);
    answer_expect(layer, "hidden_states",
                  "[[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]]", 0);
    cJSON_Delete(answer);
    fixture_stop(NULL);
    published_close();
}

EACH_TEST(fixture_make_directory, fixture_clear);
