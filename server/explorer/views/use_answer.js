// SPDX-License-Identifier: Apache-2.0
/* use_answer.js - what an answer rests on, as a hook: asked part by part, told as it comes, and ended with the view. */
import { html, useEffect, useLayoutEffect, useState } from '../vendor/html.js';
import { askLayers, askParts, askPrediction, askShares } from '../data/answer.js';

/* Faults that the next request would have as well: the frame says them, and asks again. */
export const isOfAll = ({ status }) => [undefined, 0, 401, 403, 404, 410, 429, 503].includes(status);

/* The requests in their order; those of one entry go together. */
function stepsOf(source, { answer, parts, by, kind }) {
    const layers = (each) => (signal, tell) => askLayers(source, { answer, each, kind }, signal, tell);
    return [
        { shares: (signal, tell) => askShares(source, { position: answer.position, parts }, signal, tell),
            parts: (signal, tell) => askParts(source, { answer, parts, by }, signal, tell) },
        { heads: layers('heads') },
        { layers: layers('layers') },
        ...(kind === 'cross' ? [] : [{ feed_forwards: layers('feed_forwards') }]),
    ];
}

const NOTHING = { question: null, found: {}, faults: {}, isAsking: true };

/* {found, faults, isAsking, isStopped, stop, again}: found and faults by shares, parts, heads, layers and
 * feed_forwards; found is {base, values}, see data/answer.js. */
export function useAnswer(source, asked, onFault) {
    const [made, setMade] = useState(NOTHING);
    const [attempt, setAttempt] = useState(0);
    const [running, setRunning] = useState(null);
    const question = JSON.stringify(asked);
    useLayoutEffect(() => {
        if (asked.answer === null)
            return undefined;
        const ending = new AbortController();
        const { signal } = ending;
        const put = (members) => signal.aborted || setMade((last) => ({ ...last, ...members(last) }));
        const ask = async ([name, request]) => {
            try {
                await request(signal, (result) => put(({ found }) => ({ found: { ...found, [name]: result } })));
            } catch (error) {
                if (signal.aborted || isOfAll(error))
                    throw error;
                put(({ faults }) => ({ faults: { ...faults, [name]: error } }));
            }
        };
        const askAll = async () => {
            for (const step of stepsOf(source, asked))
                await Promise.all(Object.entries(step).map(ask));
            put(() => ({ isAsking: false }));
        };
        setRunning(ending);
        setMade({ ...NOTHING, question, source });
        askAll().catch((error) => {
            put(() => ({ isAsking: false, isStopped: true }));
            if (!signal.aborted)
                onFault(error);
            ending.abort();
        });
        return () => ending.abort();
    }, [source, question, attempt]);
    const shown = made.question === question && made.source === source ? made : NOTHING;
    return { ...shown, again: () => setAttempt(attempt + 1), stop: () => {
        running?.abort();
        setMade((last) => ({ ...last, isAsking: false, isStopped: true }));
    } };
}

/* The predictions of a position, null while they are asked for; without a position those of the source. */
export function usePrediction(source, position, onFault) {
    const own = position === null ? source.predictions?.[0]
        : source.predictions?.find((one) => one.position === position);
    const [asked, setAsked] = useState(null);
    const isMissing = Boolean(source.predictions) && !own && position !== null;
    useEffect(() => {
        if (!isMissing)
            return undefined;
        const ending = new AbortController();
        askPrediction(source, position, ending.signal).then((prediction) => setAsked({ source, prediction }),
            (error) => ending.signal.aborted || onFault(error));
        return () => ending.abort();
    }, [source, position, isMissing]);
    return own ?? (asked?.source === source && asked.prediction.position === position ? asked.prediction : null);
}

/* A fault of one section, in the daemon's words. */
export function SectionFault({ fault, onAgain }) {
    if (!fault)
        return null;
    return html`<div class="fault" role="alert" data-status=${fault.status} data-code=${fault.code}>
        <p>${fault.message}${fault.pointer && html` <span class="pointer">at ${fault.pointer}</span>`}</p>
        <button type="button" onClick=${onAgain}>Try again</button></div>`;
}
