// SPDX-License-Identifier: Apache-2.0
/* flow.js - running text broken into lines of a width, as a browser breaks them: where each token stands. */

const MEASURED_AT = 10;                          /* times the size: browsers round small type to pixels */

/* Letters that join, stand above each other, or run from the right: their line is one piece. */
const JOINED = /[\u0590-\u08ff\u0900-\u0dff\u0e00-\u0fff\u1780-\u17ff\ufb1d-\ufdff\ufe70-\ufefc]/;

/* The text as elements that nobody sees; tokens are {before, reading, label, special, sequence}. */
function laidOut(tokens, { width, size, small, family }) {
    const box = document.createElement('div');
    const px = (length) => `${length * MEASURED_AT}px`;
    Object.assign(box.style, { position: 'fixed', left: '0', top: '0', visibility: 'hidden', contain: 'layout style',
        width: px(width), fontFamily: family, fontSize: px(size), lineHeight: '1.75', whiteSpace: 'pre-wrap',
        overflowWrap: 'anywhere' });
    box.dir = 'auto';
    const second = tokens.findIndex(({ sequence }) => sequence === 1);
    const words = tokens.map(({ before = '', reading, label, special }, i) => {
        if (i === second && i > 0)
            box.append(document.createElement('br'));
        const word = document.createElement('span');
        word.textContent = reading ?? label;
        if (special)
            Object.assign(word.style, { fontSize: px(small), margin: `0 ${px(size * 0.25)}` });
        box.append(before, word);
        return word;
    });
    return { box, words };
}

/* The pieces of a token, one a line: {text, left, right, middle}. */
function piecesOf(word) {
    const node = word.firstChild;
    const range = document.createRange();
    const pieces = [];
    let at = 0;
    for (const letter of node?.data ?? '') {
        range.setStart(node, at);
        range.setEnd(node, at += letter.length);
        const { left, right, top, bottom } = range.getBoundingClientRect();
        if (letter === '\n')
            continue;
        const last = pieces.at(-1);
        const middle = (top + bottom) / 2;
        if (last && Math.abs(last.middle - middle) < (bottom - top) / 2)
            Object.assign(last, { text: last.text + letter, left: Math.min(last.left, left),
                right: Math.max(last.right, right) });
        else
            pieces.push({ text: letter, left, right, middle });
    }
    return pieces;
}

/** {pieces, height, isJoined, isRight}: pieces are {token, text, x, y, width, size}, y in the middle of a line;
 * isJoined: a line is to be drawn as one text; isRight: it runs from the right. A form is {width, size, small, family},
 * small the size of special tokens. */
export function flowOf(tokens, form) {
    const { box, words } = laidOut(tokens, form);
    document.body.append(box);
    const { left, top, height } = box.getBoundingClientRect();
    const pieces = words.flatMap((word, token) => piecesOf(word).map((piece) => ({ token, text: piece.text,
        x: (piece.left - left) / MEASURED_AT, y: (piece.middle - top) / MEASURED_AT,
        width: (piece.right - piece.left) / MEASURED_AT, size: tokens[token].special ? form.small : form.size })));
    const isRight = box.matches(':dir(rtl)');
    box.remove();
    return { pieces, height: height / MEASURED_AT, isRight,
        isJoined: tokens.some(({ reading, label }) => JOINED.test(reading ?? label)) };
}
