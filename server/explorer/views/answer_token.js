// SPDX-License-Identifier: Apache-2.0
/* answer_token.js - which token is asked about: a predicted one, or any other, perhaps against another one. */
import { html, useEffect, useRef, useState } from '../vendor/html.js';
import { askToken } from '../data/answer.js';
import { readTokens } from '../data/tokens.js';
import { effectText, percentText } from './effect.js';
import { shortNumber } from './head_words.js';
import { useRoving } from './roving.js';

/* Entries of a vocabulary as a person reads them. */
export function labelsOf(entries) {
    return readTokens(entries.map(({ id, text }) => ({ id, text })), []).map(({ label }) => label);
}

/* A field for a token that is not in the list. */
function TokenField({ source, position, label, button, onToken }) {
    const [fault, setFault] = useState(null);
    const [isAsking, setIsAsking] = useState(false);
    const field = useRef(null);
    const ending = useRef(null);
    useEffect(() => () => ending.current?.abort(), [source]);
    const ask = async (event) => {
        event.preventDefault();
        const typed = field.current.value;
        if (typed === '')
            return;
        ending.current?.abort();
        ending.current = new AbortController();
        const { signal } = ending.current;
        setFault(null);
        setIsAsking(true);
        try {
            onToken((await askToken(source, typed, position, signal)).id);
            field.current.value = '';
        } catch (error) {
            if (!signal.aborted)
                setFault(error);
        }
        if (!signal.aborted)
            setIsAsking(false);
    };
    return html`<form class="token-field" aria-busy=${isAsking} onSubmit=${ask}>
        <label>${label} <input ref=${field} autocomplete="off" spellcheck=${false} size="10"
            placeholder="␣word or id" /></label>
        <button type="submit">${button}</button>
        ${fault && html`<span class="field-fault" role="alert">${fault.message}</span>`}
    </form>`;
}

function Predicted({ prediction, labels, token, change }) {
    const { ref, onFocusIn, onKeyDown } = useRoving('button', prediction);
    return html`<div class="predicted" role="group" aria-label="Predicted tokens" ref=${ref} onFocusIn=${onFocusIn}
        onKeyDown=${onKeyDown}>
        ${prediction.tokens.map(({ id, logprob }, i) => html`<button type="button" key=${id} data-token=${id}
            data-logprob=${logprob} aria-pressed=${id === token ? 'true' : 'false'}
            onClick=${() => change({ target: i === 0 ? null : id })}>
            <b>${labels[i]}</b> <span>${percentText(logprob)}</span></button>`)}
    </div>`;
}

/* What is asked about, as a number; base is the API's, or null until it is there. */
function Value({ base }) {
    if (!base)
        return html`<p class="answer-value faint">Asking for the value…</p>`;
    const { target, value } = base;
    const { against } = target;
    const [label, other] = labelsOf(against ? [target, against] : [target]);
    return html`<p class="answer-value" data-value=${value} data-position=${base.position} data-token=${target.id}>
        ${against ? html`<b>${label}</b> against <b>${other}</b>: log-probs ${shortNumber(target.logprob)} and
            ${' '}${shortNumber(against.logprob)}, the difference <b>${effectText(value)} nats</b>`
        : html`<b>${label}</b> has <b>${percentText(value)}</b>, log-prob ${shortNumber(value)}, rank
            ${' '}${target.rank}`}</p>`;
}

/* answer is {position, token, against}; place chooses the position; children stand beside the value. */
export function AnswerToken({ source, prediction, answer, base, place, change, children }) {
    const { tokens } = prediction;
    const labels = labelsOf(tokens);
    const others = tokens.map(({ id }, i) => [id, labels[i]]).filter(([id]) => id !== answer.token);
    const isTyped = answer.against !== null && !others.some(([id]) => id === answer.against);
    const typedLabel = isTyped && base?.target.against ? labelsOf([base.target.against])[0] : `token ${answer.against}`;
    const choose = ({ target }) => change({ against: target.value === '' ? null : Number(target.value) });
    return html`<section class="answer-token" aria-label="The answer">
        ${place}
        <${Predicted} ...${{ prediction, labels, token: answer.token, change }} />
        <div class="view-tools">
            <${TokenField} ...${{ source, position: answer.position, label: 'Another token', button: 'Ask about it',
                onToken: (id) => change({ target: id, ...(id === answer.against ? { against: null } : {}) }) }} />
            <label class="chooser">Against
                <select name="against" value=${answer.against ?? ''} onChange=${choose}>
                    <option value="">nothing</option>
                    ${others.map(([id, label]) => html`<option key=${id} value=${id}>${label}</option>`)}
                    ${isTyped && html`<option value=${answer.against}>${typedLabel}</option>`}
                </select></label>
            <${TokenField} ...${{ source, position: answer.position, label: 'Against another', button: 'Set',
                onToken: (id) => change({ against: id === answer.token ? null : id }) }} />
        </div>
        <div class="answer-line"><${Value} base=${base} />${children}</div>
    </section>`;
}
