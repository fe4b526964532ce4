// SPDX-License-Identifier: Apache-2.0
/* head_follow.js - the fixed row in all layers, or in all heads of its layer. */
import { Strip } from '../draw/strip.js';
import { html, useState } from '../vendor/html.js';
import { layerTitle } from './head_controls.js';
import { useLines } from './map_lines.js';

/* The layers whose rows and keys are the same tokens, as far as they have this head. */
function layersLike(source, layer, head) {
    return source.layers.filter((one) => one.kind === layer.kind && one.rows === layer.rows
        && one.keys === layer.keys && head < one.heads);
}

/* What is asked for, and what each line is called. */
function linesOf(source, layer, head, through) {
    if (through === 'heads')
        return {
            asks: [{ layer: layer.layer, head: 'all' }],
            lines: Array.from({ length: layer.heads }, (_, h) =>
                ({ name: `${layer.layer}/${h}`, title: `head ${h}`, to: { head: h } })),
        };
    const layers = layersLike(source, layer, head);
    return {
        asks: layers.map((one) => ({ layer: one.layer, head })),
        lines: layers.map((one) => ({ name: `${one.layer}/${head}`,
            title: `layer ${layerTitle(source, one)}`, to: { layer: one.layer } })),
    };
}

/** The fixed row through layers or heads; go({layer} | {head}) looks at one of them. */
export function FollowRow({ source, layer, head, state, change, go, range, onFault }) {
    const [through, setThrough] = useState('layers');
    const { asks, lines } = linesOf(source, layer, head, through);
    const came = useLines(source, state.row, asks, onFault);
    const choice = (name, title) => html`
        <label><input type="radio" name="through" checked=${through === name}
            onChange=${() => setThrough(name)} />${title}</label>`;
    const caption = html`Row <b>${layer.rowTokens[state.row]?.label}</b> <small>${state.row}</small>
        ${through === 'layers' ? ` in head ${head} of each layer` : ` in each head of layer ${layer.layer}`}.
        On the right ${state.key === null ? 'its largest weight, and of which key'
            : html`its weight of key <b>${layer.keyTokens[state.key]?.label}</b> <small>${state.key}</small>`}.`;
    return html`
        <section class="follow" aria-label="The fixed row elsewhere">
            <div class="row">
                <span>Follow the fixed row through</span>
                ${choice('layers', `the layers (head ${head})`)}
                ${choice('heads', `the heads of layer ${layer.layer}`)}
            </div>
            ${state.row === null
                ? html`<p class="faint">Click a cell or a token of the map to fix its row.</p>`
                : html`<${Strip} caption=${caption} tokens=${layer.keyTokens} marked=${state.key}
                    lines=${lines.map((line) => ({ ...line, values: came.get(line.name) ?? null }))}
                    own=${`${layer.layer}/${head}`} scale=${state.scale} palette=${state.palette} range=${range.value}
                    onOpen=${(line) => go(line.to)}
                    onPick=${(line, key) => change({ key })} />`}
        </section>`;
}
