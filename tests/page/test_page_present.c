/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_present.c - class mode: all larger and on the screen, with digits in the cells of a
 * map; by a switch, a key and the address. */
#include "browser_input.h"
#include "explorer.h"
#include "fixture.h"
#include "test.h"

#define HEAD       "&view=head&layer=1&head=4"
#define IS_PRESENT "document.documentElement.classList.contains('present')"

/* No view is wider than a projector, or than a phone; and words are larger than without. */
TEST(fits)
{
    static const int SIZES[][2] = { { 1280, 720 }, { 1920, 1080 }, { 390, 844 } };
    explorer_begin();
    for (int s = 0; s < 3; s++) {
        browser_resize(&browser, SIZES[s][0], SIZES[s][1]);
        for (int i = 0; i < EXPLORER_VIEWS; i++) {
            explorer_open("%s&present=1", explorer_views[i].fragment);
            if (!browser_is(&browser,
                            "document.documentElement.scrollWidth <= innerWidth"
                            " && document.body.getBoundingClientRect().right <= innerWidth"))
                fail_msg("the view %s is wider than %d", explorer_views[i].name, SIZES[s][0]);
        }
        browser_expect(&browser,
                       "((tab) => tab.getBoundingClientRect().height >= %d)"
                       "(document.querySelector('nav.tabs a'))",
                       s == 0   ? 44
                       : s == 1 ? 64
                                : 28);
    }
    browser_resize(&browser, 1280, 800);
    explorer_expect_quiet(NULL);
}

/* The key p and the switch begin it, Esc and the switch end it; the form is a line that opens. */
TEST(switched)
{
    explorer_begin();
    explorer_open("%s", EXPLORER_TEXT HEAD);
    browser_expect(&browser, "!" IS_PRESENT);
    browser_keys(&browser, "p");
    browser_wait(&browser, IS_PRESENT " && /present=1/.test(location.hash)");
    browser_expect(&browser, "['footer', 'form.input', 'h1'].every((one) =>"
                             "  document.querySelector(one).offsetHeight === 0)");
    browser_click(&browser, "button.change");
    browser_wait(&browser, "document.querySelector('form.input').offsetHeight > 0");
    browser_click(&browser, "button.change");
    browser_wait(&browser, "document.querySelector('form.input').offsetHeight === 0");
    browser_keys(&browser, KEY_ESCAPE);
    browser_wait(&browser, "!" IS_PRESENT " && !/present/.test(location.hash)");
    browser_click(&browser, ".present-switch");
    browser_wait(&browser, IS_PRESENT);
    browser_expect(&browser,
                   "document.querySelector('.present-switch').getAttribute('aria-checked')"
                   " === 'true'");
    browser_click(&browser, ".present-switch");
    browser_wait(&browser, "!" IS_PRESENT);
    explorer_expect_quiet(NULL);
}

/* The pixels of a cell, by the place that the canvas tells; a cell without digits has one colour.
 */
#define COLOURS                                                                                    \
    "((row, key) => { const canvas = document.querySelector('.map-canvas');"                       \
    "  const [left, top, , , width, height] = canvas.dataset.place.split(' ').map(Number);"        \
    "  const ratio = canvas.width / canvas.clientWidth;"                                           \
    "  const copy = new OffscreenCanvas(canvas.width, canvas.height)"                              \
    "      .getContext('2d', {willReadFrequently: true}); copy.drawImage(canvas, 0, 0);"           \
    "  const {data} = copy.getImageData((left + (key + 0.1) * width) * ratio,"                     \
    "      (top + (row + 0.2) * height) * ratio, 0.8 * width * ratio, 0.6 * height * ratio);"      \
    "  return new Set(new Uint32Array(data.buffer)).size; })"

TEST(digits)
{
    explorer_begin();
    explorer_open("%s", EXPLORER_TEXT HEAD);
    browser_expect(&browser, COLOURS "(3, 1) === 1");
    explorer_open("%s", EXPLORER_TEXT HEAD "&present=1");
    browser_expect(&browser, COLOURS "(3, 1) > 3");
    explorer_expect_quiet(NULL);
}

/* The digits of a cell are those of its weight: what is written is heard on its way to the canvas.
 */
TEST(digits_are_weights)
{
    explorer_begin();
    explorer_open("%s", EXPLORER_TEXT HEAD);
    browser_expect(
        &browser,
        "import('/explorer/draw/map_digits.js').then(async ({drawDigits}) => { const written = [];"
        "  const context = {save() {}, restore() {}, fillText: (...given) => written.push(given)};"
        "  const id = seen.asked.join(' ').match(/[0-9a-f]{32}/)[0];"
        "  const answer = await fetch(`v1/traces/${id}/weights?layer=1&head=4&rows=0:7&keys=0:7"
        "&cells=7x7&dtype=f32&hidden=nan`); const values = new Float32Array(await "
        "answer.arrayBuffer());"
        "  const seenAll = {rows: [0, 7], keys: [0, 7]};"
        "  const tile = {...seenAll, shape: [7, 7], values};"
        "  drawDigits(context, {tiles: [tile], view: {row: 0, key: 0, width: 40, height: 20},"
        "    seen: seenAll, look: {scale: 'linear', palette: 'viridis'},"
        "    theme: {font: '12px sans-serif'}});"
        "  drawDigits(context, {tiles: [tile], view: {row: 0, key: 0, width: 20, height: 20}});"
        "  return written.length === 28 && written.every(([text, x, y]) =>"
        "    text === values[7 * Math.floor(y / 20) + Math.floor(x / 40)].toFixed(2)); })");
    explorer_expect_quiet(NULL);
}

/* The pointer finds the cell under it, where the page is enlarged too. */
TEST(pointer)
{
    explorer_begin();
    explorer_open("%s", EXPLORER_TEXT HEAD "&present=1");
    browser_do(
        &browser,
        "const canvas = document.querySelector('.map-canvas'); const [left, top, , , width,"
        "height] = canvas.dataset.place.split(' ').map(Number); const box ="
        "canvas.getBoundingClientRect(); const zoom = box.width / canvas.clientWidth;"
        "for (const type of ['pointerdown', 'pointerup']) canvas.dispatchEvent(new"
        " PointerEvent(type, {button: 0, pointerId: 1, pointerType: 'mouse', clientX: box.left"
        " + zoom * (left + 2.5 * width), clientY: box.top + zoom * (top + 5.5 * height)}));");
    browser_wait(&browser, "/row=5/.test(location.hash) && /key=2/.test(location.hash)");
}

#define STEPS "&view=why&layer=1&head=4&row=3&key=2&step=1"
#define STEP(name)                                                                                 \
    "document.querySelector('.steps')?.dataset.step === '" name "' && !document.querySelector("    \
    "'.steps').matches('[aria-busy=true]')"
#define NUMBERS(name)                                                                              \
    "JSON.stringify([...document.querySelectorAll('.steps td[data-name=" name "]')].map("          \
    "({dataset}) => dataset.value))"

/* Each step of a row has the numbers of the API, for the keys that it may see and for those that it
 * may not; keys and buttons go forward and back, and to the next row. */
TEST(steps)
{
    explorer_begin();
    explorer_open("%s", EXPLORER_TEXT STEPS);
    browser_wait(&browser, STEP("query"));
    browser_do(&browser, "window.pairs = fetch(`v1/traces/${seen.asked.join(' ').match(/[0-9a-f]"
                         "{32}/)[0]}/pairs?layer=1&head=4&row=3&keys=0,1,2,3,4,5,6`)"
                         ".then((answer) => answer.json()).then((answer) => window.pairs = answer);"
                         "return window.pairs;");
    browser_keys(&browser, KEY_RIGHT);
    browser_wait(&browser, STEP("key") " && /step=2/.test(location.hash)");
    browser_keys(&browser, " ");
    browser_wait(&browser, STEP("sum"));
    browser_expect(&browser, NUMBERS("sum") " === JSON.stringify(pairs.keys.map(({products}) =>"
                                            " String(products.reduce((a, b) => a + b, 0))))");
    static const char *const NAMES[] = { "score", "masked", "exp", "weight", "context" };
    for (int i = 0; i < 5; i++) {
        browser_keys(&browser, KEY_RIGHT);
        browser_wait(&browser, "document.querySelector('.steps').dataset.step === '%s'", NAMES[i]);
    }
    explorer_settle();
    browser_expect(&browser, "['score', 'masked', 'weight'].every((name) => JSON.stringify([..."
                             "document.querySelectorAll(`.steps td[data-name=${name}]`)].map("
                             "({dataset}) => dataset.value)) === JSON.stringify(pairs.keys.map("
                             "(pair) => String(pair[name]))))");
    browser_expect(&browser, "((sum) => Math.abs(sum - Math.exp(pairs.lse)) < 1e-4 * sum)([..."
                             "document.querySelectorAll('.steps td[data-name=exp]')].reduce("
                             "(sum, {dataset}) => sum + Number(dataset.value), 0))");
    browser_expect(&browser, "document.querySelectorAll('.steps tr.unseen').length === 3");
    browser_keys(&browser, KEY_LEFT);
    browser_wait(&browser, STEP("weight"));
    browser_do(&browser, "[...document.querySelectorAll('.steps button')].find((one) =>"
                         " one.innerText === 'Next row').click()");
    browser_wait(&browser, "/row=4/.test(location.hash) && document.querySelectorAll("
                           "'.steps tr.unseen').length === 2");
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
