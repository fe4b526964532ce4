// SPDX-License-Identifier: Apache-2.0
/* answer_heads.js - layers down, heads across, each head coloured by what the answer loses or gains when it is switched
 * off. A click switches it off for the whole page. */
import { html, useLayoutEffect, useMemo, useRef, useState } from '../vendor/html.js';
import { layersOfKind } from '../data/answer.js';
import { effectColour, effectText, EffectLegend, largestEffect, leavesText } from './effect.js';
import { useRoving } from './roving.js';
import { SectionFault } from './use_answer.js';

const sameHead = ([layer, head], other) => layer === other[0] && head === other[1];

/* The page is of another pass after a switch, and the view is made anew: the focus goes back to the head. */
let switched = null;

function HeadCell({ layer, head, effect, largest, isOff, onSwitch }) {
    const words = effect === undefined ? 'not known yet' : `${effectText(effect)} nats`;
    return html`<button type="button" class=${isOff ? 'effect off' : 'effect'} data-layer=${layer} data-head=${head}
        data-effect=${effect} aria-pressed=${isOff ? 'true' : 'false'}
        aria-label=${`Switch off layer ${layer}, head ${head}: ${words}`}
        style=${{ backgroundColor: effectColour(effect, largest) }} onClick=${() => onSwitch([layer, head])}></button>`;
}

/* The head under the pointer or the focus; its place is kept while there is none. */
function HeadWords({ looked, effect, base, isOff }) {
    if (!looked)
        return html`<p class="effect-words faint">Point at a head, or move with the arrow keys, to read its effect. A
            click or Enter switches it off in all views.</p>`;
    const [layer, head] = looked;
    return html`<p class="effect-words"><b>Layer ${layer}, head ${head}</b>${isOff
        ? ' is switched off; a click or Enter switches it on'
        : html`${' '}without it: <b data-layer=${layer} data-head=${head} data-effect=${effect}>
            ${effect === undefined ? '…' : `${effectText(effect)} nats`}</b>, which leaves
            ${' '}${leavesText(base, effect)}`}</p>`;
}

function HeadTable({ layers, values, most }) {
    return html`<details class="effect-table"><summary>The numbers as a table</summary>
        <div class="table-scroller" tabindex="0" role="region" aria-label="Effects of heads">
        <table class="head-table"><caption class="hidden">What the answer gains without each head, in nats</caption>
            <thead><tr><th scope="col">Layer</th>${Array.from({ length: most }, (_, head) => html`
                <th scope="col" key=${head}>H${head}</th>`)}</tr></thead>
            <tbody>${layers.map(({ layer }) => html`<tr key=${layer}><th scope="row">L${layer}</th>
                ${(values?.get(layer) ?? []).map((effect, head) => html`<td key=${head} data-layer=${layer}
                    data-head=${head} data-effect=${effect}>${effectText(effect)}</td>`)}</tr>`)}</tbody>
        </table></div></details>`;
}

function HeadGrid({ layers, most, values, largest, off, onLook, onSwitch }) {
    const { ref, onFocusIn, onKeyDown } = useRoving('button.effect', layers);
    const look = ({ target }) => {
        const cell = target.closest('button.effect');
        onLook(cell && [Number(cell.dataset.layer), Number(cell.dataset.head)]);
    };
    useLayoutEffect(() => {
        if (switched)
            ref.current.querySelector(`[data-layer="${switched[0]}"][data-head="${switched[1]}"]`)?.focus();
        switched = null;
    }, []);
    const cells = useMemo(() => layers.map(({ layer, heads, kind }) => html`<tr key=${layer}>
        <th scope="row">L${layer}${kind !== 'self' && html` <small>${kind}</small>`}</th>
        ${Array.from({ length: heads }, (_, head) => html`<td key=${head}><${HeadCell} ...${{ layer, head, largest,
            effect: values?.get(layer)?.[head], onSwitch, isOff: off.some((one) => sameHead(one, [layer, head])) }} />
            </td>`)}</tr>`), [layers, values, largest, off]);
    return html`<div class="effects-scroller" ref=${ref} onPointerOver=${look} onPointerLeave=${() => onLook(null)}
        onFocusIn=${(event) => { onFocusIn(event); look(event); }} onKeyDown=${onKeyDown}>
        <table class="effect-grid"><caption class="hidden">Effects of heads, layers down, heads across</caption>
            <thead><tr><td></td>${Array.from({ length: most }, (_, head) => html`
                <th scope="col" key=${head}>H${head}</th>`)}</tr></thead>
            <tbody>${cells}</tbody></table></div>`;
}

/* kind: of the layers, or null where there is one kind. */
export function AnswerHeads({ source, state, change, answer, kind, found, faults, onAgain }) {
    const [looked, setLooked] = useState(null);
    const layers = useMemo(() => layersOfKind(source, kind), [source, kind]);
    const most = Math.max(...layers.map(({ heads }) => heads));
    const { values, base } = found.heads ?? {};
    const largest = largestEffect([...values?.values() ?? []].flat());
    const { off } = state;
    const now = useRef(null);
    now.current = (one) => {
        switched = one;
        const others = off.filter((other) => !sameHead(other, one));
        change({ target: answer.token, off: others.length < off.length ? others
            : [...off, one].sort((a, b) => a[0] - b[0] || a[1] - b[1]) });
    };
    return html`<section class="answer-heads" aria-label="Heads">
        <h3>Heads, each switched off alone</h3>
        <${HeadWords} looked=${looked} base=${base} effect=${looked && values?.get(looked[0])?.[looked[1]]}
            isOff=${looked && off.some((one) => sameHead(one, looked))} />
        <${SectionFault} fault=${faults.heads} onAgain=${onAgain} />
        <${HeadGrid} ...${{ layers, most, values, largest, off, onLook: setLooked,
            onSwitch: (one) => now.current(one) }} />
        <${EffectLegend} largest=${largest} />
        <${HeadTable} ...${{ layers, values, most }} />
    </section>`;
}
