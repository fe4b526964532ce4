// SPDX-License-Identifier: Apache-2.0
/* weights.js - files of weights that were computed elsewhere: the numbers of the page are those of the file. */
const { openSource } = await import(at('open.js'));
const { writeSafetensors } = await import(at('safetensors.js'));
const { getJson, postJson, call } = await import(at('api.js'));
const { models } = await getJson('v1/models');

const state = { model: 'sdpa', layer: null };
const random = numbersFrom(5);
const open = (name, content, options) => openSource({ file: fileOf(name, content), models, state, options });
const json = (value, options) => open('a.json', JSON.stringify(value), options);
const near7 = (what, got, wanted) => wanted.forEach((value, i) => near(`${what}: ${i}`, got[i], value, 1e-7));

/* Causal maps [heads][rows][keys] whose rows sum to 1. */
function mapsOf(heads, rows, keys = rows) {
    const values = new Float32Array(heads * rows * keys);
    for (let row = 0; row < heads * rows; row++) {
        const seen = Array.from({ length: Math.min(keys, row % rows + 1) }, random);
        const sum = seen.reduce((a, b) => a + b);
        seen.forEach((value, key) => { values[row * keys + key] = value / sum; });
    }
    return { dtype: 'F32', shape: [heads, rows, keys], values };
}

const listOf = ({ shape, values }) => listsOf(values, shape);
const all = ({ rows, keys, layer }, source, hidden = false) =>
    source.maps(layer, { head: 'all', hidden, rows: [0, rows], keys: [0, keys], cells: [rows, keys] });

/* That a source has these maps as its layers. */
async function expectLayers(what, source, layers) {
    same(`${what}: kind`, source.kind, 'weights');
    same(`${what}: shapes`, source.layers.map(({ heads, rows, keys }) => [heads, rows, keys]),
        layers.map(({ shape }) => shape));
    for (const [i, layer] of source.layers.entries())
        near7(`${what}: layer ${i}`, (await all(layer, source)).values, [...layers[i].values]);
    await source.close();
}

/* The shapes and names of arrays, in each kind of file. */
const [one, other] = [mapsOf(2, 4), mapsOf(2, 4)];
const wide = mapsOf(3, 2, 5);
await expectLayers('[layers][heads][q][k]', await json({ attentions: [listOf(one), listOf(other)] }), [one, other]);
await expectLayers('a batch of one in each layer', await json({ weights: [[listOf(one)], [listOf(wide)]] }),
    [one, wide]);
await expectLayers('a batch of one around', await json({ weights: [[listOf(one), listOf(other)]] }), [one, other]);
await expectLayers('[heads][q][k]', await json({ weights: listOf(one) }), [one]);
await expectLayers('[q][k]', await json({ weights: listOf(one)[1] }), [{ shape: [1, 4, 4], values:
    one.values.subarray(16) }]);
await expectLayers('layers of unequal sizes', await json({ weights: [listOf(one), listOf(wide)] }), [one, wide]);
await expectLayers('named by number', await open('a.safetensors', writeSafetensors({ 'attentions.10': other,
    'attentions.2': { ...one, shape: [1, 2, 4, 4] } })), [one, other]);
await expectLayers('named as by the API', await open('a.safetensors', writeSafetensors({ 'layers.3.weights': one,
    'layers.3.context': { dtype: 'F32', shape: [1], values: [0] } })), [one]);
await expectLayers('one tensor of all', await open('a.safetensors', writeSafetensors({ attn_weights: { dtype: 'F64',
    shape: [2, 1, 2, 4, 4], values: [...one.values, ...other.values] } })), [one, other]);
await expectLayers('one', await json({ weights: [[1]] }), [{ shape: [1, 1, 1], values: [1] }]);
const numbered = await open('a.safetensors', writeSafetensors({ 'layers.3.weights': one, 'layers.7.weights': other }));
same('numbers of layers', numbered.layers.map(({ layer }) => layer), [3, 7]);

/* Arrays without a name: weights where the numbers say so, or a person. */
await expectLayers('a bare list of shares', await json(listOf(one)), [one]);
await expectLayers('a bare list of layers', await json([listOf(one), listOf(mapsOf(3, 3)).slice(0, 1)]
    .map((heads, i) => (i ? [[[1, 0], [0.5, 0.5]]] : heads))),
[one, { shape: [1, 2, 2], values: [1, 0, 0.5, 0.5] }]);
await expectLayers('a tensor of another name', await open('a.safetensors', writeSafetensors({ x: one })), [one]);
const rows = [[0.5, 2], [3, 4]];
for (const [what, value, numbers, kind] of [['shares', listOf(one)[0], 'query', 'call'],
    ['others', rows, undefined, 'call'], ['others, by a person', rows, 'weights', 'weights'],
    ['wide', listOf(wide), undefined, 'call']]) {
    const source = await json(value, { numbers });
    same(`${what} without a name`, [source.kind, source.options.numbers],
        [kind, kind === 'call' ? 'query' : 'weights']);
    await source.close();
}

/* What is no share is said. */
for (const [value, words] of [[rows, 'rows sum to between 2.5 and 7, not to 1'], [[[0.81, 0], [0.4, 0.41]],
    'rows sum to 0.81, not to 1'], [[[1.25, -0.25], [0, 1]], 'weights down to −0.25'], [[[1, null], [0.5, 0.5]], ''],
[[[0, 0], [0.5, 0.5]], '']]) {
    const source = await json({ weights: value });
    same(`words of ${JSON.stringify(value)}`, source.words, words);
    await source.close();
}
const hidden = await json({ weights: [[1, null], [0.25, 0.75]] });
same('a pair that may not be seen', [(await all(hidden.layers[0], hidden, true)).values.map(Number.isNaN)[1],
    (await hidden.pair({ layer: 0, head: 0, row: 0, key: 1 })).weight], [1, null]);
near('entropy without it', (await hidden.statistics()).get(0).entropy[0], 0.2811676, 1e-6);

/* Tokens. */
for (const [members, rowLabels, keyLabels, unit] of [
    [{}, ['row 0', 'row 1'], ['row 0', 'row 1'], 'row'],
    [{ tokens: ['a', '▁b'] }, ['a', '␣b'], ['a', '␣b'], 'token'],
    [{ tokens: ['Ġa', 'b'] }, ['␣a', 'b'], ['␣a', 'b'], 'token'],
    [{ row_tokens: ['<b>', 7], key_tokens: [{ id: 3, text: 'c' }, 'd'] }, ['<b>', '7'], ['c', 'd'], 'token'],
    [{ tokens: ['a'] }, ['row 0', 'row 1'], ['row 0', 'row 1'], 'row'],
]) {
    const source = await json({ weights: [[1, 0], [0, 1]], ...members });
    const [{ rowTokens, keyTokens }] = source.layers;
    same(`tokens ${JSON.stringify(members)}`, [rowTokens.map(({ label }) => label),
        keyTokens.map(({ label }) => label), source.unit], [rowLabels, keyLabels, unit]);
    same('tokens that fit no map', source.words,
        members.tokens?.length === 1 ? 'the file\'s tokens (1) fit no map' : '');
    await source.close();
}
const crossed = await json({ cross_attentions: [[listOf(wide)]], decoder_tokens: ['a', 'b'],
    tokens: ['1', '2', '3', '4', '5'] });
same('both sides of cross attention', [crossed.layers[0].rowTokens[1].label, crossed.layers[0].keyTokens[4].label,
    crossed.layers[0].kind], ['b', '5', 'cross']);
same('no distance across', (await crossed.statistics()).get(0).distance, [null, null, null]);

/* Answers of the API come back as they went, with the API's own statistics. */
const input = { model: 'stories260K', text: 'Once upon a time there was a little girl.' };
const asked = await postJson('v1/trace', { ...input, outputs: ['weights'], keep: '1m' });
const expected = await getJson(`v1/traces/${asked.trace}/statistics`);
const packed = await call('POST', 'v1/trace', { headers: { 'Content-Type': 'application/json',
    Accept: 'application/x-safetensors' }, body: JSON.stringify({ ...input, outputs: ['weights'] }) });
for (const source of [await json(asked), await open('a.safetensors', await packed.arrayBuffer())]) {
    same('its tokens', source.layers[2].keyTokens.slice(0, 3).map(({ label }) => label), ['<s>', '␣Once', '␣upon']);
    same('its layers', source.layers.map(({ layer }) => layer), [0, 1, 2, 3, 4]);
    const [layer] = source.layers.slice(-1);
    near7('its weights', (await all(layer, source)).values, asked.layers[4].weights.flat(2));
    const own = await source.statistics();
    for (const { layer: number, ...statistics } of expected.layers)
        for (const name of ['entropy', 'distance', 'first', 'previous', 'self'])
            statistics[name].forEach((value, head) =>
                near(`${name} of ${number}, ${head}`, own.get(number)[name][head], value, 1e-5));
    same('no delimiters', own.get(0).delimiters[0], null);
    await source.close();
}
await call('DELETE', `v1/traces/${asked.trace}`);
const attended = await postJson('v1/attention', { model: 'sdpa', query: [[1, 0], [0, 1]] });
const again = await json(attended);
near7('an answer of attention', (await all(again.layers[0], again)).values, attended.weights.flat(2));

/* Many heads and rows, in cells. */
const big = mapsOf(6, 1000);
const large = await open('a.safetensors', writeSafetensors({ 'layers.0.weights': one, 'layers.1.weights': big }));
const halves = await open('a.safetensors', writeSafetensors({ weights: { ...mapsOf(2, 300), dtype: 'BF16' } }));
same('sums of so many, and of few digits', [large.words, halves.words], ['', '']);
const pooled = await large.maps(1, { head: 5, rows: [10, 1000], keys: [3, 900], cells: [30, 40] });
const first = [0, 0, 0];
for (let row = 10; row < 43; row++)
    for (let key = 3; key < 3 + Math.ceil(897 / 40); key++)
        first[0] = Math.max(first[0], big.values[(5 * 1000 + row) * 1000 + key]);
near('the first cell', pooled.values[0], first[0], 1e-3);
same('cells', [pooled.rows, pooled.keys], [30, 40]);
const ended = new AbortController();
ended.abort();
same('a call that nobody waits for', await large.maps(1, { head: 'all', rows: [0, 1000], keys: [0, 1000],
    cells: [64, 64], signal: ended.signal }).catch(({ name }) => name), 'AbortError');
await large.close();

/* Broken and hostile files. */
const tensor = (shape, count = shape.reduce((a, b) => a * b, 1)) => writeSafetensors({ weights: { dtype: 'U8', shape,
    values: new Uint8Array(count) } });
for (const [name, content, ...expectedWords] of [
    ['a.json', '{"weights":[[1,0],[1]]}', 'unequal length', '2'], ['a.json', '{"weights":[]}', '\'weights\'', 'shape'],
    ['a.json', '{"weights":[[]]}', 'nothing'], ['a.json', '{"weights":[["x"]]}', '"x"'],
    ['a.json', '{"weights":[[[[1]],[[1,2]]]]}', 'unequal'], ['a.json', '{"weights":[1,2]}', '[2]'],
    ['a.json', `{"weights":${'['.repeat(1e5)}${']'.repeat(1e5)}}`, 'axes'],
    ['a.json', '{"weights":[[1e39]]}', 'Layer 0, head 0, row 0, key 0', 'Infinity'],
    ['a.json', '{"weights":[[0,1],[0,-1e400]]}', 'row 1, key 1'],
    ['a.json', '{"weights":[[[[1]]],[[[1]],[[1]]],[[[[1]],[[1]]],[[[1]],[[1]]]]]}', 'batch of 2'],
    ['a.json', '{"weights":[[1]],"tokens":3}', '\'tokens\''],
    ['a.json', '{"weights":[[1]],"tokens":[[1]]}', '\'tokens\''],
    ['a.safetensors', tensor([5000, 1, 1]), '5000 heads'], ['a.safetensors', tensor([70000, 1]), '70000 rows'],
    ['a.safetensors', tensor([0, 1e15]), 'nothing'], ['a.safetensors', tensor([1, 1, 1, 1, 1, 1, 1]), 'shape'],
    ['a.safetensors', tensor([0, 1, 1, 1]), 'nothing'],
    ['a.safetensors', tensor([3000, 3000, 1, 1], 9e6), '9000000 heads'],
    ['a.safetensors', tensor([2, 2]).slice(0, -1), '3'],
    ['a.safetensors', writeSafetensors({ weights: { dtype: 'F32', shape: [1, 1], values: [1] } }, { tokens: '[' }),
        '\'tokens\' of __metadata__'],
])
    await fails(typeof content === 'string' ? content.slice(0, 60) : name, () => open(name, content), ...expectedWords);
