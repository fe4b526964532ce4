// SPDX-License-Identifier: Apache-2.0
/* progress.js - how far a pass is that somebody waits for: asked of the daemon by the id of its request, and told to
 * whoever follows the signal that would end it. */
import { getJson } from './api.js';

const FIRST_MS = 1000;                           /* a pass that takes less is not asked for */
const NEXT_MS = 500;

const followers = new WeakMap();                 /* by signal: call */

/* call({queued, layers, of}) is told how far the pass is that this signal would end, until that is over. */
export function followProgress(signal, call) {
    followers.set(signal, call);
}

/* An id for a request, as the header X-Request-Id. */
function makeId() {
    const numbers = crypto.getRandomValues(new Uint32Array(4));
    return `page-${[...numbers].map((number) => number.toString(16).padStart(8, '0')).join('')}`;
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

async function tell(id, signal, call) {
    await pause(FIRST_MS);
    while (!signal.aborted) {
        try {
            call(await getJson(`v1/requests/${id}`, signal));
        } catch (error) {
            if (signal.aborted || error.status !== 404)
                return;                          /* 404: it is on its way to the daemon, or back */
        }
        await pause(NEXT_MS);
    }
}

/* Sends a request {method, path, headers, body} by send(request), and tells who follows the signal. */
export async function sendFollowed(request, signal, send) {
    const call = signal && followers.get(signal);
    if (!call)
        return send(request);
    const id = makeId();
    const ending = new AbortController();
    tell(id, AbortSignal.any([ending.signal, signal]), call);
    try {
        return await send({ ...request, headers: { ...request.headers, 'X-Request-Id': id } });
    } finally {
        ending.abort();
    }
}
