// SPDX-License-Identifier: Apache-2.0
/* pixels.js - a picture as the numbers that a model takes: cut or pressed to its form, made small and normalised, as
 * `pixels` of the model's description says (API_MODELS.md).
 *
 * What differs from the families' own preprocessors: the browser makes a picture small by a filter of its own, where
 * PIL is bilinear or bicubic, so numbers differ by some 255ths at edges; the whole middle is taken, where some scale to
 * a larger size first and cut its edges off; what is transparent becomes white. Numbers that have to be exact come in a
 * file. */
import { fileFault } from './safetensors.js';

const SHOWN_SIDE_MAX = 1024;                     /* of the picture that a person sees */

/* The part of a picture of width x height that becomes a model's pixels: the middle in their form with crop, else
 * all. */
function partOf(width, height, wanted) {
    if (!wanted.crop)
        return { x: 0, y: 0, width, height };
    const scale = Math.min(width / wanted.width, height / wanted.height);
    const cut = { width: wanted.width * scale, height: wanted.height * scale };
    return { x: (width - cut.width) / 2, y: (height - cut.height) / 2, ...cut };
}

/* [channels][height][width] of the bytes of pixels (red, green, blue, alpha): (byte / 255 - mean) / std. One channel is
 * the luma that PIL has. */
function floatsOfBytes(bytes, { channels, height, width, mean, std }) {
    const area = height * width;
    const values = new Float32Array(channels * area);
    for (let c = 0; c < channels; c++)
        for (let i = 0; i < area; i++) {
            const byte = channels === 1
                ? Math.floor((299 * bytes[4 * i] + 587 * bytes[4 * i + 1] + 114 * bytes[4 * i + 2]) / 1000)
                : bytes[4 * i + c];
            values[c * area + i] = (byte / 255 - mean[c]) / std[c];
        }
    return values;
}

/* The other way round, for a picture of pixels that came in a file. */
function bytesOfFloats(values, { channels, height, width, mean, std }) {
    const area = height * width;
    const bytes = new Uint8ClampedArray(4 * area).fill(255);
    for (let c = 0; c < 3; c++) {
        const from = Math.min(c, channels - 1);
        for (let i = 0; i < area; i++)
            bytes[4 * i + c] = 255 * (values[from * area + i] * std[from] + mean[from]);
    }
    return bytes;
}

/* The patches that a picture is cut into; what is left over at its right and bottom belongs to none. */
function gridOf({ height, width, patch }) {
    const [patchRows, patchColumns] = [Math.floor(height / patch), Math.floor(width / patch)];
    return { patchRows, patchColumns, height: patchRows * patch, width: patchColumns * patch };
}

function canvasOf(width, height) {
    const canvas = document.createElement('canvas');
    canvas.width = width;
    canvas.height = height;
    return canvas;
}

/* The address of a canvas's picture. Whoever uses it revokes it. */
async function addressOf(canvas) {
    const blob = await new Promise((done) => canvas.toBlob(done, 'image/png'));
    return URL.createObjectURL(blob);
}

async function bitmapOf(file) {
    try {
        return await createImageBitmap(file);
    } catch {
        throw fileFault(`'${file.name}' is no picture that this browser can read.`);
    }
}

/* Draws a part of a picture on a canvas of this size, over white. */
async function drawPart(bitmap, part, width, height) {
    const [left, top] = [Math.round(part.x), Math.round(part.y)];
    const small = await createImageBitmap(bitmap, left, top, Math.max(1, Math.round(part.width)),
        Math.max(1, Math.round(part.height)), { resizeWidth: width, resizeHeight: height, resizeQuality: 'high' });
    const canvas = canvasOf(width, height);
    const context = canvas.getContext('2d', { willReadFrequently: true });
    context.fillStyle = '#ffffff';
    context.fillRect(0, 0, width, height);
    context.drawImage(small, 0, 0, width, height);
    small.close();
    return canvas;
}

/* The part of a picture that the patches cover, and its size on the screen at most. */
function coveredOf(part, form, grid) {
    const covered = { ...part, width: part.width * grid.width / form.width,
        height: part.height * grid.height / form.height };
    const smaller = Math.min(1, SHOWN_SIDE_MAX / Math.max(covered.width, covered.height));
    const sizeOf = (side) => Math.max(1, Math.round(side * smaller));
    return { covered, width: sizeOf(covered.width), height: sizeOf(covered.height) };
}

/* A picture's File for a model's pixels {channels, height, width, patch, mean, std, crop}: {pixels: {dtype, shape,
 * values}, shown: {width, height, patchRows, patchColumns, url}}. shown is what the patches cover. */
export async function readPicture(file, form) {
    const { channels, height, width } = form;
    const bitmap = await bitmapOf(file);
    const part = partOf(bitmap.width, bitmap.height, form);
    const canvas = await drawPart(bitmap, part, width, height);
    const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
    const grid = gridOf(form);
    const { covered, ...size } = coveredOf(part, form, grid);
    const url = await addressOf(await drawPart(bitmap, covered, size.width, size.height));
    bitmap.close();
    return { pixels: { dtype: 'F32', shape: [channels, height, width], values: floatsOfBytes(data, form) },
        shown: { ...grid, ...size, url } };
}

/* What is shown of pixels that came in a file; null where they are not of the model's form. */
export async function showPixels({ shape, values }, form) {
    const { channels, height, width } = form;
    if (shape.join() !== [channels, height, width].join())
        return null;
    const grid = gridOf(form);
    const canvas = canvasOf(grid.width, grid.height);
    canvas.getContext('2d').putImageData(new ImageData(bytesOfFloats(values, form), width, height), 0, 0);
    return { ...grid, url: await addressOf(canvas) };
}
