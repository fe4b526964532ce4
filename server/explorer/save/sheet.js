/* sheet.js - the numbers of a view, gathered to be taken away: the maps that are seen, with their tokens.
 *
 * A sheet is {view, model, title, panels, pair}. A panel is one map:
 * {name, layer, head, rows: [a, b], keys: [a, b], shape: [r, c], values, rowTokens, keyTokens, isDifference}, where
 * row i of n is in cell floor(i * r / n), and a cell holds the largest weight. Tokens are labels of rows a to b. */

const CELLS = { overview: 64, head: 1024, tokens: 256, why: 4096, compare: 1024 };
const VALUES_MAX = 4 << 20;                      /* of a whole sheet: 16 MB */

const labelsOf = (tokens, [begin, end]) => tokens.slice(begin, end).map((token) => token.label);

function panelOf(source, layer, head, { rows, keys }, maps, at) {
    const size = maps.rows * maps.keys;
    return { name: `layer ${layer.layer}, head ${head}`, layer: layer.layer, head, rows, keys,
        shape: [maps.rows, maps.keys], values: maps.values.subarray(at * size, (at + 1) * size),
        rowTokens: labelsOf(layer.rowTokens, rows), keyTokens: labelsOf(layer.keyTokens, keys), isDifference: false };
}

/* The window of the state within a layer, all of it where the two do not fit: the other side of a comparison may be
 * smaller. */
function windowOf(layer, { rows, keys }) {
    const within = (range, count) => (range && range[0] < count ? [range[0], Math.min(range[1], count)] : [0, count]);
    return { rows: within(rows, layer.rows), keys: within(keys, layer.keys) };
}

async function headPanel(source, state, cells) {
    const layer = source.layers.find((one) => one.layer === state.layer);
    const range = windowOf(layer, state);
    const maps = await source.maps(layer.layer, { head: state.head, ...range, cells: [cells, cells] });
    return panelOf(source, layer, state.head, range, maps, 0);
}

/* The maps of all heads of a layer. */
async function layerPanels(source, layer, range, side) {
    const maps = await source.maps(layer.layer, { head: 'all', ...range, cells: [side, side] });
    return Array.from({ length: layer.heads }, (_, head) => panelOf(source, layer, head, range, maps, head));
}

async function overviewPanels(source) {
    const heads = source.layers.reduce((sum, layer) => sum + layer.heads, 0);
    const side = Math.max(8, Math.min(CELLS.overview, Math.floor(Math.sqrt(VALUES_MAX / heads))));
    const panels = [];
    for (const layer of source.layers)           /* one after the other: a model may have a thousand heads */
        panels.push(...await layerPanels(source, layer, windowOf(layer, { rows: null, keys: null }), side));
    return panels;
}

async function tokenPanels(source, state) {
    const layer = source.layers.find((one) => one.layer === state.layer);
    const panels = await layerPanels(source, layer, windowOf(layer, state), CELLS.tokens);
    return panels.filter(({ head }) => !state.heads || state.heads.includes(head));
}

/* The difference of two maps of one shape; null where there is none. */
function differenceOf(a, b) {
    if (a.shape.join() !== b.shape.join() || a.rows.join() !== b.rows.join() || a.keys.join() !== b.keys.join())
        return null;
    return { ...a, name: 'the first − the second', values: a.values.map((value, i) => value - b.values[i]),
        isDifference: true };
}

async function comparePanels(source, state, other) {
    const panels = [await headPanel(source, state, CELLS.compare)];
    if (other) {
        const second = await headPanel(other.source, { ...state, layer: other.layer, head: other.head },
            CELLS.compare);
        panels.push({ ...second, isOther: true });
        if (state.difference)
            panels.push(differenceOf(...panels));
    }
    return panels.filter(Boolean);
}

/* The pair of `why`, and the row that it lies in. */
async function whyParts(source, state) {
    if (state.row === null || state.key === null)
        return { panels: [await headPanel(source, state, CELLS.head)], pair: null };
    const { layer, head, row, key } = state;
    const range = { ...state, rows: [row, row + 1], keys: null };
    const [panel, pair] = await Promise.all([headPanel(source, range, CELLS.why),
        source.pair({ layer, head, row, key })]);
    const one = source.layers.find((found) => found.layer === layer);
    const labels = { rowToken: one.rowTokens[row].label, keyToken: one.keyTokens[key].label };
    return { panels: [panel], pair: { ...pair, ...labels } };
}

/* The sheet of what is seen. other is {source, layer, head} of a comparison, or null. */
export async function gatherSheet(state, source, other) {
    const { view } = state;
    const sheet = { view, model: source.model, title: source.title, pair: null };
    if (view === 'overview')
        return { ...sheet, panels: await overviewPanels(source) };
    if (view === 'tokens')
        return { ...sheet, panels: await tokenPanels(source, state) };
    if (view === 'why')
        return { ...sheet, ...await whyParts(source, state) };
    if (view === 'compare')
        return { ...sheet, panels: await comparePanels(source, state, other) };
    return { ...sheet, panels: [await headPanel(source, state, CELLS.head)] };
}
