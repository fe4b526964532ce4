// SPDX-License-Identifier: Apache-2.0
/* answer.js - what the predicted token rests on: the parts of the prompt, the heads and the layers, each taken away in
 * turn. */
import { html, useMemo, useState } from '../vendor/html.js';
import { answerOfState, kindsOf, partsOfState } from '../data/answer.js';
import { AnswerHeads } from './answer_heads.js';
import { AnswerLayers } from './answer_layers.js';
import { AnswerParts } from './answer_parts.js';
import { AnswerReading } from './answer_reading.js';
import { AnswerToken } from './answer_token.js';
import { TokenChooser } from './choosers.js';
import { describeKind } from './head_words.js';
import { useAnswer, usePrediction } from './use_answer.js';

/* What the view needs, where there is no answer to look at. */
function Needs({ source, models, change }) {
    const others = (models ?? []).filter(({ name, predictions }) => predictions && name !== source.model)
        .map(({ name }) => name);
    const hasPlace = source.predictions?.length === 0;
    const why = hasPlace ? 'The text has no mask token, and this model answers at one: put its '
        + 'mask token, as [MASK], into the text, or choose another place.'
        : source.kind === 'trace' ? 'The model has no head over a vocabulary, so it predicts no token.'
            : 'A file of numbers has no whole pass of a model behind it, so no token is predicted.';
    return html`<section class="answer" aria-label="Answer"><p class="answer-needs">${source.title}: ${why}
        ${' '}This view says what a predicted token rests on, for a text and a model with a head over its
        vocabulary${others.length > 0 ? `, such as ${others.slice(0, 4).join(', ')}.`
            : '; another served model may have one.'}</p>
        ${hasPlace && html`<${PositionChooser} ...${{ source, position: null, change }} />`}</section>`;
}

/* Where the answer stands: behind a token, or of a model that looks both ways in its place. */
function PositionChooser({ source, position, change }) {
    const layer = source.layers.find(({ kind }) => kind === 'cross') ?? source.layers.at(-1);
    return html`<${TokenChooser}
        label=${source.predicts === 'masked' ? 'The answer in the place of' : 'The answer after'}
        tokens=${layer.rowTokens} place=${position}
        onPlace=${(next) => change({ position: next, target: null, against: null })} />`;
}

function useParts(state, source) {
    const { parts, text, pair } = state;
    return useMemo(() => partsOfState(state, source), [source, JSON.stringify([parts, text, pair])]);
}

function KindChooser({ kinds, kind, onKind }) {
    if (kinds.length === 1)
        return null;
    return html`<label class="chooser answer-kind">Heads and layers of
        <select value=${kind} onChange=${(event) => onKind(event.target.value)}>
            ${kinds.map((name) => html`<option key=${name} value=${name}>${name}: ${describeKind(name)}</option>`)}
        </select></label>`;
}

function Progress({ isAsking, isStopped, stop, again }) {
    return html`<p class="row answer-progress"><span class="faint" role="status">${isAsking
        ? 'Taking away one part after the other…' : isStopped ? 'Stopped; what came until then stays.' : ''}</span>
        ${isAsking && html`<button type="button" data-stop onClick=${stop}>Stop</button>`}
        ${isStopped && html`<button type="button" data-again onClick=${again}>Go on</button>`}</p>`;
}

function Answered({ state, change, source, onFault, prediction }) {
    const kinds = kindsOf(source);
    const [chosen, setKind] = useState(null);
    const kind = kinds.includes(chosen) ? chosen : kinds.at(-1);
    const parts = useParts(state, source);
    const answer = answerOfState(state, prediction);
    const { found, faults, isAsking, isStopped, stop, again } = useAnswer(source,
        { answer, parts, by: state.by, kind }, onFault);
    const base = ['parts', 'heads', 'layers', 'feed_forwards'].map((name) => found[name]?.base).find(Boolean) ?? null;
    const shared = { source, state, change, answer, kind, found, faults, onAgain: again };
    return html`<section class="answer" aria-label="Answer" aria-busy=${isAsking}>
        <${AnswerToken} ...${{ source, prediction, answer, base, change,
            place: html`<${PositionChooser} ...${{ source, position: answer.position, change }} />` }}>
            <${Progress} ...${{ isAsking, isStopped, stop, again }} /><//>
        <${AnswerParts} ...${shared} parts=${parts} />
        <${KindChooser} kinds=${kinds} kind=${kind} onKind=${setKind} />
        <div class="answer-beside">
            <${AnswerHeads} key=${kind} ...${shared} />
            <${AnswerLayers} ...${shared} />
        </div>
        <${AnswerReading} ...${{ source, answer, prediction, change, onFault }} />
    </section>`;
}

export function Answer({ state, change, source, onFault, models }) {
    const prediction = usePrediction(source, state.position ?? null, onFault);
    if (!source.predictions || (source.predictions.length === 0 && (state.position ?? null) === null))
        return html`<${Needs} ...${{ source, models, change }} />`;
    if (!prediction)
        return html`<section class="answer unread" aria-label="Answer" aria-busy="true"><p class="faint">Asking for the
            predictions…</p></section>`;
    return html`<${Answered} ...${{ state, change, source, onFault, prediction }} />`;
}
