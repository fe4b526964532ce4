/* overview.js - every head of every layer as a small map in a grid, layers down, heads across. */
import { html, useEffect, useRef } from '../vendor/html.js';
import { drawMap } from '../draw/colours.js';

const SIDE = 64;

/* One layer's maps are asked for at once, and each head is a canvas. */
function LayerRow({ source, layer, state, change }) {
    const row = useRef(null);
    useEffect(() => {
        const ending = new AbortController();
        source.maps(layer.layer, { head: 'all', rows: [0, layer.rows], keys: [0, layer.keys], cells: [SIDE, SIDE],
            signal: ending.signal }).then((maps) => {
            const size = maps.rows * maps.keys;
            row.current.querySelectorAll('canvas').forEach((canvas, i) =>
                drawMap(canvas, maps.values.subarray(i * size, (i + 1) * size), maps.rows, maps.keys, state));
        }).catch(() => {});
        return () => ending.abort();
    }, [source, layer, state.scale, state.palette]);
    const open = (head) => change({ view: 'head', layer: layer.layer, head, rows: null, keys: null });
    return html`
        <div class="layer" ref=${row}>
            ${Array.from({ length: layer.heads }, (_, head) => html`
                <button class="map" title=${`layer ${layer.layer}, head ${head}`} onClick=${() => open(head)}>
                    <canvas width=${SIDE} height=${SIDE}></canvas>
                </button>`)}
        </div>`;
}

export function Overview({ state, change, source }) {
    return html`<div class="overview">
        ${source.layers.map((layer) => html`<${LayerRow} ...${{ source, layer, state, change }} />`)}
    </div>`;
}
