// SPDX-License-Identifier: Apache-2.0
/* input_form.js - what is looked at: a model and a text, or a file. */
import { plural } from '../data/words.js';
import { html, useEffect, useState } from '../vendor/html.js';
import { FileButton } from './file_drop.js';
import { FileOptions } from './file_options.js';
import { firstModel, inputWords, isServed, mayTakePair, sizeWords, takes } from './model_words.js';

/* The first sentence of a story, as stories260K was trained on. */
export const FIRST_TEXT = 'Once upon a time, there was a little girl named Lily.';

/* What a person types before it is shown; follows the state, where that changes by a link or by Back. A text that was
 * typed stays while a model that takes none is chosen. */
function useDraft(state) {
    const of = ({ model, text, pair, decoderText }, typed) =>
        ({ model, text: text ?? typed, pair: pair ?? '', decoderText: decoderText ?? '' });
    const [draft, setDraft] = useState(of(state, FIRST_TEXT));
    useEffect(() => setDraft((last) => of(state, last.text)),
        [state.model, state.text, state.pair, state.decoderText]);
    return [draft, (members) => setDraft((last) => ({ ...last, ...members }))];
}

/* models null: they are not known yet, or only with a key. */
function ModelOptions({ models, chosen }) {
    const groups = models === null ? [] : [['Whole passes', models.filter((model) => model.trace)],
        ['Rows from a file', models.filter((model) => !model.trace && isServed(model))],
        ['Not available', models.filter((model) => !model.trace && !isServed(model))]];
    return html`
        ${chosen && !models?.some(({ name }) => name === chosen) &&
            html`<option value=${chosen}>${chosen}${models !== null && ' (not served)'}</option>`}
        ${groups.filter(([, group]) => group.length > 0).map(([title, group]) => html`
            <optgroup label=${title}>
                ${group.map((model) => html`<option value=${model.name}
                    title=${model.reason || model.trace_reason || undefined}>${model.name}</option>`)}
            </optgroup>`)}`;
}

/* The texts that the model takes: one, a pair, or one for each side of an encoder-decoder. */
function Texts({ model, draft, setDraft, onLook }) {
    const looks = (event) => {
        if (event.key !== 'Enter' || event.shiftKey || event.isComposing)
            return;
        event.preventDefault();
        onLook(event);
    };
    const field = (name, label, rows) => html`
        <label class=${`text ${name}`}>${label}
            <textarea name=${name} rows=${rows} value=${draft[name]} spellcheck=${false} onKeyDown=${looks}
                onInput=${(event) => setDraft({ [name]: event.target.value })}></textarea>
        </label>`;
    return html`
        ${field('text', model && takes(model, 'decoder') ? 'Text of the encoder' : 'Text', 2)}
        ${model && mayTakePair(model) && field('pair', 'Second text (optional)', 1)}
        ${model && takes(model, 'decoder') && field('decoderText', 'Text of the decoder (optional)', 1)}`;
}

/* What a new input leaves of the selection: nothing. */
export const FRESH = { tokens: null, row: null, key: null, rows: null, keys: null, heads: null, lineRows: null,
    lineKeys: null, parts: null, position: null };

/* What another model leaves of heads that are off and tokens that are asked about: nothing. */
export const OF_MODEL = { off: [], target: null, against: null };

/* The members of the state that show these texts with a model; a model that takes no text waits for a file. */
function inputOf(model, draft) {
    const hasText = !model || takes(model, 'text');
    return { ...FRESH, text: hasText ? draft.text : null, pair: (model && mayTakePair(model) && draft.pair) || null,
        decoderText: (model && takes(model, 'decoder') && draft.decoderText) || null };
}

function Note({ state, file, model, isWeights }) {
    const tokens = state.tokens && !file
        ? `Shown are ${plural(state.tokens.length, 'token')} of the link, not this text. ` : '';
    const words = isWeights ? 'No model is looked at: these weights were computed elsewhere.'
        : model && [sizeWords(model), inputWords(model)].filter(Boolean).join('. ');
    return html`<p class="note faint">${tokens}${words ?? '\u00a0'}</p>`;
}

/* models is null until it is known what is served; options are those of a file of query and key, null of all else;
 * given is what the source says about them; isWeights: the file has weights, so no model is looked at. A model that is
 * chosen is shown at once, with the text that stands there: the field never names another model than the map. */
export function InputForm({ models, state, change, file, onFile, options, isWeights, given, onOptions, onLooked }) {
    const [draft, setDraft] = useDraft(state);
    const served = models ?? [];
    const find = (name) => served.find((one) => one.name === name);
    const model = draft.model === null ? firstModel(served) ?? served[0] : find(draft.model);
    const chosen = draft.model ?? model?.name ?? '';
    const needsFile = file !== null || (Boolean(model) && !takes(model, 'text'));
    const look = (event) => {
        event.preventDefault();
        if (needsFile || !chosen)
            return;
        onFile(null);
        change({ model: chosen, ...inputOf(model, draft), ...(chosen === state.model ? {} : OF_MODEL) });
        onLooked();
    };
    const choose = (event) => {
        const name = event.target.value;
        setDraft({ model: name });
        change({ model: name, ...(file ? FRESH : inputOf(find(name), draft)), ...OF_MODEL });
    };
    return html`
        <form class="input" id="input" onSubmit=${look}>
            <label class="model">Model
                <select name="model" value=${isWeights ? '' : chosen} onChange=${choose} disabled=${isWeights}>
                    ${isWeights && html`<option value="">none (weights)</option>`}
                    <${ModelOptions} models=${models} chosen=${chosen} />
                </select>
            </label>
            ${!needsFile && html`<${Texts} ...${{ model, draft, setDraft, onLook: look }} />`}
            <div class="row">
                ${!needsFile && html`<button class="main" type="submit" disabled=${!chosen}>Show</button>`}
                <${FileButton} file=${file} onFile=${(one) => onFile(one, chosen)} />
            </div>
            ${options && html`<${FileOptions} key=${file} options=${options} given=${given} onOptions=${onOptions} />`}
            <${Note} state=${state} file=${file} model=${model} isWeights=${isWeights} />
        </form>`;
}
