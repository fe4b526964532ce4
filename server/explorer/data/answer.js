// SPDX-License-Identifier: Apache-2.0
/* answer.js - asks what an answer rests on: where its row looks, and what each part of the prompt, each head and each
 * layer adds to it, piece by piece, the nearest to the answer first.
 *
 * An answer is {position, token, against}: the log-prob of a token at a position, less that of another one where
 * against is not null. Effects are those of POST /v1/effects (API_CAUSES.md), in nats, as they come. */
import { partsOf } from './parts.js';

const ROWS_MAX = 8192;                           /* of all variants of a request together */

/* The metric of an answer. */
export function metricOf({ position, token, against }) {
    return { position, token, ...(against === null ? {} : { against }) };
}

/* The layers whose rows and keys the parts of a prompt are looked at from: in an encoder-decoder those that look at the
 * encoder from the decoder. */
export function lookingLayers(source) {
    const cross = source.layers.filter(({ kind }) => kind === 'cross');
    return cross.length > 0 ? cross : source.layers.filter(({ kind }) => kind !== 'vision');
}

/* The tokens that parts are made of. */
export function promptTokens(source) {
    return lookingLayers(source)[0]?.keyTokens ?? [];
}

/* The answer that the state asks about, where the model predicts this; without a choice the most probable token. */
export function answerOfState({ target, against = null }, { position, tokens }) {
    const token = target ?? tokens[0].id;
    return { position, token, against: against === token ? null : against };
}

/* The ranges of the state that lie in the prompt, or its own parts. */
export function partsOfState({ parts, text, pair }, source) {
    const tokens = promptTokens(source);
    return parts?.filter(([, end]) => end <= tokens.length) ?? partsOf(tokens, [text, pair]);
}

/* The kinds of the source's layers, in their order; null alone where a request need not say one. */
export function kindsOf(source) {
    const kinds = [...new Set(source.layers.map(({ kind }) => kind))];
    return kinds.length > 1 ? kinds : [null];
}

const ofKind = (source, kind) => source.layers.filter((layer) => kind === null || layer.kind === kind);

/* The layers that effects of a kind have. */
export { ofKind as layersOfKind };

/* A list in blocks from its last to its first, each of which takes about as long as another one. */
function blocksOf(list, rowsOfEach) {
    const size = Math.max(1, Math.floor(ROWS_MAX / Math.max(1, rowsOfEach)));
    const blocks = [];
    for (let end = list.length; end > 0; end -= size)
        blocks.push(list.slice(Math.max(0, end - size), end));
    return blocks;
}

const rowsOf = (source) => Math.max(1, ...source.layers.map(({ rows }) => rows));
const named = (kind) => (kind === null ? {} : { kind });
const partName = (range) => range.join(':');

/* What is known of a source: answers do not change while it is looked at. */
const known = new WeakMap();                     /* source -> Map of a question -> what is known of it */

function knownOf(source, question) {
    const all = known.get(source) ?? known.set(source, new Map()).get(source);
    const name = JSON.stringify(question);
    return all.get(name) ?? all.set(name, { base: null, values: new Map() }).get(name);
}

/* Asks for what is not known, in blocks, and tells of each: tell({base, values}), values a Map by names of items. */
async function askBlocks(source, { question, items, nameOf, rows, ask }, signal, tell) {
    const found = knownOf(source, question);
    const say = () => tell({ base: found.base, values: new Map(found.values) });
    say();
    for (const block of blocksOf(items.filter((item) => !found.values.has(nameOf(item))), rows)) {
        const { base = null, values } = await ask(block);
        signal.throwIfAborted();
        found.base ??= base;
        block.forEach((item, i) => found.values.set(nameOf(item), values[i]));
        say();
    }
}

/* How much of its weight the answering row has for each part: by "first:end" a list of {layer, shares: [heads]}. */
export function askShares(source, { position, parts }, signal, tell) {
    const layers = lookingLayers(source).map(({ layer }) => layer);
    const ask = async (block) => {
        const answer = await source.post('v1/trace', { layers, spans: block, rows: [position] }, signal);
        return { values: block.map((_, part) => answer.layers.map(({ layer, spans }) =>
            ({ layer, shares: spans.map(([row]) => row[part]) }))) };
    };
    return askBlocks(source, { question: ['shares', position], items: parts, nameOf: partName, rows: 1, ask },
        signal, tell);
}

/* Whether a part can be left out: the answering token itself cannot, nor can all tokens. */
export function canLeaveOut(source, answer, [first, end]) {
    const hasCross = source.layers.some(({ kind }) => kind === 'cross');
    return hasCross ? end - first < promptTokens(source).length : answer.position < first || answer.position >= end;
}

/* The effect of each part taken away, by "first:end". */
export function askParts(source, { answer, parts, by }, signal, tell) {
    const items = by === 'hide' ? parts : parts.filter((part) => canLeaveOut(source, answer, part));
    const ask = async (block) => {
        const { base, effects } = await source.post('v1/effects', { metric: metricOf(answer), by,
            each: { spans: block } }, signal);
        return { base, values: effects };
    };
    return askBlocks(source, { question: ['parts', answer, by], items, nameOf: partName, rows: rowsOf(source), ask },
        signal, tell);
}

/* The effects of each layer by its number: of 'heads' a list, of 'layers' and 'feed_forwards' a number. */
export function askLayers(source, { answer, each, kind }, signal, tell) {
    const layers = ofKind(source, kind);
    const ask = async (block) => {
        const { base, effects } = await source.post('v1/effects', { metric: metricOf(answer), each,
            layers: block.map(({ layer }) => layer), ...named(kind) }, signal);
        return { base, values: effects };
    };
    const variants = each === 'heads' ? Math.max(...layers.map(({ heads }) => heads)) : 1;
    return askBlocks(source, { question: [each, answer, kind], items: layers, nameOf: ({ layer }) => layer,
        rows: variants * rowsOf(source), ask }, signal, tell);
}

/* The predictions of a position that the source has not, {position, tokens}. */
export async function askPrediction(source, position, signal) {
    const { predictions } = await source.post('v1/trace', { layers: [], outputs: ['predictions'],
        positions: [position], top_k_tokens: 10 }, signal);
    return predictions[0];
}

/* The token of what a person typed, {id, text, logprob}: an id, or its string, a blank as the vocabulary writes it. */
export async function askToken(source, typed, position, signal) {
    const tokens = /^\d{1,9}$/.test(typed) ? [Number(typed)]
        : [...new Set([typed, ...['▁', 'Ġ'].map((sign) => typed.replace(/[ ␣]/g, sign))])];
    let first = null;
    for (const token of tokens) {
        try {
            const { targets } = await source.post('v1/trace',
                { layers: [], outputs: [], targets: [{ token, position }] }, signal);
            return targets[0];
        } catch (error) {
            if (error.code !== 'option')
                throw error;
            first ??= error;
        }
    }
    throw first;
}
