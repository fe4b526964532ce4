// SPDX-License-Identifier: Apache-2.0
/* answer_reading.js - what is read of the pass itself, beside what the answer is without its parts: the lens and the
 * contributions, each asked for with a request of its own. */
import { html, useLayoutEffect, useState } from '../vendor/html.js';
import { askContributions, askLens } from '../data/reading.js';
import { AnswerContributions } from './answer_contributions.js';
import { AnswerLens } from './answer_lens.js';
import { isOfAll, SectionFault } from './use_answer.js';

const NOTHING = { question: null, found: {}, faults: {} };

/* {found, faults, again}: by lens and contributions, what has come. */
function useReading(source, answer, other, onFault) {
    const [made, setMade] = useState(NOTHING);
    const [attempt, setAttempt] = useState(0);
    const question = JSON.stringify(answer);
    useLayoutEffect(() => {
        const ending = new AbortController();
        const { signal } = ending;
        const put = (member, name, value) => signal.aborted
            || setMade((last) => ({ ...last, [member]: { ...last[member], [name]: value } }));
        const ask = (name, asked) => asked.then((result) => put('found', name, result), (error) => {
            put('faults', name, error);
            if (!signal.aborted && isOfAll(error))
                onFault(error);
        });
        setMade({ ...NOTHING, question, source });
        ask('lens', askLens(source, answer, signal));
        ask('contributions', askContributions(source, answer, other, signal));
        return () => ending.abort();
    }, [source, question, attempt]);
    const { found, faults } = made.question === question && made.source === source ? made : NOTHING;
    return { found, faults, again: () => setAttempt(attempt + 1) };
}

/* A head with a layer of its own between the residual and the logits. */
const hasOwnLayer = (fault) => fault?.code === 'option' && fault.pointer === '/outputs';

function ReadingFault({ fault, onAgain }) {
    if (hasOwnLayer(fault))
        return html`<p class="answer-words" data-refused>The head of this model has a layer of its own, so its logits
            are no sum of what the parts wrote. What each layer would answer stands above.</p>`;
    return fault && !isOfAll(fault) && html`<${SectionFault} fault=${fault} onAgain=${onAgain} />`;
}

/* prediction: at the position of the answer. */
export function AnswerReading({ source, answer, prediction, change, onFault }) {
    const other = prediction.tokens.find(({ id }) => id !== answer.token)?.id ?? null;
    const { found, faults, again } = useReading(source, answer, other, onFault);
    const stateOf = (name) => (found[name] || faults[name]
        ? html`<${ReadingFault} fault=${faults[name]} onAgain=${again} />` : html`<p class="faint">Asking…</p>`);
    const isAsking = ['lens', 'contributions'].some((name) => !found[name] && !faults[name]);
    return html`<div class="answer-reading" aria-busy=${isAsking}>
        <${AnswerLens} layers=${found.lens}>${stateOf('lens')}<//>
        <${AnswerContributions} found=${found.contributions} change=${change}>${stateOf('contributions')}<//>
    </div>`;
}
