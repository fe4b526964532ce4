/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_map.c - the map of one head: its colours, what is seen of it, and the keys, wheel and
 * pointer that move it. */
#include "browser_input.h"
#include "explorer.h"
#include "test.h"

#define HEAD_VIEW EXPLORER_TEXT "&view=head&layer=2&head=1"

/* Runs a script with the modules of the page at hand: it throws where something is not so. */
#define IN_PAGE(modules, script)                                                                   \
    "const must = (holds, what) => { if (!holds) throw new Error(what); };"                        \
    "return Promise.all(" modules ".map((name) => import('/explorer/draw/' + name + '.js')))"      \
    ".then((all) => { const draw = Object.assign({}, ...all);" script " return true; });"

/* The numbers of a map's place on its canvas, by name. */
#define PLACE                                                                                      \
    "const canvas = document.querySelector('.map-canvas');"                                        \
    "const [left, top, row, key, width, height] = canvas.dataset.place.split(' ').map(Number);"

static void run(const char *script)
{
    cJSON_Delete(browser_run(&browser, "%s", script));
}

/* Colours that matplotlib 3.6.3 publishes, by their numbers of 0 to 255. */
TEST(colours)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    run(IN_PAGE(
        "['colours', 'scales']",
        "const published = {"
        "viridis: {0: '440154', 32: '472d7b', 64: '3b528b', 96: '2c728e', 128: '21918c',"
        "  160: '28ae80', 192: '5ec962', 224: 'addc30', 255: 'fde725'},"
        "cividis: {0: '00224e', 64: '434e6c', 128: '7d7c78', 192: 'bcae6c', 255: 'fee838'},"
        "greys: {0: 'ffffff', 51: 'cccccc', 255: '000000'}};"
        "for (const [palette, colours] of Object.entries(published))"
        "  for (const [place, hex] of Object.entries(colours)) {"
        "    const found = draw.channelsOf(place / 255, {scale: 'linear', palette});"
        "    found.forEach((channel, c) => must(Math.abs(channel -"
        "      parseInt(hex.slice(2 * c, 2 * c + 2), 16)) <= 1,"
        "      `${palette} ${place}: ${found}`)); }"
        "for (const {placeOf, weightAt} of Object.values(draw.SCALES))"
        "  for (const weight of [1, 0.5, 0.001, 0.00002])"
        "    must(Math.abs(weightAt(placeOf(weight)) / weight - 1) < 1e-9, weight);"
        "must(draw.SCALES.log.placeOf(0) === 0 && draw.SCALES.log.placeOf(1e-9) === 0, 'log');"
        "const none = draw.colourOf(0, {scale: 'sqrt', palette: 'difference'});"
        "must(none === '#f7f7f7', none);"
        "const dark = draw.channelsOf(0, {palette: 'difference', isDark: true});"
        "must(Math.max(...dark) < 64, dark);"
        "for (const isDark of [false, true]) for (const weight of [0.1, 0.5, 1]) {"
        "  const [[r, , b], [r2, , b2]] = [weight, -weight].map((one) =>"
        "    draw.channelsOf(one, {palette: 'difference', isDark}));"
        "  must(r > b && b2 > r2, `${isDark} ${weight}: orange above 0, blue below`); }"
        "must(draw.colourOf(0.13, {palette: 'viridis', range: 0.13}) === '#fde725' &&"
        "  draw.colourOf(0.2, {palette: 'viridis', range: 0.13}) === '#fde725', 'range');"
        "must(draw.colourOf(NaN, {palette: 'viridis'}) === 'transparent', 'hidden');"
        "for (const range of [1, 0.13, 0.004]) for (const {placeOf, weightAt} of"
        "    Object.values(draw.SCALES)) {"
        "  must(Math.abs(placeOf(range, range) - 1) < 1e-9, range);"
        "  must(Math.abs(weightAt(placeOf(range / 3, range), range) / range * 3 - 1) < 1e-9, "
        "range); }"));
}

/* Random maps, plots and windows: a window is seen whole, a view stays on its map, and a zoom holds
 * the token under the pointer unless the map's edge is nearer. */
TEST(windows)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    run(IN_PAGE(
        "['window']",
        "let seed = 11;"
        "const below = (n) => { seed = (seed * 48271) % 2147483647; return seed % n; };"
        "for (let i = 0; i < 3000; i++) {"
        "  const map = {rows: 1 + below(i % 2 ? 40 : 20000), keys: 1 + below(i % 3 ? 40 : 20000)};"
        "  const plot = {width: 80 + below(1500), height: 80 + below(900)};"
        "  const some = (count) => { const a = below(count); return [a, a + 1 + below(count - a)]; "
        "};"
        "  const asked = {rows: some(map.rows), keys: some(map.keys)};"
        "  const view = draw.viewOf(asked, map, plot);"
        "  const seen = draw.seenOf(view, map, plot);"
        "  const what = JSON.stringify({map, plot, asked, view, seen});"
        "  for (const side of ['rows', 'keys']) {"
        "    must(seen[side][0] <= asked[side][0] + 1e-6 && seen[side][1] >= asked[side][1] - "
        "1e-6, what);"
        "    must(seen[side][0] >= -1e-9 && seen[side][1] <= map[side] + 1e-6, what); }"
        "  const at = {x: below(plot.width), y: below(plot.height)};"
        "  const zoomed = draw.zoomView(view, 0.3 + below(100) / 20, at, map, plot);"
        "  const token = view.key + at.x / view.width;"
        "  const held = (token - zoomed.key) * zoomed.width;"
        "  const isAtEdge = zoomed.key < 1e-9 || zoomed.key > map.keys - plot.width / zoomed.width "
        "- 1e-6;"
        "  must(isAtEdge || Math.abs(held - at.x) < 1e-3, what + held + JSON.stringify(at));"
        "  const whole = draw.windowOf(draw.wholeView(map, plot), map, plot);"
        "  must(whole.rows === null && whole.keys === null, what);"
        "  const cell = {row: below(map.rows), key: below(map.keys)};"
        "  const near = draw.seenOf(draw.revealCell(view, cell, map, plot), map, plot);"
        "  must(near.rows[0] <= cell.row + 1e-6 && near.keys[0] <= cell.key + 1e-6, what); }"));
}

/* The middle of every cell that may be seen has the colour of the weight that the API answers. */
TEST(pixels)
{
    explorer_begin();
    explorer_open(HEAD_VIEW "&scale=sqrt&palette=cividis");
    run("const must = (holds, what) => { if (!holds) throw new Error(what); };" PLACE
        "const body = {model: 'stories260K', text: 'Once upon a time there was', layers: [2],"
        "  weight_map: {heads: [1]}};"
        "return Promise.all([import('/explorer/draw/colours.js'),"
        "  fetch('/v1/trace', {method: 'POST', body: JSON.stringify(body),"
        "  headers: {'Content-Type': 'application/json'}}).then((r) => r.json())])"
        ".then(([draw, {layers}]) => {"
        "  const weights = layers[0].weights.flat(Infinity), n = Math.sqrt(weights.length);"
        "  must(n === 7 && row === 0 && key === 0, `${n} ${row} ${key}`);"
        "  const image = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);"
        "  weights.forEach((weight, i) => {"
        "    if (i % n > Math.floor(i / n)) return;"
        "    const x = left + (i % n + 0.5) * width, y = top + (Math.floor(i / n) + 0.5) * height;"
        "    const at = 4 * (Math.floor(y * devicePixelRatio) * canvas.width +"
        "      Math.floor(x * devicePixelRatio));"
        "    const pixel = [...image.data.subarray(at, at + 3)];"
        "    const wanted = draw.channelsOf(weight, {scale: 'sqrt', palette: 'cividis'});"
        "    must(wanted.every((channel, c) => Math.abs(channel - pixel[c]) <= 2),"
        "      `cell ${i}: ${pixel}, not ${wanted}`); });"
        "  return true; });");
    explorer_expect_quiet(NULL);
}

#define SAID "document.querySelector('.map-frame [aria-live]').textContent.trim()"

/* Arrow keys say each cell, Enter fixes it in the address, Escape releases it. */
TEST(keys)
{
    explorer_begin();
    explorer_open(HEAD_VIEW);
    run("document.querySelector('.map-canvas').focus()");
    browser_keys(&browser, KEY_DOWN KEY_DOWN KEY_RIGHT);
    browser_wait(&browser, SAID ".startsWith('Row 1, Once; key 1, Once; weight 0.')");
    browser_keys(&browser, KEY_END KEY_PAGE_DOWN);
    browser_wait(&browser, SAID " === 'Row 6, was; key 6, was; weight ' + "
                                "document.querySelector('.pair-line .number')?.textContent");
    browser_keys(&browser, KEY_HOME KEY_ENTER);
    browser_wait(&browser, "/&row=6&key=0(&|$)/.test(location.hash)");
    browser_expect(&browser, "document.querySelectorAll('.bars tr.marked').length === 2");
    browser_keys(&browser, KEY_ESCAPE);
    browser_wait(&browser, "!/row=|key=/.test(location.hash)");
    browser_keys(&browser, "]}");
    browser_wait(&browser, "/layer=3&head=2/.test(location.hash)");
    browser_keys(&browser, "[{");
    browser_wait(&browser, "/layer=2&head=1/.test(location.hash)");
    explorer_expect_quiet(NULL);
}

/* The wheel zooms around the pointer and a drag pans; the address that this leaves shows the same
 * picture to who opens it. A double click shows all. */
TEST(looking_around)
{
    explorer_begin();
    explorer_open(HEAD_VIEW);
    run(PLACE "const box = canvas.getBoundingClientRect();"
              "window.at = [box.left + left + 3.5 * width, box.top + top + 4.5 * height];");
    const double x = browser_number(&browser, "at[0]"), y = browser_number(&browser, "at[1]");
    browser_wheel(&browser, x, y, -600);
    browser_wait(&browser, "/&rows=.*&keys=/.test(location.hash)");
    char *zoomed = browser_text(&browser, "location.hash");
    browser_drag(&browser, x, y, x + 70, y + 70);
    browser_wait(&browser, "location.hash !== '%s'", zoomed);
    browser_move(&browser, 2, 2);
    explorer_settle();
    char *link = browser_text(&browser, "location.hash.slice(1)");
    char *seen = explorer_picture();
    explorer_open("%s", link);
    char *again = explorer_picture();
    explorer_expect_same(seen, again, link);
    run("const event = new MouseEvent('dblclick', {bubbles: true});"
        "document.querySelector('.map-canvas').dispatchEvent(event);");
    browser_wait(&browser, "!/rows=/.test(location.hash)");
    free(zoomed);
    free(link);
    free(seen);
    free(again);
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
