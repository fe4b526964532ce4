/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_tokens.c - lines between tokens: which are drawn, of which heads, and texts of more
 * tokens than a column holds. */
#include "browser_input.h"
#include "explorer.h"
#include "test.h"

#define VIEW EXPLORER_TEXT "&view=tokens&layer=1"
#define LONG_TEXT                                                                                  \
    "Once+upon+a+time+Lily+found+a+ball+Once+upon+a+time+there+was+Once+upon+a+time+Lily+found+"   \
    "a+ball+Once+upon+a+time+there+was+Once+upon+a+time+Lily+found+a+ball+Once+upon+a+time+"

/* Random maps: the lines are the weights that reach the threshold; of too many the largest stay. */
TEST(lines)
{
    explorer_begin();
    explorer_open(VIEW);
    browser_expect(
        &browser,
        "import('/explorer/draw/lines.js').then(({drawnLines, linesOf}) => {"
        "  const maps = {rows: 40, keys: 50, values: new Float32Array(4 * 40 * 50)};"
        "  let seed = 5;"
        "  const at = (head, row, key) => maps.values[(head * 40 + row) * 50 + key];"
        "  for (let i = 0; i < maps.values.length; i++)"
        "    maps.values[i] = i %% 7 ? (seed = seed * 48271 %% 2147483647) / 2147483647 : 0;"
        "  const good = (lines, holds, threshold) => lines.every((line) => line.weight > 0"
        "    && line.weight === at(line.head, line.row, line.key) && line.weight >= threshold"
        "    && holds(line));"
        "  const some = linesOf(maps, {heads: [1, 3], threshold: 0.4});"
        "  const wanted = [1, 3].flatMap((head) => [...maps.values.subarray(head * 2000,"
        "    (head + 1) * 2000)]).filter((weight) => weight >= Math.fround(0.4)).length;"
        "  const row = linesOf(maps, {heads: [2], threshold: 0, only: {row: 9}});"
        "  const key = linesOf(maps, {heads: [0], threshold: 0, only: {key: 49}});"
        "  const all = linesOf(maps, {heads: [0, 1, 2, 3], threshold: 0});"
        "  const drawn = drawnLines(all), least = drawn[0].weight;"
        "  return some.length === wanted && good(some, ({head}) => head %% 2, 0.4)"
        "    && good(row, (line) => line.row === 9 && line.head === 2, 0) && row.length > 30"
        "    && good(key, (line) => line.key === 49, 0) && key.length > 30"
        "    && drawn.length < all.length && all.filter(({weight}) => weight > least).length"
        "      < drawn.length; })");
    explorer_expect_quiet(NULL);
}

/* Where no threshold is set, each row has its 3 largest weights, over all heads chosen; a token
 * that is looked at has those of each head. A weight that is not a number is none. Lines of one
 * pair lie beside each other. */
TEST(largest_lines)
{
    explorer_begin();
    explorer_open(VIEW);
    browser_expect(
        &browser,
        "import('/explorer/draw/lines.js').then(({drawnLines, linesOf}) => {"
        "  const maps = {rows: 30, keys: 20, values: new Float32Array(3 * 30 * 20)};"
        "  let seed = 7;"
        "  for (let i = 0; i < maps.values.length; i++)"
        "    maps.values[i] = i %% 5 ? (seed = seed * 48271 %% 2147483647) / 2147483647 : NaN;"
        "  const largest = (heads, row) => heads.flatMap((head) => [...maps.values.subarray("
        "    (head * 30 + row) * 20, (head * 30 + row + 1) * 20)]).filter((weight) => weight > 0)"
        "    .sort((a, b) => b - a).slice(0, 3).join();"
        "  const said = (lines) => lines.map(({weight}) => weight).sort((a, b) => b - a).join();"
        "  const all = linesOf(maps, {heads: [0, 2], threshold: null});"
        "  const row = linesOf(maps, {heads: [0, 2], threshold: null, only: {row: 4}});"
        "  const key = linesOf(maps, {heads: [0, 1, 2], threshold: null, only: {key: 3}});"
        "  const fan = drawnLines([2, 0, 1].map((head) => ({head, row: 1, key: 1, weight: 0.5}))"
        "    .concat({head: 1, row: 1, key: 2, weight: 0.1}));"
        "  const shifts = fan.filter(({key}) => key === 1).sort((a, b) => a.head - b.head)"
        "    .map(({shift}) => shift);"
        "  return all.length === 90 && Array.from({length: 30}, (_, i) => i).every((i) =>"
        "      said(all.filter((line) => line.row === i)) === largest([0, 2], i))"
        "    && row.length === 6 && [0, 2].every((head) =>"
        "      said(row.filter((line) => line.head === head)) === largest([head], 4))"
        "    && key.length > 0 && key.every((line) => line.key === 3 && line.weight >="
        "      largest([line.head], line.row).split(',')[2])"
        "    && shifts[0] < shifts[1] && shifts[1] === 0 && shifts[2] === -shifts[0]"
        "    && Math.abs(shifts[0]) < 0.5 && fan.find(({key}) => key === 2).shift === 0; })");
    explorer_expect_quiet(NULL);
}

/* The choice of lines is a list and a slider, both of the keyboard, and stands in the address. */
TEST(threshold)
{
    explorer_begin();
    explorer_open(VIEW);
    browser_expect(&browser,
                   "document.querySelector('.line-choice').value === 'largest'"
                   " && !document.querySelector('.tokens-view input[type=range]')"
                   " && !location.hash.includes('threshold')"
                   " && document.querySelector('.tokens-view [role=status]').textContent"
                   "   === `${3 * document.querySelectorAll('.rows .token').length} lines`");
    browser_do(&browser, "document.querySelector('.line-choice').focus()");
    browser_keys(&browser, "f");
    browser_wait(&browser, "/threshold=0.1(&|$)/.test(location.hash)");
    browser_do(&browser, "document.querySelector('.tokens-view input[type=range]').focus()");
    browser_keys(&browser, KEY_RIGHT);
    browser_wait(&browser, "/threshold=0.11(&|$)/.test(location.hash)");
    browser_do(&browser, "document.querySelector('.line-choice').focus()");
    browser_keys(&browser, "3");
    browser_wait(&browser, "!location.hash.includes('threshold')");
    explorer_expect_quiet(NULL);
}

/* A click turns a head on or off, a double click or Shift and Enter leaves it alone. */
TEST(heads)
{
    explorer_begin();
    explorer_open(VIEW);
    browser_click(&browser, ".swatch[data-head='2']");
    browser_wait(&browser, "decodeURIComponent(location.hash).includes('heads=0,1,3,4,5,6,7')");
    browser_expect(&browser, "document.querySelector('.swatch[data-head=\"2\"]')"
                             ".getAttribute('aria-pressed') === 'false'");
    browser_do(&browser, "document.querySelector('.swatch[data-head=\"5\"]').focus()");
    browser_keys_with(&browser, KEY_SHIFT, KEY_ENTER);
    browser_wait(&browser, "/heads=5(&|$)/.test(location.hash)");
    browser_do(&browser, "document.querySelector('.swatch[data-head=\"3\"]').dispatchEvent("
                         "new MouseEvent('dblclick', {bubbles: true}))");
    browser_wait(&browser, "/heads=3(&|$)/.test(location.hash)");
    browser_click(&browser, ".swatch[data-head='3']");
    browser_wait(&browser, "!location.hash.includes('heads')");
    explorer_expect_quiet(NULL);
}

/* A fixed token shows its lines alone, in the colour of the head from the token's own middle; the
 * line under it leads to why. */
TEST(fixed)
{
    explorer_begin();
    explorer_open(VIEW "&heads=3&threshold=0.3");
    browser_click(&browser, ".token-column.rows button[data-place='5']");
    browser_wait(&browser, "/&row=5(&|$)/.test(location.hash)");
    explorer_leave();
    browser_expect(
        &browser,
        "import('/explorer/draw/head_colours.js').then(({headColour}) => {"
        "  const canvas = document.querySelector('.token-lines canvas');"
        "  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', "
        "{willReadFrequently: true});"
        "  copy.drawImage(canvas, 0, 0);"
        "  const at = (row) => [...copy.getImageData(1, 24 * row + 12, 1, 1).data];"
        "  const wanted = headColour(3).match(/\\w\\w/g).map((hex) => parseInt(hex, 16));"
        "  return at(5)[3] > 0 && wanted.every((channel, c) => Math.abs(channel - at(5)[c]) < 6)"
        "    && at(2)[3] === 0 && at(6)[3] === 0; })");
    browser_click(&browser, ".token-numbers li[data-row='5'] button");
    browser_wait(&browser, "/view=why/.test(location.hash) && /row=5/.test(location.hash)");
    explorer_expect_quiet(NULL);
}

/* The zoom of a map is not the row of this view: both columns have all tokens. */
TEST(zoom_of_a_map)
{
    explorer_begin();
    explorer_open(VIEW "&rows=0:3&keys=0:3&row=2");
    browser_expect(&browser,
                   "document.querySelector('.status').textContent.includes("
                   "`, ${document.querySelectorAll('.rows [data-place]').length} tokens`)");
    browser_expect(&browser,
                   "document.querySelector('.status').textContent.includes("
                   "`, ${document.querySelectorAll('.keys [data-place]').length} tokens`)");
    explorer_expect_quiet(NULL);
}

/* What is listed of a token is the largest of its whole row, or of all who look at it, though the
 * columns show a part of the text. */
static void expect_list_of(const char *side, int index)
{
    explorer_open("model=stories260K&view=tokens&layer=0&threshold=0.05&%s=%d"
                  "&lineRows=100:120&lineKeys=100:120&text=%s%s%s",
                  side, index, LONG_TEXT, LONG_TEXT, LONG_TEXT);
    browser_expect(&browser, "document.querySelectorAll('.keys [data-place]').length === 20");
    browser_expect(
        &browser,
        "fetch('v1/trace', {method: 'POST', headers: {'Content-Type':"
        "    'application/json'}, body: JSON.stringify({model: 'stories260K', layers: [0],"
        "  text: new URLSearchParams(location.hash.slice(1)).get('text')})})"
        ".then((answer) => answer.json()).then(({layers: [{weights}]}) => {"
        "  const all = weights.flatMap((map, head) => map.flatMap((line, row) => line.map("
        "    (weight, key) => ({head, row, key, weight}))).filter((one) => one.%s === %d"
        "    && one.weight >= 0.05)).sort((a, b) => b.weight - a.weight);"
        "  const list = [...document.querySelectorAll('.token-numbers li')];"
        "  return list.length === Math.min(20, all.length) && list.every(({dataset}, i) =>"
        "    Math.abs(dataset.weight - all[i].weight) < 2e-5 * all[i].weight + 1e-7"
        "    && Math.abs(weights[dataset.head][dataset.row][dataset.key] - dataset.weight) < 2e-5)"
        "    && list.some(({dataset}) => dataset.key < 100 || dataset.row > 119); })",
        side, index);
}

TEST(lists_of_whole_rows)
{
    explorer_begin();
    expect_list_of("row", 110);
    expect_list_of("key", 101);
    explorer_expect_quiet(NULL);
}

/* 200 tokens a column; the buttons beside it lead on, and the fixed token is on the first page. */
TEST(pages)
{
    char text[2048] = "model=stories260K&view=tokens&layer=0&threshold=0.5&row=210&text=";
    size_t used = 0;
    while (text[used])
        used++;
    for (int i = 0; i < 60; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "Once+upon+a+time+");
    explorer_begin();
    explorer_open("%s", text);
    browser_expect(&browser,
                   "document.querySelector('.rows [data-place]').dataset.place === '200'");
    browser_expect(&browser, "document.querySelector('.keys [data-place]').dataset.place === '0'");
    browser_expect(&browser, "document.querySelectorAll('.keys [data-place]').length === 200");
    browser_click(&browser, "[aria-label='Later keys']");
    explorer_settle();
    browser_expect(&browser,
                   "document.querySelector('.keys [data-place]').dataset.place === '200'");
    browser_expect(&browser,
                   "document.querySelector('.pagers').textContent.includes('keys 200 to')");
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
