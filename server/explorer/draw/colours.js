// SPDX-License-Identifier: Apache-2.0
/* colours.js - weights as colours that grow evenly to the eye and that a colour-blind person can
 * read. */
import { SCALES } from './scales.js';

/* Colours by their place from 0 to 255; between two of them a colour lies on the straight line.
 * viridis (Smith, van der Walt, Firing: CC0) and cividis (Nunez, Anderton, Renslow 2018,
 * doi:10.1371/journal.pone.0199239: CC0), both as in matplotlib 3.6.3, so that each of the 256
 * colours is within 1/255 of the published one. `difference` is for what has a sign: blue below 0,
 * orange above, and at 0 the colour nearest to the ground, which on a dark one is dark. */
const POINTS = {
    viridis: `0:440154 14:481668 30:472a7a 44:443b84 62:3c508b 90:2e6d8e 127:21908d 141:1e9d89
        151:21a685 162:2ab07f 177:40bd72 192:5ec962 206:7fd34e 226:b2dd2d 236:cde11d 242:dde318
        247:eae51a 253:f8e621 255:fde725`,
    cividis: `0:00224e 13:002c64 19:00306f 23:013271 28:123570 37:233c6e 53:38476c 86:585e6d
        119:757575 127:7c7b78 138:868379 167:a29975 193:bdae6c 215:d4c15f 232:e7d150 244:f5dc41
        251:fde334 254:fee636 255:fee838`,
    greys: '0:ffffff 255:000000',
    difference: `0:08306b 64:4a8ac4 112:c9def0 127:f7f7f7 128:f7f7f7 143:fbdfbf 191:d9822b
        255:7f3b08`,
    differenceDark: `0:a8d2ff 64:4d8fd6 112:27405f 127:23262c 128:23262c 143:523a20 191:d08432
        255:ffc78f`,
};

/** The palettes that a person chooses from; `difference` is chosen by what is drawn.
 *
 * A look is {scale, palette, range, isDark}: the last colour is that of the weight range (1 where it
 * is absent) and of all above, of a difference that of range and -range; isDark says that the ground
 * is. A weight of NaN is that of a pair that may not be seen: it has no colour. */
export const PALETTES = ['viridis', 'cividis', 'greys'];

function pointOf(written) {
    const [place, hex] = written.split(':');
    const channels = [0, 2, 4].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
    return { place: Number(place), channels };
}

/* 256 colours as the four bytes of a pixel each. */
function tableOf(written) {
    const points = written.split(/\s+/).map(pointOf);
    const table = new Uint8ClampedArray(256 * 4);
    let next = 1;
    for (let i = 0; i < 256; i++) {
        if (i > points[next].place)
            next++;
        const [low, high] = [points[next - 1], points[next]];
        const part = (i - low.place) / (high.place - low.place);
        for (let c = 0; c < 3; c++)
            table[4 * i + c] = low.channels[c] + part * (high.channels[c] - low.channels[c]);
        table[4 * i + 3] = 255;
    }
    return table;
}

const tables = Object.fromEntries(
    Object.entries(POINTS).map(([name, points]) => [name, tableOf(points)]));

/* Which of the 256 colours; a difference of 0 is in the middle. */
function indexOf({ scale = 'linear', palette, range = 1 }) {
    const { placeOf } = SCALES[scale];
    const within = (weight) => Math.min(1, placeOf(weight, range));
    if (palette !== 'difference')
        return (weight) => Math.round(255 * within(weight));
    return (value) => Math.round(127.5 * (1 + Math.sign(value) * within(Math.abs(value))));
}

/* A difference in greys: white below 0, black above. */
const tableFor = ({ palette, isDark, isGrey }) => tables[palette !== 'difference' ? palette
    : isGrey ? 'greys' : isDark ? 'differenceDark' : 'difference'];

/** The red, green and blue of a weight, each from 0 to 255. */
export function channelsOf(weight, look) {
    const index = indexOf(look)(weight);
    return [...tableFor(look).subarray(4 * index, 4 * index + 3)];
}

/** The same as "#rrggbb", as CSS and SVG take it; "transparent" where there is none. */
export function colourOf(weight, look) {
    if (Number.isNaN(weight))
        return 'transparent';
    const hex = channelsOf(weight, look).map((channel) => channel.toString(16).padStart(2, '0'));
    return `#${hex.join('')}`;
}

/** Whether black is easier to read than white on the colour of a weight. */
export function isLight(weight, look) {
    const [red, green, blue] = channelsOf(weight, look);
    return 0.299 * red + 0.587 * green + 0.114 * blue > 140;
}

/** values[rows][keys] as an ImageData, a pixel each, which lets the ground through where no pair may be seen. */
export function paintCells(values, rows, keys, look) {
    const image = new ImageData(keys, rows);
    const pixels = new Uint32Array(image.data.buffer);
    const colours = new Uint32Array(tableFor(look).buffer);
    const at = indexOf(look);
    for (let i = 0; i < pixels.length; i++)
        pixels[i] = Number.isNaN(values[i]) ? 0 : colours[at(values[i])];
    return image;
}

/** Draws values[rows][keys] on a canvas that becomes as large, a pixel each. */
export function drawMap(canvas, values, rows, keys, look) {
    canvas.width = keys;
    canvas.height = rows;
    canvas.getContext('2d').putImageData(paintCells(values, rows, keys, look), 0, 0);
}
