/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_head.c - beside the map of one head: what a row looks at, who looks at a key, the row
 * in other layers and heads, and the picture of a model that sees. */
#include "browser_input.h"
#include "explorer.h"
#include "fixture.h"
#include "test.h"
#include "traced_families.h"

#define HEAD_VIEW EXPLORER_TEXT "&view=head&layer=2&head=1"

/* map(layer, head): the whole map as POST /v1/trace answers it, rows of numbers. near(a, b): the
 * same but for the digits that a kept trace may differ in. */
#define WITH_MAPS                                                                                  \
    "const must = (holds, what) => { if (!holds) throw new Error(what); };"                        \
    "const near = (a, b) => Math.abs(a - b) <= 1e-5 * Math.max(1e-3, Math.abs(b));"                \
    "const map = (layer, head) => fetch('/v1/trace', {method: 'POST',"                             \
    "  headers: {'Content-Type': 'application/json'}, body: JSON.stringify({model: 'stories260K'," \
    "  text: 'Once upon a time there was', layers: [layer], weight_map: {heads: [head]}})})"       \
    "  .then((response) => response.json()).then(({layers}) => layers[0].weights[0]);"

/* Both tables of bars have the numbers of the API but of pairs that may not be seen, in the order
 * of the text and by size. */
TEST(bars)
{
    explorer_begin();
    explorer_open(HEAD_VIEW "&row=5&key=2");
    browser_do(
        &browser, "%s",
        WITH_MAPS
        "return map(2, 1).then((weights) => {"
        "  const bars = [...document.querySelectorAll('.bars tr')].map((tr) => tr.dataset);"
        "  must(bars.length === 11, bars.length);"
        "  must(bars.slice(0, 6).every(({row, key}, i) => row === '5' && +key === i), 'row');"
        "  must(bars.slice(6).every(({row, key}, i) => +row === i + 2 && key === '2'), 'key');"
        "  for (const {row, key, weight} of bars)"
        "    must(near(+weight, weights[row][key]), `${row} ${key} ${weight}`);"
        "  const pair = document.querySelector('.pair-line .number');"
        "  must(near(+pair.dataset.weight, weights[5][2]), pair.dataset.weight);"
        "  must(near(+pair.textContent, weights[5][2]) || +pair.textContent ==="
        "    +weights[5][2].toPrecision(4), pair.textContent); });");
    browser_do(&browser, "const order = document.querySelector('.sides select');"
                         "order.value = 'largest';"
                         "order.dispatchEvent(new Event('change', {bubbles: true}));");
    browser_wait(&browser,
                 "[...document.querySelectorAll('.bars tr')].slice(0, 6).map((tr) =>"
                 " +tr.dataset.weight).every((weight, i, all) => i === 0 || weight <= all[i - 1])");
    browser_click(&browser, ".bars tr[data-row=\"5\"] button");
    browser_wait(&browser, "/&row=5&key=\\d/.test(location.hash)");
    explorer_expect_quiet(NULL);
}

/* Each line of the strip has the number of its map. */
#define EXPECT_LINES                                                                               \
    WITH_MAPS                                                                                      \
    "const lines = [...document.querySelectorAll('.strip [data-line]')]"                           \
    "  .map((cell) => cell.dataset);"                                                              \
    "return Promise.all(lines.map(({line, weight}) => map(...line.split('/').map(Number))"         \
    "  .then((weights) => must(near(+weight, weights[5][2]), `${line} ${weight}`))))"              \
    "  .then(() => lines.map(({line}) => line).join());"

/* The fixed row in all layers, and in all heads of its layer. */
TEST(follow)
{
    explorer_begin();
    explorer_open(HEAD_VIEW "&row=5&key=2");
    browser_wait(&browser, "[...document.querySelectorAll('.strip [data-line]')]"
                           ".filter(({dataset}) => dataset.weight).length === 5");
    browser_do(&browser, "%s", EXPECT_LINES);
    browser_click(&browser, ".follow label:last-of-type input");
    browser_wait(&browser, "[...document.querySelectorAll('.strip [data-line]')]"
                           ".filter(({dataset}) => dataset.weight).length === 8");
    browser_do(&browser, "%s", EXPECT_LINES);
    browser_click(&browser, ".strip tr:nth-child(4) button");
    browser_wait(&browser, "/layer=2&head=3&row=5&key=2/.test(location.hash)");
    explorer_expect_quiet(NULL);
}

/* A token of an axis is fixed by a click; the button leads to why its pair has its weight. */
TEST(click_a_token)
{
    explorer_begin();
    explorer_open(HEAD_VIEW);
    browser_expect(&browser, "document.querySelector('.pair-line button').disabled");
    browser_do(&browser, "const canvas = document.querySelector('.map-canvas');"
                         "const box = canvas.getBoundingClientRect();"
                         "const [left, top, , , width, height] ="
                         "  canvas.dataset.place.split(' ').map(Number);"
                         "window.label = [box.left + left / 2, box.top + top + 3.5 * height];"
                         "window.column = [box.left + left + 1.5 * width, box.top + top - 8];");
    browser_press(&browser, browser_number(&browser, "label[0]"),
                  browser_number(&browser, "label[1]"));
    browser_wait(&browser, "/&row=3$/.test(location.hash)");
    browser_press(&browser, browser_number(&browser, "column[0]"),
                  browser_number(&browser, "column[1]"));
    browser_wait(&browser, "/&row=3&key=1$/.test(location.hash)");
    browser_click(&browser, ".pair-line button");
    browser_wait(&browser, "/view=why&layer=2&head=1&row=3&key=1/.test(location.hash)");
    explorer_expect_quiet(NULL);
}

/* A picture of 6 x 6 pixels is 9 patches behind a class token. */
TEST(picture)
{
    browser_skip_without();
    explorer_change_daemon();
    directory = daemon_directory_create();
    traced_families_save(directory);
    fixture_serve("--models", directory);
    explorer_begin();
    explorer_open("model=vit&view=head&layer=1&head=0");
    browser_do(&browser,
               "const canvas = document.createElement('canvas');"
               "canvas.width = canvas.height = 60;"
               "canvas.getContext('2d').fillRect(0, 0, 30, 40);"
               "return new Promise((done) => canvas.toBlob((blob) => {"
               "  const given = new DataTransfer();"
               "  given.items.add(new File([blob], 'corner.png', {type: 'image/png'}));"
               "  const field = document.querySelector('input[type=file]');"
               "  field.files = given.files;"
               "  field.dispatchEvent(new Event('change', {bubbles: true})); done(); }));");
    browser_wait(&browser, "document.querySelector('.patches img')?.complete");
    browser_click(&browser, ".patches canvas");
    browser_wait(&browser, "/&row=5/.test(location.hash)"); /* the patch in the middle, 1,1 */
    browser_wait(&browser, "document.querySelector('.picture [aria-live]').textContent"
                           ".includes('Row patch 1,1: the brightest is 0.')");
    browser_keys(&browser, KEY_RIGHT KEY_DOWN);
    browser_wait(&browser, "document.querySelector('.picture [aria-live]').textContent"
                           ".includes('gives patch 2,2')");
    browser_click(&browser, ".picture .row button");
    browser_wait(&browser, "/&row=0/.test(location.hash)");
    browser_expect(&browser, "document.querySelector('.picture .row button').textContent"
                             ".startsWith('[CLS]')");
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
