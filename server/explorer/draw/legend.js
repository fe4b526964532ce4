/* legend.js - the colours of a map in a bar, with the weights that they stand for. */
import { html, useEffect, useRef } from '../vendor/html.js';
import { drawMap } from './colours.js';
import { SCALES, tickText } from './scales.js';

const STEPS = 256;

/** The weights that a legend writes, with their places from 0 to 1. */
export function ticksOf({ scale, palette }) {
    const { ticks, placeOf } = SCALES[scale];
    if (palette !== 'difference')
        return ticks.map((weight) => ({ weight, place: placeOf(weight) }));
    const [least, ...more] = ticks.filter((weight) => weight === 0 || weight >= 1e-3);
    const sides = (least === 0 ? more : [least, ...more]).filter((_, i, all) => (all.length - i) % 2);
    return [...sides.map((weight) => ({ weight: -weight, place: (1 - placeOf(weight)) / 2 })).reverse(),
        { weight: 0, place: 0.5 },
        ...sides.map((weight) => ({ weight, place: (1 + placeOf(weight)) / 2 }))];
}

/** The weights of a bar of colours from its first to its last place. */
export function weightsAlong({ scale, palette }, steps = STEPS) {
    const { weightAt } = SCALES[scale];
    return Float64Array.from({ length: steps }, (_, i) => {
        const place = i / (steps - 1);
        if (palette !== 'difference')
            return weightAt(place);
        return Math.sign(2 * place - 1) * weightAt(Math.abs(2 * place - 1));
    });
}

const SAID = { linear: 'linear', sqrt: 'square root', log: 'logarithmic' };

/** The legend of {scale, palette}. */
export function Legend({ scale, palette }) {
    const canvas = useRef(null);
    const look = { scale, palette };
    useEffect(() => drawMap(canvas.current, weightsAlong(look), 1, STEPS, look), [scale, palette]);
    const ticks = ticksOf(look);
    const said = `Colours of weights from ${tickText(ticks[0].weight)} to 1, ${SAID[scale]}`;
    return html`
        <div class="legend" role="img" aria-label=${said}>
            <canvas ref=${canvas} width=${STEPS} height="1"></canvas>
            ${ticks.map(({ weight, place }) => html`
                <span style=${{ left: `${100 * place}%` }}>${tickText(weight)}</span>`)}
        </div>`;
}
