// SPDX-License-Identifier: Apache-2.0
/* numbers.js - a sheet as JSON, and as a safetensors file. A map whose cells stand for several weights says so, and
 * names the rows and keys of each cell; one with pairs that may not be seen says what stands there. */
import { shortest } from '../data/call_problem.js';
import { writeSafetensors } from '../data/safetensors.js';
import { cellWords, isPooled, rangesOf } from './sheet.js';

function rowsOf({ shape: [rows, keys], values }) {
    return Array.from({ length: rows }, (_, row) =>
        Array.from(values.subarray(row * keys, (row + 1) * keys), shortest));
}

const HIDDEN = 'null, and NaN among floats: no pair there may be seen';

/* The members of a panel that are no numbers of its map, by the API's names. */
function describe(panel) {
    const { name, layer, head, rows, keys, rowTokens, keyTokens, shape, isDifference } = panel;
    const cells = isPooled(panel) ? { reduction: isDifference ? 'difference of max' : 'max',
        cells: cellWords(panel), row_ranges: rangesOf(rows, shape[0]), key_ranges: rangesOf(keys, shape[1]) } : {};
    const hidden = panel.values.some(Number.isNaN) ? { hidden: HIDDEN } : {};
    return { name, layer, head, rows, keys, row_tokens: rowTokens, key_tokens: keyTokens, ...cells, ...hidden };
}

/* What is seen of running text, by the API's names. */
function textOf({ side, index, token, over, heads, part, weights }) {
    return { side, index, token, over, heads, [side === 'row' ? 'keys' : 'rows']: part,
        weights: Array.from(weights, shortest) };
}

/* requests are those that made the view; a body of bytes is left out. */
export function jsonOf({ view, model, title, panels, pair, text, answer }, requests) {
    const sent = requests.map((request) => ({
        ...request, body: typeof request.body === 'string' ? JSON.parse(request.body) : null,
    }));
    const maps = panels.map((panel) => ({ ...describe(panel), weights: rowsOf(panel) }));
    return `${JSON.stringify({ view, model, title, requests: sent, maps, ...(pair ? { pair } : {}),
        ...(text ? { text: textOf(text) } : {}), ...(answer ? { answer } : {}) })}\n`;
}

/* The heads of a layer are one tensor, as the API answers them: [heads][rows][keys]. */
function tensorGroups(panels) {
    const groups = new Map();
    for (const panel of panels) {
        const side = panel.isDifference ? 'difference.' : panel.isOther ? 'other.' : '';
        const name = `${side}layers.${panel.layer}.weights`;
        groups.set(name, [...groups.get(name) ?? [], panel]);
    }
    return groups;
}

export function safetensorsOf({ view, model, title, panels, text }, requests) {
    const tensors = {};
    const layers = {};
    for (const [name, group] of tensorGroups(panels)) {
        const size = group[0].values.length;
        const values = new Float32Array(group.length * size);
        group.forEach((panel, i) => values.set(panel.values, i * size));
        tensors[name] = { dtype: 'F32', shape: [group.length, ...group[0].shape], values };
        layers[name] = { ...describe(group[0]), name: undefined, head: undefined,
            heads: group.map((panel) => panel.head) };
    }
    if (text)
        tensors.text = { dtype: 'F32', shape: [text.weights.length], values: text.weights };
    return writeSafetensors(tensors, { view, ...(model === null ? {} : { model }), title, maps: JSON.stringify(layers),
        ...(text ? { text: JSON.stringify({ ...textOf(text), weights: undefined }) } : {}),
        requests: JSON.stringify(requests.map(({ method, path, body }) =>
            ({ method, path, body: typeof body === 'string' ? body : null }))) });
}
