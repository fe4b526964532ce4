// SPDX-License-Identifier: Apache-2.0
/* svg_heads.js - maps as a picture: large ones with their tokens, and all heads as small ones. */
import { axesPiece, axesRoom, axisTitles, framePiece, legendHeight, legendPiece, mapPiece, markPiece, stepOf }
    from './svg_map.js';
import { FAINT, fitted, label, widestOf } from './svg_text.js';

const MAP_MAX = 640;                             /* pixels, or points of a paper: the longer side of a map */
const CELL_MAX = 28;
const LEGEND_LEAST = 160;
const SMALL = 56;                                /* pixels of a head of the overview */
const ACROSS = 16;                               /* sorted heads beside each other on a screen */

const countOf = ([begin, end]) => end - begin;

/* The side of a cell: squares, as large as fit. */
function cellOf({ rows, keys }, wide, high) {
    return Math.min(wide / countOf(keys), high / countOf(rows));
}

/* The size of a panel, with the room of its axes, in a column so wide; so many lie below each other. */
function measured(panel, column, below, form) {
    let cell = form.isPaper ? Infinity : Math.min(CELL_MAX, cellOf(panel, MAP_MAX, MAP_MAX));
    let room = axesRoom(panel, cell, form);
    for (let i = 0; form.isPaper && i < 3; i++) { /* the labels' room follows from the cells, and the other way round */
        cell = cellOf(panel, column - room.left, MAP_MAX / below);
        room = axesRoom(panel, cell, form);
    }
    const width = Math.max(form.type, cell * countOf(panel.keys));
    return { panel, room, width: form.isPaper ? Math.min(width, column - room.left) : width,
        height: Math.max(form.type, cell * countOf(panel.rows)) };
}

/* Large maps with their axes: beside each other, in a narrow column of a paper below each other. */
export function rowOfMaps({ panels, fixed }, look, form, top) {
    const { margin, type, wide } = form;
    const across = form.isPaper && wide < 300 ? 1 : panels.length;
    const gap = form.isPaper ? 2 * type : 2 * margin;
    const column = form.isPaper ? (wide - 2 * margin - (across - 1) * gap) / across : 0;
    const name = panels.length === 1 ? 0 : type * 1.7;
    const parts = [];
    const places = [];
    let [x, y, right, bottom] = [margin, top, 0, top];
    const all = panels.map((panel) => measured(panel, column, panels.length / across, form));
    const highest = Math.max(...all.map(({ room }) => room.top));
    for (const { panel, room, width, height } of all) {
        const place = { x: x + room.left, y: y + name + highest, width, height };
        const long = Math.max(width, form.isPaper ? 0 : LEGEND_LEAST);
        const title = form.isPaper ? `(${'abc'[places.length]}) ${panel.name}` : panel.name;
        parts.push(name > 0 ? label(form.isPaper ? x : place.x, y + type, fitted(title, long + room.left, type, form,
            true), { 'font-weight': 'bold', 'font-size': type }) : '', mapPiece(panel, place, look, panels.length),
        framePiece(place), axesPiece(panel, place, room, form),
        markPiece(panel, place, fixed, { type, isGrey: look.isGrey }),
        legendPiece(place.x, place.y + height + type, long, panel, look, form));
        places.push(place);
        right = Math.max(right, place.x + long + (form.isPaper ? 0 : margin));
        bottom = Math.max(bottom, place.y + height + type + legendHeight(form));
        [x, y] = across === 1 ? [margin, bottom + gap] : [form.isPaper ? x + column + gap : place.x + long + gap, y];
    }
    return { parts, places, width: right, height: bottom };
}

/* All heads: a line for each layer. */
function gridOfMaps(panels, look, form, top) {
    const { type, small, margin, isPaper, wide } = form;
    const layers = [...new Set(panels.map((panel) => panel.layer))];
    const heads = Math.max(...panels.map((panel) => panel.head)) + 1;
    const room = { left: type * 1.5 + widestOf(layers.map(String), small, form) + small * 0.6,
        top: type * 1.5 + small };
    const step = isPaper ? Math.min((wide - 2 * margin - room.left) / heads, MAP_MAX / layers.length) : SMALL + 6;
    const side = isPaper ? step * 0.92 : SMALL;
    const [x, y] = [margin + room.left, top + room.top + small * 0.4];
    const parts = [axisTitles({ x, y, width: heads * step, height: layers.length * step }, room, ['layer', 'head'],
        form)];
    const every = stepOf(step, form);
    for (let head = 0; head < heads; head += every)
        parts.push(label(x + head * step + side / 2, y - small * 0.4, head,
            { 'text-anchor': 'middle', fill: FAINT, 'font-size': small }));
    layers.forEach((layer, i) => i % every === 0 && parts.push(label(x - small * 0.5,
        y + i * step + side / 2 + small * 0.35, layer, { 'text-anchor': 'end', fill: FAINT, 'font-size': small })));
    const places = panels.map((panel) => ({ x: x + panel.head * step, y: y + layers.indexOf(panel.layer) * step,
        width: side, height: side }));
    panels.forEach((panel, i) => {
        const map = `${mapPiece(panel, places[i], look, panels.length)}${isPaper ? framePiece(places[i]) : ''}`;
        parts.push(panel.isOut ? `<g opacity="0.15">${map}</g>` : map);
    });
    return { parts, places, left: x, right: x + heads * step, bottom: y + layers.length * step };
}

/* Heads in the order that a person chose, each with its name. */
function flowOfMaps(panels, look, form, top) {
    const { small, margin, isPaper, wide } = form;
    const name = widestOf(panels.map((panel) => panel.short), small, form) + small * 0.6;
    const across = isPaper ? Math.max(1, Math.floor((wide - 2 * margin) / Math.max(name, 28))) : ACROSS;
    const step = isPaper ? (wide - 2 * margin) / across : Math.max(SMALL + 6, name);
    const side = isPaper ? step * 0.88 : SMALL;
    const line = side + small * 2;
    const places = panels.map((_, i) => ({ x: margin + (i % across) * step + (step - side) / 2,
        y: top + Math.floor(i / across) * line, width: side, height: side }));
    const parts = panels.flatMap((panel, i) => [mapPiece(panel, places[i], look, panels.length),
        isPaper ? framePiece(places[i]) : '',
        label(places[i].x + side / 2, places[i].y + side + small * 1.1, panel.short,
            { 'text-anchor': 'middle', 'font-size': small, fill: FAINT })]);
    return { parts, places, left: margin, right: margin + Math.min(across, panels.length) * step,
        bottom: top + Math.ceil(panels.length / across) * line };
}

/* All heads in a grid, or in the order that was chosen, with one legend. */
export function headsPicture({ panels, sort }, look, form, top) {
    const draw = sort === 'layer' ? gridOfMaps : flowOfMaps;
    const { parts, places, left, right, bottom } = draw(panels, look, form, top);
    const { type, margin, isPaper, wide } = form;
    const long = Math.min(240, isPaper ? wide - margin - left - type : Infinity);
    const from = isPaper ? left + (Math.max(right - left, long) - long) / 2 : left + type;
    parts.push(legendPiece(from, bottom + type * 0.7, long, panels[0] ?? {}, look, form));
    return { parts, places, width: Math.max(right, from + long + type) + margin,
        height: bottom + type * 0.7 + legendHeight(form) };
}
