// SPDX-License-Identifier: Apache-2.0
/* scales.js - where a weight stands between the first and the last colour, and the numbers that a
 * legend writes beside them. */

/** Where the logarithmic scale begins: what is below has its first colour. */
export const LOG_FLOOR = 1e-6;

const decades = (range) => Math.log(Math.max(range, 10 * LOG_FLOOR) / LOG_FLOOR);

/**
 * The scales by name. placeOf maps a weight from 0 to range to a place from 0 to 1, weightAt goes
 * back; ticks are the weights of a legend up to 1. A logarithm begins at LOG_FLOOR.
 */
export const SCALES = {
    linear: {
        placeOf: (weight, range = 1) => weight / range,
        weightAt: (place, range = 1) => place * range,
        ticks: [0, 0.25, 0.5, 0.75, 1],
    },
    sqrt: {
        placeOf: (weight, range = 1) => Math.sqrt(weight / range),
        weightAt: (place, range = 1) => place * place * range,
        ticks: [0, 0.01, 0.1, 0.25, 0.5, 1],
    },
    log: {
        placeOf: (weight, range = 1) => (weight > LOG_FLOOR ? Math.log(weight / LOG_FLOOR) / decades(range) : 0),
        weightAt: (place, range = 1) => LOG_FLOOR * Math.exp(place * decades(range)),
        ticks: [1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1],
    },
};

const TICKS_APART = 0.14; /* of the bar's length */

/* 1, 2 and 5 times (or as times says) the powers of ten below a range, the largest first. */
function roundNumbersBelow(range, times) {
    const numbers = [];
    for (let power = Math.floor(Math.log10(range)); power >= -6; power--)
        numbers.push(...times.map((one) => Number(`${one}e${power}`)));
    return numbers.filter((number) => number < range);
}

/** The weights that a legend writes for a scale whose last colour is that of range, ascending. */
export function ticksUpTo(scale, range) {
    const { placeOf, ticks } = SCALES[scale];
    if (range === 1)
        return ticks;
    const first = scale === 'log' ? LOG_FLOOR : 0;
    const chosen = [range];
    for (const number of roundNumbersBelow(range, scale === 'log' ? [1] : [5, 2, 1])) {
        const place = placeOf(number, range);
        if (place >= TICKS_APART && placeOf(chosen[0], range) - place >= TICKS_APART)
            chosen.unshift(number);
    }
    return [first, ...chosen];
}

/** A weight in as many digits as tell it apart: 0.7421, 0.003052, 3.10e-9. */
export function weightText(weight) {
    if (weight === null || Number.isNaN(weight))
        return '–';
    const size = Math.abs(weight);
    if (size === 0 || size === 1)
        return String(weight);
    return size < 1e-3 ? weight.toExponential(2) : String(Number(weight.toPrecision(4)));
}

/** The same, in words where a pair may not be seen: NaN stands for its weight. */
export function pairText(weight) {
    return Number.isNaN(weight) ? 'may not be seen' : weightText(weight);
}

/** A tick of a legend: 0.13, and 1e-6 as 10⁻⁶. */
export function tickText(weight) {
    const size = Math.abs(weight);
    const sign = weight < 0 ? '−' : '';
    const power = Math.round(-Math.log10(size));
    if (size !== 0 && size < 0.01 && Math.abs(size * 10 ** power - 1) < 1e-6)
        return `${sign}10⁻${[...String(power)].map((digit) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[digit]).join('')}`;
    return sign + String(Number(size.toPrecision(2))).replace('e-', 'e−');
}
