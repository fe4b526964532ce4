// SPDX-License-Identifier: Apache-2.0
/* maps_loader.js - the small maps of all heads of a layer, asked for while somebody wants them, and kept. They are for
 * pictures alone, so their numbers have 16 bits; NaN is a cell that may not be seen. */
import { joinSpans, spanOf } from '../draw/range.js';

export class MapsLoader {
    #source;
    #cells;
    #onChange;
    #onFault;
    #layers = new Map(); /* layer -> {maps, span, ending, calls} */

    /* cells(layer) -> [rows, keys] of its maps. onChange(numbers of the layers that are being read). */
    constructor(source, cells, { onChange, onFault }) {
        this.#source = source;
        this.#cells = cells;
        this.#onChange = onChange;
        this.#onFault = onFault;
    }

    /* Calls call(maps) when the maps of a layer are there. Gives a function that ends the wish; a request that nobody
     * wants any more is aborted. */
    want(layer, call) {
        const entry = this.#layers.get(layer.layer) ?? this.#begin(layer);
        if (entry.maps)
            call(entry.maps);
        else
            entry.calls.add(call);
        return () => {
            entry.calls.delete(call);
            if (!entry.maps && entry.calls.size === 0)
                this.#end(layer.layer, entry);
        };
    }

    /* The span (range.js) of all maps that are there; null: none is. Of the weight that 99 of 100 are below it has that
     * of the layer where it is largest. */
    get span() {
        return joinSpans([...this.#layers.values()].map((entry) => {
            entry.span ??= entry.maps && spanOf(entry.maps.values);
            return entry.span;
        }));
    }

    close() {
        for (const [number, entry] of this.#layers)
            this.#end(number, entry);
    }

    #begin(layer) {
        const entry = { maps: null, span: null, ending: new AbortController(), calls: new Set() };
        this.#layers.set(layer.layer, entry);
        this.#tell();
        const cells = this.#cells(layer);
        this.#source.maps(layer.layer, { head: 'all', rows: [0, layer.rows], keys: [0, layer.keys], cells,
            signal: entry.ending.signal, dtype: 'f16', hidden: true }).then((maps) => {
            entry.maps = maps;
            entry.calls.forEach((call) => call(maps));
            entry.calls.clear();
            this.#tell();
        }, (error) => {
            if (entry.ending.signal.aborted)
                return;
            this.#end(layer.layer, entry);
            this.#onFault(error);
        });
        return entry;
    }

    #end(number, entry) {
        entry.ending.abort();
        if (this.#layers.get(number) !== entry)
            return;
        this.#layers.delete(number);
        this.#tell();
    }

    #tell() {
        this.#onChange([...this.#layers].filter(([, entry]) => !entry.maps).map(([number]) => number));
    }
}
