/* SPDX-License-Identifier: Apache-2.0 */
/* test_metrics_inference.c - inferences counted by model and route, by many threads at once,
 * with a fixed number of places for models. */
#include <pthread.h>

#include "base/clock.h"
#include "metrics_own.h"
#include "telemetry/metrics_inference.h"
#include "test.h"

enum { SERIES_BYTES_MAX = 384 };

static int inference_route(void)
{
    return metrics_route("POST", "/inference");
}

/* The series of a family for a model at the route above. more is text that follows these labels. */
static const char *series_of(const char *family, const char *model, const char *more)
{
    static char series[SERIES_BYTES_MAX];
    snprintf(series, sizeof series, "%s{model=\"%s\",route=\"/inference\"%s}", family, model, more);
    return series;
}

static void count_one(int place)
{
    const struct request_record record = { .route = inference_route(), .item_count = 1 };
    metrics_inference(place, &record);
}

TEST(inferences)
{
    const struct request_record inference = { .parse_ns = 100000,
                                              .queue_ns = 2000000,
                                              .compute_ns = 3000000000,
                                              .write_ns = 40000000000,
                                              .total_ns = 50000000,
                                              .route = inference_route(),
                                              .item_count = 7,
                                              .flops = 1e12 };
    static const struct {
        const char *stage, *bound_below, *bound;
    } STAGES[] = { { "parse", NULL, "0.0001" },
                   { "queue", "0.001", "0.0025" },
                   { "compute", "2.5", "5" },
                   { "write", "30", "60" } };
    static const char STAGE[] = "attnd_inference_stage_seconds";
    page_read(&before);
    const int place = metrics_model_take("bert");
    metrics_inference(place, &inference);
    page_read(&after);
    assert_true(growth(series_of("attnd_inference_items_total", "bert", "")) == 7);
    assert_true(growth(series_of("attnd_inference_flops_total", "bert", "")) == 1e12);
    assert_true(growth(series_of("attnd_inference_items_total", "", "")) == 0);
    assert_true(growth(series_of("attnd_inference_duration_seconds_bucket", "bert", ",le=\"0.05\""))
                == 1);
    assert_true(
        growth(series_of("attnd_inference_duration_seconds_bucket", "bert", ",le=\"0.025\"")) == 0);
    for (size_t i = 0; i < sizeof STAGES / sizeof STAGES[0]; i++) {
        char family[64], more[64];
        snprintf(family, sizeof family, "%s_bucket", STAGE);
        snprintf(more, sizeof more, ",stage=\"%s\",le=\"%s\"", STAGES[i].stage, STAGES[i].bound);
        assert_true(growth(series_of(family, "bert", more)) == 1);
        if (STAGES[i].bound_below) {
            snprintf(more, sizeof more, ",stage=\"%s\",le=\"%s\"", STAGES[i].stage,
                     STAGES[i].bound_below);
            assert_true(metrics_page_has(&after, series_of(family, "bert", more)));
            assert_true(growth(series_of(family, "bert", more)) == 0);
        }
        snprintf(family, sizeof family, "%s_count", STAGE);
        snprintf(more, sizeof more, ",stage=\"%s\"", STAGES[i].stage);
        assert_true(growth(series_of(family, "bert", more)) == 1);
    }
    metrics_model_drop(place);
}

/* A fault counts as one fault and as nothing else. Two statuses of one code are one series. */
TEST(inference_faults)
{
    struct request_record record = { .route = inference_route(), .item_count = 3 };
    static const enum fault_code codes[] = { FAULT_CODING, FAULT_ENCODING, FAULT_DEADLINE };
    page_read(&before);
    for (int i = 0; i < 3; i++) {
        record.fault = codes[i];
        metrics_inference(0, &record);
    }
    page_read(&after);
    static const char FAULTS[] = "attnd_inference_faults_total";
    assert_true(growth(series_of(FAULTS, "", ",code=\"encoding\"")) == 2);
    assert_true(growth(series_of(FAULTS, "", ",code=\"deadline\"")) == 1);
    assert_false(metrics_page_has(&after, series_of(FAULTS, "", ",code=\"memory\"")));
    assert_true(growth(series_of("attnd_inference_items_total", "", "")) == 0);
    assert_true(growth(series_of("attnd_inference_duration_seconds_count", "", "")) == 0);
}

/* Models come and go. A name keeps its counters while there are places, and the page does not
 * grow. */
TEST(places)
{
    enum { NAMES = 5 * METRICS_MODELS_MAX };
    static const char ITEMS[] = "attnd_inference_items_total";
    char name[32];
    int kept = metrics_model_take("kept");
    count_one(kept);
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "come-and-go-%d", i);
        const int place = metrics_model_take(name);
        assert_int_not_equal(place, kept);
        assert_int_equal(metrics_model_take(name), place);
        count_one(place);
        metrics_model_drop(place);
        metrics_model_drop(place);
        metrics_model_drop(kept);
        assert_int_equal(metrics_model_take("kept"), kept); /* it was the last to be dropped */
    }
    count_one(kept);
    page_read(&after);
    assert_true(metrics_page_value(&after, series_of(ITEMS, "kept", "")) == 2);
    int found = 0;
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "come-and-go-%d", i);
        const double value = metrics_page_value(&after, series_of(ITEMS, name, ""));
        assert_true(value == (i > NAMES - METRICS_MODELS_MAX ? 1 : 0));
        found += value > 0;
    }
    assert_int_equal(found, METRICS_MODELS_MAX - 1);
    metrics_model_drop(kept);
    metrics_model_drop(0);
}

/* When every place is taken, all other models are counted together. Nothing is lost. */
TEST(no_place_left)
{
    enum { NAMES = METRICS_MODELS_MAX + 10 };
    static const char ITEMS[] = "attnd_inference_items_total";
    int places[NAMES];
    for (int i = 0; i < NAMES; i++) {
        char name[32];
        snprintf(name, sizeof name, "held-%d", i);
        places[i] = metrics_model_take(name);
        count_one(places[i]);
    }
    page_read(&after);
    assert_true(metrics_page_value(&after, series_of(ITEMS, "_other", "")) == 10);
    assert_true(metrics_page_value(&after, series_of(ITEMS, "held-0", "")) == 1);
    for (int i = 0; i < NAMES; i++)
        metrics_model_drop(places[i]);
    const int place = metrics_model_take("after");
    count_one(place);
    page_read(&after);
    assert_true(metrics_page_value(&after, series_of(ITEMS, "after", "")) == 1);
    metrics_model_drop(place);
}

TEST(labels_are_escaped)
{
    const int place = metrics_model_take("a\"b\\c\nd");
    count_one(place);
    page_read(&after);
    assert_true(
        metrics_page_value(&after, series_of("attnd_inference_items_total", "a\\\"b\\\\c\\nd", ""))
        == 1);
    metrics_model_drop(place);
}

enum { THREADS = 4, EACH = 20000 };

static void *count_requests(void *route)
{
    const struct request_record inference = { .item_count = 2, .route = *(const int *)route };
    const int place = metrics_model_take("threads");
    for (int i = 0; i < EACH; i++) {
        metrics_request(*(const int *)route, 200, 1000000, 1, 2);
        metrics_inference(place, &inference);
        metrics_gauge_add(METRICS_QUEUE_JOBS, i % 2 ? 1 : -1);
    }
    metrics_model_drop(place);
    return NULL;
}

TEST(threads_lose_nothing)
{
    int route = metrics_route("POST", "/threads");
    pthread_t threads[THREADS];
    page_read(&before);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_requests, &route), 0);
    page_read(&after);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    page_read(&after);
    assert_true(growth("attnd_requests_total{method=\"POST\",route=\"/threads\",status=\"200\"}")
                == THREADS * EACH);
    assert_true(growth("attnd_request_bytes_total{method=\"POST\",route=\"/threads\"}")
                == THREADS * EACH);
    assert_true(growth("attnd_inference_items_total{model=\"threads\",route=\"/threads\"}")
                == 2 * THREADS * EACH);
    assert_true(growth("attnd_queue_jobs") == 0);
}

/* Prints what counting one request costs. The test sets no limit. */
TEST(cost)
{
    enum { COUNT = 200000 };
    const int place = metrics_model_take("cost");
    const struct request_record record = { .route = inference_route(), .item_count = 1 };
    const int64_t start_ns = clock_now_ns();
    for (int i = 0; i < COUNT; i++) {
        metrics_request(record.route, 200, 1000000, 100, 100);
        metrics_inference(place, &record);
    }
    print_message("%.0f ns to count a request\n", (double)(clock_now_ns() - start_ns) / COUNT);
    metrics_model_drop(place);
}
