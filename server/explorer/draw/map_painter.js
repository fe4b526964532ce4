// SPDX-License-Identifier: Apache-2.0
/* map_painter.js - one frame of a map on a canvas: tiles, axes, what is hovered and what is fixed.
 *
 * A frame only copies tiles that have their colours: a tile is coloured once for a scale and
 * palette, and not more of them in a frame than leave it short. */
import { drawAxis } from './axis.js';
import { paintCells } from './colours.js';
import { hatchOf } from './hatch.js';
import { drawDigits } from './map_digits.js';
import { seenOf } from './window.js';

const COLOUR_MS_MAX = 6;
const GRID_FROM = 10;
const MARK_MIN = 7;
const MARK_OVER = 3;

/** The breadth of an axis that its title takes, in CSS pixels. */
export const TITLE_SIZE = 18;
const FLAT_LABELS = 24;

/* The canvas of each coloured tile, which goes with it. */
const coloured = new WeakMap();

function colouredTile(tile, look, canColour) {
    const name = `${look.scale} ${look.palette} ${look.range} ${look.isDark}`;
    const known = coloured.get(tile);
    if (known?.name === name)
        return known;
    if (!canColour())
        return null;
    const [rows, keys] = tile.shape;
    const canvas = known?.canvas ?? new OffscreenCanvas(keys, rows);
    canvas.getContext('2d').putImageData(paintCells(tile.values, rows, keys, look), 0, 0);
    const made = { name, canvas, hasHidden: known?.hasHidden ?? tile.values.some(Number.isNaN) };
    coloured.set(tile, made);
    return made;
}

/* The cells of a tile between two tokens, and where they lie: [first cell, cells, from, to]. */
function partOf([first, end], cells, [seenFirst, seenEnd]) {
    const size = (end - first) / cells;
    const from = Math.max(0, Math.floor((seenFirst - first) / size));
    const to = Math.min(cells, Math.ceil((seenEnd - first) / size));
    return { from, cells: to - from, first: first + from * size, end: first + to * size };
}

/* Coarser tiles below a tile end where it begins: what it hides has the ground of hidden pairs. */
function drawTile(context, tile, { canvas, hasHidden }, { view, seen, snap, theme, ratio }) {
    const rows = partOf(tile.rows, tile.shape[0], seen.rows);
    const keys = partOf(tile.keys, tile.shape[1], seen.keys);
    if (rows.cells <= 0 || keys.cells <= 0)
        return;
    const left = snap((keys.first - view.key) * view.width);
    const right = snap((keys.end - view.key) * view.width);
    const top = snap((rows.first - view.row) * view.height);
    const bottom = snap((rows.end - view.row) * view.height);
    if (hasHidden) {
        context.fillStyle = hatchOf(context, theme, ratio);
        context.fillRect(left, top, right - left, bottom - top);
    }
    context.drawImage(canvas, keys.from, rows.from, keys.cells, rows.cells,
        left, top, right - left, bottom - top);
}

/* Gives whether tiles are left without colours. */
function drawTiles(context, frame) {
    const started = performance.now();
    let isLeft = false;
    const canColour = () => performance.now() - started < COLOUR_MS_MAX || !(isLeft = true);
    context.imageSmoothingEnabled = false;
    for (const tile of frame.tiles) {
        const made = colouredTile(tile, frame.look, canColour);
        if (made)
            drawTile(context, tile, made, frame);
    }
    return isLeft;
}

/* Lines between cells that are large enough to have some. */
function drawGrid(context, { view, seen, snap, theme, ratio }) {
    if (Math.min(view.width, view.height) < GRID_FROM)
        return;
    const right = (seen.keys[1] - view.key) * view.width;
    const bottom = (seen.rows[1] - view.row) * view.height;
    const thick = Math.max(1, Math.round(ratio)) / ratio;
    context.fillStyle = theme.ground;
    for (let key = Math.ceil(view.key); key < seen.keys[1]; key++)
        context.fillRect(snap((key - view.key) * view.width), 0, thick, bottom);
    for (let row = Math.ceil(view.row); row < seen.rows[1]; row++)
        context.fillRect(0, snap((row - view.row) * view.height), right, thick);
}

/* The box of a cell, a row (key null) or a key (row null), not smaller than can be seen. */
function boxOf({ row, key }, { view, seen, snap }) {
    const side = (at, first, size, [from, to]) => {
        if (at === null)
            return [snap((from - first) * size), snap((to - first) * size)];
        const middle = (at + 0.5 - first) * size;
        const half = Math.max(size, MARK_MIN) / 2;
        return [snap(middle - half), snap(middle + half)];
    };
    const [left, right] = side(key, view.key, view.width, seen.keys);
    const [top, bottom] = side(row, view.row, view.height, seen.rows);
    return [left, top, right - left, bottom - top];
}

/* A line that is seen on light and on dark colours. */
function outline(context, box, { light, thick }) {
    context.lineWidth = thick + 2;
    context.strokeStyle = 'rgba(0, 0, 0, 0.75)';
    context.strokeRect(...box);
    context.lineWidth = thick;
    context.strokeStyle = light;
    context.strokeRect(...box);
}

/* The cell under the pointer, with lines along its row and key; the fixed one in its own colour. */
function drawMarks(context, frame) {
    const { hover, selected, theme } = frame;
    const lines = (cell, light) => {
        if (cell.row !== null)
            outline(context, boxOf({ row: cell.row, key: null }, frame), { light, thick: 1 });
        if (cell.key !== null)
            outline(context, boxOf({ row: null, key: cell.key }, frame), { light, thick: 1 });
    };
    if (selected && (selected.row === null || selected.key === null))
        lines(selected, theme.fixed);
    if (hover) {
        lines(hover, 'rgba(255, 255, 255, 0.8)');
        outline(context, boxOf(hover, frame), { light: '#ffffff', thick: 2 });
    }
    if (selected && selected.row !== null && selected.key !== null)
        outline(context, boxOf(selected, frame), { light: theme.fixed, thick: 3 });
}

function drawAxes(context, frame) {
    const { view, plot, margins, tokens, hover, selected, theme } = frame;
    const marks = (side) => [
        { token: selected?.[side] ?? null, kind: 'fixed' },
        { token: hover?.[side] ?? null, kind: 'hover' }];
    context.save();
    context.translate(margins.left, margins.top);
    const down = { tokens: tokens.rows, first: view.row, size: view.height, length: plot.height,
        space: margins.labels.left, isUpright: false };
    const across = { tokens: tokens.keys, first: view.key, size: view.width, length: plot.width,
        space: margins.labels.top, isUpright: true, flatFrom: margins.flatFrom };
    drawAxis(context, down, marks('row'), theme);
    drawAxis(context, across, marks('key'), theme);
    drawTitles(context, frame);
    context.restore();
}

/* What the axes are, outside of their labels: the short title where the long one has no room. */
function drawTitles(context, { view, margins, shown, titles, theme }) {
    const fitting = (texts, length) => texts.find((text) => context.measureText(text).width <= length) ?? '';
    const write = (texts, length) => {
        context.fillStyle = theme.faint;
        context.textAlign = 'center';
        context.textBaseline = 'middle';
        context.fillText(fitting(texts, length), 0, 0);
    };
    const middle = TITLE_SIZE / 2;
    context.save();
    context.translate(shown.width / 2, view.width >= margins.flatFrom ? -middle - FLAT_LABELS : middle - margins.top);
    write(titles.keys, shown.width);
    context.restore();
    context.translate(middle - margins.left, shown.height / 2);
    context.rotate(-Math.PI / 2);
    write(titles.rows, shown.height);
}

/* Draws in the plot, and at most `over` CSS pixels beside it. */
function clipped(context, { left, top }, { width, height }, over, draw) {
    context.save();
    context.translate(left, top);
    context.beginPath();
    context.rect(-over, -over, width + 2 * over, height + 2 * over);
    context.clip();
    draw();
    context.restore();
}

/**
 * Draws a frame: {size, ratio, margins, plot, view, map, tiles, look, tokens: {rows, keys}, titles:
 * {rows, keys}, hover, selected, theme, hasDigits}, sizes in CSS pixels, ratio device pixels in one of them;
 * titles are lists, the longest text first; margins.labels is what labels of tokens take of them. Gives whether another
 * frame is needed because tiles are left without colours.
 */
export function paintFrame(context, frame) {
    const { size, ratio, margins, plot, view, map, theme } = frame;
    const seen = seenOf(view, map, plot);
    const snap = (at) => Math.round(at * ratio) / ratio;
    const drawn = { ...frame, seen, snap };
    let isLeft = false;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, size.width, size.height);
    context.font = theme.font;
    const shown = {
        width: Math.min(plot.width, snap((map.keys - view.key) * view.width)),
        height: Math.min(plot.height, snap((map.rows - view.row) * view.height)),
    };
    clipped(context, margins, shown, 0, () => {
        context.fillStyle = theme.panel;
        context.fillRect(0, 0, shown.width, shown.height);
        isLeft = drawTiles(context, drawn);
        drawGrid(context, drawn);
        if (frame.hasDigits)
            drawDigits(context, drawn);
    });
    clipped(context, margins, shown, MARK_OVER, () => drawMarks(context, drawn));
    drawAxes(context, { ...drawn, shown });
    return isLeft;
}
