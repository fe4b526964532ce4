/* SPDX-License-Identifier: Apache-2.0 */
/* test_elements.c - some fields take an array of numbers. If an element of it is wrong, the fault
 * names the first wrong element and says what it is, in every such field. */
#include "answer.h"
#include "fixture.h"
#include "test.h"

#define ATTENTION "/v1/attention"
#define GRADIENTS "/v1/attention/gradients"
#define SOFTMAX   "/v1/softmax"
#define MERGE     "/v1/attention/merge"
#define PUT       "/v1/models/new"
#define INFER     "/v2/models/demo/infer"

#define SDPA(fields)      "{\"model\":\"sdpa\"," fields "}"
#define WITH(fields)      SDPA("\"query\":[[1,2],[3,4]]," fields)
#define PARAMETER(values) "{\"config\":{},\"parameters\":{\"q_proj.weight\":" values "}}"
#define DATA(shape, data)                                                                          \
    "{\"inputs\":[{\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":" shape ",\"data\":" data    \
    "}]}"

static const struct {
    const char *path, *body, *code, *pointer, *message;
} CASES[] = {
    /* A string, an object. */
    { ATTENTION, SDPA("\"query\":[[1,\"2\"]]"), "type", "/query/0/1",
      "query[0][1] is a string; query takes an array of numbers" },
    { ATTENTION, SDPA("\"query\":[[1,2],[3,4],[5,{}]]"), "type", "/query/2/1",
      "query[2][1] is an object;" },
    { ATTENTION, SDPA("\"query\":[\"1\",\"2\"]"), "type", "/query/0", "query[0] is a string;" },
    { ATTENTION, SDPA("\"query\":[[[1,2]],[[3,\"4\"]]]"), "type", "/query/1/0/1",
      "query[1][0][1] is a string;" },
    { ATTENTION, SDPA("\"query\":[[],[1],[[2],[\"3\"]]]"), "type", "/query/2/1/0",
      "query[2][1][0] is a string;" },
    { ATTENTION, WITH("\"key\":[[1,2],\"x\"]"), "type", "/key/1", "key[1] is a string;" },
    { ATTENTION, WITH("\"value\":[[1,2],[[{}]]]"), "type", "/value/1/0/0",
      "value[1][0][0] is an object;" },
    { ATTENTION, WITH("\"mask\":[[true,\"false\"],[true,true]]"), "type", "/mask/0/1",
      "mask[0][1] is a string; mask takes an array of booleans or of numbers" },
    { ATTENTION, WITH("\"kv_len\":[1,\"2\"]"), "type", "/kv_len/1", "kv_len[1] is a string;" },
    { ATTENTION, WITH("\"alibi_slopes\":[\"1\"]"), "type", "/alibi_slopes/0", "is a string;" },
    { ATTENTION, WITH("\"weight_map\":{\"rows\":[0,\"1\"]}"), "type", "/weight_map/rows/1",
      "rows[1] is a string;" },
    { GRADIENTS, WITH("\"context_gradient\":[[1,1],[1,\"1\"]]"), "type", "/context_gradient/1/1",
      "context_gradient[1][1] is a string;" },
    { SOFTMAX, "{\"input\":[[[1,2]],[[3,[]]],[[\"4\",5]]]}", "type", "/input/2/0/0",
      "input[2][0][0] is a string;" },
    { MERGE, SDPA("\"parts\":[{\"context\":[[[1,\"2\"]]],\"lse\":[[0]]}]"), "type",
      "/parts/0/context/0/0/1", "context[0][0][1] is a string;" },
    { PUT, PARAMETER("[[1,2],[3,\"4\"]]"), "type", "/parameters/q_proj.weight/1/1",
      "q_proj.weight[1][1] is a string; q_proj.weight takes an array of numbers" },
    { INFER, DATA("[2,3]", "[[1,0,0],[0,1,\"0\"]]"), "type", "/inputs/0/data/1/2",
      "data of input 'query'[1][2] is a string;" },
    /* true, null. */
    { ATTENTION, SDPA("\"query\":[[1,2],[true,4]]"), "type", "/query/1/0",
      "query[1][0] is true; expected a number" },
    { ATTENTION, SDPA("\"query\":[[1,2],[3,null],[false,1]]"), "type", "/query/1/1",
      "query[1][1] is null; expected a number" },
    { ATTENTION, SDPA("\"query\":[[1,false],[3,null]]"), "type", "/query/0/1",
      "query[0][1] is false; expected a number" },
    { ATTENTION, SDPA("\"query\":[null,1]"), "type", "/query/0", "query[0] is null;" },
    { ATTENTION, WITH("\"key\":[[[null]]]"), "type", "/key/0/0/0", "key[0][0][0] is null;" },
    { ATTENTION, WITH("\"kv_len\":[1,null]"), "type", "/kv_len/1", "kv_len[1] is null;" },
    { ATTENTION, WITH("\"sinks\":[false]"), "type", "/sinks/0", "sinks[0] is false;" },
    { ATTENTION, WITH("\"weight_map\":{\"pool\":[1,true]}"), "type", "/weight_map/pool/1",
      "pool[1] is true;" },
    { ATTENTION, WITH("\"mask\":[[true,false],[1,true]]"), "type", "/mask/1/0",
      "mask[1][0] is a number after booleans; expected one or the other" },
    { ATTENTION, WITH("\"mask\":[[0,-1],[-1,true]]"), "type", "/mask/1/1",
      "mask[1][1] is true after numbers; expected one or the other" },
    { ATTENTION, WITH("\"mask\":[[null,false],[-1,true]]"), "type", "/mask/0/1",
      "mask[0][1] is false after numbers;" },
    { SOFTMAX, "{\"input\":[[1,null],[true,1]]}", "type", "/input/1/0", "input[1][0] is true;" },
    { SOFTMAX, "{\"input\":[[1,2]],\"kv_len\":[null]}", "type", "/kv_len/0", "kv_len[0] is null;" },
    { MERGE, SDPA("\"parts\":[{\"context\":[[[1,null]]],\"lse\":[[0]]}]"), "type",
      "/parts/0/context/0/0/1", "context[0][0][1] is null;" },
    { PUT, PARAMETER("[[1,2],[null,4]]"), "type", "/parameters/q_proj.weight/1/0",
      "q_proj.weight[1][0] is null; expected a number" },
    { INFER, DATA("[2,3]", "[1,0,0,0,1,true]"), "type", "/inputs/0/data/5",
      "data of input 'query'[5] is true;" },
    /* Numbers that are too large, or not whole. */
    { ATTENTION, SDPA("\"query\":[[1,2],[3,-1e39]]"), "nonfinite", "/query/1/1",
      "query[1][1] is beyond the range of a 32-bit float" },
    { PUT, PARAMETER("[[1,2],[3,1e39]]"), "nonfinite", "/parameters/q_proj.weight/1/1",
      "q_proj.weight[1][1] is beyond" },
    { ATTENTION, WITH("\"kv_len\":[2,1.5]"), "length", "/kv_len/1", "kv_len[1] is 1.5;" },
    /* Rows unlike the others. */
    { ATTENTION, SDPA("\"query\":[[1,2],[3]]"), "ragged", "/query/1",
      "query[1] has 1 columns; row 0 has 2" },
    { ATTENTION, WITH("\"key\":[[1,2],3]"), "ragged", "/key/1",
      "key[1] is a number where the others are rows" },
    { ATTENTION, WITH("\"value\":[1,[2]]"), "ragged", "/value/1",
      "value[1] is a row where the others are numbers" },
    { ATTENTION, WITH("\"mask\":[[[true,true],[true]]]"), "ragged", "/mask/0/1",
      "mask[0][1] has 1 columns; row 0 of the first has 2" },
    { PUT, PARAMETER("[[1,2],[3]]"), "ragged", "/parameters/q_proj.weight/1",
      "q_proj.weight[1] has 1 columns; row 0 has 2" },
    { SOFTMAX, "{\"input\":[[[[[[[[[1]]]]]]]]]}", "ragged", "/input/0/0/0/0/0/0/0/0",
      "input[0][0][0][0][0][0][0][0] is a row; no more than 8 levels of them are taken" },
    { PUT, PARAMETER("[[[[[[[[[1]]]]]]]]]"), "ragged", "/parameters/q_proj.weight/0/0/0/0/0/0/0/0",
      "is a row; no more than 8 levels" },
};

TEST(every_field)
{
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct http_response response = http_client_send(
            &client,
            &(struct http_request){ .method = strcmp(CASES[i].path, PUT) == 0 ? "PUT" : NULL,
                                    .path = CASES[i].path,
                                    .body = CASES[i].body });
        answer_expect_fault(&response, 400, CASES[i].code, CASES[i].pointer);
        if (!strstr(response.body, CASES[i].message))
            fail_msg("%s: %s\nhas not: %s", CASES[i].body, response.body, CASES[i].message);
        http_response_free(&response);
    }
}

/* In a batch the pointer begins with the item. */
TEST(in_a_batch)
{
    cJSON *answer = answer_post(&client, "/v1/attention/batch",
                                SDPA("\"requests\":[{\"query\":[[1]]},{\"query\":[[1],[\"2\"]]}]"));
    const cJSON *results = cJSON_GetObjectItem(answer, "results");
    answer_expect_item_fault(cJSON_GetArrayItem(results, 1), "type", "/requests/1/query/1/0");
    cJSON_Delete(answer);
}

/* A path that is too long for a pointer ends early, at an array that contains the element. */
TEST(a_long_way)
{
    char body[512];
    size_t used = (size_t)snprintf(body, sizeof body, "{\"model\":\"sdpa\",\"query\":");
    for (int i = 0; i < 61; i++)
        used += (size_t)snprintf(body + used, sizeof body - used, "[");
    used += (size_t)snprintf(body + used, sizeof body - used, "\"x\"");
    for (int i = 0; i < 61; i++)
        used += (size_t)snprintf(body + used, sizeof body - used, "]");
    snprintf(body + used, sizeof body - used, "}");
    answer_refused(&client, ATTENTION, body, 400, "type", "/query/0/0/0/0/0/0*");
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start_with_directory, fixture_clear);
