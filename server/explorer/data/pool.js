// SPDX-License-Identifier: Apache-2.0
/* pool.js - a part of a whole map in few cells. */

/* The largest weight of each cell of rows and keys of one whole map[][keyCount]; number i of n is in cell
 * floor(i * cells / n), as in the API. A pair that is NaN counts for nothing; a cell without another one is NaN if
 * hidden says so, else 0. */
export function poolMap(map, keyCount, { rows, keys, cells, hidden = false }) {
    const [height, width] = [rows[1] - rows[0], keys[1] - keys[0]];
    const [rowCells, keyCells] = [Math.min(cells[0], height), Math.min(cells[1], width)];
    const values = new Float32Array(rowCells * keyCells).fill(NaN);
    const column = Uint32Array.from({ length: width }, (_, j) => Math.floor(j * keyCells / width));
    for (let i = 0; i < height; i++) {
        const from = (rows[0] + i) * keyCount + keys[0];
        const to = Math.floor(i * rowCells / height) * keyCells;
        for (let j = 0; j < width; j++) {
            const weight = map[from + j];
            const most = values[to + column[j]];
            if (weight > most || Number.isNaN(most))
                values[to + column[j]] = weight;
        }
    }
    return { rows: rowCells, keys: keyCells, values: hidden ? values : values.map((value) => value || 0) };
}

/* The pieces of several heads, as poolMap() gives them, as one answer of maps(). */
export function joinHeads(pieces) {
    const { rows, keys, values: { length: size } } = pieces[0];
    const values = new Float32Array(pieces.length * size);
    pieces.forEach((piece, i) => values.set(piece.values, i * size));
    return { heads: pieces.length, rows, keys, values };
}
