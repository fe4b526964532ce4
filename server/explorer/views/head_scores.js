// SPDX-License-Identifier: Apache-2.0
/* head_scores.js - the names that a head gets for its scores on the probe (data/find_heads.js), and what each score is,
 * in words. */

/* A head that gives less than this of its weight is not named; the same share from which the overview says in words
 * where a head looks. */
export const NAMED_FROM = 0.4;

/* of: what is named; sign: on a small map. */
export const SCORES = [
    { name: 'induction', of: 'induction', sign: 'I', label: 'Induction', says: 'Weight on the tokens that stand '
        + 'behind earlier ones like its own, the mean over rows whose token stood before: the head goes on as the text '
        + 'went on (Olsson et al. 2022).' },
    { name: 'duplicate', of: 'duplicate token', sign: 'D', label: 'Duplicate', says: 'Weight on earlier tokens like '
        + 'its own, the mean over rows whose token stood before (Olsson et al. 2022).' },
    { name: 'probe_previous', of: 'previous token', sign: 'P', label: 'Previous, probe', says: 'Weight on the token '
        + 'before, the mean over all rows: the head carries a token one place on, which induction heads build on '
        + '(Elhage et al. 2021).' },
    { name: 'probe_first', of: 'first token', sign: 'F', label: 'First, probe', says: 'Weight on the first token, the '
        + 'mean over all rows: where a head rests that finds nothing, an attention sink (Xiao et al. 2023).' },
];

const isScore = (value) => value !== null && value !== undefined;

/* Heads of listHeads() with the scores of a model beside their statistics; scores may be null. */
export function withScores(heads, scores) {
    return scores === null ? heads : heads.map((entry) => {
        const given = scores.get(entry.layer.layer);
        return { ...entry, statistics: entry.statistics && { ...entry.statistics, ...Object.fromEntries(
            SCORES.map(({ name }) => [name, given?.[name]?.[entry.head] ?? null])) } };
    });
}

/* The scores by which a head is named, the largest first: {...of SCORES, value}. */
export function namesOf({ statistics }) {
    return SCORES.map((score) => ({ ...score, value: statistics?.[score.name] }))
        .filter(({ value }) => isScore(value) && value >= NAMED_FROM).sort((a, b) => b.value - a.value);
}

/* "induction 0.81, previous token 0.44", or ''. */
export function nameWords(entry) {
    return namesOf(entry).map(({ of, value }) => `${of} ${value.toFixed(2)}`).join(', ');
}

/* The head with the largest of a score, {entry, value}; null where no head has one. */
export function bestOf(heads, name) {
    return heads.reduce((best, entry) => {
        const value = entry.statistics?.[name];
        return isScore(value) && !(best && best.value >= value) ? { entry, value } : best;
    }, null);
}
