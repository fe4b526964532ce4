// SPDX-License-Identifier: Apache-2.0
/* bars.js - weights as bars beside the text of their tokens. */
import { html } from '../vendor/html.js';
import { SCALES, weightText } from './scales.js';

/** How many bars are drawn at most; in the order of the text only where all have room. */
export const LARGEST_SHOWN = 50;
export const IN_ORDER_MAX = 200;

/* The places of values but those of pairs that may not be seen, which are NaN. */
const seenPlaces = (values) => Array.from(values, (_, i) => i).filter((i) => !Number.isNaN(values[i]));

/** The places of the largest values, the largest first; of equal ones the first. */
export function largestOf(values, count) {
    return seenPlaces(values).sort((a, b) => values[b] - values[a] || a - b).slice(0, count);
}

function Bar({ at, token, value, most, scale, isMarked, pairOf, onPick }) {
    const { row, key } = pairOf(at);
    const width = { width: `${100 * Math.min(1, SCALES[scale].placeOf(value, most))}%` };
    return html`
        <tr class=${isMarked ? 'marked' : ''} data-row=${row} data-key=${key} data-weight=${value}>
            <th scope="row">
                <button type="button" title=${`${at}: ${token.label}`} aria-pressed=${isMarked}
                    onClick=${() => onPick(at)}><small>${at}</small> ${token.label}</button>
            </th>
            <td><span class="weight-bar" style=${width}></span></td>
            <td class="number">${weightText(value)}</td>
        </tr>`;
}

/**
 * A table of weights, as bars up to the largest of them. values: one for each of tokens, NaN where the pair may not be
 * seen, or null while they load; count: how many of the tokens are asked about; order: 'text' | 'largest'; marked: the
 * place of the fixed token; pairOf(place) -> {row, key}; onPick(place).
 */
export function Bars({ caption, values, tokens, count = tokens.length, order, scale, marked, pairOf, onPick }) {
    const inOrder = order === 'text' && tokens.length <= IN_ORDER_MAX;
    const places = !values ? []
        : inOrder ? seenPlaces(values) : largestOf(values, LARGEST_SHOWN);
    const hidden = values ? count - seenPlaces(values).length : 0;
    const most = values && largestOf(values, 1).map((at) => values[at])[0] || 1;
    return html`
        <div class="bars">
            <table>
                <caption>${caption}${!inOrder && count - hidden > LARGEST_SHOWN
                    && html`<small> (the ${LARGEST_SHOWN} largest of ${count - hidden})</small>`}
                    ${hidden > 0 && html`<small data-hidden=${hidden}> (${hidden} may not be seen)</small>`}</caption>
                <tbody>${places.map((at) => html`<${Bar} key=${at} at=${at} token=${tokens[at]}
                    value=${values[at]} most=${most} scale=${scale} isMarked=${at === marked} pairOf=${pairOf}
                    onPick=${onPick} />`)}</tbody>
            </table>
        </div>`;
}
