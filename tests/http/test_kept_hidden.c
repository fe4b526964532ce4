/* SPDX-License-Identifier: Apache-2.0 */
/* test_kept_hidden.c - hidden=nan: in a piece of a kept map NaN stands exactly where no pair of a
 * cell may be seen, those whose masked score is -INFINITY in the trace; all other bits stay. */
#include "answer.h"
#include "fixture.h"
#include "test.h"
#include "traced_model.h"
#include "word_model.h"

#include <inttypes.h>

/* A trace that is kept, with the masked scores of one of its layers. */
struct trace {
    char id[65];
    double *masked; /* [heads][rows][rows] */
    int64_t heads, rows;
};

static struct trace keep(const char *body, int layer)
{
    struct trace trace = { .heads = 0 };
    cJSON *answer = answer_post(&client, "/v1/trace", body);
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(answer, "trace");
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(answer, "layers");
    layers = cJSON_GetArrayItem(layers, layer);
    const cJSON *masked = cJSON_GetObjectItemCaseSensitive(layers, "masked");
    const int64_t shape[] = { cJSON_GetArraySize(masked),
                              cJSON_GetArraySize(cJSON_GetArrayItem(masked, 0)),
                              cJSON_GetArraySize(cJSON_GetArrayItem(masked, 0)) };
    assert_non_null(id);
    trace.heads = shape[0];
    trace.rows = shape[1];
    snprintf(trace.id, sizeof trace.id, "%s", id->valuestring);
    trace.masked = answer_numbers(layers, "masked", 3, shape);
    cJSON_Delete(answer);
    return trace;
}

static struct http_response get(const struct trace *trace, const char *query)
{
    char path[300];
    snprintf(path, sizeof path, "/v1/traces/%s/weights?%s", trace->id, query);
    struct http_response response = http_client_get(&client, path);
    if (response.status != 200)
        fail_msg("%s: %ld %s", path, response.status, response.body);
    return response;
}

static bool is_hidden(const struct trace *trace, int64_t head, int64_t row, int64_t key)
{
    return trace->masked[(head * trace->rows + row) * trace->rows + key] == -INFINITY;
}

/* Whether all pairs of a cell of the whole map, in cells x cells, are hidden. */
static bool is_all_hidden(const struct trace *trace, int64_t head, int64_t cells, int64_t cell)
{
    const int64_t n = trace->rows;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            if (i * cells / n == cell / cells && j * cells / n == cell % cells
                && !is_hidden(trace, head, i, j))
                return false;
    return true;
}

/* The whole map of each head of a layer in cells x cells: gives how many are NaN. */
static int64_t expect_map(const struct trace *trace, int layer, int64_t cells, const char *more)
{
    char query[200];
    int64_t count = 0;
    for (int64_t head = 0; head < trace->heads; head++) {
        snprintf(query, sizeof query, "layer=%d&head=%" PRId64 "&cells=%" PRId64 "x%" PRId64 "%s",
                 layer, head, cells, cells, more);
        struct http_response plain = get(trace, query);
        strcat(query, "&hidden=nan");
        struct http_response marked = get(trace, query);
        const float *was = (const float *)(const void *)plain.body;
        const float *is = (const float *)(const void *)marked.body;
        assert_int_equal(marked.body_size, plain.body_size);
        for (int64_t c = 0; c < cells * cells; c++) {
            if (isnan(is[c]) != is_all_hidden(trace, head, cells, c))
                fail_msg("%s: cell %" PRId64 " is %g", query, c, (double)is[c]);
            assert_true(isnan(is[c]) || memcmp(&was[c], &is[c], sizeof *is) == 0);
            count += isnan(is[c]);
        }
        http_response_free(&plain);
        http_response_free(&marked);
    }
    return count;
}

/* Each pair alone, cells of several pairs, and both reductions. */
static int64_t expect_maps(const struct trace *trace, int layer)
{
    expect_map(trace, layer, 4, "");
    expect_map(trace, layer, 5, "&reduce=mean");
    return expect_map(trace, layer, trace->rows, "");
}

#define KEPT ",\"keep\":\"1m\",\"outputs\":[\"masked\"]"

TEST(causal)
{
    char *body = word_model_request(20, KEPT);
    struct trace trace = keep(body, 1);
    assert_int_equal(expect_maps(&trace, 1), trace.rows * (trace.rows - 1));
    free(trace.masked);
    free(body);
}

TEST(window)
{
    struct trace trace = keep("{\"model\":\"windowed\",\"tokens\":[1,2,3,4,5,6,7,8,9]" KEPT "}", 0);
    assert_int_equal(expect_maps(&trace, 0), 2 * (81 - 9 - 8 - 7));
    free(trace.masked);
}

TEST(encoder)
{
    char tokens[200], body[300];
    snprintf(body, sizeof body, "{\"model\":\"bert\",\"tokens\":%s" KEPT "}",
             traced_model_tokens(tokens, sizeof tokens, 1, 9));
    struct trace trace = keep(body, 2);
    assert_int_equal(expect_maps(&trace, 2), 0);
    free(trace.masked);
}

/* Of one head all rows, of another some; row 0 sees no key then. */
TEST(hidden_by_an_edit)
{
    char *body = word_model_request(
        20, KEPT ",\"edits\":[{\"layers\":[1],\"heads\":[0],\"hide\":[[0,1],[5,9]]},"
                 "{\"layers\":[1],\"heads\":[1],\"hide\":[[3,4]],\"rows\":[[6,8]]}]");
    struct trace trace = keep(body, 1);
    assert_true(is_hidden(&trace, 0, 0, 0) && is_hidden(&trace, 1, 6, 3));
    assert_true(expect_maps(&trace, 1) > trace.rows * (trace.rows - 1));
    free(trace.masked);
    free(body);
}

/* Weights that an edit gives are over what the row sees: one of 0 is seen, one of a hidden pair is
 * not. */
TEST(given_weights)
{
    char *body =
        word_model_request(4, KEPT ",\"edits\":[{\"layers\":[1],\"heads\":[0],\"rows\":[1],"
                                   "\"weights\":[[0,0.25,0,0.75,0,0,0,0,0,0]]}]");
    struct trace trace = keep(body, 1);
    struct http_response marked = get(&trace, "layer=1&head=0&rows=1:2&hidden=nan");
    const float *is = (const float *)(const void *)marked.body;
    assert_int_equal(trace.rows, 10);
    assert_true(is[0] == 0 && is[1] == 0.25f && isnan(is[2]) && isnan(is[3]) && isnan(is[4]));
    http_response_free(&marked);
    free(trace.masked);
    free(body);
}

/* A piece of more pairs than are computed at once comes from blocks, which may touch pairs that a
 * cell does not have. */
TEST(large_maps)
{
    enum { CELLS = 100 };
    char *body = word_model_request(
        2200, ",\"keep\":\"1m\",\"outputs\":[],\"layers\":[1],\"edits\":[{\"layers\":[1],"
              "\"hide\":[[1100,1300]],\"heads\":[1]}]");
    cJSON *answer = answer_post(&client, "/v1/trace", body);
    const int64_t n = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(answer, "tokens"));
    struct trace trace = { .heads = 2 };
    snprintf(trace.id, sizeof trace.id, "%s", cJSON_GetObjectItem(answer, "trace")->valuestring);
    assert_true(n * n > 4194304);
    struct http_response marked = get(&trace, "layer=1&head=all&cells=100x100&hidden=nan");
    const float *values = (const float *)(const void *)marked.body;
    for (int c = 0; c < 2 * CELLS * CELLS; c++) {
        const int64_t row_end = ((c / CELLS % CELLS + 1) * n + CELLS - 1) / CELLS;
        const int64_t keys[] = { (c % CELLS * n + CELLS - 1) / CELLS,
                                 ((c % CELLS + 1) * n + CELLS - 1) / CELLS };
        const int64_t last = keys[1] < row_end ? keys[1] : row_end; /* of the keys that are seen */
        const bool is_edited = c >= CELLS * CELLS && keys[0] >= 1100 && last <= 1300;
        if (isnan(values[c]) != (keys[0] >= row_end || is_edited))
            fail_msg("cell %d is %g", c, (double)values[c]);
    }
    http_response_free(&marked);
    cJSON_Delete(answer);
    free(body);
}

/* NaN in halves, in roots and logarithms; the least and the most are of what is seen. */
TEST(forms)
{
    static const char *const MORE[] = { "&dtype=f16", "&scale=sqrt", "&scale=log" };
    char *body = word_model_request(4, KEPT), value[64];
    struct trace trace = keep(body, 1);
    for (size_t i = 0; i < sizeof MORE / sizeof MORE[0]; i++) {
        char query[100];
        snprintf(query, sizeof query, "layer=1&head=1&rows=0:1&keys=0:2&hidden=nan%s", MORE[i]);
        struct http_response piece = get(&trace, query);
        if (i == 0)
            assert_memory_equal(piece.body, "\x00\x3c\x00\x7e", 4);
        else
            assert_true(isnan(((const float *)(const void *)piece.body)[1]));
        assert_string_equal(http_response_header(&piece, "X-Tile-Min", value, sizeof value), "1");
        http_response_free(&piece);
    }
    struct http_response none = get(&trace, "layer=1&head=1&rows=0:1&keys=1:3&hidden=nan");
    assert_string_equal(http_response_header(&none, "X-Tile-Min", value, sizeof value), "0");
    assert_string_equal(http_response_header(&none, "X-Tile-Max", value, sizeof value), "0");
    http_response_free(&none);
    free(trace.masked);
    free(body);
}

static void expect_refused(const struct trace *trace, const char *query, const char *says)
{
    char path[300];
    snprintf(path, sizeof path, "/v1/traces/%s/weights?%s", trace->id, query);
    struct http_response response = http_client_get(&client, path);
    if (!strstr(response.body, says))
        fail_msg("%s: %ld %s", query, response.status, response.body);
    answer_expect_fault(&response, 400, "option", "");
    http_response_free(&response);
}

/* The answer with NaN has a tag of its own. */
TEST(tag_and_faults)
{
    char *body = word_model_request(4, KEPT), tag[64], other[64];
    struct trace trace = keep(body, 1);
    struct http_response plain = get(&trace, "layer=1&head=0&hidden=0");
    struct http_response marked = get(&trace, "layer=1&head=0&hidden=nan");
    assert_non_null(http_response_header(&plain, "ETag", tag, sizeof tag));
    assert_non_null(http_response_header(&marked, "ETag", other, sizeof other));
    assert_string_not_equal(tag, other);
    http_response_free(&plain);
    http_response_free(&marked);
    expect_refused(&trace, "layer=1&head=0&hidden=1", "expected 0 or nan");
    expect_refused(&trace, "layer=1&head=0&hidden=nan&dtype=u8", "expected f32 or f16");
    free(trace.masked);
    free(body);
}

/* "words" with a window: a row sees its key and two before it. */
static void make_windowed(void)
{
    char config[600];
    word_model_make(fixture_path("windowed"), NULL);
    const char *rest = strchr(word_model_config, ',');
    snprintf(config, sizeof config,
             "{\"model_type\":\"mistral\",\"sliding_window\":3,"
             "\"num_key_value_heads\":2%s",
             rest);
    daemon_directory_write(directory, "windowed/config.json", config, strlen(config));
}

static int start(void **state)
{
    if (fixture_make_directory(state) != 0)
        return -1;
    traced_model_save(directory);
    word_model_make(fixture_path("words"), word_model_tokenizer);
    make_windowed();
    fixture_serve("--models", directory);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
