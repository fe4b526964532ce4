// SPDX-License-Identifier: Apache-2.0
/* tiles.js - the map of one head in tiles, at the size that a screen shows.
 *
 * A tile is 256 x 256 cells. A cell is 2^level rows by 2^level keys and holds the largest weight in it, so a thin line
 * never vanishes; NaN where none of its pairs may be seen. Rows and keys have a level each, because the map of cross
 * attention may be long and flat. The coarsest tile is the whole map and comes first; what is missing is drawn from
 * coarser tiles meanwhile. */

const TILE_CELLS = 256;
const CELLS_MAX = 1024;                          /* of one look, along each side */
const BYTES_MAX = 64 << 20;
const BYTES_OF_CELL = 8;                         /* the number, and the pixel of a bitmap made of it */
const FLIGHTS_MAX = 6;
const FLIGHTS_AHEAD_MAX = 2;

/* The level at which span numbers take no more cells than pixels, and no more than a look may have: a cell smaller than
 * a pixel could be passed over in drawing. */
export function levelOf(span, pixels, count) {
    const cells = Math.max(1, Math.min(pixels, CELLS_MAX));
    return Math.min(Math.max(0, Math.ceil(Math.log2(span / cells))), coarsestOf(count));
}

function coarsestOf(count) {
    return Math.max(0, Math.ceil(Math.log2(count / TILE_CELLS)));
}

/* How many cells so many rows or keys have in the coarsest tile, which is the whole map. */
export const wholeCells = (count) => Math.ceil(count / 2 ** coarsestOf(count));

/* The numbers [first, end) of tiles that a range touches, widened by some tiles on either side. */
function tilesOf([begin, end], level, count, more = 0) {
    const side = TILE_CELLS * 2 ** level;
    return [Math.max(0, Math.floor(begin / side) - more),
        Math.min(Math.ceil(count / side), Math.ceil(end / side) + more)];
}

const overlaps = (a, b) => a[0] < b[1] && b[0] < a[1];
const holds = (range, number) => range[0] <= number && number < range[1];

/* The middle half of a range, which is what is left after zooming in by two. */
function middleOf([begin, end]) {
    const quarter = (end - begin) / 4;
    return [Math.floor(begin + quarter), Math.ceil(end - quarter)];
}

/* The tiles of one map, layer and head by their numbers in the source. */
export class TileStore {
    /* Called without arguments when tiles have come, or fault has changed. */
    onChange = null;
    /* The ApiFault of the last tile that did not come, or null. */
    fault = null;
    /* A promise of the coarsest tile, which is the whole map: it has the largest weight. */
    whole;

    #source;
    #layer;
    #head;
    #counts;                                     /* of rows and of keys */
    #tiles = new Map();                          /* by name, the least recently used first */
    #flights = new Map();                        /* by name: what ends the request */
    #failed = new Map();                         /* by name: when it may be asked for again, in ms */
    #needed = [];                                /* places in the window, the most needed first */
    #ahead = [];
    #window = null;
    #bytes = 0;
    #isClosed = false;
    #giveWhole;

    constructor(source, layer, head) {
        const { rows, keys } = source.layers.find((one) => one.layer === layer);
        this.#source = source;
        this.#layer = layer;
        this.#head = head;
        this.#counts = [rows, keys];
        this.whole = new Promise((give) => { this.#giveWhole = give; });
    }

    /* What to draw for a window of rows and keys on width x height pixels of the screen, coarse tiles first, and asks
     * for what is missing. A tile is {rows, keys, shape, values}: values[shape[0]][shape[1]] over its rows and keys,
     * all cells of one size. It is the same object at each look, so a drawing may be kept in its member bitmap, which
     * is closed with the tile. */
    look(window) {
        if (this.#isClosed || !this.#isSame(window))
            this.#aim(window);
        for (const { name } of [this.#root(), ...this.#needed])
            this.#touch(name);
        this.#ask();
        return this.#drawn();
    }

    /* The smallest cell at hand that has this row and key, {rows, keys, value}, or null. */
    cell(row, key) {
        let best = null;
        for (const tile of this.#tiles.values())
            if (holds(tile.rows, row) && holds(tile.keys, key) && (!best || tile.level < best.level))
                best = tile;
        return best && cellIn(best, row, key);
    }

    /* The cell that the last look draws at this row and key, or null. A finer one may be at hand. */
    drawnCell(row, key) {
        const tile = this.#drawn().findLast((one) => holds(one.rows, row) && holds(one.keys, key));
        return tile ? cellIn(tile, row, key) : null;
    }

    /* Asks again for what did not come. */
    retry() {
        this.#failed.clear();
        this.fault = null;
        this.#ask();
    }

    /* Ends its requests and gives its memory back. */
    close() {
        this.#isClosed = true;
        this.#needed = [];
        this.#ahead = [];
        this.#endFlights();
        for (const name of [...this.#tiles.keys()])
            this.#drop(name);
    }

    #isSame({ rows, keys, width, height }) {
        const old = this.#window;
        return old && rows[0] === old.rows[0] && rows[1] === old.rows[1] && keys[0] === old.keys[0]
            && keys[1] === old.keys[1] && width === old.width && height === old.height;
    }

    #place(levels, i, j) {
        const [rows, keys] = [i, j].map((number, axis) => {
            const side = TILE_CELLS * 2 ** levels[axis];
            return [number * side, Math.min((number + 1) * side, this.#counts[axis])];
        });
        const cells = [rows, keys].map(([begin, end], axis) =>
            Math.ceil((end - begin) / 2 ** levels[axis]));
        return { name: [rows, keys, cells].join('/'), level: levels[0] + levels[1], rows, keys, cells };
    }

    #root() {
        return this.#place(this.#counts.map(coarsestOf), 0, 0);
    }

    /* The tiles of a level in a window, those in its middle first. */
    #placesIn(rows, keys, levels, more = 0) {
        const [top, bottom] = tilesOf(rows, levels[0], this.#counts[0], more);
        const [left, right] = tilesOf(keys, levels[1], this.#counts[1], more);
        const places = [];
        for (let i = top; i < bottom; i++)
            for (let j = left; j < right; j++)
                places.push(this.#place(levels, i, j));
        const off = (range, [begin, end]) => Math.abs(range[0] + range[1] - begin - end) / (end - begin);
        const distance = (place) => off(place.rows, rows) + off(place.keys, keys);
        return places.sort((a, b) => distance(a) - distance(b));
    }

    /* Sets what is asked for: the window's tiles, then one ring around them, and the next level in its middle. */
    #aim({ rows, keys, width, height }) {
        if (this.#isClosed)
            return;
        this.#window = { rows: [...rows], keys: [...keys], width, height };
        const levels = [levelOf(rows[1] - rows[0], height, this.#counts[0]),
            levelOf(keys[1] - keys[0], width, this.#counts[1])];
        const finer = levels.map((level) => Math.max(0, level - 1));
        this.#needed = this.#placesIn(rows, keys, levels);
        this.#ahead = [...this.#placesIn(middleOf(rows), middleOf(keys), finer),
            ...this.#placesIn(rows, keys, levels, 1)];
        this.#endFlights(new Set([this.#root(), ...this.#needed, ...this.#ahead].map(({ name }) => name)));
    }

    /* Ends the requests for tiles that are not wanted any more: the daemon drops their work. */
    #endFlights(wanted = new Set()) {
        for (const [name, flight] of this.#flights)
            if (!wanted.has(name)) {
                this.#flights.delete(name);
                flight.abort();
            }
    }

    #mayAsk({ name }) {
        return !this.#tiles.has(name) && !this.#flights.has(name) && !(this.#failed.get(name) > Date.now());
    }

    #ask() {
        for (const place of [this.#root(), ...this.#needed])
            if (this.#flights.size < FLIGHTS_MAX && this.#mayAsk(place) && !this.#isClosed)
                this.#load(place);
        const isMissing = ({ name }) => !this.#tiles.has(name);
        if (this.#needed.some(isMissing))
            return;
        for (const place of this.#ahead)
            if (this.#flights.size < FLIGHTS_AHEAD_MAX && this.#mayAsk(place) && this.#hasRoom())
                this.#load(place);
    }

    /* What is asked ahead must not push out what is looked at. */
    #hasRoom() {
        return this.#needed.length * TILE_CELLS * TILE_CELLS * BYTES_OF_CELL < BYTES_MAX / 2;
    }

    async #load(place) {
        const flight = new AbortController();
        this.#flights.set(place.name, flight);
        try {
            const map = await this.#source.maps(this.#layer, { head: this.#head, rows: place.rows,
                keys: place.keys, cells: place.cells, signal: flight.signal, hidden: true });
            if (this.#flights.get(place.name) === flight)
                this.#keep(place, map);
        } catch (error) {
            if (this.#flights.get(place.name) === flight)
                this.#fail(place, error);
        }
        if (this.#flights.get(place.name) !== flight)
            return;
        this.#flights.delete(place.name);
        this.#ask();
        this.onChange?.();
    }

    #keep({ name, level, rows, keys }, map) {
        this.#failed.delete(name);
        if (this.#failed.size === 0)
            this.fault = null;
        const shape = [map.rows, map.keys];
        this.#tiles.set(name, { rows, keys, shape, values: map.values, level, bitmap: null });
        if (name === this.#root().name)
            this.#giveWhole(this.#tiles.get(name));
        this.#bytes += map.values.length * BYTES_OF_CELL;
        const looked = new Set([this.#root(), ...this.#needed].map((place) => place.name));
        for (const old of [...this.#tiles.keys()])
            if (this.#bytes > BYTES_MAX && !looked.has(old) && old !== name)
                this.#drop(old);
    }

    /* What the daemon has no room for is asked again when it says; else somebody has to. */
    #fail({ name }, error) {
        this.fault = error;
        const wait = error.retryAfter === null || error.retryAfter === undefined ? Infinity
            : Math.max(0.1, error.retryAfter) * 1000;
        this.#failed.set(name, Date.now() + wait);
        if (wait < Infinity)
            setTimeout(() => this.#isClosed || this.#ask(), wait + 1);
    }

    #touch(name) {
        const tile = this.#tiles.get(name);
        if (tile) {
            this.#tiles.delete(name);
            this.#tiles.set(name, tile);
        }
    }

    #drop(name) {
        const tile = this.#tiles.get(name);
        this.#bytes -= tile.values.length * BYTES_OF_CELL;
        tile.bitmap?.close?.();
        tile.bitmap = null;
        this.#tiles.delete(name);
    }

    /* The window's own tiles; while some are missing all that touches it lies below them. */
    #drawn() {
        if (!this.#window)
            return [];
        const own = this.#needed.map(({ name }) => this.#tiles.get(name));
        if (own.every(Boolean))
            return own;
        const { rows, keys } = this.#window;
        const below = [...this.#tiles.values()].filter((tile) => !own.includes(tile)
            && overlaps(tile.rows, rows) && overlaps(tile.keys, keys));
        return [...below.sort((a, b) => b.level - a.level), ...own.filter(Boolean)];
    }
}

/* The cell of a number in a range of so many cells, and the numbers [begin, end) that are in it: number i of n is in
 * cell floor(i * cells / n). */
function cellOf([begin, end], cells, number) {
    const n = end - begin;
    const cell = Math.floor((number - begin) * cells / n);
    return [cell, [begin + Math.ceil(cell * n / cells), begin + Math.ceil((cell + 1) * n / cells)]];
}

/* The cell of a tile that has this row and key, {rows, keys, value}. */
function cellIn({ rows, keys, shape, values }, row, key) {
    const [r, ofRows] = cellOf(rows, shape[0], row);
    const [c, ofKeys] = cellOf(keys, shape[1], key);
    return { rows: ofRows, keys: ofKeys, value: values[r * shape[1] + c] };
}
