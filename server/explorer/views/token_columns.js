// SPDX-License-Identifier: Apache-2.0
/* token_columns.js - two columns of tokens, those that look and those that are looked at, with
 * lines between them. */
import { headColour } from '../draw/head_colours.js';
import { drawLines, drawnLines } from '../draw/lines.js';
import { html, useLayoutEffect, useMemo, useRef } from '../vendor/html.js';
import { useRoving } from './roving.js';
import { useWidth } from './use_width.js';

const TOKEN_HEIGHT = 24;

/* lines: of a window, counted from its first tokens; height in CSS pixels. */
function Lines({ lines, height }) {
    const box = useRef(null);
    const canvas = useRef(null);
    const width = useWidth(box);
    useLayoutEffect(() => drawLines(canvas.current, lines, { width, height, tokenHeight: TOKEN_HEIGHT }),
        [lines, width, height]);
    return html`<div class="token-lines" ref=${box} style=${{ height: `${height}px` }}>
        <canvas ref=${canvas} aria-hidden="true"></canvas></div>`;
}

/* The weights of the heads at a token that the active one looks at: a box for each head, the
 * stronger its colour the larger the weight. */
function Boxes({ lines }) {
    return html`<span class="token-boxes" aria-hidden="true">${lines.map(({ head, weight }) => html`
        <i key=${head} style=${{ background: headColour(head), opacity: weight }}></i>`)}</span>`;
}

/* side: 'row' or 'key'. byPlace: the lines of the active token by their place in this column. */
function Column({ side, tokens, first, fixed, active, byPlace, onHover, onFix }) {
    const { ref, onFocusIn, onKeyDown } = useRoving('button.token', tokens);
    const placeOf = (event) => {
        const button = event.target.closest('button.token');
        return button ? Number(button.dataset.place) : null;
    };
    const hover = (event) => {
        const place = placeOf(event);
        if (place !== null)
            onHover({ [side]: place });
    };
    const focus = (event) => {
        onFocusIn(event);
        if (event.target.matches(':focus-visible'))
            hover(event);
    };
    return html`<ol class=${`token-column ${side}s`} ref=${ref} onPointerOver=${hover}
        onFocusIn=${focus} onFocusOut=${() => onHover(null)} onKeyDown=${onKeyDown}
        aria-label=${side === 'row' ? 'Tokens that look' : 'Tokens that are looked at'}>
        ${tokens.map((token, i) => html`<li key=${i}>
            <button type="button" class=${active === i ? 'token active' : 'token'} data-place=${first + i}
                aria-pressed=${fixed === first + i ? 'true' : 'false'} title=${token.label}
                onClick=${() => onFix({ [side]: first + i })}>${token.label}</button>
            ${byPlace?.has(i) && html`<${Boxes} lines=${byPlace.get(i)} />`}</li>`)}
    </ol>`;
}

/* What a column has of the active token: {row} or {key}, counted from the first of the window. */
function groupBy(lines, name) {
    const groups = new Map();
    for (const line of lines)
        groups.set(line[name], [...(groups.get(line[name]) ?? []), line]);
    return groups;
}

/**
 * lines: those of the window, counted from its first tokens; own: those of the active token, which alone are shown, or
 * null; active: {row} or {key} of the source, or null; fixed: the same, what a click has set.
 */
export function TokenColumns({ layer, lines, own, rows, keys, active, fixed, onHover, onFix }) {
    const inside = active && (active.row !== undefined ? { row: active.row - rows[0] }
        : { key: active.key - keys[0] });
    const drawn = useMemo(() => drawnLines(own ?? lines), [own, lines]);
    const height = TOKEN_HEIGHT * Math.max(rows[1] - rows[0], keys[1] - keys[0]);
    const column = (side, tokens, [begin, end]) => html`<${Column} ...${{ side, first: begin,
        tokens: useMemo(() => tokens.slice(begin, end), [tokens, begin, end]),
        fixed: fixed?.[side], active: inside?.[side], onHover, onFix,
        byPlace: own && inside[side] === undefined ? groupBy(own, side) : null }} />`;
    return html`<div class="token-columns" onPointerLeave=${() => onHover(null)}>
        ${column('row', layer.rowTokens, rows)}
        <${Lines} lines=${drawn} height=${height} />
        ${column('key', layer.keyTokens, keys)}
    </div>`;
}
