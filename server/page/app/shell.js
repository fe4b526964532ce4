/* shell.js - the frame around the views: what is looked at, which view, and faults in the server's words. */
import { html, useEffect, useState } from '../vendor/html.js';
import { getJson } from '../data/api.js';
import { openTrace } from '../data/source_trace.js';
import { InputForm } from './input_form.js';
import { Overview } from '../views/overview.js';

/* The views by name: a component each, of {state, change, source}. */
const VIEWS = { overview: Overview };

function useStore(store) {
    const [state, setState] = useState(store.get());
    useEffect(() => store.subscribe(setState), [store]);
    return [state, store.change];
}

/* What can be asked of the daemon: the models that it serves. */
function useModels(onFault) {
    const [models, setModels] = useState([]);
    useEffect(() => {
        getJson('v1/models').then((answer) => setModels(answer.models), onFault);
    }, []);
    return models;
}

/* The source of the input in the state; null while there is none. */
function useSource(state, onFault) {
    const [source, setSource] = useState(null);
    useEffect(() => {
        const ending = new AbortController();
        let opened = null;
        setSource(null);
        if (state.model === null || (state.text === null && state.tokens === null))
            return undefined;
        onFault(null);
        openTrace(state, ending.signal).then((made) => {
            opened = made;
            setSource(made);
        }).catch((error) => error.name === 'AbortError' || onFault(error));
        return () => {
            ending.abort();
            opened?.close();
        };
    }, [state.model, state.text, state.pair, state.decoderText, state.tokens]);
    return source;
}

export function Shell({ store }) {
    const [state, change] = useStore(store);
    const [fault, setFault] = useState(null);
    const models = useModels(setFault);
    const source = useSource(state, setFault);
    const View = VIEWS[state.view] ?? Overview;
    return html`
        <header>
            <h1>attnd explorer</h1>
            <${InputForm} models=${models} state=${state} change=${change} />
        </header>
        <main>
            ${fault && html`<p class="fault" role="alert">${fault.message}${fault.pointer && ` (${fault.pointer})`}</p>`}
            ${source && html`<${View} state=${state} change=${change} source=${source} />`}
        </main>`;
}
