// SPDX-License-Identifier: Apache-2.0
/* range.js - the weight that has the last colour: 1, or of a map the largest or the one that 99 of 100 are below. A map
 * of many tokens has small weights, and up to 1 it would be nearly black. */
import { LOG_FLOOR, tickText } from './scales.js';

const SHORT = 32;                                /* keys; weights of so few are drawn up to 1 */
const PART = 0.99;

/** The largest of values and the one that 99 of 100 are below, by their sizes; what may not be seen is left out. */
export function spanOf(values) {
    const sizes = Float32Array.from(values, Math.abs).filter((size) => !Number.isNaN(size)).sort();
    return { largest: sizes.at(-1) ?? 0, most: sizes[Math.floor(PART * (sizes.length - 1))] ?? 0 };
}

/** The span of several maps that share their colours; null where none is known. */
export function joinSpans(spans) {
    const known = spans.filter(Boolean);
    const most = (name) => Math.max(...known.map((span) => span[name]));
    return known.length === 0 ? null : { largest: most('largest'), most: most('most') };
}

/** What colours run to: {kind: '1' | 'largest' | '99', value}. kind: the one chosen, or null: by how many keys there
 * are; span: of the maps, or null while they are read: then value is null where it is needed. */
export function rangeOf(kind, span, keys) {
    const chosen = kind ?? (keys <= SHORT ? '1' : '99');
    if (chosen === '1')
        return { kind: '1', value: 1 };
    if (!span)
        return { kind: chosen, value: null };
    if (chosen === '99' && span.most > 0 && span.most < span.largest)
        return { kind: '99', value: span.most };
    return { kind: 'largest', value: span.largest > 0 ? span.largest : 1 };
}

/** A range in words, for a scale: "0 to 0.13, the largest weight". what: of what it is, as 'weight' or 'difference'. */
export function rangeWords({ kind, value }, scale, what = 'weight') {
    if (value === null)
        return '';
    const last = tickText(value);
    const first = what === 'difference' ? tickText(-value) : scale === 'log' ? `${tickText(LOG_FLOOR)} and below` : '0';
    if (kind === '99')
        return what === 'difference' ? `${first} to ${last} and beyond; 99 % of the cells are within`
            : `${first} to ${last} and above; 99 % of the cells are below`;
    return kind === 'largest' ? `${first} to ${last}, the largest ${what}` : `${first} to ${last}`;
}
