/* SPDX-License-Identifier: Apache-2.0 */
/* test_scores.c - models whose score is not a scaled dot product, over HTTP: dot, general, additive
 * and concat.
 *
 * The numbers of a well-known textbook come first. Then every kind is compared with the formulas in
 * double, with matrices of this test's own. */
#include "answer.h"
#include "fill.h"
#include "fixture.h"
#include "model_client.h"
#include "request_text.h"
#include "test.h"

static const char PATH[] = "/v1/attention";
static const double TOLERANCE = 2e-6;

static void put(const char *name, const char *body, long status)
{
    struct http_response response = model_put_json(&client, name, body);
    cJSON_Delete(answer_json(&response, status));
    http_response_free(&response);
}

/* ------------------------------------------------------------ a textbook's numbers -- */

/* "Dive into Deep Learning", chapter on attention scoring functions: additive attention of 20 query
 * and 2 key columns over 8 hidden ones. All keys are equal. So the context is the mean of the first
 * 2 or 6 of the values 0, 1, 2, ..., whatever the parameters are. */
TEST(d2l)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"config\":{\"attention\":\"additive\"},\"parameters\":{"
                            "\"q_proj.weight\":");
    request_text_random(&body, 1, 8, 20);
    request_text_add(&body, ",\"k_proj.weight\":");
    request_text_random(&body, 2, 8, 2);
    request_text_add(&body, ",\"score.weight\":");
    request_text_random(&body, 3, 1, 8);
    request_text_add(&body, "}}");
    put("d2l", body.data, 201);
    free(body.data);

    body = (struct request_text){ .data = NULL };
    request_text_add(&body, "{\"model\":\"d2l\",\"key\":[[1,1],[1,1],[1,1],[1,1],[1,1],[1,1],"
                            "[1,1],[1,1],[1,1],[1,1]],\"value\":[");
    for (int i = 0; i < 10; i++)
        request_text_add(&body, "%s[%d,%d,%d,%d]", i > 0 ? "," : "", 4 * i, 4 * i + 1, 4 * i + 2,
                         4 * i + 3);
    request_text_add(&body, "],\"requests\":[{\"kv_len\":2,\"query\":");
    request_text_random(&body, 4, 1, 20);
    request_text_add(&body, "},{\"kv_len\":6,\"query\":");
    request_text_random(&body, 5, 1, 20);
    request_text_add(&body, "}]}");
    cJSON *answer = answer_post(&client, "/v1/attention/batch", body.data);
    const cJSON *results = cJSON_GetObjectItem(answer, "results");
    assert_int_equal(cJSON_GetArraySize(results), 2);
    answer_expect(cJSON_GetArrayItem(results, 0), "context", "[[2,3,4,5]]", TOLERANCE);
    answer_expect(cJSON_GetArrayItem(results, 1), "context", "[[10,11,12,13]]", TOLERANCE);
    answer_expect(cJSON_GetArrayItem(results, 0), "weights", "[[[0.5,0.5,0,0,0,0,0,0,0,0]]]",
                  TOLERANCE);
    cJSON_Delete(answer);
    free(body.data);
}

/* --------------------------------------------------------- every kind, in double -- */

enum { D_QUERY = 3, D_KEY = 5, D_VALUE = 2, P = 7, Q_LEN = 4, KV_LEN = 6 };

static struct {
    float query[Q_LEN * D_QUERY], key[KV_LEN * D_KEY], value[KV_LEN * D_VALUE];
    float w_query[P * D_QUERY], w_key[P * D_KEY], bias[P], v[P];
    float joined[P * (D_KEY + D_QUERY)]; /* key first */
    float general[D_QUERY * D_KEY];
} made;

static void make_numbers(void)
{
    struct fill fill = { 7 };
    fill_floats(&fill, made.query, Q_LEN * D_QUERY, -1, 1);
    fill_floats(&fill, made.key, KV_LEN * D_KEY, -1, 1);
    fill_floats(&fill, made.value, KV_LEN * D_VALUE, -1, 1);
    fill_floats(&fill, made.w_query, P * D_QUERY, -1, 1);
    fill_floats(&fill, made.w_key, P * D_KEY, -1, 1);
    fill_floats(&fill, made.bias, P, -1, 1);
    fill_floats(&fill, made.v, P, -2, 2);
    fill_floats(&fill, made.general, D_QUERY * D_KEY, -1, 1);
    for (int p = 0; p < P; p++) {
        memcpy(made.joined + p * (D_KEY + D_QUERY), made.w_key + p * D_KEY, D_KEY * sizeof(float));
        memcpy(made.joined + p * (D_KEY + D_QUERY) + D_KEY, made.w_query + p * D_QUERY,
               D_QUERY * sizeof(float));
    }
}

static double additive_score(int i, int j)
{
    double score = 0;
    for (int p = 0; p < P; p++) {
        double sum = (double)made.bias[p];
        for (int d = 0; d < D_QUERY; d++)
            sum += (double)made.w_query[p * D_QUERY + d] * (double)made.query[i * D_QUERY + d];
        for (int d = 0; d < D_KEY; d++)
            sum += (double)made.w_key[p * D_KEY + d] * (double)made.key[j * D_KEY + d];
        score += (double)made.v[p] * tanh(sum);
    }
    return score;
}

static double general_score(int i, int j)
{
    double score = 0;
    for (int a = 0; a < D_QUERY; a++)
        for (int b = 0; b < D_KEY; b++)
            score += (double)made.query[i * D_QUERY + a] * (double)made.general[a * D_KEY + b]
                     * (double)made.key[j * D_KEY + b];
    return score;
}

/* {"model":...,"query":...,"key":...,"value":... without its closing brace. */
static struct request_text call_of(const char *model)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",\"query\":", model);
    request_text_matrix(&body, made.query, Q_LEN, D_QUERY);
    request_text_add(&body, ",\"key\":");
    request_text_matrix(&body, made.key, KV_LEN, D_KEY);
    request_text_add(&body, ",\"value\":");
    request_text_matrix(&body, made.value, KV_LEN, D_VALUE);
    return body;
}

static void expect_near(double got, double want, const char *what, int i, int j)
{
    if (isinf(want) ? got != want : !(fabs(got - want) <= TOLERANCE * (1 + fabs(want))))
        fail_msg("%s[%d][%d] is %.9g, want %.9g", what, i, j, got, want);
}

/* All outputs, with lengths by row, a scale, a softcap, and a mask that forbids key 1. */
static void check_model(const char *model, double (*score)(int i, int j))
{
    static const int lengths[Q_LEN] = { 6, 1, 3, 0 };
    const double scale = 0.75, softcap = 1.5;
    struct request_text body = call_of(model);
    request_text_add(&body, ",\"kv_len\":[6,1,3,0],\"scale\":0.75,\"softcap\":1.5,\"mask\":["
                            "[true,false,true,true,true,true],[true,false,true,true,true,true],"
                            "[true,false,true,true,true,true],[true,false,true,true,true,true]],"
                            "\"outputs\":[\"context\",\"weights\",\"scores\",\"softcapped\","
                            "\"masked\",\"lse\"]}");
    cJSON *answer = answer_post(&client, PATH, body.data);
    const int64_t map[] = { 1, Q_LEN, KV_LEN }, rows[] = { 1, Q_LEN }, out[] = { Q_LEN, D_VALUE };
    double *scores = answer_numbers(answer, "scores", 3, map);
    double *softcapped = answer_numbers(answer, "softcapped", 3, map);
    double *masked = answer_numbers(answer, "masked", 3, map);
    double *weights = answer_numbers(answer, "weights", 3, map);
    double *lse = answer_numbers(answer, "lse", 2, rows);
    double *context = answer_numbers(answer, "context", 2, out);
    for (int i = 0; i < Q_LEN; i++) {
        double sum = 0, want[D_VALUE] = { 0 };
        for (int j = 0; j < KV_LEN; j++) {
            const double capped = softcap * tanh(scale * score(i, j) / softcap);
            const bool is_seen = j < lengths[i] && j != 1;
            expect_near(scores[i * KV_LEN + j], scale * score(i, j), "scores", i, j);
            expect_near(softcapped[i * KV_LEN + j], capped, "softcapped", i, j);
            expect_near(masked[i * KV_LEN + j], is_seen ? capped : -INFINITY, "masked", i, j);
            sum += is_seen ? exp(capped) : 0;
        }
        expect_near(lse[i], log(sum), "lse", i, 0);
        for (int j = 0; j < KV_LEN; j++) {
            const double seen = exp(masked[i * KV_LEN + j]);
            const double weight = sum > 0 ? seen / sum : 0;
            expect_near(weights[i * KV_LEN + j], weight, "weights", i, j);
            for (int d = 0; d < D_VALUE; d++)
                want[d] += weight * (double)made.value[j * D_VALUE + d];
        }
        for (int d = 0; d < D_VALUE; d++)
            expect_near(context[i * D_VALUE + d], want[d], "context", i, d);
    }
    free(scores);
    free(softcapped);
    free(masked);
    free(weights);
    free(lse);
    free(context);
    cJSON_Delete(answer);
    free(body.data);
}

TEST(general)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"config\":{\"attention\":\"general\"},\"parameters\":{"
                            "\"score.weight\":");
    request_text_matrix(&body, made.general, D_QUERY, D_KEY);
    request_text_add(&body, "}}");
    put("general", body.data, 201);
    free(body.data);
    check_model("general", general_score);
}

TEST(additive)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"config\":{\"attention\":\"additive\"},\"parameters\":{"
                            "\"q_proj.weight\":");
    request_text_matrix(&body, made.w_query, P, D_QUERY);
    request_text_add(&body, ",\"k_proj.weight\":");
    request_text_matrix(&body, made.w_key, P, D_KEY);
    request_text_add(&body, ",\"k_proj.bias\":");
    for (int p = 0; p < P; p++)
        request_text_add(&body, "%s%.9g", p > 0 ? "," : "[", (double)made.bias[p]);
    request_text_add(&body, "],\"score.weight\":");
    request_text_matrix(&body, made.v, P, 1);
    request_text_add(&body, "}}");
    put("additive", body.data, 201);
    free(body.data);
    check_model("additive", additive_score);
}

TEST(concat)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"config\":{\"attention\":\"concat\"},\"parameters\":{"
                            "\"concat_proj.weight\":");
    request_text_matrix(&body, made.joined, P, D_KEY + D_QUERY);
    request_text_add(&body, ",\"concat_proj.bias\":");
    for (int p = 0; p < P; p++)
        request_text_add(&body, "%s%.9g", p > 0 ? "," : "[", (double)made.bias[p]);
    request_text_add(&body, "],\"score.weight\":");
    request_text_matrix(&body, made.v, 1, P);
    request_text_add(&body, "}}");
    put("concat", body.data, 201);
    free(body.data);
    check_model("concat", additive_score);
}

/* Without parameters the score is the dot product, Luong's first score, which has no scale. */
TEST(dot)
{
    put("dot", JSON({"config":{"attention":"dot","head_dim":2},"parameters":{}}), 201);
    cJSON *answer = answer_post(&client, PATH,
                                "{\"model\":\"dot\",\"query\":[[1,2]],\"key\":[[3,4],[5,-6]],"
                                "\"outputs\":[\"scores\"]}");
    answer_expect(answer, "scores", "[[[11,-7]]]", 0);
    cJSON_Delete(answer);
}

/* -------------------------------------------------------------- widths and faults -- */

/* Key and query share the matrix's 4 columns in the way that each call divides them. */
TEST(concat_widths)
{
    put("wide",
        "{\"config\":{\"attention\":\"concat\"},\"parameters\":{\"concat_proj.weight\":"
        "[[1,10,100,1000]],\"score.weight\":[1]}}",
        201);
    cJSON *answer = answer_post(&client, PATH,
                                "{\"model\":\"wide\",\"query\":[0.001],\"key\":[[0,0,-0.01],"
                                "[0.1,0,0]],\"outputs\":[\"scores\",\"context\"]}");
    answer_expect(answer, "scores", "[[[0,0.80049902176]]]", TOLERANCE); /* tanh 0, tanh 1.1 */
    cJSON_Delete(answer);
    answer = answer_post(&client, PATH,
                         "{\"model\":\"wide\",\"query\":[[0.01,0],[0,0.001]],\"key\":[[0,0]],"
                         "\"outputs\":[\"scores\",\"context\"]}");
    answer_expect(answer, "scores", "[[[0.76159415596],[0.76159415596]]]", TOLERANCE);
    answer_expect(answer, "context", "[[0,0],[0,0]]", 0);
    cJSON_Delete(answer);
    struct http_response response =
        http_client_post(&client, PATH, "{\"model\":\"wide\",\"query\":[[1,2,3]],\"key\":[[1,2]]}");
    answer_expect_fault(&response, 400, "shape", "/query");
    assert_non_null(strstr(response.body, "key has 2 columns and query has 3; model 'wide' takes 4 "
                                          "in both together"));
    http_response_free(&response);
    answer_refused(&client, PATH, JSON({"model":"wide","query":[[1,2,3]]}), 400, "shape", "/query");
    answer_refused(&client, PATH, "{\"model\":\"wide\",\"query\":[[1,2,3,4]],\"key\":[]}", 400,
                   "shape", "/query");
    answer_refused(&client, PATH,
                   "{\"model\":\"wide\",\"query\":[[1,2]],\"key\":[[1,2]],\"value\":[[1],[2]]}",
                   400, "shape", "/value");
    answer_refused(&client, PATH, "{\"model\":\"wide\",\"query\":[[1,2]],\"q_heads\":2}", 400,
                   "option", "/q_heads");
    answer = answer_post(&client, PATH, JSON({"model":"wide","query":[],"key":[]}));
    answer_expect(answer, "context", "[]", 0);
    cJSON_Delete(answer);
    answer = answer_post(&client, PATH, JSON({"model":"wide","query":[[1,2]],"key":[]}));
    answer_expect(answer, "context", "[[0,0]]", 0);
    cJSON_Delete(answer);
}

/* None of these score functions has a scale of its own, or any other option. */
#define OPTIONS                                                                                    \
    "{\"causal\":false,\"scale\":1,\"softcap\":0,\"window_left\":-1,\"window_right\":-1,"          \
    "\"clip\":0,\"rope\":null,\"q_norm\":null,\"k_norm\":null,\"alibi_slopes\":false,\"sinks\":"   \
    "false,"                                                                                       \
    "\"relative_bias\":null}"

TEST(described)
{
    struct http_response response = http_client_get(&client, "/v1/models/wide");
    cJSON *answer = answer_json(&response, 200);
    assert_string_equal(cJSON_GetObjectItem(answer, "attention")->valuestring, "concat");
    answer_expect(answer, "layers",
                  "[{\"index\":0,\"kind\":\"cross\",\"d_query\":null,\"d_key\":null,"
                  "\"d_value\":null,\"d_out\":null,\"q_heads\":1,\"kv_heads\":1,\"head_dim\":1,"
                  "\"v_head_dim\":null,\"options\":" OPTIONS "}]",
                  0);
    cJSON_Delete(answer);
    http_response_free(&response);
    response = http_client_get(&client, "/v1/models/additive");
    answer = answer_json(&response, 200);
    answer_expect(answer, "layers",
                  "[{\"index\":0,\"kind\":\"cross\",\"d_query\":3,\"d_key\":5,\"d_value\":null,"
                  "\"d_out\":null,\"q_heads\":1,\"kv_heads\":1,\"head_dim\":7,"
                  "\"v_head_dim\":null,\"options\":" OPTIONS "}]",
                  0);
    cJSON_Delete(answer);
    http_response_free(&response);
}

/* A name that belongs to another kind is refused; the message lists the names of this kind. */
TEST(put_refused)
{
    static const struct {
        const char *body, *words;
    } cases[] = {
        { "{\"config\":{\"attention\":\"concat\"},\"parameters\":{\"q_proj.weight\":[[1]]}}",
          "concat attention has no parameter 'q_proj.weight'" },
        { "{\"config\":{\"attention\":\"dot\"},\"parameters\":{\"score.weight\":[[1]]}}",
          "dot attention has no parameter 'score.weight'" },
        { "{\"config\":{\"attention\":\"concat\"},\"parameters\":{\"concat.weight\":[[1]]}}",
          "did you mean 'concat_proj.weight'" },
        { "{\"config\":{\"attention\":\"additive\"},\"parameters\":{\"q_proj.weight\":[[1]],"
          "\"k_proj.weight\":[[1]]}}",
          "score.weight is missing" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct http_response response = model_put_json(&client, "refused", cases[i].body);
        answer_expect_fault(&response, 400, "field", NULL);
        if (!strstr(response.body, cases[i].words))
            fail_msg("%s: %s", cases[i].body, response.body);
        http_response_free(&response);
    }
}

/* The answer has equal bits alone and in a batch with items of another length. */
TEST(batch)
{
    struct request_text one = call_of("concat");
    request_text_add(&one, ",\"causal\":true,\"past_len\":1}");
    struct request_text batch = { .data = NULL };
    request_text_add(&batch,
                     "{\"requests\":[{\"model\":\"wide\",\"query\":[[1,2],[3,4]]},%s,"
                     "{\"model\":\"concat\",\"query\":[[1,2]]}]}",
                     one.data);
    cJSON *alone = answer_post(&client, PATH, one.data);
    cJSON *answer = answer_post(&client, "/v1/attention/batch", batch.data);
    const cJSON *results = cJSON_GetObjectItem(answer, "results");
    assert_int_equal(cJSON_GetArraySize(results), 3);
    answer_expect_equal(alone, cJSON_GetArrayItem(results, 1), "context");
    answer_expect_equal(alone, cJSON_GetArrayItem(results, 1), "weights");
    answer_expect_item_fault(cJSON_GetArrayItem(results, 2), "shape", "/requests/2/query");
    cJSON_Delete(answer);
    cJSON_Delete(alone);
    free(one.data);
    free(batch.data);
}

/* Without a v_proj the context has the width of the values. In a merge only the parts tell this
 * width. */
TEST(merge)
{
    put("parted",
        "{\"config\":{\"attention\":\"general\"},\"parameters\":{\"score.weight\":[[1]]}}", 201);
    cJSON *answer = answer_post(&client, "/v1/attention/merge",
                                "{\"model\":\"parted\",\"parts\":["
                                "{\"context\":[[[1,-4,3]]],\"lse\":[[0]]},"
                                "{\"context\":[[[3,6,3]]],\"lse\":[[0]]}]}");
    answer_expect(answer, "context", "[[2,1,3]]", TOLERANCE);
    answer_expect(answer, "lse", "[[0.6931471806]]", TOLERANCE);
    cJSON_Delete(answer);
    answer_refused(
        &client, "/v1/attention/merge",
        "{\"model\":\"parted\",\"parts\":[{\"context\":[[[1]],[[1]]],\"lse\":[[0],[0]]}]}", 400,
        "shape", "/parts/0/context");
}

static int start(void **state)
{
    fixture_start_with_directory(state);
    make_numbers();
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
