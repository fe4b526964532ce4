/* SPDX-License-Identifier: Apache-2.0 */
/* test_metrics.c - the metrics page, read by a strict parser of its format: its form, and that each
 * thing that is counted appears in its place.
 *
 * The counters belong to the process and only grow, so the tests look at differences between two
 * pages. */
#include <time.h>

#include "metrics_own.h"
#include "test.h"

enum { SERIES_BYTES_MAX = 256 };

TEST(form)
{
    metrics_request(metrics_route("GET", "/form"), 200, 1, 2, 3);
    metrics_build_info("1.2.3", "avx2", "high", "Haswell", "gradients");
    page_read(&after);
    for (int i = 0; i < after.family_count; i++)
        assert_true(!strncmp(after.families[i].name, "attnd_", 6)
                    || !strncmp(after.families[i].name, "process_", 8));
    assert_true(metrics_page_value(&after, "attnd_build_info{version=\"1.2.3\",kernels=\"avx2\","
                                           "precision=\"high\",blas_core=\"Haswell\","
                                           "blas_computes=\"gradients\"}")
                == 1);
    assert_non_null(metrics_page_type(&after, "attnd_requests_total"));
    assert_non_null(metrics_page_type(&after, "attnd_request_duration_seconds"));
    assert_non_null(metrics_page_type(&after, "attnd_inference_stage_seconds"));
    assert_non_null(metrics_page_type(&after, "attnd_inference_items_total"));
    assert_non_null(metrics_page_type(&after, "attnd_refused_total"));
}

TEST(requests)
{
    const int get = metrics_route("GET", "/v1/models/{model}");
    const int put = metrics_route("PUT", "/v1/models/{model}");
    const int unknown = metrics_route("", "unknown");
    assert_int_not_equal(get, put);
    assert_int_equal(metrics_route("GET", "/v1/models/{model}"), get);
    page_read(&before);
    metrics_request(get, 200, 1000000, 10, 100);
    metrics_request(get, 200, 2000000000, 20, 200);
    metrics_request(get, 404, 1, 0, 7);
    metrics_request(put, 201, 1, 5, 6);
    metrics_request(unknown, 599, -1, 0, 0);
    page_read(&after);
    assert_true(growth("attnd_requests_total{method=\"GET\",route=\"/v1/models/{model}\","
                       "status=\"200\"}")
                == 2);
    assert_true(growth("attnd_requests_total{method=\"GET\",route=\"/v1/models/{model}\","
                       "status=\"404\"}")
                == 1);
    assert_true(growth("attnd_requests_total{method=\"PUT\",route=\"/v1/models/{model}\","
                       "status=\"201\"}")
                == 1);
    assert_true(growth("attnd_requests_total{method=\"\",route=\"unknown\",status=\"599\"}") == 1);
    assert_false(
        metrics_page_has(&after, "attnd_requests_total{method=\"PUT\",route=\"/v1/models/{model}\","
                                 "status=\"200\"}"));
    assert_true(growth("attnd_request_bytes_total{method=\"GET\",route=\"/v1/models/{model}\"}")
                == 30);
    assert_true(growth("attnd_answer_bytes_total{method=\"GET\",route=\"/v1/models/{model}\"}")
                == 307);
    assert_true(growth("attnd_request_duration_seconds_count{method=\"GET\","
                       "route=\"/v1/models/{model}\"}")
                == 3);
    const double sum = growth("attnd_request_duration_seconds_sum{method=\"GET\","
                              "route=\"/v1/models/{model}\"}");
    assert_true(sum > 2.000999 && sum < 2.001002);
}

/* A value equal to a bound belongs to the bucket of that bound. One nanosecond more belongs to
 * the next bucket. Buckets are cumulative. */
TEST(buckets)
{
    static const struct {
        const char *bound;
        int64_t ns;
    } BOUNDS[] = {
        { "0.0001", 100000 },  { "0.00025", 250000 }, { "0.0005", 500000 },  { "0.001", 1000000 },
        { "0.0025", 2500000 }, { "0.005", 5000000 },  { "0.01", 10000000 },  { "0.025", 25000000 },
        { "0.05", 50000000 },  { "0.1", 100000000 },  { "0.25", 250000000 }, { "0.5", 500000000 },
        { "1", 1000000000 },   { "2.5", 2500000000 }, { "5", 5000000000 },   { "10", 10000000000 },
        { "30", 30000000000 }, { "60", 60000000000 },
    };
    enum { COUNT = sizeof BOUNDS / sizeof BOUNDS[0] };
    char series[SERIES_BYTES_MAX];
    const int route = metrics_route("GET", "/buckets");
    page_read(&before);
    for (int i = 0; i < COUNT; i++) {
        metrics_request(route, 200, BOUNDS[i].ns, 0, 0);
        metrics_request(route, 200, BOUNDS[i].ns + 1, 0, 0);
    }
    page_read(&after);
    for (int i = 0; i < COUNT; i++) {
        snprintf(series, sizeof series,
                 "attnd_request_duration_seconds_bucket{method=\"GET\",route=\"/buckets\","
                 "le=\"%s\"}",
                 BOUNDS[i].bound);
        assert_true(metrics_page_has(&after, series));
        assert_true(growth(series) == 2 * i + 1);
    }
    assert_true(growth("attnd_request_duration_seconds_bucket{method=\"GET\",route=\"/buckets\","
                       "le=\"+Inf\"}")
                == 2 * COUNT);
    assert_true(growth("attnd_request_duration_seconds_count{method=\"GET\",route=\"/buckets\"}")
                == 2 * COUNT);
}

TEST(refused)
{
    page_read(&before);
    assert_true(metrics_page_has(&before, "attnd_refused_total{reason=\"draining\"}"));
    metrics_refused("overloaded");
    metrics_refused("overloaded");
    metrics_refused("deadline");
    metrics_refused("something new");
    page_read(&after);
    assert_true(growth("attnd_refused_total{reason=\"overloaded\"}") == 2);
    assert_true(growth("attnd_refused_total{reason=\"deadline\"}") == 1);
    assert_true(growth("attnd_refused_total{reason=\"draining\"}") == 0);
    assert_true(growth("attnd_refused_total{reason=\"other\"}") == 1);
}

TEST(gauges)
{
    static const char *const NAMES[] = {
        "attnd_queue_jobs",
        "attnd_connections",
        "attnd_connections_max",
        "attnd_bodies_waiting",
        "attnd_requests_active",
        "attnd_models_ready",
        "attnd_models_failed",
        "attnd_converted_parameter_bytes",
        "attnd_traces_kept",
        "attnd_trace_bytes",
        "attnd_sessions",
        "attnd_session_bytes",
        "attnd_shared_memory_regions",
        "attnd_shared_memory_bytes",
        "attnd_workers",
        "attnd_ready",
    };
    assert_int_equal(sizeof NAMES / sizeof NAMES[0], METRICS_GAUGE_COUNT);
    for (int i = 0; i < METRICS_GAUGE_COUNT; i++) {
        metrics_gauge_set((enum metrics_gauge)i, 100 + i);
        metrics_gauge_add((enum metrics_gauge)i, -200);
    }
    page_read(&after);
    for (int i = 0; i < METRICS_GAUGE_COUNT; i++)
        assert_true(metrics_page_value(&after, NAMES[i]) == i - 100);
}

TEST(process)
{
    page_read(&after);
    assert_true(metrics_page_value(&after, "process_resident_memory_bytes") > 1e5);
    assert_true(metrics_page_value(&after, "process_virtual_memory_bytes")
                >= metrics_page_value(&after, "process_resident_memory_bytes"));
    assert_true(metrics_page_value(&after, "process_threads") >= 1);
    const double started = metrics_page_value(&after, "process_start_time_seconds");
    const double now = (double)time(NULL);
    assert_true(started <= now + 2 && started > now - 3600);
    assert_true(metrics_page_value(&after, "process_max_fds")
                >= metrics_page_value(&after, "process_open_fds"));
    const double cpu = metrics_page_value(&after, "process_cpu_seconds_total");
    const double own = (double)clock() / CLOCKS_PER_SEC;
    assert_true(cpu <= own + 0.1 && cpu >= own - 0.5);
    FILE *files[3];
    page_read(&before);
    for (int i = 0; i < 3; i++)
        assert_non_null(files[i] = fopen("/dev/null", "r"));
    page_read(&after);
    for (int i = 0; i < 3; i++)
        fclose(files[i]);
    assert_true(growth("process_open_fds") == 3);
}

/* The page shows as many routes as there is room for, and is still complete. */
TEST(all_routes)
{
    static char patterns[METRICS_ROUTES_MAX][24];
    int last = 0;
    for (int i = 0; last < METRICS_ROUTES_MAX - 1; i++) {
        snprintf(patterns[i], sizeof patterns[i], "/route/%d", i);
        last = metrics_route("GET", patterns[i]);
        metrics_request(last, 200, 1, 1, 1);
    }
    page_read(&after);
    int requests = 0;
    for (int i = 0; i < after.series_count; i++)
        requests += strstr(after.series[i].name, "attnd_requests_total{method=\"GET\","
                                                 "route=\"/route/")
                    != NULL;
    assert_true(requests > METRICS_ROUTES_MAX / 2);
}
