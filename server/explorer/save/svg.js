// SPDX-License-Identifier: Apache-2.0
/* svg.js - a sheet as one SVG file, on white as paper is. svgOf() gives the text, its size, and where each map lies,
 * which save/html.js needs to name the cell under the pointer. */
import { answerPicture } from './svg_answer.js';
import { headsPicture, rowOfMaps } from './svg_heads.js';
import { linesPicture } from './svg_lines.js';
import { hasHidden, hatchPiece } from './svg_map.js';
import { pairPicture } from './svg_pair.js';
import { askedWords } from './sheet_text.js';
import { textPicture } from './svg_running.js';
import { escapeXml, FAINT, fitted, label, millimetresOf, SCREEN, textWidth } from './svg_text.js';

const HEAD = 52;                                 /* pixels of the title above what is drawn */
const NOTE = 16;                                 /* pixels of a line of notes */
const NOTES_WIDE = 900;                          /* pixels to which notes widen a picture */
const WIDE_LEAST = 420;

function pictureOf(sheet, look, form, top) {
    if (sheet.view === 'overview')
        return headsPicture(sheet, look, form, top);
    if (sheet.answer)
        return answerPicture(sheet, look, form, top);
    if (sheet.text)
        return textPicture(sheet, look, form, top);
    if (sheet.view === 'tokens')
        return linesPicture(sheet, look, form, top);
    return (sheet.pair ? pairPicture : rowOfMaps)(sheet, look, form, top);
}

/* What of the model a sheet shows. */
export function whereOf({ view, panels, text, answer }) {
    if (view === 'overview')
        return 'all heads';
    if (answer)
        return `what the answer after token ${answer.position} rests on`;
    if (text)
        return `layer ${panels[0]?.layer ?? ''}, ${askedWords(text)}`;
    return view === 'tokens' ? `layer ${panels[0]?.layer ?? ''}` : panels.map(({ name }) => name).join('; ');
}

function textOf(sheet, parts, { width, height, size }, form) {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${size[0]}" height="${size[1]}" ` +
        `viewBox="0 0 ${width} ${height}" font-family="${form.family}" role="img" ` +
        `aria-label="${escapeXml(`${sheet.title}, ${whereOf(sheet)}`)}">` +
        `${!sheet.text && sheet.panels.some(hasHidden) ? hatchPiece(form) : ''}` +
        `<rect width="${width}" height="${height}" fill="#ffffff"/>${parts.join('')}</svg>\n`;
}

const IN_EACH = 'In each map queries go down, keys across.';

/* The picture with a title above it and the notes below it. */
function screenSvg(sheet, look) {
    const { type, margin } = SCREEN;
    const picture = pictureOf(sheet, look, SCREEN, HEAD);
    const notes = [...(sheet.view === 'overview' ? [IN_EACH] : []), ...sheet.notes];
    const noted = notes.map((note) => 2 * margin + textWidth(note, type, SCREEN));
    const width = Math.ceil(Math.max(picture.width, WIDE_LEAST, Math.min(NOTES_WIDE, Math.max(0, ...noted))));
    const from = picture.height + type * 1.5;
    const height = Math.ceil(from + NOTE * notes.length);
    const line = (y, text, size, more) => label(margin, y, fitted(text, width - 2 * margin, size, SCREEN,
        more['font-weight'] === 'bold'), { 'font-size': size, ...more });
    const parts = [line(24, `${sheet.model ?? 'Weights of a file'}, ${whereOf(sheet)}`, 16, { 'font-weight': 'bold' }),
        line(42, sheet.title, type, { fill: FAINT }),
        ...notes.map((note, i) => line(from + NOTE * i, note, type, { fill: FAINT })), ...picture.parts];
    return { text: textOf(sheet, parts, { width, height, size: [width, height] }, SCREEN), width, height,
        places: picture.places };
}

/* The picture alone, as wide as the form; its size is in points. */
function paperSvg(sheet, look, form) {
    const { wide: width, margin } = form;
    const { parts, places, height: drawn } = pictureOf(sheet, look, form, margin);
    const height = drawn + margin;
    const size = [width, height].map((points) => `${Number(millimetresOf(points).toFixed(3))}mm`);
    return { text: textOf(sheet, parts, { width, height, size }, form), width, height, places };
}

/* {text, width, height, places}: places[i] is where panel i lies, {x, y, width, height}; [] where no map is drawn.
 * look is {scale, palette, threshold, isGrey}; form is of svg_text.js. */
export function svgOf(sheet, look, form = SCREEN) {
    return form.isPaper ? paperSvg(sheet, look, form) : screenSvg(sheet, look);
}
