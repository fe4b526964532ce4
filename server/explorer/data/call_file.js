// SPDX-License-Identifier: Apache-2.0
/* call_file.js - what a dropped file holds: the tensors and options of a call of POST /v1/attention, an input of a
 * trace, weights, or one matrix of rows.
 *
 * A file is .safetensors or .json in the forms that the API takes (API_CALLS.md, API_TRACE.md) or that weights have
 * (weights_file.js), or an array alone: .npy, JSON, or the only tensor of a file. */
import { isNpy, readNpy } from './npy.js';
import { tensorOfLists } from './number_lists.js';
import { fileFault, readSafetensors } from './safetensors.js';
import { weightsOfArray, weightsOfJson, weightsOfTensors } from './weights_file.js';

const CALL_TENSORS = ['query', 'key', 'value', 'mask', 'kv_len', 'alibi_slopes', 'sinks'];
const CALL_FIELDS = ['causal', 'window_left', 'window_right', 'past_len', 'kv_offset', 'scale', 'softcap', 'q_heads',
    'kv_heads', 'normalizer'];
const TRACE_TENSORS = ['pixels', 'features', 'embeddings'];
const NAMES = ['model', 'layer'];
const UNUSED = ['outputs', 'weight_map', 'format'];  /* the page asks for what it shows */
const JSON_BYTES_MAX = 64 << 20;                 /* read, numbers of JSON take many times their bytes */
const FLOATS = { F64: Float64Array, F32: Float32Array };

/* The same tensor in floats: integers and halves become F32, for weight maps are made in F32 anyway. */
function asFloats({ dtype, shape, values }) {
    return dtype in FLOATS || dtype === 'BOOL' ? { dtype, shape, values }
        : { dtype: 'F32', shape, values: Float32Array.from(values, Number) };
}

/* as: what a person says that an array without a name is, 'weights' or 'query', or undefined. */
function readJson(text, as) {
    let value;
    try {
        value = JSON.parse(text);
    } catch (error) {
        throw fileFault(`The file is no JSON: ${error.message}`);
    }
    if (Array.isArray(value)) {
        const weights = weightsOfArray(value, as);
        return weights ? { weights } : { tensors: new Map([['', tensorOfLists(value, 'the array')]]), fields: {} };
    }
    if (value === null || typeof value !== 'object')
        throw fileFault('The file holds a single value; expected an array, or an object with query, key and value.');
    const weights = weightsOfJson(value);
    if (weights)
        return { weights };
    const tensors = new Map();
    const fields = {};
    for (const [name, member] of Object.entries(value))
        if (name === 'tokens' && Array.isArray(member) && member.every((token) => typeof token === 'string'))
            fields.labels = member;
        else if (member !== null && (Array.isArray(member) || name === 'kv_len') && !UNUSED.includes(name))
            tensors.set(name, tensorOfLists(member, name));
        else if (member !== null && !UNUSED.includes(name))
            fields[name] = member;
    return { tensors, fields };
}

/* Fields of a safetensors file are texts: names as they are, all else as JSON. */
function fieldsOfMetadata(metadata) {
    const known = [...NAMES, ...CALL_FIELDS].filter((name) => Object.hasOwn(metadata, name));
    return Object.fromEntries(known.map((name) => {
        if (name === 'model' || name === 'normalizer')
            return [name, metadata[name]];
        try {
            return [name, JSON.parse(metadata[name])];
        } catch {
            throw fileFault(`'${name}' of __metadata__ is no JSON: ${metadata[name].slice(0, 40)}`);
        }
    }));
}

async function readAny(file, as) {
    if (/\.json$/i.test(file.name) && file.size > JSON_BYTES_MAX)
        throw fileFault(`'${file.name}' has ${Math.round(file.size / 2 ** 20)} MB; of JSON at most `
            + `${JSON_BYTES_MAX / 2 ** 20} are read. Save the numbers as .safetensors or .npy.`);
    const buffer = await file.arrayBuffer();
    if (isNpy(buffer) || /\.npy$/i.test(file.name))
        return { tensors: new Map([['', readNpy(buffer)]]), fields: {} };
    if (/\.json$/i.test(file.name))
        return readJson(new TextDecoder().decode(buffer), as);
    const { tensors, metadata } = readSafetensors(buffer);
    const weights = weightsOfTensors(tensors, metadata);
    return weights ? { weights } : { tensors, fields: fieldsOfMetadata(metadata) };
}

function checkKnown({ tensors, fields }) {
    const known = [...NAMES, ...CALL_FIELDS, 'labels'];
    for (const name of Object.keys(fields))
        if (!known.includes(name))
            throw fileFault(`The file has the field '${name}'; known are ${known.slice(0, -1).join(', ')}.`);
    for (const name of tensors.keys())
        if (!CALL_TENSORS.includes(name))
            throw fileFault(`The file has '${name}' beside query; known are ${CALL_TENSORS.join(', ')}.`);
}

/* A leading axis of 1 is a batch of one. */
function withoutBatch(name, { dtype, shape, values }) {
    if (shape.length !== 4)
        return { dtype, shape, values };
    if (shape[0] !== 1)
        throw fileFault(`'${name}' is a batch of ${shape[0]}; drop one item of it, [heads][rows][columns].`);
    return { dtype, shape: shape.slice(1), values };
}

const INPUTS = /^layers\.(\d+)\.inputs$/;

/* The only array of a file. Those that a trace answered as layers.N.inputs are rows that enter layer N; others may be
 * weights. isGuess: nothing but the numbers says that they are none. */
function arrayOf([name, tensor], fields, as) {
    const layer = INPUTS.exec(name)?.[1];
    const weights = layer === undefined && weightsOfArray(asFloats(tensor), as, { tokens: fields.labels });
    if (weights)
        return weights;
    return { kind: 'rows', rows: withoutBatch(name || 'the array', asFloats(tensor)),
        layer: layer === undefined ? fields.layer ?? null : Number(layer), model: fields.model ?? null, fields,
        isGuess: layer === undefined && tensor.shape.length > 1 };
}

/* Reads a File: {kind: 'call', tensors: {query, ...}, fields, model, layer}, or {kind: 'trace', tensors: {pixels or
 * features or embeddings}, model}, or {kind: 'weights', layers, tokens, isGuess}, or {kind: 'rows', rows, layer, model,
 * fields, isGuess}. Tensors are {dtype, shape, values}; model and layer are null where the file does not say. as is
 * what a person says that an array without a name is, 'weights' or 'query'. */
export async function readCallFile(file, as) {
    const read = await readAny(file, as);
    if (read.weights)
        return read.weights;
    const { tensors, fields } = read;
    const { model = null, layer = null, ...options } = fields;
    const ofTrace = TRACE_TENSORS.filter((name) => tensors.has(name));
    if (ofTrace.length > 0)
        return { kind: 'trace', model, tensors: Object.fromEntries(ofTrace.map(
            (name) => [name, asFloats(tensors.get(name))])) };
    if (tensors.has('query')) {
        checkKnown(read);
        return { kind: 'call', model, layer, fields: options, tensors: Object.fromEntries([...tensors].map(
            ([name, tensor]) => [name, name === 'kv_len' ? tensor : withoutBatch(name, asFloats(tensor))])) };
    }
    if (tensors.size === 1)
        return arrayOf([...tensors][0], fields, as);
    throw fileFault(`The file has ${tensors.size} tensors (${[...tensors.keys()].slice(0, 5).join(', ')}`
        + `${tensors.size > 5 ? ', …' : ''}); expected query, with key and value or without, or one matrix of rows.`);
}
