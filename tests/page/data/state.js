// SPDX-License-Identifier: Apache-2.0
/* state.js - the address holds the state: what is written is read again, whatever the state. */
const { INITIAL, linkOf, readAddress, writeAddress, createStore } = await import(at('state.js'));
const random = numbersFrom(7);
const below = (n) => Math.floor(random() * n);
const oneOf = (...values) => values[below(values.length)];
const LETTERS = ['a', ' ', '\n', '\t', '&', '=', '#', '%', '+', '"', '<', ';', '/', '\u0000', 'é', '😀'];
const text = () => Array.from({ length: below(12) }, () => oneOf(...LETTERS)).join('');
const number = () => oneOf(below(10), random(), random() * 1e-9, -random() * 1e22, -3, 0.1 + 0.2);
const counts = () => Array.from({ length: below(4) }, () => below(1e9));
const range = () => {
    const begin = below(1e5);
    return [begin, begin + 1 + below(1e5)];
};
const maybe = (make) => oneOf(null, make());

const randomState = () => ({
    ...INITIAL,
    model: maybe(text), text: maybe(text), pair: maybe(text), decoderText: maybe(text), tokens: maybe(counts),
    view: oneOf('overview', 'answer', 'head', 'tokens', 'why', 'compare'),
    layer: maybe(() => below(99)), head: maybe(() => below(99)),
    row: maybe(() => below(1e5)), key: maybe(() => below(1e5)),
    rows: maybe(range), keys: maybe(range),
    scale: oneOf('linear', 'sqrt', 'log'), palette: oneOf('viridis', 'cividis', 'greys'),
    sort: oneOf('layer', 'entropy', 'delimiters'),
    filter: oneOf({}, { entropy: [number(), number()] }, { self: [number(), number()], first: [0, 1e-7] }),
    parts: maybe(() => counts().map(range)), by: oneOf('hide', 'leave_out'),
    heads: maybe(counts), threshold: number(), difference: oneOf(true, false),
    heads: maybe(counts), threshold: maybe(number), form: oneOf('columns', 'text'),
    over: oneOf('mean', 'largest'), between: oneOf(null, 'A-A', 'A-B', 'B-A', 'B-B'), difference: oneOf(true, false),
    other: maybe(() => ({ model: maybe(text), text: maybe(text), layer: maybe(() => below(9)),
        head: maybe(() => below(9)) })),
});

for (let i = 0; i < 2000 && faults.length < 5; i++) {
    const state = randomState();
    same(writeAddress(state), readAddress(writeAddress(state)), state);
}
for (const bad of [
    'layer=-1&row=x&rows=3:2&keys=1:1&filter=entropy::1&filter=nothing:0:1&threshold=',
    'view=none&heads=,&tokens=1,,2&form=3&over=&between=A-C',
    '__proto__=3&constructor=1&other.__proto__=1&toString=2', '%', '%zz&=&&&'])
    same(bad, readAddress(`#${bad}`), INITIAL);
same('a head that is off twice', readAddress('#off=4.4,3.1,4.4,04.4').off, [[4, 4], [3, 1]]);

/* The browser that a store writes to, as a list of what was written. */
const written = [];
const listeners = {};
const win = {
    location: { hash: '', pathname: '/', search: '' },
    addEventListener: (name, call) => { listeners[name] = call; },
    history: Object.fromEntries(['pushState', 'replaceState'].map((method) => [method, (_, __, address) => {
        written.push(`${method} ${address}`);
        win.location.hash = address.startsWith('#') ? address : '';
    }])),
};
const store = createStore(win);
let told = 0;
const end = store.subscribe(() => told++);
store.change({ layer: 1 });
for (let row = 0; row < 50; row++)
    store.change({ row });
store.change({ row: 49 });
same('who looks is told of each change', told, 51);
store.change({ view: 'head' });
same('many changes are few writes, and a step comes after them', written,
    ['replaceState #layer=1', 'replaceState #layer=1&row=49', 'pushState #view=head&layer=1&row=49']);
store.change({ key: 4 });
listeners.pagehide();
same('what waits is written when the page is left', written.at(-1), 'replaceState #view=head&layer=1&row=49&key=4');
end();
win.location.hash = '#layer=3';
listeners.popstate();
same('Back is followed', [store.get().layer, store.get().view, told], [3, 'overview', 53]);
same('the link of a state', linkOf({ ...INITIAL, text: 'a b' }, { origin: 'http://a', pathname: '/p/', search: '?q' }),
    'http://a/p/?q#text=a+b');
