/* help.js - all keys of the page, in a dialog. */
import { html, useEffect, useRef } from '../vendor/html.js';

const KEYS = [
    ['Everywhere', [
        ['?', 'this help'],
        ['1 to 5', 'the views, in the order of their tabs'],
        ['/', 'to the text'],
        ['Enter, Ctrl+Enter', 'in the text: look'],
        ['Shift+Enter', 'in the text: a new line'],
        ['u', 'the head that was switched off last is on again'],
        ['Esc', 'closes what is open'],
    ]],
    ['Overview and tokens', [
        ['Arrows', 'from head to head, from token to token'],
        ['Home, End', 'the first and the last one'],
        ['Enter', 'opens the head; fixes the token, and Esc releases it'],
        ['Shift+Enter', 'on a head of the tokens view: this head alone'],
    ]],
    ['One head', [
        ['[ and ]', 'the previous and the next head'],
        ['{ and }', 'the previous and the next layer'],
    ]],
    ['On a map', [
        ['Arrows', 'from cell to cell; with Shift they move the map'],
        ['Home, End', 'the first and the last key of the row'],
        ['Page Up, Page Down', 'rows by the screen'],
        ['Enter', 'fixes the row and the key; Esc releases them'],
        ['+ and −', 'larger and smaller, as the wheel or two fingers; 0 shows all, as a double click'],
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
            <div class="row"><h2 id="help-title">Keys</h2><button onClick=${onClose}>Close</button></div>
            <p>Each map shows a head of a layer: a row for each token that looks, a column for each token that is
                looked at. A weight says where a head looks, not why the model answers what it answers.</p>
            ${KEYS.map(([title, keys]) => html`
                <h3>${title}</h3>
                <table>
                    ${keys.map(([key, what]) => html`<tr><th scope="row"><kbd>${key}</kbd></th><td>${what}</td></tr>`)}
                </table>`)}
            <p><label><input type="checkbox" checked=${hasKeys}
                onChange=${(event) => onHasKeys(event.target.checked)} />
                Keys of one character work everywhere</label></p>
        </dialog>`;
}
