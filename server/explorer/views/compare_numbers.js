// SPDX-License-Identifier: Apache-2.0
/* compare_numbers.js - the numbers of two heads beside each other: of the pair that is looked at,
 * and of what the heads do. */
import { differenceOf } from '../data/source_difference.js';
import { pairText } from '../draw/scales.js';
import { html } from '../vendor/html.js';
import { describeHead, listHeads, shortNumber, STATISTICS } from './head_words.js';
import { useStatistics } from './use_statistics.js';

/** The weights of the pair under the pointer, else of the fixed one, on both sides. weights: two
 * numbers, null where there is none. */
export function PairWeights({ sides, cell, weights }) {
    if (cell.row === null || cell.key === null)
        return html`<p class="compare-pair faint">Point at a map, or walk in it by the arrow keys, to
            compare the weights of a pair.</p>`;
    const [first, second] = sides;
    const label = ({ layer }, name, place) => layer[name][place]?.label ?? '–';
    const one = (name, value) => html`<span data-side=${name} data-row=${cell.row} data-key=${cell.key}
        data-weight=${value ?? ''}>${name} <b>${pairText(value)}</b></span>`;
    const isBoth = weights.every((weight) => weight !== null);
    return html`<p class="compare-pair">
        <span>Row ${cell.row} <b>${label(first, 'rowTokens', cell.row)}</b>
            ${second && label(second, 'rowTokens', cell.row) !== label(first, 'rowTokens', cell.row)
                && html` and <b>${label(second, 'rowTokens', cell.row)}</b>`},
            key ${cell.key} <b>${label(first, 'keyTokens', cell.key)}</b>
            ${second && label(second, 'keyTokens', cell.key) !== label(first, 'keyTokens', cell.key)
                && html` and <b>${label(second, 'keyTokens', cell.key)}</b>`}:</span>
        ${one('first', weights[0])} ${one('second', weights[1])}
        ${one('difference', isBoth ? differenceOf(...weights) : null)}</p>`;
}

/* The head of a side with its statistics. */
function headOf(side, statistics) {
    return listHeads([side.layer], statistics)[side.head];
}

/** What both heads do. sides: two of {source, layer, head}; the second may be null. */
export function CompareStatistics({ sides, onFault }) {
    const known = [0, 1].map((i) => useStatistics(sides[i]?.source ?? null, onFault));
    const heads = sides.map((side, i) => side && headOf(side, known[i]));
    const cell = (entry, name) => html`<td data-statistic=${name}
        data-value=${entry?.statistics?.[name] ?? ''}>
        ${shortNumber(entry?.statistics?.[name])}</td>`;
    return html`<div class="table-scroller" tabindex="0" role="region" aria-label="What both heads do">
        <table class="head-table compare-statistics">
            <thead><tr><th scope="col">Head</th>${STATISTICS.map(({ name, label, unit }) => html`
                <th scope="col" key=${name}>${label}${unit && ` (${unit})`}</th>`)}
                <th scope="col" class="words">In words</th></tr></thead>
            <tbody>${heads.map((entry, i) => html`<tr key=${i} data-side=${i === 0 ? 'first' : 'second'}>
                <th scope="row">${i === 0 ? 'first' : 'second'}${entry && html`: layer ${entry.layer.layer},
                    head ${entry.head}`}</th>
                ${STATISTICS.map(({ name }) => cell(entry, name))}
                <td class="words">${entry
                    ? describeHead(entry, sides[i].source.picture ? 'patch' : 'token') : 'opening…'}</td>
            </tr>`)}</tbody>
        </table></div>`;
}
