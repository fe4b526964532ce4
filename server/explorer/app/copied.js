// SPDX-License-Identifier: Apache-2.0
/* copied.js - a text that can be copied: by the button, or by hand where the browser does not let a page copy. */
import { html, useEffect, useRef, useState } from '../vendor/html.js';

export function Copied({ title, says = '', text, name, rows = 3 }) {
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
        <label class="copied"><span><b>${title}</b>${says && html` <span class="faint">${says}</span>`}</span>
            <textarea name=${name} readonly rows=${rows} spellcheck=${false} ref=${field} value=${text}></textarea>
        </label>
        <p class="row"><button onClick=${copy}>Copy ${title.toLowerCase()}</button>
            <span role="status">${said}</span></p>`;
}
