/* SPDX-License-Identifier: Apache-2.0 */
/* test_oip_statistics.c - the statistics extension: what each endpoint that computes counts, and
 * for which model. */
#include "answer.h"
#include "fixture.h"
#include "test.h"

#include <time.h>

static const char *const INFERENCE_STATS[] = { "success",       "fail",          "queue",
                                               "compute_input", "compute_infer", "compute_output",
                                               "cache_hit",     "cache_miss" };

static double number_of(const cJSON *object, const char *name)
{
    const cJSON *number = cJSON_GetObjectItem(object, name);
    assert_true(cJSON_IsNumber(number));
    return number->valuedouble;
}

static double duration_part(const cJSON *model, const char *name, const char *part)
{
    const cJSON *duration =
        cJSON_GetObjectItem(cJSON_GetObjectItem(model, "inference_stats"), name);
    answer_expect_members(duration, "count,ns");
    return number_of(duration, part);
}

static void check_form(const cJSON *model)
{
    answer_expect_members(model, "name,version,last_inference,inference_count,execution_count,"
                                 "inference_stats,response_stats,batch_stats,memory_usage");
    answer_expect(model, "version", "\"1\"", 0);
    answer_expect_members(cJSON_GetObjectItem(model, "inference_stats"),
                          "success,fail,queue,compute_input,compute_infer,compute_output,"
                          "cache_hit,cache_miss");
    for (int i = 0; i < 8; i++)
        assert_true(duration_part(model, INFERENCE_STATS[i], "ns") >= 0);
    const cJSON *batch;
    cJSON_ArrayForEach(batch, cJSON_GetObjectItem(model, "batch_stats"))
        answer_expect_members(batch, "batch_size,compute_input,compute_infer,compute_output");
    const cJSON *memory = cJSON_GetArrayItem(cJSON_GetObjectItem(model, "memory_usage"), 0);
    answer_expect_members(memory, "type,id,byte_size");
}

/* The statistics of one model; the caller deletes them. */
static cJSON *statistics_of(const char *name)
{
    char path[100];
    snprintf(path, sizeof(path), "/v2/models/%s/stats", name);
    cJSON *answer = answer_get(&client, path);
    answer_expect_members(answer, "model_stats");
    cJSON *models = cJSON_GetObjectItem(answer, "model_stats");
    assert_int_equal(cJSON_GetArraySize(models), 1);
    cJSON *model = cJSON_DetachItemFromArray(models, 0);
    cJSON_Delete(answer);
    check_form(model);
    return model;
}

/* How often a batch of that size was computed. */
static double batch_count(const cJSON *model, int size)
{
    const cJSON *batch;
    cJSON_ArrayForEach(batch, cJSON_GetObjectItem(model, "batch_stats"))
        if (number_of(batch, "batch_size") == size)
            return number_of(cJSON_GetObjectItem(batch, "compute_infer"), "count");
    return 0;
}

static void expect_counts(const char *name, double inferences, double executions, double failures)
{
    cJSON *model = statistics_of(name);
    assert_true(number_of(model, "inference_count") == inferences);
    assert_true(number_of(model, "execution_count") == executions);
    assert_true(duration_part(model, "success", "count") == executions);
    assert_true(duration_part(model, "fail", "count") == failures);
    for (int i = 2; i < 6; i++)
        assert_true(duration_part(model, INFERENCE_STATS[i], "count") == executions);
    double stages_ns = 0;
    for (int i = 2; i < 6; i++)
        stages_ns += duration_part(model, INFERENCE_STATS[i], "ns");
    assert_true(duration_part(model, "success", "ns") == stages_ns);
    assert_true((stages_ns > 0) == (executions > 0));
    cJSON_Delete(model);
}

/* No request has come yet; the warm-up does not count. */
TEST(at_first)
{
    cJSON *all = answer_get(&client, "/v2/models/stats");
    answer_expect_members(all, "model_stats");
    const cJSON *models = cJSON_GetObjectItem(all, "model_stats");
    assert_int_equal(cJSON_GetArraySize(models), 3);
    const cJSON *model;
    cJSON_ArrayForEach(model, models)
        check_form(model);
    cJSON_Delete(all);
    expect_counts("demo", 0, 0, 0);
    cJSON *demo = statistics_of("demo");
    assert_true(number_of(demo, "last_inference") == 0);
    answer_expect(demo, "memory_usage", JSON([{"type":"CPU","id":0,"byte_size":108}]), 0);
    answer_expect(demo, "batch_stats", "[]", 0);
    cJSON_Delete(demo);
}

TEST(counts)
{
    static const char ONE[] = JSON({"model":"demo","query":[[1,0,0]]});
    for (int i = 0; i < 3; i++)
        cJSON_Delete(answer_post(&client, "/v1/attention", ONE));
    expect_counts("demo", 3, 3, 0);
    cJSON_Delete(answer_post(&client, "/v1/attention/gradients",
                             "{\"model\":\"demo\",\"query\":[[1,0,0]],\"context_gradient\":"
                             "[[1,1,1]]}"));
    cJSON_Delete(answer_post(&client, "/v1/attention/merge",
                             "{\"model\":\"demo\",\"parts\":[{\"context\":[[[1,2,3]]],\"lse\":"
                             "[[0]]}]}"));
    expect_counts("demo", 5, 5, 0);
    expect_counts("sdpa", 0, 0, 0);
    cJSON *demo = statistics_of("demo");
    const double last_s = number_of(demo, "last_inference") / 1000;
    assert_true(fabs(last_s - (double)time(NULL)) < 3600); /* milliseconds since 1970 */
    assert_true(batch_count(demo, 1) == 5);
    cJSON_Delete(demo);
    answer_refused(&client, "/v1/attention", "{\"model\":\"demo\",\"query\":[[1,0]]}", 400, "shape",
                   NULL);
    answer_refused(&client, "/v1/attention", "{\"model\":\"demo\",\"query\":", 400, "json", NULL);
    expect_counts("demo", 5, 5, 1); /* nothing told the daemon that the second was for demo */
}

/* Items of one model that follow each other in the batch are one execution. Each bad item is a
 * failure of its own. */
TEST(batch)
{
    cJSON_Delete(answer_post(
        &client, "/v1/attention/batch",
        "{\"requests\":[{\"model\":\"sdpa\",\"query\":[[1]]},{\"model\":\"sdpa\",\"query\":[[1]]},"
        "{\"model\":\"sdpa\",\"query\":[[1]],\"key\":[[1,2]]},{\"model\":\"sdpa\",\"query\":[[2]]},"
        "{\"model\":\"stories260K\",\"query\":[[1]]},{\"model\":\"nobody\",\"query\":[[1]]},"
        "{\"model\":\"sdpa\",\"query\":[[1]]}]}"));
    expect_counts("sdpa", 4, 2, 1);
    expect_counts("stories260K", 0, 0, 1);
    cJSON *sdpa = statistics_of("sdpa");
    assert_true(batch_count(sdpa, 3) == 1);
    assert_true(batch_count(sdpa, 1) == 1);
    cJSON_Delete(sdpa);
    cJSON *answer = answer_post(&client, "/v1/attention/batch", JSON({"requests":[]}));
    cJSON_Delete(answer);
    expect_counts("sdpa", 4, 2, 1);
}

TEST(many_at_once)
{
    enum { CROWD = 16, ROUNDS = 10 };
    struct http_crowd crowd;
    struct http_request requests[CROWD];
    struct http_response responses[CROWD];
    http_crowd_init(&crowd, server.port, CROWD);
    for (int i = 0; i < CROWD; i++)
        requests[i] =
            (struct http_request){ .path = "/v1/attention",
                                   .body = "{\"model\":\"sdpa\",\"query\":[[1,2],[3,4]]}" };
    for (int round = 0; round < ROUNDS; round++) {
        http_crowd_send(&crowd, requests, responses);
        for (int i = 0; i < CROWD; i++) {
            assert_int_equal(responses[i].status, 200);
            http_response_free(&responses[i]);
        }
    }
    http_crowd_free(&crowd);
    expect_counts("sdpa", 4 + CROWD * ROUNDS, 2 + CROWD * ROUNDS, 1);
}

/* The path names the model, so the daemon knows the model even if it cannot read the body. */
TEST(oip_inference)
{
    static const char PATH[] = "/v2/models/demo/infer";
    cJSON_Delete(
        answer_post(&client, PATH,
                    "{\"inputs\":[{\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[3,1,3],"
                    "\"data\":[1,0,0,0,1,0,0,0,1]}]}"));
    expect_counts("demo", 5 + 3, 5 + 1, 1);
    answer_refused(&client, PATH, "{\"inputs\":", 400, "json", NULL);
    expect_counts("demo", 8, 6, 2);
    answer_refused(&client, PATH,
                   "{\"inputs\":[{\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[2,1,3],"
                   "\"data\":[1,0,0,0,1,0]}],\"parameters\":{\"q_heads\":3}}",
                   400, "option", NULL);
    expect_counts("demo", 8, 6, 3);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start_with_examples, fixture_clear);
