/* head.js - one head: its map, and what its rows look at. */
import { TileStore } from '../data/tiles.js';
import { MapCanvas } from '../draw/map_canvas.js';
import { html, useEffect, useMemo, useState } from '../vendor/html.js';

export function Head({ state, change, source, onFault }) {
    const layer = source.layers.find((one) => one.layer === state.layer) ?? source.layers[0];
    const head = Math.min(state.head ?? 0, layer.heads - 1);
    const [hover, setHover] = useState(null);
    const store = useMemo(() => new TileStore(source, layer.layer, head), [source, layer, head]);
    useEffect(() => () => store.close(), [store]);
    return html`<div class="head-view">
        <${MapCanvas} store=${store} rowTokens=${layer.rowTokens} keyTokens=${layer.keyTokens}
            rows=${state.rows} keys=${state.keys} onWindow=${change}
            selected=${{ row: state.row, key: state.key }} onSelect=${change}
            hover=${hover} onHover=${setHover} scale=${state.scale} palette=${state.palette}
            label=${`Weights of layer ${layer.layer}, head ${head}`} onFault=${onFault} />
    </div>`;
}
