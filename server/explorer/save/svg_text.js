// SPDX-License-Identifier: Apache-2.0
/* svg_text.js - texts of an SVG file, and what a picture is drawn on: a screen, or a column of a paper. Text from
 * outside is escaped.
 *
 * A form is {type, small, wide, margin, family, isPaper}: the sizes of type, the width and the margin. Of a screen
 * they are pixels, and a picture is as wide as it must be (wide null); of a paper points, and its width is given. */
import { fitLabel } from '../draw/axis.js';

export const INK = '#1b1e24';
export const FAINT = '#565d6b';

const POINTS = 72 / 25.4;                        /* of a millimetre */

export const SCREEN = { type: 12, small: 11, wide: null, margin: 16, family: 'system-ui, sans-serif', isPaper: false };

/* The form of a picture for a paper, so many millimetres wide. */
export function paperForm(millimetres) {
    return { type: 8, small: 7, wide: millimetres * POINTS, margin: 2, family: 'Helvetica, Arial, sans-serif',
        isPaper: true };
}

/* The length of so many points, in millimetres. */
export const millimetresOf = (points) => points / POINTS;

/* A text between tags or in an attribute. XML has no place for most control characters and half surrogates. */
export function escapeXml(text) {
    return String(text)
        // eslint-disable-next-line no-control-regex
        .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd')
        .replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '\ufffd')
        .replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

const MEASURED_AT = 100;                         /* pixels: small sizes are rounded to pixels where they are measured */
const SPARE = 1.06;                              /* the font that shows the file may be wider */
let context = null;

/* The width of a text. */
export function textWidth(text, size, { family }, isBold = false) {
    context ??= new OffscreenCanvas(1, 1).getContext('2d');
    context.font = `${isBold ? 'bold ' : ''}${MEASURED_AT}px ${family}`;
    return SPARE * context.measureText(text).width * size / MEASURED_AT;
}

/* So much of a text as fits a width. */
export function fitted(text, width, size, form, isBold = false) {
    return fitLabel(String(text), (part) => textWidth(part, size, form, isBold) <= width);
}

/* The largest width of texts. */
export function widestOf(texts, size, form) {
    const longest = [...new Set(texts)].sort((a, b) => b.length - a.length).slice(0, 40);
    return longest.reduce((most, text) => Math.max(most, textWidth(text.slice(0, 60), size, form)), 0);
}

const short = (value) => (typeof value === 'number' ? Number(value.toFixed(3)) : value);

/* A line of text; attributes are of SVG. */
export function label(x, y, text, attributes = {}) {
    const written = Object.entries({ fill: INK, ...attributes })
        .map(([name, value]) => ` ${name}="${escapeXml(short(value))}"`).join('');
    return `<text x="${short(x)}" y="${short(y)}"${written}>${escapeXml(text)}</text>`;
}

/* The same, read from below to above. */
export function uprightLabel(x, y, text, attributes = {}) {
    return label(x, y, text, { ...attributes, transform: `rotate(-90 ${short(x)} ${short(y)})` });
}
