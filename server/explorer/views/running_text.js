// SPDX-License-Identifier: Apache-2.0
/* running_text.js - the tokens as the text that they are, each in the colour of its weight: what one of them looks at,
 * or who looks at it. */
import { Bars } from '../draw/bars.js';
import { weightText } from '../draw/scales.js';
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from '../vendor/html.js';
import { useAllHeads } from './map_lines.js';
import { useRoving } from './roving.js';
import { Tools } from './token_tools.js';
import { partsOf } from './token_window.js';
import { useWidth } from './use_width.js';

const SATURATED = 0.01;  /* the part of the weights that have the full colour: one large weight would hide all others */

/** The mean or the largest weight of each place over heads of lines; NaN where no head may see it, and outside of
 * part, [begin, end). */
export function overHeads(lines, heads, over, [begin, end]) {
    return Float32Array.from(lines[0], (_, at) => {
        const weights = heads.map((head) => lines[head][at]).filter((weight) => !Number.isNaN(weight));
        if (weights.length === 0 || at < begin || at >= end)
            return NaN;
        return over === 'largest' ? Math.max(...weights)
            : weights.reduce((sum, weight) => sum + weight, 0) / weights.length;
    });
}

/** The weight from which on the colour is full. */
export function fullFrom(values) {
    const seen = values.filter((value) => value > 0).sort();
    return seen.length === 0 ? 1 : seen[seen.length - 1 - Math.floor(seen.length * SATURATED)];
}

/** Which token is looked at: {side, index}, the fixed one of the texts chosen, else the last row. */
export function subjectOf(fixed, parts) {
    const isIn = (index, [begin, end]) => index !== undefined && index >= begin && index < end;
    if (isIn(fixed?.key, parts.keys))
        return { side: 'key', index: fixed.key };
    return { side: 'row', index: isIn(fixed?.row, parts.rows) ? fixed.row : parts.rows[1] - 1 };
}

/* A word is a button within the line, so that it breaks, joins and turns as the text does. */
function Word({ token, place, isSecond, isSubject, value, full }) {
    const strength = value > 0 ? Math.min(1, value / full) : 0;
    const kind = [token.special ? ' special' : '', value !== null && Number.isNaN(value) ? ' unseen' : ''].join('');
    return html`${isSecond && html`<br />`}${token.before}<span role="button"
        class=${`word${kind}`} data-place=${place} data-weight=${value ?? ''} title=${token.label}
        aria-pressed=${isSubject ? 'true' : 'false'} style=${{ '--strength': strength.toFixed(4) }}>${
        token.reading}</span>`;
}

/* The tokens of one side; values are their weights, or null where this side is not looked at. */
function Text({ name, tokens, subject, values, full, onAt, onFix }) {
    const { ref, onFocusIn, onKeyDown } = useRoving('.word', tokens);
    const placeOf = (event) => {
        const word = event.target.closest('.word');
        return word ? Number(word.dataset.place) : null;
    };
    const act = (event) => {
        if (event.key === 'Enter' || event.key === ' ') {
            event.preventDefault();
            onFix(placeOf(event));
        }
        onKeyDown(event);
    };
    const second = tokens.findIndex(({ sequence }) => sequence === 1);
    const words = useMemo(() => tokens.map((token, i) => html`<${Word} key=${i} ...${{ token, place: i, full,
        isSecond: i === second, isSubject: i === subject, value: values ? values[i] : null }} />`),
        [tokens, subject, values, full]);
    return html`<div class="running-text" dir="auto" role="group" aria-label=${name} ref=${ref}
        onFocusIn=${(event) => { onFocusIn(event); onAt(placeOf(event)); }} onFocusOut=${() => onAt(null)}
        onPointerOver=${(event) => onAt(placeOf(event))} onPointerLeave=${() => onAt(null)} onKeyDown=${act}
        onClick=${(event) => placeOf(event) !== null && onFix(placeOf(event))}>${words}</div>`;
}

/* The switch between what a word looks at and who looks at it. */
function SideSwitch({ side, onSide }) {
    return html`<span class="forms" role="group" aria-label="The word">
        ${[['row', 'what it looks at'], ['key', 'who looks at it']].map(([name, words]) => html`
            <button type="button" key=${name} data-side=${name} aria-pressed=${name === side ? 'true' : 'false'}
                onClick=${() => onSide(name)}>${words}</button>`)}</span>`;
}

function NumberLine({ subject, token, at, other, value }) {
    const [first, second] = subject.side === 'row' ? [token, other] : [other, token];
    return html`<p class="text-number" role="status">${at === null || value === null
        ? html`<span class="faint">Point at a word, or move with the arrow keys, to read its weight. A click or Enter
            fixes it.</span>`
        : html`<b>${first.label}</b> looks at <b>${second.label}</b> <small>${at}</small>: <span class="number"
            data-at=${at} data-weight=${value}>${Number.isNaN(value) ? 'not seen' : weightText(value)}</span>`}</p>`;
}

/* The weights of the subject, {values, full}; null while they are read. */
function useValues({ source, layer, heads, state, subject, part, onFault }) {
    const whole = useAllHeads(source, layer, subject, onFault);
    return useMemo(() => {
        if (!whole)
            return null;
        const values = overHeads(whole.lines, heads, state.over, part);
        return { values, full: fullFrom(values) };
    }, [whole, heads.join(), state.over, part.join()]);
}

/* Scrolls the box, and it alone, so that the fixed word is seen, also where lines break anew. */
function useSeen(box, drawn) {
    const width = useWidth(box);
    useLayoutEffect(() => {
        const word = box.current.querySelector('[aria-pressed=true]');
        const { top, bottom } = box.current.getBoundingClientRect();
        const place = word?.getBoundingClientRect();
        if (word && (place.top < top || place.bottom > bottom))
            box.current.scrollTop += place.top - (top + bottom) / 2;
    }, [...drawn, width]);
}

/* Shows a word of the text. */
function goTo(box, place) {
    const word = box.querySelector(`[data-place="${place}"]`);
    word?.scrollIntoView({ block: 'center' });
    word?.focus({ preventScroll: true });
}

export function RunningText({ source, layer, heads, state, change, fixed, onFault }) {
    const parts = partsOf(layer, state.between);
    const subject = subjectOf(fixed, parts);
    const { side, index } = subject;
    const other = side === 'row' ? 'key' : 'row';
    const made = useValues({ source, layer, heads, state, subject, part: parts[`${other}s`], onFault });
    const tokens = { row: layer.rowTokens, key: layer.keyTokens };
    const isOne = tokens.row === tokens.key;
    const [at, setAt] = useState(null);
    useEffect(() => setAt(null), [source, layer]);
    const box = useRef(null);
    useSeen(box, [source, side, index]);
    const fix = (name, place) => change({ row: null, key: null, [name]: place });
    const text = (name, shown, title) => html`<${Text} name=${title} tokens=${tokens[name]}
        subject=${isOne || name === side ? index : null} values=${shown ? made?.values ?? null : null}
        full=${made?.full ?? 1} onAt=${(place) => setAt(shown ? place : null)}
        onFix=${(place) => fix(isOne ? side : name, place)} />`;
    const label = tokens[side][index].label;
    return html`<div class="tokens-form" aria-busy=${!made}>
        <${Tools} ...${{ source, layer, state, change }} status=${made ? '' : `Reading ${side} ${index}…`} />
        <div class="text-tools">
            ${isOne && html`<${SideSwitch} side=${side} onSide=${(name) => fix(name, index)} />`}
            <span class="heat" data-full=${made?.full}><span>0</span><i></i><span>${made
                ? `${weightText(made.full)}${made.values.some((value) => value > made.full) ? ' and more' : ''}`
                : ''}</span></span>
        </div>
        <${NumberLine} subject=${subject} token=${tokens[side][index]} at=${at} other=${tokens[other][at ?? 0]}
            value=${made && at !== null ? made.values[at] : null} />
        <div class="text-body">
            <div class="text-scroller" ref=${box}>${isOne ? text('row', true, 'The text')
                : html`<h3>Looks</h3>${text('row', side === 'key', 'Tokens that look')}
                    <h3>Is looked at</h3>${text('key', side === 'row', 'Tokens that are looked at')}`}</div>
            <${Bars} caption=${side === 'row' ? html`<b>${label}</b> looks at` : html`Who looks at <b>${label}</b>`}
                values=${made?.values ?? null} tokens=${tokens[other]}
                count=${parts[`${other}s`][1] - parts[`${other}s`][0]} order="largest" scale=${state.scale}
                marked=${null}
                pairOf=${(place) => ({ [side]: index, [other]: place })}
                onPick=${(place) => goTo(box.current, place)} />
        </div>
    </div>`;
}
