/* SPDX-License-Identifier: Apache-2.0 */
/* test_api_pages.c - every curl on the pages of the API can be pasted, in order, and the daemon
 * answers what the page says. Every route of the daemon has a curl.
 *
 * The block behind a curl is its answer: the status, then a body. If the whole body is JSON, it is
 * compared as JSON; any other body is compared as text without white space. "..." stands for
 * anything: an id, a time, a count, or what the page leaves out (pasted.h).
 *
 * The page of keys says how its daemon is started, and has one of its own here. */
#include "api/routes.h"
#include "metrics_page.h"
#include "pasted.h"
#include "skip.h"
#include "test.h"

#include <cjson/cJSON.h>

#define METRICS_URL "http://127.0.0.1:8080/metrics"

static const char *const files[] = { "server/API.md",          "server/API_CALLS.md",
                                     "server/API_TRACE.md",    "server/API_COMPLETIONS.md",
                                     "server/API_SESSIONS.md", "server/API_MODELS.md",
                                     "server/API_PROTOCOL.md", "server/API_OPERATING.md",
                                     "server/API_CAUSES.md",   "server/API_VECTORS.md" };

#define ACCESS_PAGE "server/API_ACCESS.md"

/* Writes the status behind the answer, on a line of its own. Ends what a script leaves running
 * where it fails. */
static const char with_status[] = "curl() { command curl -w '\\n%{http_code}' \"$@\"; }\n"
                                  "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n";

static struct metrics_page before, after;

static void read_metrics(struct metrics_page *metrics)
{
    char *text = pasted_shell("curl -sS " METRICS_URL);
    metrics_page_free(metrics);
    metrics_page_read(metrics, text);
    free(text);
}

/* The output of a script with one curl, without the status, which comes off its end. The caller
 * frees it. */
static char *answer_of(const char *script, long *status)
{
    char *text = NULL;
    assert_true(asprintf(&text, "%s%s", with_status, script) > 0);
    char *output = pasted_shell(text), *line = strrchr(output, '\n');
    assert_non_null(line);
    *status = strtol(line + 1, NULL, 10);
    *line = '\0';
    free(text);
    return output;
}

static void assert_shown(const struct pasted_page *page, char *shown, long status, char *output)
{
    char *body;
    if (strtol(shown, &body, 10) != status)
        fail_msg("%s shows\n%s\nand the answer is %ld\n%s", page->file, shown, status, output);
    cJSON *json = cJSON_ParseWithOpts(body, NULL, true);
    if (json)
        pasted_assert_json(page, body, output);
    else
        pasted_assert_text(page, pasted_joined(body), pasted_joined(output));
    cJSON_Delete(json);
}

/* A curl beside a daemon that the script has just started waits until that daemon is ready, and
 * shows only the last answer: --retry also writes the 503 of each attempt, unless -f drops it. */
static void assert_waits(const char *file, const char *script, const char *curl)
{
    bool fails = false, retries = false;
    char *copy = strdup(curl), *rest = NULL;
    assert_non_null(copy);
    if (strstr(script, "build/attnd ") && strstr(script, "&\n")) {
        for (char *word = strtok_r(copy, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
            fails |= word[0] == '-' && word[1] != '-' && strchr(word, 'f');
            retries |= strcmp(word, "--retry") == 0;
        }
        if (!fails || !retries)
            fail_msg("%s: no -f and --retry, beside a daemon that may still load:\n%s", file,
                     script);
    }
    free(copy);
}

static void paste_page(const char *file)
{
    struct pasted_page page;
    pasted_read(&page, file);
    for (int i = pasted_run_block(&page) + 1; i < page.block_count; i++) {
        if (!pasted_is_command(&page, i))
            continue;
        const char *script = page.blocks[i].text, *curl = strstr(script, "curl ");
        const struct pasted_block *answer = pasted_answer(&page, i);
        if (!curl || strstr(curl + 1, "curl ") || !answer)
            fail_msg("%s: not one curl with its answer:\n%s", file, script);
        assert_waits(file, script, curl);
        long status;
        char *output = answer_of(script, &status);
        assert_string_equal(answer->language, "text");
        assert_shown(&page, answer->text, status, output);
        free(output);
    }
    pasted_free(&page);
}

static void test_curls(void **state)
{
    skip_without("curl", "command -v curl");
    skip_without("openssl", "command -v openssl");
    read_metrics(&before);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        paste_page(files[i]);
}

static void test_curls_with_keys(void **state)
{
    skip_without("curl", "command -v curl");
    paste_page(ACCESS_PAGE);
}

/* A route that no curl has asked for, or NULL if there is none. */
static const struct route *missing_route(void)
{
    int count;
    const struct route *routes = routes_table(&count);
    for (int i = 0; i < count; i++) {
        char series[256];
        snprintf(series, sizeof series,
                 "attnd_request_duration_seconds_count{method=\"%s\",route=\"%s\"}",
                 routes[i].method, routes[i].pattern);
        if (metrics_page_value(&after, series) <= metrics_page_value(&before, series))
            return &routes[i];
    }
    return NULL;
}

static void test_every_route_has_a_curl(void **state)
{
    skip_without("curl", "command -v curl");
    const struct route *missing;
    const double end = daemon_now() + 10 * daemon_slowness();
    /* The daemon counts a request after it has sent the answer. */
    do
        read_metrics(&after);
    while ((missing = missing_route()) && daemon_now() < end);
    if (missing)
        fail_msg("no curl of the pages asks for %s %s", missing->method, missing->pattern);
}

static void test_nothing_changes_outside_build(void **state)
{
    char *now = pasted_files();
    assert_string_equal(now, pasted_files_before());
    free(now);
}

static int stop(void **state)
{
    metrics_page_free(&before);
    metrics_page_free(&after);
    return pasted_stop(state);
}

static int start_with_keys(void **state)
{
    pasted_start_as(ACCESS_PAGE);
    return pasted_start(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_curls),
        cmocka_unit_test(test_every_route_has_a_curl),
        cmocka_unit_test(test_nothing_changes_outside_build),
    };
    const struct CMUnitTest access_tests[] = {
        cmocka_unit_test(test_curls_with_keys),
        cmocka_unit_test(test_nothing_changes_outside_build),
    };
    const int failed = cmocka_run_group_tests(tests, pasted_start, stop);
    return failed + cmocka_run_group_tests(access_tests, start_with_keys, pasted_stop);
}
