// SPDX-License-Identifier: Apache-2.0
/* strip.js - one row of several maps as lines of colours below each other, to follow a row through
 * layers or heads. */
import { html, useEffect, useRef } from '../vendor/html.js';
import { largestOf } from './bars.js';
import { drawMap } from './colours.js';
import { pairText } from './scales.js';
import { useDark } from './use_dark.js';

const CELLS_MAX = 512;

/** The largest of each of at most `cells` runs of values: value i of n is in run floor(i * cells / n). NaN, of a pair
 * that may not be seen, is none. */
export function poolLine(values, cells) {
    if (values.length <= cells)
        return values;
    const pooled = new Float32Array(cells).fill(NaN);
    values.forEach((value, i) => {
        const cell = Math.floor(i * cells / values.length);
        if (!(value <= pooled[cell]) && !Number.isNaN(value))
            pooled[cell] = value;
    });
    return pooled;
}

function Line({ line, tokens, marked, look, isOwn, onOpen, onPick }) {
    const canvas = useRef(null);
    const { values, title } = line;
    useEffect(() => {
        const pooled = values ? poolLine(values, CELLS_MAX) : new Float32Array(1);
        drawMap(canvas.current, pooled, 1, pooled.length, look);
    }, [values, look.scale, look.palette, look.range, look.isDark]);
    const at = !values ? null : marked ?? largestOf(values, 1)[0] ?? null;
    const pick = (event) => {
        const { left, width } = canvas.current.getBoundingClientRect();
        onPick(line, Math.min(tokens.length - 1, Math.floor((event.clientX - left) / width * tokens.length)));
    };
    const place = marked === null ? null : { left: `${100 * (marked + 0.5) / tokens.length}%` };
    return html`
        <tr class=${isOwn ? 'marked' : ''}>
            <th scope="row"><button type="button" aria-pressed=${isOwn} onClick=${() => onOpen(line)}>
                ${title}</button></th>
            <td class="line" onClick=${pick}><canvas ref=${canvas}></canvas>
                ${place && html`<span class="place" style=${place}></span>`}</td>
            <td class="number" data-line=${line.name} data-key=${at} data-weight=${values?.[at]}>
                ${at === null ? '–' : pairText(values[at])}
                ${marked === null && at !== null && html`<small> ${tokens[at].label}</small>`}</td>
        </tr>`;
}

/**
 * Lines below each other. lines: [{name, title, values | null}], all over tokens; own: the name of
 * the line that is looked at; marked: a token or null, then each line names its largest weight;
 * scale, palette, range as of a map; onOpen(line), onPick(line, token).
 */
export function Strip({ caption, lines, tokens, own, marked, scale, palette, range, onOpen, onPick }) {
    const look = { scale, palette, range: range ?? 1, isDark: useDark() };
    return html`
        <table class="strip">
            <caption>${caption}</caption>
            <tbody>${lines.map((line) => html`<${Line} key=${line.name} ...${{ line, tokens, marked, look,
                isOwn: line.name === own, onOpen, onPick }} />`)}</tbody>
        </table>`;
}
