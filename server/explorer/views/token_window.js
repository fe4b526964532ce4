// SPDX-License-Identifier: Apache-2.0
/* token_window.js - which tokens a layer's two columns show: all, or those of one of two texts, in windows that a
 * column holds. */

export const WINDOW = 200;                       /* tokens of a column */

/* Where the second of two texts begins in tokens; -1: there is one text. What stands between two texts is of the first,
 * as in BertViz. */
const secondOf = (tokens) => tokens.findIndex(({ sequence }) => sequence === 1);

/* The tokens of text 'A' or 'B'; all where there is one text or letter is undefined. */
function partOf(tokens, letter) {
    const second = secondOf(tokens);
    if (second < 0 || letter === undefined)
        return [0, tokens.length];
    return letter === 'A' ? [0, second] : [second, tokens.length];
}

/** The rows and keys of a layer that are of the texts that `between` names, 'A-B' or null for all, as [begin, end). */
export function partsOf({ rowTokens, keyTokens }, between) {
    const [row, key] = between?.split('-') ?? [];
    return { rows: partOf(rowTokens, row), keys: partOf(keyTokens, key) };
}

/** What a person may choose between two texts in a layer: {value, choices: [[between, words]]}; choices are [] where it
 * has one text. */
export function betweenChoices({ rowTokens, keyTokens }, between) {
    const [rowsAreTwo, keysAreTwo] = [rowTokens, keyTokens].map((tokens) => secondOf(tokens) >= 0);
    const letters = (isTwo) => (isTwo ? ['A', 'B'] : ['']);
    const nameOf = (row, key) => `${row || 'A'}-${key || 'A'}`;
    const [row, key] = between?.split('-') ?? [];
    return { value: between === null ? '' : nameOf(rowsAreTwo && row, keysAreTwo && key),
        choices: !rowsAreTwo && !keysAreTwo ? [] : letters(rowsAreTwo).flatMap((from) => letters(keysAreTwo).map((to) =>
            [nameOf(from, to), `${from || 'all'} → ${to || 'all'}`])) };
}

/* The part of [first, end) that is shown: the chosen range, cut to what a column holds, else the page that has the
 * fixed token. */
function windowOf(range, fixed, [first, end]) {
    const isIn = fixed !== null && fixed >= first && fixed < end;
    const wanted = range ? range[0] : first + Math.floor((isIn ? fixed - first : 0) / WINDOW) * WINDOW;
    const begin = Math.max(first, Math.min(wanted, end - 1));
    return [begin, Math.min(end, begin + WINDOW, range ? Math.max(range[1], begin + 1) : end)];
}

/** The rows and keys of a layer that the two columns show: a window of this view alone, for the zoom of a map would
 * hide most of a row. */
export function columnsOf(state, layer) {
    const parts = partsOf(layer, state.between);
    return { rows: windowOf(state.lineRows, state.row, parts.rows),
        keys: windowOf(state.lineKeys, state.key, parts.keys) };
}
