// SPDX-License-Identifier: Apache-2.0
/* patches.js - weights over the patches of a picture, to point at and to walk by keys. */
import { html, useEffect, useRef } from '../vendor/html.js';
import { channelsOf } from './colours.js';

const SIDE = 448; /* pixels of the drawing over the picture, about */
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function drawPatches(canvas, { rows, columns }, { values, heat, look, marked, pointed }) {
    const step = Math.max(4, Math.round(SIDE / Math.max(rows, columns)));
    canvas.width = columns * step;
    canvas.height = rows * step;
    const context = canvas.getContext('2d');
    const boxOf = (patch) => [patch % columns * step, Math.floor(patch / columns) * step, step, step];
    const most = values ? values.reduce((a, b) => (b > a ? b : a), 1e-12) : 1;
    values?.forEach((value, patch) => {
        if (Number.isNaN(value))
            return;
        context.fillStyle = `rgba(${channelsOf(value / most, look).join()}, ${heat})`;
        context.fillRect(...boxOf(patch));
    });
    context.fillStyle = 'rgba(255, 255, 255, 0.35)';
    for (let row = 1; row < rows; row++)
        context.fillRect(0, row * step, canvas.width, 1);
    for (let column = 1; column < columns; column++)
        context.fillRect(column * step, 0, 1, canvas.height);
    for (const [patch, colour] of [[marked, '#ff8c3a'], [pointed, '#ffffff']])
        if (patch !== null)
            for (const [width, stroke] of [[6, '#000000'], [3, colour]]) {
                context.lineWidth = width;
                context.strokeStyle = stroke;
                context.strokeRect(...boxOf(patch));
            }
}

/* The patch that a key leads to from another, or null where it is no key of the grid. */
function patchAfter(key, patch, { rows, columns }) {
    const arrow = ARROWS[key];
    if (!arrow)
        return null;
    const at = patch ?? 0;
    const within = (place, count) => Math.min(Math.max(place, 0), count - 1);
    const row = within(Math.floor(at / columns) + (patch === null ? 0 : arrow[0]), rows);
    return row * columns + within(at % columns + (patch === null ? 0 : arrow[1]), columns);
}

/**
 * A picture under its weights. url; grid: {rows, columns}; values: a weight of each patch, shown as
 * parts of the largest, or null; heat: how much they cover, 0 to 1; look: {scale, palette}; marked,
 * pointed: a patch or null; label: in words; onPoint(patch | null), onFix(patch).
 */
export function Patches({ url, grid, values, heat, look, marked, pointed, label, onPoint, onFix }) {
    const canvas = useRef(null);
    useEffect(() => drawPatches(canvas.current, grid, { values, heat, look, marked, pointed }),
        [grid.rows, grid.columns, values, heat, look.scale, look.palette, marked, pointed]);
    const patchAt = ({ clientX, clientY }) => {
        const box = canvas.current.getBoundingClientRect();
        const row = Math.floor((clientY - box.top) / box.height * grid.rows);
        const column = Math.floor((clientX - box.left) / box.width * grid.columns);
        return row >= 0 && row < grid.rows && column >= 0 && column < grid.columns
            ? row * grid.columns + column : null;
    };
    const press = (event) => {
        const next = patchAfter(event.key, pointed ?? marked, grid);
        if (next === null && (event.key !== 'Enter' || pointed === null))
            return;
        event.preventDefault();
        if (next === null)
            onFix(pointed);
        else
            onPoint(next);
    };
    return html`
        <div class="patches" style=${{ aspectRatio: `${grid.columns} / ${grid.rows}` }}>
            <img src=${url} alt="" />
            <canvas ref=${canvas} tabindex="0" role="application" aria-roledescription="picture of patches"
                aria-label=${`${label} Arrow keys move from patch to patch, Enter fixes the row of one.`}
                onPointerMove=${(event) => onPoint(patchAt(event))} onPointerLeave=${() => onPoint(null)}
                onBlur=${() => onPoint(null)} onKeyDown=${press}
                onClick=${(event) => patchAt(event) !== null && onFix(patchAt(event))}></canvas>
        </div>`;
}
