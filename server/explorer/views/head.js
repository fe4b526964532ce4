// SPDX-License-Identifier: Apache-2.0
/* head.js - one head: its map, what a row looks at, who looks at a key, and the same row in other
 * layers and heads. */
import { TileStore } from '../data/tiles.js';
import { Bars, IN_ORDER_MAX } from '../draw/bars.js';
import { useKeys } from '../draw/keys.js';
import { MapCanvas } from '../draw/map_canvas.js';
import { html, useEffect, useMemo, useState } from '../vendor/html.js';
import { CellLine, HeadControls, layerTitle, PairLine, unitOf } from './head_controls.js';
import { FollowRow } from './head_follow.js';
import { lineAtHand, useLine } from './map_lines.js';
import { Picture, seesPicture } from './picture.js';
import { useRange } from './use_range.js';

const IN_ORDER_AT_FIRST = 60;
const CELLS_ALONE_MAX = 128;                     /* rows or keys of a map that has a cell for each pair on any screen */

/* What is looked at: the cell under the pointer, else what is fixed. */
const cellOf = (hover, state) => hover ?? { row: state.row, key: state.key };

/* The weight of a pair from a row or a key whose weights are at hand. */
function weightAtHand(source, { layer, head }, { row, key }) {
    if (row === null || key === null)
        return null;
    const byRow = lineAtHand(source, { layer, head, side: 'row', index: row });
    return byRow?.[key] ?? lineAtHand(source, { layer, head, side: 'key', index: key })?.[row] ?? null;
}

const named = (tokens, at) => html`<b>${tokens[at].label}</b> <small>${at}</small>`;

/* Both directions of the cell looked at. */
function Sides({ layer, row, column, state, change }) {
    const isShort = Math.max(layer.rows, layer.keys) <= IN_ORDER_AT_FIRST;
    const [chosen, setOrder] = useState(null);
    const order = chosen ?? (isShort ? 'text' : 'largest');
    const shared = { order, scale: state.scale };
    return html`
        <section class="sides" aria-label="Weights of a row and of a key">
            <label class="labelled">Order
                <select value=${order} onChange=${(event) => setOrder(event.target.value)}>
                    <option value="text" disabled=${Math.max(layer.rows, layer.keys) > IN_ORDER_MAX}>
                        as in the text</option>
                    <option value="largest">largest first</option>
                </select>
            </label>
            <${Bars} ...${shared} values=${row?.values ?? null} tokens=${layer.keyTokens}
                caption=${row ? html`Row ${named(layer.rowTokens, row.index)} looks at` : 'What a row looks at'}
                marked=${state.key} pairOf=${(at) => ({ row: row.index, key: at })}
                onPick=${(at) => change({ row: row.index, key: at })} />
            <${Bars} ...${shared} values=${column?.values ?? null} tokens=${layer.rowTokens}
                caption=${column ? html`Who looks at key ${named(layer.keyTokens, column.index)}`
                    : 'Who looks at a key'}
                marked=${state.row} pairOf=${(at) => ({ row: at, key: column.index })}
                onPick=${(at) => change({ row: at, key: column.index })} />
        </section>`;
}

/* Looks at another head; what is fixed and seen stays where the other layer has as many tokens. */
function goTo(source, layer, head, to, change) {
    const next = source.layers.find((one) => one.layer === (to.layer ?? layer.layer));
    if (!next)
        return;
    const isAlike = next.rows === layer.rows && next.keys === layer.keys;
    const released = isAlike ? {} : { row: null, key: null, rows: null, keys: null };
    change({ layer: next.layer, head: Math.min(to.head ?? head, next.heads - 1), ...released });
}

function useHeadKeys(source, layer, head, go, isOn) {
    const at = source.layers.indexOf(layer);
    const toLayer = (by) => source.layers[at + by] && go({ layer: source.layers[at + by].layer });
    const toHead = (by) => head + by >= 0 && head + by < layer.heads && go({ head: head + by });
    useKeys({ '[': () => toHead(-1), ']': () => toHead(1), '{': () => toLayer(-1), '}': () => toLayer(1) },
        isOn);
}

/** The view of one head. */
export function Head({ state, change, source, onFault, hasKeys = true }) {
    const layer = source.layers.find((one) => one.layer === state.layer) ?? source.layers[0];
    const head = Math.min(state.head ?? 0, layer.heads - 1);
    const [hover, setHover] = useState(null);
    const store = useMemo(() => new TileStore(source, layer.layer, head), [source, layer, head]);
    useEffect(() => () => store.close(), [store]);
    useEffect(() => setHover(null), [source, layer]);
    const go = (to) => goTo(source, layer, head, to, change);
    useHeadKeys(source, layer, head, go, hasKeys);
    const cell = cellOf(hover, state);
    const where = { layer: layer.layer, head };
    const row = useLine(source, { ...where, side: 'row', index: cell.row }, onFault);
    const column = useLine(source, { ...where, side: 'key', index: cell.key }, onFault);
    const weightOf = (row, key) => weightAtHand(source, where, { row, key });
    const range = useRange([store], state.range, layer.keys);
    const shared = { source, layer, head, state, change, onFault, range };
    return html`
        <div class="head-view">
            <${HeadControls} ...${shared} go=${go} />
            <div class="head-map">
                <${MapCanvas} store=${store} rowTokens=${layer.rowTokens} keyTokens=${layer.keyTokens}
                    rows=${state.rows} keys=${state.keys} onWindow=${change}
                    selected=${{ row: state.row, key: state.key }} onSelect=${change}
                    hover=${hover} onHover=${setHover} scale=${state.scale} palette=${state.palette}
                    range=${range.value} unit=${unitOf(source, layer)} hasDigits=${state.present}
                    label=${`Weights of layer ${layerTitle(source, layer)}, head ${head}: `
                        + `${layer.rows} rows down, ${layer.keys} keys across`}
                    weightOf=${weightOf} onFault=${onFault}>
                    <${PairLine} layer=${layer} cell=${cell} weight=${weightOf(cell.row, cell.key)}
                        state=${state} change=${change} />
                    ${Math.max(layer.rows, layer.keys) > CELLS_ALONE_MAX && html`<${CellLine}
                        cell=${hover && store.drawnCell(hover.row, hover.key)} />`}
                <//>
            </div>
            <div class="head-side">
                ${seesPicture(source, layer) && html`<${Picture} ...${shared} line=${row} cell=${cell}
                    onHover=${setHover} />`}
                <${Sides} layer=${layer} row=${row} column=${column} state=${state} change=${change} />
            </div>
            <${FollowRow} ...${shared} go=${go} />
        </div>`;
}
