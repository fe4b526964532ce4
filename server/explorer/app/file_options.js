/* file_options.js - how attention is computed from a file of query and key, where the file does not say. */
import { html, useRef, useState } from '../vendor/html.js';

/* The options of a call that are numbers; causal stands beside them. */
const NUMBERS = [
    { name: 'q_heads', title: 'Heads', least: 1, step: 1 },
    { name: 'kv_heads', title: 'Key heads', least: 1, step: 1 },
    { name: 'scale', title: 'Scale', step: 'any' },
    { name: 'softcap', title: 'Softcap', least: 0, step: 'any' },
];

const numberWords = (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(4))) : '');

/* options are {causal, q_heads, kv_heads, scale, softcap}, as far as they were chosen; given are all of them as
 * they are computed with, or null while they are not known. */
export function FileOptions({ options, given, onOptions }) {
    const [typed, setTyped] = useState(options);
    const known = useRef({});
    known.current = given ?? known.current;
    const apply = (members) => {
        const next = { ...typed, ...members };
        setTyped(next);
        onOptions(Object.fromEntries(Object.entries(next).filter(([, value]) => value !== null)));
    };
    const numberOf = (text) => (text.trim() === '' || !Number.isFinite(Number(text)) ? null : Number(text));
    return html`
        <fieldset class="options row">
            <legend class="hidden">Attention of the file's rows</legend>
            <label><input type="checkbox" name="causal" checked=${typed.causal ?? Boolean(known.current.causal)}
                onChange=${(event) => apply({ causal: event.target.checked })} /> causal</label>
            ${NUMBERS.map(({ name, title, least, step }) => html`
                <label>${title} <input type="number" name=${name} min=${least} step=${step} value=${typed[name] ?? ''}
                    placeholder=${numberWords(known.current[name])}
                    onChange=${(event) => apply({ [name]: numberOf(event.target.value) })} /></label>`)}
        </fieldset>`;
}
