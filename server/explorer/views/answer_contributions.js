// SPDX-License-Identifier: Apache-2.0
/* answer_contributions.js - the parts that sum to the answer's logit: heads as a map, layers down, heads across, each
 * layer's feed-forward beside them, and all parts as a list, the largest first. */
import { html, useMemo, useState } from '../vendor/html.js';
import { partsOfLogit } from '../data/reading.js';
import { plural } from '../data/words.js';
import { labelsOf } from './answer_token.js';
import { EffectBar, effectColour, effectText, largestEffect } from './effect.js';
import { shortNumber } from './head_words.js';
import { useRoving } from './roving.js';

const LISTED = 12;

/* What a part of a layer is called, in words and above its column. */
const NAMES = { feed_forward: ['feed-forward', 'FF'], attention_bias: ['bias of attention', 'bias'],
    edits: ['edits', 'edits'] };

function partWords({ name, layer, head }) {
    if (layer === null)
        return name === 'bias' ? 'bias of the norms and the head' : name;
    return `layer ${layer}, ${name === 'head' ? `head ${head}` : NAMES[name][0]}`;
}

const openedWords = ({ name }) => (name === 'head' ? '; opens the head' : '');

/* A head is a button that opens it; what has no view of its own is a picture. */
function PartCell({ part, largest, onOpen }) {
    const { name, layer, head, value } = part;
    const props = { class: 'wrote', 'data-wrote': value, 'data-name': name, 'data-of': layer, 'data-head': head,
        'aria-label': `${partWords(part)}: ${effectText(value)}${openedWords(part)}`,
        style: { backgroundColor: effectColour(value, largest) } };
    return name === 'head' ? html`<button type="button" ...${props} onClick=${() => onOpen(layer, head)}></button>`
        : html`<span role="img" tabindex="-1" ...${props}></span>`;
}

/* The columns beside the heads: those with something in them. */
function columnsOf(parts) {
    return Object.keys(NAMES).filter((name) => name === 'feed_forward'
        || parts.some((part) => part.name === name && part.value !== 0));
}

function PartGrid({ layers, parts, largest, onLook, onOpen }) {
    const { ref, onFocusIn, onKeyDown } = useRoving('.wrote', parts);
    const columns = columnsOf(parts);
    const most = Math.max(...layers.map(({ heads }) => heads.length));
    const look = ({ target }) => {
        const cell = target.closest('.wrote');
        onLook(cell && parts.find(({ name, layer, head }) => name === cell.dataset.name
            && String(layer) === cell.dataset.of && (head === null || String(head) === cell.dataset.head)));
    };
    const cells = useMemo(() => layers.map(({ layer, kind }) => {
        const own = parts.filter((part) => part.layer === layer);
        const cellOf = (part) => part && html`<${PartCell} ...${{ part, largest, onOpen }} />`;
        return html`<tr key=${layer}><th scope="row">L${layer}${kind !== 'self' && html` <small>${kind}</small>`}</th>
            ${Array.from({ length: most }, (_, head) => html`<td key=${head}>
                ${cellOf(own.find((part) => part.head === head))}</td>`)}
            ${columns.map((name) => html`<td key=${name} class="beside">
                ${cellOf(own.find((part) => part.name === name))}</td>`)}</tr>`;
    }), [layers, parts]);
    return html`<div class="effects-scroller" ref=${ref} onPointerOver=${look} onPointerLeave=${() => onLook(null)}
        onFocusIn=${(event) => { onFocusIn(event); look(event); }} onKeyDown=${onKeyDown}>
        <table class="effect-grid"><caption class="hidden">What heads and feed-forward parts wrote, layers down, heads
            across</caption>
            <thead><tr><td></td>${Array.from({ length: most }, (_, head) => html`
                <th scope="col" key=${head}>H${head}</th>`)}
                ${columns.map((name) => html`
                    <th scope="col" key=${name} title=${NAMES[name][0]}>${NAMES[name][1]}</th>`)}
            </tr></thead>
            <tbody>${cells}</tbody></table></div>`;
}

function PartList({ parts, largest }) {
    const [isWhole, setIsWhole] = useState(false);
    const sorted = useMemo(() => [...parts].sort((a, b) => Math.abs(b.value) - Math.abs(a.value)), [parts]);
    const shown = isWhole ? sorted : sorted.slice(0, LISTED);
    const rest = sorted.slice(LISTED);
    const sum = rest.reduce((all, { value }) => all + value, 0);
    return html`<div class="table-scroller" tabindex="0" role="region" aria-label="Parts by size">
        <table class="wrote-table"><caption class="hidden">Parts of the logit, the largest first</caption>
            <thead class="hidden"><tr><th scope="col">Part</th><th scope="col">wrote</th></tr></thead>
            <tbody>${shown.map((part) => html`<tr key=${partWords(part)}><th scope="row">${partWords(part)}</th>
                <td data-part-value=${part.value}><${EffectBar} value=${part.value} largest=${largest} />
                    <span class="number">${effectText(part.value)}</span></td></tr>`)}</tbody></table></div>
        ${rest.length > 0 && html`<p class="row"><button type="button" class="plain" aria-expanded=${isWhole}
            data-whole onClick=${() => setIsWhole(!isWhole)}>${isWhole ? `The ${LISTED} largest alone`
                : `And ${plural(rest.length, 'smaller part')}, together ${effectText(sum)}`}</button></p>`}`;
}

/* What the parts sum to. */
function SumWords({ contribution, parts, isCapped }) {
    const sum = parts.reduce((all, { value }) => all + value, 0);
    const [label, other] = labelsOf([contribution, ...(contribution.against ? [contribution.against] : [])]);
    return html`<p class="sum-words" data-sum=${sum} data-logit=${contribution.logit}>All ${parts.length} parts sum to
        ${' '}<b>${shortNumber(sum)}</b>: the ${other ? html`difference of the logits of <b>${label}</b> and
            ${' '}<b>${other}</b>` : html`logit of <b>${label}</b>`}${isCapped && ', before a softcap'}.</p>`;
}

function PartWords({ looked }) {
    return html`<p class=${looked ? 'effect-words' : 'effect-words faint'}>${looked
        ? html`<b>${partWords(looked)}</b> wrote <b>${effectText(looked.value)}</b>`
        : 'Point at a part, or move with the arrow keys, to read what it wrote. A click on a head opens it.'}</p>`;
}

/* found: of askContributions(), or null while it is asked for. */
export function AnswerContributions({ found, change, children }) {
    const [looked, setLooked] = useState(null);
    const parts = useMemo(() => (found ? partsOfLogit(found.contribution) : []), [found]);
    const largest = largestEffect(parts.map(({ value }) => value));
    const onOpen = (layer, head) => change({ view: 'head', layer, head, rows: null, keys: null });
    return html`<section class="answer-contributions" aria-label="What each part wrote">
        <h3>What each part wrote into the answer</h3>
        ${children}
        ${found && html`<${SumWords} ...${found} parts=${parts} />
            <div class="answer-beside"><div>
                <${PartWords} looked=${looked} />
                <${PartGrid} ...${{ layers: found.contribution.layers, parts, largest, onOpen, onLook: setLooked }} />
                <p class="effect-legend faint"><i class="negative"></i> against the answer
                    ${' '}<i class="positive"></i> for it; full at ${shortNumber(largest)}</p>
            </div><div><${PartList} parts=${parts} largest=${largest} /></div></div>`}
    </section>`;
}
