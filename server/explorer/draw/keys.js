// SPDX-License-Identifier: Apache-2.0
/* keys.js - keys of one character, where nobody types. */
import { useLayoutEffect } from '../vendor/html.js';

/* A space presses what has the focus. */
const isPressing = ({ key, target }) => key === ' ' && target.closest?.('button, a, summary');

const isTyping = (element) => element.closest?.('input, select, textarea, dialog, [contenteditable]');

/** Does what actions says, {key: call}, while isOn. The next key finds what the last one made: the calls are new before
 * it comes. */
export function useKeys(actions, isOn) {
    useLayoutEffect(() => {
        if (!isOn)
            return undefined;
        const act = (event) => {
            const action = actions[event.key];
            if (!action || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented ||
                isTyping(event.target) || isPressing(event))
                return;
            event.preventDefault();
            action();
        };
        window.addEventListener('keydown', act);
        return () => window.removeEventListener('keydown', act);
    });
}
