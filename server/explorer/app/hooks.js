// SPDX-License-Identifier: Apache-2.0
/* hooks.js - what the frame holds beside the state: the models that are served, the source that is looked at, a second
 * one to compare it with. */
import { useCallback, useEffect, useRef, useState } from '../vendor/html.js';
import { getJson } from '../data/api.js';
import { inlineFile, openSource } from '../data/open.js';
import { followProgress } from '../data/progress.js';

/* The state of a store, and its change. */
export function useStore(store) {
    const [state, setState] = useState(store.get());
    useEffect(() => {
        setState(store.get());
        return store.subscribe(setState);
    }, [store]);
    return [state, store.change];
}

/* An answer of the daemon, asked for again with each attempt; null until it is there. */
function useAnswer(path, attempt, onFault) {
    const [answer, setAnswer] = useState(null);
    useEffect(() => {
        if (inlineFile)
            return undefined;
        const ending = new AbortController();
        getJson(path, ending.signal).then(setAnswer, (error) => error.name === 'AbortError' || onFault(error));
        return () => ending.abort();
    }, [path, attempt]);
    return answer;
}

const NO_MODELS = [];

/* The served models; null until they are known, and none where the page has its weights with it. */
export function useModels(attempt, onFault) {
    return useAnswer('v1/models', attempt, onFault)?.models ?? (inlineFile ? NO_MODELS : null);
}

/* The daemon's version; null where it is not known, as without a key. */
export function useVersion(attempt) {
    return useAnswer('v2', attempt, () => {})?.version ?? null;
}

const inputKey = ({ model, text, pair, decoderText, tokens, off }) =>
    JSON.stringify([model, text, pair, decoderText, tokens, off]);

const NOTHING = { source: null, isOpening: false, isCancelled: false, progress: null, milliseconds: 0, input: null };

/* The source of the input in the state, or of a file: {source, isOpening, milliseconds}; progress says how far its pass
 * is, where that takes long, and cancel() ends it. options are those of a call on the file's numbers. */
export function useSource({ state, file, options, models, attempt, onFault }) {
    const [made, setMade] = useState(NOTHING);
    const cancel = useRef(() => {});
    const hasInput = file !== null || state.text !== null || state.tokens !== null;
    const isReady = models !== null && (state.model !== null || inlineFile) && hasInput;
    const input = isReady ? JSON.stringify([inputKey(state), options, attempt]) : null;
    useEffect(() => {
        if (!isReady) {
            setMade(NOTHING);
            if (models !== null)
                onFault(null);                   /* it was of what is not asked for any more */
            return undefined;
        }
        const ending = new AbortController();
        const begin = performance.now();
        let opened = null;
        setMade({ ...NOTHING, isOpening: true, input });
        onFault(null);
        followProgress(ending.signal, (progress) => ending.signal.aborted
            || setMade({ ...NOTHING, isOpening: true, progress, input }));
        cancel.current = () => {
            ending.abort();
            setMade({ ...NOTHING, isCancelled: true, input });
        };
        openSource({ state, file, models, options, signal: ending.signal }).then((source) => {
            opened = source;
            if (ending.signal.aborted)
                source.close();
            else
                setMade({ source, isOpening: false, milliseconds: performance.now() - begin, input });
        }).catch((error) => {
            if (error.name === 'AbortError' || ending.signal.aborted)
                return;
            setMade({ ...NOTHING, input });
            onFault(error);
        });
        return () => {
            ending.abort();
            opened?.close();
        };
    }, [input, file]);
    return { ...made, isOpening: made.isOpening || made.input !== input, cancel };
}

const OTHER = { text: null, pair: null, decoderText: null, tokens: null, off: [] };

/* openOther({model, text}) -> Promise of a second source, kept until another one is asked for; the source that is
 * looked at where it has the same input. */
export function useOther(state, source, models) {
    const kept = useRef(null);
    useEffect(() => () => kept.current?.promise.then((other) => other.close(), () => {}), []);
    return useCallback((input) => {
        const key = inputKey({ ...OTHER, ...input });
        if (source && key === inputKey(state))
            return Promise.resolve(source);
        if (kept.current?.key !== key) {
            kept.current?.promise.then((other) => other.close(), () => {});
            const promise = openSource({ state: { ...OTHER, ...input }, models });
            kept.current = { key, promise };
            promise.catch(() => {
                if (kept.current?.promise === promise)
                    kept.current = null;
            });
        }
        return kept.current.promise;
    }, [inputKey(state), source, models]);
}
