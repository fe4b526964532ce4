/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_why.c - why a whole row has its weights: the products of each key, as the API has them.
 */
#include "browser_input.h"
#include "explorer.h"
#include "fixture.h"
#include "test.h"

#define ROW "&view=why&layer=1&head=4&row=6&key=2"

/* The trace that the page keeps. */
#define ID "seen.asked.join(' ').match(/[0-9a-f]{32}/)[0]"

/* The row's keys stand in the order of their weights, each with the sum, score and weight of the
 * API, and its strip has the colours of its products; a click looks at that pair. */
TEST(row)
{
    explorer_begin();
    explorer_open("%s", EXPLORER_TEXT ROW);
    browser_expect(
        &browser,
        "(async () => { const {colourOf} = await import('/explorer/draw/colours.js');"
        "  const rows = [...document.querySelectorAll('.why-row tr[data-key]')];"
        "  const near = (got, wanted) => Math.abs(got - wanted) <= 1e-6 + 1e-5 * Math.abs(wanted);"
        "  const pairs = await Promise.all(rows.map(({dataset}) => fetch(`v1/traces/${" ID "}/pair"
        "?layer=1&head=4&row=6&key=${dataset.key}`).then((answer) => answer.json())));"
        "  const sizes = pairs.map(({products}) => Math.max(...products.map(Math.abs)));"
        "  const most = Math.max(...sizes);"
        "  const same = (canvas, values, size) => { const copy = new OffscreenCanvas(canvas.width, "
        "1)"
        "      .getContext('2d'); copy.drawImage(canvas, 0, 0);"
        "    const {data} = copy.getImageData(0, 0, canvas.width, 1);"
        "    return canvas.width === values.length && values.every((value, i) => `#${[...data."
        "      subarray(4 * i, 4 * i + 3)].map((one) => one.toString(16).padStart(2, "
        "'0')).join('')}`"
        "      === colourOf(Math.fround(value / size), {scale: 'linear', palette: 'difference'})); "
        "};"
        "  const query = document.querySelector('.why-row tr.query canvas');"
        "  const vector = pairs[0].query_vector;"
        "  return rows.length === 7 && same(query, vector, Math.max(...vector.map(Math.abs)))"
        "    && pairs.every((pair, i) => i === 0 || pair.weight <= pairs[i - 1].weight)"
        "    && rows.every(({dataset}, i) => near(dataset.weight, pairs[i].weight)"
        "      && near(dataset.score, pairs[i].score)"
        "      && near(dataset.sum, pairs[i].products.reduce((sum, one) => sum + one, 0)))"
        "    && rows.every((row, i) => same(row.querySelector('canvas'), pairs[i].products, "
        "most)); })()");
    browser_expect(&browser, "document.querySelector('.why-row tr.marked').dataset.key === '2'"
                             " && document.querySelectorAll('.why-row tr.marked').length === 1");
    browser_click(&browser, ".why-row tr[data-key='5'] button");
    browser_wait(&browser, "/&key=5(&|$)/.test(location.hash)");
    browser_wait(&browser, "document.querySelector('.why-row tr.marked').dataset.key === '5'");
    explorer_expect_quiet(NULL);
}

/* Of many keys 16 are asked for, and 16 more by a button: an answer each. */
TEST(long_row)
{
    explorer_begin();
    explorer_open("%s",
                  "model=stories260K" ROW "&text=One+day+Lily+found+a+ball+in+the+park.+She+was+"
                  "happy.+One+day+Lily+found+a+ball+in+the+park.&row=20");
    browser_expect(&browser, "document.querySelectorAll('.why-row tr[data-key]').length === 16");
    browser_expect(&browser, "seen.asked.filter((call) => call.includes('/pairs?')).length === 1");
    browser_do(&browser, "document.querySelector('.why-row .more').focus()");
    browser_keys(&browser, KEY_ENTER);
    browser_wait(&browser, "document.querySelectorAll('.why-row tr[data-key]').length === 21");
    browser_expect(&browser, "seen.asked.filter((call) => call.includes('/pairs?')).length === 2"
                             " && !document.querySelector('.why-row .more')");
    explorer_expect_quiet(NULL);
}

/* The same of a file's query and key, of which nothing is kept. */
TEST(call)
{
    explorer_begin();
    explorer_open("%s", EXPLORER_TEXT);
    browser_expect(
        &browser,
        "import('/explorer/data/source_call.js').then(async ({openCall}) => {"
        "  const tensor = (shape, from) => ({dtype: 'F32', shape, values: Float32Array.from("
        "    {length: shape.reduce((a, b) => a * b)}, (_, i) => Math.sin(from + i))});"
        "  const source = openCall({kind: 'attention', tensors: {query: tensor([2, 5, 4], 1),"
        "    key: tensor([2, 5, 4], 2), value: tensor([2, 5, 4], 3)}, fields: {}}, null, 0, "
        "'file');"
        "  const asked = {layer: 0, head: 1, row: 3};"
        "  const answer = await source.pairs({...asked, keys: [4, 0]});"
        "  const two = await Promise.all([4, 0].map((key) => source.pair({...asked, key})));"
        "  return JSON.stringify(answer.keys.map((pair) => ({...asked, query_vector:"
        "    answer.query_vector, scale: answer.scale, lse: answer.lse, ...pair})))"
        "    === JSON.stringify(two) && two[0].products.length === 4; })");
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
