/* svg_lines.js - the tokens view as a picture: lines from each token that looks to those that it looks at, a colour a
 * head. */
import { clip, label } from './svg_parts.js';
import { headColour } from '../draw/head_colours.js';
import { drawnLines, headDash, LINE_OPACITY, linesOf } from '../draw/lines.js';

const LINE = 18;                                 /* pixels of a token */
const GAP = 260;                                 /* pixels between the columns */

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

/* panels are the heads of one layer that are seen; lines below the threshold are left out, and where it is
 * null all but the largest of each row. fixed is {row, key} of the
 * token that is fixed, one of them null; or null. */
export function linesPicture(panels, { top, margin, threshold, fixed }) {
    const { rowTokens, keyTokens } = panels[0] ?? { rowTokens: [], keyTokens: [] };
    const parts = [];
    const [left, right, begin] = [margin + 120, margin + 120 + GAP, top + 24];
    panels.forEach(({ head }, i) => parts.push(
        `<rect x="${margin + 26 * i}" y="${top}" width="22" height="10" fill="${headColour(head)}"/>`,
        label(margin + 26 * i + 11, top + 22, head, { 'text-anchor': 'middle', 'font-size': 10 })));
    const y = (i) => begin + 16 + (i + 0.5) * LINE;
    for (const { head, row, key, weight, shift } of seenLines(panels, { threshold, fixed }))
        parts.push(`<line x1="${left}" x2="${right}" y1="${y(row + shift)}" y2="${y(key + shift)}" stroke="${headColour(head)}" ` +
            `stroke-width="2" stroke-opacity="${(LINE_OPACITY + (1 - LINE_OPACITY) * weight).toFixed(3)}"` +
            `${headDash(head).length > 0 ? ` stroke-dasharray="${headDash(head).join(' ')}"` : ''}/>`);
    const weightOf = (side, place) => (fixed && fixed[side] === place ? { 'font-weight': 'bold' } : {});
    rowTokens.forEach((token, i) => parts.push(label(left - 6, y(i) + 4, clip(token, 16),
        { 'text-anchor': 'end', ...weightOf('row', i + panels[0].rows[0]) })));
    keyTokens.forEach((token, i) => parts.push(label(right + 6, y(i) + 4, clip(token, 16),
        weightOf('key', i + panels[0].keys[0]))));
    const lines = Math.max(rowTokens.length, keyTokens.length);
    return { parts, places: [], width: Math.max(right + 140, margin * 2 + 26 * panels.length),
        height: begin + 32 + lines * LINE };
}
