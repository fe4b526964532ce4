// SPDX-License-Identifier: Apache-2.0
/* use_range.js - what the colours of maps run to, once the maps are there, as a hook. */
import { joinSpans, rangeOf, spanOf } from '../draw/range.js';
import { useEffect, useState } from '../vendor/html.js';

const spans = new WeakMap();                     /* by TileStore */

/** Of the maps of several TileStores (null: none) that share their colours: {kind, value} as of rangeOf() (range.js).
 * kind: the one chosen, or null; keys: how many the maps have. */
export function useRange(stores, kind, keys) {
    const [, setCame] = useState(0);
    useEffect(() => {
        let isWanted = true;
        stores.forEach((store) => store && !spans.has(store) && store.whole.then(({ values }) => {
            spans.set(store, spanOf(values));
            if (isWanted)
                setCame((count) => count + 1);
        }));
        return () => { isWanted = false; };
    }, stores);
    return rangeOf(kind, joinSpans(stores.map((store) => spans.get(store))), keys);
}
