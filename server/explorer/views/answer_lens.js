// SPDX-License-Identifier: Apache-2.0
/* answer_lens.js - what the model would answer if it ended at each layer: its most probable tokens, and how the token
 * that is asked about comes up, as a line and as numbers. */
import { html } from '../vendor/html.js';
import { labelsOf } from './answer_token.js';
import { percentText } from './effect.js';
import { shortNumber } from './head_words.js';

const WIDTH = 360;
const HEIGHT = 96;
const LEFT = 40;
const RIGHT = 8;
const TOP = 10;
const BOTTOM = 18;

/* The labels of all entries together, by id: a vocabulary shows its kind best in many of them. */
function labelsById(layers) {
    const entries = layers.flatMap(({ tokens, target, against }) => [...tokens, target, ...(against ? [against] : [])]);
    const labels = labelsOf(entries);
    return new Map(entries.map(({ id }, i) => [id, labels[i]]));
}

/* Log-probs by layer as lines, of the token whole, of the one against it dashed. */
function LensLine({ layers, labels }) {
    const lists = [layers.map(({ target }) => target), layers.map(({ against }) => against)].filter(([one]) => one);
    const least = Math.min(-1, ...lists.flat().map(({ logprob }) => logprob));
    const xOf = (i) => LEFT + (layers.length > 1 ? i * (WIDTH - LEFT - RIGHT) / (layers.length - 1) : 0);
    const yOf = (logprob) => TOP + (HEIGHT - TOP - BOTTOM) * logprob / least;
    const words = lists.map((list) => `${labels.get(list[0].id)} from ${shortNumber(list[0].logprob)} in layer ${
        layers[0].layer} to ${shortNumber(list.at(-1).logprob)} in layer ${layers.at(-1).layer}`).join(', ');
    return html`<svg class="lens-line" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img"
        aria-label=${`Log-prob by layer: ${words}`}>
        <path class="axis" d=${`M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - RIGHT}`} />
        <text x=${LEFT - 4} y=${TOP + 4} text-anchor="end">0</text>
        <text x=${LEFT - 4} y=${HEIGHT - BOTTOM} text-anchor="end">${shortNumber(least)}</text>
        <text x=${LEFT} y=${HEIGHT - 4}>L${layers[0].layer}</text>
        <text x=${(LEFT + WIDTH) / 2} y=${HEIGHT - 4} text-anchor="middle">log-prob by layer</text>
        <text x=${WIDTH - RIGHT} y=${HEIGHT - 4} text-anchor="end">L${layers.at(-1).layer}</text>
        ${lists.map((list, which) => html`<g class=${which === 0 ? 'target' : 'against'} key=${which}>
            <path d=${list.map(({ logprob }, i) => `${i === 0 ? 'M' : 'L'}${xOf(i)} ${yOf(logprob)}`).join('')} />
            ${list.map(({ logprob }, i) => html`<circle key=${i} cx=${xOf(i)} cy=${yOf(logprob)} r="2.5" />`)}</g>`)}
    </svg>`;
}

/* A token with its probability, the darker the more probable. */
function TokenCell({ token: { id, logprob }, label, isTarget }) {
    const part = Math.round(40 * Math.exp(logprob));
    return html`<td class=${isTarget ? 'token asked' : 'token'} data-token=${id} data-logprob=${logprob}
        style=${{ backgroundColor: `color-mix(in srgb, var(--accent) ${part}%, transparent)` }}>
        <b>${label}</b> ${percentText(logprob)}</td>`;
}

function TargetCells({ target, name }) {
    return html`<td class="number" data-lens=${name} data-logprob=${target.logprob}>${shortNumber(target.logprob)}</td>
        <td class="number" data-rank=${target.rank}>${target.rank}</td>`;
}

/* layers: of askLens(), or null while they are asked for. */
export function AnswerLens({ layers, children }) {
    const labels = layers && labelsById(layers);
    const asked = layers?.length > 0 ? [layers[0].target, layers[0].against].filter(Boolean) : [];
    return html`<section class="answer-lens" aria-label="What each layer would answer">
        <h3>What each layer would answer</h3>
        <p class="answer-words">What leaves the layer goes through the final norm and the head, as if the model ended
            there (the lens). The last layer's is the answer.</p>
        ${children}
        ${asked.length > 0 && html`<div class="lens-beside"><${LensLine} layers=${layers} labels=${labels} />
        <div class="table-scroller" tabindex="0" role="region" aria-label="Answers of layers">
        <table class="head-table lens-table"><caption class="hidden">The most probable tokens of each layer, and the
            log-prob and rank of what is asked about</caption>
            <thead><tr><th scope="col">Layer</th>
                ${asked.map(({ id }) => html`<th scope="col" key=${id}><b>${labels.get(id)}</b> log-prob</th>
                    <th scope="col">rank</th>`)}
                <th scope="col" class="token" colspan=${layers[0].tokens.length}>Most probable</th></tr></thead>
            <tbody>${layers.map(({ layer, kind, tokens, target, against }) => html`<tr key=${layer}
                data-lens-layer=${layer}>
                <th scope="row">L${layer}${kind !== 'self' && html` <small>${kind}</small>`}</th>
                <${TargetCells} target=${target} name="target" />
                ${against && html`<${TargetCells} target=${against} name="against" />`}
                ${tokens.map((token) => html`<${TokenCell} key=${token.id} token=${token} label=${labels.get(token.id)}
                    isTarget=${asked.some(({ id }) => id === token.id)} />`)}</tr>`)}</tbody></table></div></div>`}
    </section>`;
}
