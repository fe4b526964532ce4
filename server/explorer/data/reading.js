// SPDX-License-Identifier: Apache-2.0
/* reading.js - what is read of one pass about its answer: what each layer would answer (the lens), and what each part
 * wrote into the answer's logit (contributions). See API_CAUSES.md, "Reading a pass".
 *
 * An answer is {position, token, against}, as in answer.js. */

const LENS_TOKENS = 4;                           /* of each layer */
const CAPPED_FROM = 1e-3;                        /* part of a difference of logits; less is rounding */

const known = new WeakMap();                     /* source -> Map of a question -> its answer */

/* What ask() gives, once for a source and a question: its answers do not change. */
async function once(source, question, ask) {
    const all = known.get(source) ?? known.set(source, new Map()).get(source);
    const name = JSON.stringify(question);
    if (!all.has(name))
        all.set(name, await ask());
    return all.get(name);
}

/* Layer by layer {layer, kind, tokens, target, against}: the most probable tokens, and what the layer says about the
 * two that are asked about, {id, text, logprob, rank} each; against may be null. */
export function askLens(source, { position, token, against }, signal) {
    return once(source, ['lens', position, token, against], async () => {
        const targets = [token, ...(against === null ? [] : [against])].map((id) => ({ token: id, position }));
        const { layers } = await source.post('v1/trace', { outputs: ['lens'], positions: [position],
            top_k_tokens: LENS_TOKENS, targets }, signal);
        return layers.filter(({ lens }) => lens?.length > 0).map(({ layer, kind, lens: [lens] }) => ({ layer, kind,
            tokens: lens.tokens, target: lens.targets[0], against: against === null ? null : lens.targets[1] }));
    });
}

/* Whether the difference of logits is not that of the log-probs: a softcap lies between them. */
export function isCapped(logits, logprobs) {
    return Math.abs(logits - logprobs) > CAPPED_FROM * Math.max(1, Math.abs(logits), Math.abs(logprobs));
}

/* {contribution, isCapped}: that of the API for the token, or for its difference to against. A softcap is seen in the
 * difference to another token, which is asked for as well where the answer itself is no difference. */
export function askContributions(source, { position, token, against }, other, signal) {
    return once(source, ['contributions', position, token, against], async () => {
        const more = against === null && other !== null ? [{ token, position, against: other }] : [];
        const { targets, contributions } = await source.post('v1/trace', { layers: [], outputs: ['contributions'],
            targets: [{ token, position, ...(against === null ? {} : { against }) }, ...more] }, signal);
        const last = targets.length - 1;
        return { contribution: contributions[0], isCapped: targets[last].logit_difference !== undefined
            && isCapped(contributions[last].logit, targets[last].logit_difference) };
    });
}

/* All parts of a contribution as {name, layer, head, value}: they sum to its logit. Those of no layer have layer null,
 * and all but heads have head null. */
export function partsOfLogit({ embedding, bias, layers }) {
    const ofLayer = ({ layer, heads, attention_bias: attentionBias, feed_forward: feedForward, edits }) => [
        ...heads.map((value, head) => ({ name: 'head', layer, head, value })),
        ...Object.entries({ attention_bias: attentionBias, feed_forward: feedForward, edits })
            .filter(([, value]) => Number.isFinite(value)).map(([name, value]) => ({ name, layer, head: null, value })),
    ];
    const alone = (name, value) => ({ name, layer: null, head: null, value });
    return [alone('embedding', embedding), ...layers.flatMap(ofLayer), alone('bias', bias)];
}
