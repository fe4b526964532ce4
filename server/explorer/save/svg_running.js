// SPDX-License-Identifier: Apache-2.0
/* svg_running.js - running text as a picture: each word in the colour of its weight, the one that is asked about
 * outlined, in lines as wide as the picture. */
import { weightText } from '../draw/scales.js';
import { flowOf } from './flow.js';
import { overWords } from './sheet_text.js';
import { escapeXml, FAINT, fitted, INK, label } from './svg_text.js';

const WIDE = 720;                                /* pixels of the lines on a screen */
const SIZE = 16;                                 /* pixels of a letter there */
const HEAT = '#ff9646';                          /* the colours of the page on a light ground */
const MARK = '#c2410c';
const GREY = '#8c8c8c';                          /* a grey on which black letters are read */
const LEGEND = 120;

const short = (number) => Number(number.toFixed(3));

function rectangle({ x, y, width, size }, attributes, more = 0) {
    const high = size * 1.35;
    return `<rect x="${short(x - more)}" y="${short(y - high / 2)}" width="${short(width + 2 * more)}" ` +
        `height="${short(high)}" rx="${short(size / 6)}" ${attributes}/>`;
}

/* What a pointer reads, where a program shows it. */
const titleOf = (token, index, value) => `<title>${escapeXml(`${token.label} (${index})${value === undefined ? ''
    : `: ${Number.isNaN(value) ? 'may not be seen' : weightText(value)}`}`)}</title>`;

/* The letters of a piece; each takes the width that it was measured at, whatever font shows it. */
const lettersOf = ({ x, y, width, size, text }, fill) => (text.trim() === '' ? '' : label(x, y + size * 0.35, text,
    { 'font-size': size, fill, 'xml:space': 'preserve',
        ...(width > 0 ? { textLength: width, lengthAdjust: 'spacingAndGlyphs' } : {}) }));

/* The letters of lines that are one text each: scripts whose letters join, or that run from the right. */
function joinedLines(pieces, fillOf, isRight, size) {
    const lines = new Map();
    for (const piece of pieces) {
        const line = Math.round(piece.y / size);
        lines.set(line, [...lines.get(line) ?? [], piece]);
    }
    return [...lines.values()].map((line) => {
        const [left, right] = [Math.min(...line.map(({ x }) => x)), Math.max(...line.map(({ x, width }) => x + width))];
        const { y } = line.find((piece) => piece.size === size) ?? line[0];
        const words = line.map((piece, i) => `${i > 0 && piece.isFirst ? escapeXml(piece.before) : ''}<tspan ` +
            `fill="${fillOf(piece)}" font-size="${short(piece.size)}">${escapeXml(piece.text)}</tspan>`);
        return `<text x="${short(isRight ? right : left)}" y="${short(y + size * 0.35)}" xml:space="preserve" ` +
            `direction="${isRight ? 'rtl' : 'ltr'}" font-size="${short(size)}" ` +
            `textLength="${short(right - left)}" lengthAdjust="spacingAndGlyphs">${words.join('')}</text>`;
    });
}

/* The tokens of one side below each other in lines; weightOf(place) is a number, or undefined where this side has
 * none. */
function flowPiece(tokens, { x, y, width, weightOf, subject, full }, look, form) {
    const size = form.isPaper ? form.type : SIZE;
    const flow = flowOf(tokens, { width, size, small: form.isPaper ? form.small : form.type, family: form.family });
    const fillOf = ({ token }) => (Number.isNaN(weightOf(token)) ? FAINT : INK);
    const placed = flow.pieces.map((piece, i) => ({ ...piece, x: x + piece.x, y: y + piece.y,
        before: tokens[piece.token].before ?? '', isFirst: piece.token !== flow.pieces[i - 1]?.token }));
    const parts = placed.map((piece) => {
        const token = tokens[piece.token];
        const value = weightOf(piece.token);
        const strength = value > 0 ? Math.min(1, value / full) : 0;
        const said = value === undefined ? '' : ` data-weight="${value}"`;
        const ground = `class="word" data-place="${piece.token}"${said} ` +
            `fill="${look.isGrey ? GREY : HEAT}" fill-opacity="${strength.toFixed(4)}"`;
        return `<g>${titleOf(token, piece.token, value)}${rectangle(piece, ground)}${token.special
            ? rectangle(piece, 'fill="none" stroke="#c6cad2" stroke-width="0.5"', size / 8) : ''}${flow.isJoined ? ''
            : lettersOf(piece, fillOf(piece))}</g>`;
    });
    const outline = placed.filter(({ token }) => token === subject).map((piece) => rectangle(piece,
        `class="fixed" fill="none" stroke="${look.isGrey ? INK : MARK}" stroke-width="${form.isPaper ? 1 : 2}"`,
        size / 16));
    return { parts: [...parts, ...(flow.isJoined ? joinedLines(placed, fillOf, flow.isRight, size) : []), ...outline],
        height: flow.height };
}

/* From 0 to the weight whose colour is full. */
function legendOf({ text, x, y, width }, look, form) {
    const { type, small } = form;
    const long = Math.min(LEGEND, width / 4);
    const last = `${weightText(text.full)}${text.isCut ? ' and more' : ''}`;
    const colour = look.isGrey ? GREY : HEAT;
    const start = x + small;
    const end = start + long + small * 0.5;
    return `<defs><linearGradient id="heat"><stop offset="0" stop-color="#ffffff"/><stop offset="1" ` +
        `stop-color="${colour}"/></linearGradient></defs>` +
        label(x, y + type * 0.8, '0', { 'font-size': small, fill: FAINT }) +
        `<rect x="${short(start)}" y="${short(y)}" width="${short(long)}" height="${type}" fill="url(#heat)" ` +
        `stroke="${FAINT}" stroke-width="0.5"/>` + label(end, y + type * 0.8,
        fitted(`${last}: weight, ${overWords(text)}`, x + width - end, small, form),
        { 'font-size': small, fill: FAINT });
}

/** The text of a sheet; of two sides both, the one that looks first. */
export function textPicture({ text }, look, form, top) {
    const { type, margin, isPaper, wide } = form;
    const width = isPaper ? wide - 2 * margin : WIDE;
    const { side, index, part, weights, full } = text;
    const other = side === 'row' ? 'key' : 'row';
    const isOne = text.row === text.key;
    const within = (place) => (place >= part[0] && place < part[1] ? weights[place - part[0]] : NaN);
    const parts = [];
    let y = top;
    for (const [name, title] of isOne ? [[other, '']] : [['row', 'Looks'], ['key', 'Is looked at']]) {
        if (title !== '') {
            parts.push(label(margin, y + type, title, { fill: FAINT, 'font-size': type }));
            y += type * 1.5;
        }
        const made = flowPiece(text[name], { x: margin, y, width, full, subject: isOne || name === side ? index : null,
            weightOf: name === other ? within : () => undefined }, look, form);
        parts.push(...made.parts);
        y += made.height + type * 0.5;
    }
    parts.push(legendOf({ text, x: margin, y: y + type * 0.3, width }, look, form));
    return { parts, places: [], width: width + 2 * margin, height: y + type * 1.8 };
}
