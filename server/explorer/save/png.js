// SPDX-License-Identifier: Apache-2.0
/* png.js - an SVG file as a PNG: at twice its size, so that text is sharp, or of a paper in so many dots an inch. */

const SIDE_MAX = 8192;                           /* pixels; browsers draw no canvas that is much larger */
const POINTS = 72;                               /* of an inch */
const METRE = 39.3701;                           /* inches */

async function drawn({ text, width, height }, scale) {
    const url = URL.createObjectURL(new Blob([text], { type: 'image/svg+xml' }));
    try {
        const image = new Image(width, height);
        image.src = url;
        await image.decode();
        const canvas = document.createElement('canvas');
        canvas.width = Math.round(width * scale);
        canvas.height = Math.round(height * scale);
        canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
        return await new Promise((done, fail) => canvas.toBlob(
            (blob) => (blob ? done(blob) : fail(new Error('The browser made no PNG of this size.'))), 'image/png'));
    } finally {
        URL.revokeObjectURL(url);
    }
}

/* CRC-32 of PNG, bit by bit: a chunk that says a size is short. */
function crcOf(bytes) {
    let crc = -1;
    for (const byte of bytes) {
        crc ^= byte;
        for (let bit = 0; bit < 8; bit++)
            crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc >>> 0;
}

/* The chunk pHYs: dots a metre, so that a program lays the picture out in its size. */
function sizeChunk(dpi) {
    const bytes = new Uint8Array(21);
    const view = new DataView(bytes.buffer);
    view.setUint32(0, 9);
    bytes.set([0x70, 0x48, 0x59, 0x73], 4);
    view.setUint32(8, Math.round(dpi * METRE));
    view.setUint32(12, Math.round(dpi * METRE));
    bytes[16] = 1;
    view.setUint32(17, crcOf(bytes.subarray(4, 17)));
    return bytes;
}

const HEAD_END = 33;                             /* the signature and IHDR, which come first */

/* svg is what svgOf() gives. A Promise of a Blob. */
export function pngOf(svg) {
    return drawn(svg, Math.min(2, SIDE_MAX / svg.width, SIDE_MAX / svg.height));
}

/* The same of a picture for a paper, whose size is in points. */
export async function paperPngOf(svg, dpi) {
    const least = Math.min(dpi, SIDE_MAX * POINTS / svg.height);
    const blob = await drawn(svg, least / POINTS);
    return new Blob([blob.slice(0, HEAD_END), sizeChunk(least), blob.slice(HEAD_END)], { type: 'image/png' });
}
