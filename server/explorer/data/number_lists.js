// SPDX-License-Identifier: Apache-2.0
/* number_lists.js - lists of numbers of JSON as tensors. */
import { fileFault } from './safetensors.js';

export const AXES_MAX = 4;

/* A value of JSON in a message; what has members may be too deep to write. */
const said = (value) => (Array.isArray(value) ? 'an array' : typeof value === 'object' ? 'an object'
    : JSON.stringify(value).slice(0, 40));

/* How many lists are in each other, by the first of each. */
export function depthOf(lists) {
    let depth = 0;
    for (let inner = lists; Array.isArray(inner); inner = inner[0])
        depth++;
    return depth;
}

/* [[1, 2], [3, 4]] as {dtype, shape, values}; numbers become F32, as the daemon reads them, and bools BOOL. null is a
 * number that is not finite: missing says which, as -Infinity in a mask. */
export function tensorOfLists(lists, name, missing = -Infinity) {
    const shape = [];
    for (let inner = lists; Array.isArray(inner); inner = inner[0])
        shape.push(inner.length);
    if (shape.length > AXES_MAX)
        throw fileFault(`'${name}' has ${shape.length} axes; at most ${AXES_MAX} are read.`);
    const flat = [];
    const walk = (value, axis) => {
        if (axis === shape.length) {
            if (value !== null && typeof value !== 'number' && typeof value !== 'boolean')
                throw fileFault(`'${name}' holds ${said(value)} where numbers stand.`);
            flat.push(value === null ? missing : value);
        } else if (!Array.isArray(value) || value.length !== shape[axis]) {
            throw fileFault(`'${name}' has rows of unequal length: expected ${shape[axis]} in each.`);
        } else {
            value.forEach((inner) => walk(inner, axis + 1));
        }
    };
    walk(lists, 0);
    return flat.length > 0 && flat.every((value) => typeof value === 'boolean')
        ? { dtype: 'BOOL', shape, values: Uint8Array.from(flat) }
        : { dtype: 'F32', shape, values: Float32Array.from(flat, Number) };
}
