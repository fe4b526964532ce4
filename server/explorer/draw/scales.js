/* scales.js - where a weight stands between the first and the last colour, and the numbers that a
 * legend writes beside them. */

const DECADES = 6;

/**
 * The scales by name. placeOf maps a weight from 0 to 1 to a place from 0 to 1, weightAt goes back,
 * ticks are the weights of a legend. A logarithm shows six powers of ten; what is below is at 0.
 */
export const SCALES = {
    linear: {
        placeOf: (weight) => weight,
        weightAt: (place) => place,
        ticks: [0, 0.25, 0.5, 0.75, 1],
    },
    sqrt: {
        placeOf: Math.sqrt,
        weightAt: (place) => place * place,
        ticks: [0, 0.01, 0.1, 0.25, 0.5, 1],
    },
    log: {
        placeOf: (weight) => (weight > 1e-6 ? 1 + Math.log10(weight) / DECADES : 0),
        weightAt: (place) => 10 ** ((place - 1) * DECADES),
        ticks: [1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1],
    },
};

/** A weight in as many digits as tell it apart: 0.7421, 0.003052, 3.10e-9. */
export function weightText(weight) {
    if (weight === null || Number.isNaN(weight))
        return '–';
    const size = Math.abs(weight);
    if (size === 0 || size === 1)
        return String(weight);
    return size < 1e-3 ? weight.toExponential(2) : String(Number(weight.toPrecision(4)));
}

/** A tick of a legend: 1e-6 as 10⁻⁶. */
export function tickText(weight) {
    if (weight !== 0 && Math.abs(weight) < 0.01)
        return `10⁻${'⁰¹²³⁴⁵⁶⁷⁸⁹'[Math.round(-Math.log10(Math.abs(weight)))]}`;
    return String(weight).replace('-', '−');
}
