/* svg_parts.js - pieces of an SVG file as text: labels, a map, its axes, a legend. Text from outside is escaped. */
import { colourOf, drawMap } from '../draw/colours.js';
import { SCALES, tickText } from '../draw/scales.js';

const RECTANGLES_MAX = 16384;                    /* cells of a file that become rectangles; more are a picture */
export const INK = '#1b1e24';
export const FAINT = '#565d6b';

/* A text between tags or in an attribute. XML has no place for most control characters and half surrogates. */
export function escapeXml(text) {
    return String(text)
        // eslint-disable-next-line no-control-regex
        .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd')
        .replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '\ufffd')
        .replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/* At most `most` characters of a text. */
export function clip(text, most) {
    const letters = [...text];
    return letters.length > most ? `${letters.slice(0, most - 1).join('')}…` : text;
}

/* A line of text; attributes are of SVG. */
export function label(x, y, text, attributes = {}) {
    const written = Object.entries({ fill: INK, 'font-size': 12, ...attributes })
        .map(([name, value]) => ` ${name}="${escapeXml(value)}"`).join('');
    return `<text x="${x}" y="${y}"${written}>${escapeXml(text)}</text>`;
}

/* The cells of one row that have one colour follow each other as one rectangle. */
function rowRectangles(colours, y, height, width) {
    const parts = [];
    for (let begin = 0, end = 0; begin < colours.length; begin = end) {
        while (end < colours.length && colours[end] === colours[begin])
            end++;
        parts.push(`<rect x="${begin * width}" y="${y}" width="${(end - begin) * width}" height="${height}" ` +
            `fill="${colours[begin]}"/>`);
    }
    return parts.join('');
}

/* The map of a panel at x, y, as large as width and height. look is {scale, palette}; maps is how many the file has. */
export function mapPiece({ shape: [rows, keys], values, isDifference }, { x, y, width, height }, look, maps) {
    const chosen = isDifference ? { ...look, palette: 'difference' } : look;
    const place = `<svg x="${x}" y="${y}" width="${width}" height="${height}" preserveAspectRatio="none" ` +
        `viewBox="0 0 ${keys} ${rows}"`;
    if (rows * keys * maps > RECTANGLES_MAX)
        return `${place}>${pictureOf(values, rows, keys, chosen)}</svg>`;
    const lines = Array.from({ length: rows }, (_, row) => rowRectangles(
        Array.from(values.subarray(row * keys, (row + 1) * keys), (value) => colourOf(value, chosen)), row, 1, 1));
    return `${place} shape-rendering="crispEdges">${lines.join('')}</svg>`;
}

function pictureOf(values, rows, keys, look) {
    const canvas = document.createElement('canvas');
    drawMap(canvas, values, rows, keys, look);
    return `<image width="${keys}" height="${rows}" preserveAspectRatio="none" image-rendering="pixelated" ` +
        `href="${canvas.toDataURL('image/png')}"/>`;
}

/* A box around the fixed cell of a panel at x, y, along its row where no key is fixed and along its key where no row
 * is; '' where it is not within the panel. fixed is {row, key}, or null. */
export function markPiece({ rows, keys }, { x, y, width, height }, fixed) {
    const isIn = (at, [begin, end]) => at === null || (at >= begin && at < end);
    if (!fixed || !isIn(fixed.row, rows) || !isIn(fixed.key, keys))
        return '';
    const side = (at, [begin, end], from, length) => {
        if (at === null)
            return [from, length];
        const size = length / (end - begin);
        const long = Math.max(size, MARK_LEAST);
        return [from + (at - begin + 0.5) * size - long / 2, long];
    };
    const [left, wide] = side(fixed.key, keys, x, width);
    const [top, high] = side(fixed.row, rows, y, height);
    return [['#000000', 4], ['#ff9f1c', 2]].map(([colour, thick]) => `<rect class="fixed" x="${left}" y="${top}" `
        + `width="${wide}" height="${high}" fill="none" stroke="${colour}" stroke-width="${thick}"/>`).join('');
}

const MARK_LEAST = 6;                            /* pixels of the box of a fixed cell */
const LABEL = 12;                                /* pixels that a line of text needs */

/* Every how many tokens one is written, so that the lines do not lie over each other. */
function stepOf(count, length) {
    return Math.max(1, Math.ceil(LABEL * count / length));
}

/* The tokens of both axes around a map at x, y: keys above, turned, rows to the left. */
export function axesPiece({ rowTokens, keyTokens }, { x, y, width, height }) {
    const parts = [];
    const rowStep = stepOf(rowTokens.length, height);
    for (let i = 0; i < rowTokens.length; i += rowStep)
        parts.push(label(x - 5, y + (i + 0.5) * height / rowTokens.length + 4, clip(rowTokens[i], 14),
            { 'text-anchor': 'end', 'font-size': 11 }));
    const keyStep = stepOf(keyTokens.length, width);
    for (let i = 0; i < keyTokens.length; i += keyStep) {
        const middle = x + (i + 0.5) * width / keyTokens.length + 4;
        parts.push(label(middle, y - 5, clip(keyTokens[i], 14),
            { transform: `rotate(-90 ${middle} ${y - 5})`, 'font-size': 11 }));
    }
    return parts.join('');
}

/* Room that the labels of an axis need, in pixels. */
export function axisRoom(tokens) {
    return 14 + 7 * Math.min(14, tokens.reduce((most, token) => Math.max(most, token.length), 0));
}

/* A bar with the colours of the weights from 0 to 1, of a difference from -1 to 1. */
export function legendPiece(x, y, width, look, isDifference) {
    const steps = 64;
    const chosen = isDifference ? { ...look, palette: 'difference' } : look;
    const { weightAt, placeOf, ticks } = SCALES[look.scale];
    const colours = Array.from({ length: steps }, (_, i) => {
        const place = (i + 0.5) / steps;
        return colourOf(isDifference ? Math.sign(place - 0.5) * weightAt(Math.abs(2 * place - 1)) : weightAt(place),
            chosen);
    });
    const at = (weight) => (isDifference ? (1 + Math.sign(weight) * placeOf(Math.abs(weight))) / 2 : placeOf(weight));
    const written = isDifference ? [-1, 0, 1] : ticks;
    const bar = `<svg x="${x}" y="${y}" width="${width}" height="10" viewBox="0 0 ${steps} 1" ` +
        `preserveAspectRatio="none" shape-rendering="crispEdges">${rowRectangles(colours, 0, 1, 1)}</svg>`;
    return bar + written.map((weight) => label(x + at(weight) * width, y + 22, tickText(weight),
        { 'text-anchor': 'middle', fill: FAINT, 'font-size': 11 })).join('');
}
