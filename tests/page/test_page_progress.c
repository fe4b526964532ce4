/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_progress.c - a pass that takes long: the page says at which layer it is, and ends it
 * when a person cancels. The pass is held in the page itself, which asks a daemon of the test's
 * making how far it is; what a daemon says is in tests/http/test_progress.c. */
#include "browser_input.h"
#include "explorer.h"
#include "test.h"

/* Traces wait for release(), and far is what is said of them. */
static const char HOLD[] =
    "(() => { const ask = window.fetch; window.far = {queued: true, layers: 0, of: 0};"
    " window.asked_for = []; window.fetch = (address, options) => {"
    " if (String(address).startsWith('v1/requests/')) { asked_for.push(String(address).slice(12));"
    "   return Promise.resolve(new Response(JSON.stringify(window.far))); }"
    " if (address !== 'v1/trace') return ask(address, options);"
    " window.id = options.headers['X-Request-Id'];"
    " return new Promise((done, fail) => { window.release = () => done(ask(address, options));"
    "   options.signal.addEventListener('abort', () => { window.was_ended = true;"
    "     fail(new DOMException('', 'AbortError')); }); }); }; })()";

static void begin(void)
{
    static bool is_held;
    explorer_begin();
    if (!is_held) {
        cJSON *parameters = cJSON_CreateObject();
        cJSON_AddStringToObject(parameters, "source", HOLD);
        char *text = cJSON_PrintUnformatted(parameters);
        browser_command(&browser, "Page.addScriptToEvaluateOnNewDocument", text);
        free(text);
        cJSON_Delete(parameters);
        is_held = true;
    }
    browser_go(&browser, "about:blank");
    browser_go(&browser, "%s/#%s", explorer_origin(), EXPLORER_TEXT);
    browser_wait(&browser, "document.querySelector('.computing button')");
}

#define SAYS "document.querySelector('.computing p').textContent"

/* It asks by the id that the request has, says what it hears, and is a view in the end. */
TEST(layers)
{
    begin();
    browser_wait(&browser, SAYS " === 'Waiting for its turn…'");
    browser_expect(&browser, "id.length > 20 && asked_for.every((one) => one === id)");
    browser_do(&browser, "window.far = {queued: false, layers: 6, of: 32}");
    browser_wait(&browser, SAYS " === 'Computing layer 7 of 32…'");
    browser_expect(&browser, "((bar) => bar.value === 6 && bar.max === 32)"
                             "(document.querySelector('.computing progress'))");
    browser_do(&browser, "release()");
    browser_wait(&browser, "!document.querySelector('.computing') && " EXPLORER_HAS_PICTURE);
    explorer_expect_quiet(NULL);
}

/* By the button; then it is there again on demand. */
TEST(cancel)
{
    begin();
    browser_click(&browser, ".computing button");
    browser_wait(&browser, "document.querySelector('main').innerText.includes('was cancelled')");
    browser_expect(&browser, "!document.querySelector('.fault, .computing')");
    browser_wait(&browser, "window.was_ended");
    browser_click(&browser, ".invitation button");
    browser_wait(&browser, "document.querySelector('.computing button')");
    browser_do(&browser, "release()");
    browser_wait(&browser, EXPLORER_HAS_PICTURE);
    explorer_expect_quiet(NULL);
}

/* By the keyboard; Show computes the same text. */
TEST(escape)
{
    begin();
    browser_keys(&browser, KEY_ESCAPE);
    browser_wait(&browser, "document.querySelector('main').innerText.includes('was cancelled')");
    browser_click(&browser, "form button.main");
    browser_wait(&browser, "document.querySelector('.computing button')");
    browser_do(&browser, "release()");
    browser_wait(&browser, EXPLORER_HAS_PICTURE);
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
