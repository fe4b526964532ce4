// SPDX-License-Identifier: Apache-2.0
/* map_view.js - a map on a canvas: what is seen of it, and a frame whenever that changes. */
import { axisWidth, TEXT_SIZE } from './axis.js';
import { listenToGestures } from './map_gestures.js';
import { paintFrame, TITLE_SIZE } from './map_painter.js';
import { onThemeChange, themeOf } from './theme.js';
import {
    cellAt, isWhole, panView, revealCell, seenOf, viewOf, wholeView, windowOf, zoomView,
} from './window.js';
import { enlargedBy } from './zoom.js';

const SETTLE_MS = 250;
const AXIS_SHARE = 0.3; /* of the canvas, at most */
const MAP_SHARE = 1 - AXIS_SHARE;
const LEFT_MAX = 150;
const TOP_MAX = 110;
const EDGE = 4; /* beside the map, for the outline of marks */

const clamp = (value, least, most) => Math.min(Math.max(value, least), most);
const isSame = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/* What the axes are, in the field's words, longest first. */
const titlesOf = (unit = 'token') => ({ rows: [`query: the ${unit} that looks`, 'query'],
    keys: [`key: the ${unit} looked at`, 'key'] });

/** Maps that share a link show the same window, frame by frame. */
export function createLink() {
    return new Set();
}

/**
 * A map on a canvas. props are those of MapCanvas (map_canvas.js), given by set(). onCursor is told
 * the cell that the arrow keys moved to.
 */
export class MapView {
    #canvas;
    #props = null;
    #size = { width: 0, height: 0, ratio: 1 };
    #view = null;
    #window = { rows: null, keys: null }; /* the last one given or told */
    #frame = 0;
    #settling = 0;
    #ends = [];
    #fault = null;
    #theme = null;
    #place = { margins: null, plot: null };

    constructor(canvas) {
        this.#canvas = canvas;
        const observer = new ResizeObserver(() => this.#resize());
        observer.observe(canvas);
        this.#ends.push(() => observer.disconnect(), onThemeChange(() => this.#retheme()));
        listenToGestures(canvas, this);
    }

    close() {
        cancelAnimationFrame(this.#frame);
        clearTimeout(this.#settling);
        this.#props?.link?.delete(this);
        this.#ends.forEach((end) => end());
    }

    /** Takes the component's props; what changed is drawn with the next frame. */
    set(props) {
        const before = this.#props;
        this.#props = props;
        if (before?.link !== props.link) {
            before?.link?.delete(this);
            props.link?.add(this);
        }
        if (before?.store !== props.store)
            props.store.onChange = () => this.#take(props.store);
        if (before?.rowTokens !== props.rowTokens || before?.keyTokens !== props.keyTokens
            || before?.hasDigits !== props.hasDigits)
            this.#layOut();
        const asked = { rows: props.rows ?? null, keys: props.keys ?? null };
        if (!isSame(asked, this.#window)) {
            this.#window = asked;
            clearTimeout(this.#settling);
            if (this.#place.plot)
                this.#view = viewOf(asked, this.#map, this.#place.plot);
        }
        this.#invalidate();
    }

    /* Tiles have come, or did not. */
    #take(store) {
        this.#invalidate();
        if (store.fault !== this.#fault)
            this.#props.onFault?.(store.fault);
        this.#fault = store.fault;
    }

    get #map() {
        return { rows: this.#props.rowTokens.length, keys: this.#props.keyTokens.length };
    }

    #resize() {
        const box = this.#canvas.getBoundingClientRect();
        const zoom = enlargedBy(this.#canvas);
        const ratio = (window.devicePixelRatio || 1) * zoom;
        this.#size = { width: box.width / zoom, height: box.height / zoom, ratio };
        this.#canvas.width = Math.max(1, Math.round(this.#size.width * ratio));
        this.#canvas.height = Math.max(1, Math.round(this.#size.height * ratio));
        this.#layOut();
        this.paint();
    }

    #retheme() {
        this.#theme = null;
        this.#invalidate();
    }

    /* Where the axes end and the map begins. */
    #layOut() {
        const { width, height } = this.#size;
        if (!this.#props || width === 0)
            return;
        const context = this.#canvas.getContext('2d');
        this.#theme ??= themeOf(this.#canvas, TEXT_SIZE);
        context.font = this.#theme.font;
        const { rowTokens, keyTokens, hasDigits } = this.#props;
        const left = axisWidth(context, rowTokens, height * MAP_SHARE / rowTokens.length,
            Math.min(LEFT_MAX, AXIS_SHARE * width));
        const top = axisWidth(context, keyTokens, width * MAP_SHARE / keyTokens.length,
            Math.min(TOP_MAX, AXIS_SHARE * height));
        this.#place = {
            margins: { left: left + TITLE_SIZE, top: top + TITLE_SIZE, labels: { left, top },
                flatFrom: Math.max(48, top) },
            plot: { width: Math.max(1, width - left - TITLE_SIZE - EDGE),
                height: Math.max(1, height - top - TITLE_SIZE - EDGE), isWide: hasDigits },
        };
        this.#view = viewOf(this.#window, this.#map, this.#place.plot);
    }

    #invalidate() {
        this.#frame ||= requestAnimationFrame(() => this.paint());
    }

    /** Draws now. */
    paint() {
        cancelAnimationFrame(this.#frame);
        this.#frame = 0;
        if (!this.#props || !this.#view)
            return;
        this.#theme ??= themeOf(this.#canvas, TEXT_SIZE);
        const { store, scale, palette, range, rowTokens, keyTokens, hover, selected, unit,
            hasDigits } = this.#props;
        const { isDark } = this.#theme;
        const { margins, plot } = this.#place;
        const { ratio } = this.#size;
        const seen = seenOf(this.#view, this.#map, plot);
        const tiles = store.look({
            rows: [Math.floor(seen.rows[0]), Math.ceil(seen.rows[1])],
            keys: [Math.floor(seen.keys[0]), Math.ceil(seen.keys[1])],
            width: Math.round((seen.keys[1] - seen.keys[0]) * this.#view.width * ratio),
            height: Math.round((seen.rows[1] - seen.rows[0]) * this.#view.height * ratio),
        });
        const isLeft = paintFrame(this.#canvas.getContext('2d'), {
            size: this.#size, ratio, margins, plot, view: this.#view, map: this.#map,
            tiles: range === null ? [] : tiles, look: { scale, palette, range, isDark },
            titles: titlesOf(unit), tokens: { rows: rowTokens, keys: keyTokens },
            hover: hover ?? null, selected: selected ?? null, theme: this.#theme, hasDigits,
        });
        this.#tellPlace();
        this.#canvas.style.touchAction = isWhole(this.#view, this.#map, plot) ? 'pan-y' : 'none';
        if (isLeft)
            this.#invalidate();
    }

    /* Where the cells lie on the canvas, for who reads the picture: its left and top edge, the row and
     * key at its corner, the width and height of a cell, in CSS pixels. */
    #tellPlace() {
        const { left, top } = this.#place.margins;
        const { row, key, width, height } = this.#view;
        const place = [left, top, row, key, width, height].join(' ');
        if (this.#canvas.dataset.place !== place)
            this.#canvas.dataset.place = place;
    }

    /* A new view by a gesture: shown with the next frame, told as a window once the hand rests. */
    #moveTo(view, isFollowing = false) {
        const isMoved = !isSame(view, this.#view);
        this.#view = view;
        if (!isMoved)
            return false;
        this.#invalidate();
        if (isFollowing)
            return true;
        for (const map of this.#props.link ?? [])
            if (map !== this)
                map.follow(view, this.#map, this.#place.plot);
        clearTimeout(this.#settling);
        this.#settling = setTimeout(() => this.#settle(), SETTLE_MS);
        return true;
    }

    /* Whole tokens, so that an address that says the window shows the same picture. */
    #settle() {
        this.#window = windowOf(this.#view, this.#map, this.#place.plot);
        this.#moveTo(viewOf(this.#window, this.#map, this.#place.plot), true);
        this.#props.onWindow?.(this.#window);
    }

    /** Shows what a linked map shows. */
    follow(view, map, plot) {
        if (!this.#place.plot || !this.#view)
            return;
        const seen = seenOf(view, map, plot);
        const asked = isWhole(view, map, plot) ? { rows: null, keys: null } : seen;
        this.#moveTo(viewOf(asked, this.#map, this.#place.plot), true);
    }

    #cellAt({ x, y }) {
        const { left, top } = this.#place.margins;
        return cellAt(this.#view, { x: x - left, y: y - top }, this.#map);
    }

    hoverAt(place) {
        const cell = place && this.#view ? this.#cellAt(place) : null;
        if (!isSame(cell, this.#props.hover ?? null))
            this.#props.onHover?.(cell);
    }

    /* A click on a label fixes its token alone. */
    clickAt({ x, y }) {
        const { left, top } = this.#place.margins;
        const cell = this.#cellAt({ x: Math.max(x, left), y: Math.max(y, top) });
        if (!cell || (x < left && y < top))
            return;
        const { row, key } = this.#props.selected ?? { row: null, key: null };
        this.#props.onSelect?.({ row: y < top ? row : cell.row, key: x < left ? key : cell.key });
    }

    panBy(move) {
        this.#moveTo(panView(this.#view, move, this.#map, this.#place.plot));
    }

    zoomBy(factor, place) {
        const { margins, plot } = this.#place;
        const at = place ? { x: place.x - margins.left, y: place.y - margins.top } : this.#middle();
        const held = { x: clamp(at.x, 0, plot.width), y: clamp(at.y, 0, plot.height) };
        return this.#moveTo(zoomView(this.#view, factor, held, this.#map, plot));
    }

    /* What stays where it is when no pointer says so: the cell looked at if it is seen, else the middle. */
    #middle() {
        const { hover, selected } = this.#props;
        const { plot } = this.#place;
        const { row, key } = hover ?? selected ?? { row: null, key: null };
        const along = (at, first, size, length) => {
            const place = at === null ? -1 : (at + 0.5 - first) * size;
            return place >= 0 && place <= length ? place : length / 2;
        };
        return { x: along(key, this.#view.key, this.#view.width, plot.width),
            y: along(row, this.#view.row, this.#view.height, plot.height) };
    }

    showWhole() {
        this.#moveTo(wholeView(this.#map, this.#place.plot));
    }

    pageRows() {
        return Math.max(1, Math.floor(this.#place.plot.height / this.#view.height) - 1);
    }

    moveBy({ rows, keys }) {
        const { hover, selected, onHover, onCursor } = this.#props;
        const from = hover ?? { row: selected?.row ?? null, key: selected?.key ?? null };
        const isFirst = from.row === null && from.key === null;
        const along = (at, by, count) => clamp((at ?? 0) + (isFirst ? 0 : by), 0, count - 1);
        const cell = { row: along(from.row, rows, this.#map.rows),
            key: along(from.key, keys, this.#map.keys) };
        this.#moveTo(revealCell(this.#view, cell, this.#map, this.#place.plot));
        onHover?.(cell);
        onCursor?.(cell);
    }

    fix() {
        if (this.#props.hover)
            this.#props.onSelect?.(this.#props.hover);
    }

    release() {
        this.#props.onSelect?.({ row: null, key: null });
    }
}
