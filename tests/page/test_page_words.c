/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_words.c - what the page says, to people: of faults first what one can do, the help with
 * what the views and the words mean, short names of buttons; and how it stands: a whole text, and
 * the top of a view. */
#include "browser_input.h"
#include "explorer.h"
#include "fixture.h"
#include "key_file.h"
#include "test.h"

static const char *const FAULTS[] = { "Failed to load resource", NULL };

/* The first words of a fault, before those of the daemon. */
static void expect_advice(const char *words)
{
    browser_expect(&browser,
                   "document.querySelector('.fault p').innerText.includes('%s') && document"
                   ".querySelector('.fault .said').innerText.startsWith('The daemon says: ')",
                   words);
}

TEST(faults)
{
    explorer_begin();
    explorer_open("model=nobody&text=a");
    expect_advice("in the field Model");
    browser_expect(&browser, "document.querySelector('option[value=nobody]').textContent"
                             " === 'nobody (not served)'");
    explorer_open("model=stories260K&tokens=1,99999");
    expect_advice("The link names a token");
    explorer_expect_quiet(FAULTS);
}

static const struct key_line KEYS[] = { { "ann", "infer" }, { NULL, NULL } };

/* Nothing is said of models that are only not known without a key. */
TEST(key)
{
    browser_skip_without();
    directory = daemon_directory_create();
    key_file_write(fixture_path("keys"), KEYS);
    explorer_change_daemon();
    fixture_serve("--models", "examples/models", "--keys", fixture_path("keys"));
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    expect_advice("wants a key");
    browser_expect(&browser, "!document.querySelector('header').innerText.includes('not served')");
    fixture_stop(NULL);
    explorer_expect_quiet(FAULTS);
}

/* The help says what is seen, not keys alone. */
TEST(help)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    browser_expect(&browser, "document.querySelector('footer .link').innerText"
                             " === 'Keyboard shortcuts'");
    browser_click(&browser, "footer .link");
    browser_expect(&browser, "((terms) => [...document.querySelectorAll('nav.tabs a'),"
                             "  ...['Query, key', 'Weight', 'Scale'].map((name) =>"
                             "  ({innerText: name}))].every(({innerText}) =>"
                             "  terms.includes(innerText)))([...document"
                             ".querySelectorAll('dialog dt')].map((one) => one.innerText))");
    explorer_expect_quiet(NULL);
}

/* On a phone the button that opens the input is called by what is seen of it, not by a page of
 * text. */
TEST(short_name)
{
    explorer_begin();
    browser_resize(&browser, 360, 640);
    explorer_open("model=stories260K&text=%s", "Once+upon+a+time+there+was+a+little+girl+who+went+"
                                               "to+the+park+with+her+mother+and+her+red+ball.");
    browser_expect(&browser, "((button) => button.getAttribute('aria-label').length < 80 && button"
                             ".getAttribute('aria-label').endsWith(button.textContent))"
                             "(document.querySelector('button.change'))");
    browser_resize(&browser, 1280, 800);
    explorer_expect_quiet(NULL);
}

/* The field is as high as the lines of its text. */
TEST(two_lines)
{
    explorer_begin();
    explorer_open("model=stories260K&text=%s", "Once+upon+a+time+there+was+a+little+girl+who+went+"
                                               "to+the+park+with+her+mother+and+her+red+ball.+She+"
                                               "saw+a+dog.");
    browser_expect(&browser, "((field) => field.scrollHeight > 45"
                             "  && field.scrollHeight <= field.clientHeight)"
                             "(document.querySelector('textarea'))");
    explorer_expect_quiet(NULL);
}

TEST(top)
{
    explorer_begin();
    browser_resize(&browser, 800, 320);
    explorer_open(EXPLORER_TEXT);
    browser_do(&browser, "window.scrollTo(0, 200)");
    browser_expect(&browser, "window.scrollY > 100");
    browser_do(&browser, "document.querySelector('nav.tabs a[data-view=head]').click()");
    explorer_settle();
    browser_expect(&browser, "window.scrollY === 0");
    browser_resize(&browser, 1280, 800);
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
