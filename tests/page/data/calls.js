// SPDX-License-Identifier: Apache-2.0
/* calls.js - dropped files of query and key: the numbers of the page are those of one whole call of /v1/attention. */
const { readCallFile } = await import(at('call_file.js'));
const { openCall } = await import(at('source_call.js'));
const { openSource } = await import(at('open.js'));
const { writeSafetensors } = await import(at('safetensors.js'));
const { getJson, postJson } = await import(at('api.js'));
const { models } = await getJson('v1/models');

const random = numbersFrom(11);
const randomValues = (count) => Float32Array.from({ length: count }, () => random() * 3 - 1.5);
const tensorOf = (...shape) => ({ dtype: 'F32', shape, values: randomValues(shape.reduce((a, b) => a * b)) });
const textOf = ({ shape, values }) => listsOf(values, shape);
const STAGES = { score: 'scores', softcapped: 'softcapped', masked: 'masked', weight: 'weights' };

/* That a file's source has the numbers of a call with this body. */
async function expectCall(what, file, given, body) {
    const source = await openSource({ file, models, ...given });
    const { layer, heads, rows, keys } = source.layers[0];
    const whole = await postJson('v1/attention', { ...body, outputs: ['lse', ...Object.values(STAGES)] });
    const { weights } = whole;
    same(`${what}: the shape`, [heads, rows, keys], [weights.length, weights[0].length, weights[0][0].length]);
    const all = await source.maps(layer, { head: 'all', rows: [0, rows], keys: [0, keys], cells: [rows, keys] });
    weights.flat(2).forEach((weight, i) => near(`${what}: weight ${i}`, all.values[i], weight, 1e-6));
    for (let i = 0; i < 8; i++) {
        const [head, row, key] = [i % heads, i * 7 % rows, i * 5 % keys];
        const pair = await source.pair({ layer, head, row, key });
        for (const [member, output] of Object.entries(STAGES)) {
            const expected = whole[output][head][row][key];
            if (expected === null)
                same(`${what}: ${member} of ${head}, ${row}, ${key}`, pair[member], null);
            else
                near(`${what}: ${member} of ${head}, ${row}, ${key}`, pair[member] ?? NaN, expected, 1e-5);
        }
        near(`${what}: lse`, pair.lse, whole.lse[head][row], 1e-5);
        if (pair.products)
            near(`${what}: products`, pair.scale * pair.products.reduce((a, b) => a + b), pair.score, 1e-5);
    }
    const { method, path, headers, body: sent } = source.weightsRequest(layer, heads - 1);
    const response = await fetch(path, { method, headers: { ...headers, Accept: 'application/json' }, body: sent });
    const last = all.values.subarray((heads - 1) * rows * keys);
    (await response.json()).weights.flat(2).forEach(
        (weight, i) => near(`${what}: what curl gets, ${i}`, last[i], weight, 1e-6));
    await source.close();
}

const sdpa = { state: { model: 'sdpa', layer: null } };
const query = tensorOf(4, 6, 8);
const key = tensorOf(2, 9, 8);
const value = tensorOf(2, 9, 8);
const lists = { model: 'sdpa', query: textOf(query), key: textOf(key) };
const options = { causal: true, scale: 0.5, softcap: 3, past_len: 2 };
const metadata = Object.fromEntries(Object.entries(options).map(([name, option]) => [name, String(option)]));
const shared = writeSafetensors({ query, key, value }, { ...metadata, format: 'pt' });
await expectCall('shared key heads', fileOf('a.safetensors', shared), sdpa, { ...lists, ...options });
const flat = textOf(tensorOf(24, 8));
await expectCall('heads in columns', fileOf('a.json', JSON.stringify({ query: flat, q_heads: 2 })),
    { ...sdpa, options: { causal: true } }, { model: 'sdpa', query: flat, q_heads: 2, causal: true });
const more = { mask: textOf(tensorOf(4, 6, 9)).map((head) => head.map((row) => row.map((number) => number > -1))),
    kv_len: [9, 8, 7, 6, 5, 4], alibi_slopes: [0.1, 0.2, 0.3, 0.4], sinks: [0, null, 1, 2] };
await expectCall('all masks', fileOf('a.json', JSON.stringify({ ...lists, ...more })), sdpa, { ...lists, ...more });
const states = textOf(tensorOf(10, 64));
const entering = { model: 'stories260K', layer: 3, query: states };
await expectCall('rows that enter a layer', fileOf('a.json', JSON.stringify(entering)), sdpa, entering);
const words = textOf(tensorOf(4, 3));
await expectCall('one matrix', fileOf('a.json', JSON.stringify(words)), { state: { model: 'demo', layer: null } },
    { model: 'demo', query: words });
const named = { 'layers.2.inputs': { dtype: 'F32', shape: [10, 64], values: Float32Array.from(states.flat()) } };
await expectCall('what a trace answered', fileOf('a.safetensors', writeSafetensors(named)),
    { state: { model: 'stories260K', layer: null } }, { model: 'stories260K', layer: 2, query: states });

const causal = await openSource({ ...sdpa, file: fileOf('a.safetensors', shared), models });
const marked = await causal.maps(0, { head: 'all', rows: [0, 6], keys: [0, 9], cells: [6, 9], hidden: true });
same('what may not be seen is NaN', Array.from(marked.values, Number.isNaN),
    Array.from({ length: 4 * 6 * 9 }, (_, i) => i % 9 > Math.floor(i / 9) % 6 + 2));
const coarse = await causal.maps(0, { head: 1, rows: [0, 6], keys: [0, 9], cells: [2, 3], hidden: true });
same('a cell is, where all of its pairs are', Array.from(coarse.values, Number.isNaN),
    [false, false, true, false, false, false]);
same('and counts nowhere', (await causal.statistics()).get(0).entropy.every((number) => number > 0), true);
await causal.close();

const pass = await openSource({ file: fileOf('rows.json', JSON.stringify(states)), models,
    state: { model: 'stories260K' } });
same('rows of a model\'s width go through it', [pass.kind, pass.layers.length, pass.title],
    ['trace', 5, 'stories260K: rows.json']);
await pass.close();

/* A map too large to be held comes in pieces; they are those of the map. */
const long = { dtype: 'F16', shape: [1, 2500, 4], values: randomValues(10000) };
const large = openCall(await readCallFile(fileOf('a.safetensors', writeSafetensors({ query: long }))), null, 0, 'a');
const window = { head: 0, rows: [100, 900], keys: [5, 2005], cells: [40, 50] };
const part = await large.maps(0, window);
same('a piece', [part.heads, part.rows, part.keys, part.values.length], [1, 40, 50, 2000]);
const inner = await large.maps(0, { ...window, rows: [100, 120], keys: [5, 45], cells: [20, 40] });
same('the first cell', part.values[0], Math.max(...inner.values));
same('no statistics of what nobody computed', (await large.statistics()).get(0).entropy, [null]);
await large.close();

for (const [name, content, ...expected] of [
    ['a.json', '{', 'no JSON'], ['a.json', '3', 'expected an array'],
    ['a.json', '{"query":[[1,2],[3]]}', 'unequal length'],
    ['a.json', '{"query":[[1,"x"]]}', '"x"'], ['a.json', '{"query":[[1]],"<script>":2}', '\'<script>\'', 'causal'],
    ['a.safetensors', 'abc', '3 bytes'], ['a.npy', 'abc', '.npy'], ['a.bin', 'abc', '3 bytes'],
    ['a.json', '{"a":[1],"b":[2]}', 'expected query'], ['a.json', '{"query":[]}', 'nothing to look at'],
    ['a.json', '[]', 'nothing'],
    ['a.json', '['.repeat(1e5) + ']'.repeat(1e5), '100000 axes'],
    ['a.json', `{"query":[[1,${'{"a":'.repeat(1e5)}1${'}'.repeat(1e5)}]]}`, 'an object'],
    ['a.json', '{"query":[[[[1]]],[[[1]]]]}', 'batch of 2'], ['a.json', '{"query":[[1,2,3]],"q_heads":2}', '3 columns'],
    ['a.json', '{"model":"none","query":[[1]]}', '\'none\'', '\'sdpa\''],
    ['a.json', '{"query":[[1,2]],"key":[[1,2,3]]}', '3'], ['a.json', '{"query":[[1,2]],"normalizer":"none"}', 'none'],
])
    await fails(content, async () => {
        const source = await openSource({ file: fileOf(name, content), models, ...sdpa });
        await source.maps(0, { head: 0, rows: [0, 1], keys: [0, 1], cells: [1, 1] });
    }, ...expected);
await fails('JSON that a page has no memory for', () => readCallFile({ name: 'a.json', size: (64 << 20) + 1,
    arrayBuffer: () => { throw new Error('read'); } }), '64', '.safetensors');
await fails('rows of another width', () => openSource({ file: fileOf('a.json', '[[1,2]]'), models,
    state: { model: 'stories260K', layer: null } }), '2 columns', 'takes 64');
const said = await openSource({ file: fileOf('a.json', JSON.stringify(entering)), models, ...sdpa });
const { scale } = models.find(({ name }) => name === 'stories260K').layers[3].options;
same('the options of a layer', said.options, { causal: true, q_heads: 8, kv_heads: 4, scale, softcap: 0 });
await said.close();
