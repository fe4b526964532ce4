/* bars.js - weights as bars beside the text of their tokens. */
import { html } from '../vendor/html.js';
import { SCALES, weightText } from './scales.js';

/** How many bars are drawn at most; in the order of the text only where all have room. */
export const LARGEST_SHOWN = 50;
export const IN_ORDER_MAX = 200;

/** The places of the largest values, the largest first; of equal ones the first. */
export function largestOf(values, count) {
    const places = Array.from(values, (_, i) => i);
    return places.sort((a, b) => values[b] - values[a] || a - b).slice(0, count);
}

function Bar({ at, token, value, scale, isMarked, pairOf, onPick }) {
    const { row, key } = pairOf(at);
    const width = { width: `${100 * Math.min(1, SCALES[scale].placeOf(value))}%` };
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
 * A table of weights. values: one for each of tokens, or null while they load; order: 'text' |
 * 'largest'; marked: the place of the fixed token; pairOf(place) -> {row, key}; onPick(place).
 */
export function Bars({ caption, values, tokens, order, scale, marked, pairOf, onPick }) {
    const inOrder = order === 'text' && tokens.length <= IN_ORDER_MAX;
    const places = !values ? []
        : inOrder ? Array.from(values, (_, i) => i) : largestOf(values, LARGEST_SHOWN);
    return html`
        <div class="bars">
            <table>
                <caption>${caption}${!inOrder && tokens.length > LARGEST_SHOWN
                    && html`<small> (the ${LARGEST_SHOWN} largest of ${tokens.length})</small>`}</caption>
                <tbody>${places.map((at) => html`<${Bar} key=${at} at=${at} token=${tokens[at]}
                    value=${values[at]} scale=${scale} isMarked=${at === marked} pairOf=${pairOf}
                    onPick=${onPick} />`)}</tbody>
            </table>
        </div>`;
}
