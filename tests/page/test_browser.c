/* SPDX-License-Identifier: Apache-2.0 */
/* test_browser.c - the browser that the tests of the page look through: what it must see, it sees.
 */
#include "browser.h"
#include "browser_input.h"
#include "browser_log.h"
#include "test.h"

static struct browser browser;

static int open_browser(void **state)
{
    return 0;
}

static int close_browser(void **state)
{
    browser_close(&browser);
    return 0;
}

#define PAGE                                                                                       \
    "data:text/html,<input id=one><input id=two><button id=press>press</button>"                   \
    "<div id=box style='position:fixed;left:0;top:100px;width:100px;height:100px'></div>"          \
    "<script>window.seen=[];press.onclick=()=>seen.push('click');"                                 \
    "two.onkeydown=e=>seen.push((e.shiftKey?'shift ':'')+e.key);"                                  \
    "box.onwheel=e=>seen.push('wheel '+e.deltaY);"                                                 \
    "box.onpointermove=e=>{if(e.buttons)seen.push('drag '+e.clientX)};"                            \
    "</script>"

TEST(input)
{
    browser_skip_without();
    browser_open(&browser);
    browser_go(&browser, "%s", PAGE);
    browser_type(&browser, "#one", "an <em>é");
    browser_expect(&browser, "one.value === 'an <em>é'");
    browser_keys(&browser, KEY_TAB "b" KEY_DOWN);
    browser_keys_with(&browser, KEY_SHIFT, KEY_LEFT);
    browser_expect(&browser, "seen.join() === 'b,ArrowDown,shift Shift,shift ArrowLeft'");
    browser_do(&browser, "seen = []");
    browser_click(&browser, "#press");
    browser_wheel(&browser, 50, 150, 120);
    browser_drag(&browser, 10, 150, 60, 150);
    browser_wait(&browser, "seen.includes('click') && seen.includes('wheel 120') && "
                           "seen.includes('drag 60')");
}

TEST(window)
{
    browser_skip_without();
    browser_resize(&browser, 360, 640);
    browser_expect(&browser, "innerWidth === 360 && innerHeight === 640");
    char *light = browser_picture(&browser), *again = browser_picture(&browser);
    assert_string_equal(light, again);
    browser_prefer(&browser, "prefers-color-scheme", "dark");
    browser_expect(&browser, "matchMedia('(prefers-color-scheme: dark)').matches");
    browser_go(&browser, "data:text/html,another page");
    char *other = browser_picture(&browser);
    assert_string_not_equal(light, other);
    free(light);
    free(again);
    free(other);
}

static void expect_complaint(const char *script, const char *words)
{
    free(browser_complaint(&browser, "http://127.0.0.1:1", NULL));
    browser_do(&browser, "%s", script);
    char *complaint = browser_complaint(&browser, "http://127.0.0.1:1", NULL);
    assert_non_null(complaint);
    if (!strstr(complaint, words))
        fail_msg("no %s in %s", words, complaint);
    free(complaint);
}

TEST(complaints)
{
    browser_skip_without();
    expect_complaint("console.error('so and so')", "so and so");
    expect_complaint("return fetch('http://127.0.0.1:2/x').catch(() => 0)",
                     "GET http://127.0.0.1:2/x");
    expect_complaint(
        "const e = document.createElement('meta');"
        "e.httpEquiv = 'Content-Security-Policy'; e.content = \"img-src 'none'\";"
        "document.head.append(e); const image = new Image(); return new Promise("
        "(resolve) => { image.onerror = () => resolve(); image.src = 'data:image/png,'; });",
        "Content Security Policy");
}

ALL_TESTS(open_browser, close_browser);
