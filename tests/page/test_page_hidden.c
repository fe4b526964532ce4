/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_hidden.c - pairs that may not be seen do not look like weights of 0, in pictures, lists
 * and words; and what the colours of maps run to, which the legend says. */
#include "browser_input.h"
#include "explorer.h"
#include "test.h"

#define HEAD_VIEW EXPLORER_TEXT "&view=head&layer=2&head=1"

/* isGrey(canvas, row, key): whether all pixels in the middle of a cell of a map are greys, as those
 * of the hatching and none of viridis; hasLines(...): whether they have more than one colour. */
#define WITH_PIXELS                                                                                \
    "const pixelsOf = (canvas, row, key) => {"                                                     \
    "  const [left, top, , , width, height] = canvas.dataset.place.split(' ').map(Number);"        \
    "  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');"            \
    "  copy.drawImage(canvas, 0, 0);"                                                              \
    "  const {data} = copy.getImageData(left + (key + 0.3) * width, top + (row + 0.3) * height,"   \
    "    Math.round(width * 0.4), Math.round(height * 0.4));"                                      \
    "  return Array.from({length: data.length / 4}, (_, i) => [...data.subarray(4 * i, 4 * i + "   \
    "3)]);"                                                                                        \
    "};"                                                                                           \
    "const isGrey = (...at) => pixelsOf(...at).every((pixel) =>"                                   \
    "  Math.max(...pixel) - Math.min(...pixel) < 24);"                                             \
    "const hasLines = (...at) => new Set(pixelsOf(...at).map(String)).size > 1;"

static void expect_hatched(const char *canvas, int rows)
{
    browser_expect(
        &browser,
        "(() => { " WITH_PIXELS " const canvas = %s;"
        "  for (let row = 0; row < %d; row++) for (let key = 0; key < %d; key++)"
        "    if ((isGrey(canvas, row, key) && hasLines(canvas, row, key)) !== (key > row))"
        "      return false;"
        "  return true; })()",
        canvas, rows, rows);
}

/* In the map of a head, and in those of two, hatched in light and dark. */
TEST(maps)
{
    static const char *const MODES[] = { "light", "dark" };
    explorer_begin();
    for (int i = 0; i < 2; i++) {
        browser_prefer(&browser, "prefers-color-scheme", MODES[i]);
        explorer_open(HEAD_VIEW);
        expect_hatched("document.querySelector('.map-canvas')", 7);
        explorer_open(EXPLORER_TEXT "&view=compare&layer=1&head=3&other.layer=2&other.head=0");
        expect_hatched("document.querySelectorAll('.map-canvas')[1]", 7);
    }
    browser_prefer(&browser, "prefers-color-scheme", "light");
    explorer_expect_quiet(NULL);
}

/* In greys, where 0 is white: the lines tell hidden pairs apart. */
TEST(greys)
{
    explorer_begin();
    explorer_open(HEAD_VIEW "&palette=greys");
    browser_expect(&browser,
                   "(() => { " WITH_PIXELS " const canvas = document.querySelector('.map-canvas');"
                   "  return hasLines(canvas, 1, 4) && !hasLines(canvas, 6, 0); })()");
}

#define SAID "document.querySelector('.map-frame [aria-live]').textContent.trim()"

/* The keys say it, the line below the map, and the numbers of two maps; lists leave them out. */
TEST(words)
{
    explorer_begin();
    explorer_open(HEAD_VIEW "&row=2&key=5");
    browser_expect(&browser, "document.querySelector('.pair-line').innerText.includes("
                             "'may not be seen')");
    browser_expect(&browser, "[...document.querySelectorAll('.bars')].map((bars) =>"
                             "  bars.querySelectorAll('tbody tr').length).join() === '3,2'");
    browser_expect(&browser, "[...document.querySelectorAll('.bars caption')].every((caption, i) =>"
                             "  caption.innerText.includes(`(${[4, 5][i]} may not be seen)`))");
    browser_do(&browser, "document.querySelector('.map-canvas').focus()");
    browser_keys(&browser, KEY_DOWN KEY_UP);
    browser_wait(&browser, SAID " === 'Row 2, upon; key 5, there; may not be seen'");
    explorer_open(EXPLORER_TEXT
                  "&view=compare&layer=1&head=3&other.layer=2&other.head=0&row=2&key=5");
    browser_expect(&browser, "[...document.querySelectorAll('.compare-pair [data-weight]')]"
                             ".every((one) => one.innerText.includes('may not be seen'))");
    explorer_expect_quiet(NULL);
}

/* The small maps of the overview: the ground is seen through, with lines. */
TEST(overview)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    browser_expect(&browser,
                   "[...document.querySelectorAll('button.map canvas')].every((canvas) => {"
                   "  const copy = new OffscreenCanvas(7, 7).getContext('2d');"
                   "  copy.drawImage(canvas, 0, 0);"
                   "  const {data} = copy.getImageData(0, 0, 7, 7);"
                   "  return getComputedStyle(canvas).backgroundImage.includes('gradient') &&"
                   "    Array.from({length: 49}, (_, i) => (data[4 * i + 3] === 0) ==="
                   "    (i %% 7 > Math.floor(i / 7))).every(Boolean); })");
}

/* ------------------------------------------------------------------------ ranges -- */

#define LONG_TEXT "' + 'Once upon a time there was a girl named Lily. '.repeat(6) + '"
#define OPEN_LONG                                                                                  \
    "location.hash = 'model=stories260K&text=" LONG_TEXT "%s';"                                    \
    "return new Promise((go) => setTimeout(go, 300));"

/* The largest weight of the map of window.api, and the one that 99 of 100 are below. */
#define EXPECT_RANGE(kind, value)                                                                  \
    "(({weights: [map]}) => { const {range, rangeKind} ="                                          \
    "  document.querySelector('.legend-box').dataset;"                                             \
    "  const all = map.flatMap((row, i) => row.slice(0, i + 1)).sort((a, b) => a - b);"            \
    "  return rangeKind === '" kind "' && Math.abs(range - (" value ")) < 1e-4; })"                \
    "(api.layers[0])"

static void open_long(const char *more)
{
    browser_do(&browser, OPEN_LONG, more);
    explorer_settle();
}

/* Few keys: up to 1. Many: up to what 99 of 100 are below, unless the address says otherwise; the
 * legend's last number and its words say it, and colours above are the last one. */
TEST(range_of_a_map)
{
    explorer_begin();
    explorer_open(HEAD_VIEW);
    browser_expect(&browser, "document.querySelector('.legend-box').dataset.range === '1'");
    open_long("&view=head&layer=4&head=1");
    browser_do(
        &browser,
        "return fetch('/v1/trace', {method: 'POST', headers: {'Content-Type':"
        "  'application/json'}, body: JSON.stringify({model: 'stories260K', text: '" LONG_TEXT
        "', layers: [4], weight_map: {heads: [1]}})}).then((answer) => answer.json())"
        ".then((answer) => { window.api = answer; });");
    browser_expect(&browser, EXPECT_RANGE("99", "all[Math.floor(0.99 * (all.length - 1))]"));
    browser_expect(&browser, "/^0 to 0\\.\\d+ and above; 99 %% of the cells are below$/.test("
                             "document.querySelector('.range-words').textContent)");
    browser_expect(&browser, "document.querySelector('.legend span:last-of-type').textContent"
                             ".startsWith('≥ 0.')");
    open_long("&view=head&layer=4&head=1&range=largest");
    browser_expect(&browser, EXPECT_RANGE("largest", "all.at(-1)"));
    browser_expect(&browser, "document.querySelector('.range-words').textContent"
                             " === '0 to 1, the largest weight'");
    open_long("&view=head&layer=4&head=1&range=1&scale=log");
    browser_expect(&browser, EXPECT_RANGE("1", "1"));
    browser_expect(&browser, "document.querySelector('.range-words').textContent"
                             " === '10⁻⁶ and below to 1'");
    explorer_expect_quiet(NULL);
}

/* All maps of the overview have one range, that of the legend, also two maps beside each other. */
TEST(range_of_several_maps)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    open_long("");
    browser_expect(&browser, "document.querySelector('.legend-box').dataset.rangeKind === '99'");
    browser_expect(&browser, "/, in all maps$/.test(document.querySelector('.range-words')"
                             ".textContent)");
    open_long("&view=compare&layer=4&head=1&other.layer=2&other.head=0&range=largest&difference=1");
    browser_wait(&browser, "document.querySelectorAll('.legend-box').length === 2");
    browser_expect(&browser, "[...document.querySelectorAll('.range-words')].map((words) =>"
                             "  words.textContent.replace(/0\\.\\d+/g, 'N')).join() ==="
                             "  '0 to 1, the largest weight, in both maps,−N to N, the largest "
                             "difference'");
    explorer_expect_quiet(NULL);
}

/* The widest bar of a row is that of its largest weight, as wide as there is room. */
TEST(bars_run_to_the_largest)
{
    explorer_begin();
    explorer_open(HEAD_VIEW "&row=5");
    browser_expect(&browser,
                   "(([first, ...others]) => first === 100 && others.every((part) => part < 100))"
                   "([...document.querySelectorAll('.bars:first-of-type .weight-bar')]"
                   ".slice(0, 6).map(({style}) => parseFloat(style.width)).sort((a, b) => b - a))");
}

ALL_TESTS(NULL, explorer_stop);
