/* lines.js - weights as lines between a column of rows and a column of keys. */
import { headColour } from './head_colours.js';

const LINES_MAX = 4000;
const FINE_FROM = 1000;     /* lines; so many are thin and without dashes, which take long to draw */
/** The least opacity of a line: what is above the threshold is to be seen. */
export const LINE_OPACITY = 0.12;
const HEADS_A_ROUND = 8;    /* heads whose colours everybody tells apart */
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]];

/** The dashes of a head's lines: from the ninth head on they tell apart what colours do not. */
export function headDash(head) {
    return DASHES[Math.floor(head / HEADS_A_ROUND) % DASHES.length];
}

/**
 * The weights of at least threshold (and above 0), as [{head, row, key, weight}]. maps: {rows,
 * keys, values[heads][rows][keys]}; heads: those to show; only: {row} or {key} limits them to one
 * token, counted from the first of maps.
 */
export function linesOf(maps, { heads, threshold, only = null }) {
    const lines = [];
    const range = (place, count) => (place === undefined ? [0, count]
        : [Math.max(0, place), Math.min(count, place + 1)]);
    const [rowBegin, rowEnd] = range(only?.row, maps.rows);
    const [keyBegin, keyEnd] = range(only?.key, maps.keys);
    for (const head of heads)
        for (let row = rowBegin; row < rowEnd; row++) {
            const at = (head * maps.rows + row) * maps.keys;
            for (let key = keyBegin; key < keyEnd; key++) {
                const weight = maps.values[at + key];
                if (weight >= threshold && weight > 0)
                    lines.push({ head, row, key, weight });
            }
        }
    return lines;
}

/** The lines that are drawn where there are more than can be told apart: the largest, which come
 * last. */
export function drawnLines(lines) {
    return [...lines].sort((a, b) => a.weight - b.weight).slice(-LINES_MAX);
}

/**
 * Draws lines over the whole canvas of width x height CSS pixels, from the left edge at a row to
 * the right edge at a key; each token is tokenHeight high.
 */
export function drawLines(canvas, lines, { width, height, tokenHeight }) {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
    const context = canvas.getContext('2d');
    context.scale(ratio, ratio);
    const isFine = lines.length >= FINE_FROM;
    context.lineWidth = isFine ? 1 : 2;
    for (const { head, row, key, weight } of lines) {
        context.globalAlpha = LINE_OPACITY + (1 - LINE_OPACITY) * weight;
        context.strokeStyle = headColour(head);
        context.setLineDash(isFine ? [] : headDash(head));
        context.beginPath();
        context.moveTo(0, (row + 0.5) * tokenHeight);
        context.lineTo(width, (key + 0.5) * tokenHeight);
        context.stroke();
    }
}
