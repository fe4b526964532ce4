// SPDX-License-Identifier: Apache-2.0
/* file_options.js - what a file does not say of its numbers: how attention is computed from query and key, and of an
 * array without a name whether it is weights or a query. */
import { html, useRef, useState } from '../vendor/html.js';

/* The options of a call that are numbers; causal stands beside them. */
const NUMBERS = [
    { name: 'q_heads', title: 'Heads', least: 1, step: 1 },
    { name: 'kv_heads', title: 'Key heads', least: 1, step: 1 },
    { name: 'scale', title: 'Scale', step: 'any' },
    { name: 'softcap', title: 'Softcap', least: 0, step: 'any' },
];

const numberWords = (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(4))) : '');

function CallFields({ typed, known, apply }) {
    const numberOf = (text) => (text.trim() === '' || !Number.isFinite(Number(text)) ? null : Number(text));
    return html`
        <label><input type="checkbox" name="causal" checked=${typed.causal ?? Boolean(known.causal)}
            onChange=${(event) => apply({ causal: event.target.checked })} /> causal</label>
        ${NUMBERS.map(({ name, title, least, step }) => html`
            <label>${title} <input type="number" name=${name} min=${least} step=${step} value=${typed[name] ?? ''}
                placeholder=${numberWords(known[name])}
                onChange=${(event) => apply({ [name]: numberOf(event.target.value) })} /></label>`)}`;
}

/* options are {causal, q_heads, kv_heads, scale, softcap, numbers}, as far as they were chosen; given are those that
 * the file has, as they are computed with, or nothing while they are not known. */
export function FileOptions({ options, given, onOptions }) {
    const [typed, setTyped] = useState(options);
    const known = useRef({});
    known.current = given ?? known.current;
    const apply = (members) => {
        const next = { ...typed, ...members };
        setTyped(next);
        onOptions(Object.fromEntries(Object.entries(next).filter(([, value]) => value !== null)));
    };
    const { numbers } = known.current;
    const isCall = 'causal' in known.current;
    return (numbers || isCall) && html`
        <fieldset class="options row">
            <legend class="hidden">Attention of the file's rows</legend>
            ${numbers && html`<label>These numbers are <select name="numbers" value=${typed.numbers ?? numbers}
                onChange=${(event) => apply({ numbers: event.target.value })}>
                <option value="weights">weights</option>
                <option value="query">rows or a query</option>
            </select></label>`}
            ${isCall && html`<${CallFields} ...${{ typed, known: known.current, apply }} />`}
        </fieldset>`;
}
