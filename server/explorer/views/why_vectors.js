// SPDX-License-Identifier: Apache-2.0
/* why_vectors.js - query, key and their products by dimension, as bars around zero and as a table. */
import { weightText } from '../draw/scales.js';
import { html, useRef, useState } from '../vendor/html.js';
import { useWidth } from './use_width.js';

const HEIGHT = 72;
const NUMBER_WIDTH = 26; /* pixels that a dimension's number needs */
const LEAST = 1e-30;     /* of a scale: all zero gives no bars */

const largest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), LEAST);

/* One chart; order: the dimensions from left to right. */
function BarChart({ name, words, values, order, width, at, onAt }) {
    const step = width / order.length;
    const unit = (HEIGHT / 2 - 2) / largest(values);
    return html`<div class="why-chart" data-vector=${name}>
        <h4>${words} <small class="faint">largest ${weightText(largest(values))}</small></h4>
        <svg width=${width} height=${HEIGHT} viewBox=${`0 0 ${width} ${HEIGHT}`} aria-hidden="true"
            onPointerMove=${(event) => onAt(order[Math.min(order.length - 1,
                Math.max(0, Math.floor(event.offsetX / step)))])}>
            ${order.map((dimension, i) => html`<g key=${dimension}>
                ${dimension === at && html`<rect class="cursor" x=${i * step} y="0" width=${step}
                    height=${HEIGHT} />`}
                <rect class=${values[dimension] < 0 ? 'negative' : 'positive'} x=${i * step + step / 10}
                    width=${step * 0.8} height=${Math.abs(values[dimension]) * unit}
                    y=${HEIGHT / 2 - Math.max(0, values[dimension]) * unit} /></g>`)}
            <path class="zero" d=${`M0 ${HEIGHT / 2}H${width}`} />
        </svg></div>`;
}

/* The numbers of the dimensions below the charts, as many as have room. */
function DimensionNumbers({ order, width }) {
    const each = Math.ceil(NUMBER_WIDTH * order.length / Math.max(1, width));
    return html`<svg class="why-numbers" width=${width} height="16" aria-hidden="true">
        ${order.map((dimension, i) => i % each === 0 && html`<text key=${dimension} y="12"
            text-anchor="middle" x=${(i + 0.5) * width / order.length}>${dimension}</text>`)}</svg>`;
}

function VectorTable({ pair, order }) {
    const cell = (name, dimension) => html`<td data-vector=${name} data-dimension=${dimension}
        data-value=${pair[name][dimension]}>${weightText(pair[name][dimension])}</td>`;
    return html`<details class="why-table"><summary>The numbers as a table</summary>
        <div class="table-scroller" tabindex="0" role="region" aria-label="Numbers by dimension">
        <table class="head-table"><thead><tr><th scope="col">Dimension</th><th scope="col">Query</th>
            <th scope="col">Key</th><th scope="col">Product</th></tr></thead>
            <tbody>${order.map((dimension) => html`<tr key=${dimension}><th scope="row">${dimension}</th>
                ${['query_vector', 'key_vector', 'products'].map((name) => cell(name, dimension))}
            </tr>`)}</tbody></table></div></details>`;
}

function DimensionWords({ pair, at }) {
    if (at === null || at >= pair.products.length)
        return html`<p class="why-dimension faint">Point at a bar to read its dimension.</p>`;
    return html`<p class="why-dimension">Dimension ${at}: query ${weightText(pair.query_vector[at])} × key
        ${' '}${weightText(pair.key_vector[at])} = ${weightText(pair.products[at])}</p>`;
}

/** pair: the API's answer with query_vector, key_vector and products. */
export function WhyVectors({ pair }) {
    const box = useRef(null);
    const width = useWidth(box);
    const [isSorted, setSorted] = useState(false);
    const [at, setAt] = useState(null);
    const count = pair.products.length;
    const order = Array.from({ length: count }, (_, i) => i);
    if (isSorted)
        order.sort((a, b) => Math.abs(pair.products[b]) - Math.abs(pair.products[a]) || a - b);
    const shared = { order, width, at, onAt: setAt };
    return html`<section class="why-vectors" aria-label="Query, key and products by dimension">
        <div class="view-tools">
            <h3>${count} dimensions</h3>
            <label class="chooser"><input type="checkbox" checked=${isSorted}
                onChange=${(event) => setSorted(event.target.checked)} /> largest products first</label>
            <span class="faint"><i class="sign positive"></i> positive <i class="sign negative"></i> negative</span>
        </div>
        <div ref=${box} onPointerLeave=${() => setAt(null)}>
            <${BarChart} ...${shared} name="query_vector" words="query" values=${pair.query_vector} />
            <${BarChart} ...${shared} name="key_vector" words="key" values=${pair.key_vector} />
            <${BarChart} ...${shared} name="products" words="query × key" values=${pair.products} />
            <${DimensionNumbers} order=${order} width=${width} />
        </div>
        <${DimensionWords} pair=${pair} at=${at} />
        <${VectorTable} pair=${pair} order=${order} />
    </section>`;
}
