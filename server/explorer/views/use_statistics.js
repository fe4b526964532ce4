// SPDX-License-Identifier: Apache-2.0
/* use_statistics.js - what the heads of a source do, as a hook. */
import { useEffect, useState } from '../vendor/html.js';

/** The answer of source.statistics(): Map(layer -> {entropy: [...], ...}); null until it is there,
 * or where source is null. */
export function useStatistics(source, onFault) {
    const [known, setKnown] = useState(null);
    useEffect(() => {
        if (!source)
            return undefined;
        let isWanted = true;
        source.statistics().then((statistics) => isWanted && setKnown({ source, statistics }),
            (error) => isWanted && error.name !== 'AbortError' && onFault(error));
        return () => {
            isWanted = false;
        };
    }, [source]);
    return known?.source === source ? known.statistics : null;
}
