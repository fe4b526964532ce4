// SPDX-License-Identifier: Apache-2.0
/* export_paper.js - pictures for a paper: the width of its columns, type in points, no title; and the caption. */
import { html, useEffect, useState } from '../vendor/html.js';
import { captionOf } from '../save/caption.js';
import { fileName, saveAs } from '../save/files.js';
import { paperPngOf } from '../save/png.js';
import { printPicture } from '../save/print.js';
import { paperForm } from '../save/svg_text.js';
import { svgOf } from '../save/svg.js';
import { Copied } from './copied.js';

const DPI = 300;
const WIDTHS = [[85, 'One column, 85 mm'], [170, 'Two columns, 170 mm']];

const KINDS = [
    { name: 'pdf', title: 'PDF (print)', make: (svg) => printPicture(svg) },
    { name: 'svg', title: 'SVG', make: (svg, nameOf) => saveAs(svg.text, nameOf('svg'), 'image/svg+xml') },
    { name: 'png', title: `PNG, ${DPI} dpi`,
        make: async (svg, nameOf) => saveAs(await paperPngOf(svg, DPI), nameOf('png'), 'image/png') },
];

/* A choice of one of few. */
function Choice({ legend, name, options, chosen, onChoice }) {
    return html`<fieldset class="segments"><legend class="hidden">${legend}</legend>
        ${options.map(([value, title]) => html`<label class=${chosen === value ? 'chosen' : ''}>
            <input type="radio" name=${name} value=${value} checked=${chosen === value}
                onChange=${() => onChoice(value)} />${title}</label>`)}
    </fieldset>`;
}

/* The picture as it will be, at its size where there is room. */
function Preview({ svg, alt }) {
    const [url, setUrl] = useState(null);
    useEffect(() => {
        const made = URL.createObjectURL(new Blob([svg.text], { type: 'image/svg+xml' }));
        setUrl(made);
        return () => URL.revokeObjectURL(made);
    }, [svg.text]);
    return url && html`<img class="preview" src=${url} alt=${alt} />`;
}

/* gather(title, isNumbers, then) reads the numbers of the view, and tells then(parts). */
export function PaperPictures({ state, lines, isBusy, gather }) {
    const [isOpen, setIsOpen] = useState(false);
    const [millimetres, setMillimetres] = useState(85);
    const [isGrey, setIsGrey] = useState(false);
    const [sheet, setSheet] = useState(null);
    useEffect(() => {
        setSheet(null);
        if (isOpen)
            gather('the picture', false, (parts) => setSheet(parts.sheet));
    }, [isOpen, state]);
    const look = { ...state, ...(isGrey ? { palette: 'greys', isGrey } : {}) };
    const svg = sheet && svgOf(sheet, look, paperForm(millimetres));
    const caption = sheet && captionOf(sheet, look, lines);
    const nameOf = (ending) => fileName(state, ending, `${millimetres}mm`);
    return html`<details class="paper" open=${isOpen} onToggle=${(event) => setIsOpen(event.target.open)}>
        <summary>Picture for a paper</summary>
        <p class="faint">As wide as a column, type of 7 and 8 points, no title; with a caption that says
            what it shows.</p>
        <${Choice} legend="Width" name="paper-width" options=${WIDTHS} chosen=${millimetres}
            onChoice=${setMillimetres} />
        <${Choice} legend="Colours" name="paper-colours" options=${[[false, 'Colours as here'], [true, 'Greys']]}
            chosen=${isGrey} onChoice=${setIsGrey} />
        <p class="row">${KINDS.map(({ name, title, make }) => html`
            <button key=${name} data-paper=${name} disabled=${isBusy || !svg} onClick=${() => make(svg, nameOf)}>
                ${title}</button>`)}</p>
        ${svg && html`<${Preview} svg=${svg} alt=${caption.split('\n')[0]} />
            <${Copied} title="Caption" name="caption" rows="5" text=${caption} />`}
    </details>`;
}
