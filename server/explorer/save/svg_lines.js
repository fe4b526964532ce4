/* svg_lines.js - the tokens view as a picture: lines from each token that looks to those that it looks at, a colour a
 * head. */
import { clip, label } from './svg_parts.js';
import { headColour } from '../draw/head_colours.js';

const LINE = 18;                                 /* pixels of a token */
const GAP = 260;                                 /* pixels between the columns */

/* panels are the heads of one layer that are seen; lines below the threshold are left out. */
export function linesPicture(panels, { top, margin, threshold }) {
    const { rowTokens, keyTokens } = panels[0] ?? { rowTokens: [], keyTokens: [] };
    const parts = [];
    const [left, right, begin] = [margin + 120, margin + 120 + GAP, top + 24];
    panels.forEach(({ head }, i) => parts.push(
        `<rect x="${margin + 26 * i}" y="${top}" width="22" height="10" fill="${headColour(head)}"/>`,
        label(margin + 26 * i + 11, top + 22, head, { 'text-anchor': 'middle', 'font-size': 10 })));
    const y = (i, count, cells) => begin + 16 + (i + 0.5) * LINE * count / cells;
    for (const { head, shape: [rows, keys], values } of panels)
        for (let i = 0; i < values.length; i++)
            if (values[i] >= threshold && values[i] > 0)
                parts.push(`<line x1="${left}" x2="${right}" y1="${y(Math.floor(i / keys), rowTokens.length, rows)}" ` +
                    `y2="${y(i % keys, keyTokens.length, keys)}" stroke="${headColour(head)}" stroke-width="2" ` +
                    `stroke-opacity="${values[i].toFixed(3)}"/>`);
    rowTokens.forEach((token, i) => parts.push(label(left - 6, begin + 20 + (i + 0.5) * LINE, clip(token, 16),
        { 'text-anchor': 'end' })));
    keyTokens.forEach((token, i) => parts.push(label(right + 6, begin + 20 + (i + 0.5) * LINE, clip(token, 16))));
    const lines = Math.max(rowTokens.length, keyTokens.length);
    return { parts, places: [], width: Math.max(right + 140, margin * 2 + 26 * panels.length),
        height: begin + 32 + lines * LINE };
}
