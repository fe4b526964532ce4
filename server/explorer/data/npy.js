// SPDX-License-Identifier: Apache-2.0
/* npy.js - arrays as numpy saves them
 * (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html): versions 1 and 2. */
import { fileFault } from './safetensors.js';
import { floatsOfHalves } from './half.js';

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59];  /* "\x93NUMPY" */
const AXES_MAX = 5;                              /* weights: layers, a batch of one, heads, rows, keys */

const TYPES = {
    '<f2': { dtype: 'F16', Bits: Uint16Array, read: floatsOfHalves },
    '<f4': { dtype: 'F32', Bits: Float32Array },
    '<f8': { dtype: 'F64', Bits: Float64Array },
    '<i4': { dtype: 'I32', Bits: Int32Array },
    '<i8': { dtype: 'I64', Bits: BigInt64Array },
};

/* Whether the bytes of a file begin as those of numpy do. */
export function isNpy(buffer) {
    const bytes = new Uint8Array(buffer, 0, Math.min(6, buffer.byteLength));
    return bytes.length === 6 && MAGIC.every((byte, i) => bytes[i] === byte);
}

/* The text of the header, a dictionary as Python writes it, and where the numbers begin. */
function readHeader(buffer) {
    if (!isNpy(buffer) || buffer.byteLength < 12)
        throw fileFault('The file does not begin as a .npy file does.');
    const view = new DataView(buffer);
    const version = view.getUint8(6);
    if (version !== 1 && version !== 2)
        throw fileFault(`The .npy file has version ${version}; known are 1 and 2.`);
    const begin = version === 1 ? 10 : 12;
    const length = version === 1 ? view.getUint16(8, true) : view.getUint32(8, true);
    if (length > buffer.byteLength - begin)
        throw fileFault(`The .npy file says that its header has ${length} bytes, and ${buffer.byteLength - begin} `
            + 'follow. It is cut short.');
    return { text: new TextDecoder('latin1').decode(new Uint8Array(buffer, begin, length)), begin: begin + length };
}

function readShape(text) {
    const inner = /'shape'\s*:\s*\(([\d,\sL]*)\)/.exec(text)?.[1];
    if (inner === undefined)
        throw fileFault(`The header of the .npy file names no shape: ${text.trim()}`);
    return inner.match(/\d+/g)?.map(Number) ?? [];
}

/* Numbers in Fortran's order, the first axis fastest, in C's. */
function turned(values, shape) {
    const to = new values.constructor(values.length);
    const at = shape.map(() => 0);
    const strides = shape.map((_, axis) => shape.slice(0, axis).reduce((product, n) => product * n, 1));
    let from = 0;
    for (let i = 0; i < to.length; i++) {
        to[i] = values[from];
        for (let axis = shape.length - 1; axis >= 0; axis--) {
            from += strides[axis];
            if (++at[axis] < shape[axis])
                break;
            from -= strides[axis] * shape[axis];
            at[axis] = 0;
        }
    }
    return to;
}

/* The array of a file's ArrayBuffer as {dtype, shape, values}, in C's order, with values as readSafetensors() gives
 * them. */
export function readNpy(buffer) {
    const { text, begin } = readHeader(buffer);
    const descr = /'descr'\s*:\s*'([^']*)'/.exec(text)?.[1];
    const order = /'fortran_order'\s*:\s*(True|False)/.exec(text)?.[1];
    if (descr === undefined || !Object.hasOwn(TYPES, descr))
        throw fileFault(`The .npy file has numbers of ${descr ? `'${descr}'` : 'several types'}; known are `
            + `${Object.keys(TYPES).join(', ')}.`);
    if (!order)
        throw fileFault('The header of the .npy file does not say whether it is in Fortran\'s order.');
    const shape = readShape(text);
    if (shape.length > AXES_MAX)
        throw fileFault(`The .npy file has ${shape.length} axes; at most ${AXES_MAX} are read.`);
    const { dtype, Bits, read } = TYPES[descr];
    const bytes = shape.reduce((product, n) => product * n, Bits.BYTES_PER_ELEMENT);
    if (bytes !== buffer.byteLength - begin)
        throw fileFault(`The .npy file has ${buffer.byteLength - begin} bytes of numbers; ${descr} [${shape}] needs `
            + `${bytes}.`);
    const bits = new Bits(buffer.slice(begin));
    const values = read ? read(bits) : bits;
    return { dtype, shape, values: order === 'True' ? turned(values, shape) : values };
}
