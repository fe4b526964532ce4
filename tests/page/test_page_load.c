/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_load.c - the first load: few files and few bytes, and the header with the form stand
 * there before the script does. */
#include "browser_log.h"
#include "explorer.h"
#include "test.h"

/* The page's own files, in the order of their requests; what it asks of the API is no file. */
#define FILES                                                                                      \
    "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]" \
    ".filter(({ initiatorType }) => !['fetch', 'xmlhttprequest', 'beacon']"                        \
    ".includes(initiatorType))"

/* Their addresses: Chromium asks for the icon again now and then, when the fragment of the address
 * changes. */
#define NAMES "[...new Set(" FILES ".map(({ name }) => name.split('#')[0]))]"

TEST(few_files)
{
    explorer_begin();
    explorer_open("%s", "");
    const double bytes = browser_number(
        &browser, FILES ".reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)");
    char *names = browser_text(&browser, "%s.join(' ')", NAMES);
    print_message("%s: %.0f bytes packed\n", names, bytes);
    free(names);
    browser_expect(&browser, NAMES ".length >= 3 && " NAMES ".length <= 4");
    assert_true(bytes > 0 && bytes < 200 * 1000);
    explorer_expect_quiet(NULL);
}

/* Without the script, the header and the form of the page stand in their places, with their names
 * and in the page's colours, and nothing in them can be pressed. */
TEST(before_the_script)
{
    static const char *const EXPECTED[] = { "net::ERR_BLOCKED_BY_CLIENT", NULL };
    static const char *const PLACES =
        "JSON.stringify(['h1', 'form select', 'form textarea', 'form button.main', '.bar']"
        ".map((name) => document.querySelector(name)).map((element) => [element.tagName,"
        "...['left', 'top', 'height'].map((side) => element.tagName === 'BUTTON' && side === 'left'"
        "? 0 : Math.round(element.getBoundingClientRect()[side])),"
        "element.closest('label')?.firstChild.data.trim(), getComputedStyle(element).color]))";
    explorer_begin();
    explorer_open("%s", "");
    browser_do(&browser, "for (const button of document.querySelectorAll('form button.main'))"
                         "    button.disabled = true;"
                         "for (const field of document.querySelectorAll('select, textarea'))"
                         "    field.disabled = true;");
    char *page = browser_text(&browser, "%s", PLACES);
    browser_command(&browser, "Network.enable", "{}");
    browser_command(&browser, "Network.setBlockedURLs", "{\"urls\":[\"*/app/main.js\"]}");
    browser_go(&browser, "%s/", explorer_origin());
    browser_wait(&browser, "performance.getEntriesByName('first-contentful-paint').length === 1");
    browser_expect(&browser, "[...document.querySelectorAll('button, select, textarea')]"
                             ".every(({ disabled }) => disabled)");
    browser_expect(&browser, "document.querySelector('[role=status]').innerText.includes('Load')");
    char *before = browser_text(&browser, "%s", PLACES);
    assert_string_equal(before, page);
    free(before);
    free(page);
    browser_command(&browser, "Network.setBlockedURLs", "{\"urls\":[]}");
    explorer_expect_quiet(EXPECTED);
}

ALL_TESTS(NULL, explorer_stop);
