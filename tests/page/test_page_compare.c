/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_compare.c - two maps beside each other: their numbers, their difference, and what two
 * shapes do not have. */
#include "browser_input.h"
#include "explorer.h"
#include "test.h"

#define VIEW EXPLORER_TEXT "&view=compare&layer=1&head=3&other.layer=2&other.head=0"

/* window.first and second: the maps of both sides as the API answers them for the whole text. */
#define MAPS                                                                                       \
    "return fetch('/v1/trace', {method: 'POST', headers: {'Content-Type': 'application/json'},"    \
    "  body: JSON.stringify({model: 'stories260K', text: 'Once upon a time there was'})})"         \
    ".then((answer) => answer.json()).then(({layers}) => {"                                        \
    "  window.first = layers[1].weights[3]; window.second = layers[2].weights[0]; });"

static void open_compared(const char *more)
{
    explorer_begin();
    explorer_open(VIEW "%s", more);
    browser_do(&browser, MAPS);
}

TEST(pair)
{
    open_compared("&row=4&key=3");
    browser_expect(
        &browser,
        "(([a, b, difference]) => Math.abs(a - first[4][3]) < 1e-5 && Math.abs(b - second[4][3])"
        "  < 1e-5 && difference === a - b && Math.abs(difference) > 0.01)"
        "([...document.querySelectorAll('.compare-pair [data-weight]')]"
        ".map(({dataset}) => Number(dataset.weight)))");
    browser_expect(&browser, "document.querySelectorAll('.compare-statistics td[data-statistic]')"
                             ".length === 12");
    browser_expect(&browser, "document.querySelectorAll('.map-canvas').length === 2");
    explorer_expect_quiet(NULL);
}

/* The middle of every cell of the difference that may be seen has the colour of the first weight
 * less the second; blue where the second is larger. All maps show the same window. */
TEST(difference)
{
    open_compared("&difference=1");
    browser_expect(
        &browser,
        "import('/explorer/draw/colours.js').then(({channelsOf}) => {"
        "  const maps = [...document.querySelectorAll('.map-canvas')], canvas = maps[2];"
        "  const [left, top, , , width, height] = canvas.dataset.place.split(' ').map(Number);"
        "  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', "
        "{willReadFrequently: true});"
        "  copy.drawImage(canvas, 0, 0);"
        "  const pixel = (row, key) => [...copy.getImageData(left + (key + 0.5) * width,"
        "    top + (row + 0.5) * height, 1, 1).data];"
        "  return maps.length === 3 && first.every((weights, row) => weights.every((a, key) =>"
        "    key > row || channelsOf(a - second[row][key], {scale: 'linear', palette: "
        "'difference'}).every("
        "      (channel, c) => Math.abs(channel - pixel(row, key)[c]) <= 8))); })");
    explorer_open(VIEW "&difference=1&rows=1:5&keys=1:5");
    browser_expect(
        &browser,
        "(([one, ...others]) => one[3] === 1 && one[4] > 60 && others.length === 2 && others"
        "  .every((other) => other.every((number, i) => Math.abs(number - one[i]) < 0.05)))"
        "([...document.querySelectorAll('.map-canvas')].map(({dataset}) =>"
        "  dataset.place.split(' ').map(Number)))");
    explorer_expect_quiet(NULL);
}

/* Another text has another shape: no difference, and the page says why. */
TEST(shapes)
{
    open_compared("&difference=1");
    browser_do(&browser, "const field = document.querySelector('.compare-input input');"
                         "field.focus(); field.select()");
    browser_keys(&browser, "One day" KEY_ENTER);
    browser_wait(&browser, "/other.text=One(\\+|%%20)day/.test(location.hash)");
    explorer_settle();
    browser_expect(&browser, "document.querySelectorAll('.map-canvas').length === 2");
    browser_expect(&browser, "document.querySelector('.compare-words').textContent.includes("
                             "'the first has 7 × 7 rows and keys, the second 3 × 3')");
    browser_expect(&browser, "document.querySelector('.head-controls [type=checkbox]').disabled");
    explorer_expect_quiet(NULL);
}

/* Heads that are off are off on both sides, also where the second one has another text. */
TEST(off)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT "&view=compare&off=1.2");
    browser_do(&browser,
               "window.bodies = []; const ask = window.fetch; window.fetch = (path, options) => {"
               "  if (/trace$/.test(path)) bodies.push(JSON.parse(options.body));"
               "  return ask(path, options); }; location.hash += '&other.text=One+day'");
    browser_wait(&browser, "bodies.length === 1");
    explorer_settle();
    browser_expect(&browser, "bodies[0].text === 'One day' && JSON.stringify(bodies[0].edits) ==="
                             " '[{\"layers\":[1],\"heads\":[2],\"scale\":0}]'");
    explorer_expect_quiet(NULL);
}

/* Where nothing is chosen yet the next head stands beside the first; heads change sides. */
TEST(sides)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT "&view=compare&layer=1&head=7");
    browser_wait(&browser, "/other.layer=1&other.head=0/.test(location.hash)");
    browser_do(&browser, "[...document.querySelectorAll('.compare button')].find((button) =>"
                         " button.textContent.includes('Swap')).click()");
    browser_wait(&browser, "/&head=0.*other.layer=1&other.head=7/.test(location.hash)");
    explorer_expect_quiet(NULL);
}

/* A second model that is not served is a fault in words, and the view waits for nothing. */
TEST(other_that_is_not_served)
{
    static const char *const EXPECTED[] = { "404", NULL };
    explorer_begin();
    explorer_open(EXPLORER_TEXT "&view=compare&other.model=nope");
    browser_expect(&browser, "document.querySelector('.fault').innerText.includes('nope')");
    browser_expect(&browser, "!document.querySelector('[aria-busy=true]')");
    explorer_expect_quiet(EXPECTED);
}

ALL_TESTS(NULL, explorer_stop);
