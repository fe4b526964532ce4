/* overview.js - every head of every layer as a small map: in a grid, layers down, heads across, or sorted by what the
 * heads do; the same as a table of numbers. */
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from '../vendor/html.js';
import { LookControls } from './head_controls.js';
import { describeHead, describeKind, listHeads, passesFilter, shortNumber, sortHeads, STATISTICS }
    from './head_words.js';
import { MapsLoader } from './maps_loader.js';
import { MapFlow, MapGrid } from './map_grid.js';
import { OverviewFilter } from './overview_filter.js';
import { OverviewTable } from './overview_table.js';
import { useStatistics } from './use_statistics.js';

const SIDE_LEAST = 36;
const SIDE_MOST = 128;
const SIDE_SORTED = 64;
const CELLS_MOST = 64;
const SCREEN_PART = 0.62; /* of the height of the window that all layers together should take */
const LABEL_WIDTH = 40; /* of the layer labels, with the borders and gaps of the table */
const GAP = 6;

/* The side of a head's picture, so that the heads of a layer fit beside each other, and the layers on a screen, where
 * that leaves something to see. */
function useSide(ref, layers, heads) {
    const [side, setSide] = useState(null);
    useLayoutEffect(() => {
        const measure = () => {
            const across = Math.floor((ref.current.clientWidth - LABEL_WIDTH) / heads) - GAP;
            const down = Math.floor(SCREEN_PART * window.innerHeight / layers) - GAP;
            setSide(Math.max(SIDE_LEAST, Math.min(SIDE_MOST, across, Math.max(SIDE_SORTED, down))));
        };
        measure();
        window.addEventListener('resize', measure);
        return () => window.removeEventListener('resize', measure);
    }, [layers, heads]);
    return side;
}

function useLoader(source, side, onFault) {
    const [reading, setReading] = useState([]);
    const loader = useMemo(() => new MapsLoader(source,
        (layer) => [layer.rows, layer.keys].map((count) => Math.min(count, side ?? 1, CELLS_MOST)),
        { onChange: setReading, onFault }), [source, side]);
    useEffect(() => () => loader.close(), [loader]);
    return [loader, reading];
}

/* What is known of the head under the pointer or the focus. Its place is kept while there is none. */
function HeadDetail({ entry, unit }) {
    if (!entry)
        return html`<p class="head-detail faint">Point at a head, or move with the arrow keys, to read what it does.
            Enter opens it. Layers (L) go down, heads (H) across; in a map, each row is a token, each column one
            that it may look at.</p>`;
    const { layer, head, statistics } = entry;
    return html`<div class="head-detail">
        <p><b>Layer ${layer.layer}, head ${head}</b> ${describeHead(entry, unit)}
            <span class="faint">${' '}${describeKind(layer.kind)}</span></p>
        <dl>${STATISTICS.map(({ name, label, unit: of }) => html`
            <div><dt>${label}</dt><dd data-statistic=${name} data-value=${statistics?.[name] ?? ''}>
                ${shortNumber(statistics?.[name])}
                ${of && Number.isFinite(statistics?.[name]) && ` ${of}`}</dd></div>`)}</dl>
    </div>`;
}

function Tools({ state, change, form, setForm, heads, left, hasStatistics }) {
    return html`<div class="overview-tools head-controls">
        <label>Order ${' '}
            <select value=${state.sort} disabled=${!hasStatistics}
                    onChange=${(event) => change({ sort: event.target.value })}>
                <option value="layer">by layer</option>
                ${STATISTICS.map(({ name, label }) => html`<option value=${name}>${label}, largest first</option>`)}
            </select>
        </label>
        <${LookControls} state=${state} change=${change} />
        <fieldset class="segments"><legend class="hidden">Show heads as</legend>
            ${['maps', 'table'].map((name) => html`<label class=${form === name ? 'chosen' : ''}>
                <input type="radio" name="overview-form" value=${name} checked=${form === name}
                    onChange=${() => setForm(name)} />${name === 'maps' ? 'Maps' : 'Table'}</label>`)}
        </fieldset>
        <span role="status" data-heads-left=${left}>${left === heads.length ? `${left} heads`
            : `${left} of ${heads.length} heads`}</span>
    </div>`;
}

function readingWords(layers) {
    if (layers.length === 0)
        return '';
    const some = layers.slice(0, 4).join(', ');
    return `Reading the maps of layer${layers.length > 1 ? 's' : ''} ${some}${layers.length > 4 ? ' and others' : ''}…`;
}

export function Overview({ state, change, source, onFault }) {
    const box = useRef(null);
    const [form, setForm] = useState('maps');
    const [looked, setLooked] = useState(null);
    const statistics = useStatistics(source, onFault);
    const side = useSide(box, source.layers.length, Math.max(...source.layers.map(({ heads }) => heads)));
    const sorted = state.sort !== 'layer' && statistics !== null;
    const shownSide = sorted ? SIDE_SORTED : side;
    const [loader, reading] = useLoader(source, shownSide, onFault);
    const heads = useMemo(() => listHeads(source.layers, statistics), [source, statistics]);
    const filter = JSON.stringify(statistics ? state.filter : {});
    const passing = useMemo(() => new Set(heads.filter((entry) => passesFilter(entry, JSON.parse(filter)))),
        [heads, filter]);
    const shown = useMemo(() => sortHeads(heads, state.sort).filter((entry) => passing.has(entry)),
        [heads, passing, state.sort]);
    const unit = source.picture ? 'patch' : 'token';
    useEffect(() => setLooked(null), [source]);
    const open = ({ layer, head }) => change({ view: 'head', layer: layer.layer, head, rows: null, keys: null });
    const props = { loader, side: shownSide, scale: state.scale, palette: state.palette, unit, onOpen: open,
        onLook: setLooked, current: `${state.layer} ${state.head}` };
    return html`<section class="overview" ref=${box} aria-label="All heads" aria-busy=${reading.length > 0}>
        <${Tools} ...${{ state, change, form, setForm, heads, left: passing.size, hasStatistics: !!statistics }} />
        <${OverviewFilter} ...${{ heads, filter: state.filter, statistics,
            onFilter: (next) => change({ filter: next }) }} />
        ${form === 'table'
            ? html`<${OverviewTable} ...${{ heads: shown, sort: state.sort, unit, onOpen: open,
                onSort: (name) => change({ sort: name }) }} />`
            : html`<div class="head-look">
                    <${HeadDetail} entry=${looked && heads.find((one) => one.head === looked.head
                        && one.layer === looked.layer)} unit=${unit} />
                    <p class="reading faint" aria-live="polite">${readingWords(reading)}</p>
                </div>
                ${side !== null && (sorted ? html`<${MapFlow} entries=${shown} ...${props} />`
                : html`<${MapGrid} entries=${heads} passing=${passing} layers=${source.layers} ...${props} />`)}`}
    </section>`;
}
