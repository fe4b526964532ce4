// SPDX-License-Identifier: Apache-2.0
/* effect.js - an effect in nats as a text, a bar and a colour: below zero, where the part helped, to the left and blue,
 * above it to the right and orange. */
import { html } from '../vendor/html.js';
import { shortNumber } from './head_words.js';

const LEAST = 1e-6;                              /* nats; a scale of less would show nothing but rounding */

/* "−1.30", "+0.042". */
export function effectText(value) {
    return value > 0 ? `+${shortNumber(value)}` : shortNumber(value);
}

/* A log-prob as a probability: "76.4 %". */
export function percentText(logprob) {
    const percent = 100 * Math.exp(logprob);
    return `${percent >= 10 ? percent.toFixed(1) : shortNumber(percent)} %`;
}

/* The largest of effects, whatever its sign. */
export function largestEffect(values) {
    return values.reduce((most, value) => Math.max(most, Math.abs(value ?? 0)), LEAST);
}

/* The colour of an effect, a mixture that follows the theme. part: how much of the full colour the largest has. */
export function effectColour(value, largest, part = 1) {
    if (value === null || value === undefined)
        return 'transparent';
    const percent = Math.round(100 * part * Math.min(1, Math.abs(value) / largest));
    return `color-mix(in srgb, var(--${value < 0 ? 'negative' : 'positive'}) ${percent}%, transparent)`;
}

/* A bar around zero. */
export function EffectBar({ value, largest }) {
    const style = { width: `${50 * Math.min(1, Math.abs(value ?? 0) / largest)}%` };
    return html`<span class="effect-bar" aria-hidden="true">
        <i class=${value < 0 ? 'negative' : 'positive'} style=${style}></i></span>`;
}

/* What the colours stand for. */
export function EffectLegend({ largest }) {
    return html`<span class="effect-legend faint"><i class="negative"></i> less without it (it helped)
        ${' '}<i class="positive"></i> more without it (it held back); full at ${shortNumber(largest)} nats</span>`;
}

/* What is left of the answer: its probability, or the difference of log-probs. base is the API's. */
export function leavesText(base, effect) {
    if (!base || effect === null || effect === undefined)
        return '–';
    return base.target.against ? effectText(base.value + effect) : percentText(base.value + effect);
}
