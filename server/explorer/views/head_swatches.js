// SPDX-License-Identifier: Apache-2.0
/* head_swatches.js - the heads of a layer as swatches of their colours, each on or off. */
import { headColour } from '../draw/head_colours.js';
import { headDash } from '../draw/lines.js';
import { html } from '../vendor/html.js';
import { useRoving } from './roving.js';

/** The sign of a head beside its numbers: a piece of its line. */
export function HeadSign({ head }) {
    return html`<svg class="head-sign" viewBox="0 0 20 10" aria-hidden="true">
        <path d="M0 5H20" fill="none" stroke=${headColour(head)} stroke-width="4"
            stroke-dasharray=${headDash(head).join(' ') || undefined} /></svg>`;
}

/**
 * heads: how many there are; chosen: a list of those that are on, or null for all. onChosen is
 * given the next chosen. One head is always on: what would turn the last one off turns all on.
 */
export function HeadSwatches({ heads, chosen, onChosen }) {
    const { ref, onFocusIn, onKeyDown } = useRoving('button.swatch', heads);
    const all = Array.from({ length: heads }, (_, head) => head);
    const on = new Set(chosen ?? all);
    const set = (next) => onChosen(next.length === 0 || next.length === heads ? null : next);
    const toggle = (head) => set(all.filter((one) => on.has(one) !== (one === head)));
    const alone = (head) => set(on.size === 1 && on.has(head) ? [] : [head]);
    return html`<div class="swatches" role="group" ref=${ref} onFocusIn=${onFocusIn}
        onKeyDown=${onKeyDown} aria-label="Heads. Shift and Enter shows one alone.">
        <span aria-hidden="true">Heads</span>
        ${all.map((head) => html`<button type="button" key=${head} class="swatch" data-head=${head}
            aria-pressed=${on.has(head) ? 'true' : 'false'} aria-label=${`Head ${head}`}
            title="Click: on or off. Double click: this head alone."
            onClick=${(event) => (event.shiftKey ? alone(head) : toggle(head))}
            onDblClick=${() => alone(head)}>
            ${head}<${HeadSign} head=${head} /></button>`)}
        <button type="button" disabled=${chosen === null} onClick=${() => onChosen(null)}>All</button>
    </div>`;
}
