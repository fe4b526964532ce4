/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_encoders.c - traces of encoders of text, beside their families' source in double.
 *
 * "The source" is Hugging Face transformers 4.34, in the file of each family's name,
 * models/bert/modeling_bert.py and so on. */
#include "answer.h"
#include "edited_client.h"
#include "fixture.h"
#include "forward_bert.h"
#include "forward_block.h"
#include "reading_client.h"
#include "test.h"
#include "trace_client.h"

enum { LAYERS = FORWARD_BERT_LAYERS, HEADS = FORWARD_BERT_HEADS, TOKENS = FORWARD_BERT_TOKENS };

static const int POSITIONS[] = { 0, 3, 6 };
enum { POSITION_COUNT = sizeof POSITIONS / sizeof POSITIONS[0] };

static struct rows positions_from(const char *table, int first, int count)
{
    return forward_slice(published_tensor(table, 0), first, count);
}

/* The logits of rows that went through a head: x . table^T + bias. */
static struct rows decode(struct rows x, const char *table, const char *bias)
{
    return forward_add_row(forward_product(x, published_tensor(table, 0)),
                           published_tensor(bias, 0));
}

/* Serves the open checkpoint under this name and compares its trace; then its predictions, if
 * there are logits. */
static void compare(const char *name, const char *config, const char *fields,
                    const struct forward *want)
{
    published_save(fixture_path(name), config);
    fixture_serve("--models", directory);
    trace_client_expect(&client, name, fields, want);
    if (want->logits.data)
        trace_client_expect_predictions(&client, name, fields, POSITIONS, POSITION_COUNT, want);
    fixture_stop(NULL);
    published_close();
}

/* ------------------------------------------------------------------- BERT -- */

#define BERT_CONFIG(type, more)                                                                    \
    "{\"model_type\":\"" type "\",\"hidden_size\":12,\"num_attention_heads\":2,"                   \
    "\"num_hidden_layers\":2,\"intermediate_size\":20,\"vocab_size\":40,"                          \
    "\"max_position_embeddings\":16" more "}"

static const int IDS[TOKENS] = { 2, 17, 39, 5, 5, 30, 3 };
static const int TYPES[TOKENS] = { 0, 0, 0, 0, 1, 1, 1 };
static const int NO_TYPES[TOKENS] = { 0 };
static const int FROM_0[TOKENS] = { 0, 1, 2, 3, 4, 5, 6 };

#define IDS_FIELD   "\"tokens\":[2,17,39,5,5,30,3]"
#define TYPES_FIELD ",\"token_types\":[0,0,0,0,1,1,1]"

/* BertLMPredictionHead. */
static struct rows bert_head(struct rows x, const char *activation, double eps)
{
    x = forward_activation(published_linear(x, "cls.predictions.transform.dense", 0), activation);
    x = forward_layer_norm(x, "cls.predictions.transform.LayerNorm", 0, eps);
    return decode(x, "bert.embeddings.word_embeddings.weight", "cls.predictions.bias");
}

#define BERT_TENSORS(NORM)                                                                         \
    BERT_EMBEDDINGS("bert.", 2, 12, NORM)                                                          \
    BERT_BLOCK("bert.encoder.layer.#.", 12, 20, NORM)                                              \
    FORWARD_LINEAR("cls.predictions.transform.dense", 12, 12)                                      \
    NORM("cls.predictions.transform.LayerNorm", 12) FORWARD_TENSOR("cls.predictions.bias", 40)

static void pass_bert(struct forward *forward)
{
    *forward =
        forward_bert(&(struct forward_bert){ "bert.", "gelu", 1e-12, IDS, TYPES, FROM_0, 0, 0 });
    forward->logits = bert_head(forward->final_hidden_states, "gelu", 1e-12);
}

TEST(bert)
{
    static const char CONFIG[] = BERT_CONFIG("bert", ",\"type_vocab_size\":2");
    published_open(CONFIG, BERT_TENSORS(FORWARD_NORM), LAYERS, "F32");
    struct forward want;
    pass_bert(&want);
    compare("bert", CONFIG, IDS_FIELD TYPES_FIELD, &want);
}

/* Norms behind the parts follow what edits leave. */
TEST(bert_edited)
{
    static const char CONFIG[] = BERT_CONFIG("bert", ",\"type_vocab_size\":2");
    struct forward want;
    published_open(CONFIG, BERT_TENSORS(FORWARD_NORM), LAYERS, "F32");
    published_save(fixture_path("bert"), CONFIG);
    pass_bert(&want);
    fixture_serve("--models", directory);
    edited_client_expect("bert", IDS_FIELD TYPES_FIELD, &want, pass_bert);
    reading_client_expect_repeats("bert", IDS_FIELD TYPES_FIELD, IDS, TOKENS, &want);
    reading_client_expect_lens_at("bert", IDS_FIELD TYPES_FIELD, 0,
                                  bert_head(want.layers[1].hidden_states, "gelu", 1e-12));
    reading_client_expect_lens_at("bert", IDS_FIELD TYPES_FIELD, 1, want.logits);
    /* Its head has a layer of its own. */
    answer_refused(&client, "/v1/trace",
                   "{\"model\":\"bert\"," IDS_FIELD
                   ",\"outputs\":[\"contributions\"],\"targets\":[{\"position\":0,\"token\":1}]}",
                   400, "option", "/outputs");
    fixture_stop(NULL);
    published_close();
}

/* The norms of the first checkpoints are called gamma and beta; _fix_key() of modeling_utils.py
 * renames them. Parameters are F16. */
#define OLD_NORM(name, size) name ".gamma " #size "*4, " name ".beta " #size ", "

TEST(bert_of_2018)
{
    static const char CONFIG[] =
        BERT_CONFIG("bert", ",\"hidden_act\":\"gelu_new\",\"layer_norm_eps\":0.01");
    published_open(CONFIG, BERT_TENSORS(OLD_NORM), LAYERS, "F16");
    struct forward want = forward_bert(
        &(struct forward_bert){ "bert.", "gelu_new", 0.01, IDS, NO_TYPES, FROM_0, 0, 0 });
    want.logits = bert_head(want.final_hidden_states, "gelu_new", 0.01);
    compare("old", CONFIG, IDS_FIELD, &want);
}

#define HEADLESS_TENSORS                                                                           \
    BERT_EMBEDDINGS("", 2, 12, FORWARD_NORM)                                                       \
    BERT_BLOCK("encoder.layer.#.", 12, 20, FORWARD_NORM)                                           \
    FORWARD_LINEAR("pooler.dense", 12, 12)

/* Errors grow with depth and width: twelve layers of 96 columns in 4 heads. Norms are smaller,
 * since a softmax of scores as far as 50 apart enlarges what is lost in their floats. */
#define SMALL_NORM(name, size) name ".weight " #size "*2, " FORWARD_TENSOR(name ".bias", size)
#define DEEP_TENSORS                                                                               \
    BERT_EMBEDDINGS("bert.", 2, 96, SMALL_NORM)                                                    \
    BERT_BLOCK("bert.encoder.layer.#.", 96, 192, SMALL_NORM)

TEST(bert_of_12_layers)
{
    static const char CONFIG[] =
        "{\"model_type\":\"bert\",\"hidden_size\":96,\"num_attention_heads\":4,"
        "\"num_hidden_layers\":12,\"intermediate_size\":192,\"vocab_size\":40,"
        "\"max_position_embeddings\":16}";
    published_open(CONFIG, DEEP_TENSORS, 12, "F32");
    const struct forward want =
        forward_bert(&(struct forward_bert){ "bert.", "gelu", 1e-12, IDS, TYPES, FROM_0, 12, 4 });
    compare("deep", CONFIG, IDS_FIELD TYPES_FIELD, &want);
}

/* A BertModel, whose names have no "bert." before them, has no head. */
TEST(bert_without_head)
{
    static const char CONFIG[] = BERT_CONFIG("bert", ",\"hidden_act\":\"silu\"");
    published_open(CONFIG, HEADLESS_TENSORS, LAYERS, "F32");
    const struct forward want =
        forward_bert(&(struct forward_bert){ "", "silu", 1e-12, IDS, TYPES, FROM_0, 0, 0 });
    compare("headless", CONFIG, IDS_FIELD TYPES_FIELD, &want);
}

/* ---------------------------------------------------------------- RoBERTa -- */

#define ROBERTA_TENSORS                                                                            \
    BERT_EMBEDDINGS("roberta.", 1, 12, FORWARD_NORM)                                               \
    BERT_BLOCK("roberta.encoder.layer.#.", 12, 20, FORWARD_NORM)                                   \
    FORWARD_LINEAR("lm_head.dense", 12, 12)                                                        \
    FORWARD_NORM("lm_head.layer_norm", 12)                                                         \
    FORWARD_TENSOR("lm_head.bias", 40)

/* create_position_ids_from_input_ids(): padding stays at the padding's own position. */
TEST(roberta)
{
    static const char CONFIG[] = BERT_CONFIG("roberta", ",\"type_vocab_size\":1,"
                                                        "\"pad_token_id\":1,\"hidden_act\":"
                                                        "\"relu\",\"layer_norm_eps\":1e-5");
    static const int ids[TOKENS] = { 0, 17, 1, 39, 5, 1, 2 };
    static const int positions[TOKENS] = { 2, 3, 1, 4, 5, 1, 6 };
    published_open(CONFIG, ROBERTA_TENSORS, LAYERS, "F32");
    struct forward want = forward_bert(
        &(struct forward_bert){ "roberta.", "relu", 1e-5, ids, NO_TYPES, positions, 0, 0 });
    /* RobertaLMHead calls gelu() itself. */
    struct rows x = published_linear(want.final_hidden_states, "lm_head.dense", 0);
    x = forward_layer_norm(forward_activation(x, "gelu"), "lm_head.layer_norm", 0, 1e-5);
    want.logits = decode(x, "roberta.embeddings.word_embeddings.weight", "lm_head.bias");
    compare("roberta", CONFIG, "\"tokens\":[0,17,1,39,5,1,2]", &want);
}

/* XLM-RoBERTa computes the same, padding is token 1 unless given, and the head here is not tied. */
TEST(xlm_roberta)
{
    static const char CONFIG[] =
        BERT_CONFIG("xlm-roberta", ",\"type_vocab_size\":1,"
                                   "\"tie_word_embeddings\":false,\"layer_norm_eps\":1e-5");
    static const int positions[TOKENS] = { 2, 3, 4, 5, 6, 7, 8 };
    published_open(CONFIG, ROBERTA_TENSORS FORWARD_TENSOR("lm_head.decoder.weight", 40x12), LAYERS,
                   "F32");
    struct forward want = forward_bert(
        &(struct forward_bert){ "roberta.", "gelu", 1e-5, IDS, NO_TYPES, positions, 0, 0 });
    struct rows x = published_linear(want.final_hidden_states, "lm_head.dense", 0);
    x = forward_layer_norm(forward_activation(x, "gelu"), "lm_head.layer_norm", 0, 1e-5);
    want.logits = decode(x, "lm_head.decoder.weight", "lm_head.bias");
    compare("xlm", CONFIG, IDS_FIELD, &want);
}

/* ---------------------------------------------------------------- ELECTRA -- */

#define ELECTRA_TENSORS                                                                            \
    BERT_EMBEDDINGS("electra.", 2, 8, FORWARD_NORM)                                                \
    FORWARD_LINEAR("electra.embeddings_project", 12, 8)                                            \
    BERT_BLOCK("electra.encoder.layer.#.", 12, 20, FORWARD_NORM)                                   \
    FORWARD_LINEAR("generator_predictions.dense", 8, 12)                                           \
    FORWARD_NORM("generator_predictions.LayerNorm", 8)                                             \
    FORWARD_TENSOR("generator_lm_head.bias", 40)

/* Embeddings of 8 columns, projected to 12. ElectraGeneratorPredictions uses GELU whatever the
 * blocks use. */
TEST(electra)
{
    static const char CONFIG[] = BERT_CONFIG("electra", ",\"embedding_size\":8,"
                                                        "\"hidden_act\":\"relu\"");
    published_open(CONFIG, ELECTRA_TENSORS, LAYERS, "F32");
    struct forward want =
        forward_bert(&(struct forward_bert){ "electra.", "relu", 1e-12, IDS, TYPES, FROM_0, 0, 0 });
    struct rows x = published_linear(want.final_hidden_states, "generator_predictions.dense", 0);
    x = forward_layer_norm(forward_activation(x, "gelu"), "generator_predictions.LayerNorm", 0,
                           1e-12);
    want.logits = decode(x, "electra.embeddings.word_embeddings.weight", "generator_lm_head.bias");
    compare("electra", CONFIG, IDS_FIELD TYPES_FIELD, &want);
}

/* ------------------------------------------------------------- DistilBERT -- */

#define DISTILBERT_TENSORS                                                                         \
    DISTILBERT                                                                                     \
    FORWARD_LINEAR("vocab_transform", 12, 12)                                                      \
    FORWARD_NORM("vocab_layer_norm", 12)                                                           \
    FORWARD_TENSOR("vocab_projector.bias", 40)

TEST(distilbert)
{
    static const char CONFIG[] =
        "{\"model_type\":\"distilbert\",\"dim\":12,\"n_heads\":2,\"n_layers\":2,\"hidden_dim\":20,"
        "\"vocab_size\":40,\"max_position_embeddings\":16,\"activation\":\"gelu\"}";
    static const struct forward_block block = {
        .self = { .kind = "self",
                  .q = DISTILBERT_LAYER "attention.q_lin",
                  .k = DISTILBERT_LAYER "attention.k_lin",
                  .v = DISTILBERT_LAYER "attention.v_lin",
                  .output = DISTILBERT_LAYER "attention.out_lin",
                  .norm = DISTILBERT_LAYER "sa_layer_norm",
                  .of = { .heads = HEADS, .scale = 0.408248290463863 } },
        .up = DISTILBERT_LAYER "ffn.lin1",
        .down = DISTILBERT_LAYER "ffn.lin2",
        .norm = DISTILBERT_LAYER "output_layer_norm",
        .activation = "gelu",
        .eps = 1e-12,
    };
    published_open(CONFIG, DISTILBERT_TENSORS, LAYERS, "F32");
    struct forward want = { .layer_count = 0 };
    struct rows x = forward_embed(
        published_tensor("distilbert.embeddings.word_embeddings.weight", 0), IDS, TOKENS);
    x = forward_add(x,
                    positions_from("distilbert.embeddings.position_embeddings.weight", 0, TOKENS));
    x = forward_layer_norm(x, "distilbert.embeddings.LayerNorm", 0, 1e-12);
    for (int layer = 0; layer < LAYERS; layer++)
        x = forward_block_run(&want, &block, x, FORWARD_NONE, layer);
    want.final_hidden_states = x;
    x = forward_activation(published_linear(x, "vocab_transform", 0), "gelu");
    x = forward_layer_norm(x, "vocab_layer_norm", 0, 1e-12);
    want.logits = decode(x, "distilbert.embeddings.word_embeddings.weight", "vocab_projector.bias");
    compare("distilbert", CONFIG, IDS_FIELD, &want);
}

/* ----------------------------------------------------------------- ALBERT -- */

#define ALBERT_LAYER "albert.encoder.albert_layer_groups.%d.albert_layers.%d."
#define ALBERT_CONFIG(more)                                                                        \
    "{\"model_type\":\"albert\",\"hidden_size\":12,\"embedding_size\":8,"                          \
    "\"num_attention_heads\":2,\"intermediate_size\":20,\"vocab_size\":40,"                        \
    "\"max_position_embeddings\":16," more "}"
#define ALBERT_ENDS                                                                                \
    ALBERT_EMBEDDINGS                                                                              \
    FORWARD_LINEAR("predictions.dense", 8, 12)                                                     \
    FORWARD_NORM("predictions.LayerNorm", 8)                                                       \
    FORWARD_TENSOR("predictions.bias", 40)

/* AlbertLayer number inner of a group, as attention layer number place. */
static struct rows albert_layer(struct forward *want, struct rows x, int group, int inner,
                                int place)
{
    static const char *const ENDS[] = { "attention.query",     "attention.key",
                                        "attention.value",     "attention.dense",
                                        "attention.LayerNorm", "ffn",
                                        "ffn_output",          "full_layer_layer_norm" };
    char n[8][96];
    for (int i = 0; i < 8; i++)
        snprintf(n[i], sizeof n[i], ALBERT_LAYER "%s", group, inner, ENDS[i]);
    const struct forward_block block = {
        .self = { .kind = "self",
                  .first_layer = place,
                  .q = n[0],
                  .k = n[1],
                  .v = n[2],
                  .output = n[3],
                  .norm = n[4],
                  .of = { .heads = HEADS, .scale = 0.408248290463863 } },
        .up = n[5],
        .down = n[6],
        .norm = n[7],
        .activation = "gelu_new",
        .eps = 1e-12,
    };
    return forward_block_run(want, &block, x, FORWARD_NONE, 0);
}

/* AlbertTransformer and AlbertMLMHead. */
static struct forward albert(int layers, int groups, int inner_count)
{
    struct forward want = { .layer_count = 0 };
    struct rows x = forward_bert_embeddings("albert.", IDS, TYPES, FROM_0, 1e-12);
    int place = 0;
    x = published_linear(x, "albert.encoder.embedding_hidden_mapping_in", 0);
    for (int layer = 0; layer < layers; layer++)
        for (int inner = 0; inner < inner_count; inner++)
            x = albert_layer(&want, x, layer * groups / layers, inner, place++);
    want.final_hidden_states = x;
    x = forward_activation(published_linear(x, "predictions.dense", 0), "gelu_new");
    x = forward_layer_norm(x, "predictions.LayerNorm", 0, 1e-12);
    want.logits = decode(x, "albert.embeddings.word_embeddings.weight", "predictions.bias");
    return want;
}

TEST(albert)
{
    static const char CONFIG[] = ALBERT_CONFIG(JSON("num_hidden_layers":3));
    published_open(
        CONFIG, ALBERT_ENDS ALBERT_BLOCK("albert.encoder.albert_layer_groups.0.albert_layers.0."),
        1, "F32");
    const struct forward want = albert(3, 1, 1);
    compare("albert", CONFIG, IDS_FIELD TYPES_FIELD, &want);
}

#define ALBERT_GROUPS                                                                              \
    ALBERT_BLOCK("albert.encoder.albert_layer_groups.#.albert_layers.0.")                          \
    ALBERT_BLOCK("albert.encoder.albert_layer_groups.#.albert_layers.1.")

/* Four layers, the first two of one group, the others of another, each two layers in a row. */
TEST(albert_of_groups)
{
    static const char CONFIG[] =
        ALBERT_CONFIG("\"num_hidden_layers\":4,\"num_hidden_groups\":2,\"inner_group_num\":2");
    published_open(CONFIG, ALBERT_ENDS ALBERT_GROUPS, 2, "F32");
    const struct forward want = albert(4, 2, 2);
    compare("groups", CONFIG, IDS_FIELD TYPES_FIELD, &want);
}

EACH_TEST(fixture_make_directory, fixture_clear);
