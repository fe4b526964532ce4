// SPDX-License-Identifier: Apache-2.0
/* window.js - which part of a map is seen: fitting, zooming and panning, as numbers alone.
 *
 * A view is {row, key, height, width}: the row and key (with fractions) at the upper left corner,
 * and the height of a row and the width of a key in CSS pixels. A plot is {width, height} in CSS
 * pixels, a map {rows, keys} in tokens. A window is {rows: [a, b] | null, keys: [a, b] | null},
 * whole tokens; null means all. Cells are square, unless a map is so thin that a side of it would
 * be under SIDE_MIN, or the plot isWide: then they are as wide as there is room for digits in them. */

const CELL_MAX = 56;
const ZOOMED_CELL_MAX = 96; /* or so that TOKENS_MIN fit */
const TOKENS_MIN = 4;
const SIDE_MIN = 96;
const WIDE = 2.2; /* times the height */

const clamp = (value, least, most) => Math.min(Math.max(value, least), most);

/** The view that shows the whole map. */
export function wholeView(map, plot) {
    const square = Math.min(plot.width / map.keys, plot.height / map.rows, CELL_MAX);
    const wide = plot.isWide ? Math.min(plot.width / map.keys, WIDE * square) : 0;
    const side = (count, space) => Math.max(square, Math.min(SIDE_MIN, space) / count);
    return {
        row: 0, key: 0,
        height: Math.min(side(map.rows, plot.height), CELL_MAX),
        width: Math.min(Math.max(wide, side(map.keys, plot.width)), CELL_MAX),
    };
}

/* A first token so that no space is left empty that the map could fill. */
function within(first, count, size, space) {
    return clamp(first, 0, Math.max(0, count - space / size));
}

/* The largest cell, on either axis: a map that is seen whole along one goes on growing along the other. */
const largestCell = (plot) => Math.max(ZOOMED_CELL_MAX, Math.min(plot.width, plot.height) / TOKENS_MIN);

/* How many times larger than the whole view a view is. */
const zoomOf = (view, whole) => Math.max(view.width / whole.width, view.height / whole.height);

function zoomed(whole, zoom, centre, map, plot) {
    const most = largestCell(plot);
    const limit = clamp(zoom, 1, most / Math.min(whole.height, whole.width));
    const height = Math.min(whole.height * limit, most);
    const width = Math.min(whole.width * limit, most);
    return {
        row: within(centre.row - centre.y / height, map.rows, height, plot.height),
        key: within(centre.key - centre.x / width, map.keys, width, plot.width),
        height, width,
    };
}

/** The view that a window asks for: all of it is seen, in the middle. */
export function viewOf({ rows, keys }, map, plot) {
    const whole = wholeView(map, plot);
    if (!rows && !keys)
        return whole;
    const [firstRow, endRow] = rows ?? [0, map.rows];
    const [firstKey, endKey] = keys ?? [0, map.keys];
    const zoomFor = (count, size, space) =>
        (count * largestCell(plot) <= space ? Infinity : space / (count * size));
    const zoom = Math.min(zoomFor(endRow - firstRow, whole.height, plot.height),
        zoomFor(endKey - firstKey, whole.width, plot.width));
    const centre = { row: (firstRow + endRow) / 2, key: (firstKey + endKey) / 2,
        y: plot.height / 2, x: plot.width / 2 };
    return zoomed(whole, zoom, centre, map, plot);
}

/** The view after zooming by a factor, with the place (x, y) of the plot held still. */
export function zoomView(view, factor, { x, y }, map, plot) {
    const whole = wholeView(map, plot);
    const held = { row: view.row + y / view.height, key: view.key + x / view.width, y, x };
    return zoomed(whole, factor * zoomOf(view, whole), held, map, plot);
}

/** The view after moving its content by (x, y) CSS pixels. */
export function panView(view, { x, y }, map, plot) {
    return {
        ...view,
        row: within(view.row - y / view.height, map.rows, view.height, plot.height),
        key: within(view.key - x / view.width, map.keys, view.width, plot.width),
    };
}

/** The view moved as little as shows a cell. */
export function revealCell(view, { row, key }, map, plot) {
    const near = (first, at, seen) => clamp(first, at + 1 - seen, at);
    return {
        ...view,
        row: within(near(view.row, row, plot.height / view.height), map.rows, view.height,
            plot.height),
        key: within(near(view.key, key, plot.width / view.width), map.keys, view.width, plot.width),
    };
}

/** Whether all of a map is seen. */
export function isWhole(view, map, plot) {
    return zoomOf(view, wholeView(map, plot)) <= 1.0001;
}

/** What of the map is seen, with fractions: {rows: [a, b], keys: [a, b]}. */
export function seenOf(view, map, plot) {
    return {
        rows: [view.row, Math.min(map.rows, view.row + plot.height / view.height)],
        keys: [view.key, Math.min(map.keys, view.key + plot.width / view.width)],
    };
}

/** The window of whole tokens that is nearest to a view. */
export function windowOf(view, map, plot) {
    if (isWhole(view, map, plot))
        return { rows: null, keys: null };
    const seen = seenOf(view, map, plot);
    const wholeTokens = ([first, end], count) => {
        const size = clamp(Math.round(end - first), 1, count);
        const from = clamp(Math.round(first), 0, count - size);
        return size === count ? null : [from, from + size];
    };
    return { rows: wholeTokens(seen.rows, map.rows), keys: wholeTokens(seen.keys, map.keys) };
}

/** The cell at a place of the plot, or null outside the map. */
export function cellAt(view, { x, y }, map) {
    const row = Math.floor(view.row + y / view.height);
    const key = Math.floor(view.key + x / view.width);
    return x >= 0 && y >= 0 && row < map.rows && key < map.keys ? { row, key } : null;
}
