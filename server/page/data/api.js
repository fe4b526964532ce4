/* api.js - calls to the daemon that the page came from, and its faults in its own words. */

/* A fault as the daemon says it. status 0: the daemon could not be reached. retryAfter: in how many seconds it says
 * that there will be room, or null. */
export class ApiFault extends Error {
    constructor(status, code, message, pointer = null, retryAfter = null) {
        super(message);
        this.name = 'ApiFault';
        this.status = status;
        this.code = code;
        this.pointer = pointer;
        this.retryAfter = retryAfter;
    }
}

let key = null; /* in memory only, never in the address and in no storage */

/* The key that calls carry from here on; null: none. */
export function setKey(value) {
    key = value || null;
}

/* Whether calls carry a key. */
export function hasKey() {
    return key !== null;
}

async function faultOf(response) {
    let said = null;
    try {
        said = await response.json();
    } catch {
        /* A proxy between page and daemon may answer something else than JSON. */
    }
    const message = said && typeof said.error === 'string' ? said.error : `${response.status} ${response.statusText}`;
    const seconds = /^\d{1,6}$/.exec(response.headers.get('Retry-After') ?? '');
    return new ApiFault(response.status, said?.code ?? 'unknown', message, said?.pointer ?? null,
        seconds && Number(seconds[0]));
}

/* One call. path is relative to the page ("v1/trace"); body is a string, bytes or null. Gives the Response of a
 * success, else throws an ApiFault, or an AbortError where signal ended it. */
export async function call(method, path, { headers = {}, body = null, signal } = {}) {
    const sent = { ...headers };
    if (key)
        sent.Authorization = `Bearer ${key}`;
    let response;
    try {
        response = await fetch(path, { method, headers: sent, body, signal, credentials: 'omit' });
    } catch (error) {
        if (error.name === 'AbortError')
            throw error;
        throw new ApiFault(0, 'unreachable', 'The daemon does not answer. Is it still running at this address?');
    }
    if (!response.ok)
        throw await faultOf(response);
    return response;
}

/* GET of JSON. */
export async function getJson(path, signal) {
    return (await call('GET', path, { signal })).json();
}

/* POST of a JSON value, for JSON. */
export async function postJson(path, value, signal) {
    const headers = { 'Content-Type': 'application/json' };
    return (await call('POST', path, { headers, body: JSON.stringify(value), signal })).json();
}
