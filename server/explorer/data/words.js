// SPDX-License-Identifier: Apache-2.0
/* words.js - numbers with their nouns, for all that the page says. */

/* "1 layer", "12 layers". */
export function plural(count, word) {
    return `${count} ${word}${count === 1 ? '' : 's'}`;
}
