// SPDX-License-Identifier: Apache-2.0
/* call_problem.js - one call of POST /v1/attention, of which the page asks for parts: one head, one row.
 *
 * A problem is {model, layer, tensors: {query, key, value, mask, kv_len, alibi_slopes, sinks}, fields: {causal, scale,
 * ...}, scale, heads, kvHeads, rows, keys, headDim, isSdpa}. "sdpa" has no parameters, so one of its heads can be asked
 * for alone, by that head's columns; a layer of a model takes whole rows. */
import { fileFault, writeSafetensors } from './safetensors.js';

const JSON_NUMBERS_MAX = 20000;                  /* more go as a safetensors file */

function sizeOf(name, { shape }, heads) {
    const [rows, columns] = shape.slice(-2);
    if (shape.length !== 2 && shape.length !== 3)
        throw fileFault(`'${name}' has the shape [${shape}]; expected [rows][columns] or [heads][rows][columns].`);
    if (shape.length === 3)
        return { heads: shape[0], rows, columns };
    if (heads < 1 || columns % heads !== 0)
        throw fileFault(`'${name}' has ${columns} columns, which are no ${heads} heads of equal width.`);
    return { heads, rows, columns: columns / heads };
}

const matrixOf = (tensor) => (tensor.shape.length === 1 ? { ...tensor, shape: [1, tensor.shape[0]] } : tensor);

/* The problem of the tensors and fields of a file; description is that of a served model, or null for sdpa. */
export function problemOf({ tensors, fields }, description, layer) {
    const own = Object.fromEntries(Object.entries(tensors).map(
        ([name, tensor]) => [name, ['query', 'key', 'value'].includes(name) ? matrixOf(tensor) : tensor]));
    const { labels, ...options } = fields;
    const place = description?.layers.find(({ index }) => index === layer);
    const heads = place?.q_heads ?? options.q_heads ?? 1;
    const query = sizeOf('query', own.query, place ? 1 : heads);
    const key = own.key ? sizeOf('key', own.key, place ? 1 : options.kv_heads ?? heads) : query;
    if (query.rows * query.columns === 0)
        throw fileFault(`'query' has the shape [${own.query.shape}]; there is nothing to look at.`);
    const headDim = place?.head_dim ?? query.columns;
    return {
        model: description?.name ?? 'sdpa', layer: place?.index ?? 0, tensors: own, fields: options, labels,
        heads: place ? heads : query.heads, kvHeads: place?.kv_heads ?? key.heads, rows: query.rows, keys: key.rows,
        headDim, isSdpa: !place,
        scale: options.scale ?? place?.options?.scale ?? 1 / Math.sqrt(headDim),
        causal: options.causal ?? place?.options?.causal ?? false,
        softcap: options.softcap ?? place?.options?.softcap ?? 0,
        isCross: Boolean(own.key) && (query.rows !== key.rows || place?.kind === 'cross'),
    };
}

/* Columns of one head, [1][rows][columns]. */
function headOf(tensor, head, heads) {
    const [rows, width] = tensor.shape.slice(-2);
    const { dtype, shape, values } = tensor;
    const size = rows * width;
    if (shape.length === 3)
        return { dtype, shape: [1, rows, width], values: values.subarray(head * size, (head + 1) * size) };
    const columns = width / heads;
    const own = new values.constructor(rows * columns);
    for (let row = 0; row < rows; row++)
        own.set(values.subarray(row * width + head * columns, row * width + (head + 1) * columns), row * columns);
    return { dtype, shape: [1, rows, columns], values: own };
}

/* One row of the second axis from behind. */
function rowOf({ dtype, shape, values }, row) {
    const [rows, columns] = shape.slice(-2);
    const outer = shape.slice(0, -2).reduce((product, n) => product * n, 1);
    const own = new values.constructor(outer * columns);
    for (let i = 0; i < outer; i++)
        own.set(values.subarray((i * rows + row) * columns, (i * rows + row + 1) * columns), i * columns);
    return { dtype, shape: [...shape.slice(0, -2), 1, columns], values: own };
}

/* The problem of one head of sdpa. */
export function headProblem(problem, head) {
    const { heads, kvHeads, fields } = problem;
    const { query, key, value, mask, alibi_slopes: slopes, sinks, ...others } = problem.tensors;
    const kvHead = Math.floor(head * kvHeads / heads);
    const tensors = { ...others, query: headOf(query, head, heads) };
    if (key || kvHeads !== heads)
        tensors.key = headOf(key ?? query, kvHead, kvHeads);
    if (value)
        tensors.value = headOf(value, kvHead, kvHeads);
    if (mask)
        tensors.mask = mask.shape.length === 3 ? headOf(mask, head, heads) : mask;
    for (const [name, tensor] of [['alibi_slopes', slopes], ['sinks', sinks]])
        if (tensor)
            tensors[name] = { ...tensor, shape: [1], values: tensor.values.slice(head, head + 1) };
    const { q_heads: _, kv_heads: __, ...options } = fields;
    return { ...problem, tensors, fields: options, heads: 1, kvHeads: 1 };
}

/* The problem of one row, which stands where it stood. */
export function rowProblem(problem, row) {
    const { query, key, value, mask, kv_len: length, ...others } = problem.tensors;
    const tensors = { ...others, query: rowOf(query, row), key: key ?? query };
    if (value)
        tensors.value = value;
    if (mask)
        tensors.mask = rowOf(mask, row);
    if (length)
        tensors.kv_len = length.values.length === 1 ? length
            : { ...length, shape: [1], values: length.values.slice(row, row + 1) };
    return { ...problem, tensors, rows: 1,
        fields: { ...problem.fields, past_len: (problem.fields.past_len ?? 0) + row } };
}

/* The shortest number that reads back to the same float. */
export function shortest(value) {
    for (let digits = 6; digits < 9; digits++) {
        const short = Number(value.toPrecision(digits));
        if (Math.fround(short) === value)
            return short;
    }
    return value;
}

function numberOf({ dtype, values }, at) {
    const value = Number(values[at]);
    if (dtype === 'BOOL')
        return value !== 0;
    return !Number.isFinite(value) ? null : dtype === 'F32' ? shortest(value) : value;
}

function listsOf(tensor, axis = 0, begin = 0) {
    if (axis === tensor.shape.length)
        return numberOf(tensor, begin);
    const step = tensor.shape.slice(axis + 1).reduce((product, n) => product * n, 1);
    return Array.from({ length: tensor.shape[axis] }, (_, i) => listsOf(tensor, axis + 1, begin + i * step));
}

const integers = (tensor) => ({ dtype: 'I64', shape: tensor.shape,
    values: BigInt64Array.from(tensor.values, (value) => BigInt(Number(value))) });

/* POST /v1/attention of a problem with more fields as {method, path, headers, body}. isForPeople: JSON where that is
 * short enough to be read. The answer is a safetensors file, or JSON for JSON. */
export function callRequest(problem, more, isForPeople = false) {
    const { model, layer, tensors, fields } = problem;
    const all = { model, ...(problem.isSdpa ? {} : { layer }), ...fields, ...more };
    const request = { method: 'POST', path: 'v1/attention' };
    const count = Object.values(tensors).reduce((sum, { values }) => sum + values.length, 0);
    if (isForPeople && count <= JSON_NUMBERS_MAX) {
        const lists = Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [name, listsOf(tensor)]));
        return { ...request, headers: { 'Content-Type': 'application/json' },
            body: JSON.stringify({ ...all, ...lists }) };
    }
    const metadata = Object.fromEntries(Object.entries(all).map(([name, value]) =>
        [name, name === 'model' || name === 'normalizer' ? value : JSON.stringify(value)]));
    const sent = tensors.kv_len ? { ...tensors, kv_len: integers(tensors.kv_len) } : tensors;
    return { ...request, body: writeSafetensors(sent, metadata),
        headers: { 'Content-Type': 'application/x-safetensors', Accept: 'application/x-safetensors' } };
}
