// SPDX-License-Identifier: Apache-2.0
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

const IN_HEADER = /^[\x21-\x7e]+$/;              /* what a header can carry of a key */
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

const FOREIGN = 'The answer is not of the form that the daemon has. Does a proxy answer in its place?';
const UNREACHABLE = 'The daemon does not answer. Is it still running at this address?';

/* The fault of an answer that the daemon does not give. */
export function foreignAnswer() {
    return new ApiFault(0, 'foreign', FOREIGN);
}

/* What a broken connection throws, as a fault; that signal ended it, as an AbortError whatever the reason was. */
function failureOf(error, signal) {
    if (signal?.aborted)
        return error.name === 'AbortError' ? error : new DOMException('The request was ended.', 'AbortError');
    if (error instanceof SyntaxError)
        return foreignAnswer();
    return error instanceof ApiFault ? error : new ApiFault(0, 'unreachable', UNREACHABLE);
}

/* One call. path is relative to the page ("v1/trace"); body is a string, bytes or null; keepalive lets it outlive the
 * page. Gives the Response of a success, else throws an ApiFault, or an AbortError where signal ended it. */
export async function call(method, path, { headers = {}, body = null, signal, keepalive = false } = {}) {
    const sent = { ...headers };
    if (key && !IN_HEADER.test(key))
        throw new ApiFault(401, 'key', 'The key has characters that no key has; a key is letters, digits and signs of '
            + 'ASCII, without blanks.');
    if (key)
        sent.Authorization = `Bearer ${key}`;
    let response;
    try {
        response = await fetch(path, { method, headers: sent, body, signal, keepalive, credentials: 'omit' });
    } catch (error) {
        throw failureOf(error, signal);
    }
    if (!response.ok)
        throw await faultOf(response);
    return response;
}

/* The body of an answer by one of its readers, 'json' or 'arrayBuffer'; a connection may break in its middle. */
export async function bodyOf(response, reader, signal) {
    try {
        return await response[reader]();
    } catch (error) {
        throw failureOf(error, signal);
    }
}

/* GET of JSON. */
export async function getJson(path, signal) {
    return bodyOf(await call('GET', path, { signal }), 'json', signal);
}

/* POST of a JSON value, for JSON. */
export async function postJson(path, value, signal) {
    return sendForJson({ method: 'POST', path, headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify(value) }, signal);
}

/* Sends a request {method, path, headers, body}, for JSON. */
export async function sendForJson({ method, path, headers, body }, signal) {
    return bodyOf(await call(method, path, { headers, body, signal }), 'json', signal);
}
