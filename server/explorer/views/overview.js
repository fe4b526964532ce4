// SPDX-License-Identifier: Apache-2.0
/* overview.js - every head of every layer as a small map: in a grid, layers down, heads across, or sorted by what the
 * heads do; the same as a table of numbers. */
import { plural } from '../data/words.js';
import { rangeOf } from '../draw/range.js';
import { enlargedBy } from '../draw/zoom.js';
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from '../vendor/html.js';
import { LookControls } from './head_controls.js';
import { SCORES, withScores } from './head_scores.js';
import { listHeads, passesFilter, sortHeads, STATISTICS } from './head_words.js';
import { MapsLoader } from './maps_loader.js';
import { MapFlow, MapGrid } from './map_grid.js';
import { HeadAside, HeadDetail } from './overview_detail.js';
import { OverviewFilter } from './overview_filter.js';
import { FindButton, OverviewFinder, takesProbe } from './overview_finder.js';
import { OverviewTable } from './overview_table.js';
import { useScores } from './use_scores.js';
import { useStatistics } from './use_statistics.js';

const NONE = [];
const SIDE_LEAST = 22; /* a button of 24 pixels */
const SIDE_MOST = 192;
const SIDE_SORTED = 64;
const CELLS_MOST = 64;
const SCREEN_PART = 0.62; /* of the height of the window that all layers together should take, */
const ABOVE = 300; /* pixels of the frame and the fields; where what is known of a head stands beside, more is free */
const LABEL_WIDTH = 44; /* of the layer labels, with the borders and gaps of the table */
const KIND_WIDTH = 24; /* and of the kinds, where layers have one */
const ASIDE_GAP = 24;
const ASIDE_LEAST = 280; /* of what is known of a head, beside the maps */
const GAP = 6;

/* The side of a head's picture, so that the heads of a layer fit beside each other, and the layers on a screen, where
 * that leaves something to see; and the width that is left beside them, 0 where it is too little for words. A cell has
 * whole pixels, so a side is a multiple of the cells: what is more would be blank. */
function sizesIn(width, height, layers) {
    const heads = Math.max(...layers.map((layer) => layer.heads));
    const cells = Math.min(CELLS_MOST, Math.max(...layers.map(({ keys }) => keys)));
    const labels = LABEL_WIDTH + (layers.some(({ kind }) => kind !== 'self') ? KIND_WIDTH : 0);
    const across = Math.floor((width - labels) / heads) - GAP;
    const sideIn = (room) => {
        const down = Math.floor(room / layers.length) - GAP;
        const side = Math.min(SIDE_MOST, across, Math.max(SIDE_SORTED, down));
        return Math.max(SIDE_LEAST, side < cells ? side : side - side % cells);
    };
    const side = sideIn(height - ABOVE);
    const left = width - labels - heads * (side + GAP);
    return left >= ASIDE_LEAST ? { side, left } : { side: sideIn(SCREEN_PART * height), left: 0 };
}

function useSizes(ref, layers) {
    const [sizes, setSizes] = useState({ side: null, left: 0 });
    useLayoutEffect(() => {
        const measure = () => setSizes(sizesIn(ref.current.clientWidth,
            window.innerHeight / enlargedBy(ref.current), layers));
        measure();
        window.addEventListener('resize', measure);
        return () => window.removeEventListener('resize', measure);
    }, [layers]);
    return sizes;
}

function useLoader(source, side, onFault) {
    const [reading, setReading] = useState([]);
    const most = Math.min(side ?? 1, CELLS_MOST);
    const loader = useMemo(() => new MapsLoader(source,
        (layer) => [layer.rows, layer.keys].map((count) => Math.min(count, most)),
        { onChange: setReading, onFault }), [source, most]);
    useEffect(() => () => loader.close(), [loader]);
    return [loader, reading];
}

function Tools({ state, change, form, setForm, heads, left, hasStatistics, canFind, finder, range }) {
    return html`<div class="overview-tools head-controls">
        <label>Order ${' '}
            <select value=${state.sort} disabled=${!hasStatistics}
                    onChange=${(event) => change({ sort: event.target.value })}>
                <option value="layer">by layer</option>
                ${[...STATISTICS, ...(canFind ? SCORES : [])].map(({ name, label }) => html`
                    <option value=${name}>${label}, largest first</option>`)}
            </select>
        </label>
        <${LookControls} state=${state} change=${change} range=${range} words=", in all maps" />
        <fieldset class="segments"><legend class="hidden">Show heads as</legend>
            ${['maps', 'table'].map((name) => html`<label class=${form === name ? 'chosen' : ''}>
                <input type="radio" name="overview-form" value=${name} checked=${form === name}
                    onChange=${() => setForm(name)} />${name === 'maps' ? 'Maps' : 'Table'}</label>`)}
        </fieldset>
        <${FindButton} canFind=${canFind} finder=${finder} />
        <span role="status" data-heads-left=${left}>${left === heads.length
            ? plural(left, 'head') : `${left} of ${plural(heads.length, 'head')}`}</span>
    </div>`;
}

function readingWords(layers) {
    if (layers.length === 0)
        return '';
    const some = layers.slice(0, 4).join(', ');
    return `Reading the maps of layer${layers.length > 1 ? 's' : ''} ${some}${layers.length > 4 ? ' and others' : ''}…`;
}

export function Overview({ state, change, source, onFault, models }) {
    const box = useRef(null);
    const [form, setForm] = useState('maps');
    const [looked, setLooked] = useState(null);
    const statistics = useStatistics(source, onFault);
    const { side, left } = useSizes(box, source.layers);
    const sorted = state.sort !== 'layer' && statistics !== null;
    const shownSide = sorted ? SIDE_SORTED : side;
    const [loader, reading] = useLoader(source, shownSide, onFault);
    const canFind = takesProbe(source, models);
    const finder = useScores(source.model, { sort: state.sort, canFind }, onFault);
    const heads = useMemo(() => withScores(listHeads(source.layers, statistics), finder.scores),
        [source, statistics, finder.scores]);
    const filter = JSON.stringify(statistics ? state.filter : {});
    const passing = useMemo(() => new Set(heads.filter((entry) => passesFilter(entry, JSON.parse(filter)))),
        [heads, filter]);
    const shown = useMemo(() => sortHeads(heads, state.sort).filter((entry) => passing.has(entry)),
        [heads, passing, state.sort]);
    const unit = source.picture ? 'patch' : 'token';
    useEffect(() => setLooked(null), [source]);
    const open = ({ layer, head }) => change({ view: 'head', layer: layer.layer, head, rows: null, keys: null });
    const range = rangeOf(state.range, loader.span, Math.max(...source.layers.map(({ keys }) => keys)));
    const props = { loader, range: range.value, side: shownSide, scale: state.scale, palette: state.palette, unit,
        off: source.off ?? NONE, onOpen: open, onLook: setLooked, current: `${state.layer} ${state.head}` };
    const find = (at) => at && heads.find((one) => one.head === at.head && one.layer.layer === at.layer);
    const pointed = looked && find({ layer: looked.layer.layer, head: looked.head });
    const isAside = left > 0 && !sorted;
    return html`<section class="overview" ref=${box} aria-label="All heads"
        aria-busy=${reading.length > 0 || finder.isFinding}>
        <${Tools} ...${{ state, change, form, setForm, heads, left: passing.size, canFind, finder, range,
            hasStatistics: !!statistics }} />
        <${OverviewFilter} ...${{ heads, filter: state.filter, statistics,
            onFilter: (next) => change({ filter: next }) }} />
        ${finder.scores && html`<${OverviewFinder} ...${{ heads, sort: state.sort,
            onSort: (name) => change({ sort: name }) }} />`}
        ${form === 'table'
            ? html`<${OverviewTable} ...${{ heads: shown, sort: state.sort, unit, onOpen: open,
                isFound: finder.scores !== null,
                onSort: (name) => change({ sort: name }) }} />`
            : html`<div class=${isAside ? 'overview-maps beside' : 'overview-maps'}>
                <div class="head-look">
                    ${isAside ? html`<${HeadAside} ...${props} entry=${pointed ?? find(state)}
                        width=${left - ASIDE_GAP} />` : html`<${HeadDetail} entry=${pointed} unit=${unit} />`}
                    <p class="reading faint" aria-live="polite">${readingWords(reading)}</p>
                </div>
                ${side !== null && (sorted ? html`<${MapFlow} entries=${shown} ...${props} />`
                : html`<${MapGrid} entries=${heads} passing=${passing} layers=${source.layers} ...${props} />`)}
            </div>`}
    </section>`;
}
