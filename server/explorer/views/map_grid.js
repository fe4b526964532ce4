// SPDX-License-Identifier: Apache-2.0
/* map_grid.js - small maps of heads as buttons: in a table, layers down and heads across, or one after the other. Maps
 * are read and drawn as they scroll into view; the arrow keys move from head to head. */
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from '../vendor/html.js';
import { drawMap } from '../draw/colours.js';
import { namesOf, nameWords } from './head_scores.js';
import { describeHead, describeKind, shortName } from './head_words.js';
import { useRoving } from './roving.js';

const SIGN_WIDTH = 16;
const AHEAD = '200px'; /* maps this close to the seen part are read as well */

/* One observer for all maps of a scroller: watch(element, call) calls call(isSeen); gives its end. */
function createWatch(root) {
    const calls = new Map();
    const observer = new IntersectionObserver((changes) => changes.forEach(
        ({ target, isIntersecting }) => calls.get(target)?.(isIntersecting)), { root, rootMargin: AHEAD });
    const watch = (element, call) => {
        calls.set(element, call);
        observer.observe(element);
        return () => {
            calls.delete(element);
            observer.unobserve(element);
        };
    };
    return { watch, close: () => observer.disconnect() };
}

/* Draws a head's map of those of its layer, each cell a whole number of pixels where there is room. */
export function drawHead(canvas, maps, head, { side, ...look }) {
    const size = maps.rows * maps.keys;
    drawMap(canvas, maps.values.subarray(head * size, (head + 1) * size), maps.rows, maps.keys, look);
    canvas.classList.add('drawn');
    canvas.style.width = `${maps.keys * Math.max(1, Math.floor(side / maps.keys))}px`;
    canvas.style.height = `${maps.rows * Math.max(1, Math.floor(side / maps.rows))}px`;
}

/* The signs of a head's names, over its map; a small map has room for one. */
function Signs({ entry, side }) {
    const names = namesOf(entry).slice(0, Math.max(1, Math.floor(side / SIGN_WIDTH)));
    return names.length > 0 && html`<span class="name-signs" aria-hidden="true">${names.map(({ name, sign }) => html`
        <b class="name-sign" key=${name}>${sign}</b>`)}</span>`;
}

/* isOut: the filter leaves the head out; off: the heads that the pass is without, as [layer, head]. */
function MapButton({ entry, isOut, off, isCurrent, loader, watch, side, scale, palette, range, unit, onOpen }) {
    const canvas = useRef(null);
    const shown = useRef(null);
    const { layer, head } = entry;
    const draw = useRef(null);
    draw.current = () => shown.current && canvas.current && range !== null
        && drawHead(canvas.current, shown.current, head, { side, scale, palette, range });
    useEffect(() => {
        let end = null;
        shown.current = null;
        const unwatch = watch(canvas.current.parentNode, (isSeen) => {
            if (isSeen === (end !== null))
                return;
            end?.();
            end = isSeen ? loader.want(layer, (maps) => {
                shown.current = maps;
                draw.current();
            }) : null;
        });
        return () => {
            end?.();
            unwatch();
        };
    }, [loader, watch, entry.layer, head]);
    useEffect(() => draw.current() && undefined, [side, scale, palette, range]);
    const isOff = off.some((one) => one[0] === layer.layer && one[1] === head);
    const words = [describeHead(entry, unit), nameWords(entry)].filter(Boolean).join(', ');
    const label = `Layer ${layer.layer}, head ${head}${words && `: ${words}`}`
        + (isOut ? ', left out by the filter' : '') + (isOff ? ', switched off' : '');
    return html`<button class=${`map${isOut ? ' out' : ''}${isOff ? ' off' : ''}`}
        style=${{ width: `${side + 2}px`, height: `${side + 2}px` }}
        data-layer=${layer.layer} data-head=${head} aria-current=${isCurrent ? 'true' : undefined}
        aria-label=${label} onClick=${() => onOpen(entry)}>
        <canvas ref=${canvas} width="1" height="1" style=${{ width: `${side}px`, height: `${side}px` }}></canvas>
        <${Signs} entry=${entry} side=${side} />
    </button>`;
}

/* The scroller of the maps. onLook(entry) says which head is under the pointer or the focus. */
function Scroller({ entries, onLook, children, drawn }) {
    const { ref, onFocusIn, onKeyDown } = useRoving('button.map', drawn);
    const look = (event) => {
        const button = event.target.closest('button.map');
        const entry = button && entries.find((one) => one.head === Number(button.dataset.head)
            && one.layer.layer === Number(button.dataset.layer));
        if (entry)
            onLook(entry);
    };
    const focus = (event) => {
        onFocusIn(event);
        look(event);
    };
    return html`<div class="map-scroller" ref=${ref} onPointerOver=${look} onFocusIn=${focus}
        onKeyDown=${onKeyDown}>${children}</div>`;
}

/* The observer of the maps; root is the element that scrolls, or null until it is there. */
function useWatch() {
    const [made, setMade] = useState(null);
    const mark = useRef(null);
    useLayoutEffect(() => {         /* before the empty grid is seen, which would be lower */
        const watch = createWatch(mark.current.closest('.map-scroller'));
        setMade(watch);
        return () => watch.close();
    }, []);
    return [mark, made?.watch ?? null];
}

/* Layers down, heads across. passing: the entries that the filter lets through. The vnodes are made again only when
 * what they show changes, so that pointing at heads draws none of them. */
export function MapGrid({ entries, passing, layers, current, onLook, onOpen, ...look }) {
    const [mark, watch] = useWatch();
    const most = Math.max(...layers.map(({ heads }) => heads));
    const drawn = useMemo(() => watch && html`<tbody>${layers.map((layer) => html`<tr key=${layer.layer}>
        <th scope="row" title=${describeKind(layer.kind)}>L${layer.layer}${layer.kind !== 'self'
            && html`<small>${layer.kind}</small>`}</th>
        ${entries.filter((entry) => entry.layer === layer).map((entry) => html`<td key=${entry.head}>
            <${MapButton} ...${look} ...${{ entry, watch, onOpen, isOut: !passing.has(entry),
                isCurrent: current === `${layer.layer} ${entry.head}` }} /></td>`)}
        </tr>`)}</tbody>`,
    [entries, passing, watch, look.loader, look.side, look.scale, look.palette, look.range, look.off, current]);
    return html`<${Scroller} entries=${entries} onLook=${onLook} drawn=${drawn}>
        <table class="map-grid" ref=${mark}>
            <caption class="hidden">Weight maps, layers down, heads across</caption>
            ${drawn && html`<thead><tr><th scope="col"><span class="hidden">Layer</span></th>
                ${Array.from({ length: most }, (_, head) => html`<th scope="col" key=${head}>H${head}</th>`)}
            </tr></thead>`}
            ${drawn}
        </table></${Scroller}>`;
}

/* Heads one after the other in the order of entries, each with its name. */
export function MapFlow({ entries, current, onLook, onOpen, ...look }) {
    const [mark, watch] = useWatch();
    const drawn = useMemo(() => watch && entries.map((entry) => html`
        <li key=${shortName(entry)}><${MapButton} ...${look} ...${{ entry, watch, onOpen, isOut: false,
            isCurrent: current === `${entry.layer.layer} ${entry.head}` }} />
            <span aria-hidden="true">${shortName(entry)}</span></li>`),
    [entries, watch, look.loader, look.side, look.scale, look.palette, look.range, look.off, current]);
    return html`<${Scroller} entries=${entries} onLook=${onLook} drawn=${drawn}>
        <ol class="map-flow" ref=${mark} aria-label="Weight maps, sorted">${drawn}</ol>
        ${entries.length === 0 && html`<p>No head lies in all of these ranges. Widen one of them.</p>`}</${Scroller}>`;
}
