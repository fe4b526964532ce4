// SPDX-License-Identifier: Apache-2.0
/* ranges.js - what the colours of the maps of a picture run to: as on the page, where all that are beside each other
 * share one range. A range is {kind, value} as of draw/range.js. */
import { wholeCells } from '../data/tiles.js';
import { joinSpans, rangeOf, spanOf } from '../draw/range.js';

/* The whole map of a head in the cells that the page takes its range from, whatever part of it is seen. */
export async function wholeMap(source, { layer, rows, keys }, head) {
    return (await source.maps(layer, { head, rows: [0, rows], keys: [0, keys],
        cells: [wholeCells(rows), wholeCells(keys)], hidden: true })).values;
}

const keysOf = (panels) => Math.max(...panels.map(({ counts }) => counts[1]));

/* Large maps with their ranges: one of weights, and of their difference its own. A panel's `whole` is that of
 * wholeMap(). */
export function rangedMaps(panels, kind) {
    const weights = panels.filter(({ isDifference }) => !isDifference);
    const shared = rangeOf(kind, joinSpans(weights.map(({ whole }) => spanOf(whole))), keysOf(weights));
    return panels.map((panel) => ({ ...panel, range: panel.isDifference
        ? rangeOf(kind, spanOf(panel.whole), panel.counts[1]) : shared }));
}

/* The values of maps of one size. */
function joined(panels) {
    const size = panels[0].values.length;
    const values = new Float32Array(panels.length * size);
    panels.forEach((panel, i) => values.set(panel.values, i * size));
    return values;
}

/* All heads with the one range of them all; as on the page, of the weight that 99 of 100 are below it is that of the
 * layer where it is largest. */
export function rangedHeads(panels, kind) {
    const layers = [...new Set(panels.map(({ layer }) => layer))];
    const spans = layers.map((layer) => spanOf(joined(panels.filter((panel) => panel.layer === layer))));
    const range = rangeOf(kind, joinSpans(spans), keysOf(panels));
    return panels.map((panel) => ({ ...panel, range }));
}
