/* source_trace.js - a source of maps over a kept trace: one pass of a model, whose pieces are asked for as they are
 * looked at. */
import { call, getJson, postJson } from './api.js';
import { countTokens, readTokens } from './tokens.js';

const KEEP = '30m';

function bodyOf(input) {
    const body = { model: input.model };
    for (const [name, member] of [['text', 'text'], ['pair', 'pair'], ['tokens', 'tokens'],
        ['decoder_text', 'decoderText']])
        if (input[member] !== null && input[member] !== undefined)
            body[name] = input[member];
    return body;
}

/* The rows of an encoder-decoder's decoder layers are its decoder's tokens, the keys of cross attention the
 * encoder's. */
function tokensOf(count, word, ...lists) {
    return lists.find((list) => list && list.length === count) ?? countTokens(count, word);
}

function layersOf(kept, tokens, decoderTokens) {
    return kept.layers.map((layer) => ({
        layer: layer.layer, kind: layer.kind, heads: layer.heads, rows: layer.rows, keys: layer.keys,
        headDim: layer.head_dim,
        rowTokens: layer.kind === 'self' || !decoderTokens
            ? tokensOf(layer.rows, 'row', tokens, decoderTokens)
            : tokensOf(layer.rows, 'row', decoderTokens, tokens),
        keyTokens: tokensOf(layer.keys, 'key', ...(layer.kind === 'cross' || !decoderTokens
            ? [tokens, decoderTokens] : [decoderTokens, tokens])),
    }));
}

/* Opens a source for {model, text, pair, decoderText, tokens}. */
export async function openTrace(input, signal) {
    const body = bodyOf(input);
    const answer = await postJson('v1/trace', { ...body, outputs: [], keep: KEEP }, signal);
    const kept = await getJson(`v1/traces/${answer.trace}`, signal);
    const tokens = answer.tokens ? readTokens(answer.tokens, [input.text, input.pair]) : null;
    const decoderTokens = answer.decoder_tokens ? readTokens(answer.decoder_tokens, [input.decoderText]) : null;
    return new TraceSource(body, answer.trace, layersOf(kept, tokens, decoderTokens));
}

class TraceSource {
    kind = 'trace';
    picture = null;
    #statistics = null;

    constructor(body, id, layers) {
        this.body = body;
        this.id = id;
        this.model = body.model;
        this.title = `${body.model}: ${body.text ?? 'tokens'}`;
        this.layers = layers;
    }

    async #pieceOf(layer, head, { rows, keys, cells, signal }) {
        const query = new URLSearchParams({ layer, head, rows: rows.join(':'), keys: keys.join(':'),
            cells: cells.join('x') });
        const response = await call('GET', `v1/traces/${this.id}/weights?${query}`, { signal });
        const shape = response.headers.get('X-Tile-Shape').split('x').map(Number);
        return { rows: shape[0], keys: shape[1], values: new Float32Array(await response.arrayBuffer()) };
    }

    async maps(layer, { head, rows, keys, cells, signal }) {
        if (head !== 'all') {
            const piece = await this.#pieceOf(layer, head, { rows, keys, cells, signal });
            return { heads: 1, ...piece };
        }
        const { heads } = this.layers.find((one) => one.layer === layer);
        const pieces = await Promise.all(Array.from({ length: heads },
            (_, i) => this.#pieceOf(layer, i, { rows, keys, cells, signal })));
        const size = pieces[0].values.length;
        const values = new Float32Array(heads * size);
        pieces.forEach((piece, i) => values.set(piece.values, i * size));
        return { heads, rows: pieces[0].rows, keys: pieces[0].keys, values };
    }

    statistics() {
        this.#statistics ??= getJson(`v1/traces/${this.id}/statistics`).then(
            ({ layers }) => new Map(layers.map((layer) => [layer.layer, layer])));
        return this.#statistics;
    }

    pair({ layer, head, row, key, signal }) {
        return getJson(`v1/traces/${this.id}/pair?${new URLSearchParams({ layer, head, row, key })}`, signal);
    }

    request() {
        return { method: 'POST', path: 'v1/trace', headers: { 'Content-Type': 'application/json' },
            body: JSON.stringify(this.body) };
    }

    weightsRequest(layer, head) {
        return { ...this.request(),
            body: JSON.stringify({ ...this.body, layers: [layer], weight_map: { heads: [head] } }) };
    }

    async close() {
        await call('DELETE', `v1/traces/${this.id}`).catch(() => {});
    }
}
