/* SPDX-License-Identifier: Apache-2.0 */
/* test_weight_map.c - weight_map over HTTP: every combination is compared with the whole map of the
 * same call, over as many workers as there are; every fault has its pointer. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"

enum { HEADS = 3, Q_LEN = 140, KV_LEN = 130, COLUMNS = HEADS * 4 };

static const char PATH[] = "/v1/attention";

/* Sends the same call each time, with random numbers; members end the object. */
static cJSON *ask(const char *members)
{
    struct request_text text = { 0 };
    request_text_add(&text,
                     "{\"model\":\"sdpa\",\"q_heads\":%d,\"causal\":true,\"past_len\":9,"
                     "\"scale\":2,\"query\":",
                     HEADS);
    request_text_random(&text, 5, Q_LEN, COLUMNS);
    request_text_add(&text, ",\"key\":");
    request_text_random(&text, 6, KV_LEN, COLUMNS);
    request_text_add(&text, "%s}", members);
    cJSON *answer = answer_post(&client, PATH, text.data);
    free(text.data);
    return answer;
}

/* ------------------------------------------------------- the plain reductions -- */

struct shrunk {
    int64_t heads, rows, columns;
    double *values; /* [heads][rows][columns] */
};

struct way {
    const char *text; /* of the member, or NULL */
    int64_t a, b;     /* what it asks for */
};

static const struct way HEAD_WAYS[] = {
    { NULL, 0, HEADS },   { "\"all\"", 0, HEADS }, { "[1,2]", 1, 2 },
    { "\"mean\"", 0, 1 }, { "\"max\"", 0, 1 },
};
enum { WAY_MEAN = 3, WAY_MAX = 4 };
static const struct way ROW_WAYS[] = { { NULL, 0, 0 }, { "[7]", 1, 0 }, { "[0,70,139]", 3, 0 } };
static const int64_t CHOSEN[][3] = { { 0 }, { 7 }, { 0, 70, 139 } };
static const struct way POOL_WAYS[] = {
    { NULL, 1000, 1000 },
    { "[8,16]", 8, 16 },
    { "[2,1000]", 2, 1000 },
    { "[1000,3]", 1000, 3 },
};
static const struct way TOP_K_WAYS[] = { { NULL, 0, 0 }, { "5", 5, 0 }, { "1000", 1000, 0 } };

static struct shrunk shrink(const double *whole, int heads, int rows, int pool)
{
    const int64_t plane = Q_LEN * KV_LEN;
    const int64_t chosen = rows ? ROW_WAYS[rows].a : Q_LEN;
    struct shrunk small = { HEAD_WAYS[heads].b, chosen, KV_LEN, NULL };
    if (POOL_WAYS[pool].a < chosen)
        small.rows = POOL_WAYS[pool].a;
    if (POOL_WAYS[pool].b < KV_LEN)
        small.columns = POOL_WAYS[pool].b;
    small.values = calloc((size_t)(small.heads * small.rows * small.columns), sizeof(double));
    assert_non_null(small.values);
    for (int64_t h = 0; h < small.heads; h++)
        for (int64_t i = 0; i < chosen; i++)
            for (int64_t j = 0; j < KV_LEN; j++) {
                const int64_t at = (rows ? CHOSEN[rows][i] : i) * KV_LEN + j;
                double weight = whole[(HEAD_WAYS[heads].a + h) * plane + at];
                for (int64_t g = 1; heads >= WAY_MEAN && g < HEADS; g++)
                    weight = heads == WAY_MAX ? fmax(weight, whole[g * plane + at])
                                              : weight + whole[g * plane + at];
                weight = heads == WAY_MEAN ? weight / HEADS : weight;
                double *cell =
                    &small.values[(h * small.rows + i * small.rows / chosen) * small.columns
                                  + j * small.columns / KV_LEN];
                *cell = fmax(*cell, weight);
            }
    return small;
}

/* Checks that the indices name the k largest weights, that the values belong to them, and that no
 * larger weight is left out. */
static void expect_top_k(const cJSON *weights, const struct shrunk *small, int64_t k,
                         double tolerance)
{
    const int64_t columns = k < small->columns ? k : small->columns;
    const int64_t shape[] = { small->heads, small->rows, columns };
    double *indices = answer_numbers(weights, "indices", 3, shape);
    double *values = answer_numbers(weights, "values", 3, shape);
    for (int64_t r = 0; r < small->heads * small->rows; r++) {
        const double *row = small->values + r * small->columns;
        bool taken[KV_LEN] = { false };
        for (int64_t n = 0; n < columns; n++) {
            int64_t best = -1;
            for (int64_t j = 0; j < small->columns; j++)
                if (!taken[j] && (best < 0 || row[j] > row[best]))
                    best = j;
            const int64_t index = (int64_t)indices[r * columns + n];
            assert_in_range(index, 0, small->columns - 1);
            assert_false(taken[index]);
            taken[index] = true;
            if (tolerance == 0)
                assert_int_equal(index, best);
            assert_true(fabs(values[r * columns + n] - row[index]) <= tolerance);
            assert_true(fabs(row[index] - row[best]) <= tolerance);
        }
    }
    free(indices);
    free(values);
}

static void expect_way(const double *whole, int heads, int rows, int pool, int top_k)
{
    char members[256];
    const char *const names[] = { "heads", "rows", "pool", "top_k" };
    const char *const texts[] = { HEAD_WAYS[heads].text, ROW_WAYS[rows].text, POOL_WAYS[pool].text,
                                  TOP_K_WAYS[top_k].text };
    int used = snprintf(members, sizeof members, ",\"outputs\":[\"weights\"%s],\"weight_map\":{",
                        (heads + rows) % 2 ? ",\"lse\"" : "");
    for (int i = 0; i < 4; i++)
        used += snprintf(members + used, sizeof members - (size_t)used, "%s\"%s\":%s",
                         i > 0 ? "," : "", names[i], texts[i] ? texts[i] : "null");
    snprintf(members + used, sizeof members - (size_t)used, "}");
    struct shrunk small = shrink(whole, heads, rows, pool);
    /* A mean is rounded to a float. Any other value is one of the whole map's numbers. */
    const double tolerance = heads == WAY_MEAN ? 6e-8 : 0;
    cJSON *answer = ask(members);
    if (texts[3]) {
        expect_top_k(cJSON_GetObjectItemCaseSensitive(answer, "weights"), &small,
                     TOP_K_WAYS[top_k].a, tolerance);
    } else {
        const int64_t shape[] = { small.heads, small.rows, small.columns };
        double *values = answer_numbers(answer, "weights", 3, shape);
        for (int64_t i = 0; i < small.heads * small.rows * small.columns; i++)
            assert_true(fabs(values[i] - small.values[i]) <= tolerance);
        free(values);
    }
    cJSON_Delete(answer);
    free(small.values);
}

TEST(every_combination)
{
    const int64_t shape[] = { HEADS, Q_LEN, KV_LEN };
    cJSON *answer = ask("");
    double *whole = answer_numbers(answer, "weights", 3, shape);
    for (int heads = 0; heads < 5; heads++)
        for (int rows = 0; rows < 3; rows++)
            for (int pool = 0; pool < 4; pool++)
                for (int top_k = 0; top_k < 3; top_k++)
                    expect_way(whole, heads, rows, pool, top_k);
    free(whole);
    cJSON_Delete(answer);
}

/* A region of the whole map, as it is, pooled, or the largest of its rows. */
TEST(regions)
{
    enum { FIRST_ROW = 60, ROWS = 20, FIRST_KEY = 33, KEYS = 40, CELLS = 8 };
    static const char REGION[] = ",\"outputs\":[\"weights\"],\"weight_map\":{\"region\":"
                                 "{\"rows\":[60,80],\"keys\":[33,73]}%s}";
    static const char *const MEMBERS[] = { "", ",\"pool\":[1000,8]", ",\"top_k\":1" };
    const int64_t shape[] = { HEADS, Q_LEN, KV_LEN };
    cJSON *answer = ask("");
    double *whole = answer_numbers(answer, "weights", 3, shape);
    cJSON_Delete(answer);
    for (int way = 0; way < 3; way++) {
        char members[256];
        snprintf(members, sizeof members, REGION, MEMBERS[way]);
        answer = ask(members);
        const cJSON *weights = cJSON_GetObjectItemCaseSensitive(answer, "weights");
        const int64_t columns = way == 0 ? KEYS : way == 1 ? CELLS : 1;
        const int64_t part[] = { HEADS, ROWS, columns };
        double *values = way < 2 ? answer_numbers(answer, "weights", 3, part)
                                 : answer_numbers(weights, "values", 3, part);
        double *indices = way < 2 ? NULL : answer_numbers(weights, "indices", 3, part);
        for (int64_t r = 0; r < HEADS * ROWS; r++) {
            const double *row =
                whole + (r / ROWS * Q_LEN + FIRST_ROW + r % ROWS) * KV_LEN + FIRST_KEY;
            double cells[KEYS] = { 0 };
            for (int64_t j = 0; j < KEYS; j++)
                cells[j * columns / KEYS] = fmax(cells[j * columns / KEYS], row[j]);
            for (int64_t c = 0; c < columns; c++)
                assert_true(values[r * columns + c] == cells[c]);
            if (indices)
                assert_true(row[(int64_t)indices[r] - FIRST_KEY] == cells[0]);
        }
        free(values);
        free(indices);
        cJSON_Delete(answer);
    }
    free(whole);
}

/* The context beside a smaller map equals the context beside the whole map. */
TEST(other_outputs_stay)
{
    cJSON *plain = ask(",\"outputs\":[\"context\",\"lse\",\"scores\"]");
    cJSON *small = ask(",\"outputs\":[\"context\",\"lse\",\"scores\",\"weights\"],"
                       "\"weight_map\":{\"heads\":\"mean\",\"pool\":[4,4]}");
    cJSON *without = ask(",\"outputs\":[\"lse\"],\"weight_map\":{\"top_k\":3}");
    answer_expect_equal(plain, small, "context");
    answer_expect_equal(plain, small, "lse");
    answer_expect_equal(plain, small, "scores");
    answer_expect_members(without, "model,layer,lse");
    cJSON_Delete(plain);
    cJSON_Delete(small);
    cJSON_Delete(without);
}

#define CALL "\"query\":[[1,0],[0,1]],\"key\":[[0,0],[0,0],[0,0]],\"outputs\":[\"weights\"]"

TEST(ties_and_batches)
{
    cJSON *answer =
        answer_post(&client, "/v1/attention/batch",
                    "{\"model\":\"sdpa\"," CALL ",\"weight_map\":{\"top_k\":2},\"requests\":[{},"
                    "{\"weight_map\":{\"rows\":[1],\"top_k\":1,\"pool\":[1,1]}},{\"weight_map\":{"
                    "\"rows\":[2]}},"
                    "{\"kv_len\":0},{\"key\":[]},{\"query\":[]},{\"weight_map\":{}}]}");
    const cJSON *results = cJSON_GetObjectItemCaseSensitive(answer, "results");
    answer_expect(cJSON_GetArrayItem(results, 0), "weights",
                  "{\"indices\":[[[0,1],[0,1]]],"
                  "\"values\":[[[0.33333334,0.33333334],[0.33333334,0.33333334]]]}",
                  0);
    answer_expect(cJSON_GetArrayItem(results, 1), "weights",
                  "{\"indices\":[[[0]]],\"values\":[[[0.33333334]]]}", 0);
    answer_expect_item_fault(cJSON_GetArrayItem(results, 2), "option",
                             "/requests/2/weight_map/rows");
    answer_expect(cJSON_GetArrayItem(results, 3), "weights",
                  "{\"indices\":[[[0,1],[0,1]]],\"values\":[[[0,0],[0,0]]]}", 0);
    answer_expect(cJSON_GetArrayItem(results, 4), "weights",
                  "{\"indices\":[[[],[]]],\"values\":[[[],[]]]}", 0);
    answer_expect(cJSON_GetArrayItem(results, 5), "weights", "{\"indices\":[[]],\"values\":[[]]}",
                  0);
    answer_expect(cJSON_GetArrayItem(results, 6), "weights",
                  "[[[0.33333334,0.33333334,0.33333334],[0.33333334,0.33333334,0.33333334]]]", 0);
    cJSON_Delete(answer);
}

static const char *const REFUSALS[][3] = {
    { "[]", "type", "/weight_map" },
    { "8", "type", "/weight_map" },
    { "{\"topk\":1}", "field", "/weight_map/topk" },
    { "{\"a/b\":1}", "field", "/weight_map/a~1b" },
    { "{\"heads\":\"median\"}", "option", "/weight_map/heads" },
    { "{\"heads\":0}", "type", "/weight_map/heads" },
    { "{\"heads\":[1]}", "option", "/weight_map/heads" },
    { "{\"heads\":[0.5]}", "option", "/weight_map/heads/0" },
    { "{\"heads\":[0,0]}", "option", "/weight_map/heads" },
    { "{\"heads\":[[0]]}", "type", "/weight_map/heads" },
    { "{\"heads\":[true]}", "type", "/weight_map/heads/0" },
    { "{\"rows\":[2]}", "option", "/weight_map/rows" },
    { "{\"rows\":[-1]}", "option", "/weight_map/rows/0" },
    { "{\"rows\":[1,0]}", "option", "/weight_map/rows" },
    { "{\"rows\":1}", "type", "/weight_map/rows" },
    { "{\"rows\":[[0],[1,1]]}", "ragged", "/weight_map/rows/1" },
    { "{\"top_k\":0}", "option", "/weight_map/top_k" },
    { "{\"top_k\":1.5}", "option", "/weight_map/top_k" },
    { "{\"top_k\":\"8\"}", "type", "/weight_map/top_k" },
    { "{\"pool\":[0,1]}", "option", "/weight_map/pool" },
    { "{\"pool\":[1]}", "type", "/weight_map/pool" },
    { "{\"pool\":[1,null]}", "type", "/weight_map/pool/1" },
    { "{\"pool\":4}", "type", "/weight_map/pool" },
    { "{\"region\":[0,1]}", "type", "/weight_map/region" },
    { "{\"region\":{\"row\":[0,1]}}", "field", "/weight_map/region/row" },
    { "{\"region\":{\"a/b\":1}}", "field", "/weight_map/region/a~1b" },
    { "{\"region\":{\"rows\":1}}", "type", "/weight_map/region/rows" },
    { "{\"region\":{\"rows\":[1]}}", "type", "/weight_map/region/rows" },
    { "{\"region\":{\"rows\":[0,\"1\"]}}", "type", "/weight_map/region/rows/1" },
    { "{\"region\":{\"rows\":[0,0]}}", "option", "/weight_map/region/rows" },
    { "{\"region\":{\"rows\":[1,0]}}", "option", "/weight_map/region/rows" },
    { "{\"region\":{\"rows\":[-1,1]}}", "option", "/weight_map/region/rows/0" },
    { "{\"region\":{\"rows\":[0,9]}}", "option", "/weight_map/region/rows" },
    { "{\"region\":{\"keys\":[0,9]}}", "option", "/weight_map/region/keys" },
    { "{\"region\":{\"keys\":[0.5,1]}}", "option", "/weight_map/region/keys/0" },
    { "{\"rows\":[0],\"region\":{\"rows\":[0,1]}}", "option", "/weight_map/region/rows" },
};

TEST(refusals)
{
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        char request[256];
        snprintf(request, sizeof request, "{\"model\":\"sdpa\"," CALL ",\"weight_map\":%s}",
                 REFUSALS[i][0]);
        print_message("    %s\n", REFUSALS[i][0]);
        answer_refused(&client, PATH, request, 400, REFUSALS[i][1], REFUSALS[i][2]);
    }
}

/* Only the smaller map counts for the answer's size: here the whole map would be refused. */
TEST(answer_counts_the_smaller_map)
{
    const struct {
        const char *members;
        long status;
    } cases[] = {
        { "\"top_k\":32", 200 }, /* 1 row: 32 values and 32 indices of 16 bytes */
        { "\"top_k\":33", 413 },    { "\"pool\":[1,64]", 200 },
        { "\"pool\":[1,65]", 413 }, { "\"heads\":\"all\"", 413 },
    };
    struct daemon small = { 0 };
    struct http_client to_small;
    daemon_start_with(&small, "--answer-max", "1024", NULL);
    http_client_init(&to_small, small.port);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct request_text text = { 0 };
        request_text_add(&text,
                         "{\"model\":\"sdpa\",\"query\":[1],\"outputs\":[\"weights\"],"
                         "\"weight_map\":{%s},\"key\":",
                         cases[i].members);
        request_text_random(&text, 1, 100, 1);
        request_text_add(&text, "}");
        if (cases[i].status == 200)
            cJSON_Delete(answer_post(&to_small, PATH, text.data));
        else
            answer_refused(&to_small, PATH, text.data, 413, "answer_too_large", "");
        free(text.data);
    }
    http_client_free(&to_small);
    daemon_stop(&small);
}

static int start(void **state)
{
    fixture_serve("--workers", "4");
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
