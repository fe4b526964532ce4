// SPDX-License-Identifier: Apache-2.0
/* head_colours.js - a colour for each head of a layer, to tell lines apart on light and on dark ground. */

/* Six of Okabe and Ito's set that colour-blind people tell apart (Wong 2011, doi:10.1038/nmeth.1618), without black and
 * yellow, which are not seen on every ground, and two between them. */
const FIRST = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#8a63d2', '#7f7f7f'];
const GOLDEN_ANGLE = 137.508;                    /* degrees: no two of the next hues lie near each other */

/** The colour of a head, as CSS and SVG take it. */
export function headColour(head) {
    if (head < FIRST.length)
        return FIRST[head];
    return `hsl(${Math.round(head * GOLDEN_ANGLE) % 360}, 60%, ${head % 2 ? 42 : 58}%)`;
}
