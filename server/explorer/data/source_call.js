// SPDX-License-Identifier: Apache-2.0
/* source_call.js - a source of maps over POST /v1/attention: the query and key of a dropped file, or rows that enter a
 * layer of a served model.
 *
 * Nothing is kept in the daemon. Whole maps are kept in the page where they are small; pieces of larger ones are
 * computed as they are looked at. */
import { bodyOf, call } from './api.js';
import { callRequest, headProblem, problemOf, rowProblem } from './call_problem.js';
import { joinHeads, poolMap } from './pool.js';
import { readSafetensors } from './safetensors.js';
import { statisticsOf, unknownStatistics } from './statistics.js';
import { countTokens, placeToken } from './tokens.js';

const WHOLE_PAIRS_MAX = 4 << 20;                 /* a map of so many is asked for once; so are all heads of a layer */
const KEPT_MAPS_MAX = 8;

/* A source of the tensors and fields of a file; description and layer are those of a served model, null and 0 of sdpa.
 * title is what it is called. */
export function openCall(file, description, layer, title) {
    return new CallSource(problemOf(file, description, layer), title);
}

function tokensOf(problem) {
    const { rows, keys, labels, isCross } = problem;
    const named = (count, word) => (labels?.length === count ? labels.map((label) => placeToken(label))
        : countTokens(count, word));
    const rowTokens = named(rows, 'row');
    return { rowTokens, keyTokens: isCross ? named(keys, 'key') : rowTokens };
}

class CallSource {
    kind = 'call';
    picture = null;
    #problem;
    #ending = new AbortController();
    #maps = new Map();                           /* promises of whole maps by head, the least recently used first */
    #allMaps = null;                             /* of all heads, where they are small */
    #statistics = null;

    constructor(problem, title) {
        this.#problem = problem;
        this.model = problem.model;
        this.title = `${problem.model}: ${title}`;
        const { layer, heads, kvHeads, rows, keys, headDim, causal, scale, softcap } = problem;
        /* How attention is computed, whether the file says it, a person, or the model. */
        this.options = { causal, q_heads: heads, kv_heads: kvHeads, scale, softcap };
        const attention = problem.isCross ? 'cross' : 'self';
        this.layers = [{ layer, kind: attention, heads, rows, keys, headDim, ...tokensOf(problem) }];
    }

    /* Sends a problem; gives the tensors of the answer. */
    async #send(problem, more, signal) {
        const { method, path, headers, body } = callRequest(problem, more);
        const response = await call(method, path, { headers, body, signal });
        return readSafetensors(await bodyOf(response, 'arrayBuffer', signal)).tensors;
    }

    /* Weights of one head or 'all', of all that is in map. Of a whole map the call also says which pairs may not be
     * seen: NaN stands there; of parts it does not. */
    async #weights(head, map, signal) {
        const { isSdpa } = this.#problem;
        const isSliced = head !== 'all' && isSdpa;
        const problem = isSliced ? headProblem(this.#problem, head) : this.#problem;
        const heads = head === 'all' || isSliced ? 'all' : [head];
        const isPart = Object.keys(map).length > 0 || heads !== 'all';
        const tensors = await this.#send(problem, isPart ? { outputs: ['weights'], weight_map: { heads, ...map } }
            : { outputs: ['weights', 'masked'] }, signal);
        const { shape, values } = tensors.get('weights');
        tensors.get('masked')?.values.forEach((score, i) => { values[i] = score === -Infinity ? NaN : values[i]; });
        return { heads: shape[0], rows: shape[1], keys: shape[2], values };
    }

    #isSmall(heads) {
        return heads * this.#problem.rows * this.#problem.keys <= WHOLE_PAIRS_MAX;
    }

    /* A whole map is for all who ask, so it ends with the source and not with one of them. */
    #wholeAll() {
        this.#allMaps ??= this.#weights('all', {}, this.#ending.signal);
        this.#allMaps.catch(() => { this.#allMaps = null; });
        return this.#allMaps;
    }

    async #whole(head) {
        const { heads, rows, keys } = this.#problem;
        if (this.#isSmall(heads)) {
            const { values } = await this.#wholeAll();
            return values.subarray(head * rows * keys, (head + 1) * rows * keys);
        }
        const map = this.#maps.get(head) ?? this.#weights(head, {}, this.#ending.signal);
        this.#maps.delete(head);
        this.#maps.set(head, map);
        if (this.#maps.size > KEPT_MAPS_MAX)
            this.#maps.delete(this.#maps.keys().next().value);
        map.catch(() => this.#maps.delete(head));
        return (await map).values;
    }

    /* The largest weight of each cell; head is a number or 'all'. */
    async maps(layer, { head, rows, keys, cells, signal, hidden = false }) {
        const { heads, keys: keyCount } = this.#problem;
        const isWhole = this.#isSmall(head === 'all' ? heads : 1);
        if (!isWhole)
            return this.#weights(head, { region: { rows, keys }, pool: cells }, signal);
        const chosen = head === 'all' ? Array.from({ length: heads }, (_, i) => i) : [head];
        const pieces = await Promise.all(chosen.map(async (one) =>
            poolMap(await this.#whole(one), keyCount, { rows, keys, cells, hidden })));
        signal?.throwIfAborted();
        return joinHeads(pieces);
    }

    /* As those of a trace. Where the maps are large nobody has computed them: all are null. */
    statistics() {
        this.#statistics ??= this.#computeStatistics();
        this.#statistics.catch(() => { this.#statistics = null; });
        return this.#statistics;
    }

    async #computeStatistics() {
        const { layer, heads, rows, keys, fields } = this.#problem;
        const isCross = rows !== keys || this.#problem.isCross || Boolean(fields.past_len) || Boolean(fields.kv_offset);
        const statistics = this.#isSmall(heads)
            ? statisticsOf((await this.#wholeAll()).values.map((weight) => weight || 0),
                { heads, rows, keys, isCross }) : unknownStatistics(heads);
        return new Map([[layer, { layer, kind: this.layers[0].kind, ...statistics }]]);
    }

    /* One score, stage by stage, as a kept trace answers it. The vectors and their products are null where they come
     * out of a model's parameters, which this call does not answer. */
    async pair({ layer, head, row, key, signal }) {
        const { keys: [pair], ...shared } = await this.pairs({ layer, head, row, keys: [key], signal });
        return { ...shared, ...pair };
    }

    /* The same of several keys of a row. */
    async pairs({ layer, head, row, keys: asked, signal }) {
        const { isSdpa } = this.#problem;
        const problem = rowProblem(isSdpa ? headProblem(this.#problem, head) : this.#problem, row);
        const tensors = await this.#send(problem,
            { outputs: ['scores', 'softcapped', 'masked', 'lse', 'weights'] }, signal);
        const at = (name, column, columns) => {
            const value = tensors.get(name).values[(isSdpa ? 0 : head) * columns + column];
            return Number.isFinite(value) ? value : null;
        };
        const { keys } = this.#problem;
        const { query_vector, scale } = this.#vectors(problem, 0);
        return { layer, head, row, query_vector, scale, lse: at('lse', 0, 1), keys: asked.map((key) => {
            const { key_vector, products } = this.#vectors(problem, key);
            return { key, key_vector, products, score: at('scores', key, keys), softcapped: at('softcapped', key, keys),
                masked: at('masked', key, keys), weight: at('weights', key, keys) };
        }) };
    }

    #vectors({ tensors, isSdpa, headDim, scale }, key) {
        if (!isSdpa)
            return { query_vector: null, key_vector: null, products: null, scale };
        const query = Array.from(tensors.query.values);
        const keyVector = Array.from(tensors.key.values.subarray(key * headDim, (key + 1) * headDim));
        return { query_vector: query, key_vector: keyVector, products: query.map((value, i) => value * keyVector[i]),
            scale };
    }

    /* The request as {method, path, headers, body}; body is JSON where that is short, else the bytes of a file. */
    request() {
        return callRequest(this.#problem, { outputs: ['weights'] }, true);
    }

    /* The request of one whole map. */
    weightsRequest(layer, head) {
        return callRequest(this.#problem, { outputs: ['weights'], weight_map: { heads: [head] } }, true);
    }

    async close() {
        this.#ending.abort();
        this.#maps.clear();
        this.#allMaps = null;
    }
}
