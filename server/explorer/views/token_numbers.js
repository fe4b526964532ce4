// SPDX-License-Identifier: Apache-2.0
/* token_numbers.js - the largest weights of one token, beyond the columns too. */
import { weightText } from '../draw/scales.js';
import { html, useMemo } from '../vendor/html.js';
import { HeadSign } from './head_swatches.js';
import { useAllHeads } from './map_lines.js';

const NUMBERS_MAX = 20;

/* The lines of one token in the whole text, the largest first; parts are the rows and keys of the texts chosen. */
function linesOfWhole({ side, index, lines }, heads, threshold, { rows, keys }) {
    return heads.flatMap((head) => Array.from(lines[head], (weight, at) => ({ head, weight,
        row: side === 'row' ? index : at, key: side === 'row' ? at : index })))
        .filter(({ row, key, weight }) => weight >= (threshold ?? 0) && weight > 0 && row >= rows[0] && row < rows[1]
            && key >= keys[0] && key < keys[1]).sort((a, b) => b.weight - a.weight);
}

/** The largest weights of the active token, {row} or {key}. */
export function Numbers({ source, layer, heads, threshold, parts, active, onFault, onWhy }) {
    const side = active?.row === undefined ? 'key' : 'row';
    const whole = useAllHeads(source, layer, { side, index: active?.[side] ?? null }, onFault);
    const own = useMemo(() => whole && linesOfWhole(whole, heads, threshold, parts),
        [whole, heads.join(), threshold, JSON.stringify(parts)]);
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

