/* SPDX-License-Identifier: Apache-2.0 */
/* test_kept_hybrids.c - kept traces of a model some of whose layers have no attention: these have
 * no heads, and so no statistics, maps or pairs, however long the text is. */
#include "answer.h"
#include "fixture.h"
#include "hybrid_model.h"
#include "request_text.h"
#include "test.h"

enum { HEADS = 4, SHORT = 5, LONG = 2100 /* whose maps have levels */ };

static int start(void **state)
{
    fixture_make_directory(state);
    hybrid_model_make(fixture_path("lfm2"));
    return fixture_serve("--models", directory), 0;
}

/* Keeps a trace of so many tokens; its path is in path. */
static void keep(int count, char path[80])
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"lfm2\",\"outputs\":[],\"keep\":\"5m\",\"tokens\":[3");
    for (int i = 1; i < count; i++)
        request_text_add(&body, ",%d", (i * 7 + 3) % 40);
    request_text_add(&body, "]}");
    cJSON *answer = answer_post(&client, "/v1/trace", body.data);
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(answer, "trace");
    assert_non_null(name);
    snprintf(path, 80, "/v1/traces/%s", name->valuestring);
    cJSON_Delete(answer);
    free(body.data);
}

static struct http_response get(const char *path, const char *more)
{
    char whole[200];
    snprintf(whole, sizeof whole, "%s/%s", path, more);
    return http_client_send(&client, &(struct http_request){ .path = whole });
}

static void expect_statistics(const char *path)
{
    struct http_response response = get(path, "statistics");
    assert_int_equal(response.status, 200);
    cJSON *answer = cJSON_Parse(response.body);
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(answer, "layers");
    assert_int_equal(cJSON_GetArraySize(layers), LFM2_LAYERS);
    for (int i = 0; i < LFM2_LAYERS; i++) {
        const cJSON *layer = cJSON_GetArrayItem(layers, i);
        const cJSON *entropy = cJSON_GetObjectItemCaseSensitive(layer, "entropy");
        const cJSON *kind = cJSON_GetObjectItemCaseSensitive(layer, "kind");
        const bool is_attention = strcmp(kind->valuestring, "self") == 0;
        assert_true(cJSON_IsArray(entropy));
        assert_int_equal(cJSON_GetArraySize(entropy), is_attention ? HEADS : 0);
    }
    cJSON_Delete(answer);
    http_response_free(&response);
}

static void expect_refused(const char *path, const char *more)
{
    struct http_response response = get(path, more);
    assert_non_null(strstr(response.body, "of the kind 'convolution' and has no attention"));
    answer_expect_fault(&response, 400, "option", NULL);
    http_response_free(&response);
}

static void expect_maps(const char *path)
{
    struct http_response response = get(path, "weights?layer=1&head=all&cells=8x8");
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    expect_refused(path, "weights?layer=0&head=0");
    expect_refused(path, "weights?layer=0&head=all");
    expect_refused(path, "pair?layer=2&head=0&row=1&key=0");
    expect_refused(path, "pairs?layer=4&head=0&row=1&keys=0,1");
    expect_refused(path, "rollout?layer=0");
    expect_refused(path, "rollout?layer=3");
}

TEST(a_short_text)
{
    char path[80];
    keep(SHORT, path);
    expect_statistics(path);
    expect_maps(path);
}

TEST(a_text_whose_maps_have_levels)
{
    char path[80];
    keep(LONG, path);
    expect_statistics(path);
    expect_maps(path);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
