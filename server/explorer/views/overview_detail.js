// SPDX-License-Identifier: Apache-2.0
/* overview_detail.js - what is known of one head of the overview: in words, its numbers, and beside the maps, where
 * there is room, its map at a size that shows each cell. */
import { html, useEffect, useRef } from '../vendor/html.js';
import { SCORES } from './head_scores.js';
import { describeHead, describeKind, shortNumber, STATISTICS } from './head_words.js';
import { drawHead } from './map_grid.js';
import { HeadNames } from './overview_finder.js';

const SIDE_MOST = 480;

const HINT = 'Point at a head, or move with the arrow keys, to read what it does. Enter opens it. Layers (L) go down, '
    + 'heads (H) across; in a map, rows are queries (the tokens that look) and columns keys (the tokens looked at); '
    + 'hatched pairs may not be seen.';

function Words({ entry, unit }) {
    const { layer, head, statistics } = entry;
    const scores = SCORES.filter(({ name }) => Number.isFinite(statistics?.[name]));
    return html`
        <p><b>Layer ${layer.layer}, head ${head}</b> ${describeHead(entry, unit)}<${HeadNames} entry=${entry} />
            <span class="faint">${' '}${describeKind(layer.kind)}</span></p>
        <dl>${[...STATISTICS, ...scores].map(({ name, label, unit: of }) => html`
            <div><dt>${label}</dt><dd data-statistic=${name} data-value=${statistics?.[name] ?? ''}>
                ${shortNumber(statistics?.[name])}
                ${of && Number.isFinite(statistics?.[name]) && ` ${of}`}</dd></div>`)}</dl>`;
}

/* The maps of its layer are at hand: their loader is that of the small maps. */
function Preview({ entry, loader, side, scale, palette, range }) {
    const canvas = useRef(null);
    const { layer, head } = entry;
    useEffect(() => loader.want(layer, (maps) => canvas.current && range !== null
        && drawHead(canvas.current, maps, head, { side, scale, palette, range })),
    [loader, layer, head, side, scale, palette, range]);
    return html`<div class="head-preview" style=${{ minHeight: `${side}px` }}>
        <canvas ref=${canvas} width="1" height="1" aria-hidden="true"></canvas></div>`;
}

/* Above the maps: of the head under the pointer or the focus. Its place is kept while there is none. */
export function HeadDetail({ entry, unit }) {
    return entry ? html`<div class="head-detail"><${Words} entry=${entry} unit=${unit} /></div>`
        : html`<p class="head-detail faint">${HINT}</p>`;
}

/* Beside the maps: of that head, else of the one that is chosen. width: how much room there is. */
export function HeadAside({ entry, unit, width, ...look }) {
    const side = Math.min(SIDE_MOST, width);
    return html`<div class="head-detail">
        ${entry && html`<${Words} entry=${entry} unit=${unit} />
            <${Preview} entry=${entry} ...${look} side=${side} />`}
        <p class="faint">${HINT}</p>
    </div>`;
}
