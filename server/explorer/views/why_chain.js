// SPDX-License-Identifier: Apache-2.0
/* why_chain.js - from query times key to the weight: every stage as a number, with what it does in
 * words. */
import { html } from '../vendor/html.js';

const DIGITS = 6;

/** A stage's number as text, six digits that count. */
export function stageText(value) {
    return Number(value.toPrecision(DIGITS)).toString().replace('-', '−').replace('e-', 'e−');
}

function capWords({ score, softcapped }) {
    return softcapped === score ? 'no softcap changes it' : 'pressed below the softcap';
}

function maskWords({ softcapped, masked }) {
    if (masked === null)
        return 'the row may not look at this key: its score counts as −∞';
    return masked === softcapped ? 'the row may look at the key; nothing is added'
        : `${stageText(masked - softcapped)} is added for how the tokens lie, or by a mask`;
}

/* The stages of a pair in order: {name, title, value, sign, words}. sign stands before the number and
 * says how it comes from those before it. */
function stagesOf(pair) {
    const sum = pair.products?.reduce((total, product) => total + product, 0);
    return [
        { name: 'sum', title: 'Σ query × key', value: sum, sign: '', words: 'over all dimensions' },
        { name: 'scale', title: 'scale', value: pair.scale, sign: '×', words: 'of this layer' },
        { name: 'score', title: 'score', value: pair.score, sign: '=', words: 'how well query and key agree' },
        { name: 'softcapped', title: 'softcapped', value: pair.softcapped, sign: '→', words: capWords(pair) },
        { name: 'masked', title: 'masked', value: pair.masked, sign: '→', words: maskWords(pair) },
        { name: 'lse', title: 'lse', value: pair.lse, sign: '−',
            words: 'ln Σ exp(masked) over all keys of the row' },
        { name: 'weight', title: 'weight', value: pair.weight, sign: pair.masked === undefined ? '' : 'exp =',
            words: pair.masked === null || pair.weight === null ? 'a hidden key has none'
                : 'the share of the row that goes to the key' },
    ].filter(({ value }) => value !== undefined);
}

/** pair: the API's answer. */
export function WhyChain({ pair }) {
    return html`<ol class="why-chain" aria-label="Stages from query and key to the weight">
        ${stagesOf(pair).map(({ name, title, value, sign, words }) => html`
            <li key=${name} data-stage=${name} data-value=${String(value)}>
                <span class="sign" aria-hidden="true">${sign}</span>
                <div class=${name === 'weight' ? 'stage last' : 'stage'}>
                    <span class="faint">${title}</span>
                    <b>${value === null ? (name === 'lse' ? '−∞' : 'hidden') : stageText(value)}</b>
                    <small>${words}</small>
                </div></li>`)}</ol>`;
}
