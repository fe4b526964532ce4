// SPDX-License-Identifier: Apache-2.0
/* map_canvas.js - one weight map to look around in: a canvas with its buttons, by pointer, touch
 * and keys, and the words for who does not see it. */
import { html, useEffect, useLayoutEffect, useRef, useState } from '../vendor/html.js';
import { MapView } from './map_view.js';
import { pairText } from './scales.js';

export { createLink } from './map_view.js';

/** A token's label as it is spoken: without the signs that stand for white space. */
export function spokenToken({ label }) {
    return label.replace(/[␣⏎⇥]/g, ' ').trim() || 'white space';
}

const isOnMap = (cell, { rowTokens, keyTokens }) =>
    cell && cell.row < rowTokens.length && cell.key < keyTokens.length;

/* What stands at a cell. A cell of a coarse tile has the largest weight of several pairs. */
function sayCell({ row, key }, { store, rowTokens, keyTokens, weightOf }) {
    const exact = weightOf?.(row, key) ?? null;
    const cell = exact === null ? store.cell(row, key) : null;
    const isOne = cell && cell.rows[1] - cell.rows[0] === 1 && cell.keys[1] - cell.keys[0] === 1;
    const weight = exact ?? cell?.value ?? null;
    const said = weight === null ? 'weight not loaded yet' : Number.isNaN(weight) ? pairText(weight)
        : `${exact !== null || isOne ? 'weight' : 'weight at most'} ${pairText(weight)}`;
    return `Row ${row}, ${spokenToken(rowTokens[row])}; `
        + `key ${key}, ${spokenToken(keyTokens[key])}; ${said}`;
}

const HELP = 'Arrow keys move from cell to cell, Home and End along the row, Page Up and Page Down '
    + 'by rows, Enter fixes a cell and Escape releases it. Plus and minus zoom, shift and arrows '
    + 'pan, 0 shows all.';

/**
 * A map. store: a TileStore; rowTokens, keyTokens: [{label}]; rows, keys: the window, [a, b] or null;
 * onWindow({rows, keys}) once the hand rests; selected: {row, key}, each a number or null, onSelect({row, key});
 * hover: {row, key} | null, onHover; scale, palette, range: the weight of the last colour, null while it is not
 * known; label: what the map is, in words; unit: what stands at a row, token where it is absent; hasDigits: large
 * cells have their weight in them. NaN is the weight of a pair that may not be seen. Optional: link of createLink();
 * weightOf(row, key) -> exact weight | null; onFault(ApiFault | null) where tiles do not come; children stand beside
 * the buttons below it.
 */
export function MapCanvas(props) {
    const canvas = useRef(null);
    const view = useRef(null);
    const [cursor, setCursor] = useState(null);
    useLayoutEffect(() => {
        view.current = new MapView(canvas.current);
        return () => view.current.close();
    }, []);
    useLayoutEffect(() => view.current.set({ ...props, onCursor: setCursor }));
    useEffect(() => setCursor(null), [props.store]);
    const button = (label, sign, act) => html`
        <button type="button" aria-label=${label} title=${label} onClick=${act}>${sign}</button>`;
    return html`
        <div class="map-frame">
            <canvas ref=${canvas} class="map-canvas" tabindex="0" role="application"
                aria-roledescription="weight map" aria-label=${`${props.label}. ${HELP}`}></canvas>
            <div class="map-foot">
                <div class="map-words">${props.children}</div>
                ${button('Zoom in', '+', () => view.current.zoomBy(1.5, null))}
                ${button('Zoom out', '−', () => view.current.zoomBy(1 / 1.5, null))}
                ${button('Show the whole map', '⤢', () => view.current.showWhole())}
            </div>
            <p class="hidden" aria-live="polite">
                ${isOnMap(cursor, props) ? sayCell(cursor, props) : ''}
            </p>
        </div>`;
}
