// SPDX-License-Identifier: Apache-2.0
/* weights_file.js - weights that were computed elsewhere, as layers of maps, out of what a file holds.
 *
 * An array is [layers][heads][q][k], [heads][q][k] or [q][k], with batch axes of 1 or without; or there is one for each
 * layer, in a list or under names with its number. A layer is {layer, kind, heads, rows, keys, values}, with
 * values[heads][rows][keys]; a pair that may not be seen is NaN, null in JSON. */
import { depthOf, tensorOfLists } from './number_lists.js';
import { fileFault } from './safetensors.js';

const WORDS = 'attentions?|weights|attn_weights|attention_weights|attention_probs|attn_probs|hook_pattern';
const WEIGHTS = new RegExp(`(^|[._])(${WORDS})([._]\\d+)?$`, 'i');
const TOKENS = ['tokens', 'decoder_tokens', 'row_tokens', 'key_tokens'];
const HEADS_MAX = 4096;                          /* of all layers */
const SIDE_MAX = 65536;                          /* rows or keys, each of which has a token */
const NUMBER_MAX = 1e6;                         /* of a layer */
const SUM_TOLERANCE = 0.01;                      /* bfloat16 keeps 8 bits */

/* Whether a name says that an array holds weights. */
export const isWeightsName = (name) => WEIGHTS.test(name);

/* The number of the layer that a name has, or null. */
const numberIn = (name) => (/\d/.test(name) ? Number(/(\d+)\D*$/.exec(name)[1]) : null);

const kindIn = (name) => /cross|decoder|encoder/i.exec(name)?.[0].toLowerCase() ?? 'self';

const floatsOf = (values) => (values instanceof Float32Array ? values : Float32Array.from(values, Number));

/* [heads][q][k] and less of one layer, [1][heads][q][k] too. */
function layerOf(name, { shape, values }, place) {
    const own = shape.length === 4 && shape[0] === 1 ? shape.slice(1) : shape;
    if (own.length === 4)
        throw fileFault(`'${name}' is a batch of ${own[0]}; drop one item of it, [heads][rows][keys].`);
    if (own.length < 2 || own.length > 4)
        throw fileFault(`'${name}' has the shape [${shape}]; weights are [heads][rows][keys] or [rows][keys].`);
    const [heads, rows, keys] = own.length === 3 ? own : [1, ...own];
    if (heads * rows * keys === 0)
        throw fileFault(`'${name}' has the shape [${shape}]; there is nothing to look at.`);
    if (Math.max(rows, keys) > SIDE_MAX)
        throw fileFault(`'${name}' has ${rows} rows and ${keys} keys; at most ${SIDE_MAX} of each are drawn.`);
    return { ...place, heads, rows, keys, values: floatsOf(values) };
}

/* All layers of one array: four axes are layers before heads, five a batch of one besides. */
function layersOfTensor(name, tensor) {
    const { shape } = tensor;
    const isBatched = shape.length === 5 && (shape[0] === 1 || shape[1] === 1);
    const axes = !isBatched ? shape : shape[1] === 1 ? [shape[0], ...shape.slice(2)] : shape.slice(1);
    const kind = kindIn(name);
    if (axes.length !== 4)
        return [layerOf(name, { ...tensor, shape: axes }, { layer: numberIn(name) ?? 0, kind })];
    checkHeads(axes[0] * axes[1]);
    const size = axes[1] * axes[2] * axes[3];
    if (axes[0] === 0)
        throw fileFault(`'${name}' has the shape [${shape}]; there is nothing to look at.`);
    return Array.from({ length: axes[0] }, (_, i) => layerOf(name, { shape: axes.slice(1),
        values: tensor.values.subarray(i * size, (i + 1) * size) }, { layer: i, kind }));
}

function checkHeads(heads) {
    if (heads > HEADS_MAX)
        throw fileFault(`The file has ${heads} heads; at most ${HEADS_MAX} are drawn. Drop some of its layers.`);
}

/* The layers of nested lists; those of a list of layers may differ in size. */
function layersOfLists(name, lists) {
    const depth = depthOf(lists);
    const list = depth === 5 && lists.length === 1 && lists[0].length > 1 ? lists[0] : lists;
    if (depth < 4)
        return layersOfTensor(name, tensorOfLists(list, name, NaN));
    checkHeads(list.length);
    return list.map((layer, i) => layerOf(`${name}[${i}]`, tensorOfLists(layer, `${name}[${i}]`, NaN),
        { layer: i, kind: kindIn(name) }));
}

/* Layers as a source takes them: each has a number of its own, in the order of a pass. */
function ordered(layers) {
    const KINDS = ['encoder', 'self', 'decoder', 'cross'];
    checkHeads(layers.reduce((sum, { heads }) => sum + heads, 0));
    const sorted = [...layers].sort((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || a.layer - b.layer);
    const isNumbered = new Set(sorted.map(({ layer }) => layer)).size === sorted.length
        && sorted.every(({ layer }) => layer >= 0 && layer < NUMBER_MAX);
    return isNumbered ? sorted : sorted.map((layer, i) => ({ ...layer, layer: i }));
}

/* Tokens as texts, as ids, or as the API answers them, {id, text}. */
function tokenOf(token, name) {
    const text = typeof token === 'object' && token !== null ? token.text ?? token.label ?? token.id : token;
    if (typeof text !== 'string' && typeof text !== 'number')
        throw fileFault(`'${name}' is no list of texts.`);
    return { id: null, text: String(text), special: token.special === true };
}

function tokensOf(members) {
    const there = TOKENS.filter((name) => members[name] !== undefined && members[name] !== null);
    return Object.fromEntries(there.map((name) => {
        if (!Array.isArray(members[name]) || members[name].length > 2 * SIDE_MAX)
            throw fileFault(`'${name}' is no list of texts.`);
        return [name, members[name].map((token) => tokenOf(token, name))];
    }));
}

const made = (layers, members, more = {}) => ({ kind: 'weights', layers: ordered(layers), tokens: tokensOf(members),
    ...more });

const isTraceLayer = (one) => one !== null && typeof one === 'object' && Array.isArray(one.weights);

/* Weights of a value of JSON: {"weights": ..., "tokens": [...]}, or an answer of POST /v1/trace or /v1/attention; null
 * where it has none, or a query to compute them from. */
export function weightsOfJson(value) {
    if (Object.hasOwn(value, 'query'))
        return null;
    const { layers } = value;
    if (Array.isArray(layers) && layers.length > 0 && layers.every(isTraceLayer))
        return made(layers.map(({ layer, kind = 'self', weights }, i) => layerOf(`layers[${i}].weights`,
            tensorOfLists(weights, `layers[${i}].weights`, NaN),
            { layer: Number.isSafeInteger(layer) ? layer : i, kind: String(kind) })), value);
    const names = Object.keys(value).filter((name) => isWeightsName(name) && Array.isArray(value[name]));
    return names.length === 0 ? null : made(names.flatMap((name) => layersOfLists(name, value[name])), value);
}

/* The kinds of the layers that a safetensors answer of the API names, {3: "cross"}. */
function kindsOf({ layers }) {
    try {
        return Object.fromEntries(JSON.parse(layers).map(({ layer, kind }) => [layer, String(kind).slice(0, 40)]));
    } catch {
        return {};
    }
}

function tokensOfMetadata(metadata) {
    return Object.fromEntries(TOKENS.filter((name) => Object.hasOwn(metadata, name)).map((name) => {
        try {
            return [name, JSON.parse(metadata[name])];
        } catch {
            throw fileFault(`'${name}' of __metadata__ is no JSON: ${metadata[name].slice(0, 40)}`);
        }
    }));
}

/* Weights of the tensors of a safetensors file; null where no name says so, or where there is a query. */
export function weightsOfTensors(tensors, metadata) {
    const names = tensors.has('query') ? [] : [...tensors.keys()].filter(isWeightsName);
    const kinds = kindsOf(metadata);
    const layers = names.flatMap((name) => (numberIn(name) === null ? layersOfTensor(name, tensors.get(name))
        : [layerOf(name, tensors.get(name), { layer: numberIn(name), kind: kinds[numberIn(name)] ?? kindIn(name) })]));
    return names.length === 0 ? null : made(layers, tokensOfMetadata(metadata));
}

/* What tells weights from other numbers: the least, at most 0; the least and largest sum of a row; the place of the
 * first infinite one, or -1. A row of zeros, and one whose pairs may not be seen, has no sum. */
export function measure({ heads, rows, keys, values }) {
    const found = { least: 0, sums: [Infinity, -Infinity], infinite: -1 };
    for (let row = 0; row < heads * rows; row++) {
        let sum = 0;
        let isSeen = false;
        for (let at = row * keys; at < (row + 1) * keys; at++) {
            const weight = values[at];
            if (Number.isNaN(weight) || weight === 0)
                continue;
            isSeen = true;
            sum += weight;
            if (weight < found.least)
                found.least = weight;
            if (!Number.isFinite(weight) && found.infinite < 0)
                found.infinite = at;
        }
        if (isSeen)
            found.sums = [Math.min(sum, found.sums[0]), Math.max(sum, found.sums[1])];
    }
    return found;
}

export const areSumsOne = ({ sums }) => sums.every((sum) => Math.abs(sum - 1) <= SUM_TOLERANCE);

/* Whether measured numbers are shares of a row. */
const areShares = (found) => found.infinite < 0 && found.least >= 0 && areSumsOne(found);

/* An array without a name as weights: {..., isGuess: true}; null where it has too few axes. as is what a person says
 * that the numbers are, 'weights' or 'query'; who says nothing gets weights of square maps whose rows sum to 1. members
 * may have tokens. */
export function weightsOfArray(array, as, members = {}) {
    const isList = Array.isArray(array);
    if (as === 'query' || (isList ? depthOf(array) : array.shape.length) < 2)
        return null;
    if (as === 'weights')
        return made(isList ? layersOfLists('the array', array) : layersOfTensor('the array', array), members,
            { isGuess: true });
    let layers = [];
    try {
        layers = isList ? layersOfLists('the array', array) : layersOfTensor('the array', array);
    } catch {
        return null;                             /* as rows it gets words of its own */
    }
    return layers.every((layer) => layer.rows === layer.keys && areShares(measure(layer)))
        ? made(layers, members, { isGuess: true }) : null;
}
