// SPDX-License-Identifier: Apache-2.0
/* help.js - what the page shows, and all its keys, in a dialog. */
import { html, useEffect, useRef } from '../vendor/html.js';

const KEYS = [
    ['Everywhere', [
        ['?', 'this help'],
        ['1 to 6', 'the views, in the order of their tabs'],
        ['/', 'to the text'],
        ['Enter, Ctrl+Enter', 'in the text: show it'],
        ['Shift+Enter', 'in the text: a new line'],
        ['p', 'class mode on and off: all larger, for a projector; Esc leaves it'],
        ['< and >', 'in the tour: the stop before and the next one'],
        ['u', 'the head that was switched off last is on again'],
        ['Esc', 'closes what is open; cancels what is computed'],
    ]],
    ['Overview and tokens', [
        ['Arrows', 'from head to head, from token to token'],
        ['Home, End', 'the first and the last one'],
        ['Enter', 'opens the head; fixes the token, and Esc releases it'],
        ['Shift+Enter', 'on a head of the tokens view: this head alone'],
    ]],
    ['Answer', [
        ['Shift+Arrows', 'in the prompt: mark a part, from token to token'],
        ['Enter', 'adds the marked part; on a head: switches it off or on'],
        ['Esc', 'unmarks'],
    ]],
    ['One head', [
        ['[ and ]', 'the previous and the next head'],
        ['{ and }', 'the previous and the next layer'],
    ]],
    ['Why, step by step', [
        ['→, Space', 'the next step'],
        ['←', 'the step before'],
    ]],
    ['On a map', [
        ['Arrows', 'from cell to cell; with Shift they move the map'],
        ['Home, End', 'the first and the last key of the row'],
        ['Page Up, Page Down', 'rows by the screen'],
        ['Enter', 'fixes the row and the key; Esc releases them'],
        ['+ and −', 'larger and smaller, as the wheel or two fingers; 0 shows all, as a double click'],
    ]],
];

const TERMS = [
    ['Token', 'a piece of the text, as the model reads it: a word, a part of one, a sign'],
    ['Head', 'one of the places in a layer where each token looks at others'],
    ['Query, key', 'the numbers by which a token looks, and by which it is found. A row of a map is a query, a column '
        + 'a key'],
    ['Score', 'query times key, by the scale of the layer: how well the two agree'],
    ['Weight', 'the share of a row that goes to a key, from 0 to 1: all weights of a row sum to 1'],
    ['Scale', 'which weight has which colour: linear; square root and logarithm show small weights, too'],
];

const VIEWS = [
    ['Overview', 'all heads as small maps, or as a table; in order of what they do, or only some'],
    ['Answer', 'what a predicted token rests on: parts of the prompt, heads and layers, taken away one by one'],
    ['One head', 'its map: what each token looks at, and who looks at it'],
    ['Tokens', 'the same as lines between tokens, the heads of a layer in colours'],
    ['Why', 'one weight, from query and key on, stage by stage'],
    ['Compare', 'two heads, layers, texts or models side by side'],
];

function Terms({ title, terms }) {
    return html`
        <h3>${title}</h3>
        <dl>${terms.map(([term, what]) => html`<div><dt>${term}</dt><dd>${what}</dd></div>`)}</dl>`;
}

export function Help({ isOpen, onClose, onTour, hasKeys, onHasKeys }) {
    const dialog = useRef(null);
    useEffect(() => {
        if (isOpen && !dialog.current.open)
            dialog.current.showModal();
        if (!isOpen && dialog.current.open)
            dialog.current.close();
    }, [isOpen]);
    return html`
        <dialog class="help" ref=${dialog} onClose=${onClose} aria-labelledby="help-title">
            <div class="row"><h2 id="help-title">Help</h2><button onClick=${onClose}>Close</button></div>
            <p>Each map shows a head of a layer: a row for each token that looks, a column for each token that is
                looked at. A weight says where a head looks, not why the model answers what it answers.</p>
            ${onTour && html`<p><button class="main" onClick=${onTour}>Take the tour</button> Seven stops, from a token
                to what an answer rests on.</p>`}
            <${Terms} title="The views" terms=${VIEWS} />
            <${Terms} title="The words" terms=${TERMS} />
            <h3 class="part">Keyboard shortcuts</h3>
            ${KEYS.map(([title, keys]) => html`
                <h4>${title}</h4>
                <table>
                    ${keys.map(([key, what]) => html`<tr><th scope="row"><kbd>${key}</kbd></th><td>${what}</td></tr>`)}
                </table>`)}
            <p><label><input type="checkbox" checked=${hasKeys}
                onChange=${(event) => onHasKeys(event.target.checked)} />
                Keys of one character work everywhere</label></p>
        </dialog>`;
}
