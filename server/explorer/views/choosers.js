// SPDX-License-Identifier: Apache-2.0
/* choosers.js - fields for a layer, a head and a token, as several views have them. */
import { html } from '../vendor/html.js';
import { layerTitle } from './head_controls.js';

const SELECT_MAX = 1024; /* tokens; a list of more is no help, and a number is asked for instead */

const options = (entries) => entries.map(([value, words]) =>
    html`<option key=${value} value=${value}>${words}</option>`);

function Chooser({ label, value, entries, onValue, disabled }) {
    return html`<label class="chooser">${label}
        <select value=${value} disabled=${disabled}
            onChange=${(event) => onValue(Number(event.target.value))}>${options(entries)}</select>
    </label>`;
}

/** onLayer is given the number of a layer of the source. */
export function LayerChooser({ source, layer, onLayer, label = 'Layer' }) {
    return html`<${Chooser} label=${label} value=${layer} onValue=${onLayer}
        entries=${source.layers.map((one) => [one.layer, layerTitle(source, one)])} />`;
}

/** heads: how many a layer has. */
export function HeadChooser({ heads, head, onHead, label = 'Head' }) {
    return html`<${Chooser} label=${label} value=${head} onValue=${onHead}
        entries=${Array.from({ length: heads }, (_, i) => [i, String(i)])} />`;
}

/** A place in tokens: {label}. place: null, nothing is chosen. */
export function TokenChooser({ tokens, place, onPlace, label }) {
    if (tokens.length <= SELECT_MAX)
        return html`<${Chooser} label=${label} value=${place ?? ''} onValue=${onPlace}
            entries=${[...(place === null ? [['', 'choose…']] : []),
                ...tokens.map((token, i) => [i, `${i}: ${token.label}`])]} />`;
    const set = (event) => {
        const number = Number(event.target.value);
        if (event.target.value !== '' && Number.isInteger(number) && number >= 0
            && number < tokens.length)
            onPlace(number);
    };
    return html`<label class="chooser">${label}
        <span><input type="number" min="0" max=${tokens.length - 1} step="1" value=${place ?? ''}
            onChange=${set} /> <span class="token-label">${tokens[place]?.label}</span></span>
    </label>`;
}
