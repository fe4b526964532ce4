// SPDX-License-Identifier: Apache-2.0
/* use_width.js - the width of an element in CSS pixels, followed on change. */
import { useLayoutEffect, useState } from '../vendor/html.js';

/** ref: of the element; 0 until it is there. */
export function useWidth(ref) {
    const [width, setWidth] = useState(0);
    useLayoutEffect(() => {
        setWidth(ref.current.clientWidth);
        const observer = new ResizeObserver(() => ref.current && setWidth(ref.current.clientWidth));
        observer.observe(ref.current);
        return () => observer.disconnect();
    }, []);
    return width;
}
