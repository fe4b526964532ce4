// SPDX-License-Identifier: Apache-2.0
/* print.js - prints a picture alone on a page of its size, which a browser's "Save as PDF" makes a file. */
import { millimetresOf } from './svg_text.js';

/* The styles for one picture, made by the script: the page's policy allows none in a document. */
function pageStyle({ width, height }) {
    const [wide, high] = [width, height].map((points) => millimetresOf(points).toFixed(2));
    const style = new CSSStyleSheet();
    style.replaceSync(`@page { size: ${wide}mm ${high}mm; margin: 0; } .printed { width: ${wide}mm; }`);
    return style;
}

const LATE_MS = 1000;                            /* some browsers tell of the end before they lay out what they print */

/* svg is what svgOf() gives for a paper. The picture goes when the browser has printed. */
export async function printPicture(svg) {
    const url = URL.createObjectURL(new Blob([svg.text], { type: 'image/svg+xml' }));
    const image = new Image();
    image.className = 'printed';
    image.alt = '';
    image.src = url;
    await image.decode();
    const style = pageStyle(svg);
    const root = document.documentElement;
    const leave = () => {
        image.remove();
        URL.revokeObjectURL(url);
        document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== style);
        root.classList.toggle('printing', document.querySelector('.printed') !== null);
    };
    document.querySelectorAll('.printed').forEach((old) => old.remove());
    document.body.append(image);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, style];
    root.classList.add('printing');
    window.addEventListener('afterprint', () => setTimeout(leave, LATE_MS), { once: true });
    window.print();
}
