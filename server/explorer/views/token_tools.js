// SPDX-License-Identifier: Apache-2.0
/* token_tools.js - what the tokens view shows: its form, the layer, the heads, which weights, and of which texts. */
import { LINES_OF_A_ROW } from '../draw/lines.js';
import { html } from '../vendor/html.js';
import { LayerChooser } from './choosers.js';
import { HeadSwatches } from './head_swatches.js';
import { betweenChoices, WINDOW } from './token_window.js';

const FIRST_THRESHOLD = 0.1;
const FORMS = [['columns', 'Columns'], ['text', 'Text']];

/* Which weights are lines: the largest of each row, or those from a threshold on. */
function ThresholdChooser({ threshold, onThreshold }) {
    return html`<label class="chooser">Lines
            <select class="line-choice" value=${threshold === null ? 'largest' : 'threshold'}
                onChange=${(event) => onThreshold(event.target.value === 'largest' ? null : FIRST_THRESHOLD)}>
                <option value="largest">${LINES_OF_A_ROW} largest of a row</option>
                <option value="threshold">from a threshold on</option>
            </select></label>
        ${threshold !== null && html`<label class="chooser">Threshold
            <span><input type="range" min="0" max="1" step="0.01" value=${threshold}
                onInput=${(event) => onThreshold(Number(event.target.value))} />
                <output>${threshold.toFixed(2)}</output></span></label>`}`;
}

/* Which of two texts looks at which; nothing where there is one. */
function BetweenChooser({ layer, between, onBetween }) {
    const { value, choices } = betweenChoices(layer, between);
    if (choices.length === 0)
        return null;
    return html`<label class="chooser">Texts
        <select class="between" value=${value} onChange=${(event) => onBetween(event.target.value || null)}>
            <option value="">all</option>
            ${choices.map(([name, words]) => html`<option key=${name} value=${name}>${words}</option>`)}
        </select></label>`;
}

/* What the colours of running text are, of several heads. */
function OverChooser({ over, onOver }) {
    return html`<label class="chooser">Colours
        <select class="over" value=${over} onChange=${(event) => onOver(event.target.value)}>
            <option value="mean">mean of the heads</option>
            <option value="largest">largest of the heads</option>
        </select></label>`;
}

/** status: what is seen, in words. */
export function Tools({ source, layer, state, change, status }) {
    return html`<div class="view-tools">
        <span class="forms" role="group" aria-label="Form">${FORMS.map(([form, words]) => html`
            <button type="button" key=${form} data-form=${form} aria-pressed=${state.form === form ? 'true' : 'false'}
                onClick=${() => change({ form })}>${words}</button>`)}</span>
        <${LayerChooser} source=${source} layer=${layer.layer}
            onLayer=${(number) => change({ layer: number, heads: null })} />
        ${state.form === 'text' ? html`<${OverChooser} over=${state.over} onOver=${(over) => change({ over })} />`
            : html`<${ThresholdChooser} threshold=${state.threshold}
                onThreshold=${(threshold) => change({ threshold })} />`}
        <${BetweenChooser} layer=${layer} between=${state.between}
            onBetween=${(between) => change({ between, lineRows: null, lineKeys: null })} />
        <${HeadSwatches} heads=${layer.heads} chosen=${state.heads}
            onChosen=${(heads) => change({ heads })} />
        <span role="status" class="faint">${status}</span>
    </div>`;
}

/** Steps through more tokens than a column holds. */
export function Pager({ word, range, part: [first, end], count, onRange }) {
    if (range[0] === first && range[1] === end)
        return null;
    const to = (begin) => onRange([begin, Math.min(end, begin + WINDOW)]);
    return html`<span class="pager">${word} ${range[0]} to ${range[1] - 1} of ${count}
        <button type="button" aria-label=${`Earlier ${word}`} disabled=${range[0] === first}
            onClick=${() => to(Math.max(first, range[0] - WINDOW))}>◀</button>
        <button type="button" aria-label=${`Later ${word}`} disabled=${range[1] === end}
            onClick=${() => to(range[1])}>▶</button></span>`;
}
