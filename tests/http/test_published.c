/* SPDX-License-Identifier: Apache-2.0 */
/* test_published.c - published checkpoints, served from a directory in the form in which they are
 * downloaded. */
#include "answer.h"
#include "fixture.h"
#include "published_client.h"
#include "published_fused.h"
#include "request_text.h"
#include "tensor_file.h"
#include "test.h"

static void expect_answer_to(const char *model, int layer, struct rows query, struct rows key,
                             const char *more, const struct published_answer *want, int64_t heads)
{
    published_expect_answer(&client, model, layer, query, key, more, want, heads);
}

static void expect_answer(const char *model, int layer, struct rows query, struct rows key,
                          const struct published_answer *want, int64_t heads)
{
    expect_answer_to(model, layer, query, key, "", want, heads);
}

/* ------------------------------------------------------------------ BLOOM -- */

static double alibi_of_2(int64_t head, int64_t query, int64_t key)
{
    (void)query;
    return (head == 0 ? 1.0 / 16 : 1.0 / 256) * (double)key;
}

/* bloom/modeling_bloom.py of Hugging Face transformers at 0078a6cd96d5. The slopes come from the
 * model; the request has none. */
TEST(bloom)
{
    static const char CONFIG[] =
        "{\"model_type\":\"bloom\",\"hidden_size\":8,\"n_head\":2,\"n_layer\":2}";
    const struct published_fused bloom = {
        .qkv = "h.#.self_attention.query_key_value",
        .output = "h.#.self_attention.dense",
        .groups = 2,
        .queries = 4,
        .keys = 4,
        .attention = { .heads = 2, .scale = 0.5, .causal = true, .bias = alibi_of_2 },
    };
    published_open(CONFIG,
                   "h.#.self_attention.query_key_value.weight 24x8, "
                   "h.#.self_attention.query_key_value.bias 24, "
                   "h.#.self_attention.dense.weight 8x8, h.#.self_attention.dense.bias 8",
                   2, "F16");
    published_save(fixture_path("bloom"), CONFIG);
    const struct rows hidden = published_input(8);
    const struct published_answer answer = published_fused_answer(&bloom, hidden, 1);
    fixture_serve("--models", directory);
    expect_answer("bloom", 1, hidden, hidden, &answer, 2);
    answer_refused(&client, "/v1/attention",
                   "{\"model\":\"bloom\",\"layer\":2,\"query\":[[1,1,1,1,1,1,1,1]]}", 404,
                   "not_found", "/layer");
    fixture_stop(state);
    published_close();
}

/* --------------------------------------------------------------------- T5 -- */

enum { T5_HEADS = 2 };

#define T5_LAYER(begin)                                                                            \
    begin "q.weight 6x8, " begin "k.weight 6x8, " begin "v.weight 6x8, " begin "o.weight 8x6"

static const char T5[] = "{\"model_type\":\"t5\",\"d_model\":8,\"d_kv\":3,\"num_heads\":2,"
                         "\"num_layers\":2,\"num_decoder_layers\":null,"
                         "\"relative_attention_num_buckets\":8,"
                         "\"relative_attention_max_distance\":5}";

static double t5_encoder_bias(int64_t head, int64_t query, int64_t key)
{
    return published_tensor("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                            0)
        .data[published_t5_bucket(key - query, true, 8, 5) * T5_HEADS + head];
}

static double t5_decoder_bias(int64_t head, int64_t query, int64_t key)
{
    return published_tensor("decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                            0)
        .data[published_t5_bucket(key - query, false, 8, 5) * T5_HEADS + head];
}

static double t5_masked_bias(int64_t head, int64_t query, int64_t key)
{
    return key == 0 ? -(double)INFINITY : t5_encoder_bias(head, query, key) + (key == 3 ? 0.5 : 0);
}

static struct published_answer t5(const char *begin, struct rows hidden, struct rows other,
                                  bool causal, double (*bias)(int64_t, int64_t, int64_t))
{
    const struct published_attention attention = {
        .heads = T5_HEADS, .scale = 1, .causal = causal, .bias = bias
    };
    char name[4][128];
    for (int i = 0; i < 4; i++)
        snprintf(name[i], sizeof name[i], "%s%c", begin, "qkvo"[i]);
    struct published_answer answer =
        published_attend(&attention, published_linear(hidden, name[0], 1),
                         published_linear(other, name[1], 1), published_linear(other, name[2], 1));
    answer.context = published_linear(answer.context, name[3], 1);
    return answer;
}

#define T5_CROSS "decoder.block.#.layer.1.EncDecAttention."
#define T5_TABLES                                                                                  \
    "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight 8x2, "                   \
    "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight 8x2"

/* T5Attention in the file named above: it has no scale, every block of self-attention has the bias
 * of block 0, and cross attention has none. */
TEST(t5)
{
    published_open(
        T5,
        T5_LAYER("encoder.block.#.layer.0.SelfAttention.") ", " T5_LAYER(
            "decoder.block.#.layer.0.SelfAttention.") ", " T5_LAYER(T5_CROSS) ", " T5_TABLES,
        2, "F32");
    published_save(fixture_path("t5"), T5);
    const struct rows hidden = published_input(8), memory = published_memory(8);
    fixture_serve("--models", directory);
    struct published_answer answer =
        t5("encoder.block.#.layer.0.SelfAttention.", hidden, hidden, false, t5_encoder_bias);
    expect_answer("t5", 1, hidden, hidden, &answer, T5_HEADS);
    answer = t5("decoder.block.#.layer.0.SelfAttention.", hidden, hidden, true, t5_decoder_bias);
    expect_answer("t5", 3, hidden, hidden, &answer, T5_HEADS);
    /* The query is the last rows alone, as a decoder asks. Their weights are the last rows of each
     * head. */
    struct rows last = { 1, 8, hidden.data + 6 * 8 };
    double weights[T5_HEADS * PUBLISHED_LENGTH];
    for (int h = 0; h < T5_HEADS; h++)
        memcpy(weights + h * PUBLISHED_LENGTH,
               answer.weights + (h * PUBLISHED_LENGTH + 6) * PUBLISHED_LENGTH,
               PUBLISHED_LENGTH * sizeof *weights);
    const struct published_answer of_last = {
        { 1, 8, answer.context.data + 6 * 8 }, weights, NULL, answer.largest_score, NULL
    };
    expect_answer_to("t5", 3, last, hidden, ",\"past_len\":6", &of_last, T5_HEADS);
    answer = t5(T5_CROSS, hidden, memory, false, NULL);
    expect_answer("t5", 5, hidden, memory, &answer, T5_HEADS);

    answer = t5("encoder.block.#.layer.0.SelfAttention.", hidden, hidden, false, t5_masked_bias);
#define ROW "[null,0,0,0.5,0,0,0]"
    expect_answer_to("t5", 1, hidden, hidden,
                     ",\"mask\":[" ROW "," ROW "," ROW "," ROW "," ROW "," ROW "," ROW "]", &answer,
                     T5_HEADS);
#undef ROW
    fixture_stop(state);
    published_close();
}

/* -------------------------------------------------------------------- BEiT -- */

/* A picture of 1 by 2 patches. Three rows have a bias for each pair; a fourth row has none. */
TEST(beit)
{
    static const char CONFIG[] =
        "{\"model_type\":\"beit\",\"hidden_size\":2,\"num_attention_heads\":1,"
        "\"num_hidden_layers\":1,\"image_size\":[16,32],\"use_relative_position_bias\":true}";
    static const int64_t SHAPE[] = { 1, 3, 3 };
    /* The row of the table for each pair: to the right, to the left, from class to patch and
     * back. */
    static const int ROWS[3][3] = { { 5, 3, 3 }, { 4, 1, 0 }, { 4, 2, 1 } };
    published_open(CONFIG,
                   "encoder.layer.#.attention.attention.query.weight 2x2, "
                   "encoder.layer.#.attention.attention.query.bias 2, "
                   "encoder.layer.#.attention.attention.key.weight 2x2, "
                   "encoder.layer.#.attention.attention.value.weight 2x2, "
                   "encoder.layer.#.attention.attention.value.bias 2, "
                   "encoder.layer.#.attention.output.dense.weight 2x2, "
                   "encoder.layer.#.attention.output.dense.bias 2, "
                   "encoder.layer.#.attention.attention.relative_position_bias."
                   "relative_position_bias_table 6x1",
                   1, "F32");
    published_save(fixture_path("beit"), CONFIG);
    const double *table = published_tensor("encoder.layer.#.attention.attention.relative_position_"
                                           "bias.relative_position_bias_table",
                                           0)
                              .data;
    fixture_serve("--models", directory);
    cJSON *answer = answer_post(&client, "/v1/attention",
                                "{\"model\":\"beit\",\"query\":[[1,2],[3,4],[5,6]],"
                                "\"outputs\":[\"masked\",\"scores\"]}");
    double *masked = answer_numbers(answer, "masked", 3, SHAPE);
    double *scores = answer_numbers(answer, "scores", 3, SHAPE);
    for (int n = 0; n < 9; n++)
        assert_true(fabs(masked[n] - scores[n] - table[ROWS[n / 3][n % 3]]) < 1e-5);
    free(masked), free(scores);
    cJSON_Delete(answer);
    answer_refused(&client, "/v1/attention",
                   "{\"model\":\"beit\",\"query\":[[1,2],[3,4],[5,6],[7,8]]}", 400, "length",
                   "/query");
    fixture_stop(state);
    published_close();
}

/* --------------------------------------------------------------- gradients -- */

/* Each part of a fused tensor has its own gradient and shape, and is named after the tensor. */
TEST(gradients_of_parts)
{
    static const char CONFIG[] =
        "{\"model_type\":\"gpt2\",\"n_embd\":2,\"n_head\":1,\"n_layer\":1}";
    static const int64_t MATRIX[] = { 2, 2 }, VECTOR[] = { 2 };
    published_open(CONFIG,
                   "h.#.attn.c_attn.weight 2x6, h.#.attn.c_attn.bias 6, h.#.attn.c_proj.weight "
                   "2x2, h.#.attn.c_proj.bias 2",
                   1, "F32");
    published_save(fixture_path("gpt2"), CONFIG);
    published_close();
    fixture_serve("--models", directory);
    cJSON *answer = answer_post(&client, "/v1/attention/gradients",
                                "{\"model\":\"gpt2\",\"query\":[[1,2]],"
                                "\"context_gradient\":[[1,-1]]}");
    const cJSON *parameters = cJSON_GetObjectItem(answer, "parameters");
    answer_expect_members(parameters, "h.0.attn.c_attn.weight[q_proj],h.0.attn.c_attn.bias[q_proj],"
                                      "h.0.attn.c_attn.weight[k_proj],h.0.attn.c_attn.bias[k_proj],"
                                      "h.0.attn.c_attn.weight[v_proj],h.0.attn.c_attn.bias[v_proj],"
                                      "h.0.attn.c_proj.weight,h.0.attn.c_proj.bias");
    /* A single row sees itself with weight 1. So nothing depends on query and key, and the gradient
     * of the value's matrix is x^T times the bias's gradient. */
    answer_expect(parameters, "h.0.attn.c_attn.weight[q_proj]", "[[0,0],[0,0]]", 1e-6);
    double *weight = answer_numbers(parameters, "h.0.attn.c_attn.weight[v_proj]", 2, MATRIX);
    double *bias = answer_numbers(parameters, "h.0.attn.c_attn.bias[v_proj]", 1, VECTOR);
    assert_true(fabs(bias[0]) > 1e-3);
    for (int i = 0; i < 4; i++)
        assert_true(fabs(weight[i] - bias[i % 2] * (i < 2 ? 1 : 2)) < 1e-6);
    free(weight), free(bias);
    cJSON_Delete(answer);
    fixture_stop(state);
}

/* --------------------------------------------------------- layers and their kinds -- */

#define OUT_PROJ(begin)                                                                            \
    begin "q_proj.weight 8x8, " begin "q_proj.bias 8, " begin "k_proj.weight 8x8, " begin          \
          "k_proj.bias 8, " begin "v_proj.weight 8x8, " begin "v_proj.bias 8, " begin              \
          "out_proj.weight 8x8, " begin "out_proj.bias 8"

static const char BART[] = "{\"model_type\":\"bart\",\"d_model\":8,\"encoder_layers\":2,"
                           "\"decoder_layers\":2,\"encoder_attention_heads\":2,"
                           "\"decoder_attention_heads\":4}";

/* The checkpoint is in shards. A cross layer takes the encoder's output as its key. */
TEST(bart)
{
    static const char *const KINDS[] = { "\"encoder\"", "\"encoder\"", "\"decoder\"",
                                         "\"decoder\"", "\"cross\"",   "\"cross\"" };
    const struct published_attention attention = { .heads = 4, .scale = 1 / sqrt(2) };
    published_open(BART,
                   OUT_PROJ("model.encoder.layers.#.self_attn.") ", " OUT_PROJ(
                       "model.decoder.layers.#.self_attn.") ", " OUT_PROJ("model.decoder.layers.#."
                                                                          "encoder_attn."),
                   2, "F32");
    published_save_shards(fixture_path("bart"), BART);
    const struct rows hidden = published_input(8), memory = published_memory(8);
    struct published_answer answer = published_attend(
        &attention, published_linear(hidden, "model.decoder.layers.#.encoder_attn.q_proj", 1),
        published_linear(memory, "model.decoder.layers.#.encoder_attn.k_proj", 1),
        published_linear(memory, "model.decoder.layers.#.encoder_attn.v_proj", 1));
    answer.context =
        published_linear(answer.context, "model.decoder.layers.#.encoder_attn.out_proj", 1);
    fixture_serve("--models", directory);
    expect_answer("bart", 5, hidden, memory, &answer, 4);
    cJSON *model = answer_get(&client, "/v1/models/bart");
    answer_expect(model, "state", "\"READY\"", 0);
    const cJSON *layers = cJSON_GetObjectItem(model, "layers");
    assert_int_equal(cJSON_GetArraySize(layers), 6);
    for (int i = 0; i < 6; i++) {
        answer_expect(cJSON_GetArrayItem(layers, i), "kind", KINDS[i], 0);
        answer_expect(cJSON_GetArrayItem(layers, i), "q_heads", i < 2 ? "2" : "4", 0);
        answer_expect(cJSON_GetArrayItem(layers, i), "d_key", "8", 0);
    }
    cJSON_Delete(model);
    fixture_stop(state);
    published_close();
}

TEST(shown)
{
    const char *const bart[] = { "model", "show", fixture_path("bart"), NULL };
    struct daemon_result result = daemon_command(bart, NULL);
    assert_int_equal(result.exit_code, 0);
    assert_non_null(strstr(result.output, "shards: 2\n"));
    assert_non_null(strstr(result.output, "shard: model-00002-of-00002.safetensors\n"));
    assert_non_null(strstr(result.output, "layers: 6\n    0: encoder query 8, key 8, value 8 "
                                          "columns -> 8; q_heads 2, kv_heads 2, head_dim 4"));
    assert_non_null(strstr(result.output, "    5: cross query 8,"));
    assert_non_null(strstr(result.output, "        {\"causal\":true,\"scale\":0.70710678"));
    daemon_result_free(&result);
    daemon_directory_write(directory, "bart/model-00002-of-00002.safetensors", "short", 5);
    result = daemon_command(bart, NULL);
    assert_int_equal(result.exit_code, 1);
    assert_non_null(strstr(result.errors, "shard 'model-00002-of-00002.safetensors' of tensor"));
    daemon_result_free(&result);
}

/* ----------------------------------------------------------------- stories260K -- */

#define OWN_LAYER(layer, comma)                                                                    \
    "\"layers." layer ".q_proj.weight\":\"layers." layer ".attention.wq.weight\","                 \
    "\"layers." layer ".k_proj.weight\":\"layers." layer ".attention.wk.weight\","                 \
    "\"layers." layer ".v_proj.weight\":\"layers." layer ".attention.wv.weight\","                 \
    "\"layers." layer ".o_proj.weight\":\"layers." layer ".attention.wo.weight\"" comma

static const char OWN_CONFIG[] =
    "{\"attention\":\"scaled_dot_product\",\"layers\":5,\"q_heads\":8,\"kv_heads\":4,"
    "\"head_dim\":8,\"causal\":true,\"rope\":{\"theta\":10000,\"dim\":8,\"interleaved\":true},"
    "\"tensors\":{" OWN_LAYER("0", ",") OWN_LAYER("1", ",") OWN_LAYER("2", ",") OWN_LAYER("3", ",")
        OWN_LAYER("4", "") "}}";

static void copy_stories(const char *file, const char *to)
{
    char from[128];
    size_t size;
    snprintf(from, sizeof from, "examples/models/stories260K/%s", file);
    unsigned char *bytes = tensor_read_bytes(from, &size);
    daemon_directory_write(directory, to, (const char *)bytes, size);
    free(bytes);
}

/* The answer of a layer of a model, behind the model's name. */
static char *answer_behind_name(const char *model, int layer, const float *rows)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",\"layer\":%d,\"query\":", model, layer);
    request_text_matrix(&body, rows, 64, 64);
    request_text_add(&body, "}");
    struct http_response response = http_client_post(&client, "/v1/attention", body.data);
    assert_int_equal(response.status, 200);
    const char *behind = strstr(response.body, "\"layer\"");
    assert_non_null(behind);
    char *copy = strdup(behind);
    http_response_free(&response);
    free(body.data);
    return copy;
}

static void expect_context(const char *answer_text, const struct tensor_file *file)
{
    static const int64_t SHAPE[] = { 64, 64 };
    const struct tensor out = tensor_file_get(file, "out");
    float *outputs = tensor_floats(&out);
    double want[64 * 64];
    char *text = NULL;
    for (int64_t i = 0; i < 64 * 64; i++)
        want[i] = (double)outputs[i];
    assert_true(asprintf(&text, "{%s", answer_text) > 0);
    cJSON *answer = cJSON_Parse(text);
    published_expect_near(answer, "context", 2, SHAPE, want);
    cJSON_Delete(answer);
    free(text), free(outputs);
}

/* A real model with Meta's own tensor names and its own params as config. Every layer answers to
 * the bit what it answers with our own config, and what another implementation computed. */
TEST(stories260k)
{
    copy_stories("config.json", "stories/config.json");
    copy_stories("model.safetensors", "stories/model.safetensors");
    copy_stories("model.safetensors", "own/model.safetensors");
    daemon_directory_write(directory, "own/config.json", OWN_CONFIG, sizeof OWN_CONFIG - 1);
    fixture_serve("--models", directory);
    for (int layer = 0; layer < 5; layer++) {
        char path[128];
        struct tensor_file file;
        snprintf(path, sizeof path, "tests/conformance/stories260K/layer%d.safetensors",
                 layer / 2 * 2);
        tensor_file_open(&file, path);
        const struct tensor x = tensor_file_get(&file, "x");
        float *rows = tensor_floats(&x);
        char *answer = answer_behind_name("stories", layer, rows);
        char *own_answer = answer_behind_name("own", layer, rows);
        assert_string_equal(answer, own_answer);
        if (layer % 2 == 0) /* the layers that the files are of */
            expect_context(answer, &file);
        free(answer), free(own_answer), free(rows);
        tensor_file_close(&file);
    }
    fixture_stop(state);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
