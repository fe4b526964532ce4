/* SPDX-License-Identifier: Apache-2.0 */
/* test_span_scores.c - row_spans and head_weights: laws, names beside a model, and faults. That the
 * numbers are right is in test_trace_*.c, beside passes in double. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "tensor_body.h"
#include "test.h"
#include "traced_families.h"

#include <limits.h>

enum { LAYERS = 5, HEADS = 8 };

#define PROMPT "\"model\":\"stories260K\",\"tokens\":[1,403,407,261,378,400,296,5]"

static cJSON *trace(const char *more)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{" PROMPT);
    request_text_add(&body, "%s}", more);
    cJSON *answer = answer_post(&client, "/v1/trace", body.data);
    free(body.data);
    return answer;
}

static const cJSON *layer_of(const cJSON *answer, int layer)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(answer, "layers"), layer);
}

/* [[0,...],...] with 1 at one head. */
static char *one_hot(int layer, int head)
{
    struct request_text text = { .data = NULL };
    for (int l = 0; l < LAYERS; l++)
        for (int h = 0; h < HEADS; h++)
            request_text_add(&text, "%s%d%s",
                             h > 0   ? ","
                             : l > 0 ? ",["
                                     : "[[",
                             l == layer && h == head, h + 1 < HEADS ? "" : "]");
    request_text_add(&text, "]");
    return text.data;
}

/* With one head alone the scores are that head's spans, of rows and of row_spans. */
TEST(one_head)
{
    static const char *const ROWS[] = { "", ",\"rows\":[2,-1]", ",\"row_spans\":[[0,3],[2,8]]" };
    for (int i = 0; i < 3; i++) {
        char more[200], *weights = one_hot(3, 5);
        struct request_text weighted = { .data = NULL };
        snprintf(more, sizeof more, ",\"spans\":[[0,2],[1,6],[4,4]]%s", ROWS[i]);
        request_text_add(&weighted, "%s,\"head_weights\":", more);
        request_text_add(&weighted, "%s", weights);
        cJSON *plain = trace(more), *scores = trace(weighted.data);
        const cJSON *spans = cJSON_GetObjectItemCaseSensitive(layer_of(plain, 3), "spans");
        assert_true(cJSON_Compare(cJSON_GetArrayItem(spans, 5),
                                  cJSON_GetObjectItemCaseSensitive(scores, "span_scores"), true));
        for (int l = 0; l < LAYERS; l++)
            answer_expect_members(layer_of(scores, l), "layer,kind");
        cJSON_Delete(scores);
        cJSON_Delete(plain);
        free(weighted.data);
        free(weights);
    }
}

/* One row each is rows; no rows are none. */
TEST(single_rows)
{
    cJSON *rows = trace(",\"spans\":[[0,2],[1,6]],\"rows\":[1,4]");
    cJSON *ranges = trace(",\"spans\":[[0,2],[1,6]],\"row_spans\":[[1,2],[4,5]]");
    answer_expect_equal(rows, ranges, "layers");
    cJSON_Delete(ranges);
    cJSON_Delete(rows);
    ranges = trace(",\"spans\":[[0,2]],\"row_spans\":[]");
    answer_expect(layer_of(ranges, 0), "spans", "[[],[],[],[],[],[],[],[]]", 0);
    cJSON_Delete(ranges);
    ranges = trace(",\"spans\":[[0,2]],\"row_spans\":[[3,3]],\"layers\":[1]");
    answer_expect(layer_of(ranges, 0), "spans", "[[[0]],[[0]],[[0]],[[0]],[[0]],[[0]],[[0]],[[0]]]",
                  0);
    cJSON_Delete(ranges);
}

/* A name is a matrix of the layers answered, or of all layers. */
TEST(names)
{
    cJSON *all = trace(",\"spans\":[[0,2]],\"layers\":[4],\"head_weights\":\"all\"");
    cJSON *one = trace(",\"spans\":[[0,2]],\"layers\":[4],\"head_weights\":\"one\"");
    cJSON *given =
        trace(",\"spans\":[[0,2]],\"layers\":[4],\"head_weights\":[[1,0,0,2,0,0,0,-0.5]]");
    answer_expect_equal(all, given, "span_scores");
    answer_expect_equal(one, given, "span_scores");
    cJSON_Delete(given);
    cJSON_Delete(one);
    cJSON_Delete(all);
}

/* A batch answers what each request answers alone. */
TEST(batch)
{
    static const char SECOND[] = ",\"spans\":[[2,5]],\"layers\":[0],\"row_spans\":[[0,8]],"
                                 "\"head_weights\":[[1,2,3,4,5,6,7,8]]";
    char body[600];
    cJSON *alone = trace(SECOND);
    snprintf(body, sizeof body, "{\"requests\":[{" PROMPT ",\"spans\":[[0,1]]},{" PROMPT "%s}]}",
             SECOND);
    cJSON *answer = answer_post(&client, "/v1/trace/batch", body);
    assert_true(
        cJSON_Compare(cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "results"), 1), alone, true));
    cJSON_Delete(answer);
    cJSON_Delete(alone);
}

static void refused(const char *more, long status, const char *code, const char *pointer)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{" PROMPT);
    request_text_add(&body, "%s}", more);
    answer_refused(&client, "/v1/trace", body.data, status, code, pointer);
    free(body.data);
}

TEST(faults)
{
    refused(",\"row_spans\":[[0,1]]", 400, "field", "/row_spans");
    refused(",\"spans\":[[0,1]],\"rows\":[1],\"row_spans\":[[0,1]]", 400, "field", "/row_spans");
    refused(",\"spans\":[[0,1]],\"row_spans\":[[0,1],[3,2]]", 400, "option", "/row_spans/1");
    refused(",\"spans\":[[0,1]],\"row_spans\":[[0,9]]", 400, "option", "/row_spans/0");
    refused(",\"spans\":[[0,1]],\"row_spans\":[[-2,1]]", 400, "option", "/row_spans*");
    refused(",\"spans\":[[0,1]],\"row_spans\":[1,2]", 400, "type", "/row_spans");
    refused(",\"spans\":[[0,1]],\"row_spans\":\"all\"", 400, "type", "/row_spans");
    refused(",\"head_weights\":[[1]]", 400, "field", "/head_weights");
    refused(",\"spans\":[[0,1]],\"head_weights\":[[1,2,3,4,5,6,7,8]]", 400, "shape",
            "/head_weights");
    refused(",\"spans\":[[0,1]],\"layers\":[1],\"head_weights\":[[1,2,3,4,5,6,7]]", 400, "shape",
            "/head_weights");
    refused(",\"spans\":[[0,1]],\"layers\":[1],\"head_weights\":[1,2,3,4,5,6,7,8]", 400, "shape",
            "/head_weights");
    refused(",\"spans\":[[0,1]],\"layers\":[1],\"head_weights\":[[1,2,3,4,5,6,7,1e39]]", 400,
            "nonfinite", "/head_weights*");
    refused(",\"spans\":[[0,1]],\"layers\":[1],\"head_weights\":7", 400, "type", "/head_weights");
    refused(",\"spans\":[[0,1]],\"head_weights\":\"none\"", 404, "not_found", "/head_weights");
    refused(",\"spans\":[[0,1]],\"layers\":[1,2],\"head_weights\":\"one\"", 400, "shape",
            "/head_weights");
}

/* Encoder and cross attention have rows of two texts. */
TEST(rows_of_two_texts)
{
    answer_refused(
        &client, "/v1/trace",
        JSON({"model":"t5","tokens":[3,4],"spans":[[0,1]],"head_weights":[[1,1],[1,1],[1,1],[1,1],[1,1],[1,1]]}), 400, "option", "/head_weights");
    cJSON *answer = answer_post(
        &client, "/v1/trace",
        JSON({"model":"t5","tokens":[3,4],"spans":[[0,2]],"kinds":["cross","decoder"],"head_weights":[[1,1],[1,1],[1,1],[1,1]]}));
    answer_expect(answer, "span_scores", "[[4]]", 1e-6);
    cJSON_Delete(answer);
}

static int start(void **state)
{
    char command[PATH_MAX];
    fixture_make_directory(state);
    snprintf(command, sizeof command, "cp -r examples/models/stories260K %s", directory);
    assert_int_equal(system(command), 0);
    traced_families_save(directory);
    FILE *file = fopen(fixture_path("stories260K/head_weights.json"), "w");
    assert_non_null(file);
    fputs("{\"one\":[[1,0,0,2,0,0,0,-0.5]],\"all\":[[9,9,9,9,9,9,9,9],[9,9,9,9,9,9,9,9],"
          "[9,9,9,9,9,9,9,9],[9,9,9,9,9,9,9,9],[1,0,0,2,0,0,0,-0.5]]}",
          file);
    assert_int_equal(fclose(file), 0);
    file = fopen(fixture_path("t5/head_weights.json"), "w");
    assert_non_null(file);
    fputs("{\"one\":[[1,null]]}", file);
    assert_int_equal(fclose(file), 0);
    fixture_serve("--models", directory);
    return 0;
}

/* A file that cannot be read gives no names, and the reason is said. */
TEST(refused_file)
{
    struct http_response response = http_client_post(
        &client, "/v1/trace",
        JSON({"model":"t5","tokens":[3,4],"kinds":["cross"],"spans":[[0,1]],"head_weights":"one"}));
    assert_non_null(strstr(response.body, "something else than finite numbers"));
    answer_expect_fault(&response, 404, "not_found", "/head_weights");
    http_response_free(&response);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
