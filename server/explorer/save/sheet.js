// SPDX-License-Identifier: Apache-2.0
/* sheet.js - the numbers of a view, gathered to be exported: the maps that are seen, with their tokens.
 *
 * A sheet is {view, model, title, panels, pair, text, sort, fixed, off, notes}: text is as of sheet_text.js; fixed is
 * {row, key} of what a click has fixed, each a place or null; off are the heads that are switched off, in words, or
 * ''; notes say in words what a picture alone does not. A panel is one map: {name, layer, head, rows: [a, b], keys:
 * [a, b], counts, shape: [r, c], values, rowTokens, keyTokens, range, isDifference, isOut}, where row i of n is in
 * cell floor(i * r / n), and a cell holds the largest weight, NaN where no pair of it may be seen; counts are all
 * rows and keys that there are. Tokens are labels of rows a to b. range, of a picture, is what its colours run to.
 * isOut: the filter of the overview leaves the head out. */
import { knownScores } from '../data/find_heads.js';
import { differenceOf } from '../data/source_difference.js';
import { LINES_OF_A_ROW } from '../draw/lines.js';
import { weightText } from '../draw/scales.js';
import { nameWords, SCORES, withScores } from '../views/head_scores.js';
import { listHeads, passesFilter, shortName, sortHeads, STATISTICS } from '../views/head_words.js';
import { columnsOf } from '../views/token_window.js';
import { rangedHeads, rangedMaps, wholeMap } from './ranges.js';
import { answerParts } from './sheet_answer.js';
import { textParts } from './sheet_text.js';

const PICTURE_CELLS = { overview: 64, head: 1024, tokens: 256, why: 4096, compare: 1024 };
export const VALUES_MAX = 4 << 20;               /* of a whole sheet: 16 MB */
const BLOCKS_FROM = 4 << 20;                     /* pairs; the daemon answers more of a kept trace from blocks */
const BLOCK = 16;
const NAMED_MOST = 12;                           /* heads whose names are written */

/* How many cells a map has: as many as a picture shows, or of its numbers all, where the maps of a sheet together are
 * not too many. sizes are {rows, keys, heads} of those maps. */
function cellsOf(view, isNumbers, sizes) {
    const heads = sizes.reduce((sum, size) => sum + size.heads, 0);
    const pairs = sizes.reduce((sum, { rows, keys, heads: count }) => sum + count * rows * keys, 0);
    const most = isNumbers && pairs <= VALUES_MAX ? Infinity : Math.max(8, Math.floor(Math.sqrt(VALUES_MAX / heads)));
    return isNumbers ? most : Math.min(PICTURE_CELLS[view], most);
}

const countOf = ([begin, end]) => end - begin;

/* Whether a cell of the panel stands for several pairs. */
export function isPooled({ rows, keys, shape }) {
    return shape[0] < countOf(rows) || shape[1] < countOf(keys);
}

/* The rows or keys of each of so many cells, as [first, end). */
export function rangesOf([begin, end], cells) {
    const first = (cell) => begin + Math.ceil(cell * (end - begin) / cells);
    return Array.from({ length: cells }, (_, cell) => [first(cell), first(cell + 1)]);
}

/* What a cell of a panel holds, in words; '' where it is one weight. */
export function cellWords(panel) {
    if (!isPooled(panel))
        return '';
    const { rows, keys, shape: [r, c], isDifference } = panel;
    const near = !isDifference && countOf(rows) * countOf(keys) > BLOCKS_FROM && countOf(rows) > BLOCK * r
        ? `; near its edges also of up to ${BLOCK} beside it` : '';
    return `${countOf(rows)} x ${countOf(keys)} weights in ${r} x ${c} cells, each ${isDifference
        ? 'the difference of the largest' : 'the largest'} of its rows and keys${near}`;
}

const labelsOf = (tokens, [begin, end]) => tokens.slice(begin, end).map((token) => token.label);

function panelOf(source, layer, head, { rows, keys }, maps, at) {
    const size = maps.rows * maps.keys;
    return { name: `layer ${layer.layer}, head ${head}`, layer: layer.layer, head, rows, keys,
        counts: [layer.rows, layer.keys], shape: [maps.rows, maps.keys],
        values: maps.values.subarray(at * size, (at + 1) * size),
        rowTokens: labelsOf(layer.rowTokens, rows), keyTokens: labelsOf(layer.keyTokens, keys), isDifference: false };
}

/* The window of the state within a layer, all of it where the two do not fit: the other side of a comparison may be
 * smaller. */
function windowOf(layer, { rows, keys }) {
    const within = (range, count) => (range && range[0] < count ? [range[0], Math.min(range[1], count)] : [0, count]);
    return { rows: within(rows, layer.rows), keys: within(keys, layer.keys) };
}

async function headPanel(source, state, { view, isNumbers }) {
    const layer = source.layers.find((one) => one.layer === state.layer);
    const range = windowOf(layer, state);
    const cells = cellsOf(view, isNumbers, [{ heads: 1, rows: countOf(range.rows), keys: countOf(range.keys) }]);
    const side = [range.rows, range.keys].map((part) => Math.min(cells, countOf(part)));
    const maps = await source.maps(layer.layer, { head: state.head, ...range, cells: side, hidden: true });
    const panel = panelOf(source, layer, state.head, range, maps, 0);
    return isNumbers || view === 'why' ? panel : { ...panel, whole: await wholeMap(source, layer, state.head) };
}

/* The maps of all heads of a layer. */
async function layerPanels(source, layer, range, cells) {
    const side = [range.rows, range.keys].map((part) => Math.min(cells, countOf(part)));
    const maps = await source.maps(layer.layer, { head: 'all', ...range, cells: side, hidden: true });
    return Array.from({ length: layer.heads }, (_, head) => panelOf(source, layer, head, range, maps, head));
}

async function overviewPanels(source, kind, isNumbers) {
    const cells = cellsOf('overview', isNumbers, source.layers);
    const panels = [];
    for (const layer of source.layers)           /* one after the other: a model may have a thousand heads */
        panels.push(...await layerPanels(source, layer, windowOf(layer, { rows: null, keys: null }), cells));
    return isNumbers ? panels : rangedHeads(panels, kind);
}

const filterWords = (filter) => Object.entries(filter).map(([name, [least, most]]) =>
    `${STATISTICS.find((one) => one.name === name).label} ${weightText(least)} to ${weightText(most)}`).join(', ');

/* The names that heads have from the probe, in words. */
function namedWords(heads) {
    const named = heads.filter((entry) => nameWords(entry) !== '');
    const words = named.slice(0, NAMED_MOST).map((entry) => `${shortName(entry)} ${nameWords(entry)}`).join('; ');
    return words && `Named by the probe: ${words}${named.length > NAMED_MOST ? ' and others' : ''}.`;
}

/* All heads in the order of the view, and which the filter leaves out; of numbers all, in the order of the layers. */
async function overviewParts(source, { sort, filter, range }, isNumbers) {
    const panels = await overviewPanels(source, range, isNumbers);
    const isFiltered = Object.keys(filter).length > 0;
    const scores = source.kind === 'trace' ? knownScores(source.model) : null;
    if (isNumbers || (sort === 'layer' && !isFiltered && scores === null))
        return { panels, sort: 'layer', notes: [] };
    const all = withScores(listHeads(source.layers, await source.statistics()), scores);
    const entries = sortHeads(all, sort).map((entry) => ({ entry, isOut: !passesFilter(entry, filter) }))
        .filter(({ isOut }) => sort === 'layer' || !isOut);
    const notes = [sort === 'layer' ? '' : `Heads by ${[...STATISTICS, ...SCORES].find((one) => one.name === sort)
        .label}, the largest first.`, isFiltered ? `Heads with ${filterWords(filter)}.` : '',
    namedWords(all)].filter(Boolean);
    return { sort, notes, panels: entries.map(({ entry, isOut }) => ({ ...panels[all.indexOf(entry)], isOut,
        short: shortName(entry) })) };
}

const fixedWords = (layer, { row, key }) => `Fixed: ${[row === null ? '' : `row ${layer.rowTokens[row].label} (${row})`,
    key === null ? '' : `key ${layer.keyTokens[key].label} (${key})`].filter(Boolean).join(', ')}.`;

/* The token whose lines alone are seen, else null: a row before a key, as in the view. */
const fixedToken = ({ row, key }) => (row !== null ? { row, key: null } : key !== null ? { row: null, key } : null);

/* Which lines are drawn. */
function lineWords({ threshold }, fixed) {
    if (threshold !== null)
        return `Weights from ${threshold.toFixed(2)} on.`;
    return fixed ? `The ${LINES_OF_A_ROW} largest weights of a row in each head.`
        : `The ${LINES_OF_A_ROW} largest weights of each row.`;
}

async function tokenParts(source, state, isNumbers) {
    const layer = source.layers.find((one) => one.layer === state.layer);
    const range = columnsOf(state, layer);
    const cells = cellsOf('tokens', isNumbers, [{ heads: layer.heads, rows: countOf(range.rows),
        keys: countOf(range.keys) }]);
    const panels = await layerPanels(source, layer, range, cells);
    const part = (name, [begin, end], count) => (end - begin < count ? `${name} ${begin} to ${end - 1} of ${count}.`
        : '');
    const fixed = fixedToken(state);
    return { panels: panels.filter(({ head }) => !state.heads || state.heads.includes(head)), fixed,
        notes: [lineWords(state, fixed), part('Rows', range.rows, layer.rows),
            part('Keys', range.keys, layer.keys), fixed ? fixedWords(layer, fixed) : ''].filter(Boolean) };
}

/* The difference of two maps of one shape; null where there is none. */
function differencePanel(a, b) {
    if (a.shape.join() !== b.shape.join() || a.rows.join() !== b.rows.join() || a.keys.join() !== b.keys.join())
        return null;
    return { ...a, name: 'the first − the second', values: a.values.map((value, i) => differenceOf(value, b.values[i])),
        whole: a.whole?.map((value, i) => differenceOf(value, b.whole[i])), isDifference: true };
}

async function comparePanels(source, state, other, isNumbers) {
    const how = { view: 'compare', isNumbers };
    const panels = [await headPanel(source, state, how)];
    if (other) {
        const second = await headPanel(other.source, { ...state, layer: other.layer, head: other.head }, how);
        panels.push({ ...second, isOther: true,
            name: other.source === source ? second.name : `${second.name} of ${other.source.title}` });
        if (state.difference)
            panels.push(differencePanel(...panels));
    }
    return panels.filter(Boolean);
}

/* The pair of `why`, and the row that it lies in. */
async function whyParts(source, state, isNumbers) {
    if (state.row === null || state.key === null)
        return mapParts(source, { ...state, view: 'head' }, null, isNumbers);
    const { layer, head, row, key } = state;
    const range = { ...state, rows: [row, row + 1], keys: null };
    const [panel, pair] = await Promise.all([headPanel(source, range, { view: 'why', isNumbers }),
        source.pair({ layer, head, row, key })]);
    const one = source.layers.find((found) => found.layer === layer);
    const labels = { rowToken: one.rowTokens[row].label, keyToken: one.keyTokens[key].label };
    return { panels: [panel], pair: { ...pair, ...labels } };
}

async function mapParts(source, state, other, isNumbers) {
    const layer = source.layers.find((one) => one.layer === state.layer);
    const fixed = state.row === null && state.key === null ? null : { row: state.row, key: state.key };
    const panels = state.view === 'compare' ? await comparePanels(source, state, other, isNumbers)
        : [await headPanel(source, state, { view: 'head', isNumbers })];
    return { panels: isNumbers ? panels : rangedMaps(panels, state.range), fixed,
        notes: fixed ? [fixedWords(layer, fixed)] : [] };
}

/* The heads that are switched off, in words. */
function offWords({ off = [] }) {
    const heads = off.map(([layer, head]) => `layer ${layer} head ${head}`).join(', ');
    return heads && `Switched off: ${heads}; all weights are of the pass without.`;
}

/* The sheet of what is seen. other is {source, layer, head} of a comparison, or null. isNumbers: it is for its numbers,
 * not for a picture: all of them, where they are not too many. */
export async function gatherSheet(state, source, other, isNumbers = false) {
    const parts = { overview: () => overviewParts(source, state, isNumbers),
        tokens: () => (state.form === 'text' ? textParts(source, state) : tokenParts(source, state, isNumbers)),
        why: () => whyParts(source, state, isNumbers), answer: () => answerParts(source, state) };
    const made = await (parts[state.view] ?? (() => mapParts(source, state, other, isNumbers)))();
    const isDrawn = state.view !== 'tokens' && !made.pair;
    const isHatched = isDrawn && made.panels.some(({ values }) => values.some(Number.isNaN));
    const cells = [...new Set(made.pair ? [] : made.panels.map(cellWords).filter(Boolean))];
    const off = offWords(state);
    return { view: state.view, model: source.model, title: source.title, pair: null, fixed: null, sort: 'layer', off,
        ...made, notes: [...(off ? [off] : []), ...(made.notes ?? []), ...cells.map((words) => `${words}.`),
            ...(isHatched ? ['Hatched: no pair there may be seen.'] : [])] };
}
