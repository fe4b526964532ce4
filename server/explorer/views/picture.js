// SPDX-License-Identifier: Apache-2.0
/* picture.js - of a model that sees: the picture with its patches, and what the row looked at makes of them. */
import { Patches } from '../draw/patches.js';
import { weightText } from '../draw/scales.js';
import { html, useMemo, useState } from '../vendor/html.js';

/** Whether the rows and keys of a layer are the patches of the source's picture, with what stands before them. */
export function seesPicture(source, layer) {
    const { picture } = source;
    const count = picture ? picture.first + picture.patchRows * picture.patchColumns : -1;
    return layer.kind !== 'text' && layer.rows === count && layer.keys === count;
}

/* The tokens before the patches, such as the class token: each fixes its row, and says what the row looked at gives
 * it. */
function FirstTokens({ picture, layer, line, state, change }) {
    return html`
        <div class="row">
            ${layer.rowTokens.slice(0, picture.first).map((token, at) => html`
                <button type="button" aria-pressed=${state.row === at} class=${state.row === at ? 'chosen' : ''}
                    onClick=${() => change({ row: at })}>${token.label}
                    ${line && html` <small class="number" data-row=${line.index} data-key=${at}
                        data-weight=${line.values[at]}>${weightText(line.values[at])}</small>`}</button>`)}
        </div>`;
}

/* What the patch pointed at gets. */
function sayPatch({ picture, layer, line, patch }) {
    if (!line)
        return 'Click a patch to see what its row looks at.';
    const largest = line.values.reduce((a, b) => (b > a ? b : a), 0);
    if (patch === null)
        return `Row ${layer.rowTokens[line.index].label}: the brightest is ${weightText(largest)}.`;
    const key = picture.first + patch;
    return `Row ${layer.rowTokens[line.index].label} gives ${layer.keyTokens[key].label} the weight `
        + `${weightText(line.values[key])}.`;
}

/**
 * The picture of a source. line: {index, values} of the row looked at, or null; cell: what is looked at, {row, key};
 * onHover({row, key} | null).
 */
export function Picture({ source, layer, line, cell, state, change, onHover }) {
    const { picture } = source;
    const [heat, setHeat] = useState(0.6);
    const { first } = picture;
    const values = useMemo(() => line?.values.subarray(first) ?? null, [line?.values]);
    const patchOf = (token) => (token !== null && token >= first ? token - first : null);
    const isPointed = cell.key !== state.key || cell.row !== state.row;
    const pointed = isPointed ? patchOf(cell.key) : null;
    const point = (patch) => onHover(patch === null ? null : { row: state.row, key: first + patch });
    const fix = (patch) => {
        onHover(null);                           /* it is about the row that was fixed before */
        change({ row: first + patch });
    };
    return html`
        <section class="picture" aria-label="The picture and the weights of a row over it">
            <${Patches} url=${picture.url} grid=${{ rows: picture.patchRows, columns: picture.patchColumns }}
                values=${values} heat=${heat} look=${{ scale: state.scale, palette: state.palette }}
                marked=${patchOf(state.row)} pointed=${pointed}
                label=${`Picture of ${picture.patchRows} rows of ${picture.patchColumns} patches.`}
                onPoint=${point} onFix=${fix} />
            <p aria-live="polite">${sayPatch({ picture, layer, line, patch: pointed })}</p>
            ${first > 0 && html`<${FirstTokens} ...${{ picture, layer, line, state, change }} />`}
            <label class="labelled">Heat
                <input type="range" min="0" max="1" step="0.05" value=${heat}
                    onInput=${(event) => setHeat(Number(event.target.value))} /></label>
        </section>`;
}
