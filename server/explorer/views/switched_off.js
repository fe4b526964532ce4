// SPDX-License-Identifier: Apache-2.0
/* switched_off.js - says above every view that it shows the pass without some heads, and switches them on again. */
import { html } from '../vendor/html.js';

const NAMED = 8;

/* "head 2 of layer 4", "heads 4.2, 4.3 and 0.1 (layer.head)". */
function offWords(off) {
    if (off.length === 1)
        return `head ${off[0][1]} of layer ${off[0][0]}`;
    const names = off.slice(0, NAMED).map((one) => one.join('.')).join(', ');
    return `${off.length} heads: ${names}${off.length > NAMED ? ', …' : ''} (layer.head)`;
}

/* off is that of the state. */
export function SwitchedOff({ off, change }) {
    return html`
        <p class="switched-off" role="status" data-off=${off.map((one) => one.join('.')).join(',')}>
            <span>This is the pass <b>without ${offWords(off)}</b>: everything here is of that pass.</span>
            <button title="Switch the last one on again (u)" onClick=${() => change({ off: off.slice(0, -1) })}>
                Undo</button>
            ${off.length > 1 && html`<button onClick=${() => change({ off: [] })}>All on</button>`}
        </p>`;
}
