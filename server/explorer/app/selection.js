// SPDX-License-Identifier: Apache-2.0
/* selection.js - makes what is selected fit a source: a layer and a head that are there, rows and keys within them. */

const inside = (place, count) => (place !== null && place < count ? place : null);

function windowIn(range, count) {
    return range !== null && range[1] <= count ? range : null;
}

/* The members of state that a source asks to be otherwise; {} where all fits. */
export function selectionFor(state, source) {
    const layer = source.layers.find((one) => one.layer === state.layer) ?? source.layers[0];
    const answering = source.layers.find(({ kind }) => kind === 'cross') ?? source.layers.at(-1);
    const fitting = {
        layer: layer.layer,
        head: inside(state.head, layer.heads) ?? 0,
        row: inside(state.row, layer.rows),
        key: inside(state.key, layer.keys),
        rows: windowIn(state.rows, layer.rows),
        keys: windowIn(state.keys, layer.keys),
        lineRows: windowIn(state.lineRows, layer.rows),
        lineKeys: windowIn(state.lineKeys, layer.keys),
        position: inside(state.position ?? null, answering.rows),
        heads: state.heads?.every((head) => head < layer.heads) ? state.heads : null,
    };
    return Object.fromEntries(Object.entries(fitting).filter(([name, value]) => state[name] !== value));
}
