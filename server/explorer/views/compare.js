// SPDX-License-Identifier: Apache-2.0
/* compare.js - two maps beside each other, of other heads, layers, models or texts, with one cursor
 * and one window, and their difference. */
import { differenceOf, DifferenceSource } from '../data/source_difference.js';
import { TileStore } from '../data/tiles.js';
import { Legend } from '../draw/legend.js';
import { createLink, MapCanvas } from '../draw/map_canvas.js';
import { html, useEffect, useMemo, useState } from '../vendor/html.js';
import { HeadChooser, LayerChooser } from './choosers.js';
import { CompareStatistics, PairWeights } from './compare_numbers.js';
import { otherFor, OtherFields, useOtherSource } from './compare_other.js';
import { layerTitle, LookControls, unitOf } from './head_controls.js';
import { useLine } from './map_lines.js';
import { useRange } from './use_range.js';

/* The layer and the head of a source that a side asks for, or those that are nearest. */
function sideOf(source, { layer, head }) {
    if (!source)
        return null;
    const found = source.layers.find((one) => one.layer === layer) ?? source.layers[0];
    return { source, layer: found, head: Math.min(head ?? 0, found.heads - 1) };
}

const nameOf = ({ source, layer, head }) => `layer ${layerTitle(source, layer)}, head ${head}`;
const shapeOf = ({ layer }) => `${layer.rows} × ${layer.keys}`;

/* The tiles of a side, closed with it. */
function useTiles(side) {
    const store = useMemo(() => side && new TileStore(side.source, side.layer.layer, side.head),
        [side?.source, side?.layer, side?.head]);
    useEffect(() => () => store?.close(), [store]);
    return store;
}

function useDifference([first, second], isShown) {
    const store = useMemo(() => isShown && new TileStore(new DifferenceSource(
        ...[first, second].map(({ source, layer, head }) => ({ source, layer: layer.layer, head }))),
    first.layer.layer, first.head),
    [isShown, first.source, first.layer, first.head, second?.source, second?.layer, second?.head]);
    useEffect(() => () => store && store.close(), [store]);
    return store || null;
}

/* What of a cell or of a fixed pair lies on a map. */
function within(cell, layer) {
    if (!cell)
        return null;
    const row = cell.row !== null && cell.row < layer.rows ? cell.row : null;
    const key = cell.key !== null && cell.key < layer.keys ? cell.key : null;
    return { row, key };
}

const whole = (cell) => (cell && cell.row !== null && cell.key !== null ? cell : null);

/* One map. shared: cursor, window and colours of all maps. */
function Panel({ title, side, store, shared, weightOf, children }) {
    const { hover, selected, ...same } = shared;
    return html`<section class="compare-panel" aria-label=${title}>
        ${children}
        <${MapCanvas} ...${same} store=${store} rowTokens=${side.layer.rowTokens}
            keyTokens=${side.layer.keyTokens} label=${title} weightOf=${weightOf}
            hover=${whole(within(hover, side.layer))} selected=${within(selected, side.layer)} />
    </section>`;
}

function FirstFields({ source, side, change }) {
    return html`<div class="compare-fields">
        <p class="compare-title" title=${source.title}>${source.title}</p>
        <div class="view-tools">
            <${LayerChooser} source=${source} layer=${side.layer.layer} onLayer=${(number) => {
                const next = source.layers.find((one) => one.layer === number);
                change({ layer: number, head: Math.min(side.head, next.heads - 1),
                    rows: null, keys: null, row: null, key: null });
            }} />
            <${HeadChooser} heads=${side.layer.heads} head=${side.head}
                onHead=${(head) => change({ head })} />
        </div></div>`;
}

/* Says why there is no difference, or what it compares; '' where all is plain. */
function differenceWords([first, second]) {
    if (!second)
        return 'The second map is opened first.';
    if (shapeOf(first) !== shapeOf(second))
        return `There is no difference of maps of two shapes: the first has ${shapeOf(first)} rows and keys, `
            + `the second ${shapeOf(second)}.`;
    const isSame = (name) => first.layer[name].every(({ label }, i) => label === second.layer[name][i].label);
    return isSame('rowTokens') && isSame('keyTokens') ? ''
        : 'The tokens differ: rows and keys are compared by their numbers.';
}

function DifferencePanel({ sides, store, shared, kind, weightOf }) {
    const range = useRange([store], kind, sides[0].layer.keys);
    return html`<${Panel} title=${`The first less the second: ${nameOf(sides[0])} less ${nameOf(sides[1])}`}
        side=${sides[0]} store=${store} weightOf=${weightOf}
        shared=${{ ...shared, palette: 'difference', range: range.value }}>
        <div class="compare-fields"><p class="compare-title">The first less the second</p>
            <${Legend} scale=${shared.scale} palette="difference" range=${range} what="difference" />
            <p class="faint">Where a cell holds several pairs, it is the difference of their largest weights.</p>
        </div></${Panel}>`;
}

/* The exact weights of a row of both sides. */
function useWeights(sides, row, onFault) {
    const lines = [0, 1].map((i) => {
        const side = sides[i] ?? sides[0];
        const isThere = sides[i] && row !== null && row < side.layer.rows;
        return useLine(side.source, { layer: side.layer.layer, head: side.head, side: 'row',
            index: isThere ? row : null }, onFault);
    });
    return (at, key) => lines.map((line) => (line?.index === at && key < line.values.length
        ? line.values[key] : null));
}

export function Compare({ state, change, source, onFault, models, openOther }) {
    const first = sideOf(source, state);
    useEffect(() => {
        if (!state.other)
            change({ other: otherFor(first.layer, first.head, source.layers) }, { isStep: false });
    }, [state.other, source]);
    const { source: other, isOpening } = useOtherSource({ state, source, openOther, onFault });
    const second = state.other ? sideOf(other, { layer: state.other.layer ?? state.layer,
        head: state.other.head ?? state.head }) : null;
    const sides = [first, second];
    const [hover, setHover] = useState(null);
    const [own, setOwn] = useState({ rows: null, keys: null });
    const isAlike = second !== null && shapeOf(first) === shapeOf(second);
    const link = useMemo(createLink, [isAlike]);
    const isDifferent = state.difference && isAlike;
    const stores = [useTiles(first), useTiles(second), useDifference(sides, isDifferent)];
    const range = useRange(stores.slice(0, 2), state.range, Math.max(...sides.map((side) => side?.layer.keys ?? 0)));
    const cell = hover ?? { row: state.row, key: state.key };
    const weights = useWeights(sides, cell.row, onFault);
    const shared = { rows: state.rows, keys: state.keys, onWindow: change, link, hover, onHover: setHover,
        selected: { row: state.row, key: state.key }, onSelect: change, scale: state.scale,
        palette: state.palette, range: range.value, unit: unitOf(source, first.layer), onFault };
    const apart = isAlike ? shared : { ...shared, ...own, onWindow: setOwn, link: null };
    const words = differenceWords(sides);
    return html`<section class=${second ? 'compare' : 'compare unread'} aria-label="Compare" aria-busy=${isOpening}>
        <div class="head-controls">
            <${LookControls} state=${state} change=${change} range=${range} words=${second ? ', in both maps' : ''} />
            <label class="chooser"><input type="checkbox" checked=${state.difference} disabled=${second && !isAlike}
                onChange=${(event) => change({ difference: event.target.checked })} /> Difference</label>
            <button type="button" disabled=${!second} onClick=${() => change({ layer: second.layer.layer,
                head: second.head, other: { ...state.other, layer: first.layer.layer, head: first.head } })}>
                Swap the heads</button>
        </div>
        <p class="compare-words faint" role="status">${words}</p>
        <${PairWeights} sides=${sides} cell=${cell} weights=${cell.row === null || cell.key === null
            ? [null, null] : weights(cell.row, cell.key)} />
        <div class=${isDifferent ? 'compare-panels three' : 'compare-panels'}>
            <${Panel} title=${`First map: ${nameOf(first)}`} side=${first} store=${stores[0]} shared=${shared}
                weightOf=${(row, key) => weights(row, key)[0]}>
                <${FirstFields} ...${{ source, side: first, change }} /></${Panel}>
            ${second ? html`<${Panel} title=${`Second map: ${nameOf(second)}`} side=${second} store=${stores[1]}
                shared=${apart} weightOf=${(row, key) => weights(row, key)[1]}>
                <${OtherFields} ...${{ state, change, models, other, layer: second.layer, head: second.head }} />
                </${Panel}>`
            : html`<section class="compare-panel">${state.other
                && html`<${OtherFields} ...${{ state, change, models, other: null }} />`}
                <p class="faint" aria-live="polite">${isOpening
                    ? 'Computing the maps of the second side…' : 'Type a text for the second side.'}</p></section>`}
            ${isDifferent && html`<${DifferencePanel} ...${{ sides, store: stores[2], shared, kind: state.range,
                weightOf: (row, key) => {
                    const both = weights(row, key);
                    return both.includes(null) ? null : differenceOf(...both);
                } }} />`}
        </div>
        <${CompareStatistics} sides=${sides} onFault=${onFault} />
    </section>`;
}
