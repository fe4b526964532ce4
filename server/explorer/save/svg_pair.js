/* svg_pair.js - why a weight is what it is, as a picture: products of query and key by dimension, and the stages. */
import { FAINT, label } from './svg_parts.js';
import { weightText } from '../draw/scales.js';

const BAR = 36;                                  /* pixels of a dimension, at most */
const WIDE = 640;
const HIGH = 110;                                /* pixels of one diagram */

/* A diagram of bars around a line at 0. */
function barsOf(values, x, y) {
    const step = Math.min(BAR, WIDE / values.length);
    const most = Math.max(1e-12, ...values.map(Math.abs));
    const middle = y + HIGH / 2;
    return values.map((value, i) => {
        const height = Math.abs(value) / most * (HIGH / 2 - 6);
        return `<rect x="${x + i * step}" y="${value > 0 ? middle - height : middle}" width="${step * 0.8}" ` +
            `height="${height}" fill="${value > 0 ? '#c2410c' : '#0b5cad'}"/>`;
    }).join('') + `<line x1="${x}" x2="${x + step * values.length}" y1="${middle}" y2="${middle}" stroke="${FAINT}"/>`;
}

const STAGES = ['scale', 'score', 'softcapped', 'masked', 'lse', 'weight'];

/* pair is the API's answer with rowToken and keyToken; of a source without vectors they are left out. */
export function pairPicture(pair, { top, margin }) {
    const parts = [label(margin, top + 12, `${pair.rowToken} (${pair.row}) looks at ${pair.keyToken} (${pair.key})`,
        { 'font-weight': 'bold' })];
    let y = top + 24;
    for (const [name, title] of [['query_vector', 'query'], ['key_vector', 'key'], ['products', 'query · key']]) {
        if (!pair[name])
            continue;
        parts.push(label(margin, y + 14, title, { fill: FAINT }), barsOf(pair[name], margin + 90, y));
        y += HIGH + 8;
    }
    for (const name of STAGES.filter((stage) => pair[stage] !== undefined)) {
        parts.push(label(margin, y + 14, name, { fill: FAINT }),
            label(margin + 90, y + 14, pair[name] === null ? 'hidden' : weightText(pair[name])));
        y += 20;
    }
    return { parts, places: [], width: margin * 2 + 90 + WIDE, height: y + margin };
}
