/* colours.js - weights as colours, by scales that grow evenly to the eye and that a colour-blind person can read. */

/* Points of viridis (matplotlib, CC0) and of cividis (Nunez et al. 2018), evenly spaced; greys from white to black. */
const POINTS = {
    viridis: ['440154', '482878', '3e4989', '31688e', '26828e', '1f9e89', '35b779', '6ece58', 'b5de2b', 'fde725'],
    cividis: ['00224e', '123570', '3b496c', '575d6d', '707173', '8a8678', 'a59c74', 'c3b369', 'e1cc55', 'fee838'],
    greys: ['ffffff', '000000'],
};

function channelsOf(hex) {
    return [0, 2, 4].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
}

/* 256 colours as the four bytes of a pixel each. */
function tableOf(points) {
    const colours = points.map(channelsOf);
    const table = new Uint8ClampedArray(256 * 4);
    for (let i = 0; i < 256; i++) {
        const place = i / 255 * (colours.length - 1);
        const low = Math.min(Math.floor(place), colours.length - 2);
        for (let c = 0; c < 3; c++)
            table[4 * i + c] = colours[low][c] + (place - low) * (colours[low + 1][c] - colours[low][c]);
        table[4 * i + 3] = 255;
    }
    return table;
}

const tables = Object.fromEntries(Object.entries(POINTS).map(([name, points]) => [name, tableOf(points)]));

/* Where a weight between 0 and 1 stands on the way through the colours; a logarithm shows six powers of ten. */
export const SCALES = {
    linear: (weight) => weight,
    sqrt: Math.sqrt,
    log: (weight) => (weight <= 1e-6 ? 0 : 1 + Math.log10(weight) / 6),
};

/* Draws values[rows][keys], weights from 0 to 1, a pixel each. */
export function drawMap(canvas, values, rows, keys, { scale, palette }) {
    const table = tables[palette];
    const at = SCALES[scale];
    const image = new ImageData(keys, rows);
    for (let i = 0; i < values.length; i++) {
        const colour = 4 * Math.round(255 * Math.min(1, at(values[i])));
        for (let c = 0; c < 4; c++)
            image.data[4 * i + c] = table[colour + c];
    }
    canvas.width = keys;
    canvas.height = rows;
    canvas.getContext('2d').putImageData(image, 0, 0);
}
