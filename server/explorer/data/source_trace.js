// SPDX-License-Identifier: Apache-2.0
/* source_trace.js - a source of maps over a kept trace: one pass of a model, whose pieces are asked for as they are
 * looked at.
 *
 * The daemon keeps a trace for some minutes, which are renewed while the page is looked at. One that has ended is made
 * again from the same input, and nobody notices. */
import { ApiFault, bodyOf, call, foreignAnswer, getJson, sendForJson } from './api.js';
import { floatsOfHalves } from './half.js';
import { sendFollowed } from './progress.js';
import { readTokens } from './tokens.js';
import { traceRequest } from './trace_body.js';
import { layersOf, patchesOf, pictureOf } from './trace_layers.js';

const KEEP = '5m';
const RENEW_MS = 120_000;
const PREDICTED = 10;                            /* tokens of each prediction */
const LATE_MS = 3000;
const CELLS_SIDE_MAX = 4096;                     /* of one answer, along each side */

/* The daemon gets back what a page that is left held. A browser may bring the page back as it was: then the traces are
 * made again. */
const open = new Set();
globalThis.addEventListener?.('pagehide', () => open.forEach((source) => source.giveBack()));
setInterval(() => globalThis.document?.visibilityState === 'visible' && open.forEach((source) => source.renew()),
    RENEW_MS);

/* The fields of a kept trace of an input; predicts is "next", "masked" or null, as the model's description says it. Of
 * an edited pass the answer also says what the unedited one predicts. */
const keptFields = ({ edits = null }, predicts) => ({ ...(predicts ? { outputs: ['predictions'],
    top_k_tokens: PREDICTED, ...(edits ? { compare: true } : {}) } : { outputs: [] }), keep: KEEP });

/* Opens a source for {model, text, pair, decoderText, tokens, pixels, features, embeddings, off, edits}, see
 * trace_body.js; off are the heads that the edits switch off. shown is {width, height, patchRows, patchColumns, url} of
 * a picture's pixels, title what the source is called. */
export async function openTrace(given, signal, { shown = null, title = null, predicts = null } = {}) {
    const input = { ...given, predicts };
    const { answer, kept } = await makeTrace(input, signal);
    const picture = shown && pictureOf(kept, shown);
    const tokens = answer.tokens ? readTokens(answer.tokens, [input.text, input.pair]) : null;
    const decoder = answer.decoder_tokens ? readTokens(answer.decoder_tokens, [input.decoderText]) : null;
    const layers = layersOf(kept, { tokens, decoder, patches: patchesOf(picture) });
    return new TraceSource(input, answer.trace, { layers, picture, title, url: shown?.url ?? null,
        predictions: predictionsOf(answer, decoder ?? tokens) });
}

/* [{position, tokens: [{id, text, label, special, logprob, difference}], at}]: label as a person reads it, at the token
 * of the input that stands at the position; null where the model predicts nothing. */
function predictionsOf({ predictions = null }, inputTokens) {
    return predictions && predictions.map(({ position, tokens }) => ({ position, at: inputTokens?.[position] ?? null,
        tokens: readTokens(tokens, []).map((token, i) => ({ ...tokens[i], ...token })) }));
}

/* A signal that follows another one after a moment: an answer that is on its way arrives, and the trace that it names
 * is given back. The daemon drops a trace whose answer does not arrive. */
function lateSignal(signal) {
    const late = new AbortController();
    signal?.addEventListener('abort', () => setTimeout(() => late.abort(), LATE_MS), { once: true });
    if (signal?.aborted)
        late.abort();
    return late.signal;
}

/* Makes a trace and asks what it keeps; one that nobody will look at is given back at once. */
async function makeTrace(input, signal) {
    const answer = await sendFollowed(traceRequest(input, keptFields(input, input.predicts)), signal,
        (request) => sendForJson(request, lateSignal(signal)));
    try {
        signal?.throwIfAborted();
        return { answer, kept: await getJson(`v1/traces/${answer.trace}`, signal) };
    } catch (error) {
        drop(answer.trace);
        throw error;
    }
}

function drop(id) {
    call('DELETE', `v1/traces/${id}`, { keepalive: true }).catch(() => {});
}

/* 404: the daemon that kept it was started again. */
const hasEnded = (error) => error instanceof ApiFault && (error.status === 410 || error.status === 404);

const sizesOf = (layers) => JSON.stringify(layers.map(({ layer, heads, rows, keys }) => [layer, heads, rows, keys]));

class TraceSource {
    kind = 'trace';
    #input;
    #url;                                        /* of the picture, or null */
    #id;                                         /* a promise, while the trace is made again */
    #statistics = null;

    constructor(input, id, { layers, picture, title, url, predictions }) {
        this.#input = input;
        this.#url = url;
        this.#id = Promise.resolve(id);
        this.model = input.model;
        this.title = `${input.model}: ${title ?? input.text ?? 'tokens'}`;
        this.layers = layers;
        this.picture = picture;
        this.predictions = predictions;
        this.predicts = input.predicts;
        this.off = input.off ?? [];
        this.hasDecoder = layers.some(({ kind }) => kind === 'decoder');
        open.add(this);
    }

    /* Asks for something of the trace, read by 'json' or 'arrayBuffer'. A trace that has ended is made again, once. */
    async #ask(path, signal, reader) {
        const id = this.#id;
        const ask = async () => {
            const response = await call('GET', `v1/traces/${await this.#id}/${path}`, { signal });
            return { response, body: await bodyOf(response, reader, signal) };
        };
        try {
            return await ask();
        } catch (error) {
            if (!hasEnded(error) || !open.has(this))
                throw error;
        }
        if (this.#id === id) {                   /* of calls side by side the first one makes it */
            this.#id = this.#makeAgain();
            this.#id.catch(() => { this.#id = id; });
        }
        return ask();
    }

    async #makeAgain() {
        const { answer, kept } = await makeTrace(this.#input);
        if (open.has(this) && sizesOf(kept.layers) === sizesOf(this.layers))
            return answer.trace;
        drop(answer.trace);
        throw new ApiFault(410, 'gone', `Model '${this.model}' has other layers than when this trace was made. Look `
            + 'at the input again.');
    }

    /* The largest weight of each cell; head is a number or 'all'. dtype 'f16' halves the answer, for pictures whose
     * numbers nobody reads: 3 digits of them are right. hidden: NaN, not 0, where no pair of a cell is seen. */
    async maps(layer, { head, rows, keys, cells, signal, dtype = 'f32', hidden = false }) {
        const query = new URLSearchParams({ layer, head, rows: rows.join(':'), keys: keys.join(':'),
            cells: cells.map((count) => Math.min(count, CELLS_SIDE_MAX)).join('x'), dtype,
            ...(hidden ? { hidden: 'nan' } : {}) });
        const { response, body } = await this.#ask(`weights?${query}`, signal, 'arrayBuffer');
        const shape = response.headers.get('X-Tile-Shape')?.split('x').map(Number) ?? [];
        const size = shape.reduce((product, n) => product * n, dtype === 'f16' ? 2 : 4);
        if (shape.length < 2 || size !== body.byteLength)
            throw foreignAnswer();
        const [rowCells, keyCells] = shape.slice(-2);
        const values = dtype === 'f16' ? floatsOfHalves(new Uint16Array(body)) : new Float32Array(body);
        return { heads: shape.length === 3 ? shape[0] : 1, rows: rowCells, keys: keyCells, values };
    }

    /* Map of layer -> {entropy: [a number or null for each head], distance, first, previous, self, delimiters}. */
    statistics() {
        this.#statistics ??= this.#ask('statistics', undefined, 'json').then(
            ({ body }) => new Map(body.layers.map((layer) => [layer.layer, layer])));
        this.#statistics.catch(() => { this.#statistics = null; });
        return this.#statistics;
    }

    async pair({ layer, head, row, key, signal }) {
        return (await this.#ask(`pair?${new URLSearchParams({ layer, head, row, key })}`, signal, 'json')).body;
    }

    /* The same of several keys of a row: {query_vector, scale, lse, keys: [{key, products, score, weight...}]}. */
    async pairs({ layer, head, row, keys, signal }) {
        const query = new URLSearchParams({ layer, head, row, keys: keys.join() });
        return (await this.#ask(`pairs?${query}`, signal, 'json')).body;
    }

    /* The request of the trace as {method, path, headers, body}; body is text, or bytes where numbers came. */
    request() {
        return traceRequest(this.#input, keptFields(this.#input, this.predicts));
    }

    /* POST of the input, its edits and more fields to a path of the API, for JSON. */
    post(path, fields, signal) {
        return sendForJson(traceRequest(this.#input, fields, { path }), signal);
    }

    /* The request of one whole map. */
    weightsRequest(layer, head) {
        return traceRequest(this.#input, { layers: [layer], weight_map: { heads: [head] } });
    }

    /* The daemon keeps the trace for some minutes more. One that has ended is made again when it is asked for. */
    renew() {
        this.#id.then((id) => call('PATCH', `v1/traces/${id}?keep=${KEEP}`)).catch(() => {});
    }

    /* Gives the kept trace back; what is asked for afterwards makes it again. */
    async giveBack() {
        const id = await this.#id.catch(() => null);
        if (id !== null)
            drop(id);
    }

    /* Gives the kept trace back for good, and the picture. */
    async close() {
        if (!open.delete(this))
            return;
        if (this.#url !== null)
            URL.revokeObjectURL(this.#url);
        await this.giveBack();
    }
}
