/* SPDX-License-Identifier: Apache-2.0 */
/* test_mask_kinds.c - three kinds of masks: booleans, numbers, and the 0 and 1 that a tokenizer
 * gives. A mask of 0 and 1 is neither of the first two: added to the scores, it would hide
 * nothing. */
#include "answer.h"
#include "fixture.h"
#include "test.h"

#define TWO "{\"model\":\"sdpa\",\"query\":[[1,0],[0,1]],"

/* A mask of 0 and 1 is refused whatever its shape, in each form of a call. */
TEST(zeros_and_ones)
{
    static const struct {
        const char *path, *body;
    } CASES[] = {
        { "/v1/attention", TWO "\"mask\":[[1,0],[1,1]]}" },
        { "/v1/attention", TWO "\"mask\":[[1.0,0.0],[1e0,0]]}" },
        { "/v1/attention", TWO "\"mask\":[[1,1],[1,1]]}" },
        { "/v1/attention", TWO "\"mask\":[1,0]}" },
        { "/v1/attention", TWO "\"mask\":[[[1,0],[1,-0]]]}" },
        { "/v1/attention", TWO "\"mask\":[[[[1,0],[1,1]]]]}" },
        { "/v1/attention", "{\"model\":\"demo\",\"query\":[[1,0,0]],\"mask\":[[1]]}" },
        { "/v1/attention/gradients",
          TWO "\"mask\":[[1,0],[1,1]],\"context_gradient\":[[1,0],[0,1]]}" },
        { "/v1/attention/batch", TWO "\"mask\":[[1,0],[1,1]],\"requests\":[{}]}" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct http_response response = http_client_post(&client, CASES[i].path, CASES[i].body);
        answer_expect_fault(&response, 400, "type", "/mask");
        assert_non_null(strstr(response.body, "expected true and false"));
        assert_non_null(
            strstr(response.body, "To add 0 and 1 to the scores, send it as an F32 tensor"));
        http_response_free(&response);
    }
}

/* Each item of a batch is judged by itself, whatever the shared mask is. */
TEST(items_of_a_batch)
{
    cJSON *answer = answer_post(&client, "/v1/attention/batch",
                                TWO "\"outputs\":[\"weights\"],\"mask\":[[true,false],[true,true]],"
                                    "\"requests\":[{},{\"mask\":[[1,0],[1,1]]},"
                                    "{\"mask\":[[0,null],[0,0]]}]}");
    const cJSON *results = cJSON_GetObjectItem(answer, "results");
    answer_expect_item_fault(cJSON_GetArrayItem(results, 1), "type", "/requests/1/mask");
    answer_expect_equal(cJSON_GetArrayItem(results, 0), cJSON_GetArrayItem(results, 2), "weights");
    cJSON_Delete(answer);
}

/* A mask that cannot be meant for booleans is added to the scores: one without a 1, with another
 * number, or with a null. */
TEST(numbers_are_added)
{
    static const struct {
        const char *mask, *weights;
    } CASES[] = {
        { "[[0,0]]", "[[[0.5,0.5]]]" },
        { "[[0,null]]", "[[[1,0]]]" },
        { "[[1,null]]", "[[[1,0]]]" },
        { "[[0,-1]]", "[[[0.7310585786300049,0.2689414213699951]]]" },
        { "[[2,1]]", "[[[0.7310585786300049,0.2689414213699951]]]" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{\"model\":\"sdpa\",\"query\":[[0]],\"key\":[[0],[0]],\"outputs\":[\"weights\"],"
                 "\"mask\":%s}",
                 CASES[i].mask);
        cJSON *answer = answer_post(&client, "/v1/attention", body);
        answer_expect(answer, "weights", CASES[i].weights, 1e-6);
        cJSON_Delete(answer);
    }
}

/* A tensor's datatype says which kind of mask it is: FP32 is added, even where it has only 0 and 1,
 * and BOOL takes them as false and true. */
TEST(datatypes_decide)
{
    static const struct {
        const char *datatype, *weights;
    } CASES[] = {
        { "FP32", "[0.7310585786300049,0.2689414213699951]" },
        { "BOOL", "[1,0]" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char body[512];
        snprintf(body, sizeof body,
                 "{\"inputs\":[{\"name\":\"Q\",\"datatype\":\"FP32\",\"shape\":[1,1,1,1],\"data\":"
                 "[0]},{\"name\":\"K\",\"datatype\":\"FP32\",\"shape\":[1,1,2,1],\"data\":[0,0]},"
                 "{\"name\":\"V\",\"datatype\":\"FP32\",\"shape\":[1,1,2,2],\"data\":[1,0,0,1]},"
                 "{\"name\":\"attn_mask\",\"datatype\":\"%s\",\"shape\":[1,2],\"data\":[1,0]}]}",
                 CASES[i].datatype);
        cJSON *answer = answer_post(&client, "/v2/models/sdpa/infer", body);
        answer_expect(cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "outputs"), 0), "data",
                      CASES[i].weights, 1e-6);
        cJSON_Delete(answer);
    }
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start, fixture_clear);
