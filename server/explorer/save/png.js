/* png.js - an SVG file as a PNG, at twice its size, so that text is sharp. */

const SIDE_MAX = 8192;                           /* pixels; browsers draw no canvas that is much larger */

/* svg is what svgOf() gives. A Promise of a Blob. */
export async function pngOf({ text, width, height }) {
    const scale = Math.min(2, SIDE_MAX / width, SIDE_MAX / height);
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
