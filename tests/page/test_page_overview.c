/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_overview.c - all heads: sorted and filtered by what they do, said in words, and read
 * only while somebody looks; as wide as the screen is. */
#include "browser_input.h"
#include "explorer.h"
#include "fixture.h"
#include "test.h"

#define STATISTIC                                                                                  \
    "[...document.querySelectorAll('tr[data-layer] td[data-statistic=previous]')]"                 \
    ".map((cell) => Number(cell.dataset.value))"

/* The heads that a range lets through are the same in the grid, one after the other and in the
 * table, where they fall. */
TEST(filter)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT "&filter=previous:0.3:0.8");
    browser_do(&browser, "window.left = document.querySelectorAll('button.map:not(.out)').length");
    browser_expect(&browser, "left > 2 && left < 38");
    browser_expect(&browser, "document.querySelectorAll('button.map').length === 40");
    browser_expect(&browser, "document.querySelector('[data-heads-left]').textContent ==="
                             " `${left} of 40 heads`");
    explorer_open(EXPLORER_TEXT "&filter=previous:0.3:0.8&sort=previous");
    browser_do(&browser, "window.flow = [...document.querySelectorAll('.map-flow button')]"
                         ".map((button) => button.dataset.layer + ' ' + button.dataset.head)");
    browser_do(&browser, "document.querySelector('input[value=table]').click()");
    explorer_settle();
    browser_expect(&browser, STATISTIC ".every((value, i, all) =>"
                                       " value >= 0.3 && value <= 0.8 && !(value > all[i - 1]))");
    browser_expect(&browser, "[...document.querySelectorAll('tr[data-layer]')].map(({dataset}) =>"
                             " dataset.layer + ' ' + dataset.head).join() === flow.join()");
    browser_expect(&browser, "flow.length > 2");
    browser_expect(&browser, "document.querySelector('[aria-sort=descending]').textContent"
                             ".includes('Previous')");
    explorer_expect_quiet(NULL);
}

/* The end of a range by the keys of its slider; a range as wide as can be is none. */
TEST(sliders)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    browser_click(&browser, ".overview-filter summary");
    browser_do(&browser, "document.querySelector('[aria-label=\"least First\"]').focus()");
    browser_keys(&browser, KEY_RIGHT KEY_RIGHT KEY_RIGHT);
    browser_wait(&browser, "decodeURIComponent(location.hash).includes('filter=first:0.03:1')");
    browser_keys(&browser, KEY_HOME);
    browser_wait(&browser, "!location.hash.includes('filter')");
    explorer_expect_quiet(NULL);
}

/* What a head does stands in words at its button and, with its numbers, above the maps, which do
 * not move. */
TEST(words)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    browser_do(&browser, "window.top0 = document.querySelector('.map-scroller').offsetTop;"
                         "document.querySelector('[data-layer=\"1\"][data-head=\"3\"]').focus()");
    explorer_settle();
    browser_expect(&browser, "document.querySelector('.map-scroller').offsetTop === top0");
    browser_expect(&browser,
                   "/^Layer 1, head 3: looks at the previous token \\(0\\.\\d\\d\\)$/.test("
                   "document.activeElement.getAttribute('aria-label'))");
    browser_expect(&browser, "document.querySelector('.head-detail').textContent.includes("
                             "document.activeElement.getAttribute('aria-label').split(': ')[1])");
    explorer_open(EXPLORER_TEXT);
    browser_expect(
        &browser,
        "import('/explorer/views/head_words.js').then(({describeHead, passesFilter}) => {"
        "  const entry = (statistics) => ({layer: {keys: 100}, statistics: {entropy: 1, distance:"
        "    null, first: 0.1, previous: null, self: null, delimiters: 0.1, ...statistics}});"
        "  return describeHead(entry({first: 0.9})) === 'looks at the first token (0.90)'"
        "    && describeHead(entry({delimiters: 0.7})) === 'looks at delimiters (0.70)'"
        "    && describeHead(entry({entropy: 4})).startsWith('spreads over many tokens')"
        "    && !describeHead(entry({})).includes('away')"
        "    && !passesFilter(entry({}), {distance: [0, 9]})"
        "    && !passesFilter(entry({}), {entropy: [0, 0.9]}) && !passesFilter(entry({}), "
        "{entropy: [2, 3]})"
        "    && passesFilter(entry({}), {entropy: [0, 1]}); })");
    explorer_expect_quiet(NULL);
}

/* The maps of a layer are asked for once however many heads want them; when the last one has
 * scrolled away before they came, the request is ended, and the next wish asks anew. */
TEST(aborts)
{
    explorer_begin();
    explorer_open(EXPLORER_TEXT);
    browser_expect(
        &browser,
        "import('/explorer/views/maps_loader.js').then(async ({MapsLoader}) => {"
        "  const asked = [], reading = [], faults = [], came = [], layer = {layer: 7, rows: 3,"
        "    keys: 3};"
        "  const source = {maps: (number, {signal}) => new Promise((resolve, reject) => {"
        "    asked.push({number, signal, resolve, reject});"
        "    signal.addEventListener('abort', () => reject(new DOMException('', 'AbortError')));"
        "  })};"
        "  const loader = new MapsLoader(source, () => [3, 3], {onChange: (all) =>"
        "    reading.push(all.length), onFault: (fault) => faults.push(fault)});"
        "  const ends = [1, 2].map((call) => loader.want(layer, (maps) => came.push([call, "
        "maps])));"
        "  const isOne = asked.length === 1 && !asked[0].signal.aborted;"
        "  ends[0]();"
        "  const isKept = !asked[0].signal.aborted;"
        "  ends[1]();"
        "  const isEnded = asked[0].signal.aborted && reading.at(-1) === 0;"
        "  loader.want(layer, (maps) => came.push([3, maps]));"
        "  asked[1].resolve('maps');"
        "  await new Promise((resolve) => setTimeout(resolve));"
        "  loader.want(layer, (maps) => came.push([4, maps]));"
        "  const other = {...layer, layer: 8};"
        "  loader.want(other, () => came.push('never'));"
        "  asked[2].reject(new Error('no'));"
        "  await new Promise((resolve) => setTimeout(resolve));"
        "  return isOne && isKept && isEnded && asked.length === 3 && faults.length === 1"
        "    && JSON.stringify(came) === '[[3,\"maps\"],[4,\"maps\"]]'; })");
}

/* 32 heads of 3 tokens. */
static void give_many_heads(void)
{
    char text[4096], path[512];
    int size = snprintf(text, sizeof text, "{\"query\":[");
    for (int row = 0; row < 3; row++) {
        size += snprintf(text + size, sizeof text - (size_t)size, "%s[", row > 0 ? "," : "");
        for (int i = 0; i < 64; i++)
            size += snprintf(text + size, sizeof text - (size_t)size, "%s%d", i > 0 ? "," : "",
                             (i * (row + 1)) % 5);
        size += snprintf(text + size, sizeof text - (size_t)size, "]");
    }
    size += snprintf(text + size, sizeof text - (size_t)size, "],\"q_heads\":32,\"kv_heads\":32}");
    daemon_directory_write(browser.directory, "heads.json", text, (size_t)size);
    snprintf(path, sizeof path, "%s/heads.json", browser.directory);
    browser_give_file(&browser, "input[type=file]", path);
    explorer_settle();
}

#define SEEN                                                                                       \
    "((box) => [...document.querySelectorAll('button.map')].every((one) =>"                        \
    " one.getBoundingClientRect().right <= box.right))"                                            \
    "(document.querySelector('.map-scroller').getBoundingClientRect())"

/* No head is cut off where all have room, and a wide screen has no empty half. */
TEST(width)
{
    explorer_begin();
    explorer_open("model=sdpa");
    give_many_heads();
    browser_expect(&browser, "document.querySelectorAll('button.map').length === 32 && " SEEN);
    browser_resize(&browser, 1920, 1080);
    explorer_open(EXPLORER_TEXT);
    browser_wait(&browser, EXPLORER_HAS_PICTURE);
    browser_expect(&browser, SEEN);
    browser_expect(&browser,
                   "((maps, aside) => maps.width > 0.6 * innerWidth && aside.left >= maps.right"
                   "  && maps.width + aside.width > 0.9 * innerWidth)"
                   "(...['.map-scroller', '.head-look'].map((name) =>"
                   "  document.querySelector(name).getBoundingClientRect()))");
    browser_expect(&browser, "document.querySelector('.head-preview canvas').clientWidth > 200");
    browser_resize(&browser, 1280, 800);
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
