/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_exported.c - every number of a file is the API's, at 67, 300 and 2 000 tokens, whatever
 * a view draws of them; where a file holds the largest of several, it says of which. */
#include "explorer.h"
#include "fixture.h"
#include "test.h"
#include "traced_model.h"

static void begin(void)
{
    browser_skip_without();
    if (server.pid == 0) {
        directory = daemon_directory_create();
        traced_model_save(directory);
        fixture_serve("--models", directory);
    }
    explorer_begin();
    explorer_open("%s", "");
}

/* Functions of window: make(count, state, other) -> what both files of a view over so many tokens
 * of the llama hold; truth(count, layer) -> the weights of a layer, one answer of POST /v1/trace;
 * differs(map, truth) -> '' or the first number that is not the API's. */
static const char FUNCTIONS[] =
    "const [{openTrace}, {INITIAL}, {gatherSheet}, numbers, {readSafetensors}] ="
    "  await Promise.all(['data/source_trace', 'data/state', 'save/sheet', 'save/numbers',"
    "  'data/safetensors'].map((name) => import(`/explorer/${name}.js`)));"
    "const idsOf = (count) => Array.from({length: count}, (_, i) => i * 7 % 40);"
    "const sources = new Map(), answers = new Map();"
    "window.make = async (count, state, other = null) => {"
    "  if (!sources.has(count))"
    "    sources.set(count, await openTrace({model: 'llama', tokens: idsOf(count)}));"
    "  const source = sources.get(count), side = other && {source, ...other};"
    "  const full = {...INITIAL, model: 'llama', layer: 0, head: 0, ...state};"
    "  const sheet = await gatherSheet(full, source, side, true);"
    "  const requests = [source.request()];"
    "  return {json: JSON.parse(numbers.jsonOf(sheet, requests)), labels: "
    "source.layers[0].keyTokens"
    "    .map(({label}) => label), tensors: readSafetensors(numbers.safetensorsOf(sheet, requests)"
    "    .buffer)}; };"
    "window.truth = async (count, layer) => {"
    "  const name = `${count} ${layer}`;"
    "  if (!answers.has(name)) {"
    "    const answer = await fetch('/v1/trace', {method: 'POST', headers: {'Content-Type':"
    "      'application/json', Accept: 'application/x-safetensors'}, body: JSON.stringify({model:"
    "      'llama', tokens: idsOf(count), layers: [layer]})});"
    "    answers.set(name, readSafetensors(await answer.arrayBuffer()).tensors"
    "      .get(`layers.${layer}.weights`));"
    "  } return answers.get(name); };"
    "window.differs = ({weights, head, rows, keys}, {shape: [, n, m], values}) => {"
    "  if (weights.length !== rows[1] - rows[0] || weights[0].length !== keys[1] - keys[0])"
    "    return `${weights.length} x ${weights[0].length}`;"
    "  for (let i = 0; i < weights.length; i++) for (let j = 0; j < weights[i].length; j++) {"
    "    const wanted = values[(head * n + rows[0] + i) * m + keys[0] + j];"
    "    if (Math.abs((weights[i][j] ?? 0) - wanted) > 2e-7)"
    "      return `head ${head}, ${rows[0] + i}, ${keys[0] + j}: ${weights[i][j]}, not ${wanted}`; "
    "}"
    "  return ''; };";

static void define(void)
{
    begin();
    browser_do(&browser, "return (async () => { %s })()", FUNCTIONS);
}

/* Fails the test with the words that a script gives, unless they are ''. */
static void expect_none(const char *script, int count)
{
    char *said = browser_text(&browser, "(async (count) => { %s })(%d)", script, count);
    if (*said)
        fail_msg("%d tokens: %s", count, said);
    free(said);
}

/* All heads, one, a window of it, those of the columns, and both sides of a comparison with their
 * difference: JSON and safetensors. */
static const char ALL[] =
    "const wrong = [];"
    "const check = async (state, other, heads) => {"
    "  const {json, tensors, labels} = await make(count, state, other);"
    "  if (json.maps.length !== heads) wrong.push(`${json.maps.length} maps`);"
    "  for (const map of json.maps) {"
    "    if (map.reduction) wrong.push(`${map.name} is reduced`);"
    "    if (map.row_tokens.join() !== labels.slice(...map.rows).join()"
    "      || map.key_tokens.join() !== labels.slice(...map.keys).join()) wrong.push('tokens');"
    "    if (map.name.includes('−')) continue;"
    "    wrong.push(differs(map, await truth(count, map.layer))); }"
    "  const same = (a, b) => (b === null ? Number.isNaN(a) : Math.fround(b) === a);"
    "  const byName = new Map();"
    "  for (const map of json.maps) {"
    "    const side = map.name.includes('−') ? 'difference.' : map.layer === other?.layer ? "
    "'other.'"
    "      : '', name = `${side}layers.${map.layer}.weights`;"
    "    byName.set(name, [...byName.get(name) ?? [], map]); }"
    "  for (const [name, maps] of byName) {"
    "    const tensor = tensors.tensors.get(name), flat = maps.flatMap(({weights}) =>"
    "      weights.flat());"
    "    if (tensor?.values.length !== flat.length || !flat.every((weight, i) =>"
    "      same(tensor.values[i], weight))) wrong.push(`${name} in safetensors`); } };"
    "await check({view: 'overview'}, null, 12);"
    "await check({view: 'head', layer: 1, head: 2}, null, 1);"
    "await check({view: 'head', layer: 1, head: 2, rows: [5, 40], keys: [3, 61]}, null, 1);"
    "await check({view: 'tokens', layer: 2}, null, 4);"
    "await check({view: 'compare', layer: 1, head: 2, difference: true}, {layer: 2, head: 3}, 3);"
    "return wrong.filter(Boolean)[0] ?? '';";

TEST(numbers_of_67_tokens)
{
    define();
    expect_none(ALL, 67);
}

TEST(numbers_of_300_tokens)
{
    define();
    expect_none(ALL, 300);
}

/* One head has all its numbers still. All heads are cells, each the largest of its rows and keys,
 * which the file names. */
TEST(numbers_of_2000_tokens)
{
    define();
    expect_none("const {json, tensors} = await make(count, {view: 'head', layer: 1, head: 2});"
                "const [map] = json.maps;"
                "const wrong = differs(map, await truth(count, 1));"
                "const tensor = tensors.tensors.get('layers.1.weights');"
                "return wrong || (map.reduction ? 'reduced' : '') ||"
                " (map.row_tokens.length === count && tensor.values.length === count * count &&"
                " tensor.shape.join() === `1,${count},${count}` ? '' : 'tokens or safetensors');",
                2000);
    expect_none(
        "const {json, tensors} = await make(count, {view: 'overview'});"
        "for (const map of json.maps) {"
        "  if (map.reduction !== 'max' || map.row_tokens.length !== count) return 'no reduction';"
        "  if (map.row_ranges.length !== map.weights.length || map.row_ranges.at(-1)[1] !== count)"
        "    return 'row_ranges'; }"
        "const said = JSON.parse(tensors.metadata.maps)['layers.1.weights'];"
        "if (said.reduction !== 'max' || said.key_ranges.length !== tensors.tensors"
        "  .get('layers.1.weights').shape[2]) return 'safetensors says no reduction';"
        "const {shape: [, n, m], values} = await truth(count, 1);"
        "for (const map of json.maps.filter(({layer}) => layer === 1))"
        "  for (const [i, j] of [[0, 0], [7, 3], [100, 100], [map.weights.length - 1, 5]]) {"
        "    let most = 0;"
        "    for (let row = map.row_ranges[i][0]; row < map.row_ranges[i][1]; row++)"
        "      for (let key = map.key_ranges[j][0]; key < map.key_ranges[j][1]; key++)"
        "        most = Math.max(most, values[(map.head * n + row) * m + key]);"
        "    if (Math.abs((map.weights[i][j] ?? 0) - most) > 2e-7)"
        "      return `head ${map.head}, cell ${i}, ${j}: ${map.weights[i][j]}, not ${most}`; }"
        "return '';",
        2000);
}

/* A pair that may not be seen is no weight of 0: null in JSON, NaN in safetensors, hatched in a
 * picture, and the HTML file says so. */
TEST(pairs_that_may_not_be_seen)
{
    begin();
    browser_expect(
        &browser,
        "(async () => {"
        "  const [{INITIAL}, {gatherSheet}, numbers, {readSafetensors}, {svgOf}, {paperForm}, "
        "html] ="
        "    await Promise.all(['data/state', 'save/sheet', 'save/numbers', 'data/safetensors',"
        "    'save/svg', 'save/svg_text', 'save/html'].map((name) => "
        "import(`/explorer/${name}.js`)));"
        "  const tokens = Array.from({length: 4}, (_, i) => ({label: String(i)}));"
        "  const layer = {layer: 0, heads: 1, rows: 4, keys: 4, rowTokens: tokens, keyTokens: "
        "tokens};"
        "  const source = {model: 'm', title: 't', layers: [layer], maps: async (_, {hidden}) => ({"
        "    heads: 1, rows: 4, keys: 4, values: Float32Array.from({length: 16}, (_, i) =>"
        "    (i %% 4 <= Math.floor(i / 4) ? 1 / (1 + Math.floor(i / 4)) : hidden ? NaN : 0))})};"
        "  const state = {...INITIAL, view: 'head', layer: 0, head: 0};"
        "  const sheet = await gatherSheet(state, source, null, true);"
        "  const {maps: [map]} = JSON.parse(numbers.jsonOf(sheet, []));"
        "  const file = readSafetensors(numbers.safetensorsOf(sheet, []).buffer);"
        "  const {values} = file.tensors.get('layers.0.weights');"
        "  const pictures = [undefined, paperForm(85)].map((form) => svgOf(sheet, state, "
        "form).text);"
        "  return map.weights.flat().every((weight, i) => (weight === null) === (i %% 4 >"
        "    Math.floor(i / 4))) && map.hidden.includes('null') && map.hidden.includes('NaN')"
        "    && values.every((value, i) => Number.isNaN(value) === (i %% 4 > Math.floor(i / 4)))"
        "    && file.metadata.maps.includes('NaN')"
        "    && pictures.every((text) => text.includes('fill=\"url(#hidden)\"') &&"
        "      text.includes('pattern id=\"hidden\"') && !/NaN|undefined/.test(text))"
        "    && pictures[0].includes('Hatched: no pair there may be seen.')"
        "    && html.htmlOf(sheet, svgOf(sheet, state), [], '').includes('may not look at'); })()");
}

ALL_TESTS(NULL, explorer_stop);
