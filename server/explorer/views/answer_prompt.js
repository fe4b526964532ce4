// SPDX-License-Identifier: Apache-2.0
/* answer_prompt.js - the prompt as running text, coloured by what each part adds, in which a person marks a part: by
 * dragging over tokens, or with Shift and the arrow keys. */
import { html, useEffect, useMemo, useRef, useState } from '../vendor/html.js';
import { effectColour } from './effect.js';
import { roved, useRoving } from './roving.js';

const TINT = 0.45;                               /* of the full colour, so that text on it is read */

/* A token as a piece of running text. */
function pieceOf(token, before) {
    const isBehindGap = token.start !== null && before?.end !== null && token.start > before?.end;
    const gap = before && (isBehindGap || token.isApart) ? ' ' : '';
    return gap + token.label.replace(/␣/g, ' ').replace(/⏎/g, '⏎\n');
}

/* Tokens [first, end) as a text on one line. */
export function textOfPart(tokens, [first, end]) {
    const text = tokens.slice(first, end).map((token, i) => pieceOf(token, tokens[first + i - 1])).join('');
    return text.replace(/⏎\n/g, ' ').trim() || tokens.slice(first, end).map(({ label }) => label).join('');
}

const rangeOf = ({ anchor, focus }) => [Math.min(anchor, focus), Math.max(anchor, focus) + 1];
const isIn = (place, range) => range !== null && place >= range[0] && place < range[1];

function Token({ token, before, place, colour, isMarked, isFirst }) {
    const classes = ['piece', token.special ? 'special' : '', isFirst ? 'first' : ''].join(' ');
    return html`<span class=${classes} role="option" data-place=${place} aria-selected=${isMarked ? 'true' : 'false'}
        aria-label=${token.label} style=${{ background: colour }}>${pieceOf(token, before)}</span>`;
}

/* The mouse: a drag marks from its first to its last token. A tap marks one, the next tap up to there. */
function useMarking(marked, setMarked, onAdd) {
    const drag = useRef(null);
    const last = useRef(null);
    last.current = marked;
    useEffect(() => {
        const end = () => {
            const wasDrag = drag.current && last.current && last.current.anchor !== last.current.focus;
            if (wasDrag && drag.current === 'mouse')
                onAdd(rangeOf(last.current));
            drag.current = null;
        };
        window.addEventListener('pointerup', end);
        return () => window.removeEventListener('pointerup', end);
    });
    const placeOf = ({ target }) => {
        const piece = target.closest('[data-place]');
        return piece ? Number(piece.dataset.place) : null;
    };
    return {
        onPointerDown(event) {
            const place = placeOf(event);
            if (place === null || event.button !== 0)
                return;
            const isTap = event.pointerType !== 'mouse';
            drag.current = event.pointerType;
            const anchor = marked && (event.shiftKey || isTap) ? marked.anchor : place;
            setMarked({ anchor, focus: place });
        },
        onPointerOver(event) {
            const place = placeOf(event);
            if (drag.current === 'mouse' && place !== null)
                setMarked((now) => now && { ...now, focus: place });
        },
    };
}

/* Shift and an arrow mark from the token that has the focus, Enter adds, Esc unmarks. */
function keyOf(event, { marked, setMarked, onAdd, buttons }) {
    const piece = event.target.closest('[data-place]');
    if (!piece)
        return false;
    const place = Number(piece.dataset.place);
    if (event.key === 'Enter')
        onAdd(marked ? rangeOf(marked) : [place, place + 1]);
    else if (event.key === 'Escape')
        setMarked(null);
    else if (event.shiftKey && /^(Arrow|Home$|End$)/.test(event.key)) {
        const next = roved(buttons(), piece, event.key);
        next?.focus();
        if (next)
            setMarked({ anchor: marked?.anchor ?? place, focus: Number(next.dataset.place) });
    } else
        return false;
    event.preventDefault();
    return true;
}

/* parts: ranges; effectOf(part): its effect or null; largest: of all; looked: the part that is pointed at, or null. */
export function AnswerPrompt({ tokens, parts, effectOf, largest, looked, onAdd }) {
    const [marked, setMarked] = useState(null);
    const { ref, onFocusIn, onKeyDown } = useRoving('.piece', tokens);
    useEffect(() => setMarked(null), [tokens]);
    const add = (range) => {
        setMarked(null);
        onAdd(range);
    };
    const pointer = useMarking(marked, setMarked, add);
    const range = marked && rangeOf(marked);
    const places = useMemo(() => {               /* the first part that a token is in, the shortest of several */
        const sorted = [...parts].sort((a, b) => (a[1] - a[0]) - (b[1] - b[0]));
        return tokens.map((_, place) => sorted.find((part) => isIn(place, part)) ?? null);
    }, [tokens, parts]);
    const key = (event) => keyOf(event, { marked, setMarked, onAdd: add,
        buttons: () => [...ref.current.querySelectorAll('.piece')] }) || onKeyDown(event);
    const said = range ? `${range[1] - range[0]} marked: “${textOfPart(tokens, range)}”`
        : 'Mark a part: drag over it, or Shift with the arrow keys. Enter adds it.';
    return html`<div class="answer-prompt">
        <div class="pieces" role="listbox" aria-multiselectable="true" aria-label="Tokens of the prompt" ref=${ref}
            onFocusIn=${onFocusIn} onKeyDown=${key} ...${pointer}>
            ${tokens.map((token, place) => html`<${Token} key=${place} ...${{ token, before: tokens[place - 1], place,
                isMarked: isIn(place, range) || isIn(place, looked), isFirst: places[place]?.[0] === place,
                colour: places[place] ? effectColour(effectOf(places[place]), largest, TINT) : 'transparent' }} />`)}
        </div>
        <p class="row"><button type="button" data-add disabled=${!range} onClick=${() => add(range)}>
            Add the marked part</button><span class="faint marked-words" role="status">${said}</span></p>
    </div>`;
}
