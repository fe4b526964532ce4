/* test_metrics.c - GET /metrics: text that Prometheus can read, and numbers that move.
 *
 * The format is checked line by line by a reader of our own: names, labels,
 * declared types, no series twice, buckets that count what is in those before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "answer.h"
#include "daemon.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char PATH[] = "/v1/attention";
static const char GOOD[] = "{\"model\":\"sdpa\",\"query\":[[1]]}";

static struct daemon server;
static struct http_client client;

static bool is_name(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!isalpha((unsigned char)text[i]) && text[i] != '_' && text[i] != ':'
            && (i == 0 || !isdigit((unsigned char)text[i])))
            return false;
    return size > 0;
}

/* The end of {a="b",c="d"}, or NULL where it is malformed. */
static const char *labels_end(const char *text)
{
    for (text++; *text && *text != '}';) {
        size_t size = strcspn(text, "=");
        if (!is_name(text, size) || text[size] != '=' || text[size + 1] != '"')
            return NULL;
        for (text += size + 2; *text && *text != '"'; text++)
            if (*text == '\\' && !strchr("\\\"n", *++text))
                return NULL;
        if (*text++ != '"' || (*text != ',' && *text != '}'))
            return NULL;
        text += *text == ',';
    }
    return *text == '}' ? text + 1 : NULL;
}

/* What follows "# TYPE name " on its line; NULL where the family is not declared. */
static const char *type_of(const char *page, const char *name, size_t size)
{
    char start[300];
    snprintf(start, sizeof(start), "\n# TYPE %.*s ", (int)size, name);
    const char *line = strstr(page, start);
    return line ? line + strlen(start) : NULL;
}

/* Whether the page declares the family of this sample, in a type that suits its name. */
static bool is_declared(const char *page, const char *name, size_t size)
{
    static const char *const suffixes[] = { "_bucket", "_sum", "_count" };
    const char *type = type_of(page, name, size);
    if (type)
        return strncmp(type, "gauge\n", 6) == 0
               || (strncmp(type, "counter\n", 8) == 0 && size > 6
                   && strncmp(name + size - 6, "_total", 6) == 0);
    for (int s = 0; s < 3; s++) {
        size_t suffix = strlen(suffixes[s]);
        if (size <= suffix || strncmp(name + size - suffix, suffixes[s], suffix) != 0)
            continue;
        type = type_of(page, name, size - suffix);
        if (type && strncmp(type, "histogram\n", 10) == 0)
            return true;
    }
    return false;
}

/* The value of a well-formed sample; *series is how long its name and labels are. */
static double sample_value(const char *page, const char *line, size_t *series)
{
    size_t name = strcspn(line, "{ ");
    const char *after = line[name] == '{' ? labels_end(line + name) : line + name;
    char *end = NULL;
    double value = after ? strtod(after, &end) : 0;
    if (!is_name(line, name) || !after || *after != ' ' || end == after || *end != '\n'
        || !is_declared(page, line, name))
        fail_msg("not a sample: %.*s", (int)strcspn(line, "\n"), line);
    *series = (size_t)(after - line);
    return value;
}

/* The page, with a newline before it so that every line has one on both sides. */
static char *metrics_page(void)
{
    char type[128];
    struct http_response response = http_client_get(&client, "/metrics");
    assert_int_equal(response.status, 200);
    assert_non_null(http_response_header(&response, "Content-Type", type, sizeof(type)));
    assert_non_null(strstr(type, "text/plain"));
    char *page;
    assert_true(asprintf(&page, "\n%s", response.body) > 1);
    http_response_free(&response);
    return page;
}

static double metrics_sum(const char *page, const char *name)
{
    double sum = 0;
    size_t size = strlen(name), series;
    for (const char *line = page + 1; *line; line = strchr(line, '\n') + 1)
        if (strncmp(line, name, size) == 0 && (line[size] == ' ' || line[size] == '{'))
            sum += sample_value(page, line, &series);
    return sum;
}

static void test_metrics_syntax(void **state)
{
    (void)state;
    cJSON_Delete(answer_post(&client, PATH, GOOD));
    char *page = metrics_page();
    assert_true(page[strlen(page) - 1] == '\n');
    double bucket = 0;
    bool in_histogram = false;
    int samples = 0;
    for (const char *line = page + 1; *line; line = strchr(line, '\n') + 1) {
        if (*line == '#') {
            assert_true(strncmp(line, "# HELP ", 7) == 0 || strncmp(line, "# TYPE ", 7) == 0);
            continue;
        }
        size_t series;
        double value = sample_value(page, line, &series);
        for (const char *next = strchr(line, '\n') + 1; *next; next = strchr(next, '\n') + 1)
            if (strncmp(next, line, series + 1) == 0)
                fail_msg("twice: %.*s", (int)series, line);
        /* The buckets of one series follow each other, and count what is in those before. */
        bool is_bucket = memmem(line, series, "_bucket{", 8) != NULL;
        assert_true(!is_bucket || !in_histogram || value >= bucket);
        in_histogram = is_bucket && !memmem(line, series, "le=\"+Inf\"", 9);
        bucket = value;
        samples++;
    }
    assert_true(samples > 20);
    assert_non_null(strstr(page, "\nattnd_build_info{"));
    assert_non_null(strstr(page, "\nprocess_resident_memory_bytes "));
    free(page);
}

static void test_metrics_grow(void **state)
{
    (void)state;
    char *before = metrics_page();
    for (int i = 0; i < 10; i++)
        cJSON_Delete(answer_post(&client, PATH, GOOD));
    cJSON_Delete(answer_post(&client, "/v1/attention/batch",
                             "{\"model\":\"sdpa\",\"requests\":[{\"query\":[[1]]},"
                             "{\"query\":[[1]]},{\"query\":[[1]]}]}"));
    for (int i = 0; i < 5; i++)
        answer_refused(&client, PATH, "{", 400, "json", NULL);
    char path[64];
    for (int i = 0; i < 300; i++) {
        snprintf(path, sizeof(path), "/nowhere/%d", i);
        struct http_response response = http_client_get(&client, path);
        assert_int_equal(response.status, 404);
        http_response_free(&response);
    }
    char *after = metrics_page();
    static const struct {
        const char *name;
        double growth;
    } counters[] = { { "attnd_requests_total", 316 },
                     { "attnd_request_duration_seconds_count", 316 },
                     { "attnd_inference_items_total", 13 } };
    for (int i = 0; i < 3; i++) {
        double growth =
            metrics_sum(after, counters[i].name) - metrics_sum(before, counters[i].name);
        if (growth < counters[i].growth || growth > counters[i].growth + 2)
            fail_msg("%s grew by %g, not %g", counters[i].name, growth, counters[i].growth);
    }
    assert_true(metrics_sum(after, "attnd_inference_stage_seconds_count")
                > metrics_sum(before, "attnd_inference_stage_seconds_count"));
    /* Clients do not make series: 300 paths that are not there are one. */
    assert_true(strlen(after) < strlen(before) + 8000);
    free(before);
    free(after);
}

static void test_stops_cleanly(void **state)
{
    (void)state;
    http_client_free(&client);
    daemon_stop(&server);
}

static int start(void **state)
{
    (void)state;
    daemon_start(&server, NULL);
    http_client_init(&client, server.port);
    return 0;
}

static int clear(void **state)
{
    (void)state;
    daemon_kill(&server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics_syntax),
        cmocka_unit_test(test_metrics_grow),
        cmocka_unit_test(test_stops_cleanly),
    };
    return cmocka_run_group_tests(tests, start, clear);
}
