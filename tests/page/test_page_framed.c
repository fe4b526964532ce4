/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_framed.c - the page in a frame, as a notebook on another port of this machine has it. A
 * page from elsewhere may not frame it. */
#include "browser_log.h"
#include "explorer.h"
#include "fixture.h"
#include "test.h"

/* Puts the page into a frame of the page that is open, and waits until it has loaded. */
static void add_frame(void)
{
    browser_do(&browser,
               "const frame = document.createElement('iframe');"
               "frame.src = '%s/#%s'; frame.width = 900; frame.height = 600;"
               "document.body.replaceChildren(frame);"
               "return new Promise((resolve) => { frame.onload = () => resolve(); });",
               explorer_origin(), EXPLORER_TEXT);
}

static void enter_frame(void)
{
    cJSON_Delete(browser_call(&browser, "/frame", cJSON_Parse(JSON({"id":0}))));
}

/* The other origin is localhost, which is another site than 127.0.0.1; its page is one without a
 * policy of its own. */
TEST(framed_by_a_notebook)
{
    static const char *const expected[] = { "favicon.ico", NULL }; /* of the framing page */
    explorer_begin();
    browser_go(&browser, "http://localhost:%d/openapi.json", server.port);
    add_frame();
    enter_frame();
    browser_wait(&browser, EXPLORER_HAS_PICTURE);
    browser_expect_quiet(&browser, "http://", expected);
}

TEST(framed_from_elsewhere)
{
    explorer_begin();
    browser_go(&browser, "data:text/html,<body>elsewhere");
    add_frame();
    enter_frame();
    browser_expect(&browser, "location.href.startsWith('chrome-error:')");
}

ALL_TESTS(NULL, explorer_stop);
