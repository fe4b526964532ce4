// SPDX-License-Identifier: Apache-2.0
/* svg_lines.js - the tokens view as a picture: lines from each token that looks to those that it looks at, a colour a
 * head; in greys, dashes. */
import { headColour } from '../draw/head_colours.js';
import { drawnLines, headDash, LINE_OPACITY, linesOf } from '../draw/lines.js';
import { FAINT, fitted, label, widestOf } from './svg_text.js';
import { stepOf } from './svg_map.js';

const LINE = 18;                                 /* pixels of a token */
const GAP = 260;                                 /* pixels between the columns */
const HIGH_MAX = 620;                            /* points of a paper */
const LETTERS = 16;                              /* of the widest token */
const GREYS = ['#000000', '#5a5a5a', '#9a9a9a'];
const GREY_DASHES = ['', '4 2', '1 2', '6 2 1 2'];

/* The lines that the view draws of these panels, of one layer and window: those of the fixed token alone, the largest
 * where there are too many. */
function seenLines(panels, { threshold, fixed }) {
    const [rows, keys] = panels[0]?.shape ?? [0, 0];
    const values = new Float32Array(panels.length * rows * keys);
    panels.forEach((panel, i) => values.set(panel.values, i * rows * keys));
    const only = fixed && (fixed.row !== null ? { row: fixed.row - (panels[0]?.rows[0] ?? 0) }
        : { key: fixed.key - (panels[0]?.keys[0] ?? 0) });
    return drawnLines(linesOf({ rows, keys, values }, { heads: panels.map((_, i) => i), only,
        threshold: threshold === null ? null : Math.min(1, Math.max(0, threshold)) })
        .map((line) => ({ ...line, head: panels[line.head].head })));
}

/* How the lines of a head look, as attributes; nth: which of the heads that are seen, size: of a token. */
function strokeOf(head, nth, look, { isPaper }, size = LINE) {
    const dash = look.isGrey ? GREY_DASHES[Math.floor(nth / GREYS.length) % GREY_DASHES.length]
        : headDash(head).map((length) => length * (isPaper ? 0.5 : 1)).join(' ');
    const width = isPaper ? Math.min(1, size / 6).toFixed(2) : 2;
    return `stroke="${look.isGrey ? GREYS[nth % GREYS.length] : headColour(head)}" stroke-width="${width}"` +
        `${dash ? ` stroke-dasharray="${dash}"` : ''}`;
}

/* Which line is of which head: {parts, height}. */
function headLegend(panels, x, y, width, look, form) {
    const { type, small } = form;
    const sample = type * (look.isGrey ? 2.6 : 1.4);
    const step = sample + type * 0.2 + widestOf(panels.map(({ head }) => String(head)), small, form) + small;
    const start = form.isPaper ? type * 3 : type * 3.2;
    const across = Math.max(1, Math.floor((width - start) / step));
    const parts = [label(x, y, 'head', { fill: FAINT, 'font-size': type })];
    panels.forEach(({ head }, i) => {
        const [left, line] = [x + start + (i % across) * step, y + Math.floor(i / across) * type * 1.5];
        parts.push(`<path d="M${left} ${line - small * 0.35}h${sample}" ${strokeOf(head, i, look, form)}/>`,
            label(left + sample + type * 0.2, line, head, { 'font-size': small }));
    });
    return { parts, height: Math.ceil(panels.length / across) * type * 1.5 };
}

/* One column of tokens, which end or begin at x. */
function columnPiece(tokens, first, { x, yOf, size, room, isLeft, fixed, form }) {
    const step = stepOf(size, form);
    return tokens.map((token, i) => {
        const isFixed = fixed === i + first;
        const isNear = step > 1 && typeof fixed === 'number' && Math.abs(i + first - fixed) * size < form.small * 1.2;
        if (!isFixed && ((i + first) % step !== 0 || isNear))
            return '';
        const text = step === 1 ? token : `${i + first} ${token}`;
        return label(x + (isLeft ? -1 : 1) * form.small / 2, yOf(i) + form.small * 0.35,
            fitted(text, room, form.small, form, isFixed),
            { 'font-size': form.small, ...(isLeft ? { 'text-anchor': 'end' } : {}),
                ...(isFixed ? { 'font-weight': 'bold' } : {}) });
    });
}

/* The places of the columns: where each begins, and how high a token is. */
function columnsOf({ rowTokens, keyTokens }, form) {
    const { small, margin, isPaper, wide } = form;
    const most = LETTERS * small * 0.56 + (isPaper ? 0 : small);
    const room = Math.min(most, Math.max(small * 4, widestOf([...rowTokens, ...keyTokens], small, form) + small * 2.5));
    const count = Math.max(1, rowTokens.length, keyTokens.length);
    const left = margin + room + small / 2;
    return { room, left, right: isPaper ? wide - left : left + GAP,
        size: isPaper ? Math.min(small * 1.6, HIGH_MAX / count) : LINE, count };
}

/* panels are the heads of one layer that are seen; lines below the threshold are left out, and where it is null all but
 * the largest of each row. fixed is {row, key} of the token that is fixed, one of them null; or null. */
export function linesPicture({ panels, fixed }, look, form, top) {
    const { type, margin } = form;
    const first = panels[0] ?? { rowTokens: [], keyTokens: [], rows: [0, 0], keys: [0, 0] };
    const { room, left, right, size, count } = columnsOf(first, form);
    const width = right + room + form.small / 2 + margin;
    const legend = headLegend(panels, margin, top + type, width - 2 * margin, look, form);
    const begin = top + legend.height + type * 2.2;
    const parts = [...legend.parts, label(left, begin - type * 0.5, 'query', { 'text-anchor': 'end', fill: FAINT,
        'font-size': type }), label(right, begin - type * 0.5, 'key', { fill: FAINT, 'font-size': type })];
    const yOf = (i) => begin + (i + 0.5) * size;
    const nth = new Map(panels.map(({ head }, i) => [head, i]));
    for (const { head, row, key, weight, shift } of seenLines(panels, { threshold: look.threshold, fixed }))
        parts.push(`<line x1="${left}" x2="${right}" y1="${yOf(row + shift)}" y2="${yOf(key + shift)}" ` +
            `${strokeOf(head, nth.get(head), look, form, size)} ` +
            `stroke-opacity="${(LINE_OPACITY + (1 - LINE_OPACITY) * weight).toFixed(3)}"/>`);
    const column = { yOf, size, room, form };
    parts.push(...columnPiece(first.rowTokens, first.rows[0], { ...column, x: left, isLeft: true, fixed: fixed?.row }),
        ...columnPiece(first.keyTokens, first.keys[0], { ...column, x: right, isLeft: false, fixed: fixed?.key }));
    return { parts, places: [], width, height: begin + count * size + type };
}
