/* take_away.js - the menu that saves what is seen: pictures, numbers, one HTML file, the line for curl, the link. */
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

/* The files by their endings: what is in one, and its type. parts are {sheet, state, requests, lines}. */
const FILES = [
    { ending: 'png', title: 'PNG', type: 'image/png', make: ({ sheet, state }) => pngOf(svgOf(sheet, state)) },
    { ending: 'svg', title: 'SVG', type: 'image/svg+xml', make: ({ sheet, state }) => svgOf(sheet, state).text },
    { ending: 'html', title: 'HTML', type: 'text/html',
        make: ({ sheet, state, lines }) => htmlOf(sheet, svgOf(sheet, state), lines, linkOf(state)) },
    { ending: 'json', title: 'JSON', type: 'application/json', isNumbers: true,
        make: ({ sheet, requests }) => jsonOf(sheet, requests) },
    { ending: 'safetensors', title: 'safetensors', type: 'application/x-safetensors', isNumbers: true,
        make: ({ sheet, requests }) => safetensorsOf(sheet, requests) },
];

/* Where a body is of bytes, as of a picture, the line names a file that the menu saves beside it. */
function linesOf(requests, state) {
    return requests.map((request) => curlOf(request, { base: document.baseURI, hasKey: hasKey(),
        bodyFile: fileName(state, 'body') }));
}

/* A text that can be copied: by the button, or by hand where the browser does not let a page copy. */
function Copied({ title, text, name }) {
    const [said, setSaid] = useState('');
    const field = useRef(null);
    const copy = async () => {
        field.current.select();
        try {
            await navigator.clipboard.writeText(text);
            setSaid('Copied.');
        } catch {
            setSaid('Press Ctrl+C to copy.');
        }
    };
    useEffect(() => setSaid(''), [text]);
    return html`
        <label class="copied">${title}
            <textarea name=${name} readonly rows="3" spellcheck=${false} ref=${field} value=${text}></textarea>
        </label>
        <p class="row"><button onClick=${copy}>Copy ${title.toLowerCase()}</button>
            <span role="status">${said}</span></p>`;
}

function Menu({ view, onFault }) {
    const { state, source } = view;
    const [busy, setBusy] = useState('');
    const [requests, setRequests] = useState(() => requestsOf(state, source, null));
    useEffect(() => {
        let isThere = true;
        otherOf(view).then((other) => isThere && setRequests(requestsOf(state, source, other)), () => {});
        return () => {
            isThere = false;
        };
    }, [state, source]);
    const lines = linesOf(requests, state);
    const save = async ({ ending, title, type, make, isNumbers }) => {
        setBusy(`Gathering the numbers for ${title}…`);
        try {
            const other = await otherOf(view);
            const sheet = await gatherSheet(state, source, other, isNumbers);
            const content = await make({ sheet, state, requests: requestsOf(state, source, other), lines });
            saveAs(content, fileName(state, ending), type);
        } catch (error) {
            onFault(error);
        }
        setBusy('');
    };
    const bytes = requests.find(({ body }) => body !== null && typeof body !== 'string')?.body;
    return html`
        <section class="menu" aria-label="Take away">
            <div class="row">
                ${FILES.map((file) => html`
                    <button data-save=${file.ending} disabled=${busy !== ''} onClick=${() => save(file)}>
                        ${file.title}</button>`)}
                ${bytes && html`<button data-save="body" onClick=${() => saveAs(bytes, fileName(state, 'body'),
                    'application/octet-stream')}>Body of the request</button>`}
            </div>
            <p class="faint" role="status">
                ${busy || 'PNG, SVG and HTML are the picture that is seen, with what is fixed, without the lists '
                    + `beside it; JSON and safetensors are its numbers: all, or of more than ${VALUES_MAX / 2 ** 20} million `
                    + 'the largest of each cell, with its rows and keys.'}</p>
            <${Copied} title="Curl line" name="curl" text=${lines.join('\n')} />
            <${Copied} title="Link" name="link" text=${linkOf(state)} />
        </section>`;
}

/* view is {state, source, openOther}. */
export function TakeAway({ view, onFault }) {
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
        <div class="take" ref=${place}>
            <button aria-expanded=${isOpen} onClick=${() => setIsOpen(!isOpen)}>Take away</button>
            ${isOpen && html`<${Menu} view=${view} onFault=${onFault} />`}
        </div>`;
}
