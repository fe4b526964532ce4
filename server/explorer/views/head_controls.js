// SPDX-License-Identifier: Apache-2.0
/* head_controls.js - which head is looked at, in which colours, and the weight of the pair looked at. */
import { PALETTES } from '../draw/colours.js';
import { Legend } from '../draw/legend.js';
import { pairText, weightText } from '../draw/scales.js';
import { html } from '../vendor/html.js';

const RANGE_NAMES = { '': 'by length', 1: '1', largest: 'the largest', 99: '99 %' };
const SCALE_NAMES = { linear: 'linear', sqrt: 'square root', log: 'logarithm' };

/* A list with a button to either side. */
function Stepper({ label, value, options, onChange, keys }) {
    const at = options.findIndex((option) => option.value === value);
    const step = (by, sign, word) => html`
        <button type="button" disabled=${!options[at + by]} title=${`${word} (${keys[by < 0 ? 0 : 1]})`}
            aria-label=${`${word} ${label.toLowerCase()}`}
            onClick=${() => onChange(options[at + by].value)}>${sign}</button>`;
    return html`
        <div class="stepper">
            ${step(-1, '‹', 'Previous')}
            <label>${label}
                <select value=${value} onChange=${(event) => onChange(Number(event.target.value))}>
                    ${options.map((option) => html`<option value=${option.value}>${option.title}</option>`)}
                </select>
            </label>
            ${step(1, '›', 'Next')}
        </div>`;
}

/** A layer as it is called: with its kind where a model has more than one. */
export function layerTitle(source, { layer, kind }) {
    const isOnlyKind = source.layers.every((one) => one.kind === source.layers[0].kind);
    return isOnlyKind ? String(layer) : `${layer} ${kind}`;
}

/** What stands at a row of a layer: a token, or a patch of a picture. */
export function unitOf(source, layer) {
    return source.picture && layer.kind !== 'text' ? 'patch' : 'token';
}

function Choice({ label, value, names, onChange }) {
    return html`
        <label class="labelled">${label}
            <select value=${value} onChange=${(event) => onChange(event.target.value)}>
                ${Object.entries(names).map(([name, title]) => html`<option value=${name}>${title}</option>`)}
            </select>
        </label>`;
}

/** In which colours weights are drawn, and which weight each colour is. range is what rangeOf() gives (range.js); words
 * stand behind it. */
export function LookControls({ state, change, range, words }) {
    const palettes = Object.fromEntries(PALETTES.map((name) => [name, name]));
    return html`
        <${Choice} label="Scale" value=${state.scale} names=${SCALE_NAMES}
            onChange=${(scale) => change({ scale })} />
        <${Choice} label="Colours" value=${state.palette} names=${palettes}
            onChange=${(palette) => change({ palette })} />
        <${Choice} label="Up to" value=${state.range ?? ''} names=${RANGE_NAMES}
            onChange=${(chosen) => change({ range: chosen || null })} />
        <${Legend} scale=${state.scale} palette=${state.palette} range=${range} words=${words} />`;
}

/** The line above a map. go({layer, head}) looks at another head. */
export function HeadControls({ source, layer, head, state, change, go, range }) {
    const heads = Array.from({ length: layer.heads }, (_, i) => ({ value: i, title: String(i) }));
    const layers = source.layers.map((one) => ({ value: one.layer, title: layerTitle(source, one) }));
    return html`
        <div class="head-controls">
            <${Stepper} label="Layer" value=${layer.layer} options=${layers} keys="{}"
                onChange=${(value) => go({ layer: value })} />
            <${Stepper} label="Head" value=${head} options=${heads} keys="[]"
                onChange=${(value) => go({ head: value })} />
            <${LookControls} state=${state} change=${change} range=${range} />
        </div>`;
}

const spanText = (name, [begin, end]) =>
    (end - begin === 1 ? `${name} ${begin}` : `${name}s ${begin} to ${end - 1}`);

/** What a colour of the map stands for where it is that of several pairs: the largest of their weights. cell is
 * {rows, keys, value} or null. Empty where nothing is pointed at, so that the page stays where it is. */
export function CellLine({ cell }) {
    const isOne = cell && cell.rows[1] - cell.rows[0] === 1 && cell.keys[1] - cell.keys[0] === 1;
    return html`
        <p class="cell-line faint">${cell && !isOne && (Number.isNaN(cell.value)
            ? html`No pair of ${spanText('row', cell.rows)}, ${spanText('key', cell.keys)} may be seen.` : html`
            The colour is the largest weight of ${spanText('row', cell.rows)}, ${spanText('key', cell.keys)}:
            ${' '}<span class="number" data-rows=${cell.rows.join(':')} data-keys=${cell.keys.join(':')}
                data-largest=${cell.value}>${weightText(cell.value)}</span>`)}</p>`;
}

/** The pair looked at, in words, and the way to why its weight is what it is. */
export function PairLine({ layer, cell, weight, state, change }) {
    const isFixed = state.row !== null && state.key !== null;
    const token = (tokens, at) => html`<b>${tokens[at].label}</b> <small>${at}</small>`;
    return html`
        <div class="pair-line">
            <p>${cell.row === null && cell.key === null
                ? 'Point at the map, or click a token, to see weights.'
                : html`${cell.row === null ? 'any row' : html`row ${token(layer.rowTokens, cell.row)}`}
                    ${' → '}${cell.key === null ? 'any key' : html`key ${token(layer.keyTokens, cell.key)}`}
                    ${weight !== null && html`: <span class="number" data-row=${cell.row} data-key=${cell.key}
                        data-weight=${weight}>${pairText(weight)}</span>`}`}</p>
            <button type="button" disabled=${!isFixed} onClick=${() => change({ view: 'why' })}
                title=${isFixed ? 'The score of the fixed pair, stage by stage'
                    : 'Click a cell of the map first'}>Why this weight?</button>
            <button type="button" disabled=${state.row === null && state.key === null}
                onClick=${() => change({ row: null, key: null })}>Release</button>
        </div>`;
}
