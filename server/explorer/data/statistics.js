// SPDX-License-Identifier: Apache-2.0
/* statistics.js - what heads do, of whole maps: the means over rows that GET /v1/traces/{id}/statistics answers
 * (API_TRACE.md, "What heads do"). */

const NAMES = ['entropy', 'distance', 'first', 'previous', 'self', 'delimiters'];

/* Adds one row of weights to the sums of its head. */
function addRow(sum, weights, row, delimiters) {
    for (let key = 0; key < weights.length; key++) {
        const weight = weights[key];
        if (Number.isNaN(weight))                /* may not be seen */
            continue;
        if (weight > 0)
            sum.entropy -= weight * Math.log(weight);
        sum.distance += weight * Math.abs(row - key);
    }
    sum.first += weights[0] || 0;
    sum.previous += row > 0 ? weights[row - 1] || 0 : 0;
    sum.self += weights[row] || 0;
    for (const key of delimiters)
        sum.delimiters += weights[key] || 0;
}

/* Of values[heads][rows][keys]: {entropy, distance, first, previous, self, delimiters}, a number a head each, or null
 * where it has no meaning: distance, previous and self where isCross, delimiters where they (the numbers of the keys
 * that are special tokens) are null. */
export function statisticsOf(values, { heads, rows, keys, isCross = false, delimiters = null }) {
    const sums = Array.from({ length: heads }, (_, head) => {
        const sum = Object.fromEntries(NAMES.map((name) => [name, 0]));
        for (let row = 0; row < rows; row++) {
            const at = (head * rows + row) * keys;
            addRow(sum, values.subarray(at, at + keys), row, delimiters ?? []);
        }
        return sum;
    });
    const hasMeaning = (name) => (name === 'delimiters' ? delimiters !== null
        : !isCross || name === 'entropy' || name === 'first');
    return Object.fromEntries(NAMES.map((name) => [name,
        sums.map((sum) => (hasMeaning(name) ? Math.max(0, sum[name] / rows) : null))]));
}

/* The statistics that nobody has computed. */
export function unknownStatistics(heads) {
    return Object.fromEntries(NAMES.map((name) => [name, Array(heads).fill(null)]));
}
