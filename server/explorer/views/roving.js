// SPDX-License-Identifier: Apache-2.0
/* roving.js - many buttons as one stop of the Tab key, with the arrow keys between them. */
import { useLayoutEffect, useRef } from '../vendor/html.js';

const KEYS = ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End'];

/* The button of the row above or below that is nearest, wherever a row breaks. */
function nearest(buttons, from, step) {
    const own = from.getBoundingClientRect();
    let best = null;
    for (let i = buttons.indexOf(from) + step, row = null; buttons[i]; i += step) {
        const { top, left } = buttons[i].getBoundingClientRect();
        if (Math.abs(top - own.top) < 2)
            continue;
        if (row !== null && Math.abs(top - row) >= 2)
            break;
        row = top;
        if (!best || Math.abs(left - own.left) < best.away)
            best = { button: buttons[i], away: Math.abs(left - own.left) };
    }
    return best?.button ?? null;
}

/** The button that a key leads to from another one; null: nowhere. */
export function roved(buttons, from, key) {
    if (key === 'ArrowLeft' || key === 'ArrowRight')
        return buttons[buttons.indexOf(from) + (key === 'ArrowLeft' ? -1 : 1)] ?? null;
    if (key === 'Home' || key === 'End')
        return buttons[key === 'Home' ? 0 : buttons.length - 1];
    return nearest(buttons, from, key === 'ArrowUp' ? -1 : 1);
}

/**
 * Handlers and a ref for the element around the buttons that selector names. drawn: changes when
 * the buttons are others; the stop is then at the one that is aria-current or aria-pressed, else at
 * the first.
 */
export function useRoving(selector, drawn) {
    const ref = useRef(null);
    const buttons = () => [...ref.current.querySelectorAll(selector)];
    const setStop = (chosen) => buttons().forEach((button) => {
        button.tabIndex = button === chosen ? 0 : -1;
    });
    useLayoutEffect(() => {
        const all = buttons();
        setStop(all.find((button) => button.matches('[aria-current=true], [aria-pressed=true]'))
            ?? all[0]);
    }, [drawn]);
    return {
        ref,
        onFocusIn(event) {
            const button = event.target.closest(selector);
            if (button)
                setStop(button);
        },
        onKeyDown(event) {
            const from = event.target.closest(selector);
            if (!from || !KEYS.includes(event.key) || event.altKey || event.ctrlKey
                || event.metaKey || event.shiftKey)
                return;
            event.preventDefault();
            roved(buttons(), from, event.key)?.focus();
        },
    };
}
