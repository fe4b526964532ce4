// SPDX-License-Identifier: Apache-2.0
/* safetensors.js - files of tensors, read and written: 8 bytes with the length of a header of JSON, the header, and the
 * numbers, little-endian (https://huggingface.co/docs/safetensors). Browsers run on little-endian machines alone. */
import { ApiFault } from './api.js';
import { brainsOfFloats, floatsOfBrains, floatsOfHalves, halvesOfFloats } from './half.js';

const HEADER_MAX = 100e6;

/* The array of a dtype's bits, and how its numbers come out of and into bits. */
const DTYPES = {
    F64: { Bits: Float64Array },
    F32: { Bits: Float32Array },
    F16: { Bits: Uint16Array, read: floatsOfHalves, write: halvesOfFloats },
    BF16: { Bits: Uint16Array, read: floatsOfBrains, write: brainsOfFloats },
    I64: { Bits: BigInt64Array },
    I32: { Bits: Int32Array },
    U8: { Bits: Uint8Array },
    BOOL: { Bits: Uint8Array },
};

/* A fault of a file that a person dropped; it never reaches the daemon. */
export function fileFault(message) {
    return new ApiFault(0, 'file', message);
}

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
const isCount = (value) => Number.isSafeInteger(value) && value >= 0;

function readHeader(buffer) {
    if (buffer.byteLength < 8)
        throw fileFault(`The file has ${buffer.byteLength} bytes; a safetensors file begins with the 8 bytes of its `
            + 'header\'s length.');
    const length = Number(new DataView(buffer).getBigUint64(0, true));
    if (length > HEADER_MAX || length > buffer.byteLength - 8)
        throw fileFault(`The file says that its header has ${length} bytes, and ${buffer.byteLength - 8} follow. It `
            + 'is cut short, or no safetensors file.');
    let header = null;
    try {
        header = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array(buffer, 8, length)));
    } catch {
        /* Said below. */
    }
    if (!isObject(header))
        throw fileFault('The header of the safetensors file is no JSON object in UTF-8.');
    return { header, begin: 8 + length };
}

function readTensor(buffer, begin, name, entry) {
    const { dtype, shape, data_offsets: offsets } = isObject(entry) ? entry : {};
    const form = Object.hasOwn(DTYPES, String(dtype)) ? DTYPES[dtype] : null;
    if (!form)
        throw fileFault(`Tensor '${name}' has the dtype ${JSON.stringify(dtype)}; known are `
            + `${Object.keys(DTYPES).join(', ')}.`);
    if (!Array.isArray(shape) || !shape.every(isCount))
        throw fileFault(`Tensor '${name}' has no shape of whole numbers.`);
    const bytes = shape.reduce((product, n) => product * n, form.Bits.BYTES_PER_ELEMENT);
    const [first, end] = Array.isArray(offsets) ? offsets : [];
    if (!isCount(first) || !isCount(end) || first > end || end > buffer.byteLength - begin)
        throw fileFault(`Tensor '${name}' lies at ${JSON.stringify(offsets)} of ${buffer.byteLength - begin} bytes.`);
    if (end - first !== bytes)
        throw fileFault(`Tensor '${name}' of ${dtype} [${shape}] needs ${bytes} bytes and has ${end - first}.`);
    const bits = new form.Bits(buffer.slice(begin + first, begin + end));  /* may lie at an odd place in the file */
    return { dtype, shape, values: form.read ? form.read(bits) : bits };
}

/* The tensors of a file's ArrayBuffer as {tensors: Map of name -> {dtype, shape, values}, metadata: {name: text}}.
 * values are a Float32Array of F32, F16 and BF16, a Float64Array of F64, a BigInt64Array of I64, an Int32Array of I32,
 * a Uint8Array of U8 and BOOL. */
export function readSafetensors(buffer) {
    const { header, begin } = readHeader(buffer);
    const { __metadata__: metadata = {}, ...entries } = header;
    if (!isObject(metadata) || !Object.values(metadata).every((value) => typeof value === 'string'))
        throw fileFault('__metadata__ of the safetensors file is no object of texts.');
    const tensors = new Map(Object.entries(entries).map(
        ([name, entry]) => [name, readTensor(buffer, begin, name, entry)]));
    checkPlaces(entries, buffer.byteLength - begin);
    return { tensors, metadata };
}

/* The format leaves no byte without a tensor, and none to two. */
function checkPlaces(entries, bytes) {
    const places = Object.entries(entries).map(([name, entry]) => [...entry.data_offsets, name])
        .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    let end = 0;
    for (const [first, last, name] of places) {
        if (first !== end)
            throw fileFault(`Tensor '${name}' begins at byte ${first}, and those before it end at ${end}.`);
        end = last;
    }
    if (end !== bytes)
        throw fileFault(`The file has ${bytes} bytes of numbers, and its tensors ${end}.`);
}

/* The bytes of a file: tensors {name: {dtype, shape, values}}, metadata {name: text}. values are as readSafetensors()
 * gives them; other arrays of numbers do as well. */
export function writeSafetensors(tensors, metadata = {}) {
    const header = Object.keys(metadata).length > 0 ? { __metadata__: metadata } : {};
    let end = 0;
    const parts = Object.entries(tensors).map(([name, { dtype, shape, values }]) => {
        const { Bits, write } = DTYPES[dtype];
        const bits = write ? write(values) : values instanceof Bits ? values : Bits.from(values);
        const first = end;
        end += bits.byteLength;
        header[name] = { dtype, shape, data_offsets: [first, end] };
        return new Uint8Array(bits.buffer, bits.byteOffset, bits.byteLength);
    });
    const text = new TextEncoder().encode(JSON.stringify(header));
    const length = Math.ceil(text.length / 8) * 8;  /* blanks behind the header: the numbers lie at a multiple of 8 */
    const file = new Uint8Array(8 + length + end).fill(0x20, 8, 8 + length);
    new DataView(file.buffer).setBigUint64(0, BigInt(length), true);
    file.set(text, 8);
    let place = 8 + length;
    for (const part of parts) {
        file.set(part, place);
        place += part.length;
    }
    return file;
}
