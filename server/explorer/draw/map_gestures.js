// SPDX-License-Identifier: Apache-2.0
/* map_gestures.js - pointer, wheel and keys on a map, said as what a person wants. */
import { enlargedBy } from './zoom.js';

const CLICK_MOVE_MAX = 4;
const WHEEL_STEP = 0.0018;
const KEY_ZOOM = 1.5;
const KEY_PAN = 80;

/* Pointers that are down: one drags, two pinch. */
class Pointers {
    #down = new Map();
    moved = 0;

    set(event, place) {
        this.#down.set(event.pointerId, place);
    }

    delete(event) {
        this.#down.delete(event.pointerId);
    }

    has(event) {
        return this.#down.has(event.pointerId);
    }

    get count() {
        return this.#down.size;
    }

    /* The middle of all pointers and how far two of them are apart. */
    get grip() {
        const places = [...this.#down.values()];
        const mean = (axis) => places.reduce((sum, place) => sum + place[axis], 0) / places.length;
        const apart = places.length < 2 ? 1
            : Math.hypot(places[0].x - places[1].x, places[0].y - places[1].y);
        return { x: mean('x'), y: mean('y'), apart: Math.max(1, apart) };
    }
}

/* The wheel's turn in CSS pixels, whatever unit the browser counts in. */
const turnOf = (event) => event.deltaY * [1, 16, 400][event.deltaMode];

function listenToPointers(canvas, wants, placeOf) {
    const pointers = new Pointers();
    const listen = (name, call, options) => canvas.addEventListener(name, call, options);
    listen('pointerdown', (event) => {
        if (event.button !== 0)
            return;
        if (pointers.count === 0)
            pointers.moved = 0;
        pointers.set(event, placeOf(event));
        canvas.setPointerCapture(event.pointerId);
    });
    listen('pointermove', (event) => {
        if (!pointers.has(event)) {
            wants.hoverAt(placeOf(event));
            return;
        }
        const before = pointers.grip;
        pointers.set(event, placeOf(event));
        const { x, y, apart } = pointers.grip;
        pointers.moved += Math.hypot(x - before.x, y - before.y) + Math.abs(apart - before.apart);
        if (pointers.moved < CLICK_MOVE_MAX)
            return;
        wants.panBy({ x: x - before.x, y: y - before.y });
        if (pointers.count > 1)
            wants.zoomBy(apart / before.apart, { x, y });
    });
    listen('pointerup', (event) => {
        const isClick = pointers.count === 1 && pointers.moved < CLICK_MOVE_MAX;
        if (pointers.has(event) && isClick) {
            wants.clickAt(placeOf(event));
            if (event.pointerType !== 'mouse')
                wants.hoverAt(null);
        }
        pointers.delete(event);
    });
    listen('pointercancel', (event) => pointers.delete(event));
    listen('pointerleave', (event) => event.pointerType === 'mouse' && wants.hoverAt(null));
    listen('dblclick', () => wants.showWhole());
    listen('wheel', (event) => {
        const factor = Math.exp(-WHEEL_STEP * turnOf(event));
        if (!wants.zoomBy(factor, placeOf(event)))
            return;
        event.preventDefault();
        wants.hoverAt(placeOf(event));
    }, { passive: false });
}

const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/* What a key asks for: a call, or null where the key is none of the map's. */
function wishOf(event, wants) {
    const arrow = ARROWS[event.key];
    if (arrow && event.shiftKey)
        return () => wants.panBy({ x: -KEY_PAN * arrow[1], y: -KEY_PAN * arrow[0] });
    if (arrow)
        return () => wants.moveBy({ rows: arrow[0], keys: arrow[1] });
    switch (event.key) {
    case 'Home': return () => wants.moveBy({ rows: 0, keys: -Infinity });
    case 'End': return () => wants.moveBy({ rows: 0, keys: Infinity });
    case 'PageUp': return () => wants.moveBy({ rows: -wants.pageRows(), keys: 0 });
    case 'PageDown': return () => wants.moveBy({ rows: wants.pageRows(), keys: 0 });
    case '+': case '=': return () => wants.zoomBy(KEY_ZOOM, null);
    case '-': return () => wants.zoomBy(1 / KEY_ZOOM, null);
    case '0': return () => wants.showWhole();
    case 'Enter': case ' ': return () => wants.fix();
    case 'Escape': return () => wants.release();
    default: return null;
    }
}

function listenToKeys(canvas, wants) {
    canvas.addEventListener('keydown', (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey)
            return;
        const wish = wishOf(event, wants);
        if (!wish)
            return;
        event.preventDefault();
        wish();
    });
    canvas.addEventListener('blur', () => wants.hoverAt(null));
}

/**
 * Listens on a canvas. wants: {hoverAt(place | null), clickAt(place), panBy({x, y}),
 * zoomBy(factor, place | null) -> whether anything changed, showWhole(), moveBy({rows, keys}),
 * pageRows(), fix(), release()}; places are in CSS pixels from the canvas's corner.
 */
export function listenToGestures(canvas, wants) {
    const placeOf = (event) => {
        const box = canvas.getBoundingClientRect();
        const zoom = enlargedBy(canvas);
        return { x: (event.clientX - box.left) / zoom, y: (event.clientY - box.top) / zoom };
    };
    listenToPointers(canvas, wants, placeOf);
    listenToKeys(canvas, wants);
}
