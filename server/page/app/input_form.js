/* input_form.js - what is looked at: a model and a text. */
import { html, useEffect, useState } from '../vendor/html.js';

const FIRST_TEXT = 'Once upon a time, there was a little girl named Lily.';

export function InputForm({ models, state, change }) {
    const traced = models.filter((model) => model.trace);
    const [model, setModel] = useState(state.model);
    const [text, setText] = useState(state.text ?? FIRST_TEXT);
    useEffect(() => setModel(state.model), [state.model]);
    useEffect(() => setText(state.text ?? FIRST_TEXT), [state.text]);
    const chosen = model ?? traced[0]?.name ?? '';
    const look = (event) => {
        event.preventDefault();
        change({ model: chosen, text, tokens: null, row: null, key: null, rows: null, keys: null });
    };
    return html`
        <form class="input" onSubmit=${look}>
            <label>Model
                <select value=${chosen} onChange=${(event) => setModel(event.target.value)}>
                    ${traced.map(({ name }) => html`<option value=${name}>${name}</option>`)}
                </select>
            </label>
            <label>Text
                <textarea rows="2" value=${text} onInput=${(event) => setText(event.target.value)}></textarea>
            </label>
            <button class="main" disabled=${!chosen}>Look</button>
        </form>`;
}
