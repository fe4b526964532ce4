// SPDX-License-Identifier: Apache-2.0
/* trace_body.js - the request of a trace of an input: JSON, or a safetensors file where numbers come.
 *
 * An input is {model, text, pair, decoderText, tokens, pixels, features, embeddings, edits}; members may be missing or
 * null. Pixels, features and embeddings are {dtype, shape, values}. */
import { writeSafetensors } from './safetensors.js';

const FIELDS = [['text', 'text'], ['pair', 'pair'], ['tokens', 'tokens'],
    ['decoder_text', 'decoderText'], ['edits', 'edits']];
const TENSORS = ['pixels', 'features', 'embeddings'];
const TEXTS = ['model', 'text', 'pair', 'decoder_text'];  /* in metadata as they are, all else as JSON */

const isThere = (value) => value !== null && value !== undefined;

/* What an input has of tensors. */
function tensorsOf(input) {
    return Object.fromEntries(TENSORS.filter((name) => isThere(input[name])).map((name) => [name, input[name]]));
}

/* The edits of a pass without these heads, [[layer, head], ...]; null where all are on. description is the model's. */
export function editsOf(off, description) {
    const layers = description?.layers ?? [];
    const hasKinds = new Set(layers.map(({ kind }) => kind)).size > 1;
    const byLayer = Map.groupBy(off, ([layer]) => layer);
    const edits = [...byLayer].map(([layer, heads]) => ({
        ...(hasKinds ? { kind: layers.find(({ index }) => index === layer)?.kind } : {}),
        layers: [layer], heads: heads.map(([, head]) => head), scale: 0 }));
    return edits.length > 0 ? edits : null;
}

/* POST /v1/trace, or of a path beside it, of an input with more fields, as {method, path, headers, body}; the answer is
 * JSON, or a safetensors file where accept says so. */
export function traceRequest(input, more, { accept = 'application/json', path = 'v1/trace' } = {}) {
    const fields = { model: input.model };
    for (const [name, member] of FIELDS)
        if (isThere(input[member]))
            fields[name] = input[member];
    Object.assign(fields, more);
    const tensors = tensorsOf(input);
    const request = { method: 'POST', path };
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
