/* SPDX-License-Identifier: Apache-2.0 */
/* test_merge.c - positions, linear biases, sinks and dropout over HTTP, and POST
 * /v1/attention/merge.
 *
 * First come numbers worked out by hand: queries of 0 give every key the score 0, so that the
 * biases alone make the weights. Then comes the law: a trained layer gives an answer for each part
 * of the keys; these answers, merged, are its answer over all keys. */
#include "answer.h"
#include "fill.h"
#include "fixture.h"
#include "request_text.h"
#include "tensor_body.h"
#include "tensor_file.h"
#include "test.h"

static const char ATTENTION[] = "/v1/attention";
static const char MERGE[] = "/v1/attention/merge";
static const double TOLERANCE = 1e-6;

/* ---------------------------------------------------------- by hand -- */

/* Two rows over three keys, all scores 0. */
#define ZEROS                                                                                      \
    "{\"model\":\"sdpa\",\"query\":[[0],[0]],\"key\":[[1],[2],[3]],\"value\":[[7],[14],[28]],"     \
    "\"outputs\":[\"context\",\"weights\",\"lse\"]"
#define LN2 "0.6931471805599453"

struct example {
    const char *name, *request, *context, *weights, *lse;
};

static const struct example EXAMPLES[] = {
    { "alibi halves with every step", ZEROS ",\"alibi_slopes\":[" LN2 "]}", "[[12],[15.75]]",
      "[[[0.5714285714,0.2857142857,0.1428571429],[0.25,0.5,0.25]]]",
      "[[0.5596157879,0.6931471806]]" },
    { "keys one further on", ZEROS ",\"alibi_slopes\":[" LN2 "],\"kv_offset\":1}", "[[12],[12]]",
      "[[[0.5714285714,0.2857142857,0.1428571429],[0.5714285714,0.2857142857,0.1428571429]]]",
      "[[-0.1335313926,0.5596157879]]" },
    { "queries further on", ZEROS ",\"alibi_slopes\":[" LN2 "],\"past_len\":1}", "[[15.75],[21]]",
      "[[[0.25,0.5,0.25],[0.1428571429,0.2857142857,0.5714285714]]]",
      "[[0.6931471806,0.5596157879]]" },
    { "a sink as good as a key", ZEROS ",\"sinks\":[0]}", "[[12.25],[12.25]]",
      "[[[0.25,0.25,0.25],[0.25,0.25,0.25]]]", "[[1.3862943611,1.3862943611]]" },
    { "nothing but the sink", ZEROS ",\"sinks\":[-2.5],\"kv_len\":0}", "[[0],[0]]",
      "[[[0,0,0],[0,0,0]]]", "[[-2.5,-2.5]]" },
    { "a head without a sink",
      "{\"model\":\"sdpa\",\"query\":[[0,0]],\"key\":[[1,1]],\"q_heads\":2,\"sinks\":[null,0],"
      "\"outputs\":[\"context\",\"weights\",\"lse\"]}",
      "[[1,0.5]]", "[[[1]],[[0.5]]]", "[[0],[0.6931471806]]" },
    { "no sink and no key",
      "{\"model\":\"sdpa\",\"query\":[[0]],\"key\":[[1]],\"kv_len\":0,\"sinks\":[null],"
      "\"outputs\":[\"context\",\"weights\",\"lse\"]}",
      "[[0]]", "[[[0]]]", "[[null]]" },
    { "causal from an offset on", ZEROS ",\"causal\":true,\"kv_offset\":1}", "[[0],[7]]",
      "[[[0,0,0],[1,0,0]]]", "[[null,0]]" },
    { "a window from an offset on", ZEROS ",\"window_left\":0,\"window_right\":0,\"kv_offset\":1}",
      "[[0],[7]]", "[[[0,0,0],[1,0,0]]]", "[[null,0]]" },
    { "sparsemax, as in the entmax package's own example",
      "{\"model\":\"sdpa\",\"query\":[[1]],\"key\":[[-2],[0],[0.5]],\"value\":[[1],[2],[4]],"
      "\"normalizer\":\"sparsemax\",\"outputs\":[\"context\",\"weights\",\"lse\"]}",
      "[[3.5]]", "[[[0,0.25,0.75]]]", "[[1.0239095]]" },
    { "sparsemax of one key that is far ahead",
      "{\"model\":\"sdpa\",\"query\":[[2]],\"key\":[[-2],[0],[0.5]],\"value\":[[1],[2],[4]],"
      "\"normalizer\":\"sparsemax\",\"outputs\":[\"context\",\"weights\",\"lse\"],"
      "\"causal\":true,\"past_len\":1}",
      "[[2]]", "[[[0,1,0]]]", "[[0.0181499279]]" },
    { "a slope and a sink for each head",
      "{\"model\":\"sdpa\",\"query\":[[0,0]],\"key\":[[1,1],[2,2]],\"q_heads\":2,"
      "\"alibi_slopes\":[0," LN2 "],\"sinks\":[0,-1000],"
      "\"outputs\":[\"context\",\"weights\",\"lse\"]}",
      "[[1,1.3333333333]]", "[[[0.3333333333,0.3333333333]],[[0.6666666667,0.3333333333]]]",
      "[[1.0986122887],[0.4054651081]]" },
};

TEST(by_hand)
{
    for (size_t i = 0; i < sizeof EXAMPLES / sizeof EXAMPLES[0]; i++) {
        cJSON *answer = answer_post(&client, ATTENTION, EXAMPLES[i].request);
        print_message("           %s\n", EXAMPLES[i].name);
        answer_expect(answer, "context", EXAMPLES[i].context, TOLERANCE);
        answer_expect(answer, "weights", EXAMPLES[i].weights, TOLERANCE);
        answer_expect(answer, "lse", EXAMPLES[i].lse, TOLERANCE);
        cJSON_Delete(answer);
    }
}

/* Heads stay apart, and the answer always has lse, whatever outputs the request names. */
TEST(partial)
{
    static const char *const outputs[] = { "", ",\"outputs\":[\"context\"]",
                                           ",\"outputs\":[\"context\",\"lse\"]" };
    for (int i = 0; i < 3; i++) {
        char body[400];
        snprintf(body, sizeof body,
                 "{\"model\":\"sdpa\",\"query\":[[0,0],[0,0]],\"key\":[[1,2],[3,4]],\"q_heads\":2,"
                 "\"kv_heads\":2,\"partial\":true%s}",
                 outputs[i]);
        cJSON *answer = answer_post(&client, ATTENTION, body);
        answer_expect_members(answer, i == 0 ? "model,layer,context,weights,lse"
                                             : "model,layer,context,lse");
        answer_expect(answer, "context", "[[[2],[2]],[[3],[3]]]", TOLERANCE);
        answer_expect(answer, "lse", "[[0.6931471806,0.6931471806],[0.6931471806,0.6931471806]]",
                      TOLERANCE);
        cJSON_Delete(answer);
    }
}

static void expect_merged(const char *body, const char *context, const char *lse)
{
    cJSON *answer = answer_post(&client, MERGE, body);
    answer_expect_members(answer, "context,lse");
    answer_expect(answer, "context", context, TOLERANCE);
    answer_expect(answer, "lse", lse, TOLERANCE);
    cJSON_Delete(answer);
}

#define LN3     "1.0986122886681098"
#define PART_A  "{\"context\":[[[1,-8]],[[2,2]]],\"lse\":[[" LN3 "],[0]]}"
#define PART_B  "{\"lse\":[[0],[0]],\"context\":[[[5,4]],[[4,0]]]}"
#define NO_KEYS "{\"context\":[[[0]],[[0]]],\"lse\":[[null],[null]]}"
#define NOTHING "{\"context\":[[[0,0]],[[0,0]]],\"lse\":[[null],[null]]}"

TEST(merge_by_hand)
{
    static const char context[] = "[[2,-5,3,1]]", lse[] = "[[1.3862943611],[0.6931471806]]";
    expect_merged("{\"model\":\"sdpa\",\"parts\":[" PART_A "," PART_B "]}", context, lse);
    expect_merged("{\"model\":\"sdpa\",\"layer\":0,\"parts\":[" NOTHING "," PART_B "," NOTHING
                  "," PART_A "]}",
                  context, lse);
    expect_merged("{\"model\":\"sdpa\",\"parts\":[" NO_KEYS "," PART_B "," NOTHING "," PART_A
                  "," NO_KEYS "]}",
                  context, lse);
    expect_merged("{\"parts\":[" PART_A "],\"model\":\"sdpa\"}", "[[1,-8,2,2]]",
                  "[[1.0986122887],[0]]");
    expect_merged("{\"model\":\"sdpa\",\"parts\":[" NOTHING "," NOTHING "]}", "[[0,0,0,0]]",
                  "[[null],[null]]");
    expect_merged("{\"model\":\"demo\",\"parts\":[{\"context\":[[[1,2,3]]],\"lse\":[[0]]}]}",
                  "[[1,2,3]]", "[[0]]");
    expect_merged("{\"model\":\"sdpa\",\"parts\":[{\"context\":[[],[]],\"lse\":[[],[]]}]}", "[]",
                  "[[],[]]");
}

/* ------------------------------------------------------------ dropout -- */

static cJSON *drop(const char *more)
{
    char body[300];
    snprintf(body, sizeof body,
             "{\"model\":\"sdpa\",\"query\":[[0],[0],[0]],\"key\":[[1],[2],[3],[4]],"
             "\"outputs\":[\"weights\",\"context\",\"lse\"]%s}",
             more);
    return answer_post(&client, ATTENTION, body);
}

/* Each weight of 1/4 becomes 0 or 1/2, the context follows, lse does not. */
TEST(dropout)
{
    static const int64_t map[3] = { 1, 3, 4 }, rows[2] = { 3, 1 };
    cJSON *answer = drop(",\"dropout\":0.5,\"seed\":42");
    double *weights = answer_numbers(answer, "weights", 3, map);
    double *context = answer_numbers(answer, "context", 2, rows);
    int dropped = 0;
    for (int i = 0; i < 3; i++) {
        double sum = 0;
        for (int j = 0; j < 4; j++) {
            const double weight = weights[i * 4 + j];
            assert_true(weight == 0 || weight == 0.5);
            dropped += weight == 0;
            sum += weight * (j + 1);
        }
        assert_true(context[i] == sum);
    }
    assert_true(dropped > 0 && dropped < 12);
    answer_expect(answer, "lse", "[[1.3862943611,1.3862943611,1.3862943611]]", TOLERANCE);
    cJSON *same = drop(",\"seed\":42,\"dropout\":0.5"),
          *other = drop(",\"dropout\":0.5,\"seed\":7");
    cJSON *off = drop(",\"dropout\":0,\"seed\":42"), *plain = drop("");
    answer_expect_equal(same, answer, "weights");
    answer_expect_equal(off, plain, "weights");
    assert_false(cJSON_Compare(cJSON_GetObjectItem(other, "weights"),
                               cJSON_GetObjectItem(answer, "weights"), true));
    cJSON *const all[] = { answer, same, other, off, plain };
    for (int i = 0; i < 5; i++)
        cJSON_Delete(all[i]);
    free(weights);
    free(context);
}

/* ------------------------------------------------------------ the law -- */

enum { WIDTH = 64, KEYS = 23, PARTS = 4 };
static const int64_t CUTS[PARTS + 1] = { 0, 9, 9, 16, KEYS };

/* The layer's call over keys [first, end), with the sinks if has_sinks. */
static cJSON *attend(const float *query, int64_t rows, const float *key, int64_t first, int64_t end,
                     bool partial, bool has_sinks)
{
    struct request_text text = { 0 };
    request_text_add(
        &text,
        "{\"model\":\"stories260K\",\"layer\":2,\"past_len\":18,\"window_left\":17,"
        "\"alibi_slopes\":[0.5,0.25,0.125,0.0625,0.03125,0.015625,0.0078125,0],"
        "\"outputs\":[\"context\",\"lse\"],\"kv_offset\":%d,\"partial\":%s%s,\"query\":",
        (int)first, partial ? "true" : "false",
        has_sinks ? ",\"sinks\":[0,1,-1,2,0.5,3,-4,1]" : "");
    request_text_matrix(&text, query, rows, WIDTH);
    request_text_add(&text, ",\"key\":");
    request_text_matrix(&text, key + first * WIDTH, end - first, WIDTH);
    request_text_add(&text, "}");
    cJSON *answer = answer_post(&client, ATTENTION, text.data);
    free(text.data);
    return answer;
}

/* order has the parts' numbers. The caller deletes the answer. */
static cJSON *merge(cJSON *const *parts, const int *order, int count)
{
    cJSON *body = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(body, "parts");
    cJSON_AddStringToObject(body, "model", "stories260K");
    cJSON_AddNumberToObject(body, "layer", 2);
    for (int i = 0; i < count; i++) {
        cJSON *part = cJSON_CreateObject();
        cJSON_AddItemReferenceToObject(part, "context",
                                       cJSON_GetObjectItem(parts[order[i]], "context"));
        cJSON_AddItemReferenceToObject(part, "lse", cJSON_GetObjectItem(parts[order[i]], "lse"));
        cJSON_AddItemToArray(list, part);
    }
    char *text = cJSON_PrintUnformatted(body);
    cJSON *answer = answer_post(&client, MERGE, text);
    free(text);
    cJSON_Delete(body);
    return answer;
}

static void expect_near(const cJSON *answer, const cJSON *whole, const char *name)
{
    char *want = cJSON_PrintUnformatted(cJSON_GetObjectItem(whole, name));
    answer_expect(answer, name, want, 2e-5);
    free(want);
}

TEST(split_keys_of_a_trained_layer)
{
    static const int64_t row_counts[] = { 1, 5, 40 };
    static const int orders[][PARTS] = { { 0, 1, 2, 3 }, { 3, 1, 0, 2 }, { 2, 3, 1, 0 } };
    static float query[40 * WIDTH], key[KEYS * WIDTH];
    struct fill fill = { 260 };
    fill_floats(&fill, query, 40 * WIDTH, -2, 2);
    fill_floats(&fill, key, KEYS * WIDTH, -2, 2);
    for (int n = 0; n < 3; n++) {
        cJSON *whole = attend(query, row_counts[n], key, 0, KEYS, false, true);
        cJSON *parts[PARTS], *merged[3];
        for (int i = 0; i < PARTS; i++)
            parts[i] = attend(query, row_counts[n], key, CUTS[i], CUTS[i + 1], true, i == 2);
        for (int o = 0; o < 3; o++) {
            merged[o] = merge(parts, orders[o], PARTS);
            expect_near(merged[o], whole, "context");
            expect_near(merged[o], whole, "lse");
            answer_expect_equal(merged[o], merged[0], "context");
            answer_expect_equal(merged[o], merged[0], "lse");
        }
        for (int i = 0; i < PARTS; i++)
            cJSON_Delete(parts[i]);
        for (int o = 0; o < 3; o++)
            cJSON_Delete(merged[o]);
        cJSON_Delete(whole);
    }
}

/* ------------------------------------------------------------- faults -- */

struct refusal {
    const char *body, *code, *pointer;
    long status;
};

#define SDPA(parts) "{\"model\":\"sdpa\",\"parts\":" parts "}"

static const struct refusal REFUSALS[] = {
    { "[]", "type", "", 400 },
    { "{\"model\":\"sdpa\"}", "field", "/parts", 400 },
    { "{\"model\":\"sdpa\",\"parts\":null}", "field", "/parts", 400 },
    { SDPA("[]"), "shape", "/parts", 400 },
    { SDPA("{}"), "type", "/parts", 400 },
    { SDPA("[1]"), "type", "/parts", 400 },
    { SDPA("[" PART_A ",[1]]"), "type", "/parts*", 400 },
    { SDPA("[\"a\"]"), "type", "/parts/0", 400 },
    { SDPA("[{}]"), "field", "/parts/0/context", 400 },
    { SDPA("[{\"context\":[[[1]]]}]"), "field", "/parts/0/lse", 400 },
    { SDPA("[" PART_A ",{\"lse\":[[0],[0]]}]"), "field", "/parts/1/context", 400 },
    { SDPA("[{\"context\":[[[1]]],\"lsee\":[[0]]}]"), "field", "/parts/0/lsee", 400 },
    { SDPA("[{\"context\":[[[null]]],\"lse\":[[0]]}]"), "type", "/parts/0/context/0/0/0", 400 },
    { SDPA("[{\"context\":[[[1]]],\"lse\":[[\"0\"]]}]"), "type", "/parts/0/lse/0/0", 400 },
    { SDPA("[{\"context\":[[[1]]],\"lse\":[[true]]}]"), "type", "/parts/0/lse/0/0", 400 },
    { SDPA("[{\"context\":[[[1,2],[3]]],\"lse\":[[0,0]]}]"), "ragged", "/parts/0/context*", 400 },
    { SDPA("[{\"context\":[[1]],\"lse\":[[0]]}]"), "shape", "/parts/0/context", 400 },
    { SDPA("[{\"context\":[],\"lse\":[]}]"), "shape", "/parts/0/context", 400 },
    { SDPA("[{\"context\":[[[]]],\"lse\":[[0]]}]"), "shape", "/parts/0/context", 400 },
    { SDPA("[{\"context\":[[[1]]],\"lse\":[0]}]"), "shape", "/parts/0/lse", 400 },
    { SDPA("[{\"context\":[[[1]]],\"lse\":[[0,0]]}]"), "shape", "/parts/0/lse", 400 },
    { SDPA("[" NOTHING "," NO_KEYS "]"), "shape", "/parts/1/context", 400 },
    { SDPA("[" PART_A ",{\"context\":[[[1]],[[1]]],\"lse\":[[0],[0]]}]"), "shape",
      "/parts/1/context", 400 },
    { "{\"model\":\"demo\",\"parts\":[" PART_A "]}", "shape", "/parts/0/context", 400 },
    { "{\"model\":\"nobody\",\"parts\":[" PART_A "]}", "not_found", "/model", 404 },
    { "{\"model\":\"sdpa\",\"layer\":1,\"parts\":[" PART_A "]}", "not_found", "/layer", 404 },
    { "{\"model\":\"sdpa\",\"part\":[" PART_A "]}", "field", "/part", 400 },
    { "{\"model\":\"sdpa\",\"query\":[[1]],\"parts\":[" PART_A "]}", "field", "/query", 400 },
    { "{\"model\":\"sdpa\",\"parts\":[" PART_A "],\"parts\":[]}", "duplicate", "/parts", 400 },
    { "", "json", "", 400 },
};

TEST(faults)
{
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        const struct refusal *refusal = &REFUSALS[i];
        answer_refused(&client, MERGE, refusal->body, refusal->status, refusal->code,
                       refusal->pointer);
    }
    struct http_response response = http_client_get(&client, MERGE);
    answer_expect_fault(&response, 405, "method", NULL);
    http_response_free(&response);
}

/* ------------------------------------------------------------ halves -- */

/* lse of halves is F32, in every form of the answer and in a list of them, of sdpa, which computes
 * in the query's dtype, and of models: these of 400 and 1000 would have steps of 0.25 and 8. */
TEST(lse_of_halves)
{
    static const struct {
        const char *model, *dtype, *shape, *lse_shape;
        uint16_t query[3];
        int count;
    } CASES[] = {
        { "sdpa", "F16", "[2,1]", "[1,2]", { 0x4d01, 0x4d02 }, 2 },
        { "sdpa", "BF16", "[2,1]", "[1,2]", { 0x4201, 0x4202 }, 2 },
        { "demo", "F16", "[1,3]", "[1,1]", { 0x4d01, 0x4d02, 0x4d03 }, 3 },
        { "demo", "BF16", "[1,3]", "[1,1]", { 0x4201, 0x4202, 0x4203 }, 3 },
    };
    for (size_t c = 0; c < sizeof CASES / sizeof CASES[0]; c++) {
        float floats[3], half_lse[2];
        const size_t rows = strcmp(CASES[c].model, "sdpa") == 0 ? 2 : 1;
        char metadata[96];
        snprintf(metadata, sizeof metadata, "{\"model\":\"%s\",\"outputs\":\"[\\\"lse\\\"]\"}",
                 CASES[c].model);
        for (int i = 0; i < CASES[c].count; i++) {
            const uint32_t wide = (uint32_t)CASES[c].query[i] << 16;
            memcpy(&floats[i], &wide, sizeof wide);
            if (strcmp(CASES[c].dtype, "F16") == 0)
                floats[i] = tensor_half(CASES[c].query[i]);
        }
        struct tensor_body halves = { .used = 0 }, plain = { .used = 0 };
        tensor_body_add(&halves, "query", CASES[c].dtype, CASES[c].shape, CASES[c].query,
                        2 * (size_t)CASES[c].count);
        tensor_body_add(&plain, "query", "F32", CASES[c].shape, floats,
                        sizeof(float) * (size_t)CASES[c].count);
        struct http_response one = tensor_body_post(&client, ATTENTION, &halves, metadata, 0, NULL);
        struct http_response two = tensor_body_post(&client, ATTENTION, &plain, metadata, 0, NULL);
        struct http_response npy =
            tensor_body_post(&client, ATTENTION, &halves, metadata, 0, "application/x-npy");
        struct http_response text =
            tensor_body_post(&client, ATTENTION, &halves, metadata, 0, "application/json");
        cJSON *header = tensor_body_header(&one), *float_header = tensor_body_header(&two);
        memcpy(half_lse, tensor_body_find(&one, header, "lse", "F32", CASES[c].lse_shape),
               rows * sizeof *half_lse);
        assert_memory_equal(half_lse,
                            tensor_body_find(&two, float_header, "lse", "F32", CASES[c].lse_shape),
                            rows * sizeof *half_lse);
        assert_int_equal(npy.status, 200);
        assert_memory_equal(npy.body + npy.body_size - rows * sizeof *half_lse, half_lse,
                            rows * sizeof *half_lse);
        cJSON *json = answer_json(&text, 200);
        double *numbers = answer_numbers(json, "lse", 2, (int64_t[]){ 1, (int64_t)rows });
        for (size_t i = 0; i < rows; i++)
            assert_true((float)numbers[i] == half_lse[i]);
        free(numbers);
        cJSON_Delete(json);
        cJSON_Delete(header);
        cJSON_Delete(float_header);
        http_response_free(&one);
        http_response_free(&two);
        http_response_free(&npy);
        http_response_free(&text);
    }
}

/* Contexts of halves are merged by the lse of floats that comes with them, and the whole has both
 * dtypes too. */
TEST(merge_of_halves)
{
    static const uint16_t SHORT[2][4] = { { 0x3f80, 0xc100, 0x4000, 0x4000 },
                                          { 0x40a0, 0x4080, 0x4080, 0 } };
    static const float LSE_A[] = { 1000.0986122887f, 1000 }, LSE_B[] = { 999, 1000 };
    static const float ALL[2][4] = { { 1, -8, 2, 2 }, { 5, 4, 4, 0 } };
    struct http_response answers[2];
    cJSON *headers[2];
    for (int i = 0; i < 2; i++) {
        struct tensor_body body = { .used = 0 };
        const char *dtype = i == 0 ? "BF16" : "F32";
        const void *a = i == 0 ? (void *)SHORT[0] : ALL[0], *b = i == 0 ? (void *)SHORT[1] : ALL[1];
        const size_t size = i == 0 ? sizeof SHORT[0] : sizeof ALL[0];
        tensor_body_add(&body, "parts.0.context", dtype, "[2,1,2]", a, size);
        tensor_body_add(&body, "parts.1.context", dtype, "[2,1,2]", b, size);
        tensor_body_add(&body, "parts.0.lse", "F32", "[2,1]", LSE_A, sizeof LSE_A);
        tensor_body_add(&body, "parts.1.lse", "F32", "[2,1]", LSE_B, sizeof LSE_B);
        answers[i] = tensor_body_post(&client, MERGE, &body, JSON({"model":"sdpa"}), 0, NULL);
        headers[i] = tensor_body_header(&answers[i]);
        tensor_body_find(&answers[i], headers[i], "context", dtype, "[1,4]");
    }
    assert_memory_equal(tensor_body_find(&answers[0], headers[0], "lse", "F32", "[2,1]"),
                        tensor_body_find(&answers[1], headers[1], "lse", "F32", "[2,1]"),
                        2 * sizeof(float));
    for (int i = 0; i < 2; i++) {
        cJSON_Delete(headers[i]);
        http_response_free(&answers[i]);
    }
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start_with_examples, fixture_clear);
