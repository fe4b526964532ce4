/* svg.js - a sheet as one SVG file, on white as paper is. svgOf() gives the text, its size, and where each map lies,
 * which save/html.js needs to name the cell under the pointer. */
import { axesPiece, axisRoom, clip, escapeXml, FAINT, label, legendPiece, mapPiece, markPiece } from './svg_parts.js';
import { linesPicture } from './svg_lines.js';
import { pairPicture } from './svg_pair.js';

const MARGIN = 16;
const HEAD = 52;                                 /* pixels of the title above the maps */
const FOOT = 44;                                 /* pixels of the legend below them */
const MAP_MAX = 640;
const SMALL = 56;                                /* a head of the overview */
const NOTE = 16;                                 /* pixels of a line of notes */
const NOTES_WIDE = 900;                          /* pixels to which notes widen a picture */
const ACROSS = 16;                               /* sorted heads beside each other */

/* The size of a map whose cells are as large as fits: squares where rows and keys are alike. */
function sizeOf({ rows, keys }) {
    const [n, m] = [rows[1] - rows[0], keys[1] - keys[0]];
    const cell = Math.min(28, MAP_MAX / Math.max(n, m));
    return { width: Math.max(8, Math.round(cell * m)), height: Math.max(8, Math.round(cell * n)) };
}

/* Large maps side by side, each with its axes. */
function rowOfMaps(panels, fixed, look) {
    const parts = [];
    const places = [];
    let x = MARGIN;
    let bottom = 0;
    const top = HEAD + 20 + Math.max(...panels.map((panel) => axisRoom(panel.keyTokens)));
    for (const panel of panels) {
        x += axisRoom(panel.rowTokens);
        const place = { x, y: top, ...sizeOf(panel) };
        parts.push(label(x, HEAD + 12, panel.name, { 'font-weight': 'bold' }), axesPiece(panel, place),
            mapPiece(panel, place, look, panels.length), markPiece(panel, place, fixed),
            legendPiece(x, top + place.height + 14, Math.max(place.width, 160), look, panel.isDifference));
        places.push(place);
        x += Math.max(place.width, 160) + 2 * MARGIN;
        bottom = Math.max(bottom, place.y + place.height);
    }
    return { parts, places, width: x, height: bottom + FOOT };
}

/* All heads: a line for each layer. */
function gridOfMaps(panels, look) {
    const parts = [];
    const places = [];
    const layers = [...new Set(panels.map((panel) => panel.layer))];
    const heads = Math.max(...panels.map((panel) => panel.head)) + 1;
    const [left, top, step] = [MARGIN + 64, HEAD + 18, SMALL + 6];
    for (let head = 0; head < heads; head++)
        parts.push(label(left + head * step + SMALL / 2, top - 5, head, { 'text-anchor': 'middle', fill: FAINT }));
    layers.forEach((layer, i) => parts.push(label(left - 8, top + i * step + SMALL / 2 + 4, `layer ${layer}`,
        { 'text-anchor': 'end', fill: FAINT })));
    for (const panel of panels) {
        const place = { x: left + panel.head * step, y: top + layers.indexOf(panel.layer) * step,
            width: SMALL, height: SMALL };
        parts.push(panel.isOut ? `<g opacity="0.15">${mapPiece(panel, place, look, panels.length)}</g>`
            : mapPiece(panel, place, look, panels.length));
        places.push(place);
    }
    const bottom = top + layers.length * step;
    parts.push(legendPiece(left, bottom + 8, 240, look, false));
    return { parts, places, width: Math.max(left + heads * step, left + 240) + MARGIN, height: bottom + FOOT };
}

/* Heads in the order that a person chose, each with its name. */
function flowOfMaps(panels, look) {
    const [top, step] = [HEAD + 4, SMALL + 6];
    const places = panels.map((_, i) => ({ x: MARGIN + (i % ACROSS) * step,
        y: top + Math.floor(i / ACROSS) * (step + 14), width: SMALL, height: SMALL }));
    const parts = panels.flatMap((panel, i) => [mapPiece(panel, places[i], look, panels.length),
        label(places[i].x + SMALL / 2, places[i].y + SMALL + 12, panel.short,
            { 'text-anchor': 'middle', 'font-size': 11, fill: FAINT })]);
    const bottom = top + Math.ceil(panels.length / ACROSS) * (step + 14);
    parts.push(legendPiece(MARGIN + 8, bottom + 8, 240, look, false));
    return { parts, places, width: Math.max(Math.min(ACROSS, panels.length) * step, 240) + 2 * MARGIN,
        height: bottom + FOOT };
}

function pictureOf(sheet, look) {
    if (sheet.view === 'overview')
        return (sheet.sort === 'layer' ? gridOfMaps : flowOfMaps)(sheet.panels, look);
    if (sheet.view === 'tokens')
        return linesPicture(sheet.panels, { top: HEAD, margin: MARGIN, threshold: look.threshold,
            fixed: sheet.fixed });
    if (sheet.pair)
        return pairPicture(sheet.pair, { top: HEAD, margin: MARGIN });
    return rowOfMaps(sheet.panels, sheet.fixed, look);
}

function whereOf({ view, panels }) {
    if (view === 'overview')
        return 'all heads';
    return view === 'tokens' ? `layer ${panels[0]?.layer ?? ''}` : panels.map(({ name }) => name).join('; ');
}

/* {text, width, height, places}: places[i] is where panel i lies, {x, y, width, height}; [] where no map is drawn.
 * look is {scale, palette, threshold}. */
export function svgOf(sheet, look) {
    const picture = pictureOf(sheet, look);
    const longest = Math.max(0, ...sheet.notes.map((note) => note.length));
    const width = Math.ceil(Math.max(picture.width, 420, Math.min(NOTES_WIDE, 2 * MARGIN + 6.5 * longest)));
    const height = Math.ceil(picture.height) + NOTE * sheet.notes.length;
    const where = whereOf(sheet);
    const text = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
        `viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" role="img" ` +
        `aria-label="${escapeXml(`${sheet.title}, ${where}`)}">` +
        `<rect width="${width}" height="${height}" fill="#ffffff"/>` +
        label(MARGIN, 24, clip(`${sheet.model}, ${where}`, Math.floor(width / 9)),
            { 'font-size': 16, 'font-weight': 'bold' }) +
        label(MARGIN, 42, clip(sheet.title, Math.floor(width / 7)), { fill: FAINT }) +
        sheet.notes.map((note, i) => label(MARGIN, picture.height + NOTE * i, clip(note, Math.floor(width / 6.5)),
            { fill: FAINT })).join('') +
        `${picture.parts.join('')}</svg>\n`;
    return { text, width, height, places: picture.places };
}
