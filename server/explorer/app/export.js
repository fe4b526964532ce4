// SPDX-License-Identifier: Apache-2.0
/* export.js - the menu that saves what is seen: pictures, those for a paper, numbers, the line for curl, the link. */
import { html, useEffect, useRef, useState } from '../vendor/html.js';
import { hasKey } from '../data/api.js';
import { linkOf } from '../data/state.js';
import { curlOf, requestsOf } from '../save/curl.js';
import { fileName, saveAs } from '../save/files.js';
import { htmlOf } from '../save/html.js';
import { jsonOf, safetensorsOf } from '../save/numbers.js';
import { pngOf } from '../save/png.js';
import { gatherSheet, VALUES_MAX } from '../save/sheet.js';
import { svgOf } from '../save/svg.js';
import { otherInput } from '../views/compare_other.js';
import { Copied } from './copied.js';
import { PaperPictures } from './export_paper.js';

/* The other side of a comparison, as {source, layer, head}; null where there is none. */
async function otherOf({ state, source, openOther }) {
    if (state.view !== 'compare' || !state.other)
        return null;
    const { layer, head } = state.other;
    const input = otherInput(state);
    const other = input === null ? source : await openOther(input);
    const found = other.layers.find((one) => one.layer === layer) ?? other.layers[0];
    return { source: other, layer: found.layer, head: Math.min(head ?? 0, found.heads - 1) };
}

/* The files by their endings: what is in one, for what it is good, and its type. parts are {sheet, state, requests,
 * lines}. */
const PICTURES = [
    { ending: 'png', title: 'PNG', type: 'image/png', says: 'for slides and documents',
        make: ({ sheet, state }) => pngOf(svgOf(sheet, state)) },
    { ending: 'svg', title: 'SVG', type: 'image/svg+xml', says: 'sharp at every size, to edit in a drawing program',
        make: ({ sheet, state }) => svgOf(sheet, state).text },
    { ending: 'html', title: 'HTML', type: 'text/html', says: 'one page that works offline and names the weight under '
        + 'the pointer', make: ({ sheet, state, lines }) => htmlOf(sheet, svgOf(sheet, state), lines,
            sheet.model === null ? null : linkOf(state)) },
];
const NUMBERS = [
    { ending: 'json', title: 'JSON', type: 'application/json', isNumbers: true, says: 'text that any program reads',
        make: ({ sheet, requests }) => jsonOf(sheet, requests) },
    { ending: 'safetensors', title: 'safetensors', type: 'application/x-safetensors', isNumbers: true,
        says: 'arrays of float32, for Python', make: ({ sheet, requests }) => safetensorsOf(sheet, requests) },
];

/* What the files of numbers hold. */
const WEIGHTS_SAY = 'The weights of that picture with their tokens: all, or of more than '
    + `${VALUES_MAX / 2 ** 20} million the largest of each cell, with its rows and keys.`;
const ANSWER_SAYS = 'What each part, head and layer does to the answer, and how much each part is looked at, as the '
    + 'daemon says it.';

/* Where a body is of bytes, as of a picture, the line names a file that the menu saves beside it. */
function linesOf(requests, state) {
    return requests.map((request) => curlOf(request, { base: document.baseURI, hasKey: hasKey(),
        bodyFile: fileName(state, 'body') }));
}

/* Buttons that save a file each, with what the file is. */
function Files({ files, isBusy, onSave }) {
    return html`<ul class="files">
        ${files.map((file) => html`<li key=${file.ending}>
            <button data-save=${file.ending} disabled=${isBusy} aria-describedby=${`says-${file.ending}`}
                onClick=${() => onSave(file)}>${file.title}</button>
            <span id=${`says-${file.ending}`}>${file.says}</span></li>`)}
    </ul>`;
}

/* The requests of the view, and the lines for curl that make them. */
function useRequests(view) {
    const { state, source } = view;
    const [requests, setRequests] = useState(() => requestsOf(state, source, null));
    useEffect(() => {
        let isThere = true;
        otherOf(view).then((other) => isThere && setRequests(requestsOf(state, source, other)), () => {});
        return () => {
            isThere = false;
        };
    }, [state, source]);
    return { requests, lines: linesOf(requests, state) };
}

function Menu({ view, onFault }) {
    const { source } = view;
    const isOfFile = source.model === null;      /* weights: no request made them, and no link holds a file */
    const state = isOfFile ? { ...view.state, model: null } : view.state;
    const [busy, setBusy] = useState('');
    const { requests, lines } = useRequests(view);
    /* Gathers the sheet, and does something with it; a fault is told. */
    const gather = async (title, isNumbers, then) => {
        setBusy(`Gathering the numbers for ${title}…`);
        try {
            const other = await otherOf(view);
            await then({ sheet: await gatherSheet(state, source, other, isNumbers), state, lines,
                requests: requestsOf(state, source, other) });
        } catch (error) {
            onFault(error);
        }
        setBusy('');
    };
    const save = ({ ending, title, type, make, isNumbers }) => gather(title, isNumbers, async (parts) =>
        saveAs(await make(parts), fileName(state, ending), type));
    const bytes = requests.find(({ body }) => body !== null && typeof body !== 'string')?.body;
    const shared = { isBusy: busy !== '', onSave: save };
    return html`
        <section class="menu" aria-label="Export">
            <p class="faint" role="status">${busy}</p>
            ${(state.view !== 'answer' || source.predictions?.length > 0) && html`<h3>Picture</h3>
            <p class="faint">What is seen, with what is fixed and chosen, without the lists beside it.</p>
            <${Files} files=${PICTURES} ...${shared} />
            <${PaperPictures} state=${state} lines=${lines} isBusy=${busy !== ''} gather=${gather} />
            <h3>Numbers</h3>
            <p class="faint">${state.view === 'answer' ? ANSWER_SAYS : WEIGHTS_SAY}</p>
            <${Files} ...${shared} files=${NUMBERS.filter(({ ending }) =>
                state.view !== 'answer' || ending === 'json')} />`}
            <h3>The same again</h3>
            ${bytes && html`<p><button data-save="body" onClick=${() => saveAs(bytes, fileName(state, 'body'),
                'application/octet-stream')}>Body of the request</button></p>`}
            ${isOfFile ? html`<p class="faint">No request made these weights, and no link holds a file.</p>`
            : html`<${Copied} title="Curl line" says="asks the daemon for these numbers, in a shell" name="curl"
                    text=${lines.join('\n')} />
                <${Copied} title="Link" says="opens this view" name="link" text=${linkOf(state)} />`}
        </section>`;
}

/* view is {state, source, openOther}. */
export function Export({ view, onFault }) {
    const [isOpen, setIsOpen] = useState(false);
    const place = useRef(null);
    useEffect(() => {
        if (!isOpen)
            return undefined;
        const leave = (event) => {
            const isEscape = event.type === 'keydown' && event.key === 'Escape';
            if (isEscape || (event.type === 'pointerdown' && !place.current.contains(event.target)))
                setIsOpen(false);
            if (isEscape)
                place.current.querySelector('button').focus();
        };
        window.addEventListener('keydown', leave);
        window.addEventListener('pointerdown', leave);
        return () => {
            window.removeEventListener('keydown', leave);
            window.removeEventListener('pointerdown', leave);
        };
    }, [isOpen]);
    return html`
        <div class="export" ref=${place}>
            <button aria-expanded=${isOpen} onClick=${() => setIsOpen(!isOpen)}>Export</button>
            ${isOpen && html`<${Menu} view=${view} onFault=${onFault} />`}
        </div>`;
}
