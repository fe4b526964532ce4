/* SPDX-License-Identifier: Apache-2.0 */
/* test_gradients.c - POST /v1/attention/gradients.
 *
 * Numbers worked out by hand come first. Then the tests compare every gradient with finite
 * differences of what POST /v1/attention answers to the same fields. The gradient is the derivative
 * of the sum of context * context_gradient by each number of the inputs, of the mask and of the
 * parameters of a model. The test puts the model again for each changed parameter. */
#include "answer.h"
#include "fill.h"
#include "fixture.h"
#include "model_client.h"
#include "request_text.h"
#include "test.h"

static const char PATH[] = "/v1/attention/gradients";

/* ------------------------------------------------------------------------------- by hand -- */

/* A query of 0 gives both keys the weight 1/2. With gradient 1 of the context the weights have
 * gradients 3 and 1, delta is 2, and the scores have (3 - 2)/2 and (1 - 2)/2. So the gradient of
 * the query is 5/2 - 2/2. */
TEST(by_hand)
{
    cJSON *answer =
        answer_post(&client, PATH,
                    "{\"model\":\"sdpa\",\"query\":[[0]],\"key\":[[5],[2]],\"value\":[[3],[1]],"
                    "\"mask\":[[0,0]],\"context_gradient\":[[1]]}");
    answer_expect_members(answer, "model,layer,query,key,value,mask,parameters");
    answer_expect(answer, "model", "\"sdpa\"", 0);
    answer_expect(answer, "query", "[[1.5]]", 1e-6);
    answer_expect(answer, "key", "[[0],[0]]", 0);
    answer_expect(answer, "value", "[[0.5],[0.5]]", 1e-6);
    answer_expect(answer, "mask", "[[0.5,-0.5]]", 1e-6);
    answer_expect(answer, "parameters", "{}", 0);
    cJSON_Delete(answer);
}

/* Scores 0.25 and 0 have the weights 0.625 and 0.375; both are in the support, and the mean of
 * their gradients 3 and 1 is 2. */
TEST(sparsemax)
{
    cJSON *answer = answer_post(
        &client, PATH,
        "{\"model\":\"sdpa\",\"query\":[[0.25]],\"key\":[[1],[0]],\"value\":[[3],[1]],"
        "\"mask\":[[0,0]],\"normalizer\":\"sparsemax\",\"sinks\":[-1],\"alibi_slopes\":[0],"
        "\"context_gradient\":[[1]]}");
    answer_expect_members(answer, "model,layer,query,key,value,mask,alibi_slopes,sinks,parameters");
    answer_expect(answer, "value", "[[0.625],[0.375]]", 1e-6);
    answer_expect(answer, "mask", "[[1,-1]]", 1e-6);
    answer_expect(answer, "query", "[[1]]", 1e-6);
    answer_expect(answer, "key", "[[0.25],[-0.25]]", 1e-6);
    answer_expect(answer, "sinks", "[0]", 0);
    answer_expect(answer, "alibi_slopes", "[1]", 1e-6);
    cJSON_Delete(answer);
}

/* One word sees only itself, so its context is its value. So v_proj gets the word times the
 * gradient. The scores get nothing, because their weight is always 1. The matrices of demo have the
 * shape [in, out]. */
TEST(one_word)
{
    cJSON *answer = answer_post(
        &client, PATH, "{\"model\":\"demo\",\"query\":[1,0,2],\"context_gradient\":[1,10,100]}");
    answer_expect_members(answer, "model,layer,query,key,value,input,parameters");
    const cJSON *parameters = cJSON_GetObjectItem(answer, "parameters");
    answer_expect_members(parameters, "q_proj.weight,k_proj.weight,v_proj.weight");
    answer_expect(parameters, "v_proj.weight", "[[1,10,100],[0,0,0],[2,20,200]]", 1e-6);
    answer_expect(parameters, "q_proj.weight", "[[0,0,0],[0,0,0],[0,0,0]]", 0);
    answer_expect(parameters, "k_proj.weight", "[[0,0,0],[0,0,0],[0,0,0]]", 0);
    answer_expect(answer, "query", "[[0,0,0]]", 0);
    answer_expect(answer, "key", "[[0,0,0]]", 0);
    const int64_t shape[2] = { 1, 3 };
    double *input = answer_numbers(answer, "input", 2, shape);
    double *value = answer_numbers(answer, "value", 2, shape);
    assert_memory_equal(input, value, 3 * sizeof *value);
    assert_true(value[0] != 0 || value[1] != 0 || value[2] != 0);
    free(input);
    free(value);
    cJSON_Delete(answer);
}

TEST(hidden)
{
    cJSON *answer = answer_post(
        &client, PATH,
        "{\"model\":\"sdpa\",\"query\":[[1],[2]],\"key\":[[5],[2]],\"value\":[[3],[1]],"
        "\"kv_len\":[0,1],\"mask\":[[true,true],[true,true]],\"context_gradient\":[[7],[4]]}");
    answer_expect_members(answer, "model,layer,query,key,value,parameters");
    answer_expect(answer, "query", "[[0],[0]]", 0);
    answer_expect(answer, "key", "[[0],[0]]", 0);
    answer_expect(answer, "value", "[[4],[0]]", 0);
    cJSON_Delete(answer);
    answer = answer_post(&client, PATH,
                         "{\"model\":\"sdpa\",\"query\":[],\"key\":[[5,1]],"
                         "\"context_gradient\":[]}");
    answer_expect(answer, "query", "[]", 0);
    answer_expect(answer, "key", "[[0,0]]", 0);
    answer_expect(answer, "value", "[[0,0]]", 0);
    cJSON_Delete(answer);
}

/* -------------------------------------------------------------------- finite differences -- */

enum { NUMBERS_MAX = 24, ARRAYS_MAX = 10 };

struct array {
    const char *name;
    int64_t rows, columns; /* rows 0: a list */
    bool is_parameter;
    float numbers[NUMBERS_MAX];
};

struct call {
    const char *fields; /* of the request, without the arrays */
    const char *config; /* of the model "moved"; NULL: there are no parameters */
    int64_t q_len, d_out;
    struct array arrays[ARRAYS_MAX];
    float context_gradient[NUMBERS_MAX];
};

static const struct call CALLS[] = {
    { "\"model\":\"sdpa\",\"q_heads\":2,\"kv_heads\":1,\"causal\":true,\"past_len\":1,"
      "\"softcap\":1.5",
      NULL,
      3,
      4,
      { { "query", 3, 4, false, { 0 } },
        { "key", 4, 2, false, { 0 } },
        { "value", 4, 2, false, { 0 } },
        { "mask", 3, 4, false, { 0 } },
        { "alibi_slopes", 0, 2, false, { 0 } },
        { "sinks", 0, 2, false, { 0 } } },
      { 0 } },
    { "\"model\":\"moved\",\"window_left\":2,\"dropout\":0.3,\"seed\":5,\"kv_offset\":1",
      "{\"q_heads\":2,\"kv_heads\":1,\"head_dim\":2,\"rope\":{\"theta\":10}}",
      4,
      5,
      { { "query", 4, 3, false, { 0 } },
        { "key", 5, 2, false, { 0 } },
        { "value", 5, 3, false, { 0 } },
        { "q_proj.weight", 4, 3, true, { 0 } },
        { "q_proj.bias", 0, 4, true, { 0 } },
        { "k_proj.weight", 2, 2, true, { 0 } },
        { "v_proj.weight", 2, 3, true, { 0 } },
        { "o_proj.weight", 5, 4, true, { 0 } } },
      { 0 } },
    { "\"model\":\"moved\"",
      "{\"q_heads\":1,\"layout\":\"in_out\"}",
      4,
      2,
      { { "query", 4, 3, false, { 0 } },
        { "q_proj.weight", 3, 2, true, { 0 } },
        { "k_proj.weight", 3, 2, true, { 0 } },
        { "v_proj.weight", 3, 2, true, { 0 } },
        { "v_proj.bias", 0, 2, true, { 0 } } },
      { 0 } },
    { "\"model\":\"moved\",\"causal\":true,\"past_len\":1",
      "{\"attention\":\"general\",\"layout\":\"in_out\"}",
      3,
      2,
      { { "query", 3, 2, false, { 0 } },
        { "key", 4, 3, false, { 0 } },
        { "value", 4, 2, false, { 0 } },
        { "score.weight", 2, 3, true, { 0 } } },
      { 0 } },
    { "\"model\":\"moved\",\"kv_len\":[2,4,3],\"sinks\":[0.25]",
      "{\"attention\":\"additive\",\"softcap\":2}",
      3,
      3,
      { { "query", 3, 2, false, { 0 } },
        { "key", 4, 3, false, { 0 } },
        { "value", 4, 2, false, { 0 } },
        { "mask", 3, 4, false, { 0 } },
        { "q_proj.weight", 4, 2, true, { 0 } },
        { "q_proj.bias", 0, 4, true, { 0 } },
        { "k_proj.weight", 4, 3, true, { 0 } },
        { "v_proj.weight", 3, 2, true, { 0 } },
        { "score.weight", 0, 4, true, { 0 } } },
      { 0 } },
    { "\"model\":\"moved\"",
      "{\"attention\":\"concat\"}",
      3,
      3,
      { { "query", 3, 2, false, { 0 } },
        { "key", 4, 3, false, { 0 } },
        { "value", 4, 3, false, { 0 } },
        { "concat_proj.weight", 4, 5, true, { 0 } },
        { "score.weight", 1, 4, true, { 0 } } },
      { 0 } },
    { "\"model\":\"moved\",\"dropout\":0.25",
      "{\"attention\":\"concat\",\"layout\":\"in_out\"}",
      3,
      2,
      { { "query", 3, 2, false, { 0 } },
        { "key", 4, 3, false, { 0 } },
        { "value", 4, 2, false, { 0 } },
        { "concat_proj.weight", 5, 4, true, { 0 } },
        { "concat_proj.bias", 0, 4, true, { 0 } },
        { "score.weight", 4, 1, true, { 0 } },
        { "o_proj.weight", 2, 2, true, { 0 } } },
      { 0 } },
    /* The file has its own names, and one of these stands for two parameters. */
    { "\"model\":\"moved\"",
      "{\"tensors\":{\"q_proj.weight\":\"both\",\"k_proj.weight\":\"both\","
      "\"v_proj.weight\":\"attn.value\"},\"q_heads\":1}",
      4,
      2,
      { { "query", 4, 3, false, { 0 } },
        { "both", 2, 3, true, { 0 } },
        { "attn.value", 2, 3, true, { 0 } } },
      { 0 } },
};

static void add_arrays(struct request_text *text, const struct call *call, bool parameters)
{
    bool is_first = parameters;
    for (const struct array *array = call->arrays; array->name; array++) {
        if (array->is_parameter != parameters)
            continue;
        request_text_add(text, "%s\"%s\":", is_first ? "" : ",", array->name);
        is_first = false;
        if (array->rows)
            request_text_matrix(text, array->numbers, array->rows, array->columns);
        for (int64_t i = 0; !array->rows && i < array->columns; i++)
            request_text_add(text, "%s%.9g%s", i ? "," : "[", (double)array->numbers[i],
                             i + 1 < array->columns ? "" : "]");
    }
}

static void put_model(const struct call *call)
{
    struct request_text text = { 0 };
    request_text_add(&text, "{\"config\":%s,\"parameters\":{", call->config);
    add_arrays(&text, call, true);
    request_text_add(&text, "}}");
    struct http_response response = model_put_json(&client, "moved", text.data);
    if (response.status != 200 && response.status != 201)
        fail_msg("the model was refused: %s", response.body);
    http_response_free(&response);
    free(text.data);
}

static double loss(const struct call *call)
{
    const int64_t shape[2] = { call->q_len, call->d_out };
    struct request_text text = { 0 };
    double sum = 0;
    request_text_add(&text, "{%s,\"outputs\":[\"context\"]", call->fields);
    add_arrays(&text, call, false);
    request_text_add(&text, "}");
    cJSON *answer = answer_post(&client, "/v1/attention", text.data);
    double *context = answer_numbers(answer, "context", 2, shape);
    for (int64_t i = 0; i < call->q_len * call->d_out; i++)
        sum += context[i] * (double)call->context_gradient[i];
    free(context);
    cJSON_Delete(answer);
    free(text.data);
    return sum;
}

/* The derivative: (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h */
static double difference(const struct call *call, struct array *array, int64_t i)
{
    static const float step = 0x1p-4f, moves[4] = { -2, -1, 1, 2 };
    const float kept = array->numbers[i];
    double at[4];
    for (int m = 0; m < 4; m++) {
        array->numbers[i] = kept + moves[m] * step;
        if (array->is_parameter)
            put_model(call);
        at[m] = loss(call);
    }
    array->numbers[i] = kept;
    if (array->is_parameter)
        put_model(call);
    return (8 * (at[2] - at[1]) - (at[3] - at[0])) / (12 * (double)step);
}

static cJSON *gradients_of(const struct call *call)
{
    struct request_text text = { 0 };
    request_text_add(&text, "{%s", call->fields);
    add_arrays(&text, call, false);
    request_text_add(&text, ",\"context_gradient\":");
    request_text_matrix(&text, call->context_gradient, call->q_len, call->d_out);
    request_text_add(&text, "}");
    cJSON *answer = answer_post(&client, PATH, text.data);
    free(text.data);
    return answer;
}

static void compare(const struct call *call, struct array *array, const cJSON *answer,
                    const char *name)
{
    const int64_t count = (array->rows ? array->rows : 1) * array->columns;
    const int64_t shape[2] = { array->rows ? array->rows : array->columns, array->columns };
    double *got = answer_numbers(answer, name, array->rows ? 2 : 1, shape);
    for (int64_t i = 0; i < count; i++) {
        const double want = difference(call, array, i);
        if (!(fabs(got[i] - want) <= 2e-4 * (1 + fabs(want))))
            fail_msg("%s[%d] is %.9g, want %.9g", name, (int)i, got[i], want);
    }
    free(got);
}

TEST(differences)
{
    for (size_t k = 0; k < sizeof CALLS / sizeof CALLS[0]; k++) {
        struct call call = CALLS[k];
        struct fill fill = { 100 + k };
        const bool is_self = strcmp(call.arrays[1].name, "key") != 0;
        for (struct array *array = call.arrays; array->name; array++)
            fill_floats(&fill, array->numbers, NUMBERS_MAX, -1, 1);
        fill_floats(&fill, call.context_gradient, NUMBERS_MAX, -1, 1);
        if (call.config)
            put_model(&call);
        cJSON *answer = gradients_of(&call);
        const cJSON *parameters = cJSON_GetObjectItem(answer, "parameters");
        for (struct array *array = call.arrays; array->name; array++)
            compare(&call, array, array->is_parameter ? parameters : answer,
                    is_self && !array->is_parameter ? "input" : array->name);
        cJSON_Delete(answer);
        if (call.config)
            model_delete_well(&client, "moved");
    }
}

/* ------------------------------------------------------------------------------- shapes -- */

/* Heads have their own axis, and names contain the layer. */
TEST(shapes)
{
    cJSON *answer = answer_post(&client, PATH,
                                "{\"model\":\"sdpa\",\"query\":[[[1,2]],[[3,4]]],"
                                "\"key\":[[[1,0],[0,1]]],\"mask\":[[[0,0]],[[0,null]]],"
                                "\"context_gradient\":[[1,0,0,1]]}");
    const int64_t query[3] = { 2, 1, 2 }, key[3] = { 1, 2, 2 }, mask[3] = { 2, 1, 2 };
    free(answer_numbers(answer, "query", 3, query));
    free(answer_numbers(answer, "key", 3, key));
    free(answer_numbers(answer, "value", 3, key));
    free(answer_numbers(answer, "mask", 3, mask));
    cJSON_Delete(answer);

    struct http_response response = model_put_json(
        &client, "two",
        "{\"config\":{\"layers\":2},\"parameters\":{\"layers.0.q_proj.weight\":[[1]],"
        "\"layers.1.q_proj.weight\":[[2]]}}");
    assert_int_equal(response.status, 201);
    http_response_free(&response);
    answer = answer_post(&client, PATH,
                         "{\"model\":\"two\",\"layer\":1,\"query\":[[0],[1]],"
                         "\"context_gradient\":[[1],[1]]}");
    answer_expect_members(cJSON_GetObjectItem(answer, "parameters"), "layers.1.q_proj.weight");
    cJSON_Delete(answer);
    model_delete_well(&client, "two");
}

/* ------------------------------------------------------------------------------- faults -- */

TEST(faults)
{
    static const struct {
        const char *body, *code, *pointer;
    } faults[] = {
        { "{\"model\":\"sdpa\",\"query\":[[1,2]]}", "field", "/context_gradient" },
        { "{\"model\":\"sdpa\",\"context_gradient\":[[1]]}", "field", "/query" },
        { "{\"model\":\"sdpa\",\"query\":[[1,2]],\"context_gradient\":[[1]]}", "shape",
          "/context_gradient" },
        { "{\"model\":\"sdpa\",\"query\":[[1,2]],\"context_gradient\":[[1,2],[3,4]]}", "shape",
          "/context_gradient" },
        { "{\"model\":\"sdpa\",\"query\":[[1,2]],\"context_gradient\":[1,2]}", "shape",
          "/context_gradient" },
        { "{\"model\":\"sdpa\",\"query\":[[1,2]],\"context_gradient\":[[1,null]]}", "type",
          "/context_gradient/0/1" },
        { "{\"model\":\"sdpa\",\"query\":[[1,2]],\"context_gradient\":\"no\"}", "type",
          "/context_gradient" },
        { "{\"model\":\"sdpa\",\"query\":[[1,2]],\"context_gradient\":[[1,1e99]]}", "nonfinite",
          "/context_gradient/0/1" },
        { "{\"model\":\"sdpa\",\"query\":[[1,2]],\"context_gradients\":[[1,2]]}", "field",
          "/context_gradients" },
        { "{\"model\":\"sdpa\",\"query\":[[1,2]],\"outputs\":[\"context\"],"
          "\"context_gradient\":[[1,2]]}",
          "field", "/outputs" },
        { "{\"model\":\"sdpa\",\"query\":[[1,2]],\"partial\":true,\"context_gradient\":[[1,2]]}",
          "option", "/partial" },
        { "{\"model\":\"sdpa\",\"query\":[[1,2]],\"weight_map\":{\"top_k\":1},"
          "\"context_gradient\":[[1,2]]}",
          "option", "/weight_map" },
        { "{\"model\":\"nobody\",\"query\":[[1,2]],\"context_gradient\":[[1,2]]}", "not_found",
          "/model" },
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        answer_refused(&client, PATH, faults[i].body,
                       strcmp(faults[i].code, "not_found") == 0 ? 404 : 400, faults[i].code,
                       faults[i].pointer);
    answer_refused(&client, "/v1/attention",
                   "{\"model\":\"sdpa\",\"query\":[[1,2]],\"context_gradient\":[[1,2]]}", 400,
                   "field", "/context_gradient");
}

/* Equal requests get equal bytes, on one worker and on several. */
TEST(bits)
{
    struct request_text text = { 0 };
    char *bodies[2];
    request_text_add(&text, "{\"model\":\"sdpa\",\"q_heads\":4,\"kv_heads\":2,\"query\":");
    request_text_random(&text, 1, 150, 16);
    request_text_add(&text, ",\"key\":");
    request_text_random(&text, 2, 170, 8);
    request_text_add(&text, ",\"context_gradient\":");
    request_text_random(&text, 3, 150, 16);
    request_text_add(&text, "}");
    for (int k = 0; k < 2; k++) {
        struct daemon other;
        struct http_client to;
        daemon_start_with(&other, "--workers", k ? "4" : "1", NULL);
        http_client_init(&to, other.port);
        struct http_response response = http_client_post(&to, PATH, text.data);
        assert_int_equal(response.status, 200);
        bodies[k] = strdup(response.body);
        http_response_free(&response);
        http_client_free(&to);
        daemon_stop(&other);
    }
    assert_string_equal(bodies[0], bodies[1]);
    free(bodies[0]);
    free(bodies[1]);
    free(text.data);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start_with_directory, fixture_clear);
