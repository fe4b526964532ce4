// SPDX-License-Identifier: Apache-2.0
/* find_heads.js - scores of a model's heads on a probe, 50 random tokens twice: nothing but the repetition tells a
 * token what to look at (API_TRACE.md, "What heads do"). They are of the model, whatever the text and the heads that
 * are off, and are kept while the page is open. */
import { call, getJson, postJson } from './api.js';

/* Score -> the statistic of the probe. */
const STATISTICS = { induction: 'induction', duplicate: 'duplicate', probe_previous: 'previous', probe_first: 'first' };

/* The kinds of layers whose rows are the probe's tokens. */
const KINDS = ['self', 'encoder', 'text'];

const found = new Map();                         /* model -> its scores */

/* Map(layer -> {induction: [a number or null for each head], duplicate, probe_previous, probe_first}), null where
 * nobody has asked for the model's yet. */
export function knownScores(model) {
    return found.get(model) ?? null;
}

function scoresOf({ layers }) {
    return new Map(layers.filter(({ kind }) => KINDS.includes(kind)).map((layer) => [layer.layer,
        Object.fromEntries(Object.entries(STATISTICS).map(([score, name]) => [score, layer[name]]))]));
}

/* Asks for them, once for a model. */
export async function findHeads(model, signal) {
    if (found.has(model))
        return found.get(model);
    const { trace } = await postJson('v1/trace', { model, probe: 'repeat', outputs: [], keep: '1m' }, signal);
    try {
        found.set(model, scoresOf(await getJson(`v1/traces/${trace}/statistics`, signal)));
    } finally {
        call('DELETE', `v1/traces/${trace}`, { keepalive: true }).catch(() => {});
    }
    return found.get(model);
}
