// SPDX-License-Identifier: Apache-2.0
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

/** The lines of a row where no threshold is set: its largest weights. */
export const LINES_OF_A_ROW = 3;

/* Puts a line into the largest of a row, where it is one. */
function keepLargest(largest, line) {
    const before = largest.findIndex(({ weight }) => weight < line.weight);
    if (before < 0 && largest.length >= LINES_OF_A_ROW)
        return;
    largest.splice(before < 0 ? largest.length : before, 0, line);
    largest.length = Math.min(largest.length, LINES_OF_A_ROW);
}

/* Calls for each line of a row of a head, in the order of its keys. A weight that is not a number is of a pair that may
 * not be seen. */
function eachLine(maps, head, row, call) {
    const at = (head * maps.rows + row) * maps.keys;
    for (let key = 0; key < maps.keys; key++)
        if (maps.values[at + key] > 0)
            call({ head, row, key, weight: maps.values[at + key] });
}

/* The largest weights of a row: over all heads together, or of each head where isEach. */
function largestLines(maps, heads, row, isEach) {
    const lists = isEach ? heads.map(() => []) : [[]];
    heads.forEach((head, i) => eachLine(maps, head, row, (line) => keepLargest(lists[isEach ? i : 0], line)));
    return lists.flat();
}

/**
 * The lines of weights, as [{head, row, key, weight}]: those of at least threshold (and above 0); where threshold is
 * null the LINES_OF_A_ROW largest of each row. maps: {rows, keys, values[heads][rows][keys]}; heads: those to show;
 * only: {row} or {key} limits them to one token, counted from the first of maps, which leaves room for the largest of
 * each head.
 */
export function linesOf(maps, { heads, threshold, only = null }) {
    const lines = [];
    const isOwn = ({ key }) => (only?.key ?? key) === key;
    for (let row = only?.row ?? 0; row >= 0 && row < (only?.row === undefined ? maps.rows : only.row + 1); row++)
        if (threshold === null)
            lines.push(...largestLines(maps, heads, row, only !== null).filter(isOwn));
        else
            heads.forEach((head) => eachLine(maps, head, row, (line) =>
                line.weight >= threshold && isOwn(line) && lines.push(line)));
    return lines;
}

const FAN_STEP = 0.13;      /* of a token's height, between lines of one pair by several heads */
const FAN_MOST = 0.8;       /* the height of all of them */

/* The same lines with `shift`, in heights of a token: those of one pair lie beside each other, in the order of their
 * heads, so that none hides another. */
function fannedLines(lines) {
    const pairs = new Map();
    for (const { head, row, key } of lines) {
        const heads = pairs.get(`${row} ${key}`);
        if (heads)
            heads.push(head);
        else
            pairs.set(`${row} ${key}`, [head]);
    }
    pairs.forEach((heads) => heads.sort((a, b) => a - b));
    return lines.map((line) => {
        const heads = pairs.get(`${line.row} ${line.key}`);
        const step = Math.min(FAN_STEP, FAN_MOST / heads.length);
        return { ...line, shift: (heads.indexOf(line.head) - (heads.length - 1) / 2) * step };
    });
}

/** The lines that are drawn where there are more than can be told apart: the largest, which come last. Each has
 * `shift`, how far it lies below the middle of its tokens, in heights of a token. */
export function drawnLines(lines) {
    return fannedLines([...lines].sort((a, b) => a.weight - b.weight).slice(-LINES_MAX));
}

/**
 * Draws lines, as drawnLines() gives them, over the whole canvas of width x height CSS pixels, from the left edge at a
 * row to the right edge at a key; each token is tokenHeight high.
 */
export function drawLines(canvas, lines, { width, height, tokenHeight }) {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
    const context = canvas.getContext('2d');
    context.scale(ratio, ratio);
    const isFine = lines.length >= FINE_FROM;
    context.lineWidth = isFine ? 1 : 2;
    for (const { head, row, key, weight, shift } of lines) {
        context.globalAlpha = LINE_OPACITY + (1 - LINE_OPACITY) * weight;
        context.strokeStyle = headColour(head);
        context.setLineDash(isFine ? [] : headDash(head));
        context.beginPath();
        context.moveTo(0, (row + 0.5 + shift) * tokenHeight);
        context.lineTo(width, (key + 0.5 + shift) * tokenHeight);
        context.stroke();
    }
}
