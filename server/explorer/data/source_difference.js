// SPDX-License-Identifier: Apache-2.0
/* source_difference.js - the difference of two maps of one shape, as a source of maps: the first
 * less the second, from -1 to 1. */

/** The first weight less the second; NaN, of a pair that may not be seen, counts as 0 beside one that may. */
export function differenceOf(first, second) {
    return Number.isNaN(first) && Number.isNaN(second) ? NaN : (first || 0) - (second || 0);
}

/**
 * first and second: {source, layer, head}. Only layers and maps() are there, as data/tiles.js asks
 * for them; layer and head of maps() are not looked at. Where a cell holds several pairs it is the
 * difference of their largest weights.
 */
export class DifferenceSource {
    #sides;

    constructor(first, second) {
        this.#sides = [first, second];
        this.layers = first.source.layers;
    }

    async maps(_, { rows, keys, cells, signal, hidden }) {
        const [a, b] = await Promise.all(this.#sides.map(({ source, layer, head }) =>
            source.maps(layer, { head, rows, keys, cells, signal, hidden })));
        return { ...a, values: a.values.map((value, i) => differenceOf(value, b.values[i])) };
    }
}
