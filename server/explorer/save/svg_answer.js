// SPDX-License-Identifier: Apache-2.0
/* svg_answer.js - what an answer rests on as a picture: the parts of the prompt as bars, heads as a map, layers as
 * bars. Blue is less without it, orange more, as on the page. */
import { effectText, largestEffect, leavesText } from '../views/effect.js';
import { shortNumber } from '../views/head_words.js';
import { answerTokens } from './sheet_answer.js';
import { FAINT, fitted, INK, label } from './svg_text.js';

const WIDE = 760;                                /* pixels on a screen */
const LINE = '#c6cad2';
const SHARE = '#737a87';
const COLOURS = { page: { negative: '#2f6fb3', positive: '#c26a12' },      /* of the page on a light ground */
    grey: { negative: '#3a3a3a', positive: '#a8a8a8' } };

const short = (number) => Number(number.toFixed(3));
const readable = (text) => text.replace(/[▁Ġ]/g, '␣').replace(/Ċ/g, '⏎');

function rectangle(x, y, width, height, fill, more = '') {
    return `<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" ` +
        `fill="${fill}"${more}/>`;
}

/* A column of a paper has less room for texts. */
const isNarrow = (width, { type }) => width < type * 40;

const coloursOf = (look) => (look.isGrey ? COLOURS.grey : COLOURS.page);
const colourOf = (value, look) => coloursOf(look)[value < 0 ? 'negative' : 'positive'];

/* A bar around zero, with its number behind it. */
function effectBar(value, largest, { x, y, width, high, type }, look) {
    const long = width - type * 4.2;
    const half = long / 2;
    const size = half * Math.min(1, Math.abs(value ?? 0) / largest);
    const bar = value === null ? '' : rectangle(value < 0 ? x + half - size : x + half, y, size, high,
        colourOf(value, look), ` data-effect="${value}"`);
    return rectangle(x, y, long, high, '#f4f5f7') + bar + rectangle(x + half, y, 0.7, high, INK)
        + label(x + width, y + high * 0.8, value === null ? '–' : effectText(value), { 'font-size': type,
            'text-anchor': 'end' });
}

const meanOf = (spans) => {
    const all = spans.flatMap(({ weights }) => weights);
    return all.reduce((sum, share) => sum + share, 0) / all.length;
};

/* A line for each part: what it is, how much it is looked at, what the answer is without it. */
function partLines({ parts, base, by }, { x, y, width }, look, form) {
    const { type, small } = form;
    const step = type * 1.9;
    const at = (isNarrow(width, form) ? [0, 0.3, 0.56, 0.86] : [0, 0.4, 0.6, 0.88]).map((part) => x + part * width);
    const largest = largestEffect(parts.map(({ effect }) => effect));
    const heads = ['Part of the prompt', 'Looked at, mean', by === 'hide' ? 'Hidden, nats' : 'Left out, nats', 'Leaves']
        .map((text, i) => label(i === 3 ? x + width : at[i], y + small, text, { 'font-size': small, fill: FAINT,
            ...(i === 3 ? { 'text-anchor': 'end' } : {}) }));
    const lines = parts.flatMap(({ text, spans, effect }, i) => {
        const top = y + small * 1.8 + i * step;
        const share = meanOf(spans);
        const long = at[2] - at[1] - type * 5.5;
        const said = fitted(readable(text), at[1] - at[0] - type, type, form);
        return [label(at[0], top + type, said, { 'font-size': type }),
            rectangle(at[1], top, long, type * 1.2, '#f4f5f7'),
            rectangle(at[1], top, long * Math.min(1, share), type * 1.2, SHARE, ` data-share="${share}"`),
            label(at[2] - type, top + type, `${shortNumber(100 * share)} %`,
                { 'font-size': type, 'text-anchor': 'end' }),
            effectBar(effect, largest, { x: at[2], y: top, width: at[3] - at[2] - type, high: type * 1.2, type }, look),
            label(x + width, top + type, leavesText(base, effect), { 'font-size': type, 'text-anchor': 'end' })];
    });
    return { parts: [...heads, ...lines], bottom: y + small * 1.8 + parts.length * step };
}

/* Layers down, heads across, the strongest colour for the largest effect. */
function headCells({ layers }, { x, y, width }, look, form) {
    const { type, small } = form;
    const most = Math.max(...layers.map(({ heads }) => heads.length));
    const side = Math.min(type * 2, (width - type * 3) / most);
    const largest = largestEffect(layers.flatMap(({ heads }) => heads));
    const from = x + type * 3;
    const parts = side < small * 1.4 ? [] : Array.from({ length: most }, (_, head) => label(from + (head + 0.5) * side,
        y + small, `H${head}`, { 'font-size': small, fill: FAINT, 'text-anchor': 'middle' }));
    layers.forEach(({ layer, heads }, row) => {
        const top = y + small * 1.5 + row * side;
        if (side >= small || row % Math.ceil(small / side) === 0)
            parts.push(label(from - type * 0.4, top + side / 2 + small * 0.35, `L${layer}`,
                { 'font-size': small, fill: FAINT, 'text-anchor': 'end' }));
        heads.forEach((effect, head) => parts.push(rectangle(from + head * side, top, side, side,
            colourOf(effect, look), ` fill-opacity="${Math.min(1, Math.abs(effect) / largest).toFixed(4)}" `
            + `stroke="${LINE}" stroke-width="0.5" `
            + `data-layer="${layer}" data-head="${head}" data-effect="${effect}"`)));
    });
    return { parts, bottom: y + small * 1.5 + layers.length * side, largest };
}

/* A line for each layer: without it, and without its feed-forward alone. */
function layerLines({ layers }, { x, y, width }, look, form) {
    const { type, small } = form;
    const hasFeed = layers.some(({ feed_forward: feed }) => feed !== null);
    const names = hasFeed ? ['effect', 'feed_forward'] : ['effect'];
    const largest = largestEffect(layers.flatMap((one) => names.map((name) => one[name])));
    const each = (width - type * 3) / names.length;
    const titles = { effect: hasFeed ? 'layer' : 'attention', feed_forward: 'feed-forward' };
    const parts = names.map((name, i) => label(x + type * 3 + i * each, y + small, titles[name],
        { 'font-size': small, fill: FAINT }));
    layers.forEach((one, row) => {
        const top = y + small * 1.5 + row * type * 1.5;
        parts.push(label(x + type * 2.6, top + type * 0.9, `L${one.layer}`, { 'font-size': small, fill: FAINT,
            'text-anchor': 'end' }), ...names.map((name, i) => effectBar(one[name], largest,
            { x: x + type * 3 + i * each, y: top, width: each - type, high: type, type: small }, look)));
    });
    return { parts, bottom: y + small * 1.5 + layers.length * type * 1.5 };
}

/* What the two colours are. */
function legend({ x, y, width }, largest, look, form) {
    const { type, small } = form;
    const { negative, positive } = coloursOf(look);
    const half = isNarrow(width, form) ? type * 12 : type * 14;
    const more = fitted(`more without it; heads full at ${shortNumber(largest)} nats`, width - half - small * 1.4,
        small, form);
    const said = (at, text) => label(at + small * 1.4, y + small * 0.85, text, { 'font-size': small, fill: FAINT });
    return [rectangle(x, y, small, small, negative), said(x, 'less without it (it helped)'),
        rectangle(x + half, y, small, small, positive), said(x + half, more)];
}

/** The answer of a sheet. */
export function answerPicture({ answer }, look, form, top) {
    const { type, margin, isPaper, wide } = form;
    const width = isPaper ? wide - 2 * margin : WIDE;
    const value = `${readable(answerTokens(answer, readable))}: ${leavesText(answer.base, 0)}`;
    const place = { x: margin, y: top + type * 2, width };
    const lines = partLines(answer, place, look, form);
    const isBeside = width > type * 50;
    const half = isBeside ? width / 2 : width;
    const below = lines.bottom + type * 2;
    const cells = headCells(answer, { x: margin, y: below, width: half }, look, form);
    const bars = layerLines(answer, isBeside ? { x: margin + half, y: below, width: half }
        : { x: margin, y: cells.bottom + type * 2, width }, look, form);
    const bottom = Math.max(cells.bottom, bars.bottom) + type;
    return { parts: [label(margin, top + type, value, { 'font-size': type, 'font-weight': 'bold' }), ...lines.parts,
        label(margin, below - type * 0.6, 'Heads, each switched off alone', { 'font-size': type }), ...cells.parts,
        label(isBeside ? margin + half : margin, (isBeside ? below : cells.bottom + type * 2) - type * 0.6,
            'Layers, each switched off alone, nats', { 'font-size': type }), ...bars.parts,
        ...legend({ x: margin, y: bottom, width }, cells.largest, look, form)], places: [], width: width + 2 * margin,
    height: bottom + type * 2 };
}
