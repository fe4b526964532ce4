// SPDX-License-Identifier: Apache-2.0
/* use_scores.js - the scores of a model's heads on the probe, as a hook: asked for on a click, or where the address
 * sorts by one. */
import { useEffect, useState } from '../vendor/html.js';
import { findHeads, knownScores } from '../data/find_heads.js';
import { SCORES } from './head_scores.js';

/* Faults that another request would have as well: the frame says them. */
const isOfAll = ({ status }) => [undefined, 0, 401, 403].includes(status);

/* {scores, isFinding, fault, find}: scores is null until they are there. canFind: whether the model takes tokens. */
export function useScores(model, { sort, canFind }, onFault) {
    const [asked, setAsked] = useState(null);    /* the model whose scores a person asked for */
    const [attempt, setAttempt] = useState(0);
    const [made, setMade] = useState({ model: null });
    const isWanted = canFind && (asked === model || SCORES.some(({ name }) => name === sort));
    const scores = canFind ? knownScores(model) : null;
    useEffect(() => {
        if (!isWanted || scores !== null)
            return undefined;
        const ending = new AbortController();
        findHeads(model, ending.signal).then(() => setMade({ model }), (error) => {
            if (ending.signal.aborted)
                return;
            setMade({ model, fault: error });
            if (isOfAll(error))
                onFault(error);
        });
        return () => ending.abort();
    }, [model, isWanted, scores, attempt]);
    const fault = made.model === model ? made.fault ?? null : null;
    return { scores, fault, isFinding: isWanted && scores === null && !fault, find: () => {
        setMade({ model: null });
        setAsked(model);
        setAttempt(attempt + 1);
    } };
}
