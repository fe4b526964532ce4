// SPDX-License-Identifier: Apache-2.0
/* file_drop.js - a file with numbers or a picture: by a button, or dropped anywhere on the page. */
import { html, useEffect, useRef, useState } from '../vendor/html.js';
import { fileFault } from '../data/safetensors.js';

export const FILE_TYPES = '.safetensors,.npy,.json,image/*';

const severalFault = (files) => fileFault(`${files.length} files were dropped, and one is looked at: a .npy file holds `
    + 'one array; query, key and value together are one .safetensors or .json file.');

/* The whole page takes a file; says where one is held over it. */
export function DropZone({ onFile, onFault }) {
    const [isOver, setIsOver] = useState(false);
    useEffect(() => {
        const holdsFile = (event) => [...event.dataTransfer?.types ?? []].includes('Files');
        const over = (event) => {
            if (!holdsFile(event))
                return;
            event.preventDefault();
            setIsOver(true);
        };
        const leave = (event) => event.relatedTarget === null && setIsOver(false);
        const drop = (event) => {
            if (!holdsFile(event))
                return;
            event.preventDefault();
            setIsOver(false);
            const { files } = event.dataTransfer;
            if (files.length > 1)
                onFault(severalFault(files));
            else if (files.length === 1)
                onFile(files[0]);
        };
        const calls = { dragover: over, dragleave: leave, drop };
        Object.entries(calls).forEach(([name, call]) => window.addEventListener(name, call));
        return () => Object.entries(calls).forEach(([name, call]) => window.removeEventListener(name, call));
    }, [onFile]);
    return isOver && html`<div class="drop" aria-hidden="true"><p>Drop a .safetensors, .npy or .json file with
        query, key and value, with weights or rows of numbers, or a picture.</p></div>`;
}

/* A button that chooses a file; a file that was chosen shows its name and can be taken away. */
export function FileButton({ file, onFile }) {
    const input = useRef(null);
    const chosen = () => {
        if (input.current.files.length > 0)
            onFile(input.current.files[0]);
        input.current.value = '';
    };
    return html`
        <span class="file">
            <input type="file" ref=${input} accept=${FILE_TYPES} class="hidden" tabindex="-1" aria-label="File"
                onChange=${chosen} />
            ${file
                ? html`<span class="chip" data-file=${file.name}>${file.name}
                    <button type="button" aria-label=${`Take the file ${file.name} away`}
                        onClick=${() => onFile(null)}>×</button></span>`
                : html`<button type="button"
                    title="Or drop it anywhere on the page: .safetensors, .npy, .json, a picture"
                    onClick=${() => input.current.click()}>Open a file</button>`}
        </span>`;
}
