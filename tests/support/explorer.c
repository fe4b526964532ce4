/* SPDX-License-Identifier: Apache-2.0 */
/* explorer.c - see explorer.h. */
#include "explorer.h"
#include "test.h"

#include "browser_input.h"
#include "browser_log.h"
#include "fixture.h"

struct browser browser;

#define STORY                                                                                      \
    "model=stories260K&text=One+day,+a+little+girl+named+Lily+found+a+big+red+ball+in+the+park."

const struct explorer_view explorer_views[EXPLORER_VIEWS] = {
    { "overview", STORY },
    { "answer", STORY "&view=answer&parts=1:6,6:14,14:26" },
    { "head", STORY "&view=head&layer=1&head=4&row=9&key=1&scale=sqrt" },
    { "tokens", STORY "&view=tokens&layer=2&row=9" },
    { "why", STORY "&view=why&layer=1&head=4&row=9&key=1" },
    { "compare",
      STORY "&view=compare&layer=1&head=4&scale=sqrt&other.model=stories260K&other.layer=3&"
            "other.head=2&difference=1" },
};

/* The script that runs in every page before its own, as JSON of a command. */
static char *watch_parameters(void)
{
    FILE *file = fopen("tests/page/watch.js", "re");
    assert_non_null(file);
    char script[8192];
    const size_t size = fread(script, 1, sizeof script - 1, file);
    fclose(file);
    script[size] = '\0';
    cJSON *parameters = cJSON_CreateObject();
    cJSON_AddStringToObject(parameters, "source", script);
    char *text = cJSON_PrintUnformatted(parameters);
    cJSON_Delete(parameters);
    return text;
}

void explorer_begin(void)
{
    browser_skip_without();
    if (server.pid == 0)
        fixture_start_with_examples(NULL);
    if (browser.driver > 0)
        return;
    browser_open(&browser);
    char *parameters = watch_parameters();
    browser_command(&browser, "Page.addScriptToEvaluateOnNewDocument", parameters);
    free(parameters);
}

void explorer_change_daemon(void)
{
    if (browser.driver > 0) {
        browser_go(&browser, "about:blank");
        free(browser_requests(&browser));
    }
    if (server.pid > 0)
        fixture_stop(NULL);
}

int explorer_stop(void **state)
{
    browser_close(&browser);
    if (server.pid > 0)
        fixture_stop(state);
    return fixture_clear(state);
}

const char *explorer_origin(void)
{
    static char origin[64];
    snprintf(origin, sizeof origin, "http://127.0.0.1:%d", server.port);
    return origin;
}

void explorer_open(const char *fragment, ...)
{
    char *text = NULL;
    va_list list;
    va_start(list, fragment);
    assert_true(vasprintf(&text, fragment, list) >= 0);
    va_end(list);
    browser_go(&browser, "about:blank"); /* another fragment alone would load nothing */
    browser_go(&browser, "%s/%s%s", explorer_origin(), *text ? "#" : "", text);
    free(text);
    browser_expect(&browser, "document.getElementById('app')");
    explorer_settle();
}

void explorer_settle(void)
{
    const double until = daemon_now() + 60 * daemon_slowness();
    for (bool is_settled = false; !is_settled; daemon_pause(0.02)) {
        cJSON *value = browser_run(&browser, "return seen.isSettled();");
        is_settled = cJSON_IsTrue(value);
        cJSON_Delete(value);
        if (!is_settled && daemon_now() > until)
            fail_msg("the page does not come to rest");
    }
}

void explorer_leave(void)
{
    browser_do(&browser, "document.activeElement?.blur()");
    browser_move(&browser, 0, 0);
    explorer_settle();
}

char *explorer_picture(void)
{
    explorer_settle();
    explorer_leave();
    browser_do(&browser, "document.querySelector('.status').style.visibility = "
                         "'hidden'");
    char *picture = browser_picture(&browser);
    browser_do(&browser, "document.querySelector('.status').style.visibility = ''");
    return picture;
}

void explorer_expect_same(const char *one, const char *other, const char *what)
{
    const int count = browser_differing_pixels(&browser, one, other, 8);
    if (count == 0)
        return;
    browser_write_picture(one, "build/page/failed-one.png");
    browser_write_picture(other, "build/page/failed-other.png");
    fail_msg("%s: %d pixels differ between build/page/failed-one.png and failed-other.png", what,
             count);
}

void explorer_expect_quiet(const char *const *expected)
{
    browser_expect_quiet(&browser, explorer_origin(), expected);
}
