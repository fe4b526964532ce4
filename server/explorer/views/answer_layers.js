// SPDX-License-Identifier: Apache-2.0
/* answer_layers.js - what the answer is without the attention and the feed-forward part of a layer, and without its
 * feed-forward part alone, as bars. */
import { html } from '../vendor/html.js';
import { layersOfKind } from '../data/answer.js';
import { EffectBar, effectText, EffectLegend, largestEffect } from './effect.js';
import { SectionFault } from './use_answer.js';

function EffectCell({ each, layer, label, effect, largest }) {
    return html`<td data-each=${each} data-layer=${layer} data-effect=${effect} data-label=${label}>
        <${EffectBar} value=${effect} largest=${largest} />
        <span class="number">${effect === undefined ? '…' : effectText(effect)}</span></td>`;
}

export function AnswerLayers({ source, kind, found, faults, onAgain }) {
    const layers = layersOfKind(source, kind);
    const columns = [['layers', kind === 'cross' ? 'attention' : 'attention and feed-forward'],
        ...(kind === 'cross' ? [] : [['feed_forwards', 'feed-forward alone']])];
    const largest = largestEffect(columns.flatMap(([each]) => [...found[each]?.values.values() ?? []]));
    return html`<section class="answer-layers" aria-label="Layers">
        <h3>Layers, each switched off alone</h3>
        ${columns.map(([each]) => html`<${SectionFault} key=${each} fault=${faults[each]} onAgain=${onAgain} />`)}
        <table class="layers-table"><caption class="hidden">What the answer gains without each layer, in nats</caption>
            <thead><tr><th scope="col">Layer</th>${columns.map(([each, label]) => html`
                <th scope="col" key=${each}>${label}, nats</th>`)}</tr></thead>
            <tbody>${layers.map(({ layer }) => html`<tr key=${layer}><th scope="row">L${layer}</th>
                ${columns.map(([each, label]) => html`<${EffectCell} key=${each} ...${{ each, layer, label, largest,
                    effect: found[each]?.values.get(layer) }} />`)}</tr>`)}</tbody></table>
        <${EffectLegend} largest=${largest} />
    </section>`;
}
