// SPDX-License-Identifier: Apache-2.0
/* overview_filter.js - ranges of statistics that a head has to lie in to be shown. */
import { html, useMemo } from '../vendor/html.js';
import { shortNumber, STATISTICS } from './head_words.js';

/* The range that the heads themselves have: [least, most] on a grid of steps, or null where no head has the
 * statistic. */
function rangeOf(heads, { name, isShare }) {
    const values = heads.map(({ statistics }) => statistics?.[name] ?? null).filter((value) => value !== null);
    if (values.length === 0)
        return null;
    return isShare ? [0, 1] : [0, Math.ceil(100 * Math.max(...values)) / 100 || 0.01];
}

/* Two sliders over each other, one for each end. An end that stands at the limit of the heads is open. */
function RangeField({ label, unit, limits, chosen, onRange }) {
    const [least, most] = chosen ?? limits;
    const step = limits[1] > 20 ? 0.1 : 0.01;
    const set = (range) => onRange(range[0] <= limits[0] && range[1] >= limits[1] ? null : range);
    const slider = (name, value, call) => html`<input type="range" min=${limits[0]} max=${limits[1]} step=${step}
        value=${value} aria-label=${`${name} ${label}`} onInput=${(event) => call(Number(event.target.value))} />`;
    return html`<div class="range-field">
        <span>${label}</span>
        <span class="two-ends">
            ${slider('least', least, (value) => set([Math.min(value, most), most]))}
            ${slider('most', most, (value) => set([least, Math.max(value, least)]))}
        </span>
        <output>${shortNumber(least)} to ${shortNumber(most)}${unit && ` ${unit}`}</output>
    </div>`;
}

/* filter: {statistic: [least, most]}; onFilter is given the whole next filter. statistics is null until they are
 * there. */
export function OverviewFilter({ heads, filter, statistics, onFilter }) {
    const limits = useMemo(() => STATISTICS.map((one) => [one, rangeOf(heads, one)]), [heads]);
    const active = Object.keys(filter).length;
    const change = (name, range) => {
        const { [name]: _, ...others } = filter;
        onFilter(range ? { ...others, [name]: range } : others);
    };
    return html`<details class="overview-filter">
        <summary>Filter${active > 0 && ` (${active} range${active > 1 ? 's' : ''})`}</summary>
        ${statistics ? html`<div class="ranges">
            ${limits.map(([{ name, label, unit }, range]) => range && html`<${RangeField} key=${name}
                ...${{ label, unit, limits: range, chosen: filter[name] ?? null,
                onRange: (next) => change(name, next) }} />`)}
            <button disabled=${active === 0} onClick=${() => onFilter({})}>All heads</button>
        </div>` : html`<p class="faint">Reading what the heads do…</p>`}
    </details>`;
}
