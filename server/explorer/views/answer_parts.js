// SPDX-License-Identifier: Apache-2.0
/* answer_parts.js - the parts of the prompt: how much the answering row looks at each, beside what the answer is
 * without it. */
import { html, useEffect, useRef, useState } from '../vendor/html.js';
import { canLeaveOut, promptTokens } from '../data/answer.js';
import { drawMap } from '../draw/colours.js';
import { AnswerPrompt, textOfPart } from './answer_prompt.js';
import { EffectBar, effectText, EffectLegend, largestEffect, leavesText } from './effect.js';
import { shortNumber } from './head_words.js';
import { SectionFault } from './use_answer.js';

const nameOf = (part) => part.join(':');

/* The mean over all heads, and the largest with its place. */
function summaryOf(layers) {
    const all = layers.flatMap(({ layer, shares }) => shares.map((share, head) => ({ layer, head, share })));
    const most = all.reduce((best, one) => (one.share > best.share ? one : best));
    return { mean: all.reduce((sum, { share }) => sum + share, 0) / all.length, most };
}

/* A pixel for each head, layers down, heads across. */
function ShareMap({ layers, most, palette }) {
    const canvas = useRef(null);
    const columns = Math.max(...layers.map(({ shares }) => shares.length));
    useEffect(() => {
        const values = new Float32Array(columns * layers.length);
        layers.forEach(({ shares }, row) => values.set(shares, row * columns));
        drawMap(canvas.current, values, layers.length, columns, { scale: 'linear', palette });
    }, [layers, palette]);
    const said = `most in layer ${most.layer}, head ${most.head}: ${shortNumber(most.share)}`;
    return html`<canvas class="share-map" ref=${canvas} role="img" width=${columns} height=${layers.length}
        style=${{ aspectRatio: `${columns} / ${layers.length}` }}
        aria-label=${`Share by layer and head, ${said}`} title=${`Layers down, heads across; ${said}`}>
        </canvas>`;
}

function Looked({ layers, palette }) {
    if (!layers)
        return html`<td class="looked" data-label="Looked at">…</td>`;
    const { mean, most } = summaryOf(layers);
    return html`<td class="looked" data-label="Looked at" data-share=${mean}>
        <span class="share-bar" aria-hidden="true"><i style=${{ width: `${100 * Math.min(1, mean)}%` }}></i></span>
        <span class="number">${shortNumber(100 * mean)} %</span>
        <${ShareMap} ...${{ layers, most, palette }} /></td>`;
}

function PartRow({ part, text, layers, effect, base, largest, isKept, palette, onLook, onRemove }) {
    const known = effect !== undefined;
    return html`<tr data-part=${nameOf(part)} onPointerEnter=${() => onLook(part)} onPointerLeave=${() => onLook(null)}>
        <th scope="row" title=${text}><span>${text}</span>
            <small class="faint">tokens ${part[0]} to ${part[1] - 1}</small></th>
        <${Looked} ...${{ layers, palette }} />
        ${isKept ? html`<td class="without" data-label="Without it"><small class="faint">the answer stands in it, so
                it cannot be left out</small></td><td data-label="Leaves">–</td>`
        : html`<td class="without" data-label="Without it" data-effect=${effect}>
            <${EffectBar} value=${effect} largest=${largest} />
            <span class="number">${known ? effectText(effect) : '…'}</span></td>
        <td class="number leaves" data-label="Leaves">${leavesText(base, effect)}</td>`}
        <td><button type="button" class="remove" aria-label=${`Remove the part ${text}`} title="Remove this part"
            onClick=${onRemove}>×</button></td></tr>`;
}

function WayChooser({ by, change }) {
    const ways = [['hide', 'hidden', 'No head sees its tokens; all positions stay'],
        ['leave_out', 'left out', 'The text without it; what is behind it moves']];
    return html`<fieldset class="segments"><legend class="hidden">A part is</legend>
        <span class="segments-label" aria-hidden="true">A part is</span>
        ${ways.map(([name, title, says]) => html`<label class=${by === name ? 'chosen' : ''} title=${says}>
            <input type="radio" name="by" value=${name} checked=${by === name}
                onChange=${() => change({ by: name })} />${title}</label>`)}</fieldset>`;
}

const sorted = (parts) => [...new Map(parts.map((part) => [nameOf(part), part])).values()]
    .sort((a, b) => a[0] - b[0] || a[1] - b[1]);

/* parts: ranges of the prompt's tokens; found and faults as of useAnswer(). */
export function AnswerParts({ source, state, change, answer, parts, found, faults, onAgain }) {
    const [looked, setLooked] = useState(null);
    const tokens = promptTokens(source);
    useEffect(() => setLooked(null), [parts]);
    const effectOf = (part) => found.parts?.values.get(nameOf(part));
    const largest = largestEffect(parts.map(effectOf));
    const isKept = (part) => state.by === 'leave_out' && !canLeaveOut(source, answer, part);
    const base = found.parts?.base ?? null;
    return html`<section class="answer-parts" aria-label="Parts of the prompt">
        <div class="view-tools"><h3>Parts of the prompt</h3><${WayChooser} by=${state.by} change=${change} />
            <button type="button" disabled=${state.parts === null} onClick=${() => change({ parts: null })}>
                As the text is written</button>
            <button type="button" disabled=${parts.length === 0} onClick=${() => change({ parts: [] })}>
                Remove all</button>
        </div>
        <p class="answer-words">Where the row looks says what may matter; taking a part away says whether it does.</p>
        <${AnswerPrompt} ...${{ tokens, parts, effectOf, largest, looked,
            onAdd: (range) => change({ parts: sorted([...parts, range]) }) }} />
        <${SectionFault} fault=${faults.shares} onAgain=${onAgain} />
        <${SectionFault} fault=${faults.parts} onAgain=${onAgain} />
        <table class="parts-table"><caption class="hidden">Parts of the prompt, how much the row looks at each,
            and what the answer is without it</caption>
            <thead><tr><th scope="col">Part</th><th scope="col">Looked at, mean over heads</th>
                <th scope="col">Without it, nats</th>
                <th scope="col">${answer.against === null ? 'leaves' : 'leaves a difference of'}</th>
                <td></td></tr></thead>
            <tbody>${parts.map((part, i) => html`<${PartRow} key=${nameOf(part)} ...${{ part,
                text: textOfPart(tokens, part), layers: found.shares?.values.get(nameOf(part)), effect: effectOf(part),
                base, largest, isKept: isKept(part), palette: state.palette, onLook: setLooked,
                onRemove: () => change({ parts: parts.filter((_, at) => at !== i) }) }} />`)}</tbody></table>
        ${parts.length === 0 && html`<p class="faint">No part is asked about. Mark one in the text above.</p>`}
        <${EffectLegend} largest=${largest} />
    </section>`;
}
