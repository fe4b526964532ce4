// SPDX-License-Identifier: Apache-2.0
/* steps.js - how the weights of a row come to be, a step at a time, with one sentence for each: a form of the view Why,
 * which step= in the address says. All numbers are those of the API for the keys of the row. */
import { useKeys } from '../draw/keys.js';
import { weightText } from '../draw/scales.js';
import { html, useEffect, useMemo, useState } from '../vendor/html.js';
import { keysByWeight, sizeOf, Strip, sumOf } from './why_row.js';

const KEYS_MAX = 32;                             /* of one answer */

/* Each step: what it is called, its one sentence, and the column that it adds: `shows` a strip of colours, or a number
 * of a pair that stands under `column`. */
const STEPS = [
    { name: 'query', title: 'Query', says: ({ token, count }) =>
        html`The query of <b>${token}</b> says in ${count} numbers what this row looks for.` },
    { name: 'key', title: 'Keys', vectors: 'key_vector', says: () =>
        'The key of each token says in as many numbers by what it is found.' },
    { name: 'sum', title: 'q · k', vectors: 'products', column: 'q · k', numberOf: ({ products }) => sumOf(products),
        says: () => 'Query times key, number by number; their sum q · k says how well the two agree.' },
    { name: 'score', title: 'Scale', column: 'Score', numberOf: ({ score }) => score, says: ({ scale }) =>
        `The score is q · k times the scale of the layer, ${weightText(scale)}.` },
    { name: 'masked', title: 'Mask', column: 'Masked', numberOf: ({ masked }) => masked, says: ({ hidden }) =>
        (hidden === 0 ? 'The row may look at all of these keys: no score is masked.'
            : `The row may not look at ${hidden} of these keys: their scores become −∞.`) },
    { name: 'exp', title: 'Softmax', column: 'exp', numberOf: ({ masked }) => (masked === null ? 0 : Math.exp(masked)),
        says: ({ lse }) => `Softmax: e to the power of each score; over the whole row they sum to ${
            lse === null ? 0 : weightText(Math.exp(lse))}.` },
    { name: 'weight', title: 'Weights', column: 'Weight', numberOf: ({ weight }) => weight, says: () =>
        'A weight is its exp divided by that sum: the weights of a row sum to 1.' },
    { name: 'context', title: 'Weighted sum', says: ({ token, mixed }) => html`The context of <b>${token}</b> is the
        weighted sum of the values: ${mixed}.` },
];

/* At most KEYS_MAX keys of a row in the order of the text: all, or those with the largest weights. */
function keysToShow(values) {
    if (values.length <= KEYS_MAX)
        return Array.from(values, (_, key) => key);
    return keysByWeight(values).slice(0, KEYS_MAX).sort((a, b) => a - b);
}

/* The answer for the keys of the row; null while it is read. */
function usePairs({ source, layer, head, line, onFault }) {
    const [read, setRead] = useState(null);
    const keys = useMemo(() => line && keysToShow(line.values), [line]);
    const name = `${layer}/${head}/${line?.index}/${keys?.join()}`;
    useEffect(() => {
        if (!keys)
            return undefined;
        const ending = new AbortController();
        source.pairs({ layer, head, row: line.index, keys, signal: ending.signal }).then((answer) => {
            if (!ending.signal.aborted)
                setRead({ source, name, answer });
        }, (error) => ending.signal.aborted || onFault(error));
        return () => ending.abort();
    }, [source, name]);
    return read?.source === source && read.name === name ? read.answer : null;
}

const MIXED = 3;

/* "0.50 of ␣play, 0.19 of ke and 0.31 of others". */
function mixedWords(pairs, tokens) {
    const most = [...pairs].sort((a, b) => b.weight - a.weight).slice(0, MIXED).filter(({ weight }) => weight >= 0.005);
    const rest = 1 - most.reduce((sum, { weight }) => sum + weight, 0);
    const words = most.map(({ key, weight }) => `${weight.toFixed(2)} of ${tokens[key].label}`);
    return [...words, ...(rest >= 0.005 ? [`${rest.toFixed(2)} of others`] : [])].join(', ');
}

const numberText = (value) => (value === null ? '−∞' : value === undefined ? '' : weightText(value).replace('-', '−'));

/* The row of a key: the numbers of all steps so far. */
function KeyRow({ pair, token, shown, vectors, most }) {
    return html`<tr data-key=${pair.key} class=${pair.masked === null && shown.length > 2 ? 'unseen' : ''}>
        <th scope="row"><small>${pair.key}</small> ${token.label}</th>
        <td class="strip-cell">${vectors && html`<${Strip} values=${pair[vectors]} most=${most}
            onAt=${() => {}} />`}</td>
        ${shown.map(({ name, numberOf }, i) => html`<td key=${name} data-name=${name}
            data-value=${String(numberOf(pair))} class=${i === shown.length - 1 ? 'number now' : 'number'}>
            ${numberText(numberOf(pair))}</td>`)}
        <td class="step-bar">${shown.at(-1)?.name === 'weight' && html`<span class="weight-bar"
            style=${{ width: `${100 * pair.weight}%` }}></span>`}</td></tr>`;
}

function Table({ answer, at, layer }) {
    const columns = STEPS.slice(0, at).filter(({ numberOf }) => numberOf);
    const { vectors } = STEPS.slice(0, at).findLast((step) => step.vectors) ?? {};
    const most = vectors ? Math.max(...answer.keys.map((pair) => sizeOf(pair[vectors]))) : 1;
    return html`<div class="table-scroller" tabindex="0" role="region" aria-label="Keys of the row"><table>
        <thead><tr><th scope="col">Key</th><th scope="col">${vectors === 'products' ? 'Products'
            : vectors ? 'Key vector' : 'Query'}</th>${columns.map(({ name, column }) => html`<th key=${name} scope="col"
            class="number">${column}</th>`)}<td></td></tr></thead>
        <tbody><tr class="query"><th scope="row">query</th><td class="strip-cell"><${Strip}
            values=${answer.query_vector} most=${sizeOf(answer.query_vector)} onAt=${() => {}} /></td>
            ${columns.map(({ name }) => html`<td key=${name}></td>`)}<td></td></tr>
            ${answer.keys.map((pair) => html`<${KeyRow} key=${pair.key} ...${{ pair, vectors, most, shown: columns }}
                token=${layer.keyTokens[pair.key]} />`)}</tbody>
    </table></div>`;
}

/** line: {index, values} of the row; state.step: from 1. */
export function Steps({ source, layer, head, line, state, change, onFault, hasKeys }) {
    const answer = usePairs({ source, layer: layer.layer, head, line, onFault });
    const at = Math.min(Math.max(state.step, 1), STEPS.length);
    const go = (step) => step >= 1 && step <= STEPS.length && change({ step });
    const toRow = (row) => row >= 0 && row < layer.rows && change({ row, key: null });
    useKeys({ ArrowRight: () => go(at + 1), ' ': () => go(at + 1), ArrowLeft: () => go(at - 1) }, hasKeys);
    const step = STEPS[at - 1];
    const given = answer && { token: layer.rowTokens[line.index].label, count: answer.query_vector?.length,
        scale: answer.scale, lse: answer.lse, hidden: answer.keys.filter(({ masked }) => masked === null).length,
        mixed: mixedWords(answer.keys, layer.keyTokens) };
    const button = (word, isOn, act) => html`<button type="button" disabled=${!isOn} onClick=${act}>${word}</button>`;
    return html`<section class="steps" aria-label="Step by step" aria-busy=${answer === null} data-step=${step.name}>
        <div class="step-tools">
            ${button('‹ Back', at > 1, () => go(at - 1))}
            ${button('Forward ›', at < STEPS.length, () => go(at + 1))}
            <h3>${at} of ${STEPS.length}: ${step.title}</h3>
            ${button('Previous row', state.row > 0, () => toRow(state.row - 1))}
            ${button('Next row', state.row < layer.rows - 1, () => toRow(state.row + 1))}
            ${button('Close the steps', true, () => change({ step: null }))}
        </div>
        <p class="step-says" aria-live="polite">${given && step.says(given)}</p>
        ${answer && html`<${Table} ...${{ answer, at, layer }} />`}
        ${layer.keys > KEYS_MAX && html`<p class="faint">The ${KEYS_MAX} of ${layer.keys} keys with the largest
            weights.</p>`}
    </section>`;
}
