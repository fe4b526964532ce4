// SPDX-License-Identifier: Apache-2.0
/* half.js - numbers of 16 bits: IEEE 754 binary16 (F16) and bfloat16 (BF16), as floats and back.
 *
 * Their bits are in a Uint16Array. To bits is to the nearest, of two equally near ones to the even. */

const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);

function floatOfHalf(half) {
    const sign = half & 0x8000 ? -1 : 1;
    const exponent = half >> 10 & 0x1f;
    const fraction = half & 0x3ff;
    if (exponent === 31)
        return fraction ? NaN : sign * Infinity;
    return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25));
}

let table = null;                                /* all 65536 of them, made when first needed */

/* Floats of the bits of F16. */
export function floatsOfHalves(halves) {
    table ??= Float32Array.from({ length: 65536 }, (_, half) => floatOfHalf(half));
    return Float32Array.from(halves, (half) => table[half]);
}

/* n / 2^count, rounded to the nearest whole number, of two to the even. */
function shiftEven(n, count) {
    const half = 2 ** (count - 1);
    const below = n % 2 ** count;
    const whole = Math.floor(n / 2 ** count);
    return whole + (below > half || (below === half && whole % 2 === 1) ? 1 : 0);
}

function halfOfFloat(value) {
    float[0] = value;
    const sign = bits[0] >>> 16 & 0x8000;
    const exponent = bits[0] >>> 23 & 0xff;
    const fraction = bits[0] & 0x7fffff;
    if (exponent === 255)
        return sign | 0x7c00 | (fraction ? 0x200 | fraction >> 13 : 0);
    if (exponent >= 143)
        return sign | 0x7c00;
    if (exponent >= 113)                         /* a carry goes into the exponent, up to infinity */
        return sign | (exponent - 112) * 1024 + shiftEven(fraction, 13);
    return sign | (exponent < 102 ? 0 : shiftEven(0x800000 + fraction, 126 - exponent));
}

/* The bits of F16 of floats. */
export function halvesOfFloats(floats) {
    return Uint16Array.from(floats, halfOfFloat);
}

/* Floats of the bits of BF16, which are the upper half of a float's. */
export function floatsOfBrains(brains) {
    return new Float32Array(Uint32Array.from(brains, (brain) => brain * 65536).buffer);
}

function brainOfFloat(value) {
    float[0] = value;
    if (Number.isNaN(value))
        return bits[0] >>> 16 | 0x40;
    return bits[0] + 0x7fff + (bits[0] >>> 16 & 1) >>> 16;
}

/* The bits of BF16 of floats. */
export function brainsOfFloats(floats) {
    return Uint16Array.from(floats, brainOfFloat);
}
