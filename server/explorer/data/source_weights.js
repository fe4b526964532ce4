// SPDX-License-Identifier: Apache-2.0
/* source_weights.js - a source of maps over weights of a file, that were computed elsewhere. No model is looked at, and
 * the daemon is not asked. */
import { joinHeads, poolMap } from './pool.js';
import { fileFault } from './safetensors.js';
import { statisticsOf, unknownStatistics } from './statistics.js';
import { countTokens, readTokens } from './tokens.js';
import { areSumsOne, measure } from './weights_file.js';

const AT_ONCE = 1 << 20;                         /* pairs; before more the page gets its turn */
const STATISTICS_MAX = 1 << 28;

const turn = (signal) => new Promise((resolve) => setTimeout(resolve)).then(() => signal?.throwIfAborted());

/* The tokens of a layer's rows and keys: those of the file, where they are as many, else numbers. */
function sidesOf({ kind, rows, keys }, tokens) {
    const decoder = ['decoder', 'cross'].includes(kind) ? tokens.decoder_tokens : null;
    const named = (count, lists) => lists.find((list) => list?.length === count);
    const rowTokens = named(rows, [tokens.row_tokens, decoder, tokens.tokens]) ?? countTokens(rows, 'row');
    const keyList = named(keys, [tokens.key_tokens, kind === 'cross' ? null : decoder, tokens.tokens]);
    return { rowTokens, keyTokens: keyList ?? (rows === keys && kind !== 'cross' ? rowTokens
        : countTokens(keys, 'key')) };
}

/* A number in as many digits as tell it apart. */
const digits = (number) => String(Number(number.toPrecision(3))).replace('-', '−');

/* What no probability is, in words; '' where all are. */
function shareWords(found) {
    const least = Math.min(...found.map((one) => one.least));
    const summed = found.filter(({ sums: [low, high] }) => low <= high);
    const ends = [Math.min(...summed.map(({ sums }) => sums[0])), Math.max(...summed.map(({ sums }) => sums[1]))];
    const [low, high] = ends.map(digits);
    return [least < 0 ? `weights down to ${digits(least)}` : '', summed.every(areSumsOne) ? ''
        : `rows sum to ${low === high ? low : `between ${low} and ${high}`}, not to 1`].filter(Boolean).join(', ');
}

function checkFinite(layer, { infinite }) {
    if (infinite < 0)
        return;
    const { rows, keys } = layer;
    const [head, row, key] = [Math.floor(infinite / (rows * keys)), Math.floor(infinite / keys) % rows,
        infinite % keys];
    throw fileFault(`Layer ${layer.layer}, head ${head}, row ${row}, key ${key} is ${layer.values[infinite]}, or `
        + 'beyond what 32 bits hold; weights are finite. A pair that may not be seen is NaN, null in JSON.');
}

/* A source of the weights of a file, as weights_file.js gives them; title is the file's name. */
export async function openWeights({ layers, tokens }, title, signal) {
    const found = [];
    for (const layer of layers) {
        await turn(signal);
        found.push(measure(layer));
        checkFinite(layer, found.at(-1));
    }
    const read = Object.fromEntries(Object.entries(tokens).map(([name, list]) => [name, readTokens(list, [])]));
    const named = layers.map((layer) => ({ ...layer, ...sidesOf(layer, read) }));
    const counts = Object.entries(read).filter(([, list]) => !named.some((layer) =>
        layer.rowTokens === list || layer.keyTokens === list)).map(([, list]) => list.length);
    const words = [shareWords(found), counts.length > 0 ? `the file's tokens (${counts.join(', ')}) fit no map` : ''];
    return new WeightsSource(named, { title, words: words.filter(Boolean).join(', '),
        hasTokens: Object.keys(read).length > counts.length });
}

class WeightsSource {
    kind = 'weights';
    model = null;
    picture = null;
    predictions = null;
    predicts = null;
    off = [];
    options = {};
    lacks = 'A file of weights has no query and no key, from which this weight came.';
    #values;                                     /* Map of layer -> values[heads][rows][keys] */
    #statistics = null;
    #ending = new AbortController();

    constructor(layers, { title, words, hasTokens }) {
        this.title = title;
        this.words = words;
        this.unit = hasTokens ? 'token' : 'row';
        this.layers = layers.map(({ values, ...layer }) => ({ ...layer, headDim: null }));
        this.#values = new Map(layers.map(({ layer, values }) => [layer, values]));
    }

    #layer(number) {
        return this.layers.find(({ layer }) => layer === number);
    }

    #map(layer, head) {
        const { rows, keys } = this.#layer(layer);
        return this.#values.get(layer).subarray(head * rows * keys, (head + 1) * rows * keys);
    }

    /* The largest weight of each cell; head is a number or 'all', and hidden says that NaN stands where no pair of a
     * cell may be seen. */
    async maps(layer, { head, rows, keys, cells, hidden, signal }) {
        const { heads, keys: keyCount } = this.#layer(layer);
        const chosen = head === 'all' ? Array.from({ length: heads }, (_, i) => i) : [head];
        if (chosen.length * (rows[1] - rows[0]) * (keys[1] - keys[0]) > AT_ONCE)
            await turn(signal);
        signal?.throwIfAborted();
        const pieces = chosen.map((one) => poolMap(this.#map(layer, one), keyCount, { rows, keys, cells, hidden }));
        return joinHeads(pieces);
    }

    /* As those of a trace; all are null where the file is so large that they take a minute. */
    statistics() {
        this.#statistics ??= this.#computeStatistics();
        this.#statistics.catch(() => { this.#statistics = null; });
        return this.#statistics;
    }

    async #computeStatistics() {
        const isLarge = [...this.#values.values()].reduce((sum, { length }) => sum + length, 0) > STATISTICS_MAX;
        const all = new Map();
        for (const { layer, kind, heads, rows, keys } of this.layers) {
            await turn(this.#ending.signal);
            const values = this.#values.get(layer);
            all.set(layer, { layer, kind, ...(isLarge ? unknownStatistics(heads)
                : statisticsOf(values, { heads, rows, keys, isCross: kind === 'cross' || rows !== keys })) });
        }
        return all;
    }

    /* The weight alone: no stage before it is in the file. */
    async pair({ layer, head, row, key }) {
        const weight = this.#map(layer, head)[row * this.#layer(layer).keys + key];
        return { layer, head, row, key, products: null, weight: Number.isNaN(weight) ? null : weight };
    }

    /* No request made this. */
    request() {
        return null;
    }

    weightsRequest() {
        return null;
    }

    async close() {
        this.#ending.abort();
        this.#values.clear();
    }
}
