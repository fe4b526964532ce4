// SPDX-License-Identifier: Apache-2.0
/* sheet_text.js - the running text of the tokens view, gathered to be exported: what one token looks at, or who looks
 * at it.
 *
 * The panels are that row or key of each head that is seen, of all tokens; beside them a sheet has `text`: {side,
 * index, token, over, heads, part, weights, full, isCut, row, key}. weights are those seen, of the tokens [begin, end)
 * of part: the mean or the largest over the heads, NaN where none may see a token; full is the one whose colour is
 * full, and isCut says that some are above it. row and key are the tokens of both sides, one list where they are the
 * same. */
import { askLines } from '../views/map_lines.js';
import { fullFrom, overHeads, subjectOf } from '../views/running_text.js';
import { partsOf } from '../views/token_window.js';
import { listed } from './listed.js';

const labelsOf = (tokens, [begin, end]) => tokens.slice(begin, end).map(({ label }) => label);

/* The row or key of one head as a panel. */
function panelOf(layer, head, { side, index }, part, line) {
    const one = [index, index + 1];
    const [rows, keys] = side === 'row' ? [one, part] : [part, one];
    return { name: `layer ${layer.layer}, head ${head}`, layer: layer.layer, head, rows, keys,
        counts: [layer.rows, layer.keys], shape: [rows[1] - rows[0], keys[1] - keys[0]],
        values: line.subarray(...part), rowTokens: labelsOf(layer.rowTokens, rows),
        keyTokens: labelsOf(layer.keyTokens, keys), isDifference: false };
}

/* "What “cat” (5) looks at": the token and its place. */
export function askedWords({ side, index, token }) {
    return side === 'row' ? `what “${token}” (${index}) looks at` : `who looks at “${token}” (${index})`;
}

/* How the heads became one number. */
export function overWords({ heads, over }) {
    if (heads.length === 1)
        return `head ${heads[0]}`;
    return `${over === 'largest' ? 'largest' : 'mean'} over heads ${listed(heads)}`;
}

function notesOf(text, layer) {
    const { side, over, heads, part, weights } = text;
    const count = side === 'row' ? layer.keys : layer.rows;
    const which = heads.length === 0 ? 'no head' : heads.length === 1 ? `head ${heads[0]}`
        : `the ${over} weight of heads ${listed(heads)}`;
    const name = side === 'row' ? 'Keys' : 'Rows';
    return [`Coloured by ${askedWords(text)}: ${side} ${text.index} of layer ${layer.layer}, ${which}.`,
        part[1] - part[0] < count ? `${name} ${part[0]} to ${part[1] - 1} of ${count}; others are grey.` : '',
        weights.some(Number.isNaN) ? `Grey words may not ${side === 'row' ? 'be seen' : 'look at it'}.` : '',
    ].filter(Boolean);
}

/* {panels, fixed, text, notes} of what the view shows. */
export async function textParts(source, state) {
    const layer = source.layers.find((one) => one.layer === state.layer);
    const heads = Array.from({ length: layer.heads }, (_, head) => head)
        .filter((head) => !state.heads || state.heads.includes(head));
    const parts = partsOf(layer, state.between);
    const fixed = state.row !== null ? { row: state.row } : state.key !== null ? { key: state.key } : null;
    const { side, index } = subjectOf(fixed, parts);
    const part = parts[side === 'row' ? 'keys' : 'rows'];
    const lines = await askLines(source, { layer: layer.layer, head: 'all', side, index });
    const values = overHeads(lines, heads, state.over, part);
    const full = fullFrom(values);
    const tokens = { row: layer.rowTokens, key: layer.keyTokens };
    const text = { side, index, token: tokens[side][index].label, over: state.over, heads, part,
        weights: values.subarray(...part), full, isCut: values.some((value) => value > full), ...tokens };
    return { panels: heads.map((head) => panelOf(layer, head, { side, index }, part, lines[head])), fixed: null, text,
        notes: notesOf(text, layer) };
}
