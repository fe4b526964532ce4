/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_data.c - the modules of server/explorer/data, each in the browser that they are made
 * for.
 *
 * What they must do is in tests/page/data/: a file a module or two, run in the page behind
 * expect.js, whose list of faults must stay empty. Their sources ask the daemon under test. */
#include "explorer.h"
#include "fixture.h"
#include "manifest.h"
#include "test.h"
#include "traced_families.h"

#include <unistd.h>

static char *file_text(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "tests/page/data/%s.js", name);
    return manifest_file_text(path);
}

/* Runs a file in a page that has asked for nothing. */
static void expect_no_faults(const char *name)
{
    explorer_begin();
    browser_go(&browser, "%s/openapi.json", explorer_origin());
    char *expect = file_text("expect"), *script = file_text(name);
    cJSON *faults = browser_run(&browser, "return (async () => {\n%s\n%s\nreturn faults;\n})();",
                                expect, script);
    if (cJSON_GetArraySize(faults) != 0)
        fail_msg("%s.js: %s", name, cJSON_Print(faults));
    assert_true(cJSON_IsArray(faults));
    cJSON_Delete(faults);
    free(expect);
    free(script);
}

static long status_of(const char *path)
{
    struct http_response response = http_client_get(&client, path);
    const long status = response.status;
    http_response_free(&response);
    return status;
}

static void expect_status(const char *path, long status)
{
    assert_int_equal(status_of(path), status);
}

TEST(state)
{
    expect_no_faults("state");
}

TEST(tiles)
{
    expect_no_faults("tiles");
}

TEST(formats)
{
    expect_no_faults("formats");
}

TEST(traces)
{
    expect_no_faults("traces");
}

TEST(labels)
{
    expect_no_faults("labels");
}

TEST(readings)
{
    expect_no_faults("readings");
}

TEST(calls)
{
    expect_no_faults("calls");
}

TEST(weights)
{
    expect_no_faults("weights");
}

/* A page that is left gives its trace back at once, not when its time is over. */
TEST(leaving)
{
    explorer_begin();
    explorer_open("%s", EXPLORER_TEXT);
    char *id = browser_text(&browser, "seen.asked.join(' ').match(/[0-9a-f]{32}/)[0]"), path[64];
    snprintf(path, sizeof path, "/v1/traces/%s", id);
    free(id);
    expect_status(path, 200);
    browser_go(&browser, "about:blank");
    for (int tries = 0; tries < 100 && status_of(path) == 200; tries++)
        usleep(50000);
    expect_status(path, 410);
}

/* Models of random parameters, which take pictures or have a decoder. */
TEST(pictures)
{
    explorer_begin();
    explorer_change_daemon();
    fixture_make_directory(NULL);
    traced_families_save(directory);
    fixture_serve("--models", directory);
    expect_no_faults("pictures");
}

ALL_TESTS(NULL, explorer_stop);
