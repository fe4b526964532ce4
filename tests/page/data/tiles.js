// SPDX-License-Identifier: Apache-2.0
/* tiles.js - cells of a TileStore are the maxima of the map, however it is asked; no request is made twice, few at
 * once, and those out of view end. */
const { TileStore, levelOf } = await import(at('tiles.js'));
const random = numbersFrom(3);
const below = (n) => Math.floor(random() * n);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/* A source whose weights are made of row and key, and that counts how it is asked. */
function madeSource(rows, keys, delay = 1) {
    const flights = { live: 0, most: 0, ended: 0, asked: new Map() };
    const weight = (row, key) => Math.fround(Math.abs(Math.sin(row * 12.9898 + key * 78.233) * 43758.5453) % 1);
    const maps = async (_, { rows: [top, bottom], keys: [left, right], cells, signal }) => {
        const name = JSON.stringify([top, bottom, left, right, cells]);
        flights.asked.set(name, (flights.asked.get(name) ?? 0) + 1);
        flights.most = Math.max(flights.most, ++flights.live);
        signal.addEventListener('abort', () => {
            flights.live--;
            flights.ended++;
        });
        await pause(delay);
        signal.throwIfAborted();
        flights.live--;
        const values = new Float32Array(cells[0] * cells[1]);
        for (let row = top; row < bottom; row++)
            for (let key = left; key < right; key++) {
                const cell = Math.floor((row - top) * cells[0] / (bottom - top)) * cells[1]
                    + Math.floor((key - left) * cells[1] / (right - left));
                values[cell] = Math.max(values[cell], weight(row, key));
            }
        return { heads: 1, rows: cells[0], keys: cells[1], values };
    };
    return { weight, flights, maps, layers: [{ layer: 3, rows, keys }] };
}

async function settled(store, window, { flights }) {
    let tiles;
    for (let asked = -1; flights.live > 0 || asked !== flights.asked.size;) {
        asked = flights.asked.size;
        tiles = store.look(window);
        await pause(40);
    }
    return tiles;
}

const randomRange = (count) => {
    const begin = below(count);
    return [begin, begin + 1 + below(count - begin)];
};

const holds = (range, number) => range[0] <= number && number < range[1];

function checkCell(cell, source, row, key) {
    let most = 0;
    for (let i = cell.rows[0]; i < cell.rows[1]; i++)
        for (let j = cell.keys[0]; j < cell.keys[1]; j++)
            most = Math.max(most, source.weight(i, j));
    if (cell.value !== most || !holds(cell.rows, row) || !holds(cell.keys, key))
        faults.push(`cell of ${row}, ${key}: ${JSON.stringify(cell)}, the largest weight is ${most}`);
}

for (const [rows, keys] of [[1, 1], [5, 4], [300, 300], [1200, 1200], [1, 3000], [2049, 7]]) {
    const source = madeSource(rows, keys);
    const store = new TileStore(source, 3, 0);
    for (let look = 0; look < 4; look++) {
        const window = { rows: randomRange(rows), keys: randomRange(keys), width: 50 + below(1500),
            height: 50 + below(900) };
        const tiles = await settled(store, window, source);
        for (let i = 0; i < 100; i++) {
            const [row, key] = [window.rows, window.keys].map(([begin, end]) => begin + below(end - begin));
            const over = tiles.filter((tile) => holds(tile.rows, row) && holds(tile.keys, key));
            if (over.length !== 1)
                faults.push(`${rows} x ${keys}: ${over.length} tiles over ${row}, ${key}`);
            checkCell(store.cell(row, key), source, row, key);
            checkCell(store.drawnCell(row, key), source, row, key);
        }
    }
    same(`${rows} x ${keys}: requests made twice`, [...source.flights.asked.values()].filter((n) => n > 1), []);
    if (source.flights.most > 6)
        faults.push(`${rows} x ${keys}: ${source.flights.most} requests at once`);
    store.close();
    same('a closed store has no cells', store.cell(0, 0), null);
}

same('levels', [[4096, 1600, 4096], [4096, 800, 4096], [100, 800, 4096], [5, 1, 5]].map((sizes) => levelOf(...sizes)),
    [2, 3, 0, 0]);
for (let i = 0; i < 200; i++) {
    const span = 1 + below(100000);
    const pixels = 1 + below(3000);
    if (span / 2 ** levelOf(span, pixels, 1e9) > Math.min(pixels, 1024))
        faults.push(`${span} numbers on ${pixels} pixels: more cells than either`);
}

/* Jumping through a large map: what is out of view is not waited for, and the whole map stands in. */
const source = madeSource(8192, 8192, 30);
const store = new TileStore(source, 3, 0);
const window = (begin) => ({ rows: [begin, begin + 200], keys: [begin, begin + 200], width: 1000, height: 1000 });
await settled(store, window(0), source);
for (let i = 0; i < 8; i++) {
    const tiles = store.look(window(900 * i));
    same('the coarsest tile is drawn first', tiles[0].rows, i === 0 ? [0, 256] : [0, 8192]);
    await pause(5);
}
if (source.flights.ended === 0)
    faults.push('no request out of view was ended');
store.close();
same('a closed store asks for nothing', source.flights.live, 0);

/* What fails is said, and asked again when there is room. */
let asked = 0;
const failing = new TileStore({ layers: source.layers, maps: async () => {
    asked++;
    throw Object.assign(new Error('no room'), { retryAfter: asked === 1 ? 0.1 : null });
} }, 3, 0);
failing.look({ rows: [0, 8192], keys: [0, 8192], width: 100, height: 100 });
await pause(50);
same('the fault', failing.fault?.message, 'no room');
await pause(300);
same('asked again once', asked, 2);
failing.look({ rows: [0, 8192], keys: [0, 8192], width: 100, height: 100 });
await pause(20);
same('what is refused for good is not asked again', asked, 2);
failing.retry();
await pause(20);
same('but when somebody wants it', asked, 3);
failing.close();
