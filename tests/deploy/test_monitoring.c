/* SPDX-License-Identifier: Apache-2.0 */
/* test_monitoring.c - the alert rules and the dashboard ask for metrics and labels that exist.
 *
 * The test reads the names from the files and compares them with /metrics of a running daemon.
 * Where promtool is installed, it reads every query and runs the tests of the rules. */
#include "answer.h"
#include "daemon.h"
#include "manifest.h"
#include "skip.h"
#include "test.h"

#include <ctype.h>

#define RULES      "deploy/prometheus/attnd.rules.yaml"
#define RULES_TEST "tests/deploy/attnd.rules.test.yaml"
#define PROMETHEUS "deploy/prometheus/prometheus.yaml"
#define DASHBOARD  "deploy/grafana/attnd.json"

enum { NAME_BYTES = 128, QUERIES_MAX = 128 };

static struct metrics_page page;   /* of a daemon that has served and refused requests */
static char *queries[QUERIES_MAX]; /* of the dashboard */
static int query_count;

/* ---------------------------------------------------------------- queries -- */

static void find_queries(const cJSON *node)
{
    const cJSON *child;
    if (node->string && cJSON_IsString(node)
        && (strcmp(node->string, "expr") == 0
            || (strcmp(node->string, "query") == 0 && strchr(node->valuestring, '(')))) {
        assert_true(query_count < QUERIES_MAX);
        queries[query_count++] = strdup(node->valuestring);
    }
    cJSON_ArrayForEach(child, node)
        find_queries(child);
}

static cJSON *read_dashboard(void)
{
    char *text = manifest_file_text(DASHBOARD);
    cJSON *dashboard = cJSON_ParseWithOpts(text, NULL, true);
    assert_non_null(dashboard);
    free(text);
    return dashboard;
}

static int start(void **state)
{
    struct daemon server;
    struct http_client client;
    static const char path[] = "/v1/attention";
    daemon_start(&server, NULL);
    http_client_init(&client, server.port);
    cJSON_Delete(answer_post(&client, path, JSON({"model":"sdpa","query":[[1]]})));
    answer_refused(&client, path, JSON({"model":"demo","query":[[1]]}), 400, "shape", NULL);
    answer_metrics(&client, &page);
    http_client_free(&client);
    daemon_stop(&server);
    cJSON *dashboard = read_dashboard();
    find_queries(dashboard);
    cJSON_Delete(dashboard);
    return 0;
}

static int clear(void **state)
{
    metrics_page_free(&page);
    for (int i = 0; i < query_count; i++)
        free(queries[i]);
    return 0;
}

/* ------------------------------------------------------------------ names -- */

static size_t word_size(const char *text)
{
    size_t size = 0;
    while (isalnum((unsigned char)text[size]) || text[size] == '_')
        size++;
    return size;
}

/* Whether this is a metric: a family, or, for a histogram, one of the parts that stand in its
 * place. */
static bool is_metric(const char *name)
{
    static const char *const parts[] = { "_bucket", "_sum", "_count" };
    if (metrics_page_type(&page, name))
        return strcmp(metrics_page_type(&page, name), "histogram") != 0;
    for (int i = 0; i < 3; i++) {
        char family[NAME_BYTES];
        const size_t size = strlen(name), part = strlen(parts[i]);
        if (size <= part || strcmp(name + size - part, parts[i]) != 0)
            continue;
        snprintf(family, sizeof family, "%.*s", (int)(size - part), name);
        const char *type = metrics_page_type(&page, family);
        if (type && strcmp(type, "histogram") == 0)
            return true;
    }
    return false;
}

/* Whether a series of this name has the label; if name is NULL, any series. Every series has the
 * labels that the scraper adds. */
static bool has_label(const char *name, const char *label)
{
    char first[NAME_BYTES], later[NAME_BYTES];
    snprintf(first, sizeof first, "{%s=\"", label);
    snprintf(later, sizeof later, ",%s=\"", label);
    if (strcmp(label, "instance") == 0 || strcmp(label, "job") == 0)
        return true;
    for (int i = 0; i < page.series_count; i++) {
        const char *series = page.series[i].name;
        const size_t size = strcspn(series, "{");
        if (name && (strlen(name) != size || memcmp(name, series, size) != 0))
            continue;
        if (strstr(series + size, first) || strstr(series + size, later))
            return true;
    }
    return false;
}

static void take_word(char word[NAME_BYTES], const char *text)
{
    const size_t size = word_size(text);
    assert_true(size > 0 && size < NAME_BYTES);
    memcpy(word, text, size);
    word[size] = '\0';
}

/* Checks the text in the braces behind a metric's name: label="...", label=~"...". */
static void check_selector(const char *file, const char *metric, const char *text)
{
    for (text++; *text != '}';) {
        char label[NAME_BYTES];
        take_word(label, text);
        if (!has_label(metric, label))
            fail_msg("%s: %s has no label %s", file, metric, label);
        text = strchr(text, '"');
        assert_non_null(text);
        text = strchr(text + 1, '"') + 1;
        text += strspn(text, ", ");
    }
}

static void check_grouping(const char *file, const char *text)
{
    for (text += strcspn(text, "(") + 1; *text != ')';) {
        char label[NAME_BYTES];
        take_word(label, text);
        if (!has_label(NULL, label))
            fail_msg("%s: nothing has the label %s", file, label);
        text += strlen(label);
        text += strspn(text, ", ");
    }
}

/* Checks every metric in a text; returns how many there are. */
static int check_names(const char *file, const char *text)
{
    int count = 0;
    for (size_t size; *text; text += size ? size : 1) {
        char word[NAME_BYTES];
        size = word_size(text);
        if (size == 0 || size >= NAME_BYTES)
            continue;
        take_word(word, text);
        if (strcmp(word, "by") == 0 && text[size] == ' ' && text[size + 1] == '(')
            check_grouping(file, text);
        if (strncmp(word, "attnd_", 6) != 0 && strncmp(word, "process_", 8) != 0)
            continue;
        if (!is_metric(word))
            fail_msg("%s: /metrics has no %s", file, word);
        if (text[size] == '{')
            check_selector(file, word, text + size);
        count++;
    }
    return count;
}

TEST(rules_name_what_is_there)
{
    char *text = manifest_file_text(RULES);
    assert_true(check_names(RULES, text) >= 13);
    free(text);
}

TEST(dashboard_names_what_is_there)
{
    assert_true(query_count > 20);
    for (int i = 0; i < query_count; i++)
        assert_true(check_names(DASHBOARD, queries[i]) > 0);
}

/* Each alert has a test, a severity, and an instruction what to do. */
TEST(every_alert_is_tested)
{
    char *rules = manifest_file_text(RULES), *tests = manifest_file_text(RULES_TEST);
    int count = 0;
    for (const char *rule = rules; (rule = strstr(rule, "- alert: ")); count++) {
        char name[NAME_BYTES], wanted[NAME_BYTES + 32];
        rule += strlen("- alert: ");
        take_word(name, rule);
        const char *next = strstr(rule, "- alert: ");
        const size_t size = next ? (size_t)(next - rule) : strlen(rule);
        if (!memmem(rule, size, "severity: page", 14)
            && !memmem(rule, size, "severity: ticket", 16))
            fail_msg("%s has no severity", name);
        if (!memmem(rule, size, "summary: ", 9) || !memmem(rule, size, "action: ", 8))
            fail_msg("%s says not what it is or what to do", name);
        snprintf(wanted, sizeof wanted, "alertname: %s\n        exp_alerts:\n", name);
        if (!strstr(tests, wanted))
            fail_msg("%s is never seen to fire", name);
    }
    assert_true(count >= 10);
    free(rules);
    free(tests);
}

/* Panels have ids of their own and queries, and do not overlap. */
TEST(copies)
{
    cJSON *dashboard = read_dashboard();
    const cJSON *panels = cJSON_GetObjectItem(dashboard, "panels"), *panel;
    enum { ROWS = 200, COLUMNS = 24 };
    static bool taken[ROWS][COLUMNS], ids[ROWS];
    cJSON_ArrayForEach(panel, panels) {
        const int id = (int)cJSON_GetNumberValue(cJSON_GetObjectItem(panel, "id"));
        const cJSON *position = cJSON_GetObjectItem(panel, "gridPos");
        const int x = (int)cJSON_GetNumberValue(cJSON_GetObjectItem(position, "x"));
        const int y = (int)cJSON_GetNumberValue(cJSON_GetObjectItem(position, "y"));
        const int w = (int)cJSON_GetNumberValue(cJSON_GetObjectItem(position, "w"));
        const int h = (int)cJSON_GetNumberValue(cJSON_GetObjectItem(position, "h"));
        const char *type = cJSON_GetStringValue(cJSON_GetObjectItem(panel, "type"));
        assert_true(id > 0 && id < ROWS && !ids[id]);
        ids[id] = true;
        assert_true(x >= 0 && w > 0 && x + w <= COLUMNS && y >= 0 && h > 0 && y + h <= ROWS);
        for (int i = y; i < y + h; i++)
            for (int j = x; j < x + w; j++) {
                assert_false(taken[i][j]);
                taken[i][j] = true;
            }
        if (strcmp(type, "row") != 0)
            assert_true(cJSON_GetArraySize(cJSON_GetObjectItem(panel, "targets")) > 0);
    }
    cJSON_Delete(dashboard);
}

/* Every metric of the daemon has its line in the contract. */
TEST(metrics_are_in_the_contract)
{
    char *text = manifest_file_text("server/API_OPERATING.md");
    for (int i = 0; i < page.family_count; i++) {
        char wanted[NAME_BYTES];
        snprintf(wanted, sizeof wanted, "`%s`", page.families[i].name);
        if (strncmp(page.families[i].name, "process_", 8) != 0 && !strstr(text, wanted))
            fail_msg("server/API_OPERATING.md does not name %s", page.families[i].name);
    }
    free(text);
}

/* --------------------------------------------------------------- promtool -- */

/* Replaces every occurrence of what in text by with. Frees the old text and returns the new one. */
static char *replace(char *text, const char *what, const char *with)
{
    for (char *found; (found = strstr(text, what));) {
        char *made;
        assert_true(
            asprintf(&made, "%.*s%s%s", (int)(found - text), text, with, found + strlen(what)) > 0);
        free(text);
        text = made;
    }
    return text;
}

/* Writes the dashboard's queries as rules, which promtool can read. */
static char *write_queries(const char *directory)
{
    char *text = strdup("groups:\n  - name: dashboard\n    rules:\n"), *path;
    for (int i = 0; i < query_count; i++) {
        char *more;
        if (strncmp(queries[i], "label_values(", 13) == 0) /* Grafana's own */
            continue;
        assert_true(
            asprintf(&more, "%s      - record: query_%d\n        expr: '%s'\n", text, i, queries[i])
            > 0);
        free(text);
        text = more;
    }
    text = replace(text, "$__rate_interval", "5m");
    text = replace(text, "$instance", "a");
    text = replace(text, "$model", "m");
    daemon_directory_write(directory, "queries.yaml", text, strlen(text));
    free(text);
    assert_true(asprintf(&path, "%s/queries.yaml", directory) > 0);
    return path;
}

static void run_promtool(const char *words, const char *file)
{
    char *command;
    assert_true(asprintf(&command, "promtool %s '%s'", words, file) > 0);
    if (system(command) != 0)
        fail_msg("%s", command);
    free(command);
}

TEST(promtool)
{
    skip_without("prometheus", "promtool --version");
    char *directory = daemon_directory_create(), *path = write_queries(directory);
    run_promtool("check config", PROMETHEUS);
    run_promtool("check rules", RULES);
    run_promtool("check rules", path);
    run_promtool("test rules", RULES_TEST);
    free(path);
    daemon_directory_remove(directory);
}

ALL_TESTS(start, clear);
