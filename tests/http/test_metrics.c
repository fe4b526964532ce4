/* SPDX-License-Identifier: Apache-2.0 */
/* test_metrics.c - GET /metrics: text that Prometheus can read, and numbers that move.
 *
 * The format is checked by a reader of our own (metrics_page.h), and by promtool where it is
 * installed. */
#include "answer.h"
#include "fixture.h"
#include "model_client.h"
#include "skip.h"
#include "test.h"

static const char PATH[] = "/v1/attention";
static const char GOOD[] = JSON({"model":"sdpa","query":[[1]]});

TEST(metrics_syntax)
{
    struct metrics_page page;
    cJSON_Delete(answer_post(&client, PATH, GOOD));
    answer_metrics(&client, &page);
    assert_true(page.series_count > 20);
    assert_true(metrics_page_sum(&page, "attnd_build_info") == 1);
    assert_true(metrics_page_has(&page, "process_resident_memory_bytes"));
    assert_null(metrics_page_type(&page, "nv_inference_count")); /* only a flag turns it on */
    metrics_page_free(&page);
}

/* A route that had no request yet has no series. The series that alerts watch from 0 on are there
 * at once. */
TEST(a_fresh_page_is_short)
{
    static const char *const FROM_THE_START[] = {
        "attnd_refused_total{reason=\"overloaded\"}",
        "attnd_refused_total{reason=\"deadline\"}",
        "attnd_cancelled_total{reason=\"left_waiting\"}",
        "attnd_connections_closed_total{reason=\"idle\"}",
        "attnd_log_lines_dropped_total",
        "attnd_memory_refused_total",
    };
    static const char ROUTE[] = "route=\"/v1/attention\"";
    struct daemon fresh;
    struct http_client own;
    struct metrics_page page;
    daemon_start(&fresh, NULL);
    http_client_init(&own, fresh.port);
    answer_metrics(&own, &page);
    assert_true(page.series_count < 120);
    for (size_t i = 0; i < sizeof FROM_THE_START / sizeof FROM_THE_START[0]; i++)
        assert_true(metrics_page_has(&page, FROM_THE_START[i]));
    for (int i = 0; i < page.series_count; i++)
        assert_null(strstr(page.series[i].name, ROUTE));
    metrics_page_free(&page);

    cJSON_Delete(answer_post(&own, PATH, GOOD));
    answer_metrics(&own, &page);
    int count = 0;
    for (int i = 0; i < page.series_count; i++)
        count += strncmp(page.series[i].name, "attnd_re", 8) == 0
                 && strstr(page.series[i].name, ROUTE) != NULL;
    assert_int_equal(count, 1 + 1 + 21); /* requests, their bytes, their duration */
    metrics_page_free(&page);
    http_client_free(&own);
    daemon_stop(&fresh);
}

/* What Prometheus' own linter says of the page, where it is installed. */
TEST(metrics_lint)
{
    char *words;
    skip_without("prometheus", "promtool --version");
    answer_refused(&client, PATH, "{", 400, "json", NULL);
    struct http_response response = http_client_get(&client, "/metrics");
    assert_int_equal(response.status, 200);
    char *folder = daemon_directory_create();
    daemon_directory_write(folder, "page", response.body, response.body_size);
    assert_true(asprintf(&words, "promtool check metrics <'%s/page'", folder) > 0);
    assert_int_equal(system(words), 0);
    free(words);
    daemon_directory_remove(folder);
    http_response_free(&response);
}

static double growth(const struct metrics_page *before, const struct metrics_page *after,
                     const char *name)
{
    return metrics_page_sum(after, name) - metrics_page_sum(before, name);
}

/* Sends this many requests of each kind. A batch has three items. */
static void send_kinds(int good, int batches, int bad, int nowhere)
{
    char path[64];
    for (int i = 0; i < good; i++)
        cJSON_Delete(answer_post(&client, PATH, GOOD));
    for (int i = 0; i < batches; i++)
        cJSON_Delete(answer_post(&client, "/v1/attention/batch",
                                 "{\"model\":\"sdpa\",\"requests\":[{\"query\":[[1]]},"
                                 "{\"query\":[[1]]},{\"query\":[[1]]}]}"));
    for (int i = 0; i < bad; i++)
        answer_refused(&client, PATH, "{", 400, "json", NULL);
    for (int i = 0; i < nowhere; i++) {
        snprintf(path, sizeof(path), "/nowhere/%d-%d", nowhere, i);
        struct http_response response = http_client_get(&client, path);
        assert_int_equal(response.status, 404);
        http_response_free(&response);
    }
}

/* One request of each kind, sent first, makes the series. */
TEST(metrics_grow)
{
    struct metrics_page before, after;
    send_kinds(1, 1, 1, 1);
    answer_metrics(&client, &before);
    send_kinds(10, 1, 5, 300);
    answer_metrics(&client, &after);
    static const struct {
        const char *name;
        double growth;
    } counters[] = { { "attnd_requests_total", 316 },
                     { "attnd_request_duration_seconds_count", 316 },
                     { "attnd_inference_items_total", 13 } };
    for (int i = 0; i < 3; i++) {
        const double grown = growth(&before, &after, counters[i].name);
        if (grown < counters[i].growth || grown > counters[i].growth + 2)
            fail_msg("%s grew by %g, not %g", counters[i].name, grown, counters[i].growth);
    }
    assert_true(growth(&before, &after, "attnd_inference_stage_seconds_count") == 4 * 11);
    assert_true(growth(&before, &after, "attnd_inference_duration_seconds_count") == 11);
    assert_true(growth(&before, &after, "attnd_inference_faults_total") == 5);
    /* Clients do not make series: 300 unknown paths share one. */
    assert_int_equal(after.series_count, before.series_count);
    metrics_page_free(&before);
    metrics_page_free(&after);
}

/* Every route that infers counts under its own name, and under its model where it has one. */
TEST(metrics_by_model_and_route)
{
    static const struct {
        const char *path, *body, *labels;
    } cases[] = {
        { PATH, GOOD, "{model=\"sdpa\",route=\"/v1/attention\"}" },
        { PATH, "{\"model\":\"demo\",\"query\":[[1,0,0]]}",
          "{model=\"demo\",route=\"/v1/attention\"}" },
        { "/v1/attention/batch",
          "{\"requests\":[{\"model\":\"demo\",\"query\":[[1,0,0]]},"
          "{\"model\":\"sdpa\",\"query\":[[1]]}]}",
          "{model=\"demo\",route=\"/v1/attention/batch\"}" },
        { "/v1/attention/merge",
          "{\"model\":\"sdpa\",\"parts\":[{\"context\":[[[1,2]]],\"lse\":[[0]]}]}",
          "{model=\"sdpa\",route=\"/v1/attention/merge\"}" },
        { "/v1/attention/gradients",
          "{\"model\":\"sdpa\",\"query\":[[1]],\"context_gradient\":[[1]]}",
          "{model=\"sdpa\",route=\"/v1/attention/gradients\"}" },
        { "/v1/softmax", "{\"input\":[1,2]}", "{model=\"\",route=\"/v1/softmax\"}" },
        { "/v2/models/demo/infer",
          "{\"inputs\":[{\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,3],"
          "\"data\":[1,0,0]}]}",
          "{model=\"demo\",route=\"/v2/models/{model}/infer\"}" },
        { "/v2/models/demo/versions/1/infer",
          "{\"inputs\":[{\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":[1,3],"
          "\"data\":[1,0,0]}]}",
          "{model=\"demo\",route=\"/v2/models/{model}/versions/{version}/infer\"}" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct metrics_page before, after;
        char series[256];
        answer_metrics(&client, &before);
        cJSON_Delete(answer_post(&client, cases[i].path, cases[i].body));
        answer_metrics(&client, &after);
        snprintf(series, sizeof series, "attnd_inference_duration_seconds_count%s",
                 cases[i].labels);
        if (metrics_page_value(&after, series) - metrics_page_value(&before, series) != 1)
            fail_msg("%s did not grow by 1", series);
        assert_true(growth(&before, &after, "attnd_inference_duration_seconds_count") == 1);
        metrics_page_free(&before);
        metrics_page_free(&after);
    }
}

/* A pass spends time in each of its parts and in no other, together no more than its threads had.
 */
TEST(parts_of_passes)
{
    static const struct {
        const char *part;
        bool is_of_llama;
    } PARTS[] = { { "products", true },    { "attention", true }, { "rotary", true },
                  { "recurrence", false }, { "embedding", true }, { "rows", true },
                  { "vocabulary", true },  { "other", false } };
    struct daemon other;
    struct http_client own;
    struct metrics_page before, after;
    double sum = 0;
    daemon_start(&other, &(struct daemon_options){
                             .arguments = (const char *const[]){ "--models", "examples/models",
                                                                 "--workers", "2", NULL } });
    http_client_init(&own, other.port);
    answer_metrics(&own, &before);
    cJSON_Delete(
        answer_post(&own, "/v1/trace",
                    JSON({"model":"stories260K","tokens":[1,2,3,4,5,6,7,8],
                                   "layers":[],"outputs":["predictions"]})));
    answer_metrics(&own, &after);
    for (size_t i = 0; i < sizeof PARTS / sizeof PARTS[0]; i++) {
        char series[80];
        snprintf(series, sizeof series, "attnd_pass_seconds_total{part=\"%s\"}", PARTS[i].part);
        assert_false(metrics_page_has(&before, series));
        const double spent = metrics_page_value(&after, series);
        if ((spent > 0) != PARTS[i].is_of_llama)
            fail_msg("%s is %g", series, spent);
        sum += spent;
    }
    const int threads = 2 + 1; /* the workers, and the one of the connection */
    assert_true(sum <= threads * growth(&before, &after, "attnd_inference_stage_seconds_sum"));
    metrics_page_free(&before);
    metrics_page_free(&after);
    http_client_free(&own);
    daemon_stop(&other);
}

static double items_of(struct http_client *own, const char *model, int *series_count)
{
    struct metrics_page page;
    char series[256];
    snprintf(series, sizeof series,
             "attnd_inference_items_total{model=\"%s\",route=\"/v1/attention\"}", model);
    answer_metrics(own, &page);
    const double items = metrics_page_value(&page, series);
    *series_count = page.series_count;
    metrics_page_free(&page);
    return items;
}

/* Models that clients put and delete make a limited number of series. A model that is put again
 * under its old name counts on from where it was. */
TEST(models_come_and_go)
{
    enum { MODELS = 50, PLACES = 32, SERIES_OF_ONE = 5 * 21 + 3, SERIES_OF_ROUTE = 21 + 2 };
    struct daemon other;
    struct http_client own;
    char *models = daemon_directory_create();
    daemon_start_with(&other, "--models", models, "--model-control", "explicit", NULL);
    http_client_init(&own, other.port);
    int first_count, count;
    items_of(&own, "", &first_count);
    for (int i = 0; i < MODELS; i++) {
        char name[32];
        snprintf(name, sizeof name, "guest-%d", i);
        model_put_demo(&own, name, 1, 201);
        assert_true(model_factor(&own, name) == 1);
        model_put_demo(&own, name, 2, 200);
        assert_true(model_factor(&own, name) == 2);
        if (i % 10 == 0)
            assert_true(items_of(&own, name, &count) == 2);
        model_delete_well(&own, name);
    }
    assert_true(items_of(&own, "guest-0", &count) == 0);
    assert_true(items_of(&own, "guest-49", &count) == 2);
    /* Other routes had their first request meanwhile, and their series count too. */
    assert_true(count <= first_count + PLACES * SERIES_OF_ONE + 4 * SERIES_OF_ROUTE + 20);
    http_client_free(&own);
    daemon_stop(&other);
    daemon_directory_remove(models);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start, fixture_clear);
