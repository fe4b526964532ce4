// SPDX-License-Identifier: Apache-2.0
/* legend.js - the colours of a map in a bar, with the weights that they stand for. */
import { html, useEffect, useRef } from '../vendor/html.js';
import { drawMap } from './colours.js';
import { rangeWords } from './range.js';
import { LOG_FLOOR, SCALES, ticksUpTo, tickText } from './scales.js';
import { useDark } from './use_dark.js';

const STEPS = 256;

/** The weights that a legend of a look (colours.js) writes, with their places from 0 to 1 and as text. isCut: some
 * weights are above the last one. */
export function ticksOf({ scale, palette, range = 1, isCut = false }) {
    const { placeOf } = SCALES[scale];
    const ticks = ticksUpTo(scale, range);
    const text = (weight) => (isCut && weight === range ? `≥ ${tickText(weight)}`
        : scale === 'log' && weight === LOG_FLOOR ? `≤ ${tickText(weight)}` : tickText(weight));
    if (palette !== 'difference')
        return ticks.map((weight) => ({ weight, place: placeOf(weight, range), text: text(weight) }));
    const more = ticks.filter((weight) => weight >= 1e-3 * range);
    const sides = more.filter((_, i) => (more.length - i) % 2);
    return [...sides.map((weight) => ({ weight: -weight, place: (1 - placeOf(weight, range)) / 2,
        text: isCut && weight === range ? `≤ ${tickText(-weight)}` : tickText(-weight) })).reverse(),
    { weight: 0, place: 0.5, text: '0' },
    ...sides.map((weight) => ({ weight, place: (1 + placeOf(weight, range)) / 2, text: text(weight) }))];
}

/** The weights of a bar of colours from its first to its last place. */
export function weightsAlong({ scale, palette, range = 1 }, steps = STEPS) {
    const { weightAt } = SCALES[scale];
    return Float64Array.from({ length: steps }, (_, i) => {
        const place = i / (steps - 1);
        if (palette !== 'difference')
            return weightAt(place, range);
        return Math.sign(2 * place - 1) * weightAt(Math.abs(2 * place - 1), range);
    });
}

const SAID = { linear: 'linear', sqrt: 'square root', log: 'logarithmic' };

/** The legend of {scale, palette} and of a range as rangeOf() gives it (range.js); words stand behind those of the
 * range. */
export function Legend({ scale, palette, range = { kind: '1', value: 1 }, what = 'weight', words = '' }) {
    const canvas = useRef(null);
    const isDark = useDark();
    const look = { scale, palette, range: range.value ?? 1, isDark, isCut: range.kind === '99' };
    useEffect(() => drawMap(canvas.current, weightsAlong(look), 1, STEPS, look),
        [scale, palette, look.range, isDark]);
    const ticks = range.value === null ? [] : ticksOf(look);
    const said = palette === 'difference' ? `${tickText(-look.range)} to ${tickText(look.range)}`
        : rangeWords({ kind: '1', value: look.range }, scale);
    return html`
        <div class="legend-box" data-range=${range.value} data-range-kind=${range.kind}>
            <div class="legend" role="img" aria-label=${`Colours of ${what}s from ${said}, ${SAID[scale]}`}>
                <canvas ref=${canvas} width=${STEPS} height="1"></canvas>
                ${ticks.map(({ place, text }) => html`<span style=${{ left: `${100 * place}%` }}>${text}</span>`)}
            </div>
            <small class="range-words faint">${range.value !== null && rangeWords(range, scale, what) + words}</small>
        </div>`;
}
