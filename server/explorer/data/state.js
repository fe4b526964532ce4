// SPDX-License-Identifier: Apache-2.0
/* state.js - what the page shows, as one object, and the address that holds it whole.
 *
 * The state stands in the fragment of the address, which a browser sends to nobody: a link shows another person the
 * same view, and no log has its text. Files and pictures are not in the address. */

const VIEWS = ['overview', 'answer', 'head', 'tokens', 'why', 'compare'];
const SCALES = ['linear', 'sqrt', 'log'];
const PALETTES = ['viridis', 'cividis', 'greys'];
const RANGES = ['1', 'largest', '99'];

/* The state of a page without a fragment. */
export const INITIAL = Object.freeze({
    model: null, text: null, pair: null, decoderText: null, tokens: null,
    view: 'overview', layer: null, head: null, row: null, key: null,
    rows: null, keys: null,
    scale: 'linear', palette: 'viridis', range: null, sort: 'layer', filter: {},
    heads: null, threshold: null, lineRows: null, lineKeys: null,
    parts: null, by: 'hide',
    form: 'columns', over: 'mean', between: null,
    other: null, difference: false,
    off: [], target: null, against: null, position: null,
    present: false, step: null, tour: null,
});

const text = { read: (value) => value, write: (value) => value };
const count = {
    read: (value) => (/^\d{1,9}$/.test(value) ? Number(value) : undefined),
    write: String,
};
const isNumber = (value) => /^-?(\d|\.\d)/.test(value) && Number.isFinite(Number(value));
const part = {
    read: (value) => (isNumber(value) ? Number(value) : undefined),
    write: String,
};
const flag = { read: (value) => (value === '1' ? true : undefined), write: () => '1' };
const counts = {
    read: (value) => (value === '' ? [] : /^\d{1,9}(,\d{1,9})*$/.test(value) ? value.split(',').map(Number)
        : undefined),
    write: (value) => value.join(','),
};
const heads = {                                  /* [[4, 2], [4, 3]], of layers, as "4.2,4.3", each once */
    read: (value) => (/^\d{1,9}\.\d{1,9}(,\d{1,9}\.\d{1,9})*$/.test(value)
        ? [...new Map(value.split(',').map((one) => one.split('.').map(Number)).map((one) => [one.join('.'), one]))
            .values()] : undefined),
    write: (value) => value.map((one) => one.join('.')).join(','),
};
const range = {
    read: (value) => {
        const two = /^(\d{1,9}):(\d{1,9})$/.exec(value);
        return two && Number(two[1]) < Number(two[2]) ? [Number(two[1]), Number(two[2])] : undefined;
    },
    write: (value) => value.join(':'),
};
const rangeList = {
    read: (value) => {
        const all = value === '' ? [] : value.split(',').map(range.read);
        return all.includes(undefined) ? undefined : all;
    },
    write: (value) => value.map(range.write).join(','),
};
const STATISTICS = ['entropy', 'distance', 'first', 'previous', 'self', 'delimiters'];
const SCORES = ['induction', 'duplicate', 'probe_previous', 'probe_first'];
const ranges = {                                 /* {entropy: [0, 1]} as "entropy:0:1,distance:2:9" */
    read: (value) => {
        const all = {};
        for (const one of value.split(',')) {
            const [name, least, most] = one.split(':');
            if (!STATISTICS.includes(name) || !isNumber(least) || !isNumber(most))
                return undefined;
            all[name] = [Number(least), Number(most)];
        }
        return all;
    },
    write: (value) => Object.entries(value).map(([name, [least, most]]) => `${name}:${least}:${most}`).join(','),
};
const oneOf = (names) => ({
    read: (value) => (names.includes(value) ? value : undefined),
    write: (value) => value,
});

/* How each member stands in the address; of `other` each member alone. */
const FORMS = {
    model: text, text, pair: text, decoderText: text, tokens: counts,
    view: oneOf(VIEWS), layer: count, head: count, row: count, key: count, rows: range, keys: range,
    scale: oneOf(SCALES), palette: oneOf(PALETTES), range: oneOf(RANGES),
    sort: oneOf(['layer', ...STATISTICS, ...SCORES]), filter: ranges,
    heads: counts, threshold: part, lineRows: range, lineKeys: range, difference: flag,
    off: heads, target: count, against: count, position: count, present: flag, step: count, tour: count,
    parts: rangeList, by: oneOf(['hide', 'leave_out']),
    form: oneOf(['columns', 'text']), over: oneOf(['mean', 'largest']), between: oneOf(['A-A', 'A-B', 'B-A', 'B-B']),
};
const OTHER_FORMS = { model: text, text, layer: count, head: count };

const isSame = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/* The state that a fragment says; what it does not say, or says in a form that is not understood, is as INITIAL. */
export function readAddress(fragment) {
    const fields = new URLSearchParams(fragment.replace(/^#/, ''));
    const state = { ...INITIAL };
    const other = {};
    for (const [name, value] of fields) {
        const inner = name.startsWith('other.') ? name.slice(6) : null;
        const form = inner ? OTHER_FORMS[inner] : FORMS[name];
        const read = form && Object.hasOwn(inner ? OTHER_FORMS : FORMS, inner ?? name) ? form.read(value) : undefined;
        if (read !== undefined)
            (inner ? other : state)[inner ?? name] = read;
    }
    if (Object.keys(other).length > 0 || fields.has('other'))
        state.other = { model: null, text: null, layer: null, head: null, ...other };
    return state;
}

/* The fragment of a state: "#model=...&text=...". Members that are as in INITIAL are left out. */
export function writeAddress(state) {
    const fields = new URLSearchParams();
    for (const [name, form] of Object.entries(FORMS))
        if (!isSame(state[name], INITIAL[name]))
            fields.append(name, form.write(state[name]));
    const others = Object.entries(OTHER_FORMS).filter(([name]) => (state.other?.[name] ?? null) !== null);
    for (const [name, form] of others)
        fields.append(`other.${name}`, form.write(state.other[name]));
    if (state.other && others.length === 0)
        fields.append('other', '');
    const written = fields.toString();
    return written ? `#${written}` : '';
}

/* The link that shows another person the same view. The address itself may be a moment behind. */
export function linkOf(state, location = window.location) {
    return `${location.origin}${location.pathname}${location.search}${writeAddress(state)}`;
}

const STEPS = ['model', 'text', 'pair', 'decoderText', 'tokens', 'off', 'view'];
const WRITE_MS = 110;                            /* browsers refuse more writes of an address than 100 in 10 s */

/* Writes addresses over the one that is there, not oftener than browsers let. */
function createWriter(win) {
    let waiting = null;                          /* {address, timer} */
    let last = -Infinity;
    const write = (method, address) => {
        last = Date.now();
        try {
            win.history[method](null, '', address || win.location.pathname + win.location.search);
        } catch (error) {
            if (error.name !== 'SecurityError')  /* a frame without an address, as in a notebook */
                throw error;
        }
    };
    const drop = () => {
        clearTimeout(waiting?.timer);
        waiting = null;
    };
    const flush = () => {
        const address = waiting?.address;
        drop();
        if (address !== undefined)
            write('replaceState', address);
    };
    win.addEventListener('pagehide', flush);
    return {
        drop,
        push(address) {
            flush();
            write('pushState', address);
        },
        replace(address) {
            const wait = last + WRITE_MS - Date.now();
            if (waiting)
                waiting.address = address;
            else if (wait > 0)
                waiting = { address, timer: setTimeout(flush, wait) };
            else
                write('replaceState', address);
        },
    };
}

/* The state of the page and who looks at it: get(), change(members), subscribe(call) -> its end. A change of view,
 * model or input is a step that the browser's Back undoes; other changes write over the address, and so do those that
 * the page makes by itself (isStep false). */
export function createStore(win = window) {
    let state = readAddress(win.location.hash);
    const writer = createWriter(win);
    const calls = new Set();
    const tell = () => calls.forEach((call) => call(state));
    const follow = () => {                       /* Back and Forward, and an address that is typed or pasted */
        const next = readAddress(win.location.hash);
        writer.drop();
        if (isSame(state, next))
            return;
        state = next;
        tell();
    };
    win.addEventListener('popstate', follow);
    win.addEventListener('hashchange', follow);
    return {
        get: () => state,
        change(members, { isStep = true } = {}) {
            const next = { ...state, ...members };
            const isNewStep = isStep && STEPS.some((name) => !isSame(state[name], next[name]));
            if (isSame(state, next))
                return;
            state = next;
            writer[isNewStep ? 'push' : 'replace'](writeAddress(state));
            tell();
        },
        subscribe(call) {
            calls.add(call);
            return () => calls.delete(call);
        },
    };
}
