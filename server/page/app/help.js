/* help.js - all keys of the page, in a dialog. */
import { html, useEffect, useRef } from '../vendor/html.js';

const KEYS = [
    ['Everywhere', [
        ['?', 'this help'],
        ['1 to 5', 'the views, in the order of their tabs'],
        ['/', 'to the text'],
        ['Enter, Ctrl+Enter', 'in the text: look'],
        ['Shift+Enter', 'in the text: a new line'],
        ['Esc', 'closes what is open'],
    ]],
];

export function Help({ isOpen, onClose, hasKeys, onHasKeys }) {
    const dialog = useRef(null);
    useEffect(() => {
        if (isOpen && !dialog.current.open)
            dialog.current.showModal();
        if (!isOpen && dialog.current.open)
            dialog.current.close();
    }, [isOpen]);
    return html`
        <dialog class="help" ref=${dialog} onClose=${onClose} aria-labelledby="help-title">
            <h2 id="help-title">Keys</h2>
            <p>Each map shows a head of a layer: a row for each token that looks, a column for each token that is
                looked at. A weight says where a head looks, not why the model answers what it answers.</p>
            ${KEYS.map(([title, keys]) => html`
                <h3>${title}</h3>
                <table>
                    ${keys.map(([key, what]) => html`<tr><th scope="row"><kbd>${key}</kbd></th><td>${what}</td></tr>`)}
                </table>`)}
            <p><label><input type="checkbox" checked=${hasKeys} onChange=${(event) => onHasKeys(event.target.checked)} />
                Keys of one character work everywhere</label></p>
            <button class="main" onClick=${onClose}>Close</button>
        </dialog>`;
}

const isTyping = (element) => element.closest?.('input, select, textarea, dialog, [contenteditable]');

/* Keys of one character, where nobody types: {key: what to do}. */
export function useKeys(actions, isOn) {
    useEffect(() => {
        if (!isOn)
            return undefined;
        const act = (event) => {
            const action = actions[event.key];
            if (!action || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented ||
                isTyping(event.target))
                return;
            event.preventDefault();
            action();
        };
        window.addEventListener('keydown', act);
        return () => window.removeEventListener('keydown', act);
    });
}
