// SPDX-License-Identifier: Apache-2.0
/* answer_strip.js - what the model predicts, under the text in all views: the next token, or what stands in a mask. A
 * click goes on with a token. */
import { html } from '../vendor/html.js';
import { addedText } from '../data/tokens.js';

const SHOWN = 6;
const MASKS = 4;
const TAIL = 4;                                  /* tokens of the text before the next one */

/* "61 %", "0.3 %", "<0.1 %". */
export function percentText(probability) {
    const percent = 100 * probability;
    if (percent < 0.1)
        return '<0.1 %';
    return `${percent < 9.95 ? percent.toFixed(1) : Math.round(percent)} %`;
}

const utf8 = new TextEncoder();

/* The text with another part in place of the bytes from start to end. */
function replaced(text, start, end, part) {
    const bytes = utf8.encode(text);
    const decode = (some) => new TextDecoder().decode(some);
    return decode(bytes.subarray(0, start)) + part + decode(bytes.subarray(end));
}

/* The input that goes on with a token: members of the state; null where no text says it. Ids of a state are those of an
 * encoder, where there is one, and what is predicted is the decoder's. */
function goneOn({ state, source, prediction, token, kind }) {
    if (state.tokens !== null)
        return source.predicts === 'masked' || source.hasDecoder ? null
            : { tokens: [...state.tokens, token.id] };
    if (state.text === null)
        return null;
    const added = addedText(token, prediction.tokens, kind);
    if (added === null)
        return null;
    if (source.predicts !== 'masked')
        return source.hasDecoder ? { decoderText: `${state.decoderText ?? ''}${added}` }
            : state.pair !== null ? { pair: state.pair + added } : { text: state.text + added };
    const { start, end, sequence } = prediction.at ?? {};
    if (!Number.isInteger(start))
        return null;
    const name = sequence === 1 ? 'pair' : 'text';
    return { [name]: replaced(state[name] ?? '', start, end, added.trimStart()) };
}

function Choice({ token, next, isMasked, onPick }) {
    const probability = Math.exp(token.logprob);
    const base = Number.isFinite(token.difference) ? Math.exp(token.logprob - token.difference) : null;
    const said = `${percentText(probability)}${base === null ? '' : `, with all heads ${percentText(base)}`}`;
    return html`
        <li><button type="button" disabled=${next === null} data-id=${token.id} data-logprob=${token.logprob}
            aria-label=${`${isMasked ? 'Put' : 'Go on with'} ${token.label}: ${said}`}
            title=${next === null ? `${said}. No text goes on with this token.`
                : `${isMasked ? 'Put it in place of the mask' : 'Go on with it'}: ${said}`}
            onClick=${() => onPick(next)}>
            <b>${token.label}</b> <span class="percent">${percentText(probability)}</span>
            ${base !== null && html` <small>was ${percentText(base)}</small>`}
            <span class="weight-bar" style=${{ width: `${Math.max(1, 48 * probability)}px` }}></span>
        </button></li>`;
}

/* The last tokens of the text, or the mask. */
function Before({ source, prediction, isMasked }) {
    const { rowTokens } = source.layers.find(({ kind }) => kind === 'decoder') ?? source.layers[0];
    if (isMasked)
        return html`<span class="before"><b>${prediction.at?.label ?? `token ${prediction.position}`}</b></span>`;
    const tail = rowTokens.slice(Math.max(0, prediction.position + 1 - TAIL), prediction.position + 1);
    return html`<span class="before">${tail.length <= prediction.position && '…'}
        ${tail.map(({ label, special, isApart }) => (special || isApart ? `${label} `
            : label.replace(/[␣⏎]/g, ' '))).join('')}</span>`;
}

/* Of several masks the first ones. */
export function AnswerStrip({ source, state, models, change }) {
    const model = models?.find(({ name }) => name === source.model);
    const isMasked = source.predicts === 'masked';
    const pick = (next) => change({ ...next, row: null, key: null, rows: null, keys: null, lineRows: null,
        lineKeys: null, target: null, against: null, position: null });
    return html`
        <section class="answer-strip"
            aria-label=${isMasked ? 'Predicted in place of a token' : 'Predicted next token'}>
            ${source.predictions.slice(0, MASKS).map((prediction) => html`
                <div class="prediction" data-position=${prediction.position}>
                    <${Before} ...${{ source, prediction, isMasked }} /><span aria-hidden="true">→</span>
                    <ol>${prediction.tokens.slice(0, SHOWN).map((token) => html`<${Choice} key=${token.id}
                        token=${token} isMasked=${isMasked} onPick=${pick}
                        next=${goneOn({ state, source, prediction, token, kind: model?.tokenizer?.kind })} />`)}</ol>
                </div>`)}
        </section>`;
}
