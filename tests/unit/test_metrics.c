/* test_metrics.c - the metrics page, read by a small parser of the Prometheus text
 * format 0.0.4: its form, and that each thing counted is found again in its place.
 *
 * The counters belong to the process and only grow, so the tests look at
 * differences between two pages. */
#include "metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SERIES_MAX = 2048, FAMILIES_MAX = 128, NAME_BYTES_MAX = 96, SERIES_BYTES_MAX = 256 };

struct family {
    char name[NAME_BYTES_MAX];
    char type[16];
};

struct page {
    struct {
        char name[SERIES_BYTES_MAX]; /* with its labels */
        double value;
    } series[SERIES_MAX];
    int series_count;
    struct family families[FAMILIES_MAX];
    int family_count;
};

static struct family *family_find(struct page *page, const char *name)
{
    for (int i = 0; i < page->family_count; i++)
        if (strcmp(page->families[i].name, name) == 0)
            return &page->families[i];
    return NULL;
}

static void read_comment(struct page *page, const char *line)
{
    char name[NAME_BYTES_MAX], type[16];
    int end = 0;
    if (sscanf(line, "# HELP %95s %n", name, &end) == 1) {
        assert_true(end > 0 && line[end]); /* there is a text */
        assert_null(family_find(page, name));
        assert_true(page->family_count < FAMILIES_MAX);
        strcpy(page->families[page->family_count++].name, name);
        return;
    }
    assert_int_equal(sscanf(line, "# TYPE %95s %15s%n", name, type, &end), 2);
    assert_int_equal(line[end], '\0');
    struct family *last = &page->families[page->family_count - 1];
    assert_string_equal(last->name, name);
    assert_string_equal(last->type, "");
    assert_true(!strcmp(type, "counter") || !strcmp(type, "gauge") || !strcmp(type, "histogram"));
    strcpy(last->type, type);
}

/* {name="value",...}, without escapes: there is nothing that would need one. */
static const char *skip_labels(const char *p)
{
    if (*p != '{')
        return p;
    do {
        p++;
        assert_true(islower((unsigned char)*p));
        p += strspn(p, "abcdefghijklmnopqrstuvwxyz_");
        assert_memory_equal(p, "=\"", 2);
        p += 2;
        p += strcspn(p, "\"\\\n");
        assert_int_equal(*p++, '"');
    } while (*p == ',');
    assert_int_equal(*p, '}');
    return p + 1;
}

static void read_series(struct page *page, const char *line)
{
    char *end;
    const char *labels = line + strspn(line, "abcdefghijklmnopqrstuvwxyz_");
    const char *space = skip_labels(labels);
    const size_t family_length = strlen(page->families[page->family_count - 1].name);
    const struct family *family = &page->families[page->family_count - 1];
    const double value = strtod(space + 1, &end);
    assert_int_equal(*space, ' ');
    assert_true(end > space + 1 && *end == '\0');
    /* It belongs to the family whose TYPE came last. */
    assert_memory_equal(line, family->name, family_length);
    const char *suffix = line + family_length;
    if (strcmp(family->type, "histogram") == 0)
        assert_true(!strncmp(suffix, "_bucket{", 8) || !strncmp(suffix, "_sum{", 5)
                    || !strncmp(suffix, "_count{", 7));
    else
        assert_ptr_equal(suffix, labels);
    assert_true((size_t)(space - line) < SERIES_BYTES_MAX);
    assert_true(page->series_count < SERIES_MAX);
    char *name = page->series[page->series_count].name;
    memcpy(name, line, (size_t)(space - line));
    name[space - line] = '\0';
    for (int i = 0; i < page->series_count; i++)
        assert_string_not_equal(page->series[i].name, name);
    page->series[page->series_count++].value = value;
}

static void page_read(struct page *page)
{
    struct text text;
    struct fault fault;
    text_init(&text, 1 << 20);
    metrics_write(&text);
    assert_true(text_finish(&text, &fault));
    assert_true(text.used > 0 && text.data[text.used - 1] == '\n');
    text.data[text.used - 1] = '\0';
    assert_int_equal(strlen(text.data), text.used - 1);
    *page = (struct page){ .series_count = 0 };
    char *rest = text.data;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        if (line[0] == '#')
            read_comment(page, line);
        else
            read_series(page, line);
    }
    text_free(&text);
}

/* The value of a series; one that is not there, as a status that never came, is 0. */
static double value_of(const struct page *page, const char *series)
{
    for (int i = 0; i < page->series_count; i++)
        if (strcmp(page->series[i].name, series) == 0)
            return page->series[i].value;
    return 0;
}

static bool has(const struct page *page, const char *series)
{
    for (int i = 0; i < page->series_count; i++)
        if (strcmp(page->series[i].name, series) == 0)
            return true;
    return false;
}

static struct page before, after; /* too large for a stack */

static double growth(const char *series)
{
    return value_of(&after, series) - value_of(&before, series);
}

static void test_form(void **state)
{
    (void)state;
    metrics_request(metrics_route("GET", "/form"), 200, 1, 2, 3);
    metrics_build_info("1.2.3", "avx2", "Haswell");
    page_read(&after);
    for (int i = 0; i < after.family_count; i++) {
        const char *name = after.families[i].name;
        const size_t length = strlen(name);
        const bool is_counter = strcmp(after.families[i].type, "counter") == 0;
        assert_true(!strncmp(name, "attnd_", 6) || !strncmp(name, "process_", 8));
        assert_int_equal(length > 6 && strcmp(name + length - 6, "_total") == 0, is_counter);
    }
    assert_true(value_of(&after, "attnd_build_info{version=\"1.2.3\",kernels=\"avx2\","
                                 "blas_core=\"Haswell\"}")
                == 1);
    assert_non_null(family_find(&after, "attnd_requests_total"));
    assert_non_null(family_find(&after, "attnd_request_duration_seconds"));
    assert_non_null(family_find(&after, "attnd_inference_stage_seconds"));
    assert_non_null(family_find(&after, "attnd_inference_items_total"));
    assert_non_null(family_find(&after, "attnd_refused_total"));
}

static void test_requests(void **state)
{
    (void)state;
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
    assert_false(has(&after, "attnd_requests_total{method=\"PUT\",route=\"/v1/models/{model}\","
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

/* A bound belongs to its bucket, one nanosecond more to the next; buckets are cumulative. */
static void test_buckets(void **state)
{
    static const struct {
        const char *bound;
        int64_t ns;
    } BOUNDS[] = {
        { "0.0005", 500000 },  { "0.001", 1000000 },  { "0.0025", 2500000 }, { "0.005", 5000000 },
        { "0.01", 10000000 },  { "0.025", 25000000 }, { "0.05", 50000000 },  { "0.1", 100000000 },
        { "0.25", 250000000 }, { "0.5", 500000000 },  { "1", 1000000000 },   { "2.5", 2500000000 },
        { "5", 5000000000 },   { "10", 10000000000 }, { "30", 30000000000 }, { "60", 60000000000 },
    };
    enum { COUNT = sizeof BOUNDS / sizeof BOUNDS[0] };
    char series[SERIES_BYTES_MAX];
    (void)state;
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
        assert_true(has(&after, series));
        assert_true(growth(series) == 2 * i + 1);
    }
    assert_true(growth("attnd_request_duration_seconds_bucket{method=\"GET\",route=\"/buckets\","
                       "le=\"+Inf\"}")
                == 2 * COUNT);
    assert_true(growth("attnd_request_duration_seconds_count{method=\"GET\",route=\"/buckets\"}")
                == 2 * COUNT);
}

static void test_inferences(void **state)
{
    (void)state;
    const struct request_record inference = { .parse_ns = 100000,
                                              .queue_ns = 2000000,
                                              .compute_ns = 3000000000,
                                              .write_ns = 40000000000,
                                              .item_count = 7 };
    static const struct {
        const char *stage, *bound_below, *bound;
    } STAGES[] = { { "parse", NULL, "0.0005" },
                   { "queue", "0.001", "0.0025" },
                   { "compute", "2.5", "5" },
                   { "write", "30", "60" } };
    page_read(&before);
    metrics_inference(&inference);
    page_read(&after);
    assert_true(growth("attnd_inference_items_total") == 7);
    for (size_t i = 0; i < sizeof STAGES / sizeof STAGES[0]; i++) {
        char series[SERIES_BYTES_MAX];
        static const char FORM[] = "attnd_inference_stage_seconds_bucket{stage=\"%s\",le=\"%s\"}";
        snprintf(series, sizeof series, FORM, STAGES[i].stage, STAGES[i].bound);
        assert_true(growth(series) == 1);
        if (STAGES[i].bound_below) {
            snprintf(series, sizeof series, FORM, STAGES[i].stage, STAGES[i].bound_below);
            assert_true(has(&after, series));
            assert_true(growth(series) == 0);
        }
        snprintf(series, sizeof series, "attnd_inference_stage_seconds_count{stage=\"%s\"}",
                 STAGES[i].stage);
        assert_true(growth(series) == 1);
    }
}

static void test_refused(void **state)
{
    (void)state;
    page_read(&before);
    assert_true(has(&before, "attnd_refused_total{reason=\"draining\"}"));
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

static void test_gauges(void **state)
{
    static const char *const NAMES[METRICS_GAUGE_COUNT] = {
        [METRICS_QUEUE_JOBS] = "attnd_queue_jobs",
        [METRICS_CONNECTIONS] = "attnd_connections",
        [METRICS_REQUESTS_ACTIVE] = "attnd_requests_active",
        [METRICS_MODELS_READY] = "attnd_models_ready",
        [METRICS_MODELS_FAILED] = "attnd_models_failed",
        [METRICS_CONVERTED_BYTES] = "attnd_converted_parameter_bytes",
        [METRICS_WORKERS] = "attnd_workers",
        [METRICS_READY] = "attnd_ready",
    };
    (void)state;
    for (int i = 0; i < METRICS_GAUGE_COUNT; i++) {
        metrics_gauge_set((enum metrics_gauge)i, 100 + i);
        metrics_gauge_add((enum metrics_gauge)i, -200);
    }
    page_read(&after);
    for (int i = 0; i < METRICS_GAUGE_COUNT; i++)
        assert_true(value_of(&after, NAMES[i]) == i - 100);
}

static void test_process(void **state)
{
    (void)state;
    page_read(&after);
    assert_true(value_of(&after, "process_resident_memory_bytes") > 1e5);
    assert_true(value_of(&after, "process_virtual_memory_bytes")
                >= value_of(&after, "process_resident_memory_bytes"));
    assert_true(value_of(&after, "process_threads") >= 1);
    const double started = value_of(&after, "process_start_time_seconds");
    const double now = (double)time(NULL);
    assert_true(started <= now + 2 && started > now - 3600);
    assert_true(value_of(&after, "process_max_fds") >= value_of(&after, "process_open_fds"));
    const double cpu = value_of(&after, "process_cpu_seconds_total");
    const double own = (double)clock() / CLOCKS_PER_SEC;
    assert_true(cpu <= own + 0.1 && cpu >= own - 0.5);
    FILE *files[3];
    for (int i = 0; i < 3; i++)
        assert_non_null(files[i] = fopen("/dev/null", "r"));
    before = after;
    page_read(&after);
    for (int i = 0; i < 3; i++)
        fclose(files[i]);
    assert_true(growth("process_open_fds") == 3);
}

enum { THREADS = 4, EACH = 20000 };

static void *count_requests(void *route)
{
    const struct request_record inference = { .item_count = 2 };
    for (int i = 0; i < EACH; i++) {
        metrics_request(*(const int *)route, 200, 1000000, 1, 2);
        metrics_inference(&inference);
        metrics_gauge_add(METRICS_QUEUE_JOBS, i % 2 ? 1 : -1);
    }
    return NULL;
}

static void test_threads_lose_nothing(void **state)
{
    (void)state;
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
    assert_true(growth("attnd_inference_items_total") == 2 * THREADS * EACH);
    assert_true(growth("attnd_queue_jobs") == 0);
}

/* As many routes as there is room for are all told, with the page still whole. */
static void test_all_routes(void **state)
{
    static char patterns[METRICS_ROUTES_MAX][24];
    int last = 0;
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_form),       cmocka_unit_test(test_requests),
        cmocka_unit_test(test_buckets),    cmocka_unit_test(test_inferences),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_gauges),
        cmocka_unit_test(test_process),    cmocka_unit_test(test_threads_lose_nothing),
        cmocka_unit_test(test_all_routes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
