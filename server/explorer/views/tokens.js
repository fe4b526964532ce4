/* tokens.js - lines between the tokens that look and those that are looked at, each head in its
 * colour. */
import { weightText } from '../draw/scales.js';
import { drawnLines, LINES_OF_A_ROW, linesOf } from '../draw/lines.js';
import { html, useEffect, useMemo, useState } from '../vendor/html.js';
import { LayerChooser } from './choosers.js';
import { HeadSign, HeadSwatches } from './head_swatches.js';
import { askLines } from './map_lines.js';
import { TokenColumns } from './token_columns.js';

const WINDOW = 200;      /* tokens of a column */
const NUMBERS_MAX = 20;
const FIRST_THRESHOLD = 0.1;
const HOVER_MS = 30;     /* a token that the pointer only passes is not asked for */

/* The part of count tokens that is shown: the chosen range, cut to what a column holds, else the
 * page that has the fixed token. */
function windowOf(range, fixed, count) {
    const begin = Math.min(range ? range[0] : Math.floor((fixed ?? 0) / WINDOW) * WINDOW, count - 1);
    return [begin, Math.min(count, begin + WINDOW, range ? Math.max(range[1], begin + 1) : count)];
}

/** The rows and keys of a layer that the two columns show: a window of this view alone, for the
 * zoom of a map would hide most of a row. */
export function columnsOf(state, layer) {
    return { rows: windowOf(state.lineRows, state.row, layer.rows),
        keys: windowOf(state.lineKeys, state.key, layer.keys) };
}

/* All heads' weights of a window, pair by pair; null while they are read. */
function useMaps(source, layer, rows, keys, onFault) {
    const [maps, setMaps] = useState(null);
    useEffect(() => {
        const ending = new AbortController();
        setMaps(null);
        source.maps(layer.layer, { head: 'all', rows, keys, signal: ending.signal,
            cells: [rows[1] - rows[0], keys[1] - keys[0]] }).then((read) => {
            if (!ending.signal.aborted)
                setMaps(read);
        }, (error) => ending.signal.aborted || onFault(error));
        return () => ending.abort();
    }, [source, layer, rows.join(), keys.join()]);
    return maps;
}

/* Steps through more tokens than a column holds. */
function Pager({ word, range, count, onRange }) {
    if (range[0] === 0 && range[1] === count)
        return null;
    const to = (begin) => onRange([begin, Math.min(count, begin + WINDOW)]);
    return html`<span class="pager">${word} ${range[0]} to ${range[1] - 1} of ${count}
        <button type="button" aria-label=${`Earlier ${word}`} disabled=${range[0] === 0}
            onClick=${() => to(Math.max(0, range[0] - WINDOW))}>◀</button>
        <button type="button" aria-label=${`Later ${word}`} disabled=${range[1] === count}
            onClick=${() => to(range[1])}>▶</button></span>`;
}

/* The weights of the active token in all heads, beyond the columns too: {row} or {key} with lines
 * as linesOf() gives them, counted from the first token of the text; null while they are read. */
function useWhole(source, layer, active, onFault) {
    const [whole, setWhole] = useState(null);
    const side = active?.row === undefined ? 'key' : 'row';
    const index = active?.[side] ?? null;
    useEffect(() => {
        setWhole(null);
        if (index === null)
            return undefined;
        const ending = new AbortController();
        const timer = setTimeout(() => askLines(source, { layer: layer.layer, head: 'all', side, index },
            ending.signal).then((lines) => setWhole({ side, index, lines }), onFault), HOVER_MS);
        return () => {
            clearTimeout(timer);
            ending.abort();
        };
    }, [source, layer, side, index]);
    return whole?.side === side && whole.index === index ? whole : null;
}

function linesOfWhole({ side, index, lines }, heads, threshold) {
    return heads.flatMap((head) => Array.from(lines[head], (weight, at) => ({ head, weight,
        row: side === 'row' ? index : at, key: side === 'row' ? at : index })))
        .filter(({ weight }) => weight >= (threshold ?? 0) && weight > 0).sort((a, b) => b.weight - a.weight);
}

/* The largest weights of the active token. */
function Numbers({ source, layer, heads, threshold, active, onFault, onWhy }) {
    const whole = useWhole(source, layer, active, onFault);
    const own = useMemo(() => whole && linesOfWhole(whole, heads, threshold), [whole, heads.join(), threshold]);
    if (!active)
        return html`<div class="token-numbers faint"><p>Point at a token, or move with the arrow keys, to
            see its lines alone, with their numbers. A click or Enter fixes it.</p></div>`;
    const isRow = active.row !== undefined;
    const token = isRow ? layer.rowTokens[active.row] : layer.keyTokens[active.key];
    return html`<div class="token-numbers" aria-busy=${!own}>
        <h3>${isRow ? html`<b>${token.label}</b> looks at` : html`Who looks at <b>${token.label}</b>`}</h3>
        ${own?.length === 0 && html`<p>No weight of these heads reaches ${threshold ?? 'more than 0'}.</p>`}
        <ol>${(own ?? []).slice(0, NUMBERS_MAX).map(({ head, row, key, weight }) => html`
            <li key=${`${head} ${row} ${key}`} data-head=${head} data-row=${row} data-key=${key}
                data-weight=${weight}>
                <button type="button" title="Why this weight" onClick=${() => onWhy(head, row, key)}>
                    <${HeadSign} head=${head} /><span>head ${head}</span>
                    <b>${(isRow ? layer.keyTokens[key] : layer.rowTokens[row]).label}</b>
                    <span>${weightText(weight)}</span></button></li>`)}</ol>
        ${own?.length > NUMBERS_MAX && html`<p>and ${own.length - NUMBERS_MAX} smaller</p>`}
    </div>`;
}

/* Which weights are lines: the largest of each row, or those from a threshold on. */
function ThresholdChooser({ threshold, onThreshold }) {
    return html`<label class="chooser">Lines
            <select class="line-choice" value=${threshold === null ? 'largest' : 'threshold'}
                onChange=${(event) => onThreshold(event.target.value === 'largest' ? null : FIRST_THRESHOLD)}>
                <option value="largest">${LINES_OF_A_ROW} largest of a row</option>
                <option value="threshold">from a threshold on</option>
            </select></label>
        ${threshold !== null && html`<label class="chooser">Threshold
            <span><input type="range" min="0" max="1" step="0.01" value=${threshold}
                onInput=${(event) => onThreshold(Number(event.target.value))} />
                <output>${threshold.toFixed(2)}</output></span></label>`}`;
}

function Tools({ source, layer, state, change, count }) {
    return html`<div class="view-tools">
        <${LayerChooser} source=${source} layer=${layer.layer}
            onLayer=${(number) => change({ layer: number, heads: null })} />
        <${ThresholdChooser} threshold=${state.threshold} onThreshold=${(threshold) => change({ threshold })} />
        <${HeadSwatches} heads=${layer.heads} chosen=${state.heads}
            onChosen=${(heads) => change({ heads })} />
        <span role="status" class="faint">${count}</span>
    </div>`;
}

const isSame = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/* The token that a click has fixed, {row} or {key}; null: none. */
function fixedOf({ row, key }) {
    return row !== null ? { row } : key !== null ? { key } : null;
}

function countWords(layer, maps, lines) {
    if (!maps)
        return `Reading the maps of layer ${layer.layer}…`;
    const drawn = drawnLines(lines).length;
    return drawn < lines.length ? `the ${drawn} largest of ${lines.length} lines`
        : lines.length === 1 ? '1 line' : `${lines.length} lines`;
}

export function Tokens({ state, change, source, onFault }) {
    const layer = source.layers.find((one) => one.layer === state.layer) ?? source.layers[0];
    const fixed = fixedOf(state);
    const { rows, keys } = columnsOf(state, layer);
    const maps = useMaps(source, layer, rows, keys, onFault);
    const [hover, setHover] = useState(null);
    useEffect(() => setHover(null), [source, layer]);
    const all = Array.from({ length: layer.heads }, (_, head) => head);
    const heads = all.filter((head) => state.heads === null || state.heads.includes(head));
    const threshold = state.threshold === null ? null : Math.min(1, Math.max(0, state.threshold));
    const isSeen = (token) => token && (token.row === undefined
        ? token.key >= keys[0] && token.key < keys[1] : token.row >= rows[0] && token.row < rows[1]);
    const active = [hover, fixed].find(isSeen) ?? null;
    const only = active && (active.row === undefined ? { key: active.key - keys[0] } : { row: active.row - rows[0] });
    const [lines, own] = [null, only].map((part) => useMemo(() => (!maps ? [] : linesOf(maps, { heads, threshold,
        only: part })), [maps, heads.join(), threshold, part?.row, part?.key]));
    const count = useMemo(() => countWords(layer, maps, only ? own : lines), [layer, maps, only ? own : lines]);
    const fix = (token) => change(isSame(fixed, token) ? { row: null, key: null }
        : { row: null, key: null, ...token });
    const shown = { layer, lines, own: only && own, rows, keys, heads, threshold, active };
    return html`<section class="tokens-view" aria-label="Tokens" aria-busy=${!maps}
        onKeyDown=${(event) => event.key === 'Escape' && change({ row: null, key: null })}>
        <${Tools} ...${{ source, layer, state, change, count }} />
        <p class="pagers">
            <${Pager} word="rows" range=${rows} count=${layer.rows} onRange=${(range) => change({ lineRows: range })} />
            <${Pager} word="keys" range=${keys} count=${layer.keys} onRange=${(range) => change({ lineKeys: range })} />
        </p>
        <div class="tokens-body">
            <${TokenColumns} ...${shown} fixed=${fixed} onHover=${setHover} onFix=${fix} />
            <${Numbers} ...${shown} source=${source} onFault=${onFault} onWhy=${(head, row, key) =>
                change({ view: 'why', layer: layer.layer, head, row, key })} />
        </div>
    </section>`;
}
