// SPDX-License-Identifier: Apache-2.0
/* head_words.js - what a head does, as numbers with names and in plain words. */

/* The statistics of GET /v1/traces/{id}/statistics, means over the rows of a head. A share is between 0 and 1. */
export const STATISTICS = [
    { name: 'entropy', label: 'Entropy', unit: 'nats', isShare: false, says: 'how widely a row spreads its weight' },
    { name: 'distance', label: 'Distance', unit: 'tokens', isShare: false, says: 'how far away a row looks' },
    { name: 'first', label: 'First', unit: '', isShare: true, says: 'weight on the first token' },
    { name: 'previous', label: 'Previous', unit: '', isShare: true, says: 'weight on the token before' },
    { name: 'self', label: 'Itself', unit: '', isShare: true, says: 'weight on the own token' },
    { name: 'delimiters', label: 'Delimiters', unit: '', isShare: true, says: 'weight on special tokens' },
];

const KINDS = {
    self: 'self-attention', encoder: 'the encoder looks at itself', decoder: 'the decoder looks at itself',
    cross: 'the decoder looks at the encoder',
};

/* What looks at what in a layer of this kind. */
export function describeKind(kind) {
    return KINDS[kind] ?? kind;
}

/* A weight or another number as text: three digits that count, "–" where there is none. */
export function shortNumber(number) {
    if (number === null || number === undefined || Number.isNaN(number))
        return '–';
    if (number === 0 || !Number.isFinite(number))
        return String(number).replace('-', '−');
    const size = Math.abs(number);
    return (size < 0.001 ? number.toExponential(2) : size < 1 ? number.toFixed(3)
        : size < 100 ? number.toFixed(2) : number.toFixed(0)).replace('-', '−');
}

/* All heads of a source, layer by layer: {layer, head, statistics: {entropy: number|null, ...}|null}. statistics is
 * what source.statistics() gave; null: not there yet. */
export function listHeads(layers, statistics) {
    return layers.flatMap((layer) => Array.from({ length: layer.heads }, (_, head) => {
        const given = statistics?.get(layer.layer);
        return { layer, head, statistics: given ? Object.fromEntries(STATISTICS.map(
            ({ name }) => [name, given[name]?.[head] ?? null])) : null };
    }));
}

/* "L3 H5". */
export function shortName({ layer, head }) {
    return `L${layer.layer} H${head}`;
}

const SHARE_WORDS = [
    ['first', 'looks at the first'], ['previous', 'looks at the previous'], ['self', 'looks at its own'],
    ['delimiters', 'looks at delimiters'],
];

/* What a head does in plain words, "looks at the previous token (0.83)". unit: "token", or "patch" of a picture. */
export function describeHead({ layer, statistics }, unit = 'token') {
    if (!statistics)
        return '';
    let best = null;
    for (const [name, words] of SHARE_WORDS)
        if (statistics[name] !== null && statistics[name] >= 0.4 && !(best && statistics[name] <= best.share))
            best = { share: statistics[name], words: name === 'delimiters' ? words : `${words} ${unit}` };
    if (best)
        return `${best.words} (${best.share.toFixed(2)})`;
    const many = unit === 'patch' ? 'patches' : `${unit}s`;
    const tokens = Math.exp(statistics.entropy ?? 0).toFixed(0);
    if (statistics.entropy > 0.6 * Math.log(layer.keys))
        return `spreads over many ${many} (as over ${tokens} of ${layer.keys})`;
    const away = statistics.distance === null ? '' : `, about ${shortNumber(statistics.distance)} ${many} away`;
    return `looks at few ${many} (as at ${tokens})${away}`;
}

/* Whether a head lies in all ranges of a filter. A statistic that the head does not have lies in none. */
export function passesFilter({ statistics }, filter) {
    return Object.entries(filter).every(([name, [least, most]]) => {
        const value = statistics?.[name] ?? null;
        return value !== null && value >= least && value <= most;
    });
}

/* Heads by a statistic, the largest first, those without it last. 'layer' is the order of the layers. */
export function sortHeads(heads, name) {
    if (name === 'layer' || heads.some(({ statistics }) => !statistics))
        return heads;
    const at = ({ statistics }) => statistics[name] ?? -Infinity;
    return [...heads].sort((a, b) => (at(b) === at(a) ? 0 : at(b) - at(a)));
}
