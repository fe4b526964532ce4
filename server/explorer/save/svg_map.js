// SPDX-License-Identifier: Apache-2.0
/* svg_map.js - pieces of an SVG file around one map: its cells, what is fixed, its axes, its legend. */
import { colourOf, drawMap } from '../draw/colours.js';
import { ticksOf, weightsAlong } from '../draw/legend.js';
import { FAINT, fitted, label, textWidth, uprightLabel, widestOf } from './svg_text.js';

const RECTANGLES_MAX = 16384;                    /* cells of a file that become rectangles; more are a picture */
const LEGEND_STEPS = 64;
const LETTERS = 16;                              /* of a small type: the widest label of an axis */

/* How the numbers of a panel become colours, as draw/colours.js takes it; look is {scale, palette, isGrey}. What is
 * saved is on white, whatever the page is on. */
function lookOf({ isDifference, range }, { scale, palette, isGrey }) {
    return { scale, palette: isDifference ? 'difference' : palette, range: range?.value ?? 1,
        isCut: range?.kind === '99', isGrey, isDark: false };
}

/* Whether some pairs of a panel may not be seen: NaN stands there. */
export const hasHidden = ({ values }) => values.some(Number.isNaN);

/* The ground of pairs that may not be seen: lines across, as on the page. */
export function hatchPiece({ type }) {
    const side = type / 2;
    return `<defs><pattern id="hidden" width="${side}" height="${side}" patternUnits="userSpaceOnUse">` +
        `<path d="M0 ${side}L${side} 0" stroke="#c6cad2" stroke-width="${side / 8}"/></pattern></defs>`;
}

/* The cells of one row that have one colour follow each other as one rectangle; null has none. */
function rowRectangles(colours, y) {
    const parts = [];
    for (let begin = 0, end = 0; begin < colours.length; begin = end) {
        while (end < colours.length && colours[end] === colours[begin])
            end++;
        if (colours[begin] !== null)
            parts.push(`<rect x="${begin}" y="${y}" width="${end - begin}" height="1" fill="${colours[begin]}"/>`);
    }
    return parts.join('');
}

/* The map of a panel at x, y, as large as width and height; maps is how many the file has. */
export function mapPiece(panel, { x, y, width, height }, look, maps) {
    const { shape: [rows, keys], values } = panel;
    const chosen = lookOf(panel, look);
    const ground = hasHidden(panel)
        ? `<rect x="${x}" y="${y}" width="${width}" height="${height}" fill="url(#hidden)"/>` : '';
    const place = `${ground}<svg x="${x}" y="${y}" width="${width}" height="${height}" preserveAspectRatio="none" ` +
        `viewBox="0 0 ${keys} ${rows}"`;
    if (rows * keys * maps > RECTANGLES_MAX)
        return `${place}>${pictureOf(values, rows, keys, chosen)}</svg>`;
    const lines = Array.from({ length: rows }, (_, row) => rowRectangles(
        Array.from(values.subarray(row * keys, (row + 1) * keys),
            (value) => (Number.isNaN(value) ? null : colourOf(value, chosen))), row));
    return `${place} shape-rendering="crispEdges">${lines.join('')}</svg>`;
}

function pictureOf(values, rows, keys, look) {
    const canvas = document.createElement('canvas');
    drawMap(canvas, values, rows, keys, look);
    return `<image width="${keys}" height="${rows}" preserveAspectRatio="none" image-rendering="pixelated" ` +
        `href="${canvas.toDataURL('image/png')}"/>`;
}

/* A line around a map, whose light colours have no end on paper. */
export function framePiece({ x, y, width, height }) {
    return `<rect x="${x}" y="${y}" width="${width}" height="${height}" fill="none" stroke="${FAINT}" ` +
        'stroke-width="0.5"/>';
}

/* A box around the fixed cell of a panel at x, y, along its row where no key is fixed and along its key where no row
 * is; '' where it is not within the panel. fixed is {row, key}, or null. */
export function markPiece({ rows, keys }, { x, y, width, height }, fixed, { type, isGrey }) {
    const isIn = (at, [begin, end]) => at === null || (at >= begin && at < end);
    if (!fixed || !isIn(fixed.row, rows) || !isIn(fixed.key, keys))
        return '';
    const side = (at, [begin, end], from, length) => {
        if (at === null)
            return [from, length];
        const size = length / (end - begin);
        const long = Math.max(size, type / 2);
        return [from + (at - begin + 0.5) * size - long / 2, long];
    };
    const [left, wide] = side(fixed.key, keys, x, width);
    const [top, high] = side(fixed.row, rows, y, height);
    return [['#000000', type / 3], [isGrey ? '#ffffff' : '#ff9f1c', type / 6]].map(([colour, thick]) =>
        `<rect class="fixed" x="${left}" y="${top}" width="${wide}" height="${high}" fill="none" stroke="${colour}" `
        + `stroke-width="${thick}"/>`).join('');
}

/* Every how many tokens one is written, so that the lines do not lie over each other. */
export function stepOf(size, { small }) {
    for (let step = 1; ; step *= 10)
        for (const times of [1, 2, 5])
            if (step * times * size >= small * 1.2)
                return step * times;
}

/* With labels left out, the numbers tell where one is. */
function writtenOf(tokens, first, size, form) {
    const step = stepOf(size, form);
    const from = Math.ceil(first / step) * step - first;
    const all = [];
    for (let i = from; i < tokens.length; i += step)
        all.push({ i, text: step === 1 ? tokens[i] : `${i + first} ${tokens[i]}` });
    return { step, all };
}

/* Room for the labels of an axis whose tokens are so large. */
function labelRoom(tokens, first, size, form) {
    const widest = widestOf(writtenOf(tokens, first, size, form).all.map(({ text }) => text), form.small, form);
    return Math.min(LETTERS * form.small * 0.56, widest) + form.small * 0.7;
}

/* Whether all labels of keys so wide have room above them, written flat. */
const areFlat = (tokens, size, form) => widestOf(tokens, form.small, form) <= size - form.small * 0.3;

/* The room that both axes of a panel take whose cells are so large: {left, top}. */
export function axesRoom({ rowTokens, keyTokens, rows, keys }, cell, form) {
    const title = form.type * 1.4;
    return { left: title + labelRoom(rowTokens, rows[0], cell, form),
        top: title + (areFlat(keyTokens, cell, form) ? form.small * 1.3 : labelRoom(keyTokens, keys[0], cell, form)) };
}

const tick = (x1, y1, x2, y2) => `<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" stroke="${FAINT}" ` +
    'stroke-width="0.5"/>';

/* Where an axis has labels for some tokens alone, a short line shows which. */
function rowLabels({ rowTokens, rows }, { x, y, height }, room, form) {
    const size = height / rowTokens.length;
    const { step, all } = writtenOf(rowTokens, rows[0], size, form);
    return all.map(({ i, text }) => {
        const middle = y + (i + 0.5) * size;
        return label(x - form.small * 0.4, middle + form.small * 0.35,
            fitted(text, room.left - form.type * 1.4 - form.small * 0.5, form.small, form),
            { 'text-anchor': 'end', 'font-size': form.small })
            + (step > 1 ? tick(x - form.small * 0.25, middle, x, middle) : '');
    });
}

function keyLabels({ keyTokens, keys }, { x, y, width }, room, form) {
    const size = width / keyTokens.length;
    const { step, all } = writtenOf(keyTokens, keys[0], size, form);
    const isFlat = areFlat(keyTokens, size, form);
    return all.map(({ i, text }) => {
        const middle = x + (i + 0.5) * size;
        if (isFlat)
            return label(middle, y - form.small * 0.45, text, { 'text-anchor': 'middle', 'font-size': form.small });
        return uprightLabel(middle + form.small * 0.35, y - form.small * 0.4,
            fitted(text, room.top - form.type * 1.4 - form.small * 0.5, form.small, form), { 'font-size': form.small })
            + (step > 1 ? tick(middle, y - form.small * 0.25, middle, y) : '');
    });
}

/* The titles of the axes around a place, at the outer ends of their rooms. */
export function axisTitles({ x, y, width, height }, room, [down, across], form) {
    const as = { 'text-anchor': 'middle', 'font-size': form.type, fill: FAINT };
    return uprightLabel(x - room.left + form.type, y + height / 2, down, as)
        + label(x + width / 2, y - room.top + form.type, across, as);
}

/* The tokens of both axes around a map: keys above, rows to the left, and what they are. */
export function axesPiece(panel, place, room, form) {
    return [...rowLabels(panel, place, room, form), ...keyLabels(panel, place, room, form),
        axisTitles(place, room, ['query', 'key'], form)].join('');
}

/* Of ticks with places those that do not lie over one before them; both ends stay. */
function apart(ticks, width, form) {
    const half = ({ text, place }) => textWidth(text, form.small, form) / (place % 1 === 0 ? 1 : 2)
        + form.small * 0.2;
    const isFree = (one, other) => Math.abs(one.place - other.place) * width > half(one) + half(other);
    const kept = [ticks[0], ticks.at(-1)];
    for (const one of ticks.slice(1, -1))
        if (kept.every((other) => isFree(one, other)))
            kept.push(one);
    return kept;
}

const SCALED = { linear: '', sqrt: ', square root scale', log: ', logarithmic scale' };

/* The height that a legend takes. */
export const legendHeight = ({ type, small }) => type * 0.8 + small * 1.3 + type * 1.3;

/* A bar with the colours of the weights, and what they are. */
export function legendPiece(x, y, width, panel, look, form) {
    const chosen = lookOf(panel, look);
    const colours = Array.from(weightsAlong(chosen, LEGEND_STEPS), (weight) => colourOf(weight, chosen));
    const high = form.type * 0.8;
    const bar = `<svg x="${x}" y="${y}" width="${width}" height="${high}" viewBox="0 0 ${LEGEND_STEPS} 1" ` +
        `preserveAspectRatio="none" shape-rendering="crispEdges">${rowRectangles(colours, 0)}</svg>`;
    const below = y + high + form.small * 1.1;
    const anchorOf = (place) => (place === 0 ? 'start' : place === 1 ? 'end' : 'middle');  /* within the bar */
    const ticks = apart(ticksOf(chosen), width, form).map(({ text, place }) => label(x + place * width, below,
        text, { 'text-anchor': anchorOf(place), fill: FAINT, 'font-size': form.small }));
    const title = `${panel.isDifference ? 'difference of weights' : 'weight'}${SCALED[chosen.scale] ?? ''}`;
    return [bar, framePiece({ x, y, width, height: high }), ...ticks,
        label(x + width / 2, below + form.type * 1.2, fitted(title, width + form.type * 2, form.type, form),
            { 'text-anchor': 'middle', fill: FAINT, 'font-size': form.type })].join('');
}
