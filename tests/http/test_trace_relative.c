/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_relative.c - BERT with relative positions, position_embedding_type relative_key and
 * relative_key_query, beside its source in double.
 *
 * The source is Hugging Face transformers 4.34, models/bert/modeling_bert.py: BertSelfAttention
 * adds query . distance_embedding[l - r + max_position_embeddings - 1] to a score before it is
 * scaled, and relative_key_query the same product of the key. BertEmbeddings then adds no
 * positions. */
#include "answer.h"
#include "fixture.h"
#include "forward_block.h"
#include "published_client.h"
#include "session_client.h"
#include "test.h"
#include "trace_client.h"

enum { LAYERS = 2, HEADS = 2, HEAD_DIM = 6, WIDTH = 12, TOKENS = 7, POSITIONS = 16 };

#define CONFIG(type, more)                                                                         \
    "{\"model_type\":\"bert\",\"hidden_size\":12,\"num_attention_heads\":2,"                       \
    "\"num_hidden_layers\":2,\"intermediate_size\":20,\"vocab_size\":40,"                          \
    "\"max_position_embeddings\":16,\"position_embedding_type\":\"" type "\"" more "}"

#define LAYER "bert.encoder.layer.#."
#define TENSORS                                                                                    \
    FORWARD_TENSOR("bert.embeddings.word_embeddings.weight", 40x12)                                \
    FORWARD_TENSOR("bert.embeddings.position_embeddings.weight", 16x12)                            \
    FORWARD_TENSOR("bert.embeddings.token_type_embeddings.weight", 2x12)                           \
    FORWARD_NORM("bert.embeddings.LayerNorm", 12)                                                  \
    FORWARD_LINEAR(LAYER "attention.self.query", 12, 12)                                           \
    FORWARD_LINEAR(LAYER "attention.self.key", 12, 12)                                             \
    FORWARD_LINEAR(LAYER "attention.self.value", 12, 12)                                           \
    FORWARD_TABLE(LAYER "attention.self.distance_embedding.weight", 31x6)                          \
    FORWARD_LINEAR(LAYER "attention.output.dense", 12, 12)                                         \
    FORWARD_NORM(LAYER "attention.output.LayerNorm", 12)                                           \
    FORWARD_LINEAR(LAYER "intermediate.dense", 20, 12)                                             \
    FORWARD_LINEAR(LAYER "output.dense", 12, 20) FORWARD_NORM(LAYER "output.LayerNorm", 12)

static const int IDS[TOKENS] = { 2, 17, 39, 5, 5, 30, 3 };
static const int NO_TYPES[TOKENS] = { 0 };

#define IDS_FIELD "\"tokens\":[2,17,39,5,5,30,3]"

/* ------------------------------------------------------------------ source -- */

/* Of the layer that is computed now, for relative_scores(). */
static struct rows queries, keys, distances;
static bool has_key_term;

static double dot(struct rows a, int64_t row, int64_t head, int64_t distance)
{
    double sum = 0;
    for (int64_t e = 0; e < HEAD_DIM; e++)
        sum += a.data[row * a.columns + head * HEAD_DIM + e]
               * distances.data[(distance + POSITIONS - 1) * HEAD_DIM + e];
    return sum;
}

/* relative_position_scores_query and _key, scaled as attention_scores are. */
static double relative_scores(int64_t head, int64_t query, int64_t key)
{
    double sum = dot(queries, query, head, query - key);
    if (has_key_term)
        sum += dot(keys, key, head, query - key);
    return sum / sqrt(HEAD_DIM);
}

static void look_at(struct rows hidden, const char *query, const char *key, const char *table,
                    int layer)
{
    queries = published_linear(hidden, query, layer);
    keys = published_linear(hidden, key, layer);
    distances = published_tensor(table, layer);
}

static void look_at_layer(struct rows hidden, int layer)
{
    look_at(hidden, LAYER "attention.self.query", LAYER "attention.self.key",
            LAYER "attention.self.distance_embedding.weight", layer);
}

/* BertEmbeddings and AlbertEmbeddings. */
static struct rows embed(const char *words, const char *types, const char *norm)
{
    const struct rows x = forward_add(forward_embed(published_tensor(words, 0), IDS, TOKENS),
                                      forward_embed(published_tensor(types, 0), NO_TYPES, TOKENS));
    return forward_layer_norm(x, norm, 0, 1e-12);
}

static struct forward bert(bool causal)
{
    struct forward want = { .layer_count = 0 };
    const struct forward_block block = {
        .self = { .kind = "self",
                  .q = LAYER "attention.self.query",
                  .k = LAYER "attention.self.key",
                  .v = LAYER "attention.self.value",
                  .output = LAYER "attention.output.dense",
                  .norm = LAYER "attention.output.LayerNorm",
                  .of = { .heads = HEADS,
                          .scale = 1 / sqrt(HEAD_DIM),
                          .causal = causal,
                          .bias = relative_scores } },
        .up = LAYER "intermediate.dense",
        .down = LAYER "output.dense",
        .norm = LAYER "output.LayerNorm",
        .activation = "gelu",
        .eps = 1e-12,
    };
    struct rows x =
        embed("bert.embeddings.word_embeddings.weight",
              "bert.embeddings.token_type_embeddings.weight", "bert.embeddings.LayerNorm");
    for (int layer = 0; layer < LAYERS; layer++) {
        look_at_layer(x, layer);
        x = forward_block_run(&want, &block, x, FORWARD_NONE, layer);
    }
    want.final_hidden_states = x;
    return want;
}

/* ALBERT: the same attention, and one table for both layers. */
#define ALBERT "albert.encoder.albert_layer_groups.0.albert_layers.0."
#define ALBERT_TENSORS                                                                             \
    FORWARD_TENSOR("albert.embeddings.word_embeddings.weight", 40x8)                               \
    FORWARD_TENSOR("albert.embeddings.position_embeddings.weight", 16x8)                           \
    FORWARD_TENSOR("albert.embeddings.token_type_embeddings.weight", 2x8)                          \
    FORWARD_NORM("albert.embeddings.LayerNorm", 8)                                                 \
    FORWARD_LINEAR("albert.encoder.embedding_hidden_mapping_in", 12, 8)                            \
    FORWARD_LINEAR(ALBERT "attention.query", 12, 12)                                               \
    FORWARD_LINEAR(ALBERT "attention.key", 12, 12)                                                 \
    FORWARD_LINEAR(ALBERT "attention.value", 12, 12)                                               \
    FORWARD_TABLE(ALBERT "attention.distance_embedding.weight", 31x6)                              \
    FORWARD_LINEAR(ALBERT "attention.dense", 12, 12)                                               \
    FORWARD_NORM(ALBERT "attention.LayerNorm", 12)                                                 \
    FORWARD_LINEAR(ALBERT "ffn", 20, 12)                                                           \
    FORWARD_LINEAR(ALBERT "ffn_output", 12, 20) FORWARD_NORM(ALBERT "full_layer_layer_norm", 12)

static struct forward albert(void)
{
    struct forward want = { .layer_count = 0 };
    struct forward_block block = {
        .self = { .kind = "self",
                  .q = ALBERT "attention.query",
                  .k = ALBERT "attention.key",
                  .v = ALBERT "attention.value",
                  .output = ALBERT "attention.dense",
                  .norm = ALBERT "attention.LayerNorm",
                  .of = { .heads = HEADS, .scale = 1 / sqrt(HEAD_DIM), .bias = relative_scores } },
        .up = ALBERT "ffn",
        .down = ALBERT "ffn_output",
        .norm = ALBERT "full_layer_layer_norm",
        .activation = "gelu_new",
        .eps = 1e-12,
    };
    struct rows x =
        embed("albert.embeddings.word_embeddings.weight",
              "albert.embeddings.token_type_embeddings.weight", "albert.embeddings.LayerNorm");
    x = published_linear(x, "albert.encoder.embedding_hidden_mapping_in", 0);
    for (int layer = 0; layer < LAYERS; layer++) {
        block.self.first_layer = layer;
        look_at(x, block.self.q, block.self.k, ALBERT "attention.distance_embedding.weight", 0);
        x = forward_block_run(&want, &block, x, FORWARD_NONE, 0);
    }
    want.final_hidden_states = x;
    return want;
}

/* ------------------------------------------------------------------- tests -- */

static test_fixture serve_decoder, stop;

/* The trace, and by trace_client_expect() also calls of /v1/attention on each layer. */
TEST_WITH(trace, fixture_make_directory, fixture_clear)
{
    static const struct {
        const char *config, *dtype;
        bool has_key_term, causal;
    } CASES[] = {
        { CONFIG("relative_key", ""), "F32", false, false },
        { CONFIG("relative_key_query", ""), "F32", true, false },
        { CONFIG("relative_key_query", ""), "F16", true, false },
        { CONFIG("relative_key", ",\"is_decoder\":true"), "F32", false, true },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        published_open(CASES[i].config, TENSORS, LAYERS, CASES[i].dtype);
        has_key_term = CASES[i].has_key_term;
        const struct forward want = bert(CASES[i].causal);
        published_save(fixture_path("bert"), CASES[i].config);
        fixture_serve("--models", directory);
        trace_client_expect(&client, "bert", IDS_FIELD, &want);
        fixture_stop(NULL);
        published_close();
    }
}

TEST_WITH(albert, fixture_make_directory, fixture_clear)
{
    static const char ALBERT_CONFIG[] =
        "{\"model_type\":\"albert\",\"hidden_size\":12,\"embedding_size\":8,"
        "\"num_attention_heads\":2,\"num_hidden_layers\":2,\"intermediate_size\":20,"
        "\"vocab_size\":40,\"max_position_embeddings\":16,"
        "\"position_embedding_type\":\"relative_key\"}";
    published_open(ALBERT_CONFIG, ALBERT_TENSORS, 1, "F32");
    has_key_term = false;
    const struct forward want = albert();
    published_save(fixture_path("albert"), ALBERT_CONFIG);
    fixture_serve("--models", directory);
    trace_client_expect(&client, "albert", IDS_FIELD, &want);
    fixture_stop(NULL);
    published_close();
}

/* Two texts of a batch, the same text alone: to the bit, for each has a bias of its own. */
TEST(batch)
{
    static const char FIELDS[] = JSON("model":"bert","outputs":["weights"],"tokens":);
    char batch[256], body[128];
    snprintf(batch, sizeof batch,
             "{\"model\":\"bert\",\"outputs\":[\"weights\"],\"requests\":[{\"tokens\":[1,2,3]},"
             "{\"tokens\":[5,4,3,2,1]}]}");
    cJSON *answer = answer_post(&client, "/v1/trace/batch", batch);
    for (int i = 0; i < 2; i++) {
        snprintf(body, sizeof body, "{%s%s}", FIELDS, i == 0 ? "[1,2,3]" : "[5,4,3,2,1]");
        cJSON *alone = answer_post(&client, "/v1/trace", body);
        const cJSON *item = cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "results"), i);
        assert_true(cJSON_Compare(item, alone, true));
        cJSON_Delete(alone);
    }
    cJSON_Delete(answer);
}

/* Rows apart, a mask, a scale and a reduced map: with the numbers of the source. */
TEST(attention)
{
    const struct rows hidden = published_input(WIDTH);
    const struct published_attention attention = { .heads = HEADS,
                                                   .scale = 1 / sqrt(HEAD_DIM),
                                                   .bias = relative_scores };
    has_key_term = true;
    look_at_layer(hidden, 1);
    struct published_answer want = published_attend(
        &attention, queries, keys, published_linear(hidden, LAYER "attention.self.value", 1));
    want.context = published_linear(want.context, LAYER "attention.output.dense", 1);
    published_expect_answer(&client, "bert", 1, hidden, hidden, "", &want, HEADS);

    struct request_text text = { .data = NULL };
    request_text_add(&text, "{\"model\":\"bert\",\"layer\":1,\"outputs\":[\"weights\"],"
                            "\"weight_map\":{\"heads\":\"mean\"}");
    published_add_rows(&text, "query", hidden);
    request_text_add(&text, "}");
    cJSON *answer = answer_post(&client, "/v1/attention", text.data);
    const int64_t n = hidden.count, shape[] = { 1, n, n };
    double *mean = calloc((size_t)(n * n), sizeof *mean);
    assert_non_null(mean);
    for (int64_t i = 0; i < HEADS * n * n; i++)
        mean[i % (n * n)] += want.weights[i] / HEADS;
    published_expect_near(answer, "weights", 3, shape, mean);
    free(mean);
    cJSON_Delete(answer);
    free(text.data);
}

static void add_rows(struct request_text *text, const char *name, int64_t count, double value)
{
    request_text_add(text, ",\"%s\":[", name);
    for (int64_t i = 0; i < count; i++) {
        request_text_add(text, i > 0 ? ",[" : "[");
        for (int64_t c = 0; c < WIDTH; c++)
            request_text_add(text, "%s%g", c > 0 ? "," : "", value + 0.1 * (double)((i * c) % 7));
        request_text_add(text, "]");
    }
    request_text_add(text, "]");
}

/* There is no row of the table for rows farther apart, and no gradient of one. */
TEST(refused)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{\"model\":\"bert\",\"layer\":0");
    add_rows(&text, "query", POSITIONS + 1, 0.5);
    request_text_add(&text, "}");
    answer_refused(&client, "/v1/attention", text.data, 400, "length", "/query");
    text.used = 0;
    request_text_add(&text, "{\"model\":\"bert\",\"layer\":0");
    add_rows(&text, "query", 2, 0.5);
    add_rows(&text, "context_gradient", 2, 1);
    request_text_add(&text, "}");
    answer_refused(&client, "/v1/attention/gradients", text.data, 400, "option", "/layer");
    free(text.data);
    session_make(&client, JSON({"model":"bert","id":"one","layers":[1]}));
    session_refused(&client, "one", "attention", "{\"input\":[[1,2,3,4,5,6,7,8,9,10,11,12]]}", 400,
                    "option",
                    "relative positions that depend on the key, which sessions do not take");
    cJSON *model = answer_get(&client, "/v1/models/bert");
    const cJSON *layer = cJSON_GetArrayItem(cJSON_GetObjectItem(model, "layers"), 0);
    answer_expect(cJSON_GetObjectItem(layer, "options"), "relative_bias", "\"query_key_distance\"",
                  0);
    cJSON_Delete(model);
}

/* The rows of a session are at the distances that they have in one call. */
TEST_WITH(session, serve_decoder, stop)
{
    struct request_text text = { .data = NULL };
    const struct rows hidden = published_input(WIDTH);
    const int64_t last = hidden.count - 2;
    session_make(&client, JSON({"model":"bert","id":"one","layers":[1]}));
    request_text_add(&text, "{\"outputs\":[\"context\"]");
    published_add_rows(&text, "input", forward_slice(hidden, 0, last));
    request_text_add(&text, "}");
    cJSON_Delete(session_post(&client, "one", "attention", text.data, 200));
    text.used = 0;
    request_text_add(&text, "{\"outputs\":[\"context\",\"weights\"]");
    published_add_rows(&text, "input", forward_slice(hidden, last, 2));
    request_text_add(&text, "}");
    cJSON *answer = session_post(&client, "one", "attention", text.data, 200);
    text.used = 0;
    request_text_add(&text,
                     "{\"model\":\"bert\",\"layer\":1,\"past_len\":%d,"
                     "\"outputs\":[\"context\",\"weights\"]",
                     (int)last);
    published_add_rows(&text, "query", forward_slice(hidden, last, 2));
    published_add_rows(&text, "key", hidden);
    request_text_add(&text, "}");
    cJSON *want = answer_post(&client, "/v1/attention", text.data);
    session_expect_same(answer, want);
    cJSON_Delete(want);
    cJSON_Delete(answer);
    free(text.data);
}

static int serve(const char *config)
{
    published_open(config, TENSORS, LAYERS, "F32");
    published_save(fixture_path("bert"), config);
    fixture_serve("--models", directory);
    return 0;
}

static int serve_both(void **state)
{
    return fixture_make_directory(state) || serve(CONFIG("relative_key_query", ""));
}

static int serve_decoder(void **state)
{
    return fixture_make_directory(state) || serve(CONFIG("relative_key", ",\"is_decoder\":true"));
}

static int stop(void **state)
{
    published_close();
    fixture_stop(state);
    return fixture_clear(state);
}

EACH_TEST(serve_both, stop);
