/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_keyboard.c - the page by the keyboard alone: all that a mouse does, and what a screen
 * reader is told. */
#include "browser_input.h"
#include "explorer.h"
#include "test.h"

enum { TABS_MAX = 60 };

/* Presses Tab until the element that has the focus matches the selector. */
static void tab_to(const char *selector)
{
    for (int i = 0; i < TABS_MAX; i++) {
        browser_keys(&browser, KEY_TAB);
        if (browser_is(&browser, "document.activeElement.matches('%s')", selector))
            return;
    }
    fail_msg("the key Tab does not reach %s", selector);
}

#define STATE "Object.fromEntries(new URLSearchParams(location.hash.slice(1)))"

TEST(text)
{
    explorer_begin();
    explorer_open("%s", "");
    tab_to("textarea");
    browser_keys_with(&browser, KEY_CONTROL, "a");
    browser_keys(&browser, "The cat sat." KEY_ENTER);
    explorer_settle();
    browser_expect(&browser, STATE ".text === 'The cat sat.'");
    browser_wait(&browser, EXPLORER_HAS_PICTURE);
}

/* From the overview into a head and back, by Tab, arrows and Enter. */
TEST(overview)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    tab_to("main button.map");
    browser_keys(&browser, KEY_RIGHT KEY_RIGHT KEY_DOWN);
    browser_expect(&browser, "document.activeElement.dataset.head === '2' && "
                             "document.activeElement.dataset.layer === '1'");
    browser_keys(&browser, KEY_ENTER);
    explorer_settle();
    browser_expect(&browser,
                   STATE ".view === 'head' && " STATE ".layer === '1' && " STATE ".head === '2'");
    browser_do(&browser, "history.back()");
    browser_wait(&browser, "(" STATE ".view ?? 'overview') === 'overview'");
}

/* The live region of the map's view. */
#define SAID                                                                                       \
    "[...document.querySelectorAll('main [aria-live]')].map((one) => one.innerText).join(' ')"

TEST(head)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT "&view=head&layer=1&head=4");
    tab_to("main canvas");
    browser_keys(&browser, KEY_DOWN KEY_DOWN KEY_RIGHT);
    explorer_settle();
    browser_expect(&browser, "/row \\d+.*key \\d+.*weight/is.test(" SAID ")");
    browser_keys(&browser, KEY_ENTER);
    browser_wait(&browser, STATE ".row !== undefined && " STATE ".key !== undefined");
    browser_keys(&browser, "++");
    browser_wait(&browser, STATE ".rows !== undefined");
    browser_keys(&browser, "0");
    browser_wait(&browser, STATE ".rows === undefined");
    browser_keys(&browser, "]");
    browser_wait(&browser, STATE ".head === '5'");
    browser_keys(&browser, KEY_ESCAPE);
    browser_wait(&browser, STATE ".row === undefined");
}

/* Every view by its number, and every control of it has a name and shows where the focus is. */
TEST(views)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    for (int i = 0; i < EXPLORER_VIEWS; i++) {
        const char key[2] = { (char)('1' + i), '\0' };
        browser_do(&browser, "document.activeElement.blur()"); /* in a field a number is text */
        browser_keys(&browser, key);
        browser_wait(&browser, "document.querySelector('main').dataset.view === '%s'",
                     explorer_views[i].name);
        explorer_settle();
        for (int t = 0; t < 12; t++) {
            browser_keys(&browser, KEY_TAB);
            if (browser_is(&browser, "document.activeElement === document.body"))
                continue;
            browser_expect(&browser,
                           "getComputedStyle(document.activeElement).outlineStyle !== 'none'"
                           " || getComputedStyle(document.activeElement).boxShadow !== 'none'");
        }
    }
    explorer_expect_quiet(NULL);
}

TEST(help)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    browser_keys(&browser, "?");
    browser_wait(&browser, "document.querySelector('dialog[open]')");
    browser_keys(&browser, KEY_ESCAPE);
    browser_wait(&browser, "!document.querySelector('dialog[open]')");
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
