// SPDX-License-Identifier: Apache-2.0
/* present.js - class mode: the page as the last row of a room reads it, all larger and the form folded to a line. The
 * address holds it; the switch, the key p and Esc change it. */
import { useKeys } from '../draw/keys.js';
import { html, useEffect, useLayoutEffect } from '../vendor/html.js';

/* What Esc closes first, where it is open. */
const OPEN = 'dialog[open], .menu, progress';

/* Esc leaves class mode with the keys of one character off, too; in a field it is the field's. */
function useEscape(isOn, leave) {
    useEffect(() => {
        if (!isOn)
            return undefined;
        const act = (event) => {
            if (event.key === 'Escape' && !event.defaultPrevented && !document.querySelector(OPEN)
                && !event.target.closest?.('input, select, textarea'))
                leave();
        };
        window.addEventListener('keydown', act);
        return () => window.removeEventListener('keydown', act);
    }, [isOn]);
}

/** Makes the page what state.present says. */
export function usePresent({ present }, change, hasKeys) {
    useLayoutEffect(() => {
        document.documentElement.classList.toggle('present', present);
        window.dispatchEvent(new Event('resize'));   /* who measures the window measures it in the page's pixels */
    }, [present]);
    useEscape(present, () => change({ present: false }));
    useKeys({ p: () => change({ present: !present }) }, hasKeys);
}

export function PresentSwitch({ isOn, change }) {
    return html`<button type="button" class="present-switch" role="switch" aria-checked=${isOn ? 'true' : 'false'}
        title=${isOn ? 'Leave class mode (p, Esc)' : 'Class mode: all larger, for a projector (p)'}
        onClick=${() => change({ present: !isOn })}>Present</button>`;
}
