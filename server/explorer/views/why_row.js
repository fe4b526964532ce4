// SPDX-License-Identifier: Apache-2.0
/* why_row.js - a whole row: for each key that it looks at the products of query and key by dimension, as a strip of
 * colours, with their sum, the score and the weight; the largest weights first. */
import { drawMap } from '../draw/colours.js';
import { weightText } from '../draw/scales.js';
import { useDark } from '../draw/use_dark.js';
import { html, useEffect, useMemo, useRef, useState } from '../vendor/html.js';

const STEP = 16;         /* keys that are asked for at once */
const LEAST = 1e-30;     /* of a scale: all zero gives no colours */

/** The keys of a row that it may look at, by their weights, the largest first. */
export function keysByWeight(values) {
    return Array.from(values, (_, key) => key).filter((key) => values[key] > 0)
        .sort((a, b) => values[b] - values[a] || a - b);
}

/* What source.pairs() answers for the first `count` keys, {query, pairs}, in steps; null while the first are read. */
function useRowPairs({ source, layer, head, row, keys, count, onFault }) {
    const [read, setRead] = useState(null);
    const name = `${layer}/${head}/${row}`;
    const known = read?.source === source && read.name === name ? read : null;
    const asked = keys?.slice(known?.pairs.length ?? 0, count) ?? [];
    useEffect(() => {
        if (asked.length === 0)
            return undefined;
        const ending = new AbortController();
        source.pairs({ layer, head, row, keys: asked.slice(0, STEP), signal: ending.signal }).then((answer) => {
            if (!ending.signal.aborted)
                setRead({ source, name, query: answer.query_vector,
                    pairs: [...known?.pairs ?? [], ...answer.keys] });
        }, (error) => ending.signal.aborted || onFault(error));
        return () => ending.abort();
    }, [source, name, asked.join()]);
    return { read: known, isReading: asked.length > 0 };
}

/** Values by dimension as colours; most is what the strongest colour stands for. */
export function Strip({ values, most, onAt }) {
    const canvas = useRef(null);
    const isDark = useDark();
    useEffect(() => drawMap(canvas.current, Float32Array.from(values), 1, values.length,
        { scale: 'linear', palette: 'difference', range: most, isDark }), [values, most, isDark]);
    const at = ({ offsetX, target }) => Math.min(values.length - 1,
        Math.max(0, Math.floor(offsetX / target.clientWidth * values.length)));
    return html`<canvas ref=${canvas} aria-hidden="true" onPointerMove=${(event) => onAt(at(event))}></canvas>`;
}

/** The largest size of a value. */
export const sizeOf = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), LEAST);
export const sumOf = (values) => values.reduce((sum, value) => sum + value, 0);

function Key({ pair, weight, token, most, isOwn, onKey, onAt }) {
    const sum = sumOf(pair.products);
    return html`<tr class=${isOwn ? 'marked' : ''} data-key=${pair.key} data-sum=${sum} data-score=${pair.score}
        data-weight=${pair.weight}>
        <th scope="row"><button type="button" aria-pressed=${isOwn ? 'true' : 'false'} title=${token.label}
            onClick=${() => onKey(pair.key)}><small>${pair.key}</small> ${token.label}</button></th>
        <td class="strip-cell"><${Strip} values=${pair.products} most=${most}
            onAt=${(at) => onAt({ pair, at, token })} /></td>
        <td class="number">${weightText(sum)}</td>
        <td class="number">${weightText(pair.score)}</td>
        <td class="number">${weightText(weight)}</td></tr>`;
}

function Words({ at }) {
    if (at === null)
        return html`<p class="why-dimension faint">Point at a strip to read a product.</p>`;
    if (!at.pair)
        return html`<p class="why-dimension">Dimension ${at.at}: query ${weightText(at.value)}</p>`;
    return html`<p class="why-dimension">Dimension ${at.at}, key <b>${at.token.label}</b>: query × key
        ${' '}${weightText(at.pair.products[at.at])}</p>`;
}

/** line: {index, values} of the row; own: the key that is looked at; onKey(key) looks at another one. */
export function WhyRow({ source, layer, head, line, own, onKey, onFault }) {
    const [shown, setShown] = useState({ line: null, count: STEP });
    const [at, setAt] = useState(null);
    const count = shown.line === line ? shown.count : STEP;
    const keys = useMemo(() => line && keysByWeight(line.values), [line]);
    const { read, isReading } = useRowPairs({ source, layer: layer.layer, head, row: line?.index, keys, count,
        onFault });
    useEffect(() => setAt(null), [source, layer, head, line]);
    const pairs = (read?.pairs ?? []).slice(0, count);
    const most = useMemo(() => Math.max(LEAST, ...pairs.map(({ products }) => sizeOf(products))), [read, count]);
    if (!line)
        return null;
    const queryAt = (place) => setAt({ at: place, value: read.query[place] });
    return html`<section class="why-row" aria-label="Products of the row by key" aria-busy=${isReading}>
        <h3>The whole row: query × key by dimension, the largest weights first</h3>
        <${Words} at=${at} />
        <div class="table-scroller" tabindex="0" role="region" aria-label="Products of the row by key"
            onPointerLeave=${() => setAt(null)}><table>
            <thead><tr><th scope="col">Key</th><th scope="col">Products</th><th scope="col">Sum</th>
                <th scope="col">Score</th><th scope="col">Weight</th></tr></thead>
            <tbody>${read && html`<tr class="query"><th scope="row">query</th>
                <td class="strip-cell"><${Strip} values=${read.query} most=${sizeOf(read.query)}
                    onAt=${queryAt} /></td><td></td><td></td><td></td></tr>`}
                ${pairs.map((pair) => html`<${Key} key=${pair.key} ...${{ pair, most, onKey, onAt: setAt }}
                    token=${layer.keyTokens[pair.key]} weight=${pair.weight} isOwn=${pair.key === own} />`)}</tbody>
        </table></div>
        ${keys.length > count && html`<button type="button" class="more" disabled=${isReading}
            onClick=${() => setShown({ line, count: count + STEP })}>
            ${Math.min(STEP, keys.length - count)} more of ${keys.length - count}</button>`}
    </section>`;
}
