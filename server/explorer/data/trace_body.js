/* trace_body.js - the request of a trace of an input: JSON, or a safetensors file where numbers come.
 *
 * An input is {model, text, pair, decoderText, tokens, pixels, features, embeddings}; members may be missing or null.
 * The last three are {dtype, shape, values}. */
import { writeSafetensors } from './safetensors.js';

const FIELDS = [['text', 'text'], ['pair', 'pair'], ['tokens', 'tokens'], ['decoder_text', 'decoderText']];
const TENSORS = ['pixels', 'features', 'embeddings'];
const TEXTS = ['model', 'text', 'pair', 'decoder_text'];  /* in metadata as they are, all else as JSON */

const isThere = (value) => value !== null && value !== undefined;

/* What an input has of tensors. */
function tensorsOf(input) {
    return Object.fromEntries(TENSORS.filter((name) => isThere(input[name])).map((name) => [name, input[name]]));
}

/* POST /v1/trace of an input with more fields, as {method, path, headers, body}; the answer is JSON, or a safetensors
 * file where accept says so. */
export function traceRequest(input, more, accept = 'application/json') {
    const fields = { model: input.model };
    for (const [name, member] of FIELDS)
        if (isThere(input[member]))
            fields[name] = input[member];
    Object.assign(fields, more);
    const tensors = tensorsOf(input);
    const request = { method: 'POST', path: 'v1/trace' };
    if (Object.keys(tensors).length === 0) {
        const headers = { 'Content-Type': 'application/json' };
        return { ...request, headers: accept === 'application/json' ? headers : { ...headers, Accept: accept },
            body: JSON.stringify(fields) };
    }
    const metadata = Object.fromEntries(Object.entries(fields).map(
        ([name, value]) => [name, TEXTS.includes(name) ? value : JSON.stringify(value)]));
    return { ...request, headers: { 'Content-Type': 'application/x-safetensors', Accept: accept },
        body: writeSafetensors(tensors, metadata) };
}
