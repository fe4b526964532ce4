// SPDX-License-Identifier: Apache-2.0
/* why.js - one pair of tokens: how its weight comes about, stage by stage. */
import { Bars, largestOf } from '../draw/bars.js';
import { html, useEffect, useState } from '../vendor/html.js';
import { HeadChooser, LayerChooser, TokenChooser } from './choosers.js';
import { useLine } from './map_lines.js';
import { Steps } from './steps.js';
import { WhyChain } from './why_chain.js';
import { WhyRow } from './why_row.js';
import { WhyVectors } from './why_vectors.js';

/* The answer for a pair, the last one while the next is read: {pair, isReading}. */
function usePair(source, { layer, head, row, key }, onFault) {
    const [pair, setPair] = useState(null);
    useEffect(() => setPair(null), [source]);
    useEffect(() => {
        if (row === null || key === null)
            return undefined;
        const ending = new AbortController();
        source.pair({ layer, head, row, key, signal: ending.signal }).then((answer) => {
            if (!ending.signal.aborted)
                setPair(answer);
        }, (error) => ending.signal.aborted || onFault(error));
        return () => ending.abort();
    }, [source, layer, head, row, key]);
    const isThis = pair !== null && pair.layer === layer && pair.head === head && pair.row === row
        && pair.key === key;
    return { pair, isReading: !isThis };
}

/* Chooses what is not chosen: the last row, and the key that it looks at most. */
function useFirstPair({ state, change, layer, line }) {
    useEffect(() => {
        if (state.row === null)
            change({ row: layer.rows - 1 }, { isStep: false });
        else if (state.key === null && line?.index === state.row)
            change({ key: largestOf(line.values, 1)[0] ?? 0 }, { isStep: false });
    }, [layer, state.row, state.key, line]);
}

function Choosers({ source, layer, head, state, change }) {
    const toLayer = (number) => {
        const next = source.layers.find((one) => one.layer === number);
        const isAlike = next.rows === layer.rows && next.keys === layer.keys;
        change({ layer: number, head: Math.min(head, next.heads - 1), ...(isAlike ? {}
            : { row: null, key: null, rows: null, keys: null }) });
    };
    return html`<div class="view-tools">
        <${LayerChooser} source=${source} layer=${layer.layer} onLayer=${toLayer} />
        <${HeadChooser} heads=${layer.heads} head=${head} onHead=${(next) => change({ head: next })} />
        <${TokenChooser} label="Row" tokens=${layer.rowTokens} place=${state.row}
            onPlace=${(row) => change({ row })} />
        <${TokenChooser} label="Key" tokens=${layer.keyTokens} place=${state.key}
            onPlace=${(key) => change({ key })} />
        <button type="button" onClick=${() => change({ view: 'head', layer: layer.layer, head })}>
            Show in the map</button>
        ${source.pairs && html`<button type="button" aria-pressed=${state.step === null ? 'false' : 'true'}
            onClick=${() => change({ step: state.step === null ? 1 : null })}>Step by step</button>`}
    </div>`;
}

/* The question in words. */
function Question({ layer, head, state }) {
    if (state.row === null || state.key === null)
        return html`<p class="why-question">Choose a row and a key.</p>`;
    return html`<p class="why-question">Why does <b>${layer.rowTokens[state.row].label}</b>
        ${' '}<small>row ${state.row}</small> look at <b>${layer.keyTokens[state.key].label}</b>
        ${' '}<small>key ${state.key}</small> as it does, in layer ${layer.layer}, head ${head}?</p>`;
}

/* The pair stage by stage, and its row. */
function Stages({ source, layer, head, state, change, line, pair, onFault }) {
    return html`<${WhyChain} pair=${pair} />
        <div class="why-body">
            ${pair.products ? html`<${WhyVectors} pair=${pair} />`
                : html`<p class="faint">${source.lacks
                    ?? 'This source gives scores and weights, but not the vectors behind them.'}</p>`}
            <${Bars} caption=${line ? html`Row <b>${layer.rowTokens[line.index].label}</b> looks at`
                    : 'What the row looks at'} values=${line?.values ?? null} tokens=${layer.keyTokens}
                order="largest" scale=${state.scale} marked=${state.key}
                pairOf=${(at) => ({ row: line.index, key: at })} onPick=${(key) => change({ key })} />
        </div>
        ${pair.products && html`<${WhyRow} ...${{ source, layer, head, line, own: state.key, onFault }}
            onKey=${(key) => change({ key })} />`}`;
}

export function Why({ state, change, source, onFault, hasKeys }) {
    const layer = source.layers.find((one) => one.layer === state.layer) ?? source.layers[0];
    const head = Math.min(state.head ?? 0, layer.heads - 1);
    const line = useLine(source, { layer: layer.layer, head, side: 'row', index: state.row }, onFault);
    const { pair, isReading } = usePair(source, { layer: layer.layer, head, row: state.row,
        key: state.key }, onFault);
    useFirstPair({ state, change, layer, line });
    return html`<section class=${pair ? 'why' : 'why unread'} aria-label="Why" aria-busy=${isReading}>
        <${Choosers} ...${{ source, layer, head, state, change }} />
        ${state.step === null && html`<${Question} ...${{ layer, head, state }} />`}
        <p class="reading faint" aria-live="polite">${isReading && state.key !== null
            ? `Reading the stages of row ${state.row} and key ${state.key}…` : ''}</p>
        ${state.step !== null && source.pairs ? html`<${Steps} ...${{ source, layer, head, line, state, change, onFault,
            hasKeys }} />`
            : pair && html`<${Stages} ...${{ source, layer, head, state, change, line, pair, onFault }} />`}
    </section>`;
}
