/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_narrow.c - the page on a phone and in the dark: nothing is wider than a screen of 320
 * pixels, nothing moves while the page loads, and the colours follow what the system prefers, text
 * in pictures too. */
#include "explorer.h"
#include "test.h"

static void expect_fits(const struct explorer_view *view)
{
    explorer_open("%s", view->fragment);
    if (!browser_is(&browser, "document.documentElement.scrollWidth <= innerWidth")) {
        char *wide =
            browser_text(&browser, "[...document.body.querySelectorAll('*')].filter((element) =>"
                                   "element.getBoundingClientRect().right > innerWidth).slice(0, 8)"
                                   ".map((element) => element.outerHTML.slice(0, 90)).join('\\n')");
        fail_msg("the view %s is wider than the screen:\n%s", view->name, wide);
    }
}

TEST(narrow)
{
    explorer_begin();
    static const int WIDTHS[] = { 360, 320 }; /* 320: 1280 pixels at a zoom of 400 % */
    for (int w = 0; w < 2; w++) {
        browser_resize(&browser, WIDTHS[w], 640);
        for (int i = 0; i < EXPLORER_VIEWS; i++)
            expect_fits(&explorer_views[i]);
        expect_fits(&(struct explorer_view){ "names", EXPLORER_TEXT "&sort=probe_previous" });
    }
    browser_resize(&browser, 1280, 800);
    explorer_expect_quiet(NULL);
}

/* A word of 400 letters, as an address or a key has, makes no view wider than the screen. */
TEST(long_word)
{
    explorer_begin();
    char fragment[600], word[401];
    memset(word, 'W', 400);
    word[400] = '\0';
    for (int i = 0; i < EXPLORER_VIEWS; i++) {
        snprintf(fragment, sizeof fragment, "model=stories260K&view=%s&text=%s",
                 explorer_views[i].name, word);
        expect_fits(&(struct explorer_view){ explorer_views[i].name, fragment });
    }
    explorer_expect_quiet(NULL);
}

/* The tab of the view that is shown is seen, also where all tabs are wider than the screen. */
TEST(chosen_tab)
{
    explorer_begin();
    browser_resize(&browser, 320, 640);
    for (int i = 0; i < EXPLORER_VIEWS; i++) {
        explorer_open("%s", explorer_views[i].fragment);
        browser_expect(&browser, "(() => { const {left, right} = document.querySelector("
                                 "  '.tabs [aria-current]').getBoundingClientRect();"
                                 "  return left >= 0 && right <= innerWidth; })()");
    }
    browser_resize(&browser, 1280, 800);
    explorer_expect_quiet(NULL);
}

/* Chromium's own measure calls 0.1 good. A line of text above the view that comes late is 0.02,
 * with wide letters, as of DejaVu, 0.03. */
#define MOVED_MOST "0.05"

static void expect_still(const char *name, const char *fragment, int width, int height)
{
    browser_resize(&browser, width, height);
    explorer_open("%s", fragment);
    if (browser_is(&browser, "seen.moved <= " MOVED_MOST))
        return;
    char *moved = browser_text(&browser, "String(seen.moved)");
    fail_msg("%s moves by %s while it loads in a window of %d by %d", name, moved, width, height);
}

TEST(still)
{
    explorer_begin();
    for (int i = 0; i < EXPLORER_VIEWS; i++) {
        expect_still(explorer_views[i].name, explorer_views[i].fragment, 360, 640);
        expect_still(explorer_views[i].name, explorer_views[i].fragment, 1280, 720);
    }
    expect_still("the first visit", "", 360, 640);
    expect_still("the first visit", "", 1280, 720);
    browser_resize(&browser, 1280, 800);
    explorer_expect_quiet(NULL);
}

#define GROUND                                                                                     \
    "getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).slice(0, 3)"                \
    ".reduce((sum, part) => sum + Number(part), 0)"

/* A page that changes its colours while it is open shows what one shows that was opened so. */
TEST(dark)
{
    explorer_begin();
    for (int i = 0; i < EXPLORER_VIEWS; i++) {
        browser_prefer(&browser, "prefers-color-scheme", "light");
        explorer_open("%s", explorer_views[i].fragment);
        browser_expect(&browser, GROUND " > 600");
        browser_prefer(&browser, "prefers-color-scheme", "dark");
        explorer_settle();
        browser_expect(&browser, GROUND " < 200");
        char *changed = explorer_picture();
        explorer_open("%s", explorer_views[i].fragment);
        char *opened = explorer_picture();
        explorer_expect_same(changed, opened, explorer_views[i].name);
        free(changed);
        free(opened);
    }
    browser_prefer(&browser, "prefers-color-scheme", "light");
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
