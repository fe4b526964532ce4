// SPDX-License-Identifier: Apache-2.0
/* computing.js - what stands in place of a view while its pass is computed: after a moment how far it is, and a button
 * that ends it. */
import { html, useEffect, useState } from '../vendor/html.js';

const SHOWN_MS = 1000;                           /* what comes sooner needs no words */

const wordsOf = ({ queued, layers, of }) => (queued ? 'Waiting for its turn…'
    : of === 0 ? 'Reading the input…' : layers < of ? `Computing layer ${layers + 1} of ${of}…` : 'Almost there…');

/* Esc ends it too, where nothing is open that Esc would close. */
function useEscape(onCancel, isOn) {
    useEffect(() => {
        if (!isOn)
            return undefined;
        const act = (event) => {
            if (event.key === 'Escape' && !event.defaultPrevented && !document.querySelector('dialog[open], .menu'))
                onCancel();
        };
        window.addEventListener('keydown', act);
        return () => window.removeEventListener('keydown', act);
    }, [onCancel, isOn]);
}

/* progress is {queued, layers, of}, or null while nothing is known of it. */
export function Computing({ progress, onCancel }) {
    const [isShown, setIsShown] = useState(false);
    useEffect(() => {
        const timer = setTimeout(() => setIsShown(true), SHOWN_MS);
        return () => clearTimeout(timer);
    }, []);
    useEscape(onCancel, isShown);
    if (!isShown)
        return null;
    const isCounted = progress !== null && progress.of > 0;
    return html`
        <div class="computing">
            <p>${progress === null ? 'Computing…' : wordsOf(progress)}</p>
            <progress aria-label="Layers computed"
                ...${isCounted ? { max: progress.of, value: progress.layers } : {}} />
            <button onClick=${onCancel} title="Cancel (Esc)">Cancel</button>
        </div>`;
}

/* After that: the way back to it. */
export function Cancelled({ onAgain }) {
    return html`
        <p class="invitation">It was cancelled.
            ${' '}<button onClick=${onAgain}>Compute it</button></p>`;
}
