// SPDX-License-Identifier: Apache-2.0
/* traces.js - a source over a kept trace of stories260K: its numbers are those of /v1/trace, and a trace that has ended
 * is made again. */
const { openTrace } = await import(at('source_trace.js'));
const { statisticsOf } = await import(at('statistics.js'));
const { postJson, setKey } = await import(at('api.js'));
const { floatsOfHalves, halvesOfFloats } = await import(at('half.js'));
setKey('ключ');
await fails('a key that no header carries', () => postJson('v1/trace', {}), 'The key has characters');
setKey(null);
const realFetch = fetch;
const answering = async (body, run, headers = {}) => {
    window.fetch = async () => new Response(body, { headers });
    await run().finally(() => { window.fetch = realFetch; });
};
await fails('a page of a proxy', () => answering('<html>', () => postJson('v1/trace', {})), 'a proxy');
const input = { model: 'stories260K', text: 'Once upon a time\nthere was “Lily” 😀.', pair: null, tokens: null };
const source = await openTrace(input);
const { rows, keys, heads, headDim, rowTokens, keyTokens } = source.layers[2];

same('labels', rowTokens.map(({ label }) => label).join('|'),
    '<s>|Once|␣upon|␣a|␣time|⏎|t|he|re|␣was|␣|“|L|ily|”|␣|⟨F0⟩|⟨9F⟩|⟨98⟩|⟨80⟩|.');
same('the layer', [source.layers.length, heads, rows, keys, headDim, rowTokens === keyTokens], [5, 8, 21, 21, 8, true]);

const whole = { rows: [0, rows], keys: [0, keys], cells: [64, 64] };
const traced = await postJson('v1/trace', { model: input.model, text: input.text, layers: [2] });
const all = await source.maps(2, { head: 'all', ...whole });
const weights = traced.layers[0].weights.flat(2);
same('the shape of all heads', [all.heads, all.rows, all.keys, all.values.length], [8, 21, 21, weights.length]);
for (const headers of [{}, { 'X-Tile-Shape': '21' }, { 'X-Tile-Shape': '8x21x21' }])
    await fails(`six bytes for a map, ${JSON.stringify(headers)}`, () => answering('foobar',
        () => source.maps(2, { head: 'all', ...whole }), headers), 'a proxy');
weights.forEach((weight, i) => near(`weight ${i}`, all.values[i], weight, 1e-5));
for (let head = 0; head < heads; head++) {
    const { values } = await source.maps(2, { head, ...whole });
    same(`head ${head} alone, to the bit`, [...values], [...all.values.subarray(head * 441, (head + 1) * 441)]);
}
const small = await source.maps(2, { head: 'all', ...whole, dtype: 'f16' });
same('f16, to the bit', [...small.values], [...floatsOfHalves(halvesOfFloats(all.values))]);
const piece = await source.maps(2, { head: 1, rows: [5, 15], keys: [2, 12], cells: [2, 5] });
const cellAt = (r, c) => {
    let most = 0;
    for (let i = 5 + 5 * r; i < 10 + 5 * r; i++)
        for (let j = 2 + 2 * c; j < 4 + 2 * c; j++)
            most = Math.max(most, all.values[441 + i * 21 + j]);
    return most;
};
same('the shape of a piece', [piece.rows, piece.keys], [2, 5]);
same('its cells', [...piece.values], [0, 1].flatMap((r) => [0, 1, 2, 3, 4].map((c) => cellAt(r, c))));

const asked = seen.asked.length;
const [statistics, again] = await Promise.all([source.statistics(), source.statistics()]);
same('statistics are asked for once', [seen.asked.length - asked, statistics === again], [1, true]);
const own = statisticsOf(all.values, { heads, rows, keys,
    delimiters: keyTokens.flatMap(({ special }, i) => (special ? [i] : [])) });
for (const [name, values] of Object.entries(own))
    values.forEach((value, head) => near(`${name} of head ${head}`, value, statistics.get(2)[name][head], 1e-5));
same('without meaning', Object.entries(statisticsOf(all.values, { heads, rows, keys, isCross: true }))
    .filter(([, values]) => values[0] === null).map(([name]) => name), ['distance', 'previous', 'self', 'delimiters']);

const pair = await source.pair({ layer: 2, head: 1, row: 9, key: 4 });
near('the weight of a pair', pair.weight, all.values[441 + 9 * 21 + 4], 1e-6);
const { method, path, headers, body } = source.weightsRequest(2, 3);
const forPerson = await (await fetch(path, { method, headers, body })).json();
same('the request for a person', forPerson.layers[0].weights[0].flat(), weights.slice(3 * 441, 4 * 441));

/* A trace that has ended: all who ask at once get their answers, and it is made once. What was asked before would come
 * from the browser's cache, so the cells are others, though as many. */
const other = { ...whole, cells: [60, 60] };
await source.giveBack();
await new Promise((done) => setTimeout(done, 200));
const before = seen.asked.length;
const pieces = await Promise.all([0, 1, 2, 3].map((head) => source.maps(2, { head, ...other })));
pieces.forEach(({ values }, head) => same(`head ${head} of the trace made again`, [...values],
    [...all.values.subarray(head * 441, (head + 1) * 441)]));
same('made again once', seen.asked.slice(before).filter((call) => call === 'POST v1/trace').length, 1);
await source.close();
await new Promise((done) => setTimeout(done, 200));
await fails('a closed source', () => source.maps(2, { head: 0, ...whole, cells: [50, 50] }), 'has ended');

const fromIds = await openTrace({ model: 'stories260K', tokens: [1, 403, 407, 261, 378] });
const labelsOf = ({ layers }) => layers[0].rowTokens.map(({ label }) => label);
same('labels of ids', labelsOf(fromIds), ['<s>', '␣Once', '␣upon', '␣a', '␣time']);
await fromIds.close();
const embeddings = { dtype: 'F32', shape: [5, 64], values: Float32Array.from({ length: 320 }, (_, i) => Math.sin(i)) };
const fromRows = await openTrace({ model: 'stories260K', embeddings });
same('labels of rows', labelsOf(fromRows), ['row 0', 'row 1', 'row 2', 'row 3', 'row 4']);
const sent = await fetch('v1/trace', { ...fromRows.weightsRequest(0, 1) });
const answered = (await sent.json()).layers[0].weights.flat(2);
const shown = await fromRows.maps(0, { head: 1, rows: [0, 5], keys: [0, 5], cells: [5, 5] });
answered.forEach((weight, i) => near(`weight ${i} of embeddings`, shown.values[i], weight, 1e-5));
await fromRows.close();

await fails('too long', () => openTrace({ model: 'stories260K', text: 'x '.repeat(100000) }), '--trace-memory-max');
await fails('no such model', () => openTrace({ model: '<script>', text: 'a' }), '\'<script>\'');
const ending = new AbortController();
ending.abort('a reason of its own');
const error = await openTrace(input, ending.signal).catch((caught) => caught);
same('an ended call', error.name, 'AbortError');

const { readTokens } = await import(at('tokens.js'));
const labels = (texts) => readTokens(texts.map((text, id) => ({ id, text })), []).map(({ label }) => label);
same('a vocabulary of bytes', labels(['Ġday', 'Ċ', 'ðŁ', 'ÃŃ']), ['␣day', '⏎', '⟨F0⟩⟨9F⟩', 'í']);
same('a vocabulary of texts', labels(['▁ąd', '<0x0A>', 'a\u202eb', '\u200b', '##ing']),
    ['␣ąd', '⏎', 'a‹U+202E›b', '‹U+200B›', '##ing']);
const pieceOf = (text, start, end) => ({ id: 1, text, start, end });
const labelsIn = (text, pieces) => readTokens(pieces, [text]).map(({ label }) => label);
same('pieces of a character', labelsIn('a 日', [pieceOf('▁a', 0, 1), pieceOf('▁', 1, 2), pieceOf('<0xE6>', 2, 5),
    pieceOf('<0x97>', 2, 5), pieceOf('<0xA5>', 2, 5)]), ['a', '␣', '⟨E6⟩', '⟨97⟩', '⟨A5⟩']);
same('pieces in a vocabulary of bytes', labelsIn('日🙂', [pieceOf('æĹ¥', 0, 3), pieceOf('ðŁ', 3, 7), pieceOf('Ļ', 3, 7),
    pieceOf('Ĥ', 3, 7)]), ['日', '⟨F0⟩⟨9F⟩', '⟨99⟩', '⟨82⟩']);
same('a piece behind a blank', labelsIn('x 🙂', [pieceOf('x', 0, 1), pieceOf('Ġð', 1, 6), pieceOf('ŁĻĤ', 2, 6)]),
    ['x', '␣⟨F0⟩', '⟨9F⟩⟨99⟩⟨82⟩']);
same('letters of one sign', labelsIn('ﬁ', [pieceOf('f', 0, 3), pieceOf('i', 0, 3)]), ['f', 'i']);
same('one byte that is the text', labelsIn('日', [pieceOf('<0xE6>', 0, 3)]), ['日']);
