/* input_form.js - what is looked at: a model and a text, or a file. */
import { html, useEffect, useState } from '../vendor/html.js';
import { FileButton } from './file_drop.js';
import { FileOptions } from './file_options.js';
import { firstModel, inputWords, mayTakePair, sizeWords, takes } from './model_words.js';

/* The first sentence of a story, as stories260K was trained on. */
export const FIRST_TEXT = 'Once upon a time, there was a little girl named Lily.';

/* What a person types before looking at it; follows the state, where that changes by a link or by Back. */
function useDraft(state) {
    const of = ({ model, text, pair, decoderText }) =>
        ({ model, text: text ?? FIRST_TEXT, pair: pair ?? '', decoderText: decoderText ?? '' });
    const [draft, setDraft] = useState(of(state));
    useEffect(() => setDraft(of(state)), [state.model, state.text, state.pair, state.decoderText]);
    return [draft, (members) => setDraft({ ...draft, ...members })];
}

function ModelOptions({ models, chosen }) {
    const groups = [['Whole passes', models.filter((model) => model.trace)],
        ['Rows from a file', models.filter((model) => !model.trace)]];
    return html`
        ${chosen && !models.some(({ name }) => name === chosen) &&
            html`<option value=${chosen}>${chosen} (not served)</option>`}
        ${groups.filter(([, group]) => group.length > 0).map(([title, group]) => html`
            <optgroup label=${title}>
                ${group.map(({ name }) => html`<option value=${name}>${name}</option>`)}
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
const FRESH = { tokens: null, row: null, key: null, rows: null, keys: null, heads: null, lineRows: null,
    lineKeys: null, position: null };

/* What another model leaves of heads that are off and tokens that are asked about: nothing. */
export const OF_MODEL = { off: [], target: null, against: null };

/* models is empty until it is known what is served; options are those of a file of query and key, null of all else;
 * given is what the source says about them. */
export function InputForm({ models, state, change, file, onFile, options, given, onOptions, onLooked }) {
    const [draft, setDraft] = useDraft(state);
    const model = draft.model === null ? firstModel(models) ?? models[0]
        : models.find(({ name }) => name === draft.model);
    const chosen = draft.model ?? model?.name ?? '';
    const needsFile = file !== null || (Boolean(model) && !takes(model, 'text'));
    const look = (event) => {
        event.preventDefault();
        if (needsFile || !chosen)
            return;
        onFile(null);
        change({ ...FRESH, ...(chosen === state.model ? {} : OF_MODEL), model: chosen, text: draft.text, pair: (model && mayTakePair(model) && draft.pair) || null,
            decoderText: (model && takes(model, 'decoder') && draft.decoderText) || null });
        onLooked();
    };
    const choose = (event) => {
        setDraft({ model: event.target.value });
        if (file)
            change({ ...FRESH, ...OF_MODEL, model: event.target.value });
    };
    return html`
        <form class="input" id="input" onSubmit=${look}>
            <label class="model">Model
                <select name="model" value=${chosen} onChange=${choose}>
                    <${ModelOptions} models=${models} chosen=${chosen} />
                </select>
            </label>
            ${!needsFile && html`<${Texts} ...${{ model, draft, setDraft, onLook: look }} />`}
            <div class="row">
                ${!needsFile && html`<button class="main" type="submit" disabled=${!chosen}>Look</button>`}
                <${FileButton} file=${file} onFile=${(one) => onFile(one, chosen)} />
            </div>
            ${options && html`<${FileOptions} key=${file} options=${options} given=${given} onOptions=${onOptions} />`}
            <p class="note faint">${state.tokens && !file ? `${state.tokens.length} tokens of the link are looked at, `
                + 'not this text. ' : ''}${model ? `${sizeWords(model)}. ${inputWords(model)}` : '\u00a0'}</p>
        </form>`;
}
