/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_exported_text.c - running text in files: a picture of the words as they are seen, in
 * lines as wide as it is, and the numbers of the row or key that is asked about. */
#include "browser_input.h"
#include "explorer.h"
#include "test.h"

#define TEXT "Once upon a time, Lily found a ball.\nShe was happy. "
#define LONG TEXT TEXT TEXT TEXT TEXT TEXT
#define VIEW "&view=tokens&form=text&layer=2"

/* Opens a view of a text; what is saved then is window.blob. */
static void open_text(const char *text, const char *members)
{
    explorer_begin();
    cJSON *quoted = cJSON_CreateString(text);
    char *written = cJSON_PrintUnformatted(quoted);
    cJSON *sent = browser_run(&browser, "return encodeURIComponent(%s)", written);
    explorer_open("model=stories260K&text=%s" VIEW "%s", sent->valuestring, members);
    cJSON_Delete(sent);
    free(written);
    cJSON_Delete(quoted);
    browser_do(&browser,
               "const make = URL.createObjectURL.bind(URL);"
               "URL.createObjectURL = (blob) => { window.blob = blob; return make(blob); }");
    browser_click(&browser, ".export > button");
    browser_wait(&browser, "document.querySelector('[name=curl]')");
}

/* Saves a file, and leaves its text, as an expression of `text`, in window.saved. */
static void save(const char *ending, const char *expression)
{
    browser_do(&browser, "window.blob = null");
    browser_do(&browser, "document.querySelector('[data-save=%s]').click()", ending);
    browser_wait(&browser, "window.blob !== null");
    browser_do(&browser, "return blob.text().then((text) => { window.saved = %s; })", expression);
}

#define SVG "new DOMParser().parseFromString(text, 'image/svg+xml').documentElement"

/* The file says how it is asked, has the numbers of the page as `text`, and those of each head as
 * the API gives them, to the last digit. */
static void expect_numbers(const char *text)
{
    save("json", "JSON.parse(text)");
    browser_expect(&browser,
                   "(({side, index, over, heads}) => JSON.stringify({side, index, over, heads}))"
                   "(saved.text) === JSON.stringify(%s)",
                   text);
    browser_expect(&browser,
                   "(() => { const words = [...document.querySelectorAll('.word')];"
                   "  return words.length === saved.text.weights.length && words.every(({dataset},"
                   "    at) => dataset.weight === 'NaN' ? saved.text.weights[at] === null"
                   "    : Math.fround(saved.text.weights[at]) === Number(dataset.weight)); })()");
    browser_expect(
        &browser,
        "(async () => { const {text: {side, index, heads, weights: {length}}, maps} = saved;"
        "  const {trace} = await (await fetch('v1/trace', {method: 'POST', headers: {'Content-Type'"
        "    : 'application/json'}, body: JSON.stringify({model: 'stories260K', text: new "
        "    URLSearchParams(location.hash.slice(1)).get('text'), outputs: [], keep: '1m'})}))"
        "    .json();"
        "  const [one, all] = [`${index}:${index + 1}`, `0:${length}`], isRow = side === 'row';"
        "  const wanted = new Float32Array(await (await fetch(`v1/traces/${trace}/weights?layer=2&"
        "head=all&hidden=nan&${isRow ? `rows=${one}&keys=${all}&cells=1x${length}`"
        "    : `rows=${all}&keys=${one}&cells=${length}x1`}`)).arrayBuffer());"
        "  return maps.length === heads.length && maps.every(({head, weights, ...map}, i) =>"
        "    head === heads[i] && map.row_tokens.length === (isRow ? 1 : length)"
        "    && map.key_tokens.length === (isRow ? length : 1) && weights.flat().length === length"
        "    && weights.flat().every((weight, at) => Object.is(weight === null ? NaN"
        "      : Math.fround(weight), wanted[head * length + at]))); })()");
}

TEST(numbers)
{
    open_text(TEXT, "");
    expect_numbers("{side: 'row', index: document.querySelectorAll('.word').length - 1, "
                   "over: 'mean', heads: [0, 1, 2, 3, 4, 5, 6, 7]}");
    open_text(TEXT, "&row=12&over=largest&heads=1,4");
    expect_numbers("{side: 'row', index: 12, over: 'largest', heads: [1, 4]}");
    open_text(LONG, "&key=3&heads=5");
    expect_numbers("{side: 'key', index: 3, over: 'mean', heads: [5]}");
    save("safetensors", "'' ");
    browser_expect(
        &browser,
        "Promise.all([import('/explorer/data/safetensors.js'), blob.arrayBuffer()])"
        ".then(([{readSafetensors}, bytes]) => { const {tensors, metadata} = readSafetensors("
        "bytes), words = [...document.querySelectorAll('.word')];"
        "  const same = (a, b) => (Number.isNaN(b) ? Number.isNaN(a) : a === b);"
        "  const {values, shape} = tensors.get('layers.2.weights');"
        "  return shape.join() === `1,${words.length},1` && ['text', 'layers.2.weights'].every("
        "    (name) => words.every(({dataset}, at) => same(tensors.get(name).values[at],"
        "      Number(dataset.weight)))) && JSON.parse(metadata.text).index === 3; })");
    explorer_expect_quiet(NULL);
}

/* Each word is there, as strong as on the page, and the one that is asked about has an outline. */
TEST(picture)
{
    open_text(LONG, "&row=40&heads=1,4");
    save("svg", SVG);
    browser_expect(
        &browser,
        "[...document.querySelectorAll('.word')].every(({dataset, style}) => {"
        "  const drawn = [...saved.querySelectorAll(`.word[data-place=\"${dataset.place}\"]`)];"
        "  return drawn.length > 0 && drawn.every((one) => one.dataset.weight === dataset.weight"
        "    && one.getAttribute('fill-opacity') === style.getPropertyValue('--strength')); })");
    browser_expect(&browser, "saved.querySelectorAll('.fixed').length === 1");
    browser_expect(
        &browser,
        "(() => { const [fixed, word] = ['.fixed', '.word[data-place=\"40\"]'].map((name) =>"
        "    saved.querySelector(name)); return fixed.getAttribute('y') === word.getAttribute('y')"
        "    && Math.abs(fixed.getAttribute('x') - word.getAttribute('x')) < 2; })()");
    browser_expect(&browser, "(({textContent}) => textContent.includes('row 40 of layer 2') &&"
                             " textContent.includes('the mean weight of heads 1, 4') && textContent"
                             ".includes(`Grey words may not be seen`))(saved)");
    browser_expect(&browser,
                   "saved.outerHTML.includes('fill=\"#ffffff\"') &&"
                   " !/NaN\"|undefined/.test(saved.outerHTML.replace(/data-weight=\"NaN\"/g, ''))");
    save("html", "text");
    browser_expect(&browser, "saved.includes('class=\"word\"')");
    explorer_expect_quiet(NULL);
}

/* Lines end within the column of a paper; the type is of 7 and 8 points; the caption says it all.
 */
TEST(paper)
{
    static const int WIDTHS[] = { 85, 170 };
    open_text(LONG, "&row=40");
    browser_click(&browser, ".paper summary");
    browser_wait(&browser, "document.querySelector('.preview')?.complete");
    for (int i = 0; i < 2; i++) {
        browser_do(&browser, "document.querySelector('[name=paper-width][value=\"%d\"]').click()",
                   WIDTHS[i]);
        explorer_settle();
        browser_do(&browser, "return blob.text().then((text) => { window.saved = " SVG "; })");
        browser_expect(&browser,
                       "saved.getAttribute('width') === '%dmm' && [...saved.querySelectorAll("
                       "'.word')].every((word) => Number(word.getAttribute('x')) >= 0 &&"
                       " Number(word.getAttribute('x')) + Number(word.getAttribute('width'))"
                       " <= saved.viewBox.baseVal.width)",
                       WIDTHS[i]);
        browser_expect(&browser, "new Set([...saved.querySelectorAll('.word')].map((word) =>"
                                 " word.getAttribute('y'))).size > 5");
        browser_expect(&browser, "[...saved.querySelectorAll('text')].every((text) =>"
                                 " [7, 8].includes(Number(text.getAttribute('font-size'))))");
    }
    browser_expect(&browser, "/layer 2, mean over heads 0 to 7: the text.*\\(40\\) looks at/.test("
                             "document.querySelector('[name=caption]').value)");
    explorer_expect_quiet(NULL);
}

/* A text that is markup, one that runs from the right and one with signs that XML has not are text
 * in the picture. */
TEST(hostile)
{
    open_text("</text><script>window.ran=1</script> \"so\" & ]]> \x01 é 🙂\n2", "");
    save("svg", SVG);
    browser_expect(&browser, "saved.nodeName === 'svg' && !saved.querySelector('script') &&"
                             " [...saved.querySelectorAll('text')].map(({textContent}) =>"
                             " textContent).join('').includes('</text><script>')");
    open_text("שלום עולם, one day שלום", "");
    save("svg", SVG);
    browser_expect(&browser,
                   "saved.nodeName === 'svg' && saved.querySelector('[direction] tspan').parentNode"
                   ".textContent.includes('one day')");
    browser_expect(&browser, "window.ran === undefined");
    explorer_expect_quiet(NULL);
}

ALL_TESTS(NULL, explorer_stop);
