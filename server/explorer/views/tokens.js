// SPDX-License-Identifier: Apache-2.0
/* tokens.js - which tokens look at which: as lines between two columns, each head in its colour, or as running text in
 * colours. */
import { drawnLines, linesOf } from '../draw/lines.js';
import { html, useEffect, useMemo, useState } from '../vendor/html.js';
import { RunningText } from './running_text.js';
import { TokenColumns } from './token_columns.js';
import { Numbers } from './token_numbers.js';
import { Pager, Tools } from './token_tools.js';
import { columnsOf, partsOf } from './token_window.js';

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

/* The lines of all tokens, or of the active one alone. */
function useLinesOf(maps, heads, threshold, only) {
    return useMemo(() => (maps ? linesOf(maps, { heads, threshold, only }) : []),
        [maps, heads.join(), threshold, only?.row, only?.key]);
}

function Columns({ source, layer, heads, state, change, fixed, onFault, onWhy }) {
    const { rows, keys } = columnsOf(state, layer);
    const parts = partsOf(layer, state.between);
    const maps = useMaps(source, layer, rows, keys, onFault);
    const [hover, setHover] = useState(null);
    useEffect(() => setHover(null), [source, layer]);
    const threshold = state.threshold === null ? null : Math.min(1, Math.max(0, state.threshold));
    const isSeen = (token) => token && (token.row === undefined
        ? token.key >= keys[0] && token.key < keys[1] : token.row >= rows[0] && token.row < rows[1]);
    const active = [hover, fixed].find(isSeen) ?? null;
    const only = active && (active.row === undefined ? { key: active.key - keys[0] } : { row: active.row - rows[0] });
    const lines = useLinesOf(maps, heads, threshold, null);
    const own = useLinesOf(maps, heads, threshold, only);
    const status = useMemo(() => countWords(layer, maps, only ? own : lines), [layer, maps, only ? own : lines]);
    const fix = (token) => change(isSame(fixed, token) ? { row: null, key: null }
        : { row: null, key: null, ...token });
    return html`<div class="tokens-form" aria-busy=${!maps}>
        <${Tools} ...${{ source, layer, state, change, status }} />
        <p class="pagers">
            <${Pager} word="rows" range=${rows} part=${parts.rows} count=${layer.rows}
                onRange=${(range) => change({ lineRows: range })} />
            <${Pager} word="keys" range=${keys} part=${parts.keys} count=${layer.keys}
                onRange=${(range) => change({ lineKeys: range })} />
        </p>
        <div class="tokens-body">
            <${TokenColumns} ...${{ layer, lines, own: only && own, rows, keys, active, fixed }} onHover=${setHover}
                onFix=${fix} />
            <${Numbers} ...${{ source, layer, heads, threshold, parts, active, onFault, onWhy }} />
        </div>
    </div>`;
}

export function Tokens({ state, change, source, onFault }) {
    const layer = source.layers.find((one) => one.layer === state.layer) ?? source.layers[0];
    const heads = Array.from({ length: layer.heads }, (_, head) => head)
        .filter((head) => state.heads === null || state.heads.includes(head));
    const Form = state.form === 'text' ? RunningText : Columns;
    return html`<section class="tokens-view" aria-label="Tokens"
        onKeyDown=${(event) => event.key === 'Escape' && change({ row: null, key: null })}>
        <${Form} ...${{ source, layer, heads, state, change, fixed: fixedOf(state), onFault }}
            onWhy=${(head, row, key) => change({ view: 'why', layer: layer.layer, head, row, key })} />
    </section>`;
}
