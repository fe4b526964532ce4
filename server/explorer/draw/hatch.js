// SPDX-License-Identifier: Apache-2.0
/* hatch.js - the ground of pairs that may not be seen: lines across, so that no colour of a weight looks like it. */

const SIDE = 6;                                  /* CSS pixels from line to line */
const patterns = new WeakMap();                  /* by theme */

/* Lines from the lower left to the upper right that go on in the next copy. */
function draw(theme, ratio) {
    const side = Math.round(SIDE * ratio);
    const canvas = new OffscreenCanvas(side, side);
    const context = canvas.getContext('2d');
    context.fillStyle = theme.ground;
    context.fillRect(0, 0, side, side);
    context.strokeStyle = theme['hatch-line'];
    context.lineWidth = Math.max(1, ratio);
    for (const shift of [-side, 0, side]) {
        context.beginPath();
        context.moveTo(shift, side);
        context.lineTo(shift + side, 0);
        context.stroke();
    }
    return canvas;
}

/** A fill of a context that is scaled by ratio, in the colours of a theme (theme.js). */
export function hatchOf(context, theme, ratio) {
    let known = patterns.get(theme);
    if (known?.ratio !== ratio) {
        const pattern = context.createPattern(draw(theme, ratio), 'repeat');
        pattern.setTransform(new DOMMatrix().scale(1 / ratio));
        known = { ratio, pattern };
        patterns.set(theme, known);
    }
    return known.pattern;
}
