/* SPDX-License-Identifier: Apache-2.0 */
/* test_norms.c - norms of what keys add to rows: their weight maps, laws and faults. That the
 * numbers are right is in test_trace_*.c, beside passes in double. */
#include "answer.h"
#include "fixture.h"
#include "stories_trace.h"
#include "test.h"

enum { LAYERS = 5, HEADS = 8, TOKENS = 12, MAP = HEADS * TOKENS * TOKENS };

static double *whole_norms(int layer, const char *more)
{
    char fields[300];
    const int64_t shape[] = { HEADS, TOKENS, TOKENS };
    snprintf(fields, sizeof fields, ",\"outputs\":[\"norms\"]%s", more);
    cJSON *answer = stories_trace(fields);
    double *norms = answer_numbers(stories_layer(answer, layer), "norms", 3, shape);
    cJSON_Delete(answer);
    return norms;
}

/* -------------------------------------------------------------------- weight maps -- */

static const char MAPS[] = ",\"outputs\":[\"norms\",\"weights\"],\"layers\":[3],\"weight_map\":";

static double *map_of(const char *map, const int64_t shape[3])
{
    char more[300];
    snprintf(more, sizeof more, "%s%s", MAPS, map);
    cJSON *answer = stories_trace(more);
    double *norms = answer_numbers(stories_layer(answer, 0), "norms", 3, shape);
    cJSON_Delete(answer);
    return norms;
}

static double whole[MAP];

static double at(int head, int row, int key)
{
    return whole[(head * TOKENS + row) * TOKENS + key];
}

TEST(mean_and_largest_of_heads)
{
    const int64_t shape[] = { 1, TOKENS, TOKENS };
    double *mean = map_of("{\"heads\":\"mean\"}", shape);
    double *most = map_of("{\"heads\":\"max\"}", shape);
    for (int i = 0; i < TOKENS; i++)
        for (int j = 0; j < TOKENS; j++) {
            double sum = 0, largest = 0;
            for (int h = 0; h < HEADS; h++) {
                sum += at(h, i, j) / HEADS;
                largest = fmax(largest, at(h, i, j));
            }
            assert_true(fabs(mean[i * TOKENS + j] - sum) <= 1e-6 * (1 + sum));
            assert_true(most[i * TOKENS + j] == largest);
        }
    free(most);
    free(mean);
}

TEST(rows_and_heads)
{
    const int64_t shape[] = { 2, 2, TOKENS };
    double *some = map_of("{\"heads\":[1,6],\"rows\":[3,11]}", shape);
    for (int j = 0; j < TOKENS; j++) {
        assert_true(some[j] == at(1, 3, j));
        assert_true(some[TOKENS + j] == at(1, 11, j));
        assert_true(some[2 * TOKENS + j] == at(6, 3, j));
        assert_true(some[3 * TOKENS + j] == at(6, 11, j));
    }
    free(some);
}

TEST(pooled)
{
    const int64_t shape[] = { HEADS, 3, 4 };
    double *cells = map_of("{\"pool\":[3,4]}", shape);
    for (int h = 0; h < HEADS; h++)
        for (int r = 0; r < 3; r++)
            for (int c = 0; c < 4; c++) {
                double most = 0;
                for (int i = 4 * r; i < 4 * r + 4; i++)
                    for (int j = 3 * c; j < 3 * c + 3; j++)
                        most = fmax(most, at(h, i, j));
                assert_true(cells[(h * 3 + r) * 4 + c] == most);
            }
    free(cells);
}

TEST(largest_of_rows)
{
    char more[300];
    snprintf(more, sizeof more, "%s{\"top_k\":2}", MAPS);
    const int64_t shape[] = { HEADS, TOKENS, 2 };
    cJSON *answer = stories_trace(more);
    const cJSON *norms = cJSON_GetObjectItemCaseSensitive(stories_layer(answer, 0), "norms");
    double *values = answer_numbers(norms, "values", 3, shape);
    double *indices = answer_numbers(norms, "indices", 3, shape);
    for (int n = 0; n < HEADS * TOKENS; n++) {
        const int h = n / TOKENS, i = n % TOKENS;
        int above = 0;
        for (int j = 0; j < TOKENS; j++)
            above += at(h, i, j) > values[2 * n + 1];
        assert_true(above <= 1);
        for (int k = 0; k < 2; k++)
            assert_true(values[2 * n + k] == at(h, i, (int)indices[2 * n + k]));
    }
    free(indices);
    free(values);
    cJSON_Delete(answer);
}

/* --------------------------------------------------------------------------- laws -- */

/* Norms are weights times a number for each key and head; a hidden key has none, and other outputs
 * keep their bits. */
TEST(a_factor_for_each_key)
{
    cJSON *plain = stories_trace(",\"outputs\":[\"weights\",\"lse\",\"attention_output\"]");
    cJSON *both =
        stories_trace(",\"outputs\":[\"weights\",\"lse\",\"attention_output\",\"norms\"]");
    const int64_t shape[] = { HEADS, TOKENS, TOKENS };
    for (int l = 0; l < LAYERS; l++) {
        answer_expect_equal(stories_layer(plain, l), stories_layer(both, l), "weights");
        answer_expect_equal(stories_layer(plain, l), stories_layer(both, l), "lse");
        answer_expect_equal(stories_layer(plain, l), stories_layer(both, l), "attention_output");
        double *weights = answer_numbers(stories_layer(both, l), "weights", 3, shape);
        double *norms = answer_numbers(stories_layer(both, l), "norms", 3, shape);
        for (int h = 0; h < HEADS; h++)
            for (int j = 0; j < TOKENS; j++) {
                const int last = (h * TOKENS + TOKENS - 1) * TOKENS + j;
                const double factor = norms[last] / weights[last];
                for (int i = 0; i < TOKENS; i++) {
                    const int n = (h * TOKENS + i) * TOKENS + j;
                    assert_true(fabs(norms[n] - factor * weights[n]) <= 2e-5 * (1e-3 + factor));
                    assert_true(j <= i || norms[n] == 0);
                }
            }
        free(norms);
        free(weights);
    }
    cJSON_Delete(both);
    cJSON_Delete(plain);
}

TEST(edited)
{
    double *norms = whole_norms(2, ",\"edits\":[{\"hide\":[[2,4]],\"layers\":[2]},{\"weights\":"
                                   "\"first\",\"layers\":[2],\"heads\":[1]}]");
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < TOKENS; i++) {
            const double *row = norms + (h * TOKENS + i) * TOKENS;
            assert_true(row[2] == 0 && row[3] == 0);
            for (int j = 1; h == 1 && j < TOKENS; j++)
                assert_true(row[j] == 0);
        }
    free(norms);
}

/* Spans of rows and of all; spans of one key and one row are the norms. */
TEST(spans)
{
    cJSON *answer = stories_trace(",\"outputs\":[\"norms\"],\"layers\":[3],\"rows\":[2,11],"
                                  "\"spans\":[[1,2],[0,12],[5,5]]");
    const int64_t shape[] = { HEADS, 2, 3 };
    double *sums = answer_numbers(stories_layer(answer, 0), "norm_spans", 3, shape);
    for (int h = 0; h < HEADS; h++)
        for (int r = 0; r < 2; r++) {
            double sum = 0;
            for (int j = 0; j < TOKENS; j++)
                sum += at(h, r == 0 ? 2 : 11, j);
            assert_true(sums[(h * 2 + r) * 3] == at(h, r == 0 ? 2 : 11, 1));
            assert_true(fabs(sums[(h * 2 + r) * 3 + 1] - sum) <= 1e-6 * sum);
            assert_true(sums[(h * 2 + r) * 3 + 2] == 0);
        }
    free(sums);
    cJSON_Delete(answer);
}

TEST(batch)
{
    cJSON *alone = stories_trace(",\"outputs\":[\"norms\"]");
    cJSON *answer =
        answer_post(&client, "/v1/trace/batch",
                    STORIES_PROMPT ",\"outputs\":[\"norms\"],\"requests\":[{\"tokens\":[1,9]},{}"
                                   ",{\"outputs\":[\"lse\"]},{\"weight_map\":{\"top_k\":3}}]}");
    assert_true(
        cJSON_Compare(cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "results"), 1), alone, true));
    cJSON_Delete(answer);
    cJSON_Delete(alone);
}

TEST(faults)
{
    answer_refused(&client, "/v1/trace",
                   STORIES_PROMPT ",\"outputs\":[\"norms\"],\"weight_map\":{\"heads\":[9]}}", 400,
                   "option", "/weight_map/heads*");
    struct http_response made = http_client_post(
        &client, "/v1/sessions", JSON({"model":"stories260K","id":"s","kv_len_max":64}));
    assert_int_equal(made.status, 201);
    http_response_free(&made);
    answer_refused(&client, "/v1/sessions/s/trace",
                   JSON({"tokens":[1],"outputs":["norms"]}), 400, "option", "/outputs");
}

static int start(void **state)
{
    fixture_start_with_examples(state);
    double *norms = whole_norms(3, "");
    memcpy(whole, norms, sizeof whole);
    free(norms);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
