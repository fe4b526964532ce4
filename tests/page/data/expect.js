// SPDX-License-Identifier: Apache-2.0
/* expect.js - runs before each file of this folder, in the page: what did not hold is in faults, which the test
 * reads. */
const faults = [];
const at = (file) => new URL(`explorer/data/${file}`, document.baseURI).href;

/* Whether two values are the same, said in words where they are not. */
const same = (what, got, expected) => {
    const [one, other] = [got, expected].map((value) => JSON.stringify(value));
    if (one !== other)
        faults.push(`${what}: got ${one?.slice(0, 300)}, expected ${other?.slice(0, 300)}`);
};

const near = (what, got, expected, tolerance) => {
    if (!(Math.abs(got - expected) <= tolerance))
        faults.push(`${what}: got ${got}, expected ${expected} within ${tolerance}`);
};

/* Whether a call fails with words that hold each of these. */
const fails = async (what, run, ...words) => {
    try {
        await run();
        faults.push(`${what}: no fault`);
    } catch (error) {
        if (error.name !== 'ApiFault' || !words.every((word) => error.message.includes(word)))
            faults.push(`${what}: ${error.stack}; expected an ApiFault with ${words.join(' and ')}`);
    }
};

/* Numbers that look random and are the same in each run, from 0 to below 1. */
const numbersFrom = (seed) => () => {
    seed = seed + 0x6d2b79f5 | 0;
    let mixed = Math.imul(seed ^ seed >>> 15, 1 | seed);
    mixed ^= mixed + Math.imul(mixed ^ mixed >>> 7, 61 | mixed);
    return ((mixed ^ mixed >>> 14) >>> 0) / 2 ** 32;
};

const listsOf = (values, shape, begin = 0) => {
    if (shape.length === 0)
        return values[begin];
    const step = shape.slice(1).reduce((product, n) => product * n, 1);
    return Array.from({ length: shape[0] }, (_, i) => listsOf(values, shape.slice(1), begin + i * step));
};

const fileOf = (name, content, type = '') => new File([content], name, { type });
const bytesOf = (base64) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)).buffer;
