// SPDX-License-Identifier: Apache-2.0
/* listed.js - numbers in words. */

const sorted = (numbers) => [...new Set(numbers)].sort((a, b) => a - b);

/* Numbers in words, runs shortened: "0 to 3, 5". */
export function listed(numbers) {
    const runs = [];
    for (const number of sorted(numbers)) {
        const last = runs.at(-1);
        if (last && last[1] === number - 1)
            last[1] = number;
        else
            runs.push([number, number]);
    }
    return runs.map(([first, last]) => (first === last ? first : `${first}${last > first + 1 ? ' to ' : ', '}${last}`))
        .join(', ');
}
