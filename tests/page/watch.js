// SPDX-License-Identifier: Apache-2.0
/* watch.js - runs in every page of tests/page before the page's own scripts: window.seen tells a test what the page
 * does. It changes nothing of it. */
(() => {
    const seen = window.seen = {
        flying: 0,   /* calls under way */
        asked: [],   /* all calls, as "GET v1/models" */
        aborted: 0,  /* calls that the page ended itself */
        drawn: null, /* when the first picture came to a canvas, in milliseconds from the beginning of the load */
        moved: 0,    /* the layout shift so far: how much of the window moved by itself, and how far */
        since: 0,    /* when something last happened */
        isSettled,   /* whether nothing is under way: a promise, after the next two frames */
    };
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    async function isSettled() {
        await frame();
        await frame();
        return seen.flying === 0 && performance.now() - seen.since > 160
            && !document.querySelector('[aria-busy=true]');
    }
    const touch = () => {
        seen.since = performance.now();
    };
    const follow = (promise) => {
        seen.flying++;
        touch();
        return promise.catch((error) => {
            seen.aborted += error.name === 'AbortError';
            throw error;
        }).finally(() => {
            seen.flying--;
            touch();
        });
    };

    const ask = window.fetch;
    window.fetch = function (address, options) {
        seen.asked.push(`${options?.method ?? 'GET'} ${address}`);
        return follow(ask.call(this, address, options));
    };
    for (const name of ['arrayBuffer', 'blob', 'json', 'text']) {
        const read = Response.prototype[name];
        Response.prototype[name] = function () {
            return follow(read.call(this));
        };
    }
    for (const name of ['putImageData', 'drawImage', 'fillRect']) {
        const draw = CanvasRenderingContext2D.prototype[name];
        CanvasRenderingContext2D.prototype[name] = function (...values) {
            touch();
            if (name !== 'fillRect' && this.canvas.isConnected)
                seen.drawn ??= performance.now();
            return draw.apply(this, values);
        };
    }
    new PerformanceObserver((list) => {
        for (const { value, hadRecentInput } of list.getEntries())
            seen.moved += hadRecentInput ? 0 : value;
    }).observe({ type: 'layout-shift', buffered: true });
    new MutationObserver(touch).observe(document,
        { subtree: true, childList: true, attributes: true, characterData: true });
})();
