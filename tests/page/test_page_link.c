/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_link.c - a link holds the whole view: opened in a new browser it shows the same pixels.
 */
#include "answer.h"
#include "explorer.h"
#include "fixture.h"
#include "test.h"

static void expect_same_in_new_browser(void)
{
    char *picture = explorer_picture(), *link = browser_text(&browser, "location.hash.slice(1)");
    browser_close(&browser);
    explorer_begin();
    explorer_open("%s", link);
    char *other = explorer_picture();
    explorer_expect_same(picture, other, link);
    free(picture);
    free(other);
    free(link);
}

/* Inputs that follow each other faster than they are looked at leave one kept trace, and a page
 * that is left leaves none. */
TEST(traces_are_given_back)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    browser_do(&browser, "return (async () => { for (let i = 0; i < 20; i++) {"
                         "  location.hash = `model=stories260K&text=${'Once upon a time '.repeat("
                         "20 + i)}`; await new Promise((go) => setTimeout(go, 20)); } })()");
    explorer_settle();
    answer_wait_for_metric(&client, "attnd_traces_kept", 1, 1);
    browser_go(&browser, "about:blank");
    answer_wait_for_metric(&client, "attnd_traces_kept", 0, 0);
}

TEST(each_view)
{
    explorer_begin();
    for (int i = 0; i < EXPLORER_VIEWS; i++) {
        explorer_open("%s", explorer_views[i].fragment);
        expect_same_in_new_browser();
    }
}

/* What a link names beyond its input is chosen anew, and the view comes to an end of it. */
TEST(beyond)
{
    explorer_begin();
    for (int i = 0; i < EXPLORER_VIEWS; i++)
        explorer_open(EXPLORER_TEXT "&view=%s&layer=77&head=88&row=99&key=99&rows=7:999&heads=9",
                      explorer_views[i].name);
    explorer_open(EXPLORER_TEXT "&view=why&layer=1&head=1&row=99&key=99");
    browser_expect(&browser, "document.querySelector('[data-stage=weight]')");
}

ALL_TESTS(NULL, explorer_stop);
