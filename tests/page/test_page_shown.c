/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_shown.c - what attnd.show() of lib/python makes: one file that shows weights without a
 * daemon, and the frame in which a notebook shows the same. Nothing of it is asked of anybody, and
 * tokens that look like tags are text. */
#include "browser_input.h"
#include "browser_log.h"
#include "explorer.h"
#include "fixture.h"
#include "shell.h"
#include "skip.h"
#include "test.h"

/* The two files are in the browser's folder, made while a daemon runs, which then ends. */
static void begin(void)
{
    char command[512];
    browser_skip_without();
    skip_without("python3-numpy", "/usr/bin/python3 -c 'import numpy'");
    explorer_begin();
    snprintf(command, sizeof command,
             "PYTHONPATH=lib/python PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "
             "tests/deploy/python/shown_files.py %s %s",
             explorer_origin(), browser.directory);
    shell(command);
    fixture_stop(NULL);
}

static void view(const char *name)
{
    browser_do(&browser, "document.querySelector('.tabs [data-view=%s]').click()", name);
    browser_wait(
        &browser,
        "document.querySelector('main[data-view=%s][aria-busy=false]') && " EXPLORER_HAS_PICTURE,
        name);
}

/* A frame of another origin has no window.seen, so what is awaited stands in the page. */
static void expect_row(void)
{
    view("head");
    browser_do(&browser, "document.querySelector('.map-canvas').focus()");
    browser_keys(&browser, KEY_DOWN KEY_DOWN KEY_RIGHT KEY_ENTER);
    browser_wait(
        &browser,
        "((shown) => shown.some(({row}) => row === '2') && shown.every(({row, key, weight}) =>"
        "  +weight === [[1], [0.25, 0.75], [0.5, 0.125, 0.375]][row][key]))"
        "([...document.querySelectorAll('tr[data-weight]')].map((one) => one.dataset))");
}

static void expect_texts(void)
{
    browser_expect(&browser, "document.querySelector('header').innerText.includes("
                             "`\"'><script>hacked=1</script>.safetensors`)");
    view("tokens");
    browser_expect(
        &browser, "['</script><img\u2423src=x\u2423onerror=hacked=1>', `\"'&quot;`, '<!--<script>']"
                  ".every((text) => document.querySelector('main').innerText.includes(text))");
    browser_expect(&browser, "!('hacked' in window)");
}

static void expect_weights(void)
{
    view("overview");
    browser_expect(&browser, "document.querySelector('.status').innerText.startsWith("
                             "'weights of a file: 2 layers, 4 heads, 3 tokens')");
    expect_row();
    expect_texts();
    view("compare");
    browser_expect(&browser, "performance.getEntriesByType('resource').length === 0");
    browser_expect(&browser, "!document.querySelector('[role=alert]')");
}

TEST(saved)
{
    begin();
    browser_go(&browser, "file://%s/saved.html", browser.directory);
    expect_weights();
    browser_expect(&browser, "location.hash.includes('view=compare')");
    browser_expect_quiet(&browser, "file:", NULL);
}

TEST(frame_in_a_notebook)
{
    begin();
    browser_go(&browser, "file://%s/notebook.html", browser.directory);
    cJSON_Delete(browser_call(&browser, "/frame", cJSON_Parse("{\"id\":0}")));
    browser_expect(&browser, "origin === 'null'");
    expect_weights();
    browser_expect_quiet(&browser, "file:", NULL);
}

ALL_TESTS(NULL, explorer_stop);
