// SPDX-License-Identifier: Apache-2.0
/* compare_other.js - the second side of a comparison: which source, layer and head it shows. */
import { html, useEffect, useState } from '../vendor/html.js';
import { HeadChooser, LayerChooser } from './choosers.js';

/** What is compared with where nobody has chosen: the next head of the same layer, or the same head
 * of another layer where there is one head. */
export function otherFor(layer, head, layers) {
    const other = layers[(layers.indexOf(layer) + 1) % layers.length];
    return { model: null, text: null, ...(layer.heads > 1
        ? { layer: layer.layer, head: (head + 1) % layer.heads }
        : { layer: other.layer, head: Math.min(head, other.heads - 1) }) };
}

/** What the second side looks at, as openOther takes it; null: what the first one looks at. Another
 * text stands alone, without the heads that are off; another model gets all texts of the first side, and its own heads
 * are on. */
export function otherInput({ model, text, pair, decoderText, tokens, off, other }) {
    if (!other || (other.model === null && other.text === null))
        return null;
    const texts = other.text === null ? { text, pair, decoderText, tokens } : { text: other.text };
    return { model: other.model ?? model, ...texts, ...((other.model ?? model) === model ? { off } : {}) };
}

const isEmpty = (input) => input.text === null && !input.tokens;

/** The second source: {source, isOpening}; the first one itself where other has its input. Of a
 * file or a picture another model has nothing to look at before a text is given. */
export function useOtherSource({ state, source, openOther, onFault }) {
    const [made, setMade] = useState(null);
    const input = otherInput(state);
    const name = JSON.stringify(input);
    useEffect(() => {
        if (input === null || isEmpty(input))
            return undefined;
        let isWanted = true;
        openOther(input).then(
            (opened) => isWanted && setMade({ name, source: opened }),
            (error) => {
                if (isWanted && error.name !== 'AbortError') {
                    setMade({ name, source: null });
                    onFault(error);
                }
            });
        return () => {
            isWanted = false;
        };
    }, [name, source]);
    if (input === null)
        return { source, isOpening: false };
    if (isEmpty(input))
        return { source: null, isOpening: false };
    return made?.name === name ? { source: made.source, isOpening: false }
        : { source: null, isOpening: true };
}

/* Another model or another text; what is as on the first side is null in the state. */
function InputFields({ state, models, onOther }) {
    const { model, text } = state.other;
    const shown = text ?? state.text ?? '';
    const [typed, setTyped] = useState(shown);
    useEffect(() => setTyped(shown), [shown]);
    const names = (models ?? []).filter((one) => one.trace || one.name === state.model).map(({ name }) => name);
    const look = (event) => {
        event.preventDefault();
        onOther({ text: typed === state.text ? null : typed });
    };
    if (names.length === 0)
        return null;
    return html`<form class="compare-input" onSubmit=${look}>
        <label class="chooser">Model
            <select value=${model ?? state.model} onChange=${(event) => onOther({
                model: event.target.value === state.model ? null : event.target.value })}>
                ${names.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
            </select></label>
        <label class="chooser">Text
            <input type="text" value=${typed} onInput=${(event) => setTyped(event.target.value)} /></label>
        <button disabled=${typed === shown || typed === ''}>Show</button>
    </form>`;
}

/** The fields of the second side. other: its source, or null while it is opened. */
export function OtherFields({ state, change, models, other, layer, head }) {
    const onOther = (members) => change({ other: { ...state.other, ...members } });
    const toLayer = (number) => {
        const next = other.layers.find((one) => one.layer === number);
        onOther({ layer: number, head: Math.min(head, next.heads - 1) });
    };
    return html`<div class="compare-fields">
        <${InputFields} ...${{ state, models, onOther }} />
        <div class="view-tools">${other && layer && html`
            <${LayerChooser} source=${other} layer=${layer.layer} onLayer=${toLayer} />
            <${HeadChooser} heads=${layer.heads} head=${head} onHead=${(next) => onOther({ head: next })} />`}
        </div>
    </div>`;
}
