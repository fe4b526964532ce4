// SPDX-License-Identifier: Apache-2.0
/* svg_pair.js - why a weight is what it is, as a picture: products of query and key by dimension, and the stages. */
import { weightText } from '../draw/scales.js';
import { stepOf } from './svg_map.js';
import { FAINT, fitted, INK, label, widestOf } from './svg_text.js';

const WIDE = 640;                                /* pixels of the diagrams on a screen */
const BAR = { screen: 3, paper: 6 };             /* sizes of type: a dimension, at most */
const SIGNS = { positive: '#c26a12', negative: '#2f6fb3' };  /* those of the page and of differences */
const GREY_SIGNS = { positive: INK, negative: '#9a9a9a' };

/* A diagram of bars around a line at 0. */
function barsPiece(values, { x, y, step, height }, signs) {
    const most = Math.max(1e-12, ...values.map(Math.abs));
    const middle = y + height / 2;
    return values.map((value, i) => {
        const high = Math.abs(value) / most * (height / 2 - 1);
        return `<rect x="${x + (i + 0.1) * step}" y="${value > 0 ? middle - high : middle}" width="${step * 0.8}" ` +
            `height="${high}" fill="${value > 0 ? signs.positive : signs.negative}"/>`;
    }).join('') + `<line x1="${x}" x2="${x + step * values.length}" y1="${middle}" y2="${middle}" stroke="${FAINT}" ` +
        'stroke-width="0.5"/>';
}

/* The numbers of the dimensions below the diagrams, and what they are. */
function dimensionsPiece(count, { x, y, step }, { type, small }) {
    const every = stepOf(step / 2.2, { small });
    const parts = [label(x + step * count / 2, y + small * 1.3 + type, 'dimension',
        { 'text-anchor': 'middle', fill: FAINT, 'font-size': type })];
    for (let i = 0; i < count; i += every)
        parts.push(label(x + (i + 0.5) * step, y + small, i,
            { 'text-anchor': 'middle', fill: FAINT, 'font-size': small }));
    return parts;
}

const numberText = (number) => weightText(number).replace(/-/g, '−');
const largestText = (values) => `largest ${numberText(Math.max(...values.map(Math.abs)))}`;

const STAGES = ['scale', 'score', 'softcapped', 'masked', 'lse', 'weight'];
const VECTORS = [['query_vector', 'query'], ['key_vector', 'key'], ['products', 'query × key']];

/* pair is the API's answer with rowToken and keyToken; of a source without vectors they are left out. */
export function pairPicture({ pair }, look, form, top) {
    const { type, small, margin, isPaper } = form;
    const stages = STAGES.filter((stage) => pair[stage] !== undefined);
    const vectors = VECTORS.filter(([name]) => pair[name]);
    const left = margin + type + Math.max(widestOf([...VECTORS.map(([, title]) => title), ...stages], type, form),
        widestOf(vectors.map(([name]) => largestText(pair[name])), small, form));
    const right = isPaper ? form.wide - margin : left + WIDE;
    const parts = [label(margin, top + type, fitted(`query ${pair.rowToken} (${pair.row}), key ${pair.keyToken} `
        + `(${pair.key})`, right - margin, type, form, true), { 'font-weight': 'bold', 'font-size': type })];
    let y = top + type * 2;
    const count = Math.max(1, ...vectors.map(([name]) => pair[name].length));
    const step = Math.min(BAR[isPaper ? 'paper' : 'screen'] * type, (right - left) / count);
    for (const [name, title] of vectors) {
        const height = type * 6;
        parts.push(label(margin, y + height / 2 + type * 0.35, title, { 'font-size': type }),
            barsPiece(pair[name], { x: left, y, step, height }, look.isGrey ? GREY_SIGNS : SIGNS),
            label(margin, y + height / 2 + type * 0.35 + small * 1.3, largestText(pair[name]),
                { fill: FAINT, 'font-size': small }));
        y += height + type;
    }
    if (vectors.length > 0)
        parts.push(...dimensionsPiece(count, { x: left, y, step }, form));
    y += vectors.length > 0 ? small * 1.3 + type * 2.6 : type;
    for (const name of stages) {
        parts.push(label(margin, y, name, { fill: FAINT, 'font-size': type }),
            label(left, y, pair[name] === null ? 'hidden' : numberText(pair[name]), { 'font-size': type }));
        y += type * 1.6;
    }
    return { parts, places: [], width: right + margin, height: y };
}
