// SPDX-License-Identifier: Apache-2.0
/* map_digits.js - the weight in each cell of a map, with two digits, where cells are large enough to read it. */
import { isLight } from './colours.js';

const WIDTH_MIN = 26;                            /* CSS pixels of a cell */
const HEIGHT_MIN = 14;
const SIZE_MAX = 20;                             /* of the digits */

/* Calls draw(row, key, weight) for the cells of a tile that stand for one pair each. */
function eachPair({ rows, keys, shape, values }, seen, draw) {
    if (shape[0] !== rows[1] - rows[0] || shape[1] !== keys[1] - keys[0])
        return;
    const last = (end, most) => Math.min(end, Math.ceil(most));
    for (let row = Math.max(rows[0], Math.floor(seen.rows[0])); row < last(rows[1], seen.rows[1]); row++)
        for (let key = Math.max(keys[0], Math.floor(seen.keys[0])); key < last(keys[1], seen.keys[1]); key++)
            draw(row, key, values[(row - rows[0]) * shape[1] + key - keys[0]]);
}

/** Whether digits fit into the cells of a view. */
export function fitsDigits({ width, height }) {
    return width >= WIDTH_MIN && height >= HEIGHT_MIN;
}

/** Writes them; a pair that may not be seen has none. frame is that of paintFrame() in map_painter.js. */
export function drawDigits(context, { tiles, view, seen, look, theme }) {
    if (!fitsDigits(view))
        return;
    const size = Math.min(SIZE_MAX, view.width / 2.5, 0.85 * view.height);
    context.save();
    context.font = theme.font.replace(/^[\d.]+px/, `${size}px`);
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (const tile of tiles)
        eachPair(tile, seen, (row, key, weight) => {
            if (Number.isNaN(weight))
                return;
            context.fillStyle = isLight(weight, look) ? '#000000' : '#ffffff';
            context.fillText(weight.toFixed(2), (key + 0.5 - view.key) * view.width,
                (row + 0.5 - view.row) * view.height);
        });
    context.restore();
}
