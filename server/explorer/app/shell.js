// SPDX-License-Identifier: Apache-2.0
/* shell.js - the frame around the views: what is looked at, which view, progress, and faults. */
import { html, useCallback, useEffect, useLayoutEffect, useRef, useState } from '../vendor/html.js';
import { inlineFile, isPicture } from '../data/open.js';
import { writeAddress } from '../data/state.js';
import { plural } from '../data/words.js';
import { useKeys } from '../draw/keys.js';
import { Cancelled, Computing } from './computing.js';
import { Export } from './export.js';
import { Boundary, Fault } from './fault.js';
import { DropZone } from './file_drop.js';
import { Help } from './help.js';
import { useModels, useOther, useSource, useStore, useVersion } from './hooks.js';
import { FIRST_TEXT, FRESH, InputForm, OF_MODEL } from './input_form.js';
import { firstModel, inputWords, isServed, parameterCount, takes } from './model_words.js';
import { PresentSwitch, usePresent } from './present.js';
import { selectionFor } from './selection.js';
import { goToStop, hasTour, stopState, Tour } from './tour.js';
import { VIEWS, viewOf } from './views.js';
import { AnswerStrip } from '../views/answer_strip.js';
import { SwitchedOff } from '../views/switched_off.js';

/* A first visit looks by itself where the pass takes no time worth asking for. */
const ASKS_FROM_PARAMETERS = 2e9;

/* What the address leaves open: the smallest model, and its first text; null where nothing is to be chosen. */
function firstLook(models, state, file) {
    const model = models?.find(({ name }) => name === state.model) ?? firstModel(models ?? []);
    if (!model || file)
        return null;
    const needsText = state.text === null && state.tokens === null;
    if (needsText && hasTour(models) && stopState(state.tour))
        return { ...stopState(state.tour), present: state.present };
    if (needsText && takes(model, 'text') && state.model === null && parameterCount(model) < ASKS_FROM_PARAMETERS)
        return { model: model.name, text: FIRST_TEXT };
    if (needsText && takes(model, 'text') && state.model === model.name)
        return { text: FIRST_TEXT };
    return state.model === null && !needsText ? { model: model.name } : null;
}

/* Takes the first look; true until the state has it. */
function useFirstLook(models, state, change, file) {
    const first = firstLook(models, state, file);
    useEffect(() => {
        if (first)
            change(first, { isStep: false });
    }, [models, state.model, state.text, state.tokens, file]);
    return first !== null;
}

/* On a phone the tabs are wider than the screen: the chosen one is seen. */
function useChosenSeen(tabs, view) {
    useLayoutEffect(() => {
        const { left, right } = tabs.current.getBoundingClientRect();
        const tab = tabs.current.querySelector('[aria-current]').getBoundingClientRect();
        tabs.current.scrollLeft += Math.min(0, tab.left - left) + Math.max(0, tab.right - right);
    }, [view]);
}

function Tabs({ state, change }) {
    const tabs = useRef(null);
    useChosenSeen(tabs, state.view);
    const go = (event, name) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey)
            return;
        event.preventDefault();
        change({ view: name });
    };
    return html`
        <nav class="tabs" aria-label="Views" ref=${tabs}>
            ${VIEWS.map(({ name, title }) => html`
                <a href=${writeAddress({ ...state, view: name }) || '#'} data-view=${name}
                    aria-current=${viewOf(state.view).name === name ? 'page' : undefined}
                    onClick=${(event) => go(event, name)}>${title}</a>`)}
        </nav>`;
}

/* What the page does, in one line that a screen reader hears. */
function statusWords({ models, state, file, fault, source, isOpening, isCancelled, milliseconds }) {
    if (fault)
        return '';
    if (models === null || (isOpening && state.model === null && !file))
        return 'Asking which models are served…';
    const layers = models.find(({ name }) => name === state.model)?.layers.length;
    if (isOpening)
        return file ? `Reading and computing ${file.name}…`
            : `Computing ${layers ? `${plural(layers, 'layer')} of ` : ''}${state.model}…`;
    if (!source)
        return isCancelled ? 'Cancelled' : '';
    const heads = source.layers.reduce((sum, layer) => sum + layer.heads, 0);
    const widest = source.layers.reduce((most, layer) => (layer.rows > most.rows ? layer : most));
    const unit = source.unit ?? (source.picture || widest.rowTokens[0]?.id !== null ? 'token' : 'row');
    const model = source.model === null ? 'weights of a file: ' : source.model === state.model ? ''
        : `${source.model}: `;
    return `${model}${plural(source.layers.length, 'layer')}, ${plural(heads, 'head')}, ` +
        `${plural(widest.rows, unit)}, in ${(milliseconds / 1000).toFixed(milliseconds < 1000 ? 2 : 1)} s`
        + (source.words ? `; ${source.words}` : '');
}

/* What is there while there is nothing to look at. */
function Invitation({ models, model, onTour }) {
    if (models === null)
        return null;
    if (inlineFile)
        return html`<p class="invitation">Open a file with weights, or drop one on the page.</p>`;
    if (models.length === 0)
        return html`<p class="invitation">No model is served. Start the daemon with <code>--models DIR</code>, and a
            published checkpoint in that folder.</p>`;
    if (model && !model.trace && !isServed(model))
        return html`<p class="invitation">${model.name}: ${inputWords(model)}</p>`;
    if (model && !takes(model, 'text'))
        return html`<p class="invitation">${model.trace && model.pixels
            ? 'Open a picture, or drop one on the page: the model looks at its patches.'
            : 'Open a file, or drop one on the page: .safetensors, .npy or .json with rows of numbers.'}</p>`;
    return html`<p class="invitation">Choose a model, type a text and press Show. Or drop a file on the page: a
        .safetensors, .npy or .json file with query, key and value or with rows of numbers, or a picture for a model
        that takes one. ${onTour && html`Or <button class="link" onClick=${onTour}>take a tour</button> of seven
        stops.`}</p>`;
}

/* isWaiting: the view is not there yet, and would move what stands below it. */
function Footer({ version, isWaiting, onHelp }) {
    return html`
        <footer class=${isWaiting ? 'waiting' : ''}>
            <span>attnd${version && ` ${version}`}</span>
            ${!inlineFile && html`<a href="openapi.json">API description</a>`}
            <button class="link" onClick=${onHelp}>Keyboard shortcuts</button>
            <span class="faint">A weight says where a head looks, not why the model answers.</span>
        </footer>`;
}

/* All that the frame holds, and what its parts need of it. */
function useFrame(store) {
    const [state, change] = useStore(store);
    const [fault, setFault] = useState(null);
    const [attempt, setAttempt] = useState(0);
    const [file, setFile] = useState(inlineFile);
    const [options, setOptions] = useState({});
    const onFault = useCallback((error) => error?.name === 'AbortError' || setFault(error), []);
    const models = useModels(attempt, onFault);
    const version = useVersion(attempt);
    const isFirst = useFirstLook(models, state, change, file);
    const made = useSource({ state, file, options, models, attempt, onFault });
    useEffect(() => {                            /* Back, from a file to a text */
        if (state.text !== null || state.tokens !== null)
            setFile(null);
    }, [state.text, state.tokens]);
    const openOther = useOther(state, made.source, models);
    const fitting = made.source ? selectionFor(state, made.source) : {};
    useEffect(() => {
        const late = made.source ? selectionFor(store.get(), made.source) : {};  /* a view may have chosen meanwhile */
        if (Object.keys(late).length > 0)
            change(late, { isStep: false });
    }, [made.source, JSON.stringify(fitting)]);
    const onAgain = () => {
        setFault(null);
        setAttempt(attempt + 1);
    };
    const onCancel = useCallback(() => made.cancel.current(), []);
    return { state, shown: { ...state, ...fitting }, change, onCancel, fault, setFault, onFault, onAgain, models,
        version, file, setFile, options, setOptions, ...made, isOpening: made.isOpening || isFirst, openOther };
}

const NO_TEXT = { text: null, pair: null, decoderText: null };

/* A file takes the place of the text, and a picture goes to a model that takes one. */
function takeFile({ models, state, change, setFile, setOptions }, file, chosen) {
    setFile(file);
    setOptions({});
    if (!file)
        return;
    const model = models?.find(({ name }) => name === (chosen ?? state.model));
    const forPictures = isPicture(file) && !model?.pixels && models?.find((one) => one.trace && one.pixels);
    change({ ...NO_TEXT, ...FRESH, ...OF_MODEL,
        model: forPictures ? forPictures.name : chosen ?? state.model ?? 'sdpa' });
}

const WHAT_MOST = 40;                            /* characters: more has no room, and is no name of a button */

/* "stories260K: Once upon a time…", what is looked at in short; null: nothing is. */
function shortWords({ state, file, source }) {
    const what = file?.name ?? state.text;
    if (!what)
        return null;
    const characters = [...what];
    const part = characters.length <= WHAT_MOST ? what : `${characters.slice(0, WHAT_MOST).join('').trimEnd()}…`;
    return `${source?.kind === 'weights' ? 'weights' : state.model ?? ''}: ${part}`;
}

/* On a phone the form folds away while there is something to look at. */
function Header({ frame, isOpen, onOpen, onHelp }) {
    const { models, state, change, file } = frame;
    const what = isOpen ? null : shortWords(frame);
    return html`
        <header class=${isOpen ? 'open' : ''}>
            <div class="brand">
                <h1>attnd explorer</h1>
                <button class="change" aria-expanded=${isOpen} aria-controls="input"
                    aria-label=${what ? `Change the input, ${what}` : undefined}
                    onClick=${() => onOpen(!isOpen)}>${what ?? 'Hide the input'}</button>
                <button class="round" aria-label="Help" title="Help (?)" onClick=${onHelp}>?</button>
            </div>
            <${InputForm} models=${models} state=${state} change=${change} file=${file}
                onFile=${(one, model) => takeFile(frame, one, model)}
                options=${file && !isPicture(file) && (frame.source?.kind !== 'trace' || frame.source.options)
                    ? frame.options : null}
                isWeights=${frame.source?.kind === 'weights'} given=${frame.source?.options ?? frame.fault?.choice}
                onOptions=${frame.setOptions} onLooked=${() => {
                    onOpen(false);
                    if (frame.isCancelled)
                        frame.onAgain();
                }} />
        </header>`;
}

/* A view begins at its top, wherever the last one was scrolled to. */
function useTop(view) {
    const last = useRef(view);
    useLayoutEffect(() => {
        if (last.current !== view)
            window.scrollTo(0, 0);
        last.current = view;
    }, [view]);
}

export function Shell({ store }) {
    const frame = useFrame(store);
    const { state, shown, change, fault, models, source, openOther, onFault } = frame;
    const [hasOpened, setIsOpen] = useState(false);
    const isOpen = hasOpened || (models !== null && !source && !frame.isOpening);
    const [hasHelp, setHasHelp] = useState(false);
    const [hasKeys, setHasKeys] = useState(true);
    const { name, title, View } = viewOf(state.view);
    useTop(name);
    usePresent(state, change, hasKeys);
    const onTour = hasTour(models) ? () => {
        setHasHelp(false);
        frame.setFile(null);
        goToStop(1, frame);
    } : null;
    useEffect(() => {
        document.title = source ? `${title}: ${source.title}` : 'attnd explorer';
    }, [title, source]);
    useKeys({ '?': () => setHasHelp(true), '/': () => {
        setIsOpen(true);
        setTimeout(() => document.querySelector('#input textarea')?.focus());
    }, u: () => change({ off: state.off.slice(0, -1) }),
    ...Object.fromEntries(VIEWS.map((view, i) => [i + 1, () => change({ view: view.name })])) }, hasKeys);
    return html`
        <${Header} frame=${frame} isOpen=${isOpen} onOpen=${setIsOpen} onHelp=${() => setHasHelp(true)} />
        <div class="bar">
            <${Tabs} state=${state} change=${change} />
            <p class="status faint" role="status">${statusWords(frame)}</p>
            <${PresentSwitch} isOn=${state.present} change=${change} />
            ${source && html`<${Export} view=${{ state: shown, source, openOther }} onFault=${onFault} />`}
        </div>
        <main data-view=${name} aria-busy=${frame.isOpening}>
            ${fault && html`<${Fault} key=${fault} fault=${fault} onAgain=${frame.onAgain}
                onClose=${() => frame.setFault(null)} />`}
            <h2 class="hidden">${title}</h2>
            ${state.off.length > 0 && html`<${SwitchedOff} off=${state.off} change=${change} />`}
            <${Tour} ...${{ state, change, hasKeys }} />
            ${source?.predictions?.length > 0 && html`<${AnswerStrip} ...${{ source, state, models, change }} />`}
            ${source && html`<${Boundary} key=${name}>
                <${View} ...${{ state: shown, change, source, onFault, models, openOther, hasKeys }} />
            <//>`}
            ${frame.isOpening && models !== null && html`<${Computing} key=${frame.input} progress=${frame.progress}
                onCancel=${frame.onCancel} />`}
            ${frame.isCancelled && !fault && html`<${Cancelled} onAgain=${frame.onAgain} />`}
            ${!source && !frame.isOpening && !frame.isCancelled && !fault && html`<${Invitation} models=${models}
                model=${models?.find((one) => one.name === state.model)} onTour=${onTour} />`}
        </main>
        <${Footer} version=${frame.version} isWaiting=${!fault && (models === null || frame.isOpening)}
            onHelp=${() => setHasHelp(true)} />
        <${Help} isOpen=${hasHelp} onClose=${() => setHasHelp(false)} onTour=${onTour}
            hasKeys=${hasKeys} onHasKeys=${setHasKeys} />
        <${DropZone} onFile=${(file) => takeFile(frame, file)} onFault=${onFault} />`;
}
