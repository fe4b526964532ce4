/* SPDX-License-Identifier: Apache-2.0 */
/* test_sinks.c - sinks that are parameters of a model, in all calls that compute its layers: what a
 * request gives stands in their place, parts of the keys merge into the whole, gradients have them,
 * and the statistics of a trace are of weights that sum up to less than 1. */
#include "answer.h"
#include "fixture.h"
#include "published.h"
#include "request_text.h"
#include "test.h"

enum { WIDTH = 16, HEADS = 4, ROWS = 3, KEYS = 7 };

#define BLOCK "model.layers.#."
#define AT    BLOCK "self_attn."

static const char CONFIG[] =
    "{\"model_type\":\"gpt_oss\",\"hidden_size\":16,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"head_dim\":4,\"num_hidden_layers\":1,\"num_local_experts\":2,"
    "\"num_experts_per_tok\":1,\"attention_bias\":false,\"vocab_size\":40,"
    "\"layer_types\":[\"full_attention\"]}";

static const char TENSORS[] =
    "model.embed_tokens.weight 40x16*3, " AT "q_proj.weight 16x16*3, " AT "k_proj.weight 8x16, " AT
    "v_proj.weight 8x16, " AT "o_proj.weight 16x16, " AT "sinks 4*3, " BLOCK
    "mlp.router.weight 2x16, " BLOCK "mlp.router.bias 2, " BLOCK
    "mlp.experts.gate_up_proj 2x16x24, " BLOCK "mlp.experts.gate_up_proj_bias 2x24, " BLOCK
    "mlp.experts.down_proj 2x12x16, " BLOCK "mlp.experts.down_proj_bias 2x16, " BLOCK
    "input_layernorm.weight 16, " BLOCK
    "post_attention_layernorm.weight 16, model.norm.weight 16, lm_head.weight 40x16";

static double sinks[HEADS];

static void serve(void)
{
    published_open(CONFIG, TENSORS, 1, "F32");
    published_save(fixture_path("sinks"), CONFIG);
    memcpy(sinks, published_tensor(AT "sinks", 0).data, sizeof sinks);
    published_close();
    fixture_serve("--models", directory);
}

TEST(description)
{
    serve();
    cJSON *model = answer_get(&client, "/v1/models/sinks");
    const cJSON *layer = cJSON_GetObjectItem(model, "layers")->child;
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(cJSON_GetObjectItem(layer, "options"), "sinks")));
    cJSON_Delete(model);
    fixture_stop(NULL);
}

/* ----------------------------------------------------------------- attention -- */

static void add_rows(struct request_text *text, const char *name, int seed, int first, int end)
{
    request_text_add(text, ",\"%s\":[", name);
    for (int i = first; i < end; i++) {
        request_text_add(text, "%s[", i > first ? "," : "");
        for (int c = 0; c < WIDTH; c++)
            request_text_add(text, "%s%.6f", c > 0 ? "," : "",
                             sin(seed + 1.7 * i + 0.9 * c * (i + 1)));
        request_text_add(text, "]");
    }
    request_text_add(text, "]");
}

/* The layer's call of all rows over keys [first, end), with more fields. */
static cJSON *attend(const char *path, const char *more, int first, int end)
{
    struct request_text text = { 0 };
    request_text_add(&text, "{\"model\":\"sinks\",\"layer\":0,\"past_len\":%d,\"kv_offset\":%d%s",
                     KEYS - ROWS, first, more);
    add_rows(&text, "query", 1, 0, ROWS);
    add_rows(&text, "key", 2, first, end);
    if (strstr(path, "gradients"))
        add_rows(&text, "context_gradient", 3, 0, ROWS);
    request_text_add(&text, "}");
    cJSON *answer = answer_post(&client, path, text.data);
    free(text.data);
    return answer;
}

static void write_sinks(char *text, size_t size)
{
    snprintf(text, size, ",\"sinks\":[%.9g,%.9g,%.9g,%.9g]", sinks[0], sinks[1], sinks[2],
             sinks[3]);
}

static double number_at(const cJSON *answer, const char *name, int a, int b)
{
    return cJSON_GetArrayItem(cJSON_GetArrayItem(cJSON_GetObjectItem(answer, name), a), b)
        ->valuedouble;
}

/* The model's own are those that a request can give; without any the rows are others. */
TEST(in_place_of)
{
    static const char NONE[] = ",\"outputs\":[\"context\",\"lse\"]"
                               ",\"sinks\":[null,null,null,null]";
    char given[160];
    serve();
    snprintf(given, sizeof given, ",\"outputs\":[\"context\",\"lse\"]");
    write_sinks(given + strlen(given), sizeof given - strlen(given));
    cJSON *own = attend("/v1/attention", ",\"outputs\":[\"context\",\"lse\"]", 0, KEYS);
    cJSON *same = attend("/v1/attention", given, 0, KEYS);
    cJSON *none = attend("/v1/attention", NONE, 0, KEYS);
    answer_expect_equal(own, same, "context");
    answer_expect_equal(own, same, "lse");
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < ROWS; i++) {
            const double whole = log(exp(number_at(none, "lse", h, i)) + exp(sinks[h]));
            assert_true(fabs(number_at(own, "lse", h, i) - whole) <= 1e-5);
        }
    cJSON_Delete(own);
    cJSON_Delete(same);
    cJSON_Delete(none);
    fixture_stop(NULL);
}

/* Of parts of the keys the one from position 0 on has them. */
TEST(in_parts)
{
    static const char PART[] = ",\"partial\":true,\"outputs\":[\"context\",\"lse\"]";
    serve();
    cJSON *whole = attend("/v1/attention", ",\"outputs\":[\"context\",\"lse\"]", 0, KEYS);
    cJSON *parts[2] = { attend("/v1/attention", PART, 0, 3),
                        attend("/v1/attention", PART, 3, KEYS) };
    struct request_text merge = { 0 };
    request_text_add(&merge, "{\"model\":\"sinks\",\"layer\":0,\"parts\":[");
    for (int i = 0; i < 2; i++) {
        char *context = cJSON_PrintUnformatted(cJSON_GetObjectItem(parts[i], "context"));
        char *lse = cJSON_PrintUnformatted(cJSON_GetObjectItem(parts[i], "lse"));
        request_text_add(&merge, "%s{\"context\":%s,\"lse\":%s}", i > 0 ? "," : "", context, lse);
        free(context);
        free(lse);
    }
    request_text_add(&merge, "]}");
    cJSON *merged = answer_post(&client, "/v1/attention/merge", merge.data);
    char *text = cJSON_PrintUnformatted(cJSON_GetObjectItem(whole, "context"));
    answer_expect(merged, "context", text, 2e-5);
    free(text);
    text = cJSON_PrintUnformatted(cJSON_GetObjectItem(whole, "lse"));
    answer_expect(merged, "lse", text, 2e-5);
    free(text);
    free(merge.data);
    cJSON_Delete(merged);
    cJSON_Delete(whole);
    cJSON_Delete(parts[0]);
    cJSON_Delete(parts[1]);
    fixture_stop(NULL);
}

TEST(gradients)
{
    char given[160] = "";
    serve();
    write_sinks(given, sizeof given);
    cJSON *own = attend("/v1/attention/gradients", "", 0, KEYS);
    cJSON *same = attend("/v1/attention/gradients", given, 0, KEYS);
    answer_expect_equal(own, same, "sinks");
    answer_expect_equal(own, same, "key");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(own, "sinks")), HEADS);
    cJSON_Delete(own);
    cJSON_Delete(same);
    fixture_stop(NULL);
}

/* ------------------------------------------------------------------ statistics -- */

/* The mean over rows of what the answered weights of a head have. */
static double entropy_of(const cJSON *weights)
{
    double sum = 0;
    int rows = 0;
    const cJSON *row, *weight;
    cJSON_ArrayForEach(row, weights) {
        double all = 0;
        cJSON_ArrayForEach(weight, row) {
            all += weight->valuedouble;
            if (weight->valuedouble > 0)
                sum -= weight->valuedouble * log(weight->valuedouble);
        }
        assert_true(all < 0.999);
        rows++;
    }
    return sum / rows;
}

TEST(entropy)
{
    char path[128];
    serve();
    cJSON *trace = answer_post(&client, "/v1/trace",
                               "{\"model\":\"sinks\",\"tokens\":[1,5,9,39,2,2,7],"
                               "\"outputs\":[\"weights\"],\"keep\":\"1h\"}");
    snprintf(path, sizeof path, "/v1/traces/%s/statistics",
             cJSON_GetObjectItem(trace, "trace")->valuestring);
    cJSON *statistics = answer_get(&client, path);
    const cJSON *weights =
        cJSON_GetObjectItem(cJSON_GetObjectItem(trace, "layers")->child, "weights");
    const cJSON *entropy =
        cJSON_GetObjectItem(cJSON_GetObjectItem(statistics, "layers")->child, "entropy");
    for (int h = 0; h < HEADS; h++)
        assert_true(fabs(cJSON_GetArrayItem(entropy, h)->valuedouble
                         - entropy_of(cJSON_GetArrayItem(weights, h)))
                    <= 1e-5);
    cJSON_Delete(trace);
    cJSON_Delete(statistics);
    fixture_stop(NULL);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
