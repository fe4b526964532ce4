// SPDX-License-Identifier: Apache-2.0
/* overview_table.js - all heads with their statistics as a table, sorted by any of them. */
import { html } from '../vendor/html.js';
import { SCORES } from './head_scores.js';
import { describeHead, shortNumber, STATISTICS } from './head_words.js';
import { HeadNames } from './overview_finder.js';

function SortHeader({ name, label, says, sort, onSort }) {
    const [order, sign] = sort !== name ? [undefined, '']
        : name === 'layer' ? ['ascending', '▲'] : ['descending', '▼'];
    return html`<th scope="col" aria-sort=${order}>
        <button class="plain" title=${says} onClick=${() => onSort(name)}>${label}${' '}
            <span aria-hidden="true">${sign}</span></button></th>`;
}

/* heads: those that the filter lets through, in their order; isFound: they have scores. */
export function OverviewTable({ heads, sort, unit, isFound, onSort, onOpen }) {
    const columns = [...STATISTICS, ...(isFound ? SCORES : [])];
    return html`<div class="table-scroller" tabindex="0" role="region" aria-label="Heads and their statistics">
        <table class="head-table">
            <caption class="hidden">Heads and what they do. A header sorts by its column, the largest first.</caption>
            <thead><tr>
                <${SortHeader} ...${{ name: 'layer', label: 'Head', says: 'by layer', sort, onSort }} />
                ${columns.map(({ name, label, says, unit: of }) => html`<${SortHeader} key=${name}
                    ...${{ name, label: of ? `${label} (${of})` : label, says, sort, onSort }} />`)}
                <th scope="col" class="words">In words</th>
            </tr></thead>
            <tbody>${heads.map((entry) => html`<tr key=${`${entry.layer.layer} ${entry.head}`}
                data-layer=${entry.layer.layer} data-head=${entry.head}>
                <th scope="row"><button class="plain" onClick=${() => onOpen(entry)}>
                    Layer ${entry.layer.layer}, head ${entry.head}</button></th>
                ${columns.map(({ name }) => html`<td data-statistic=${name}
                    data-value=${entry.statistics?.[name] ?? ''}>${shortNumber(entry.statistics?.[name])}</td>`)}
                <td class="words">${describeHead(entry, unit)}
                    <${HeadNames} entry=${entry} /></td></tr>`)}</tbody>
        </table>
        ${heads.length === 0 && html`<p>No head lies in all of these ranges. Widen one of them.</p>`}
    </div>`;
}
