// SPDX-License-Identifier: Apache-2.0
/* tour.js - seven stops over a small model, from a token to what an answer rests on. A stop is a state of the page with
 * two sentences; tour= in the address says which, and is enough of an address. */
import { INITIAL } from '../data/state.js';
import { useKeys } from '../draw/keys.js';
import { html } from '../vendor/html.js';

const MODEL = 'stories260K';
const STORY = { text: 'Once upon a time, there was a little girl named Lily.' };
const REPEAT = { text: 'Lily likes to play. Ben likes to play. Lily likes to' };

/* Numbers in the sentences are those of the model: tests/page/test_page_tour.c asks the daemon for them. */
const STOPS = [
    { title: 'What a token is', state: { ...STORY, view: 'tokens', layer: 1, heads: [3] },
        words: 'A model reads no words but tokens: “girl” is three of them, g, ir and l. Each token on the left '
            + 'looks at tokens on the right, never at one that comes after it.' },
    { title: 'The map of a head', state: { ...STORY, view: 'head', layer: 1, head: 4 },
        words: 'A head is one way of looking: each row of its map is a token that looks, each column one that is '
            + 'looked at. The lighter a cell is, the more of the row goes there.' },
    { title: 'A row', state: { ...STORY, view: 'head', layer: 1, head: 4, row: 6, key: 5 },
        words: 'The row of “there” gives the comma before it the weight 0.87. All weights of a row sum to 1, so '
            + 'what one token gets the others do not.' },
    { title: 'A head for the token before', state: { ...STORY, view: 'head', layer: 1, head: 3 },
        words: 'Most rows of this head look at the token before: a line beside the diagonal. That is more than '
            + 'half of all its weight; such heads tell others what came last.' },
    { title: 'What came next the last time', state: { ...REPEAT, view: 'head', layer: 4, head: 1, row: 20, key: 14 },
        words: '“likes to” stood here before, and “play” came next: the last row of this head gives that “play” '
            + 'half of its weight. Heads that find what followed the last time are called induction heads.' },
    { title: 'Why a weight is what it is', state: { ...REPEAT, view: 'why', layer: 4, head: 1, row: 20, key: 14,
        step: 3 },
        words: 'The query of “to” and the key of “play” agree more than any other pair of this row. Go forward '
            + 'with the arrow keys, step by step, until the scores are weights.' },
    { title: 'What the answer rests on', state: { ...REPEAT, view: 'answer' },
        words: 'The model goes on with “play”, and looking alone does not say why. So each part of the prompt and '
            + 'each head is taken away in turn: what changes the answer is what it rests on.' },
];

/** The state of a stop, from 1; null where there is none. */
export function stopState(number) {
    const stop = STOPS[number - 1];
    return stop ? { ...INITIAL, model: MODEL, ...stop.state, tour: number } : null;
}

/** Whether the model of the tour is served. */
export function hasTour(models) {
    return Boolean(models?.some(({ name, trace }) => name === MODEL && trace));
}

/** Goes to a stop, in class mode or not as before. */
export function goToStop(number, { state, change }) {
    change({ ...stopState(number), present: state.present });
}

/** The stop that the state names, over its view. */
export function Tour({ state, change, hasKeys }) {
    const at = state.tour;
    const stop = STOPS[at - 1];
    const go = (number) => STOPS[number - 1] && goToStop(number, { state, change });
    useKeys(stop ? { '<': () => go(at - 1), '>': () => go(at + 1) } : {}, hasKeys);
    if (!stop)
        return null;
    return html`<section class="tour" aria-label="Tour" data-stop=${at}>
        <div class="step-tools">
            <button type="button" disabled=${at === 1} title="The stop before (<)" onClick=${() => go(at - 1)}>
                ‹ Back</button>
            <button type="button" class="main" disabled=${at === STOPS.length} title="The next stop (>)"
                onClick=${() => go(at + 1)}>Next stop ›</button>
            <h3>${at} of ${STOPS.length}: ${stop.title}</h3>
            <button type="button" onClick=${() => change({ tour: null })}>End the tour</button>
        </div>
        <p aria-live="polite">${stop.words}</p>
    </section>`;
}
