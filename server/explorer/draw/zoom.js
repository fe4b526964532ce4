// SPDX-License-Identifier: Apache-2.0
/* zoom.js - by how much class mode makes an element larger (style/present.css). The browser tells boxes and pointers in
 * pixels of the screen, and sizes in those of the element. */

/** 1 where nothing is enlarged, and in browsers that tell boxes in the element's own pixels. */
export function enlargedBy(element) {
    return element.currentCSSZoom ?? 1;
}
